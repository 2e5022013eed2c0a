/* The methods of str that take a text apart: trimming, splitting. */
#include "core/text/jinja/methods.h"

#include <string.h>

#define MAX_SPLITS SIZE_MAX

static struct mt_jvalue *like(struct mt_jrun *run, const struct mt_jvalue *self, struct mt_jslice text)
{
    return mt_jtext_of(run, text, self->markup);
}

/* --- trimming ------------------------------------------------------------------------------------------- */

static bool trims(uint32_t character, const struct mt_jslice *characters)
{
    if (!characters)
        return mt_jis_space(character);
    for (size_t i = 0; i < characters->bytes;) {
        uint32_t other;
        i += mt_jcharacter(characters->data + i, characters->bytes - i, &other);
        if (other == character)
            return true;
    }
    return false;
}

struct mt_jslice mt_jtrim(struct mt_jslice text, const struct mt_jslice *characters, bool left, bool right)
{
    uint32_t character;
    while (left && text.bytes) {
        const size_t length = mt_jcharacter(text.data, text.bytes, &character);
        if (!trims(character, characters))
            break;
        text.data += length;
        text.bytes -= length;
    }
    while (right && text.bytes) {
        const size_t length = mt_jcharacter_before(text.data, text.bytes, &character);
        if (!trims(character, characters))
            break;
        text.bytes -= length;
    }
    return text;
}

static struct mt_jvalue *strip_sides(struct mt_jrun *run, struct mt_jvalue *self, const struct mt_jargs *args,
                                     const char *what, bool left, bool right)
{
    struct mt_jvalue *characters;
    if (!mt_jpositional(run, what, args, 0, 1, &characters) ||
        (!mt_jis_none(characters) && !mt_jneed_text(run, what, characters)) ||
        !mt_jfind_work(run, self->text.bytes, mt_jis_none(characters) ? 1 : characters->text.bytes, true))
        return NULL;
    return like(run, self,
                mt_jtrim(self->text, mt_jis_none(characters) ? NULL : &characters->text, left, right));
}

static struct mt_jvalue *strip(struct mt_jrun *run, struct mt_jvalue *self, const struct mt_jargs *args)
{
    return strip_sides(run, self, args, "strip", true, true);
}

static struct mt_jvalue *lstrip(struct mt_jrun *run, struct mt_jvalue *self, const struct mt_jargs *args)
{
    return strip_sides(run, self, args, "lstrip", true, false);
}

static struct mt_jvalue *rstrip(struct mt_jrun *run, struct mt_jvalue *self, const struct mt_jargs *args)
{
    return strip_sides(run, self, args, "rstrip", false, true);
}

static struct mt_jvalue *remove_affix(struct mt_jrun *run, struct mt_jvalue *self,
                                      const struct mt_jargs *args, bool suffix)
{
    struct mt_jvalue *affix;
    if (!mt_jpositional(run, "remove", args, 1, 1, &affix) || !mt_jneed_text(run, "remove", affix) ||
        !mt_jwork(run, affix->text.bytes))
        return NULL;
    struct mt_jslice text = self->text;
    const size_t bytes = affix->text.bytes;
    if (bytes <= text.bytes &&
        memcmp(text.data + (suffix ? text.bytes - bytes : 0), affix->text.data, bytes) == 0) {
        text.data += suffix ? 0 : bytes;
        text.bytes -= bytes;
    }
    return like(run, self, text);
}

static struct mt_jvalue *removeprefix(struct mt_jrun *run, struct mt_jvalue *self,
                                      const struct mt_jargs *args)
{
    return remove_affix(run, self, args, false);
}

static struct mt_jvalue *removesuffix(struct mt_jrun *run, struct mt_jvalue *self,
                                      const struct mt_jargs *args)
{
    return remove_affix(run, self, args, true);
}

/* --- splitting ------------------------------------------------------------------------------------------ */

static bool add_part(struct mt_jrun *run, struct mt_jvalue *list, const struct mt_jvalue *self,
                     const char *begin, size_t bytes)
{
    return mt_jappend(run, list, like(run, self, (struct mt_jslice){begin, bytes})) && mt_jstep(run);
}

