/* text % values, in the manner of printf. */
#include "core/text/jinja/run.h"
#include "core/text/jinja/unicode.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define MAX_WIDTH 100000
#define MAX_PRECISION 300

struct conversion {
    bool left, plus, blank, alternate, zero;
    int64_t width, precision; /* precision -1: none */
    char type;
};

struct values {
    struct mt_jvalue *all; /* what stands right of the `%` */
    bool tuple, mapping;
    size_t next;
};

static struct mt_jvalue *next_value(struct mt_jrun *run, struct values *values)
{
    if (values->tuple ? values->next < values->all->list->count : values->next == 0)
        return values->tuple ? values->all->list->items[values->next++] : (values->next++, values->all);
    return mt_jfail(run, "`%%`: there are fewer values than places for them");
}

static bool read_number(struct mt_jrun *run, struct mt_jslice text, size_t *at, struct values *values,
                        int64_t *number)
{
    *number = 0;
    if (*at < text.bytes && text.data[*at] == '*') {
        struct mt_jvalue *value = next_value(run, values);
        (*at)++;
        if (!value)
            return false;
        if (!mt_jis_integer(value))
            return mt_jfail(run, "`%%`: `*` needs a whole number");
        *number = mt_jinteger(value);
    } else {
        for (; *at < text.bytes && isdigit((unsigned char)text.data[*at]); (*at)++)
            *number = *number > MAX_WIDTH ? *number : *number * 10 + (text.data[*at] - '0');
    }
    if (*number > MAX_WIDTH || *number < -MAX_WIDTH)
        return mt_jfail_unsupported(run, "`%%`: a field so wide is not supported");
    return true;
}

/* What stands between "%" and its letter; *value: of %(name), else NULL. */
static bool read_conversion(struct mt_jrun *run, struct mt_jslice text, size_t *at, struct values *values,
                            struct conversion *conversion, struct mt_jvalue **value)
{
    *conversion = (struct conversion){.precision = -1};
    *value = NULL;
    if (*at < text.bytes && text.data[*at] == '(') {
        const size_t begin = ++*at;
        size_t level = 1;
        for (; *at < text.bytes; (*at)++) {
            level += text.data[*at] == '(';
            if (text.data[*at] == ')' && --level == 0)
                break;
        }
        if (*at == text.bytes)
            return mt_jfail(run, "`%%`: a name without its `)`");
        const struct mt_jslice name = {text.data + begin, (*at)++ - begin};
        if (!values->mapping || !mt_jis(values->all, MT_J_DICT))
            return mt_jfail(run, "`%%`: a name needs a dict to look it up in");
        if (!(*value = mt_jdict_get_text(run, values->all->dict, name)))
            return mt_jfail(run, "`%%`: there is no value `%.*s`", name.bytes > 80 ? 80 : (int)name.bytes,
                            name.data);
    }
    for (; *at < text.bytes && strchr("-+ #0", text.data[*at]); (*at)++) {
        conversion->left = conversion->left || text.data[*at] == '-';
        conversion->plus = conversion->plus || text.data[*at] == '+';
        conversion->blank = conversion->blank || text.data[*at] == ' ';
        conversion->alternate = conversion->alternate || text.data[*at] == '#';
        conversion->zero = conversion->zero || text.data[*at] == '0';
    }
    if (!read_number(run, text, at, values, &conversion->width))
        return false;
    if (conversion->width < 0) {
        conversion->left = true;
        conversion->width = -conversion->width;
    }
    if (*at < text.bytes && text.data[*at] == '.') {
        (*at)++;
        if (!read_number(run, text, at, values, &conversion->precision))
            return false;
        if (conversion->precision < 0)
            conversion->precision = 0;
    }
    while (*at < text.bytes && strchr("hlL", text.data[*at]))
        (*at)++;
    if (*at == text.bytes)
        return mt_jfail(run, "`%%`: an unfinished place at the end");
    conversion->type = text.data[(*at)++];
    return true;
}

