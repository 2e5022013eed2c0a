/* The methods of str that look for another text in it. */
#include "core/text/jinja/methods.h"

#include <string.h>

/* --- finding -------------------------------------------------------------------------------------------- */

/* The part of `self` between two bounds that may be absent, as a slice has them. *first: the number of its
 * first character; false in *possible where the start lies behind the text's end. */
static bool window(struct mt_jrun *run, struct mt_jvalue *self, struct mt_jvalue *start,
                   struct mt_jvalue *stop, struct mt_jslice *text, size_t *first, bool *possible)
{
    size_t length;
    *text = self->text;
    *first = 0;
    *possible = true;
    if (mt_jis_none(start) && mt_jis_none(stop))
        return true;
    if (!mt_jlength(run, self, &length))
        return false;
    int64_t from = 0, to = (int64_t)length;
    if ((!mt_jis_none(start) && !mt_jneed_integer(run, "a bound", start, &from)) ||
        (!mt_jis_none(stop) && !mt_jneed_integer(run, "a bound", stop, &to)))
        return false;
    if (from < 0 && (from += (int64_t)length) < 0)
        from = 0;
    if (to < 0 && (to += (int64_t)length) < 0)
        to = 0;
    if (to > (int64_t)length)
        to = (int64_t)length;
    *possible = from <= (int64_t)length && from <= to;
    if (!*possible)
        return true;
    const size_t begin = mt_joffset(*text, (size_t)from), end = mt_joffset(*text, (size_t)to);
    *text = (struct mt_jslice){text->data + begin, end - begin};
    *first = (size_t)from;
    return true;
}

static struct mt_jvalue *find_in(struct mt_jrun *run, struct mt_jvalue *self, const struct mt_jargs *args,
                                 bool last, bool must)
{
    struct mt_jvalue *given[3];
    struct mt_jslice text;
    size_t first;
    bool possible;
    if (!mt_jpositional(run, "find", args, 1, 3, given) || !mt_jneed_text(run, "find", given[0]) ||
        !window(run, self, given[1], given[2], &text, &first, &possible) ||
        !mt_jfind_work(run, text.bytes, given[0]->text.bytes, last))
        return NULL;
    const size_t at = possible ? mt_jfind_text(text, given[0]->text, last) : SIZE_MAX;
    if (at != SIZE_MAX)
        return mt_jint(run, (int64_t)(first + mt_jcount((struct mt_jslice){text.data, at})));
    return must ? mt_jfail(run, "the text that index looks for is not there") : mt_jint(run, -1);
}

static struct mt_jvalue *find(struct mt_jrun *run, struct mt_jvalue *self, const struct mt_jargs *args)
{
    return find_in(run, self, args, false, false);
}

static struct mt_jvalue *rfind(struct mt_jrun *run, struct mt_jvalue *self, const struct mt_jargs *args)
{
    return find_in(run, self, args, true, false);
}

static struct mt_jvalue *index_of(struct mt_jrun *run, struct mt_jvalue *self, const struct mt_jargs *args)
{
    return find_in(run, self, args, false, true);
}

static struct mt_jvalue *rindex_of(struct mt_jrun *run, struct mt_jvalue *self, const struct mt_jargs *args)
{
    return find_in(run, self, args, true, true);
}

static struct mt_jvalue *count_of(struct mt_jrun *run, struct mt_jvalue *self, const struct mt_jargs *args)
{
    struct mt_jvalue *given[3];
    struct mt_jslice text;
    size_t first, at;
    bool possible;
    if (!mt_jpositional(run, "count", args, 1, 3, given) || !mt_jneed_text(run, "count", given[0]) ||
        !window(run, self, given[1], given[2], &text, &first, &possible) ||
        !mt_jfind_work(run, text.bytes, given[0]->text.bytes, false))
        return NULL;
    if (!possible)
        return mt_jint(run, 0);
    const struct mt_jslice part = given[0]->text;
    if (!part.bytes)
        return mt_jint(run, (int64_t)mt_jcount(text) + 1);
    int64_t count = 0;
    for (; (at = mt_jfind_text(text, part, false)) != SIZE_MAX; count++) {
        text.data += at + part.bytes;
        text.bytes -= at + part.bytes;
    }
    return mt_jint(run, count);
}

static bool has_affix(struct mt_jslice text, struct mt_jslice affix, bool suffix)
{
    return affix.bytes <= text.bytes &&
           memcmp(text.data + (suffix ? text.bytes - affix.bytes : 0), affix.data, affix.bytes) == 0;
}

static struct mt_jvalue *affix_test(struct mt_jrun *run, struct mt_jvalue *self, const struct mt_jargs *args,
                                    bool suffix)
{
    const char *what = suffix ? "endswith" : "startswith";
    struct mt_jvalue *given[3];
    struct mt_jslice text;
    size_t first;
    bool possible;
    if (!mt_jpositional(run, what, args, 1, 3, given) ||
        !window(run, self, given[1], given[2], &text, &first, &possible))
        return NULL;
    if (!mt_jis(given[0], MT_J_TUPLE))
        return mt_jneed_text(run, what, given[0]) && mt_jwork(run, given[0]->text.bytes)
                   ? mt_jbool(possible && has_affix(text, given[0]->text, suffix))
                   : NULL;
    for (size_t i = 0; i < given[0]->list->count; i++) {
        if (!mt_jneed_text(run, what, given[0]->list->items[i]) ||
            !mt_jwork(run, MT_J_STEP_BYTES + given[0]->list->items[i]->text.bytes))
            return NULL;
        if (possible && has_affix(text, given[0]->list->items[i]->text, suffix))
            return mt_jbool(true);
    }
    return mt_jbool(false);
}

static struct mt_jvalue *startswith(struct mt_jrun *run, struct mt_jvalue *self, const struct mt_jargs *args)
{
    return affix_test(run, self, args, false);
}

static struct mt_jvalue *endswith(struct mt_jrun *run, struct mt_jvalue *self, const struct mt_jargs *args)
{
    return affix_test(run, self, args, true);
}

const struct mt_jmethod_name mt_jfind_methods[] = {
    {"startswith", startswith}, {"endswith", endswith}, {"find", find},      {"rfind", rfind},
    {"index", index_of},        {"rindex", rindex_of},  {"count", count_of}, {NULL, NULL},
};
