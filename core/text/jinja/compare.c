/* Hashes, equality, order and containment, as Python has them. */
#include "core/text/jinja/methods.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define MAX_COMPARED_DEPTH 1000

static uint64_t hash_text(struct mt_jslice text)
{
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */
    for (size_t i = 0; i < text.bytes; i++)
        hash = (hash ^ (unsigned char)text.data[i]) * 0x100000001b3u;
    return hash ^ hash >> 29;
}

static uint64_t hash_integer(int64_t integer)
{
    const uint64_t hash = (uint64_t)integer * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 32;
}

static bool hash_at(struct mt_jrun *run, const struct mt_jvalue *value, unsigned depth, uint64_t *hash)
{
    if (!mt_jwork(run, mt_jis_text(value) ? value->text.bytes : MT_J_STEP_BYTES))
        return false;
    switch (value->kind) {
    case MT_J_TEXT:
    case MT_J_WIDE:
        *hash = hash_text(value->text);
        return true;
    case MT_J_BOOL:
    case MT_J_INT:
        *hash = hash_integer(mt_jinteger(value));
        return true;
    case MT_J_FLOAT: /* equal numbers have equal hashes */
        if (value->number >= -0x1p63 && value->number < 0x1p63 && value->number == floor(value->number))
            *hash = hash_integer((int64_t)value->number);
        else
            memcpy(hash, &value->number, sizeof *hash);
        return true;
    case MT_J_NONE:
        *hash = 0x6e6f6e65;
        return true;
    case MT_J_UNDEFINED:
        *hash = 0x756e6465;
        return true;
    case MT_J_TUPLE:
        *hash = 0x74757065;
        if (depth > MAX_COMPARED_DEPTH)
            return false;
        for (size_t i = 0; i < value->list->count; i++) {
            uint64_t item;
            if (!hash_at(run, value->list->items[i], depth + 1, &item))
                return false;
            *hash = *hash * 31 + item;
        }
        return true;
    case MT_J_LIST:
    case MT_J_DICT:
    case MT_J_VIEW:
    case MT_J_RANGE:
    case MT_J_LOOP:
        return false;
    default:
        *hash = hash_integer((int64_t)(uintptr_t)value);
        return true;
    }
}

bool mt_jhash(struct mt_jrun *run, const struct mt_jvalue *value, uint64_t *hash)
{
    return hash_at(run, value, 0, hash);
}

/* Exact: a long double holds every 64-bit integer and every double. */
static int compare_numbers(const struct mt_jvalue *a, const struct mt_jvalue *b, bool *unordered)
{
    const long double x = mt_jis(a, MT_J_FLOAT) ? (long double)a->number : (long double)mt_jinteger(a);
    const long double y = mt_jis(b, MT_J_FLOAT) ? (long double)b->number : (long double)mt_jinteger(b);
    *unordered = isnan(x) || isnan(y);
    return x < y ? -1 : x > y;
}

static int compare_texts(struct mt_jslice a, struct mt_jslice b)
{
    const size_t common = a.bytes < b.bytes ? a.bytes : b.bytes;
    const int order = common ? memcmp(a.data, b.data, common) : 0;
    return order ? order : a.bytes < b.bytes ? -1 : a.bytes > b.bytes;
}

static bool equal_at(struct mt_jrun *run, const struct mt_jvalue *a, const struct mt_jvalue *b,
                     unsigned depth);

static bool equal_dicts(struct mt_jrun *run, const struct mt_jdict *a, const struct mt_jdict *b,
                        unsigned depth)
{
    if (a->count != b->count)
        return false;
    for (size_t i = 0; i < a->count; i++) {
        const struct mt_jvalue *other = mt_jdict_get(run, b, a->entries[i].key);
        if (!other || !equal_at(run, a->entries[i].value, other, depth + 1))
            return false;
    }
    return true;
}

/* Whether a whole number beyond 64 bits is one with a fraction of zero. */
static bool is_float(const struct mt_jvalue *wide, double number)
{
    char digits[330];
    const int length = snprintf(digits, sizeof digits, "%.0f", number);
    return (size_t)length == wide->text.bytes && memcmp(digits, wide->text.data, wide->text.bytes) == 0;
}

static bool equal_at(struct mt_jrun *run, const struct mt_jvalue *a, const struct mt_jvalue *b,
                     unsigned depth)
{
    const bool texts = mt_jis_text(a) && mt_jis_text(b) && a->text.bytes == b->text.bytes;
    if (!mt_jwork(run, MT_J_STEP_BYTES + (texts ? a->text.bytes : 0)))
        return false;
    if (mt_jis_number(a) && mt_jis_number(b)) {
        bool unordered;
        return compare_numbers(a, b, &unordered) == 0 && !unordered;
    }
    if (mt_jis(a, MT_J_WIDE) && mt_jis(b, MT_J_FLOAT))
        return is_float(a, b->number);
    if (mt_jis(b, MT_J_WIDE) && mt_jis(a, MT_J_FLOAT))
        return is_float(b, a->number);
    if (a->kind != b->kind || depth > MAX_COMPARED_DEPTH)
        return false;
    switch (a->kind) {
    case MT_J_UNDEFINED:
    case MT_J_NONE:
        return true;
    case MT_J_TEXT:
    case MT_J_WIDE:
        return a->text.bytes == b->text.bytes && memcmp(a->text.data, b->text.data, a->text.bytes) == 0;
    case MT_J_LIST:
    case MT_J_TUPLE:
        if (a->list->count != b->list->count)
            return false;
        for (size_t i = 0; i < a->list->count; i++)
            if (a->list->items[i] != b->list->items[i] &&
                !equal_at(run, a->list->items[i], b->list->items[i], depth + 1))
                return false;
        return true;
    case MT_J_DICT:
        return equal_dicts(run, a->dict, b->dict, depth);
    case MT_J_RANGE:
        return a->range->count == b->range->count &&
               (!a->range->count || (a->range->start == b->range->start &&
                                     (a->range->count == 1 || a->range->step == b->range->step)));
    default:
        return a == b;
    }
}

