/* object.name, object[key] and slices, as jinja2's sandbox has them: an attribute is looked for among the
 * type's own and then among the items, an item the other way round; what changes an object is kept away. */
#include "core/text/jinja/run.h"
#include "core/text/jinja/unicode.h"

#include <string.h>

/* An attribute of the type itself; NULL where it has none, or with the error set. */
static struct mt_jvalue *type_attribute(struct mt_jrun *run, struct mt_jvalue *object, struct mt_jvalue *name)
{
    const struct mt_jslice text = name->text;
    if (text.bytes > 4 && memcmp(text.data, "__", 2) == 0 && memcmp(text.data + text.bytes - 2, "__", 2) == 0)
        return mt_jis(object, MT_J_NAMESPACE) ? NULL : mt_jundefined_unsafe(run, object, name);
    switch (object->kind) {
    case MT_J_TEXT:
        return mt_jtext_method(run, object, text);
    case MT_J_DICT:
        return mt_jdict_method(run, object, text);
    case MT_J_LIST:
    case MT_J_TUPLE:
    case MT_J_RANGE:
        return mt_jlist_method(run, object, text);
    case MT_J_BOOL:
    case MT_J_INT:
    case MT_J_FLOAT:
        return mt_jnumber_method(run, object, text);
    case MT_J_LOOP:
        return mt_jloop_attribute(run, object, text);
    case MT_J_CYCLER:
    case MT_J_JOINER:
        return mt_jcycler_attribute(run, object, text);
    case MT_J_NAMESPACE:
        return mt_jdict_get(run, object->dict, name);
    case MT_J_FUNCTION:
    case MT_J_METHOD:
    case MT_J_MACRO:
    case MT_J_VIEW:
    case MT_J_GENERATOR:
        if (mt_jis(object, MT_J_FUNCTION) && strcmp(object->function->name, "dict") == 0 &&
            mt_jslice_is(text, "fromkeys"))
            return mt_jfail_unsupported(run, "dict.fromkeys is not supported");
        if (mt_jis(object, MT_J_MACRO) &&
            (mt_jslice_is(text, "name") || mt_jslice_is(text, "arguments") || mt_jslice_is(text, "caller") ||
             mt_jslice_is(text, "catch_kwargs") || mt_jslice_is(text, "catch_varargs")))
            return mt_jfail_unsupported(run, "the attributes of macros are not supported");
        return NULL;
    default:
        return NULL;
    }
}

static bool whole_index(struct mt_jvalue *key, size_t count, size_t *index)
{
    if (!mt_jis_integer(key))
        return false;
    int64_t at = mt_jinteger(key);
    if (at < 0)
        at += (int64_t)count;
    *index = (size_t)at;
    return at >= 0 && (size_t)at < count;
}

/* object[key] without failing: NULL where there is no such item, or with the error set. */
static struct mt_jvalue *own_item(struct mt_jrun *run, struct mt_jvalue *object, struct mt_jvalue *key)
{
    size_t index, count;
    switch (object->kind) {
    case MT_J_DICT:
        return mt_jdict_get(run, object->dict, key);
    case MT_J_LIST:
    case MT_J_TUPLE:
        return whole_index(key, object->list->count, &index) ? object->list->items[index] : NULL;
    case MT_J_RANGE:
        return whole_index(key, object->range->count, &index)
                   ? mt_jint(run, object->range->start + (int64_t)index * object->range->step)
                   : NULL;
    case MT_J_TEXT:
        if (!mt_jis_integer(key) || !mt_jlength(run, object, &count) || !whole_index(key, count, &index))
            return NULL;
        if (object->ascii == 1)
            return mt_jtext_of(run, (struct mt_jslice){object->text.data + index, 1}, object->markup);
        index = mt_joffset(object->text, index);
        uint32_t character;
        return mt_jtext_of(run,
                           (struct mt_jslice){object->text.data + index,
                                              mt_jcharacter(object->text.data + index,
                                                            object->text.bytes - index, &character)},
                           object->markup);
    default:
        return NULL;
    }
}

struct mt_jvalue *mt_jattribute(struct mt_jrun *run, struct mt_jvalue *object, struct mt_jvalue *name)
{
    if (mt_jis(object, MT_J_UNDEFINED))
        return mt_jfail_undefined(run, object);
    struct mt_jvalue *value = type_attribute(run, object, name);
    if (!value && !run->failed)
        value = own_item(run, object, name);
    return value || run->failed ? value : mt_jundefined_name(run, object, name);
}

struct mt_jvalue *mt_jitem(struct mt_jrun *run, struct mt_jvalue *object, struct mt_jvalue *key)
{
    if (mt_jis(object, MT_J_UNDEFINED))
        return mt_jfail_undefined(run, object);
    struct mt_jvalue *value = own_item(run, object, key);
    if (!value && !run->failed && mt_jis_text(key))
        value = type_attribute(run, object, key);
    return value || run->failed ? value : mt_jundefined_name(run, object, key);
}

/* --- slices --------------------------------------------------------------------------------------------- */

struct bounds {
    int64_t start, stop, step;
    size_t count;
};