static bool put_padded(struct mt_jrun *run, struct mt_jbuffer *buffer, struct mt_jslice text,
                       const char *sign, const struct conversion *conversion, bool number)
{
    const size_t length = mt_jcount(text) + strlen(sign), width = (size_t)conversion->width;
    const size_t missing = width > length ? width - length : 0;
    const struct mt_jslice blank = {" ", 1}, zero = {"0", 1};
    const bool zeros = number && conversion->zero && !conversion->left;
    return mt_jput_repeated(run, buffer, blank, conversion->left || zeros ? 0 : missing) &&
           mt_jputs(run, buffer, sign) && mt_jput_repeated(run, buffer, zero, zeros ? missing : 0) &&
           mt_jput_slice(run, buffer, text) &&
           mt_jput_repeated(run, buffer, blank, conversion->left ? missing : 0);
}

static const char *sign_of(bool negative, const struct conversion *conversion)
{
    return negative ? "-" : conversion->plus ? "+" : conversion->blank ? " " : "";
}

static bool put_integer(struct mt_jrun *run, struct mt_jbuffer *buffer, struct mt_jvalue *value,
                        const struct conversion *conversion)
{
    const bool decimal = strchr("diu", conversion->type);
    int64_t integer;
    if (mt_jis_integer(value)) {
        integer = mt_jinteger(value);
    } else if (decimal && mt_jis(value, MT_J_FLOAT) && isfinite(value->number)) {
        if (fabs(value->number) >= 0x1p63)
            return mt_jfail_unsupported(run, "a whole number of more than 64 bits is not supported");
        integer = (int64_t)value->number;
    } else {
        return mt_jfail(run, "`%%%c` needs a number, not a value of type %s", conversion->type,
                        mt_jtype(value));
    }
    if (conversion->precision > MAX_PRECISION)
        return mt_jfail_unsupported(run, "`%%`: so many digits are not supported");
    const uint64_t magnitude = integer < 0 ? 0 - (uint64_t)integer : (uint64_t)integer;
    char digits[MAX_PRECISION + 80], sign[4];
    snprintf(sign, sizeof sign, "%s%s", sign_of(integer < 0, conversion),
             !conversion->alternate    ? ""
             : conversion->type == 'x' ? "0x"
             : conversion->type == 'X' ? "0X"
             : conversion->type == 'o' ? "0o"
                                       : "");
    const int least = conversion->precision > 0 ? (int)conversion->precision : 1;
    const int length =
        conversion->type == 'x'   ? snprintf(digits, sizeof digits, "%.*" PRIx64, least, magnitude)
        : conversion->type == 'X' ? snprintf(digits, sizeof digits, "%.*" PRIX64, least, magnitude)
        : conversion->type == 'o' ? snprintf(digits, sizeof digits, "%.*" PRIo64, least, magnitude)
                                  : snprintf(digits, sizeof digits, "%.*" PRIu64, least, magnitude);
    return put_padded(run, buffer, (struct mt_jslice){digits, (size_t)length}, sign, conversion, true);
}

static bool put_float(struct mt_jrun *run, struct mt_jbuffer *buffer, struct mt_jvalue *value,
                      const struct conversion *conversion)
{
    char digits[800], pattern[16];
    if (!mt_jis_number(value))
        return mt_jfail(run, "`%%%c` needs a number, not a value of type %s", conversion->type,
                        mt_jtype(value));
    const double number = mt_jnumber(value);
    snprintf(pattern, sizeof pattern, "%%%s.*%c", conversion->alternate ? "#" : "", conversion->type);
    const int length = snprintf(digits, sizeof digits, pattern,
                                conversion->precision >= 0 ? (int)conversion->precision : 6, fabs(number));
    if (length < 0 || (size_t)length >= sizeof digits)
        return mt_jfail_unsupported(run, "`%%`: so many digits are not supported");
    return put_padded(run, buffer, (struct mt_jslice){digits, (size_t)length},
                      sign_of(signbit(number) && !isnan(number), conversion), conversion, true);
}

