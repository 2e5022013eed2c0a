/* JSON in (jansson's values) and out (json.dumps, with the arguments that transformers' tojson takes). */
#include "core/base/cleanup.h"
#include "core/base/document.h"
#include "core/text/jinja/run.h"
#include "core/text/jinja/unicode.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static struct mt_jvalue *from_object(struct mt_jrun *run, const json_t *json)
{
    struct mt_jdict *dict = mt_jdict_new(run, json_object_size(json));
    json_t *object = (json_t *)json; /* iterating changes nothing */
    if (!dict)
        return NULL;
    for (void *at = json_object_iter(object); at; at = json_object_iter_next(object, at)) {
        const struct mt_jslice key = {json_object_iter_key(at), json_object_iter_key_len(at)};
        if (!mt_jdict_put_text(run, dict, key, mt_jfrom_json(run, json_object_iter_value(at))))
            return NULL;
    }
    return mt_jdict_value(run, MT_J_DICT, dict);
}

static struct mt_jvalue *from_array(struct mt_jrun *run, const json_t *json)
{
    const size_t count = json_array_size(json);
    struct mt_jvalue *list = mt_jlist_new(run, MT_J_LIST, count);
    for (size_t i = 0; list && i < count; i++) {
        struct mt_jvalue *item = mt_jfrom_json(run, json_array_get(json, i));
        if (!item)
            return NULL;
        list->list->items[list->list->count++] = item;
    }
    return list;
}

struct mt_jvalue *mt_jfrom_json(struct mt_jrun *run, const json_t *json)
{
    switch (json_typeof(json)) {
    case JSON_NULL:
        return mt_jnone();
    case JSON_TRUE:
    case JSON_FALSE:
        return mt_jbool(json_is_true(json));
    case JSON_INTEGER:
        return mt_jint(run, json_integer_value(json));
    case JSON_REAL:
        return mt_jfloat(run, json_real_value(json));
    case JSON_STRING:
        return mt_jtext(run, json_string_value(json), json_string_length(json));
    case JSON_OBJECT:
    case JSON_ARRAY:
        break;
    }
    const char *digits = mt_json_digits(json);
    if (digits)
        return mt_jwide(run, digits, strlen(digits));
    if (!mt_jenter(run))
        return NULL;
    struct mt_jvalue *value = json_is_object(json) ? from_object(run, json) : from_array(run, json);
    mt_jleave(run);
    return value;
}

/* The values of a document that is freed: its texts are copied. */
static struct mt_jvalue *with_own_texts(struct mt_jrun *run, struct mt_jvalue *value)
{
    if (!value || !mt_jwork(run, 64))
        return NULL;
    if (mt_jis_text(value) || mt_jis(value, MT_J_WIDE)) {
        struct mt_jbuffer buffer = {0};
        if (!mt_jput_slice(run, &buffer, value->text))
            return NULL;
        struct mt_jvalue *copy = mt_jbuffer_value(run, &buffer, false);
        if (copy)
            copy->kind = value->kind;
        return copy;
    }
    if (mt_jis(value, MT_J_LIST)) {
        for (size_t i = 0; i < value->list->count; i++)
            if (!(value->list->items[i] = with_own_texts(run, value->list->items[i])))
                return NULL;
    } else if (mt_jis(value, MT_J_DICT)) {
        for (size_t i = 0; i < value->dict->count; i++) {
            struct mt_jentry *entry = &value->dict->entries[i];
            if (!(entry->key = with_own_texts(run, entry->key)) ||
                !(entry->value = with_own_texts(run, entry->value)))
                return NULL;
        }
    }
    return value;
}

struct mt_jvalue *mt_jparse_json(struct mt_jrun *run, struct mt_jslice text)
{
    json_error_t why;
    mt_autojson json_t *json = mt_json_load(text.data, text.bytes, JSON_DECODE_ANY | JSON_ALLOW_NUL, &why);
    if (!json)
        return mt_jfail(run, "from_json: %s", why.text);
    return with_own_texts(run, mt_jfrom_json(run, json));
}

/* --- out ------------------------------------------------------------------------------------------------ */

struct style {
    bool ascii, sort, indented;
    struct mt_jslice indent, item, key; /* what stands before each level, after an item, after a key */
    unsigned level;
};