static bool split_at_space(struct mt_jrun *run, struct mt_jvalue *self, size_t most, struct mt_jvalue *list)
{
    struct mt_jslice rest = mt_jtrim(self->text, NULL, true, false);
    while (rest.bytes) {
        size_t end = 0;
        if (most-- == 0)
            return add_part(run, list, self, rest.data, rest.bytes);
        while (end < rest.bytes) {
            uint32_t character;
            const size_t length = mt_jcharacter(rest.data + end, rest.bytes - end, &character);
            if (mt_jis_space(character))
                break;
            end += length;
        }
        if (!add_part(run, list, self, rest.data, end))
            return false;
        rest = mt_jtrim((struct mt_jslice){rest.data + end, rest.bytes - end}, NULL, true, false);
    }
    return true;
}

static bool split_at(struct mt_jrun *run, struct mt_jvalue *self, struct mt_jslice separator, size_t most,
                     struct mt_jvalue *list)
{
    struct mt_jslice rest = self->text;
    for (; most; most--) {
        const size_t at = mt_jfind_text(rest, separator, false);
        if (at == SIZE_MAX)
            break;
        if (!add_part(run, list, self, rest.data, at))
            return false;
        rest.data += at + separator.bytes;
        rest.bytes -= at + separator.bytes;
    }
    return add_part(run, list, self, rest.data, rest.bytes);
}

static void reverse_items(struct mt_jlist *list)
{
    for (size_t i = 0; i < list->count / 2; i++) {
        struct mt_jvalue *item = list->items[i];
        list->items[i] = list->items[list->count - 1 - i];
        list->items[list->count - 1 - i] = item;
    }
}

/* From the right, with a bound on the splits. */
static bool rsplit_at(struct mt_jrun *run, struct mt_jvalue *self, const struct mt_jslice *separator,
                      size_t most, struct mt_jvalue *list)
{
    struct mt_jslice rest = separator ? self->text : mt_jtrim(self->text, NULL, false, true);
    for (; most && (separator || rest.bytes); most--) {
        size_t begin, end;
        if (separator) {
            if (!mt_jfind_work(run, 1, separator->bytes, true))
                return false;
            begin = mt_jfind_text(rest, *separator, true);
            if (begin == SIZE_MAX)
                break;
            end = begin + separator->bytes;
        } else {
            begin = rest.bytes;
            while (begin) {
                uint32_t character;
                const size_t length = mt_jcharacter_before(rest.data, begin, &character);
                if (mt_jis_space(character))
                    break;
                begin -= length;
            }
            end = begin;
        }
        if (!add_part(run, list, self, rest.data + end, rest.bytes - end) || !mt_jwork(run, rest.bytes - end))
            return false;
        rest.bytes = begin;
        if (!separator)
            rest = mt_jtrim(rest, NULL, false, true);
    }
    if ((separator || rest.bytes) && !add_part(run, list, self, rest.data, rest.bytes))
        return false;
    reverse_items(list->list);
    return true;
}

static struct mt_jvalue *split_sides(struct mt_jrun *run, struct mt_jvalue *self, const struct mt_jargs *args,
                                     bool right)
{
    static const char *const names[] = {"sep", "maxsplit"};
    struct mt_jvalue *given[2], *list = mt_jlist_new(run, MT_J_LIST, 0);
    int64_t most = -1;
    if (!list || !mt_jbind(run, "split", args, names, 2, 0, given) || !mt_jwork(run, self->text.bytes))
        return NULL;
    if (!mt_jis_none(given[0]) && !mt_jneed_text(run, "split", given[0]))
        return NULL;
    if (given[1] && !mt_jneed_integer(run, "split", given[1], &most))
        return NULL;
    const size_t bound = most < 0 ? MAX_SPLITS : (size_t)most;
    if (!mt_jis_none(given[0]) && !given[0]->text.bytes)
        return mt_jfail(run, "split needs a separator that is not empty");
    if (!mt_jfind_work(run, self->text.bytes, mt_jis_none(given[0]) ? 1 : given[0]->text.bytes, right))
        return NULL;
    bool ok;
    if (right)
        ok = rsplit_at(run, self, mt_jis_none(given[0]) ? NULL : &given[0]->text, bound, list);
    else if (mt_jis_none(given[0]))
        ok = split_at_space(run, self, bound, list);
    else
        ok = split_at(run, self, given[0]->text, bound, list);
    return ok ? list : NULL;
}

