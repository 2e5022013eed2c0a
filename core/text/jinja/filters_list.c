/* Filters on sequences. */
#include "core/text/jinja/filters.h"

FILTER(length)
{
    size_t length;
    if (!mt_jbind(run, "length", args, NULL, 0, 0, NULL) || !mt_jlength(run, value, &length))
        return NULL;
    return mt_jint(run, (int64_t)length);
}

FILTER(first)
{
    struct mt_jiterator iterator;
    if (!mt_jbind(run, "first", args, NULL, 0, 0, NULL) || !mt_jiterate(run, value, &iterator))
        return NULL;
    struct mt_jvalue *item = mt_jnext(run, &iterator);
    return item || run->failed ? item : mt_jundefined_hint(run, "No first item, sequence was empty.");
}

FILTER(last)
{
    if (!mt_jbind(run, "last", args, NULL, 0, 0, NULL))
        return NULL;
    if (!mt_jhas_length(value) || mt_jis(value, MT_J_LOOP))
        return mt_jfail(run, "last: a value of type %s can't be walked over backwards", mt_jtype(value));
    struct mt_jvalue *list = mt_jcollect(run, value, MT_J_LIST);
    if (!list)
        return NULL;
    return list->list->count ? list->list->items[list->list->count - 1]
                             : mt_jundefined_hint(run, "No last item, sequence was empty.");
}

FILTER(list)
{
    return mt_jbind(run, "list", args, NULL, 0, 0, NULL) ? mt_jcollect(run, value, MT_J_LIST) : NULL;
}

FILTER(items)
{
    if (!mt_jbind(run, "items", args, NULL, 0, 0, NULL))
        return NULL;
    if (mt_jis(value, MT_J_UNDEFINED))
        return mt_jlist_new(run, MT_J_GENERATOR, 0);
    if (!mt_jis(value, MT_J_DICT))
        return mt_jfail(run, "items needs a dict, not a value of type %s", mt_jtype(value));
    struct mt_jvalue *view = mt_jview_new(run, value->dict, MT_J_ITEMS);
    return view ? mt_jcollect(run, view, MT_J_GENERATOR) : NULL;
}

FILTER(join)
{
    static const char *const names[] = {"d", "attribute"};
    struct mt_jvalue *given[2];
    struct mt_jbuffer buffer = {0};
    struct mt_jiterator iterator;
    if (!mt_jbind(run, "join", args, names, 2, 0, given) || !mt_jiterate(run, value, &iterator))
        return NULL;
    struct mt_jvalue *between = given[0] ? mt_jstr(run, given[0]) : mt_jliteral(run, "");
    size_t count = 0;
    for (struct mt_jvalue *item; between && (item = mt_jnext(run, &iterator)); count++) {
        if (mt_jgiven(given[1]) && !(item = mt_jattribute_path(run, item, given[1], NULL)))
            return NULL;
        if ((count && !mt_jput_slice(run, &buffer, between->text)) || !mt_jwrite(run, &buffer, item))
            return NULL;
    }
    return !between || run->failed ? NULL : mt_jbuffer_value(run, &buffer, false);
}

FILTER(reverse)
{
    if (!mt_jbind(run, "reverse", args, NULL, 0, 0, NULL))
        return NULL;
    if (mt_jis_text(value)) {
        struct mt_jvalue *back = mt_jint(run, -1);
        return back ? mt_jsliced(run, value, NULL, NULL, back) : NULL;
    }
    /* Python's reversed() goes over what has a length; the others become a list. */
    const enum mt_jkind kind = mt_jhas_length(value) ? MT_J_GENERATOR : MT_J_LIST;
    struct mt_jvalue *list = mt_jcollect(run, value, kind);
    for (size_t i = 0; list && i < list->list->count / 2; i++) {
        struct mt_jvalue *item = list->list->items[i];
        list->list->items[i] = list->list->items[list->list->count - 1 - i];
        list->list->items[list->list->count - 1 - i] = item;
    }
    return list;
}

/* A generator of lists. */
static struct mt_jvalue *part_of(struct mt_jrun *run, const struct mt_jlist *all, size_t begin, size_t count)
{
    struct mt_jvalue *part = mt_jlist_new(run, MT_J_LIST, 0);
    for (size_t i = 0; part && i < count; i++)
        if (!mt_jappend(run, part, all->items[begin + i]))
            return NULL;
    return part;
}

FILTER(batch)
{
    static const char *const names[] = {"linecount", "fill_with"};
    struct mt_jvalue *given[2];
    int64_t size = 0;
    if (!mt_jbind(run, "batch", args, names, 2, 1, given) ||
        !mt_jgiven_integer(run, "batch", given[0], &size))
        return NULL;
    const struct mt_jvalue *all = mt_jcollect(run, value, MT_J_LIST);
    struct mt_jvalue *result = mt_jlist_new(run, MT_J_GENERATOR, 0);
    if (!all || !result)
        return NULL;
    if (size < 1)
        return mt_jfail_unsupported(run, "batch: a size below 1 is not supported");
    for (size_t i = 0; i < all->list->count; i += (size_t)size) {
        size_t count = all->list->count - i;
        count = count > (size_t)size ? (size_t)size : count;
        struct mt_jvalue *part = part_of(run, all->list, i, count);
        for (; part && mt_jgiven(given[1]) && count < (size_t)size; count++)
            if (!mt_jappend(run, part, given[1]) || !mt_jstep(run))
                return NULL;
        if (!mt_jappend(run, result, part))
            return NULL;
    }
    return result;
}

FILTER(slice)
{
    static const char *const names[] = {"slices", "fill_with"};
    struct mt_jvalue *given[2];
    int64_t slices = 0;
    if (!mt_jbind(run, "slice", args, names, 2, 1, given) ||
        !mt_jgiven_integer(run, "slice", given[0], &slices))
        return NULL;
    const struct mt_jvalue *all = mt_jcollect(run, value, MT_J_LIST);
    struct mt_jvalue *result = mt_jlist_new(run, MT_J_GENERATOR, 0);
    if (!all || !result)
        return NULL;
    if (slices < 1)
        return mt_jfail(run, "slice needs a number of 1 or more");
    const size_t each = all->list->count / (size_t)slices, longer = all->list->count % (size_t)slices;
    size_t begin = 0;
    for (size_t i = 0; i < (size_t)slices; i++) {
        const size_t count = each + (i < longer);
        struct mt_jvalue *part = part_of(run, all->list, begin, count);
        begin += count;
        if (part && mt_jgiven(given[1]) && i >= longer && !mt_jappend(run, part, given[1]))
            return NULL;
        if (!mt_jappend(run, result, part) || !mt_jstep(run))
            return NULL;
    }
    return result;
}
