/* Filters that compare the items of a sequence. Texts count without regard to case unless asked otherwise. */
#include "core/text/jinja/filters.h"

#include <string.h>

/* Texts in lower case, other values as they are. */
static struct mt_jvalue *without_case(struct mt_jrun *run, struct mt_jvalue *value)
{
    return mt_jis_text(value) ? mt_jchange_case(run, value, MT_J_LOWER) : value;
}

static struct mt_jvalue *key_of(struct mt_jrun *run, struct mt_jvalue *item, struct mt_jvalue *attribute,
                                struct mt_jvalue *absent, bool with_case)
{
    struct mt_jvalue *key = mt_jattribute_path(run, item, attribute, absent);
    return !key || with_case ? key : without_case(run, key);
}

/* The keys of all items; `attribute` may name several with commas, and then a key is a list. */
static struct mt_jvalue **keys_of(struct mt_jrun *run, const struct mt_jlist *list,
                                  struct mt_jvalue *attribute, struct mt_jvalue *absent, bool with_case)
{
    struct mt_jvalue **keys = mt_jalloc(run, list->count + 1, sizeof(struct mt_jvalue *));
    const bool several = mt_jgiven(attribute) && mt_jis_text(attribute) &&
                         memchr(attribute->text.data, ',', attribute->text.bytes);
    for (size_t i = 0; keys && i < list->count; i++) {
        if (!several) {
            if (!(keys[i] = key_of(run, list->items[i], attribute, absent, with_case)))
                return NULL;
            continue;
        }
        keys[i] = mt_jlist_new(run, MT_J_LIST, 0);
        struct mt_jslice rest = attribute->text;
        for (bool more = true; more && keys[i];) {
            const char *comma = memchr(rest.data, ',', rest.bytes);
            const size_t length = comma ? (size_t)(comma - rest.data) : rest.bytes;
            struct mt_jvalue *name = mt_jtext(run, rest.data, length);
            if (!name || !mt_jappend(run, keys[i], key_of(run, list->items[i], name, absent, with_case)))
                return NULL;
            more = comma;
            rest.data += length + more;
            rest.bytes -= length + more;
        }
        if (!keys[i])
            return NULL;
    }
    return keys;
}

FILTER(sort)
{
    static const char *const names[] = {"reverse", "case_sensitive", "attribute"};
    struct mt_jvalue *given[3];
    if (!mt_jbind(run, "sort", args, names, 3, 0, given))
        return NULL;
    struct mt_jvalue *list = mt_jcollect(run, value, MT_J_LIST);
    struct mt_jvalue **keys =
        list ? keys_of(run, list->list, given[2], NULL, given[1] && mt_jtruth(given[1])) : NULL;
    return keys && mt_jsort(run, keys, list->list->items, list->list->count, given[0] && mt_jtruth(given[0]))
               ? list
               : NULL;
}

FILTER(dictsort)
{
    static const char *const names[] = {"case_sensitive", "by", "reverse"};
    struct mt_jvalue *given[3];
    if (!mt_jbind(run, "dictsort", args, names, 3, 0, given))
        return NULL;
    const struct mt_jslice by =
        given[1] && mt_jis_text(given[1]) ? given[1]->text : (struct mt_jslice){"key", 3};
    if (!mt_jslice_is(by, "key") && !mt_jslice_is(by, "value"))
        return mt_jfail(run, "dictsort: by must be key or value");
    if (mt_jis(value, MT_J_UNDEFINED))
        return mt_jfail_undefined(run, value);
    if (!mt_jis(value, MT_J_DICT))
        return mt_jfail(run, "dictsort needs a dict, not a value of type %s", mt_jtype(value));
    struct mt_jvalue *view = mt_jview_new(run, value->dict, MT_J_ITEMS);
    struct mt_jvalue *list = view ? mt_jcollect(run, view, MT_J_LIST) : NULL;
    struct mt_jvalue **keys = list ? mt_jalloc(run, list->list->count + 1, sizeof(struct mt_jvalue *)) : NULL;
    for (size_t i = 0; keys && i < list->list->count; i++) {
        keys[i] = list->list->items[i]->list->items[mt_jslice_is(by, "value")];
        if (!(given[0] && mt_jtruth(given[0])) && !(keys[i] = without_case(run, keys[i])))
            return NULL;
    }
    return keys && mt_jsort(run, keys, list->list->items, list->list->count, given[2] && mt_jtruth(given[2]))
               ? list
               : NULL;
}