static bool put_text(struct mt_jrun *run, struct mt_jbuffer *buffer, struct mt_jvalue *value,
                     const struct conversion *conversion, bool markup)
{
    struct mt_jbuffer text = {0};
    if (conversion->type == 'c') {
        size_t length;
        if (mt_jis_integer(value) && mt_jinteger(value) >= 0 && mt_jinteger(value) <= 0x10ffff &&
            (mt_jinteger(value) < 0xd800 || mt_jinteger(value) >= 0xe000)) {
            if (!mt_jput_character(run, &text, (uint32_t)mt_jinteger(value)))
                return false;
        } else if (mt_jis_text(value) && mt_jlength(run, value, &length) && length == 1) {
            text = (struct mt_jbuffer){(char *)value->text.data, value->text.bytes, 0};
        } else {
            return mt_jfail(run, "`%%c` needs a character");
        }
    } else if (conversion->type == 's' ? !mt_jwrite(run, &text, value) : !mt_jwrite_repr(run, &text, value)) {
        return false;
    }
    struct mt_jvalue *result = mt_jbuffer_value(run, &text, mt_jis_text(value) && value->markup);
    if (!result || (markup && !(result = mt_jescape(run, result))))
        return false;
    struct mt_jslice shown = result->text;
    if (conversion->precision >= 0)
        shown.bytes = mt_joffset(shown, (size_t)conversion->precision);
    return put_padded(run, buffer, shown, "", conversion, false);
}

static bool put_conversion(struct mt_jrun *run, struct mt_jbuffer *buffer, struct values *values, bool markup,
                           struct mt_jslice text, size_t *at)
{
    struct conversion conversion;
    struct mt_jvalue *value;
    if (!read_conversion(run, text, at, values, &conversion, &value))
        return false;
    if (conversion.type == '%')
        return mt_jputs(run, buffer, "%");
    if (!conversion.type || !strchr("diuxXoeEfFgGsrc", conversion.type))
        return mt_jfail_unsupported(run, "`%%%c` is not supported", conversion.type);
    if (!value && !(value = next_value(run, values)))
        return false;
    if (mt_jis(value, MT_J_UNDEFINED) && !strchr("sr", conversion.type))
        return mt_jfail_undefined(run, value);
    if (strchr("diuxXo", conversion.type))
        return put_integer(run, buffer, value, &conversion);
    if (strchr("eEfFgG", conversion.type))
        return put_float(run, buffer, value, &conversion);
    return put_text(run, buffer, value, &conversion, markup);
}

struct mt_jvalue *mt_jpercent(struct mt_jrun *run, struct mt_jvalue *text, struct mt_jvalue *all)
{
    struct values values = {
        .all = all,
        .tuple = mt_jis(all, MT_J_TUPLE),
        .mapping = mt_jis(all, MT_J_DICT) || mt_jis(all, MT_J_LIST) || mt_jis(all, MT_J_UNDEFINED) ||
                   mt_jis(all, MT_J_RANGE),
    };
    struct mt_jbuffer buffer = {0};
    for (size_t i = 0; i < text->text.bytes;) {
        const char *percent = memchr(text->text.data + i, '%', text->text.bytes - i);
        const size_t end = percent ? (size_t)(percent - text->text.data) : text->text.bytes;
        if (!mt_jput(run, &buffer, text->text.data + i, end - i))
            return NULL;
        i = end + 1;
        if (percent && !put_conversion(run, &buffer, &values, text->markup, text->text, &i))
            return NULL;
    }
    if (!values.mapping && values.next < (values.tuple ? all->list->count : 1))
        return mt_jfail(run, "`%%`: there are more values than places for them");
    return mt_jbuffer_value(run, &buffer, text->markup);
}
