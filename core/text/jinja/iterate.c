/* Walking over values: iter() and list(). */
#include "core/base/size.h"
#include "core/text/jinja/run.h"
#include "core/text/jinja/unicode.h"

#include <string.h>

bool mt_jiterable(const struct mt_jvalue *value)
{
    switch (value->kind) {
    case MT_J_UNDEFINED:
    case MT_J_TEXT:
    case MT_J_LIST:
    case MT_J_TUPLE:
    case MT_J_DICT:
    case MT_J_RANGE:
    case MT_J_VIEW:
    case MT_J_GENERATOR:
        return true;
    default:
        return false;
    }
}

bool mt_jiterate(struct mt_jrun *run, struct mt_jvalue *value, struct mt_jiterator *iterator)
{
    if (mt_jis(value, MT_J_LOOP))
        return mt_jfail_unsupported(run, "walking over `loop` itself is not supported");
    if (!mt_jiterable(value))
        return mt_jfail(run, "a value of type %s can't be walked over", mt_jtype(value));
    *iterator = (struct mt_jiterator){.source = value};
    return true;
}

static struct mt_jvalue *next_of_dict(struct mt_jrun *run, const struct mt_jvalue *source, size_t position)
{
    if (position >= source->dict->count)
        return NULL;
    const struct mt_jentry *entry = &source->dict->entries[position];
    if (mt_jis(source, MT_J_DICT) || source->view == MT_J_KEYS)
        return entry->key;
    return source->view == MT_J_VALUES ? entry->value : mt_jpair(run, entry->key, entry->value);
}

static struct mt_jvalue *next_of_text(struct mt_jrun *run, struct mt_jvalue *source, size_t *position)
{
    if (*position >= source->text.bytes)
        return NULL;
    uint32_t character;
    const struct mt_jslice rest = {source->text.data + *position, source->text.bytes - *position};
    const size_t length = mt_jcharacter(rest.data, rest.bytes, &character);
    *position += length;
    return mt_jtext(run, rest.data, length);
}

struct mt_jvalue *mt_jnext(struct mt_jrun *run, struct mt_jiterator *iterator)
{
    struct mt_jvalue *source = iterator->source;
    if (!mt_jstep(run))
        return NULL;
    switch (source->kind) {
    case MT_J_TEXT:
        return next_of_text(run, source, &iterator->position);
    case MT_J_LIST:
    case MT_J_TUPLE:
        return iterator->position < source->list->count ? source->list->items[iterator->position++] : NULL;
    case MT_J_GENERATOR:
        return source->list->position < source->list->count ? source->list->items[source->list->position++]
                                                            : NULL;
    case MT_J_DICT:
    case MT_J_VIEW:
        return next_of_dict(run, source, iterator->position++);
    case MT_J_RANGE:
        if (iterator->position >= source->range->count)
            return NULL;
        return mt_jint(run, source->range->start + (int64_t)iterator->position++ * source->range->step);
    default: /* undefined: nothing */
        return NULL;
    }
}

bool mt_jappend(struct mt_jrun *run, struct mt_jvalue *value, struct mt_jvalue *item)
{
    struct mt_jlist *list = value->list;
    if (!item)
        return false;
    /* The list's own room is not known: it doubles at powers of two, from four on. */
    if (list->count == 0 || (list->count >= 4 && (list->count & (list->count - 1)) == 0)) {
        struct mt_jvalue **items =
            mt_jalloc(run, mt_size_max(4, 2 * list->count), sizeof(struct mt_jvalue *));
        if (!items)
            return false;
        if (list->count)
            memcpy(items, list->items, list->count * sizeof *items);
        list->items = items;
    }
    list->items[list->count++] = item;
    return true;
}

struct mt_jvalue *mt_jcollect(struct mt_jrun *run, struct mt_jvalue *value, enum mt_jkind kind)
{
    struct mt_jvalue *list = mt_jlist_new(run, kind, 0);
    struct mt_jiterator iterator;
    if (!list || !mt_jiterate(run, value, &iterator))
        return NULL;
    for (struct mt_jvalue *item; (item = mt_jnext(run, &iterator));)
        if (!mt_jappend(run, list, item))
            return NULL;
    return run->failed ? NULL : list;
}
