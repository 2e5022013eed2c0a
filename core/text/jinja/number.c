/* Numbers to texts and back, as Python writes and reads them. */
#include "core/text/jinja/run.h"
#include "core/text/jinja/unicode.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The fewest digits that read back as the number; an exponent below 1e-4 and from 1e16 on. */
void mt_jfloat_repr(double number, char text[MT_J_FLOAT_BYTES])
{
    if (isnan(number)) {
        snprintf(text, MT_J_FLOAT_BYTES, "nan");
        return;
    }
    if (isinf(number)) {
        snprintf(text, MT_J_FLOAT_BYTES, number < 0 ? "-inf" : "inf");
        return;
    }
    char digits[MT_J_FLOAT_BYTES - 14]; /* less room for whatever int an exponent may be */
    for (int precision = 0; precision < 17; precision++) {
        snprintf(digits, sizeof digits, "%.*e", precision, number);
        if (strtod(digits, NULL) == number)
            break;
    }
    char *exponent_text = strchr(digits, 'e');
    const int exponent = (int)strtol(exponent_text + 1, NULL, 10);
    *exponent_text = '\0';
    if (exponent < -4 || exponent >= 16) {
        snprintf(text, MT_J_FLOAT_BYTES, "%se%c%02d", digits, exponent < 0 ? '-' : '+', abs(exponent));
        return;
    }
    int decimals =
        (int)strlen(digits) - 1 - (digits[0] == '-') - exponent; /* less the dot, if there is one */
    decimals -= strchr(digits, '.') ? 1 : 0;
    snprintf(text, MT_J_FLOAT_BYTES, "%.*f", decimals > 1 ? decimals : 1, number);
}

static struct mt_jslice trimmed(struct mt_jslice text)
{
    uint32_t character;
    size_t length;
    while (text.bytes &&
           (length = mt_jcharacter(text.data, text.bytes, &character), mt_jis_space(character))) {
        text.data += length;
        text.bytes -= length;
    }
    while (text.bytes &&
           (length = mt_jcharacter_before(text.data, text.bytes, &character), mt_jis_space(character)))
        text.bytes -= length;
    return text;
}

static int digit_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    const char lower = (char)(c | 32);
    return lower >= 'a' && lower <= 'z' ? lower - 'a' + 10 : 99;
}

/* Skips "0x", "0o" or "0b" where it stands for the base; base 0 takes the one that is written. False: a
 * number in base 0 must not begin with a zero. */
static bool read_prefix(struct mt_jslice *text, int *base)
{
    const char kind = text->bytes > 1 && text->data[0] == '0' ? (char)(text->data[1] | 32) : '\0';
    const int written = kind == 'x' ? 16 : kind == 'o' ? 8 : kind == 'b' ? 2 : 0;
    if (written && (*base == 0 || *base == written)) {
        *base = written;
        text->data += 2;
        text->bytes -= 2;
        if (text->bytes && text->data[0] == '_') { /* 0x_1 */
            text->data++;
            text->bytes--;
        }
        return true;
    }
    if (*base)
        return true;
    *base = 10;
    if (text->bytes && text->data[0] == '0')
        for (size_t i = 0; i < text->bytes; i++)
            if (text->data[i] != '0' && text->data[i] != '_')
                return false;
    return true;
}

bool mt_jread_int(struct mt_jslice text, int base, int64_t *integer, bool *overflow)
{
    *overflow = false;
    text = trimmed(text);
    bool negative = false;
    if (text.bytes && (text.data[0] == '-' || text.data[0] == '+')) {
        negative = text.data[0] == '-';
        text.data++;
        text.bytes--;
    }
    if ((base != 0 && (base < 2 || base > 36)) || !read_prefix(&text, &base) || !text.bytes)
        return false;
    int64_t value = 0;
    bool underscore = true; /* none may come first */
    for (size_t i = 0; i < text.bytes; i++) {
        if (text.data[i] == '_') {
            if (underscore)
                return false;
            underscore = true;
            continue;
        }
        const int digit = digit_value(text.data[i]);
        if (digit >= base)
            return false;
        underscore = false;
        if (__builtin_mul_overflow(value, base, &value) ||
            __builtin_add_overflow(value, negative ? -digit : digit, &value))
            *overflow = true;
    }
    *integer = value;
    return !underscore && !*overflow;
}

bool mt_jread_float(struct mt_jslice text, double *number)
{
    text = trimmed(text);
    char plain[512];
    size_t length = 0;
    for (size_t i = 0; i < text.bytes; i++) {
        const char c = text.data[i];
        if (c == '_' && i && i + 1 < text.bytes && digit_value(text.data[i - 1]) < 10 &&
            digit_value(text.data[i + 1]) < 10)
            continue;
        /* strtod reads more than Python does: hexadecimal, nan(...). */
        const char lower = (char)(c | 32);
        if (!(digit_value(c) < 10 || c == '.' || c == '+' || c == '-' || strchr("einfatyE", lower)) ||
            length + 1 == sizeof plain)
            return false;
        plain[length++] = c;
    }
    plain[length] = '\0';
    if (!length)
        return false;
    char *end;
    *number = strtod(plain, &end);
    return *end == '\0';
}
