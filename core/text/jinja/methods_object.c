/* The methods of dicts, lists, tuples, ranges and numbers. What changes its object is kept away, as in
 * jinja2's immutable sandbox. */
#include "core/text/jinja/methods.h"

static bool one_of(struct mt_jslice name, const char *const *names)
{
    for (; *names; names++)
        if (mt_jslice_is(name, *names))
            return true;
    return false;
}

static struct mt_jvalue *unsafe(struct mt_jrun *run, struct mt_jvalue *self, struct mt_jslice name)
{
    struct mt_jvalue *text = mt_jtext_of(run, name, false);
    return text ? mt_jundefined_unsafe(run, self, text) : NULL;
}

/* --- dicts ---------------------------------------------------------------------------------------------- */

static struct mt_jvalue *get(struct mt_jrun *run, struct mt_jvalue *self, const struct mt_jargs *args)
{
    struct mt_jvalue *given[2];
    uint64_t hash;
    if (!mt_jpositional(run, "get", args, 1, 2, given))
        return NULL;
    if (!mt_jhash(run, given[0], &hash))
        return mt_jfail(run, "a value of type %s can't be the key of a dict", mt_jtype(given[0]));
    struct mt_jvalue *value = mt_jdict_get(run, self->dict, given[0]);
    return value ? value : given[1] ? given[1] : mt_jnone();
}

static struct mt_jvalue *view(struct mt_jrun *run, struct mt_jvalue *self, const struct mt_jargs *args,
                              enum mt_jview kind)
{
    return mt_jpositional(run, "the method", args, 0, 0, NULL) ? mt_jview_new(run, self->dict, kind) : NULL;
}

static struct mt_jvalue *items(struct mt_jrun *run, struct mt_jvalue *self, const struct mt_jargs *args)
{
    return view(run, self, args, MT_J_ITEMS);
}

static struct mt_jvalue *keys(struct mt_jrun *run, struct mt_jvalue *self, const struct mt_jargs *args)
{
    return view(run, self, args, MT_J_KEYS);
}

static struct mt_jvalue *values(struct mt_jrun *run, struct mt_jvalue *self, const struct mt_jargs *args)
{
    return view(run, self, args, MT_J_VALUES);
}

/* Nothing changes a dict: a copy can share its entries. */
static struct mt_jvalue *copy_dict(struct mt_jrun *run, struct mt_jvalue *self, const struct mt_jargs *args)
{
    return mt_jpositional(run, "copy", args, 0, 0, NULL) ? mt_jdict_value(run, MT_J_DICT, self->dict) : NULL;
}

struct mt_jvalue *mt_jdict_method(struct mt_jrun *run, struct mt_jvalue *self, struct mt_jslice name)
{
    static const struct mt_jmethod_name methods[] = {
        {"get", get},        {"items", items},   {"keys", keys}, {"values", values},
        {"copy", copy_dict}, {"fromkeys", NULL}, {NULL, NULL},
    };
    static const char *const changing[] = {"clear", "pop", "popitem", "setdefault", "update", NULL};
    if (name.bytes < 3 || name.bytes > 10)
        return NULL;
    if (one_of(name, changing))
        return unsafe(run, self, name);
    return mt_jfind_method(run, methods, self, name);
}

/* --- lists ---------------------------------------------------------------------------------------------- */

static struct mt_jvalue *index_of(struct mt_jrun *run, struct mt_jvalue *self, const struct mt_jargs *args)
{
    struct mt_jvalue *given;
    struct mt_jiterator iterator;
    int64_t index = 0;
    if (!mt_jpositional(run, "index", args, 1, 1, &given) || !mt_jiterate(run, self, &iterator))
        return NULL;
    for (struct mt_jvalue *item; (item = mt_jnext(run, &iterator)); index++)
        if (mt_jequal(run, item, given))
            return mt_jint(run, index);
    return mt_jfail(run, "the value that index looks for is not there");
}

static struct mt_jvalue *count_of(struct mt_jrun *run, struct mt_jvalue *self, const struct mt_jargs *args)
{
    struct mt_jvalue *given;
    struct mt_jiterator iterator;
    int64_t count = 0;
    if (!mt_jpositional(run, "count", args, 1, 1, &given) || !mt_jiterate(run, self, &iterator))
        return NULL;
    for (struct mt_jvalue *item; (item = mt_jnext(run, &iterator));)
        count += mt_jequal(run, item, given);
    return run->failed ? NULL : mt_jint(run, count);
}

static struct mt_jvalue *copy_list(struct mt_jrun *run, struct mt_jvalue *self, const struct mt_jargs *args)
{
    return mt_jpositional(run, "copy", args, 0, 0, NULL) ? mt_jcollect(run, self, MT_J_LIST) : NULL;
}

struct mt_jvalue *mt_jlist_method(struct mt_jrun *run, struct mt_jvalue *self, struct mt_jslice name)
{
    static const struct mt_jmethod_name methods[] = {{"index", index_of}, {"count", count_of}, {NULL, NULL}};
    static const struct mt_jmethod_name copying[] = {{"copy", copy_list}, {NULL, NULL}};
    static const char *const changing[] = {"append", "clear",  "pop",    "reverse", "insert",
                                           "sort",   "extend", "remove", NULL};
    if (mt_jis(self, MT_J_LIST)) {
        if (one_of(name, changing))
            return unsafe(run, self, name);
        struct mt_jvalue *copy = mt_jfind_method(run, copying, self, name);
        if (copy || run->failed)
            return copy;
    }
    if (mt_jis(self, MT_J_TUPLE) && self->list->group) {
        if (mt_jslice_is(name, "grouper"))
            return self->list->items[0];
        if (mt_jslice_is(name, "list"))
            return self->list->items[1];
    }
    if (mt_jis(self, MT_J_RANGE)) {
        if (mt_jslice_is(name, "start"))
            return mt_jint(run, self->range->start);
        if (mt_jslice_is(name, "step"))
            return mt_jint(run, self->range->step);
        if (mt_jslice_is(name, "stop"))
            return mt_jint(run, self->range->stop);
    }
    return mt_jfind_method(run, methods, self, name);
}

/* --- numbers -------------------------------------------------------------------------------------------- */

struct mt_jvalue *mt_jnumber_method(struct mt_jrun *run, struct mt_jvalue *self, struct mt_jslice name)
{
    static const char *const of_integers[] = {"real",       "imag",       "numerator",        "denominator",
                                              "conjugate",  "bit_length", "bit_count",        "to_bytes",
                                              "from_bytes", "is_integer", "as_integer_ratio", NULL};
    static const char *const of_floats[] = {"real", "imag",    "conjugate", "is_integer", "as_integer_ratio",
                                            "hex",  "fromhex", NULL};
    if (one_of(name, mt_jis(self, MT_J_FLOAT) ? of_floats : of_integers))
        return mt_jfail_unsupported(run, "the attributes and methods of numbers are not supported");
    return NULL;
}