bool mt_jequal(struct mt_jrun *run, const struct mt_jvalue *a, const struct mt_jvalue *b)
{
    return equal_at(run, a, b, 0);
}

bool mt_jcompare(struct mt_jrun *run, struct mt_jvalue *a, struct mt_jvalue *b, int *order, bool *unordered)
{
    *unordered = false;
    if (mt_jis(a, MT_J_UNDEFINED))
        return mt_jfail_undefined(run, a);
    if (mt_jis(b, MT_J_UNDEFINED))
        return mt_jfail_undefined(run, b);
    if (mt_jis_number(a) && mt_jis_number(b)) {
        *order = compare_numbers(a, b, unordered);
        return true;
    }
    if (mt_jis(a, MT_J_WIDE) || mt_jis(b, MT_J_WIDE))
        return mt_jfail_unsupported(run, "the order of whole numbers of more than 64 bits is not supported");
    if (mt_jis_text(a) && mt_jis_text(b)) {
        *order = compare_texts(a->text, b->text);
        return mt_jwork(run, a->text.bytes < b->text.bytes ? a->text.bytes : b->text.bytes);
    }
    if (a->kind == b->kind && (mt_jis(a, MT_J_LIST) || mt_jis(a, MT_J_TUPLE))) {
        const struct mt_jlist *x = a->list, *y = b->list;
        for (size_t i = 0; i < x->count && i < y->count; i++) {
            if (mt_jequal(run, x->items[i], y->items[i]))
                continue;
            if (!mt_jenter(run))
                return false;
            const bool ok = mt_jcompare(run, x->items[i], y->items[i], order, unordered);
            mt_jleave(run);
            return ok;
        }
        *order = x->count < y->count ? -1 : x->count > y->count;
        return true;
    }
    return mt_jfail(run, "values of the types %s and %s have no order", mt_jtype(a), mt_jtype(b));
}

static bool contains_item(struct mt_jrun *run, struct mt_jvalue *container, struct mt_jvalue *item,
                          bool *found)
{
    struct mt_jiterator iterator;
    if (!mt_jiterate(run, container, &iterator))
        return false;
    for (struct mt_jvalue *other; !*found && (other = mt_jnext(run, &iterator));)
        *found = other == item || mt_jequal(run, other, item);
    return !run->failed;
}

bool mt_jcontains(struct mt_jrun *run, struct mt_jvalue *container, struct mt_jvalue *item, bool *found)
{
    *found = false;
    switch (container->kind) {
    case MT_J_TEXT:
        if (mt_jis(item, MT_J_UNDEFINED) || !mt_jis_text(item))
            return mt_jfail(run, "`in` of a text needs a text on its left, not a value of type %s",
                            mt_jtype(item));
        if (!mt_jfind_work(run, container->text.bytes, item->text.bytes, false))
            return false;
        *found = mt_jfind_text(container->text, item->text, false) != SIZE_MAX;
        return true;
    case MT_J_DICT: {
        uint64_t hash;
        if (!mt_jhash(run, item, &hash))
            return mt_jfail(run, "a value of type %s can't be the key of a dict", mt_jtype(item));
        *found = mt_jdict_get(run, container->dict, item);
        return true;
    }
    case MT_J_RANGE: {
        const struct mt_jrange *range = container->range;
        if (!mt_jis_number(item))
            return true;
        const double number = mt_jnumber(item);
        if (number != floor(number) || fabs(number) >= 0x1p62 || !range->count)
            return true;
        const int64_t distance = (int64_t)number - range->start;
        *found = distance % range->step == 0 && distance / range->step >= 0 &&
                 (uint64_t)(distance / range->step) < range->count;
        return true;
    }
    default:
        return contains_item(run, container, item, found);
    }
}

bool mt_jsame(const struct mt_jvalue *a, const struct mt_jvalue *b)
{
    if (a == b)
        return true;
    if (a->kind != b->kind)
        return false;
    switch (a->kind) {
    case MT_J_NONE:
        return true;
    case MT_J_BOOL:
        return a->truth == b->truth;
    case MT_J_INT: /* the small ones that CPython keeps once */
        return a->integer == b->integer && a->integer >= -5 && a->integer <= 256;
    case MT_J_TEXT:
        return a->text.bytes == b->text.bytes && (a->text.data == b->text.data || a->text.bytes == 0 ||
                                                  (a->text.bytes == 1 && a->text.data[0] == b->text.data[0]));
    case MT_J_LIST:
    case MT_J_TUPLE:
        return a->list == b->list;
    case MT_J_DICT:
    case MT_J_NAMESPACE:
        return a->dict == b->dict;
    default:
        return false;
    }
}