FILTER(unique)
{
    static const char *const names[] = {"case_sensitive", "attribute"};
    struct mt_jvalue *given[2];
    struct mt_jiterator iterator;
    if (!mt_jbind(run, "unique", args, names, 2, 0, given) || !mt_jiterate(run, value, &iterator))
        return NULL;
    struct mt_jdict *seen = mt_jdict_new(run, 0);
    struct mt_jvalue *result = mt_jlist_new(run, MT_J_GENERATOR, 0);
    if (!seen || !result)
        return NULL;
    for (struct mt_jvalue *item; (item = mt_jnext(run, &iterator));) {
        struct mt_jvalue *key = key_of(run, item, given[1], NULL, given[0] && mt_jtruth(given[0]));
        const size_t count = seen->count;
        if (!key || !mt_jdict_put(run, seen, key, item) ||
            (seen->count > count && !mt_jappend(run, result, item)))
            return NULL;
    }
    return run->failed ? NULL : result;
}

static struct mt_jvalue *extreme(struct mt_jrun *run, struct mt_jvalue *value, const struct mt_jargs *args,
                                 bool largest)
{
    static const char *const names[] = {"case_sensitive", "attribute"};
    struct mt_jvalue *given[2], *best = NULL, *best_key = NULL;
    struct mt_jiterator iterator;
    if (!mt_jbind(run, largest ? "max" : "min", args, names, 2, 0, given) ||
        !mt_jiterate(run, value, &iterator))
        return NULL;
    for (struct mt_jvalue *item; (item = mt_jnext(run, &iterator));) {
        struct mt_jvalue *key = key_of(run, item, given[1], NULL, given[0] && mt_jtruth(given[0]));
        int order = largest ? 1 : -1;
        bool unordered = false;
        if (!key || (best && !mt_jcompare(run, key, best_key, &order, &unordered)))
            return NULL;
        if (!unordered && (largest ? order > 0 : order < 0)) {
            best = item;
            best_key = key;
        }
    }
    if (run->failed)
        return NULL;
    return best ? best : mt_jundefined_hint(run, "No aggregated item, sequence was empty.");
}

FILTER(min)
{
    return extreme(run, value, args, false);
}

FILTER(max)
{
    return extreme(run, value, args, true);
}

FILTER(groupby)
{
    static const char *const names[] = {"attribute", "default", "case_sensitive"};
    struct mt_jvalue *given[3], *group = NULL, *group_key = NULL;
    if (!mt_jbind(run, "groupby", args, names, 3, 1, given))
        return NULL;
    const bool with_case = given[2] && mt_jtruth(given[2]);
    struct mt_jvalue *absent = mt_jgiven(given[1]) ? given[1] : NULL;
    struct mt_jvalue *list = mt_jcollect(run, value, MT_J_LIST), *result = mt_jlist_new(run, MT_J_LIST, 0);
    if (!list || !result)
        return NULL;
    if (mt_jis_text(given[0]) && memchr(given[0]->text.data, ',', given[0]->text.bytes))
        return mt_jfail_unsupported(run, "groupby with a comma in its attribute is not supported");
    struct mt_jvalue **keys = keys_of(run, list->list, given[0], absent, with_case);
    if (!keys || !mt_jsort(run, keys, list->list->items, list->list->count, false))
        return NULL;
    for (size_t i = 0; i < list->list->count; i++) {
        if (!group || !mt_jequal(run, keys[i], group_key)) {
            group_key = keys[i];
            group = mt_jlist_new(run, MT_J_LIST, 0);
            struct mt_jvalue *grouper = mt_jattribute_path(run, list->list->items[i], given[0], absent);
            struct mt_jvalue *pair = grouper && group ? mt_jpair(run, grouper, group) : NULL;
            if (!pair || !mt_jappend(run, result, pair))
                return NULL;
            pair->list->group = true;
        }
        if (!mt_jappend(run, group, list->list->items[i]))
            return NULL;
    }
    return result;
}
