/* str.format and format(): texts with fields, and the layout of one value (Python's format specification). */
#include "core/text/jinja/run.h"
#include "core/text/jinja/unicode.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_WIDTH 100000
#define MAX_PRECISION 300

struct spec {
    struct mt_jslice fill; /* one character; empty: a blank */
    char align;            /* '<' '>' '^' '=' or 0 */
    char sign;             /* '+' '-' ' ' or 0 */
    bool alternate, zero;
    size_t width;
    char grouping; /* ',' '_' or 0 */
    int precision; /* -1: none */
    char type;     /* 0: none */
};

static bool bad_spec(struct mt_jrun *run, struct mt_jslice text, const struct mt_jvalue *value)
{
    return mt_jfail(run, "the format `%.*s` is not possible for a value of type %s",
                    text.bytes > 80 ? 80 : (int)text.bytes, text.data, mt_jtype(value));
}

static size_t read_digits(struct mt_jslice *text, size_t most)
{
    size_t number = 0;
    while (text->bytes && isdigit((unsigned char)text->data[0])) {
        number = number > most ? number : number * 10 + (size_t)(text->data[0] - '0');
        text->data++;
        text->bytes--;
    }
    return number;
}

static bool take(struct mt_jslice *text, char c)
{
    if (!text->bytes || text->data[0] != c)
        return false;
    text->data++;
    text->bytes--;
    return true;
}

/* [[fill]align][sign][#][0][width][grouping][.precision][type] */
static bool read_spec(struct mt_jrun *run, struct mt_jslice text, const struct mt_jvalue *value,
                      struct spec *spec)
{
    const struct mt_jslice whole = text;
    *spec = (struct spec){.precision = -1};
    uint32_t character;
    const size_t first = text.bytes ? mt_jcharacter(text.data, text.bytes, &character) : 0;
    if (text.bytes > first && strchr("<>=^", text.data[first])) {
        spec->fill = (struct mt_jslice){text.data, first};
        spec->align = text.data[first];
        text.data += first + 1;
        text.bytes -= first + 1;
    } else if (text.bytes && strchr("<>=^", text.data[0])) {
        spec->align = text.data[0];
        text.data++;
        text.bytes--;
    }
    if (text.bytes && strchr("+- ", text.data[0])) {
        spec->sign = text.data[0];
        text.data++;
        text.bytes--;
    }
    spec->alternate = take(&text, '#');
    if (take(&text, '0'))
        spec->zero = true;
    spec->width = read_digits(&text, MAX_WIDTH);
    if (text.bytes && (text.data[0] == ',' || text.data[0] == '_')) {
        spec->grouping = text.data[0];
        text.data++;
        text.bytes--;
    }
    if (take(&text, '.')) {
        if (!text.bytes || !isdigit((unsigned char)text.data[0]))
            return bad_spec(run, whole, value);
        spec->precision = (int)read_digits(&text, MAX_WIDTH);
    }
    if (text.bytes == 1) {
        spec->type = text.data[0];
        text.bytes = 0;
    }
    if (text.bytes)
        return bad_spec(run, whole, value);
    if (spec->width > MAX_WIDTH || (!mt_jis_text(value) && spec->precision > MAX_PRECISION) ||
        spec->type == 'n')
        return mt_jfail_unsupported(run, "the format `%.*s` is not supported",
                                    whole.bytes > 80 ? 80 : (int)whole.bytes, whole.data);
    return true;
}

static bool pad(struct mt_jrun *run, struct mt_jbuffer *buffer, struct mt_jslice text,
                const struct spec *spec, char default_align)
{
    const size_t length = mt_jcount(text), missing = spec->width > length ? spec->width - length : 0;
    const char align = spec->align ? spec->align : default_align;
    const size_t before = align == '>' ? missing : align == '^' ? missing / 2 : 0;
    const struct mt_jslice fill =
        spec->fill.bytes ? spec->fill : (struct mt_jslice){spec->zero ? "0" : " ", 1};
    return mt_jput_repeated(run, buffer, fill, before) && mt_jput_slice(run, buffer, text) &&
           mt_jput_repeated(run, buffer, fill, missing - before);
}