static bool bound(struct mt_jrun *run, struct mt_jvalue *value, int64_t length, int64_t lowest,
                  int64_t highest, int64_t absent, int64_t *result)
{
    if (!value || mt_jis(value, MT_J_NONE)) {
        *result = absent;
        return true;
    }
    if (!mt_jis_integer(value))
        return mt_jfail(run, "the bounds of a slice must be whole numbers, not of type %s", mt_jtype(value));
    int64_t at = mt_jinteger(value);
    if (at < 0)
        at = at < -length ? -length - 1 : at; /* no overflow */
    if (at < 0)
        at += length;
    *result = at < lowest ? lowest : at > highest ? highest : at;
    return true;
}

static bool resolve(struct mt_jrun *run, size_t count, struct mt_jvalue *start, struct mt_jvalue *stop,
                    struct mt_jvalue *step, struct bounds *bounds)
{
    const int64_t length = (int64_t)count;
    bounds->step = 1;
    if (step && !mt_jis(step, MT_J_NONE)) {
        if (!mt_jis_integer(step))
            return mt_jfail(run, "the step of a slice must be a whole number, not of type %s",
                            mt_jtype(step));
        bounds->step = mt_jinteger(step);
        if (bounds->step == 0)
            return mt_jfail(run, "the step of a slice can't be zero");
        if (bounds->step < -length - 1)
            bounds->step = -length - 1;
        if (bounds->step > length + 1)
            bounds->step = length + 1;
    }
    const bool down = bounds->step < 0;
    const int64_t width = down ? -bounds->step : bounds->step > 0 ? bounds->step : 1;
    const int64_t lowest = down ? -1 : 0, highest = down ? length - 1 : length;
    if (!bound(run, start, length, lowest, highest, down ? highest : lowest, &bounds->start) ||
        !bound(run, stop, length, lowest, highest, down ? lowest : highest, &bounds->stop))
        return false;
    const int64_t distance = down ? bounds->start - bounds->stop : bounds->stop - bounds->start;
    bounds->count = distance > 0 ? (size_t)((distance - 1) / width + 1) : 0;
    return true;
}

static struct mt_jvalue *slice_text(struct mt_jrun *run, const struct mt_jvalue *object,
                                    const struct bounds *bounds)
{
    const struct mt_jslice text = object->text;
    if (!bounds->count)
        return mt_jtext_of(run, (struct mt_jslice){"", 0}, object->markup);
    if (bounds->step == 1) {
        size_t begin = (size_t)bounds->start, bytes = bounds->count;
        if (object->ascii != 1) {
            begin = mt_joffset(text, begin);
            bytes = mt_joffset((struct mt_jslice){text.data + begin, text.bytes - begin}, bytes);
        }
        return mt_jtext_of(run, (struct mt_jslice){text.data + begin, bytes}, object->markup);
    }
    /* The place of each character, so that steps and backward slices take no more than one pass. */
    size_t count = 0;
    size_t *offsets = mt_jalloc(run, text.bytes + 1, sizeof *offsets);
    if (!offsets)
        return NULL;
    for (size_t i = 0; i < text.bytes; count++) {
        uint32_t character;
        offsets[count] = i;
        i += mt_jcharacter(text.data + i, text.bytes - i, &character);
    }
    offsets[count] = text.bytes;
    struct mt_jbuffer buffer = {0};
    for (size_t i = 0; i < bounds->count; i++) {
        const int64_t at = bounds->start + (int64_t)i * bounds->step;
        if (!mt_jput(run, &buffer, text.data + offsets[at], offsets[at + 1] - offsets[at]))
            return NULL;
    }
    return mt_jbuffer_value(run, &buffer, object->markup);
}

struct mt_jvalue *mt_jsliced(struct mt_jrun *run, struct mt_jvalue *object, struct mt_jvalue *start,
                             struct mt_jvalue *stop, struct mt_jvalue *step)
{
    struct bounds bounds;
    size_t count;
    if (mt_jis(object, MT_J_UNDEFINED))
        return mt_jfail_undefined(run, object);
    if (!mt_jis_text(object) && !mt_jis(object, MT_J_LIST) && !mt_jis(object, MT_J_TUPLE) &&
        !mt_jis(object, MT_J_RANGE))
        return mt_jfail(run, "a value of type %s has no slices", mt_jtype(object));
    if (!mt_jlength(run, object, &count) || !resolve(run, count, start, stop, step, &bounds))
        return NULL;
    if (mt_jis_text(object))
        return slice_text(run, object, &bounds);
    if (mt_jis(object, MT_J_RANGE))
        return mt_jrange_new(run,
                             (struct mt_jrange){object->range->start + bounds.start * object->range->step,
                                                object->range->start + bounds.stop * object->range->step,
                                                object->range->step * bounds.step, bounds.count});
    struct mt_jvalue *list = mt_jlist_new(run, object->kind, bounds.count);
    if (!list || !mt_jwork(run, bounds.count * 8))
        return NULL;
    for (size_t i = 0; i < bounds.count; i++)
        list->list->items[i] = object->list->items[bounds.start + (int64_t)i * bounds.step];
    list->list->count = bounds.count;
    return list;
}
