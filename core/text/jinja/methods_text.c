/* The methods of str: finding, splitting, joining, trimming, laying out. What works on the case and kind of
 * characters stands in methods_case.c. */
#include "core/text/jinja/methods.h"
#include "core/text/jinja/unicode.h"

#include <string.h>

#define MAX_SPLITS SIZE_MAX

bool mt_jpositional(struct mt_jrun *run, const char *what, const struct mt_jargs *args, size_t least,
                    size_t most, struct mt_jvalue **values)
{
    if (args->num_keywords)
        return mt_jfail(run, "%s takes no named arguments", what);
    if (args->count < least || args->count > most)
        return mt_jfail(run, "%s takes %zu to %zu arguments, not %zu", what, least, most, args->count);
    for (size_t i = 0; i < most; i++)
        values[i] = i < args->count ? args->items[i] : NULL;
    return true;
}

static bool is_none(const struct mt_jvalue *value)
{
    return !value || mt_jis(value, MT_J_NONE);
}

static bool need_text(struct mt_jrun *run, const char *what, const struct mt_jvalue *value)
{
    if (mt_jis(value, MT_J_UNDEFINED) || !mt_jis_text(value))
        return mt_jfail(run, "%s needs a text, not a value of type %s", what, mt_jtype(value));
    return true;
}

static bool need_integer(struct mt_jrun *run, const char *what, const struct mt_jvalue *value,
                         int64_t *integer)
{
    if (!mt_jis_integer(value))
        return mt_jfail(run, "%s needs a whole number, not a value of type %s", what, mt_jtype(value));
    *integer = mt_jinteger(value);
    return true;
}

static struct mt_jvalue *like(struct mt_jrun *run, const struct mt_jvalue *self, struct mt_jslice text)
{
    return mt_jtext_of(run, text, self->markup);
}

static size_t find_text(struct mt_jslice text, struct mt_jslice part, bool last)
{
    if (part.bytes > text.bytes)
        return SIZE_MAX;
    if (!part.bytes)
        return last ? text.bytes : 0;
    if (!last) {
        const char *found = memmem(text.data, text.bytes, part.data, part.bytes);
        return found ? (size_t)(found - text.data) : SIZE_MAX;
    }
    for (size_t i = text.bytes - part.bytes + 1; i-- > 0;)
        if (memcmp(text.data + i, part.data, part.bytes) == 0)
            return i;
    return SIZE_MAX;
}

/* --- trimming
 * -------------------------------------------------------------------------------------------------------------
 */

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
        (!is_none(characters) && !need_text(run, what, characters)) || !mt_jwork(run, self->text.bytes))
        return NULL;
    return like(run, self, mt_jtrim(self->text, is_none(characters) ? NULL : &characters->text, left, right));
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
    if (!mt_jpositional(run, "remove", args, 1, 1, &affix) || !need_text(run, "remove", affix))
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

/* --- splitting
 * --------------------------------------------------------------------------------------------------------------
 */

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
        const size_t at = find_text(rest, separator, false);
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
            begin = find_text(rest, *separator, true);
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
    if (!is_none(given[0]) && !need_text(run, "split", given[0]))
        return NULL;
    if (given[1] && !need_integer(run, "split", given[1], &most))
        return NULL;
    const size_t bound = most < 0 ? MAX_SPLITS : (size_t)most;
    if (!is_none(given[0]) && !given[0]->text.bytes)
        return mt_jfail(run, "split needs a separator that is not empty");
    bool ok;
    if (right)
        ok = rsplit_at(run, self, is_none(given[0]) ? NULL : &given[0]->text, bound, list);
    else if (is_none(given[0]))
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
        !need_text(run, "partition", separator))
        return NULL;
    if (!separator->text.bytes)
        return mt_jfail(run, "partition needs a separator that is not empty");
    const struct mt_jslice text = self->text;
    const size_t at = find_text(text, separator->text, last), bytes = separator->text.bytes;
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