static bool format_text(struct mt_jrun *run, struct mt_jbuffer *buffer, struct mt_jvalue *value,
                        const struct spec *spec, struct mt_jslice whole)
{
    if (spec->sign || spec->alternate || spec->grouping || spec->align == '=' ||
        (spec->type && spec->type != 's'))
        return bad_spec(run, whole, value);
    struct mt_jslice text = value->text;
    if (spec->precision >= 0)
        text.bytes = mt_joffset(text, (size_t)spec->precision);
    return pad(run, buffer, text, spec, '<');
}

/* Digits with a mark between groups, counted from the end. */
static bool group(struct mt_jrun *run, struct mt_jbuffer *buffer, const char *digits, size_t count, char mark,
                  size_t size)
{
    for (size_t i = 0; i < count; i++) {
        if (mark && i && (count - i) % size == 0 && !mt_jput(run, buffer, &mark, 1))
            return false;
        if (!mt_jput(run, buffer, &digits[i], 1))
            return false;
    }
    return true;
}

/* A number's parts together: sign, "0x", digits (grouped up to `whole` of them), the rest. */
static bool put_number(struct mt_jrun *run, struct mt_jbuffer *buffer, bool negative, const char *prefix,
                       const char *digits, const struct spec *spec, size_t group_size)
{
    struct mt_jbuffer sign = {0}, number = {0};
    const size_t length = strlen(digits);
    size_t whole = 0;
    while (isxdigit((unsigned char)digits[whole]) && !(group_size == 3 && tolower(digits[whole]) == 'e'))
        whole++;
    const char shown = negative ? '-' : spec->sign == '+' || spec->sign == ' ' ? spec->sign : '\0';
    if ((shown && !mt_jput(run, &sign, &shown, 1)) || !mt_jputs(run, &sign, prefix) ||
        !group(run, &number, digits, whole, spec->grouping, group_size) ||
        !mt_jput(run, &number, digits + whole, length - whole))
        return false;
    const bool zero = spec->zero && !spec->align;
    if (zero && spec->grouping && sign.bytes + number.bytes < spec->width)
        return mt_jfail_unsupported(run, "a format with both zeros in front and groups is not supported");
    if (zero || spec->align == '=') {
        const size_t used = sign.bytes + number.bytes;
        const struct mt_jslice fill =
            spec->fill.bytes ? spec->fill : (struct mt_jslice){spec->zero ? "0" : " ", 1};
        return mt_jput(run, buffer, sign.data, sign.bytes) &&
               mt_jput_repeated(run, buffer, fill, spec->width > used ? spec->width - used : 0) &&
               mt_jput(run, buffer, number.data, number.bytes);
    }
    return mt_jput(run, &sign, number.data, number.bytes) &&
           pad(run, buffer, (struct mt_jslice){sign.data, sign.bytes}, spec, '>');
}

static void write_radix(uint64_t number, unsigned radix, bool upper, char digits[65])
{
    char reversed[64];
    size_t count = 0;
    do
        reversed[count++] = (upper ? "0123456789ABCDEF" : "0123456789abcdef")[number % radix];
    while ((number /= radix));
    for (size_t i = 0; i < count; i++)
        digits[i] = reversed[count - 1 - i];
    digits[count] = '\0';
}

static bool format_integer(struct mt_jrun *run, struct mt_jbuffer *buffer, struct mt_jvalue *value,
                           const struct spec *spec, struct mt_jslice whole)
{
    const int64_t integer = mt_jinteger(value);
    char digits[65] = {0};
    unsigned radix = 10;
    const char *prefix = "";
    if (spec->precision >= 0)
        return bad_spec(run, whole, value);
    switch (spec->type) {
    case '\0':
    case 'd':
        break;
    case 'b':
        radix = 2;
        prefix = "0b";
        break;
    case 'o':
        radix = 8;
        prefix = "0o";
        break;
    case 'x':
    case 'X':
        radix = 16;
        prefix = spec->type == 'x' ? "0x" : "0X";
        break;
    case 'c': {
        struct mt_jbuffer character = {0};
        if (spec->sign || spec->grouping || integer < 0 || integer > 0x10ffff ||
            (integer >= 0xd800 && integer < 0xe000))
            return bad_spec(run, whole, value);
        return mt_jput_character(run, &character, (uint32_t)integer) &&
               pad(run, buffer, (struct mt_jslice){character.data, character.bytes}, spec, '<');
    }
    default:
        return bad_spec(run, whole, value);
    }
    if (spec->grouping == ',' && radix != 10)
        return bad_spec(run, whole, value);
    write_radix(integer < 0 ? 0 - (uint64_t)integer : (uint64_t)integer, radix, spec->type == 'X', digits);
    return put_number(run, buffer, integer < 0, spec->alternate ? prefix : "", digits, spec,
                      radix == 10 ? 3 : 4);
}