static struct mt_jvalue *split(struct mt_jrun *run, struct mt_jvalue *self, const struct mt_jargs *args)
{
    return split_sides(run, self, args, false);
}

static struct mt_jvalue *rsplit(struct mt_jrun *run, struct mt_jvalue *self, const struct mt_jargs *args)
{
    return split_sides(run, self, args, true);
}

/* Python's line ends; "\r\n" is one. */
static size_t line_end(struct mt_jslice text, size_t at)
{
    uint32_t character;
    const size_t length = mt_jcharacter(text.data + at, text.bytes - at, &character);
    if (character == '\r' && at + 1 < text.bytes && text.data[at + 1] == '\n')
        return 2;
    const bool end = (character >= 10 && character <= 13) || (character >= 28 && character <= 30) ||
                     character == 0x85 || character == 0x2028 || character == 0x2029;
    return end ? length : 0;
}

bool mt_jsplit_lines(struct mt_jrun *run, struct mt_jvalue *self, bool keep, struct mt_jvalue *list)
{
    const struct mt_jslice text = self->text;
    size_t begin = 0;
    if (!mt_jwork(run, text.bytes))
        return false;
    for (size_t i = 0; i < text.bytes;) {
        uint32_t character;
        const size_t end = line_end(text, i);
        if (!end) {
            i += mt_jcharacter(text.data + i, text.bytes - i, &character);
            continue;
        }
        if (!add_part(run, list, self, text.data + begin, i - begin + (keep ? end : 0)))
            return false;
        begin = i += end;
    }
    return begin == text.bytes || add_part(run, list, self, text.data + begin, text.bytes - begin);
}

static struct mt_jvalue *splitlines(struct mt_jrun *run, struct mt_jvalue *self, const struct mt_jargs *args)
{
    static const char *const names[] = {"keepends"};
    struct mt_jvalue *keep, *list = mt_jlist_new(run, MT_J_LIST, 0);
    if (!list || !mt_jbind(run, "splitlines", args, names, 1, 0, &keep))
        return NULL;
    return mt_jsplit_lines(run, self, keep && mt_jtruth(keep), list) ? list : NULL;
}

static struct mt_jvalue *partition_at(struct mt_jrun *run, struct mt_jvalue *self,
                                      const struct mt_jargs *args, bool last)
{
    struct mt_jvalue *separator, *tuple = mt_jlist_new(run, MT_J_TUPLE, 0);
    if (!tuple || !mt_jpositional(run, "partition", args, 1, 1, &separator) ||
        !mt_jneed_text(run, "partition", separator))
        return NULL;
    if (!separator->text.bytes)
        return mt_jfail(run, "partition needs a separator that is not empty");
    if (!mt_jfind_work(run, self->text.bytes, separator->text.bytes, last))
        return NULL;
    const struct mt_jslice text = self->text;
    const size_t at = mt_jfind_text(text, separator->text, last), bytes = separator->text.bytes;
    bool ok;
    if (at == SIZE_MAX)
        ok = (last || add_part(run, tuple, self, text.data, text.bytes)) &&
             add_part(run, tuple, self, "", 0) && add_part(run, tuple, self, "", 0) &&
             (!last || add_part(run, tuple, self, text.data, text.bytes));
    else
        ok = add_part(run, tuple, self, text.data, at) && add_part(run, tuple, self, text.data + at, bytes) &&
             add_part(run, tuple, self, text.data + at + bytes, text.bytes - at - bytes);
    return ok ? tuple : NULL;
}

static struct mt_jvalue *partition(struct mt_jrun *run, struct mt_jvalue *self, const struct mt_jargs *args)
{
    return partition_at(run, self, args, false);
}

static struct mt_jvalue *rpartition(struct mt_jrun *run, struct mt_jvalue *self, const struct mt_jargs *args)
{
    return partition_at(run, self, args, true);
}

const struct mt_jmethod_name mt_jsplit_methods[] = {
    {"split", split},
    {"strip", strip},
    {"rstrip", rstrip},
    {"lstrip", lstrip},
    {"rsplit", rsplit},
    {"splitlines", splitlines},
    {"partition", partition},
    {"rpartition", rpartition},
    {"removeprefix", removeprefix},
    {"removesuffix", removesuffix},
    {NULL, NULL},
};