static bool dump_text(struct mt_jrun *run, struct mt_jbuffer *buffer, struct mt_jslice text, bool ascii)
{
    if (!mt_jputs(run, buffer, "\""))
        return false;
    size_t done = 0;
    for (size_t i = 0; i < text.bytes;) {
        const unsigned char byte = (unsigned char)text.data[i];
        if (byte >= ' ' && byte != '"' && byte != '\\' && (byte < 0x80 || !ascii)) {
            i++;
            continue;
        }
        uint32_t character;
        const size_t length = mt_jcharacter(text.data + i, text.bytes - i, &character);
        static const char from[] = "\"\\\n\r\t\f\b", to[] = "\"\\nrtfb";
        const char *simple = character && character < 0x80 ? strchr(from, (int)character) : NULL;
        bool ok = mt_jput(run, buffer, text.data + done, i - done);
        if (simple)
            ok = ok && mt_jputf(run, buffer, "\\%c", to[simple - from]);
        else if (character < 0x10000)
            ok = ok && mt_jputf(run, buffer, "\\u%04x", character);
        else
            ok = ok && mt_jputf(run, buffer, "\\u%04x\\u%04x", 0xd800 + ((character - 0x10000) >> 10),
                                0xdc00 + ((character - 0x10000) & 0x3ff));
        if (!ok)
            return false;
        done = i += length;
    }
    return mt_jput(run, buffer, text.data + done, text.bytes - done) && mt_jputs(run, buffer, "\"");
}

static bool dump_float(struct mt_jrun *run, struct mt_jbuffer *buffer, double number)
{
    char text[MT_J_FLOAT_BYTES];
    if (isnan(number))
        return mt_jputs(run, buffer, "NaN");
    if (isinf(number))
        return mt_jputs(run, buffer, number < 0 ? "-Infinity" : "Infinity");
    mt_jfloat_repr(number, text);
    return mt_jputs(run, buffer, text);
}

static bool dump(struct mt_jrun *run, struct mt_jbuffer *buffer, struct mt_jvalue *value,
                 struct style *style);

static bool new_line(struct mt_jrun *run, struct mt_jbuffer *buffer, const struct style *style)
{
    return !style->indented ||
           (mt_jputs(run, buffer, "\n") && mt_jput_repeated(run, buffer, style->indent, style->level));
}

static bool dump_key(struct mt_jrun *run, struct mt_jbuffer *buffer, struct mt_jvalue *key,
                     struct style *style)
{
    if (mt_jis_text(key))
        return dump_text(run, buffer, key->text, style->ascii);
    if (!mt_jis_number(key) && !mt_jis(key, MT_J_WIDE) && !mt_jis(key, MT_J_NONE))
        return mt_jfail(run, "tojson: a key of type %s is not possible in JSON", mt_jtype(key));
    return mt_jputs(run, buffer, "\"") && dump(run, buffer, key, style) && mt_jputs(run, buffer, "\"");
}

/* The entries by their keys, where they are to be sorted. */
static bool sort_entries(struct mt_jrun *run, struct mt_jentry *entries, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        const struct mt_jentry entry = entries[i];
        size_t low = 0, high = i;
        while (low < high) {
            const size_t middle = (low + high) / 2;
            int order;
            bool unordered;
            if (!mt_jcompare(run, entry.key, entries[middle].key, &order, &unordered))
                return false;
            if (order < 0)
                high = middle;
            else
                low = middle + 1;
        }
        memmove(&entries[low + 1], &entries[low], (i - low) * sizeof *entries);
        entries[low] = entry;
        if (!mt_jwork(run, (i - low) * sizeof *entries))
            return false;
    }
    return true;
}

static bool dump_dict(struct mt_jrun *run, struct mt_jbuffer *buffer, const struct mt_jdict *dict,
                      struct style *style)
{
    struct mt_jentry *entries = dict->entries;
    if (!dict->count)
        return mt_jputs(run, buffer, "{}");
    if (style->sort) {
        entries = mt_jalloc(run, dict->count, sizeof *entries);
        if (!entries)
            return false;
        memcpy(entries, dict->entries, dict->count * sizeof *entries);
        if (!sort_entries(run, entries, dict->count))
            return false;
    }
    style->level++;
    bool ok = mt_jputs(run, buffer, "{");
    for (size_t i = 0; ok && i < dict->count; i++)
        ok = (!i || mt_jput_slice(run, buffer, style->item)) && new_line(run, buffer, style) &&
             dump_key(run, buffer, entries[i].key, style) && mt_jput_slice(run, buffer, style->key) &&
             dump(run, buffer, entries[i].value, style);
    style->level--;
    return ok && new_line(run, buffer, style) && mt_jputs(run, buffer, "}");
}