/* A float without a type but with a precision: like "g", with a digit after the point, and an exponent one
 * power of ten earlier. */
static void write_general(double number, int precision, char *text, size_t bytes)
{
    const int digits = precision ? precision : 1;
    snprintf(text, bytes, "%.*e", digits - 1, number);
    const long exponent = strtol(strchr(text, 'e') + 1, NULL, 10);
    if (exponent >= -4 && exponent + 1 <= digits - 1) {
        snprintf(text, bytes, "%.*g", digits, number);
        if (!strchr(text, '.'))
            strcat(text, ".0");
        return;
    }
    char *end = strchr(text, 'e'), *last = end;
    if (memchr(text, '.', (size_t)(end - text))) { /* no zeros at the end of the mantissa */
        while (last[-1] == '0')
            last--;
        if (last[-1] == '.')
            last--;
    }
    memmove(last, end, strlen(end) + 1);
}

static bool format_float(struct mt_jrun *run, struct mt_jbuffer *buffer, struct mt_jvalue *value,
                         const struct spec *spec, struct mt_jslice whole)
{
    double number = mt_jnumber(value);
    const bool negative = signbit(number) && !isnan(number);
    char digits[800], pattern[16];
    number = fabs(number);
    const char type = spec->type == '%' ? 'f' : spec->type;
    if (type && !strchr("eEfFgG", type))
        return bad_spec(run, whole, value);
    if (spec->type == '%')
        number *= 100;
    if (!isfinite(number)) {
        const bool upper = type && isupper((unsigned char)type);
        snprintf(digits, sizeof digits, "%s",
                 isnan(number) ? (upper ? "NAN" : "nan") : (upper ? "INF" : "inf"));
    } else if (type) {
        snprintf(pattern, sizeof pattern, "%%%s.*%c", spec->alternate ? "#" : "", type);
        const int length =
            snprintf(digits, sizeof digits - 1, pattern, spec->precision >= 0 ? spec->precision : 6, number);
        if (length < 0 || (size_t)length >= sizeof digits - 1)
            return mt_jfail_unsupported(run, "a number with so many digits is not supported");
    } else if (spec->precision >= 0) {
        write_general(number, spec->precision, digits, sizeof digits);
    } else {
        mt_jfloat_repr(number, digits);
    }
    if (spec->type == '%')
        strcat(digits, "%");
    return put_number(run, buffer, negative, "", digits, spec, 3);
}

/* A value laid out; `text` as in format(value, text). */
static bool format_value(struct mt_jrun *run, struct mt_jbuffer *buffer, struct mt_jvalue *value,
                         struct mt_jslice text)
{
    struct spec spec;
    if (!text.bytes)
        return mt_jwrite(run, buffer, value);
    if (!mt_jis_text(value) && !mt_jis_number(value))
        return bad_spec(run, text, value);
    if (!read_spec(run, text, value, &spec))
        return false;
    if (mt_jis_text(value))
        return format_text(run, buffer, value, &spec, text);
    if (mt_jis_integer(value) && !(spec.type && strchr("eEfFgG%", spec.type)))
        return format_integer(run, buffer, value, &spec, text);
    return format_float(run, buffer, value, &spec, text);
}

/* --- texts with fields ---------------------------------------------------------------------------------- */

enum numbering { NOT_KNOWN, COUNTED, WRITTEN };

