/* The methods of str, and what makes a text of others: replacing, joining, laying out. Searching stands in
 * methods_find.c, taking apart in methods_split.c, the case and kind of characters in methods_case.c. */
#include "core/base/size.h"
#include "core/text/jinja/methods.h"
#include "core/text/jinja/unicode.h"

#include <string.h>

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

bool mt_jis_none(const struct mt_jvalue *value)
{
    return !value || mt_jis(value, MT_J_NONE);
}

bool mt_jneed_text(struct mt_jrun *run, const char *what, const struct mt_jvalue *value)
{
    if (mt_jis(value, MT_J_UNDEFINED) || !mt_jis_text(value))
        return mt_jfail(run, "%s needs a text, not a value of type %s", what, mt_jtype(value));
    return true;
}

bool mt_jneed_integer(struct mt_jrun *run, const char *what, const struct mt_jvalue *value, int64_t *integer)
{
    if (!mt_jis_integer(value))
        return mt_jfail(run, "%s needs a whole number, not a value of type %s", what, mt_jtype(value));
    *integer = mt_jinteger(value);
    return true;
}

size_t mt_jfind_text(struct mt_jslice text, struct mt_jslice part, bool last)
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

bool mt_jfind_work(struct mt_jrun *run, size_t bytes, size_t part_bytes, bool each)
{
    size_t work;
    if (!mt_size_mul(bytes, each ? mt_size_max(part_bytes, 1) : 1, &work))
        work = SIZE_MAX / 2;
    return mt_jwork(run, work);
}

/* --- making others -------------------------------------------------------------------------------------- */

struct mt_jvalue *mt_jreplace(struct mt_jrun *run, struct mt_jvalue *self, struct mt_jslice old,
                              struct mt_jslice new, int64_t count)
{
    struct mt_jbuffer buffer = {0};
    struct mt_jslice rest = self->text;
    size_t left = count < 0 ? SIZE_MAX : (size_t)count;
    if (!mt_jfind_work(run, rest.bytes, old.bytes, false))
        return NULL;
    while (left) {
        const size_t at = mt_jfind_text(rest, old, false);
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
    if (!mt_jpositional(run, "replace", args, 2, 3, given) || !mt_jneed_text(run, "replace", given[0]) ||
        !mt_jneed_text(run, "replace", given[1]) ||
        (given[2] && !mt_jneed_integer(run, "replace", given[2], &count)))
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
        if (self->markup ? !(item = mt_jescape(run, item)) : !mt_jneed_text(run, "join", item))
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
        !mt_jneed_integer(run, "justify", given[0], &width) ||
        (given[1] && !mt_jneed_text(run, "justify", given[1])))
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
    if (!mt_jpositional(run, "zfill", args, 1, 1, &given) || !mt_jneed_integer(run, "zfill", given, &width) ||
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
        (given && !mt_jneed_integer(run, "expandtabs", given, &size)))
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
    {"replace", replace}, {"format", mt_jformat},     {"join", join},
    {"ljust", ljust},     {"rjust", rjust},           {"center", center},
    {"zfill", zfill},     {"expandtabs", expandtabs}, {"format_map", format_map},
    {"encode", NULL},     {"maketrans", NULL},        {"translate", NULL},
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
    const struct mt_jmethod_name *const tables[] = {methods, mt_jsplit_methods, mt_jfind_methods,
                                                    mt_jcase_methods};
    struct mt_jvalue *method = NULL;
    for (size_t i = 0; i < sizeof tables / sizeof *tables && !method && !run->failed; i++)
        method = mt_jfind_method(run, tables[i], self, name);
    if (!method && !run->failed && self->markup &&
        (mt_jslice_is(name, "unescape") || mt_jslice_is(name, "striptags") || mt_jslice_is(name, "escape")))
        return mt_jfail_unsupported(run, "this method of Markup is not supported");
    return method;
}