static bool dump_list(struct mt_jrun *run, struct mt_jbuffer *buffer, const struct mt_jlist *list,
                      struct style *style)
{
    if (!list->count)
        return mt_jputs(run, buffer, "[]");
    style->level++;
    bool ok = mt_jputs(run, buffer, "[");
    for (size_t i = 0; ok && i < list->count; i++)
        ok = (!i || mt_jput_slice(run, buffer, style->item)) && new_line(run, buffer, style) &&
             dump(run, buffer, list->items[i], style);
    style->level--;
    return ok && new_line(run, buffer, style) && mt_jputs(run, buffer, "]");
}

static bool dump(struct mt_jrun *run, struct mt_jbuffer *buffer, struct mt_jvalue *value, struct style *style)
{
    bool ok;
    switch (value->kind) {
    case MT_J_NONE:
        return mt_jputs(run, buffer, "null");
    case MT_J_BOOL:
        return mt_jputs(run, buffer, value->truth ? "true" : "false");
    case MT_J_INT:
        return mt_jputf(run, buffer, "%" PRId64, value->integer);
    case MT_J_WIDE:
        return mt_jput_slice(run, buffer, value->text);
    case MT_J_FLOAT:
        return dump_float(run, buffer, value->number);
    case MT_J_TEXT:
        return dump_text(run, buffer, value->text, style->ascii);
    case MT_J_LIST:
    case MT_J_TUPLE:
    case MT_J_DICT:
        if (!mt_jenter(run) || !mt_jstep(run))
            return false;
        ok = mt_jis(value, MT_J_DICT) ? dump_dict(run, buffer, value->dict, style)
                                      : dump_list(run, buffer, value->list, style);
        mt_jleave(run);
        return ok;
    default:
        return mt_jfail(run, "tojson: a value of type %s is not possible in JSON", mt_jtype(value));
    }
}

static bool set_indent(struct mt_jrun *run, struct mt_jvalue *indent, struct style *style)
{
    struct mt_jbuffer blanks = {0};
    style->indented = true;
    style->item = (struct mt_jslice){",", 1};
    if (mt_jis_text(indent)) {
        style->indent = indent->text;
        return true;
    }
    if (!mt_jis_integer(indent))
        return mt_jfail(run, "tojson: indent must be a number or a text");
    const int64_t width = mt_jinteger(indent);
    if (!mt_jput_repeated(run, &blanks, (struct mt_jslice){" ", 1}, width > 0 ? (size_t)width : 0))
        return false;
    style->indent = (struct mt_jslice){blanks.data, blanks.bytes};
    return true;
}

static bool set_separators(struct mt_jrun *run, struct mt_jvalue *separators, struct style *style)
{
    const struct mt_jvalue *list = mt_jcollect(run, separators, MT_J_LIST);
    if (!list)
        return false;
    if (list->list->count != 2 || !mt_jis_text(list->list->items[0]) || !mt_jis_text(list->list->items[1]))
        return mt_jfail(run, "tojson: separators must be two texts");
    style->item = list->list->items[0]->text;
    style->key = list->list->items[1]->text;
    return true;
}

struct mt_jvalue *mt_jto_json(struct mt_jrun *run, struct mt_jvalue *value, const struct mt_jargs *args)
{
    static const char *const names[] = {"ensure_ascii", "indent", "separators", "sort_keys"};
    struct mt_jvalue *given[4];
    if (!mt_jbind(run, "tojson", args, names, 4, 0, given))
        return NULL;
    struct style style = {
        .ascii = given[0] && mt_jtruth(given[0]),
        .sort = given[3] && mt_jtruth(given[3]),
        .item = {", ", 2},
        .key = {": ", 2},
    };
    if (given[1] && !mt_jis(given[1], MT_J_NONE) && !set_indent(run, given[1], &style))
        return NULL;
    if (given[2] && !mt_jis(given[2], MT_J_NONE) && !set_separators(run, given[2], &style))
        return NULL;
    struct mt_jbuffer buffer = {0};
    return dump(run, &buffer, value, &style) ? mt_jbuffer_value(run, &buffer, false) : NULL;
}