struct fields {
    const struct mt_jargs *args;
    struct mt_jvalue *mapping; /* of format_map, else NULL */
    enum numbering numbering;  /* of the fields without a name */
    int64_t next;              /* number of the next field without one */
    bool markup;
};

static struct mt_jvalue *named_argument(struct mt_jrun *run, const struct fields *fields,
                                        struct mt_jslice name)
{
    if (fields->mapping) {
        struct mt_jvalue *value = mt_jdict_get_text(run, fields->mapping->dict, name);
        if (value)
            return value;
    }
    for (size_t i = 0; !fields->mapping && i < fields->args->num_keywords; i++)
        if (fields->args->keywords[i].name.bytes == name.bytes &&
            memcmp(fields->args->keywords[i].name.data, name.data, name.bytes) == 0)
            return fields->args->keywords[i].value;
    return mt_jfail(run, "format: there is no value `%.*s`", name.bytes > 80 ? 80 : (int)name.bytes,
                    name.data);
}

static bool all_digits(struct mt_jslice text)
{
    for (size_t i = 0; i < text.bytes; i++)
        if (!isdigit((unsigned char)text.data[i]))
            return false;
    return text.bytes && text.bytes < 10;
}

/* name.attribute[item]... */
static struct mt_jvalue *field_value(struct mt_jrun *run, struct fields *fields, struct mt_jslice name)
{
    size_t end = 0;
    while (end < name.bytes && name.data[end] != '.' && name.data[end] != '[')
        end++;
    struct mt_jslice first = {name.data, end}, rest = {name.data + end, name.bytes - end};
    struct mt_jvalue *value;
    if (!first.bytes || all_digits(first)) {
        const enum numbering numbering = first.bytes ? WRITTEN : COUNTED;
        if (fields->numbering && fields->numbering != numbering)
            return mt_jfail(run, "format: fields with and without numbers can't stand together");
        fields->numbering = numbering;
        const int64_t at = first.bytes ? (int64_t)read_digits(&first, MAX_WIDTH) : fields->next++;
        if (fields->mapping || (size_t)at >= fields->args->count)
            return mt_jfail(run, "format: there is no value number %" PRId64, at);
        value = fields->args->items[at];
    } else {
        value = named_argument(run, fields, first);
    }
    while (value && rest.bytes) {
        const bool item = rest.data[0] == '[';
        rest.data++;
        rest.bytes--;
        end = 0;
        while (end < rest.bytes &&
               (item ? rest.data[end] != ']' : rest.data[end] != '.' && rest.data[end] != '['))
            end++;
        const struct mt_jslice part = {rest.data, end};
        if (!part.bytes || (item && end == rest.bytes))
            return mt_jfail(run, "format: a broken field `%.*s`", name.bytes > 80 ? 80 : (int)name.bytes,
                            name.data);
        struct mt_jslice number = part;
        struct mt_jvalue *key = item && all_digits(part)
                                    ? mt_jint(run, (int64_t)read_digits(&number, SIZE_MAX / 16))
                                    : mt_jtext(run, part.data, part.bytes);
        if (!key)
            return NULL;
        value = item ? mt_jitem(run, value, key) : mt_jattribute(run, value, key);
        end += item ? 1 : 0;
        rest = (struct mt_jslice){rest.data + end, rest.bytes - end};
        if (item && rest.bytes && rest.data[0] != '.' && rest.data[0] != '[')
            return mt_jfail(run, "format: only `.` or `[` may follow `]` in a field");
    }
    return value;
}

static bool put_fields(struct mt_jrun *run, struct mt_jbuffer *buffer, struct mt_jslice text,
                       struct fields *fields, int depth);

