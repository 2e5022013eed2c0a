/* Filters that choose, or apply other filters and tests by name. */
#include "core/text/jinja/filters.h"

#include <string.h>

FILTER(default)
{
    static const char *const names[] = {"default_value", "boolean"};
    struct mt_jvalue *given[2];
    if (!mt_jbind(run, "default", args, names, 2, 0, given))
        return NULL;
    if (!mt_jis(value, MT_J_UNDEFINED) && !(given[1] && mt_jtruth(given[1]) && !mt_jtruth(value)))
        return value;
    return given[0] ? given[0] : mt_jliteral(run, "");
}

FILTER(attr)
{
    static const char *const names[] = {"name"};
    struct mt_jvalue *name;
    if (!mt_jbind(run, "attr", args, names, 1, 1, &name))
        return NULL;
    if (!mt_jis_text(name))
        return mt_jfail(run, "attr needs a text, not a value of type %s", mt_jtype(name));
    if (mt_jis(value, MT_J_DICT) && mt_jdict_get(run, value->dict, name)) {
        /* An attribute only, never an item. */
        struct mt_jvalue *method = mt_jdict_method(run, value, name->text);
        return method || run->failed ? method : mt_jundefined_name(run, value, name);
    }
    return mt_jattribute(run, value, name);
}

static bool is_number(struct mt_jslice text)
{
    for (size_t i = 0; i < text.bytes; i++)
        if (text.data[i] < '0' || text.data[i] > '9')
            return false;
    return text.bytes && text.bytes < 19;
}

struct mt_jvalue *mt_jattribute_path(struct mt_jrun *run, struct mt_jvalue *item, struct mt_jvalue *path,
                                     struct mt_jvalue *absent)
{
    if (!mt_jgiven(path))
        return item;
    if (!mt_jis_text(path)) {
        item = mt_jitem(run, item, path);
        return item && absent && mt_jis(item, MT_J_UNDEFINED) ? absent : item;
    }
    struct mt_jslice rest = path->text;
    for (bool more = true; more && item;) {
        const char *dot = memchr(rest.data, '.', rest.bytes);
        const struct mt_jslice part = {rest.data, dot ? (size_t)(dot - rest.data) : rest.bytes};
        int64_t number = 0;
        bool overflow;
        struct mt_jvalue *key = is_number(part) && mt_jread_int(part, 10, &number, &overflow)
                                    ? mt_jint(run, number)
                                    : mt_jtext_of(run, part, false);
        item = key ? mt_jitem(run, item, key) : NULL;
        if (item && absent && mt_jis(item, MT_J_UNDEFINED))
            item = absent;
        more = dot;
        rest.data += part.bytes + more;
        rest.bytes -= part.bytes + more;
    }
    return item;
}

/* The filter or test that an argument names. */
static bool need_name(struct mt_jrun *run, const char *what, const struct mt_jvalue *name)
{
    return mt_jis_text(name) || mt_jfail(run, "%s needs the name of a filter or test, not a value of type %s",
                                         what, mt_jtype(name));
}

static struct mt_jvalue *map_attribute(struct mt_jrun *run, struct mt_jvalue *value,
                                       const struct mt_jargs *args, struct mt_jvalue *result)
{
    static const char *const names[] = {"attribute", "default"};
    struct mt_jvalue *given[2];
    struct mt_jiterator iterator;
    if (!mt_jbind(run, "map", args, names, 2, 1, given) || !mt_jiterate(run, value, &iterator))
        return NULL;
    for (struct mt_jvalue *item; (item = mt_jnext(run, &iterator));)
        if (!mt_jappend(run, result,
                        mt_jattribute_path(run, item, given[0], mt_jgiven(given[1]) ? given[1] : NULL)))
            return NULL;
    return run->failed ? NULL : result;
}

FILTER(map)
{
    struct mt_jvalue *result = mt_jlist_new(run, MT_J_GENERATOR, 0);
    struct mt_jiterator iterator;
    bool refused;
    if (!result || !mt_jtruth(value))
        return result;
    if (!args->count)
        return map_attribute(run, value, args, result);
    if (!need_name(run, "map", args->items[0]))
        return NULL;
    const struct mt_jslice name = args->items[0]->text;
    const mt_jfilter filter = mt_jfilter_find(name, &refused);
    if (refused)
        return mt_jfail_unsupported(run, "the filter `%.*s` is not supported", (int)name.bytes, name.data);
    if (!filter)
        return mt_jfail(run, "there is no filter `%.*s`", name.bytes > 80 ? 80 : (int)name.bytes, name.data);
    const struct mt_jargs rest = {args->items + 1, args->count - 1, args->keywords, args->num_keywords};
    if (!mt_jiterate(run, value, &iterator))
        return NULL;
    for (struct mt_jvalue *item; (item = mt_jnext(run, &iterator));)
        if (!mt_jappend(run, result, filter(run, item, &rest)))
            return NULL;
    return run->failed ? NULL : result;
}

/* What passes a test (or is true, without one), or what does not. */
static struct mt_jvalue *choose(struct mt_jrun *run, struct mt_jvalue *value, const struct mt_jargs *args,
                                bool by_attribute, bool keep)
{
    struct mt_jvalue *result = mt_jlist_new(run, MT_J_GENERATOR, 0);
    struct mt_jiterator iterator;
    mt_jtest test = NULL;
    if (!result || !mt_jtruth(value))
        return result;
    if (by_attribute && !args->count)
        return mt_jfail(run, "the filter needs the name of an attribute");
    const size_t used = by_attribute;
    if (args->count > used) {
        if (!need_name(run, "the filter", args->items[used]))
            return NULL;
        const struct mt_jslice name = args->items[used]->text;
        if (!(test = mt_jtest_find(name)))
            return mt_jfail(run, "there is no test `%.*s`", name.bytes > 80 ? 80 : (int)name.bytes,
                            name.data);
    }
    const struct mt_jargs rest = {args->items + used + 1, test ? args->count - used - 1 : 0, args->keywords,
                                  args->num_keywords};
    if (!mt_jiterate(run, value, &iterator))
        return NULL;
    for (struct mt_jvalue *item; (item = mt_jnext(run, &iterator));) {
        struct mt_jvalue *tested = by_attribute ? mt_jattribute_path(run, item, args->items[0], NULL) : item;
        bool holds = false;
        if (!tested || (test && !test(run, tested, &rest, &holds)))
            return NULL;
        if (!test)
            holds = mt_jtruth(tested);
        if (holds == keep && !mt_jappend(run, result, item))
            return NULL;
    }
    return run->failed ? NULL : result;
}

FILTER(select)
{
    return choose(run, value, args, false, true);
}

FILTER(reject)
{
    return choose(run, value, args, false, false);
}

FILTER(selectattr)
{
    return choose(run, value, args, true, true);
}

FILTER(rejectattr)
{
    return choose(run, value, args, true, false);
}