/* --- finding
 * ------------------------------------------------------------------------------------------------------------------
 */

/* The part of `self` between two bounds that may be absent, as a slice has them. *first: the number of its
 * first character; false in *possible where the start lies behind the text's end. */
static bool window(struct mt_jrun *run, struct mt_jvalue *self, struct mt_jvalue *start,
                   struct mt_jvalue *stop, struct mt_jslice *text, size_t *first, bool *possible)
{
    size_t length;
    *text = self->text;
    *first = 0;
    *possible = true;
    if (is_none(start) && is_none(stop))
        return true;
    if (!mt_jlength(run, self, &length))
        return false;
    int64_t from = 0, to = (int64_t)length;
    if ((!is_none(start) && !need_integer(run, "a bound", start, &from)) ||
        (!is_none(stop) && !need_integer(run, "a bound", stop, &to)))
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
    if (!mt_jpositional(run, "find", args, 1, 3, given) || !need_text(run, "find", given[0]) ||
        !window(run, self, given[1], given[2], &text, &first, &possible) || !mt_jwork(run, text.bytes))
        return NULL;
    const size_t at = possible ? find_text(text, given[0]->text, last) : SIZE_MAX;
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
    if (!mt_jpositional(run, "count", args, 1, 3, given) || !need_text(run, "count", given[0]) ||
        !window(run, self, given[1], given[2], &text, &first, &possible) || !mt_jwork(run, text.bytes))
        return NULL;
    if (!possible)
        return mt_jint(run, 0);
    const struct mt_jslice part = given[0]->text;
    if (!part.bytes)
        return mt_jint(run, (int64_t)mt_jcount(text) + 1);
    int64_t count = 0;
    for (; (at = find_text(text, part, false)) != SIZE_MAX; count++) {
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
        return need_text(run, what, given[0]) ? mt_jbool(possible && has_affix(text, given[0]->text, suffix))
                                              : NULL;
    for (size_t i = 0; i < given[0]->list->count; i++) {
        if (!need_text(run, what, given[0]->list->items[i]))
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

/* --- making others
 * ------------------------------------------------------------------------------------------------------------
 */

struct mt_jvalue *mt_jreplace(struct mt_jrun *run, struct mt_jvalue *self, struct mt_jslice old,
                              struct mt_jslice new, int64_t count)
{
    struct mt_jbuffer buffer = {0};
    struct mt_jslice rest = self->text;
    size_t left = count < 0 ? SIZE_MAX : (size_t)count;
    if (!mt_jwork(run, rest.bytes))
        return NULL;
    while (left) {
        const size_t at = find_text(rest, old, false);
        if (at == SIZE_MAX)
            break;
        left--;
        if (!mt_jput(run, &buffer, rest.data, at) || !mt_jput_slice(run, &buffer, new))
            return NULL;
        size_t skip = at + old.bytes;
        if (!old.bytes) { /* between all characters */
            if (!rest.bytes)
                return mt_jbuffer_value(run, &buffer, self->markup);
            uint32_t character;
            skip = mt_jcharacter(rest.data, rest.bytes, &character);
            if (!mt_jput(run, &buffer, rest.data, skip))
                return NULL;
        }
        rest.data += skip;
        rest.bytes -= skip;
    }
    return mt_jput_slice(run, &buffer, rest) ? mt_jbuffer_value(run, &buffer, self->markup) : NULL;
}

static struct mt_jvalue *replace(struct mt_jrun *run, struct mt_jvalue *self, const struct mt_jargs *args)
{
    struct mt_jvalue *given[3];
    int64_t count = -1;
    if (!mt_jpositional(run, "replace", args, 2, 3, given) || !need_text(run, "replace", given[0]) ||
        !need_text(run, "replace", given[1]) || (given[2] && !need_integer(run, "replace", given[2], &count)))
        return NULL;
    struct mt_jvalue *new = self->markup ? mt_jescape(run, given[1]) : given[1];
    return new ? mt_jreplace(run, self, given[0]->text, new->text, count) : NULL;
}

static struct mt_jvalue *join(struct mt_jrun *run, struct mt_jvalue *self, const struct mt_jargs *args)
{
    struct mt_jvalue *items;
    struct mt_jbuffer buffer = {0};
    struct mt_jiterator iterator;
    if (!mt_jpositional(run, "join", args, 1, 1, &items) || !mt_jiterate(run, items, &iterator))
        return NULL;
    size_t count = 0;
    for (struct mt_jvalue *item; (item = mt_jnext(run, &iterator)); count++) {
        if (self->markup ? !(item = mt_jescape(run, item)) : !need_text(run, "join", item))
            return NULL;
        if ((count && !mt_jput_slice(run, &buffer, self->text)) || !mt_jput_slice(run, &buffer, item->text))
            return NULL;
    }
    return run->failed ? NULL : mt_jbuffer_value(run, &buffer, self->markup);
}

/* Centred text has the odd blank on the left where the width is odd, as in CPython. */
struct mt_jvalue *mt_jjustify(struct mt_jrun *run, struct mt_jvalue *self, int64_t width,
                              struct mt_jslice fill, enum mt_jside side)
{
    struct mt_jbuffer buffer = {0};
    size_t length;
    if (!mt_jlength(run, self, &length))
        return NULL;
    if (width <= (int64_t)length)
        return self;
    const size_t missing = (size_t)width - length;
    const size_t left = side == MT_J_LEFT    ? 0
                        : side == MT_J_RIGHT ? missing
                                             : missing / 2 + (missing & (size_t)width & 1);
    return mt_jput_repeated(run, &buffer, fill, left) && mt_jput_slice(run, &buffer, self->text) &&
                   mt_jput_repeated(run, &buffer, fill, missing - left)
               ? mt_jbuffer_value(run, &buffer, self->markup)
               : NULL;
}

static struct mt_jvalue *justify(struct mt_jrun *run, struct mt_jvalue *self, const struct mt_jargs *args,
                                 enum mt_jside side)
{
    struct mt_jvalue *given[2];
    int64_t width;
    if (!mt_jpositional(run, "justify", args, 1, 2, given) ||
        !need_integer(run, "justify", given[0], &width) || (given[1] && !need_text(run, "justify", given[1])))
        return NULL;
    const struct mt_jslice fill = given[1] ? given[1]->text : (struct mt_jslice){" ", 1};
    if (mt_jcount(fill) != 1 || (self->markup && strchr("&<>'\"", fill.data[0])))
        return mt_jfail(run, "what fills a text up must be one character");
    return mt_jjustify(run, self, width, fill, side);
}

static struct mt_jvalue *ljust(struct mt_jrun *run, struct mt_jvalue *self, const struct mt_jargs *args)
{
    return justify(run, self, args, MT_J_LEFT);
}

static struct mt_jvalue *rjust(struct mt_jrun *run, struct mt_jvalue *self, const struct mt_jargs *args)
{
    return justify(run, self, args, MT_J_RIGHT);
}

static struct mt_jvalue *center(struct mt_jrun *run, struct mt_jvalue *self, const struct mt_jargs *args)
{
    return justify(run, self, args, MT_J_CENTER);
}

static struct mt_jvalue *zfill(struct mt_jrun *run, struct mt_jvalue *self, const struct mt_jargs *args)
{
    struct mt_jvalue *given;
    struct mt_jbuffer buffer = {0};
    int64_t width;
    size_t length;
    if (!mt_jpositional(run, "zfill", args, 1, 1, &given) || !need_integer(run, "zfill", given, &width) ||
        !mt_jlength(run, self, &length))
        return NULL;
    struct mt_jslice text = self->text;
    const size_t sign = text.bytes && (text.data[0] == '-' || text.data[0] == '+');
    const size_t missing = width > (int64_t)length ? (size_t)width - length : 0;
    return mt_jput(run, &buffer, text.data, sign) &&
                   mt_jput_repeated(run, &buffer, (struct mt_jslice){"0", 1}, missing) &&
                   mt_jput(run, &buffer, text.data + sign, text.bytes - sign)
               ? mt_jbuffer_value(run, &buffer, self->markup)
               : NULL;
}

static struct mt_jvalue *expandtabs(struct mt_jrun *run, struct mt_jvalue *self, const struct mt_jargs *args)
{
    static const char *const names[] = {"tabsize"};
    struct mt_jvalue *given;
    struct mt_jbuffer buffer = {0};
    int64_t size = 8, column = 0;
    if (!mt_jbind(run, "expandtabs", args, names, 1, 0, &given) ||
        (given && !need_integer(run, "expandtabs", given, &size)))
        return NULL;
    for (size_t i = 0; i < self->text.bytes;) {
        uint32_t character;
        const size_t length = mt_jcharacter(self->text.data + i, self->text.bytes - i, &character);
        if (character == '\t') {
            const int64_t blanks = size > 0 ? size - column % size : 0;
            if (!mt_jput_repeated(run, &buffer, (struct mt_jslice){" ", 1}, (size_t)blanks))
                return NULL;
            column += blanks;
        } else {
            if (!mt_jput(run, &buffer, self->text.data + i, length))
                return NULL;
            column = character == '\n' || character == '\r' ? 0 : column + 1;
        }
        i += length;
    }
    return mt_jbuffer_value(run, &buffer, self->markup);
}

static struct mt_jvalue *format_map(struct mt_jrun *run, struct mt_jvalue *self, const struct mt_jargs *args)
{
    struct mt_jvalue *mapping;
    return mt_jpositional(run, "format_map", args, 1, 1, &mapping) ? mt_jformat_map(run, self, mapping)
                                                                   : NULL;
}

static const struct mt_jmethod_name methods[] = {
    {"split", split},
    {"strip", strip},
    {"rstrip", rstrip},
    {"lstrip", lstrip},
    {"startswith", startswith},
    {"endswith", endswith},
    {"replace", replace},
    {"format", mt_jformat},
    {"join", join},
    {"rsplit", rsplit},
    {"splitlines", splitlines},
    {"partition", partition},
    {"rpartition", rpartition},
    {"removeprefix", removeprefix},
    {"removesuffix", removesuffix},
    {"find", find},
    {"rfind", rfind},
    {"index", index_of},
    {"rindex", rindex_of},
    {"count", count_of},
    {"ljust", ljust},
    {"rjust", rjust},
    {"center", center},
    {"zfill", zfill},
    {"expandtabs", expandtabs},
    {"format_map", format_map},
    {"encode", NULL},
    {"maketrans", NULL},
    {"translate", NULL},
    {NULL, NULL},
};

struct mt_jvalue *mt_jfind_method(struct mt_jrun *run, const struct mt_jmethod_name *names,
                                  struct mt_jvalue *self, struct mt_jslice name)
{
    for (; names->name; names++) {
        if (!mt_jslice_is(name, names->name))
            continue;
        if (!names->call)
            return mt_jfail_unsupported(run, "%s.%s is not supported", mt_jtype(self), names->name);
        return mt_jmethod_new(run, names->name, names->call, self);
    }
    return NULL;
}

struct mt_jvalue *mt_jtext_method(struct mt_jrun *run, struct mt_jvalue *self, struct mt_jslice name)
{
    struct mt_jvalue *method = mt_jfind_method(run, methods, self, name);
    if (!method && !run->failed)
        method = mt_jfind_method(run, mt_jcase_methods, self, name);
    if (!method && !run->failed && self->markup &&
        (mt_jslice_is(name, "unescape") || mt_jslice_is(name, "striptags") || mt_jslice_is(name, "escape")))
        return mt_jfail_unsupported(run, "this method of Markup is not supported");
    return method;
}