static bool put_field(struct mt_jrun *run, struct mt_jbuffer *buffer, struct mt_jslice field,
                      struct fields *fields, int depth)
{
    size_t end = 0;
    bool bracket = false;
    for (; end < field.bytes; end++) {
        if (field.data[end] == '[')
            bracket = true;
        else if (field.data[end] == ']')
            bracket = false;
        else if (!bracket && (field.data[end] == '!' || field.data[end] == ':'))
            break;
        else if (field.data[end] == '{')
            return mt_jfail(run, "format: unexpected `{` in the name of a field");
    }
    struct mt_jvalue *value = field_value(run, fields, (struct mt_jslice){field.data, end});
    struct mt_jslice rest = {field.data + end, field.bytes - end};
    if (!value)
        return false;
    if (rest.bytes && rest.data[0] == '!') {
        const char conversion = rest.bytes > 1 ? rest.data[1] : '\0';
        if ((conversion != 's' && conversion != 'r') || (rest.bytes > 2 && rest.data[2] != ':'))
            return mt_jfail_unsupported(run, "format: only the conversions !s and !r are supported");
        struct mt_jbuffer converted = {0};
        if (conversion == 's' ? !mt_jwrite(run, &converted, value) : !mt_jwrite_repr(run, &converted, value))
            return false;
        if (!(value = mt_jbuffer_value(run, &converted, false)))
            return false;
        rest = (struct mt_jslice){rest.data + 2, rest.bytes - 2};
    }
    struct mt_jbuffer spec = {0};
    if (rest.bytes &&
        !put_fields(run, &spec, (struct mt_jslice){rest.data + 1, rest.bytes - 1}, fields, depth - 1))
        return false;
    const struct mt_jslice spec_text = {spec.data, spec.bytes};
    if (!fields->markup)
        return format_value(run, buffer, value, spec_text);
    struct mt_jbuffer plain = {0};
    if (mt_jis_text(value) && value->markup && spec.bytes)
        return mt_jfail(run, "format: a Markup can't be laid out");
    if (!format_value(run, &plain, value, spec_text))
        return false;
    value = mt_jbuffer_value(run, &plain, mt_jis_text(value) && value->markup);
    return value && (value = mt_jescape(run, value)) && mt_jput_slice(run, buffer, value->text);
}

static bool put_fields(struct mt_jrun *run, struct mt_jbuffer *buffer, struct mt_jslice text,
                       struct fields *fields, int depth)
{
    if (depth < 0)
        return mt_jfail(run, "format: fields are nested too deep");
    for (size_t i = 0; i < text.bytes;) {
        const char c = text.data[i];
        if (c != '{' && c != '}') {
            size_t end = i;
            while (end < text.bytes && text.data[end] != '{' && text.data[end] != '}')
                end++;
            if (!mt_jput(run, buffer, text.data + i, end - i))
                return false;
            i = end;
            continue;
        }
        if (i + 1 < text.bytes && text.data[i + 1] == c) {
            if (!mt_jput(run, buffer, &c, 1))
                return false;
            i += 2;
            continue;
        }
        if (c == '}')
            return mt_jfail(run, "format: a single `}`");
        size_t end = i + 1, level = 1;
        for (; end < text.bytes; end++) {
            level += text.data[end] == '{';
            if (text.data[end] == '}' && --level == 0)
                break;
        }
        if (end == text.bytes)
            return mt_jfail(run, "format: a single `{`");
        if (!put_field(run, buffer, (struct mt_jslice){text.data + i + 1, end - i - 1}, fields, depth))
            return false;
        i = end + 1;
    }
    return true;
}

struct mt_jvalue *mt_jformat(struct mt_jrun *run, struct mt_jvalue *text, const struct mt_jargs *args)
{
    struct mt_jbuffer buffer = {0};
    struct fields fields = {.args = args, .markup = text->markup};
    return put_fields(run, &buffer, text->text, &fields, 2) ? mt_jbuffer_value(run, &buffer, text->markup)
                                                            : NULL;
}

struct mt_jvalue *mt_jformat_map(struct mt_jrun *run, struct mt_jvalue *text, struct mt_jvalue *mapping)
{
    struct mt_jbuffer buffer = {0};
    struct fields fields = {.mapping = mapping, .markup = text->markup};
    if (!mt_jis(mapping, MT_J_DICT))
        return mt_jfail(run, "format_map needs a dict, not a value of type %s", mt_jtype(mapping));
    return put_fields(run, &buffer, text->text, &fields, 2) ? mt_jbuffer_value(run, &buffer, text->markup)
                                                            : NULL;
}
