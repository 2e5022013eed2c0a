/* Filters that make numbers. */
#include "core/text/jinja/filters.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct mt_jvalue *too_large(struct mt_jrun *run)
{
    return mt_jfail_unsupported(run, "a whole number of more than 64 bits is not supported");
}

FILTER(int)
{
    static const char *const names[] = {"default", "base"};
    struct mt_jvalue *given[2];
    int64_t base = 10, integer;
    double number;
    bool overflow;
    if (!mt_jbind(run, "int", args, names, 2, 0, given) || !mt_jgiven_integer(run, "int", given[1], &base))
        return NULL;
    if (mt_jis(value, MT_J_UNDEFINED))
        return mt_jfail_undefined(run, value);
    if (mt_jis_text(value) && !mt_jwork_characters(run, value->text.bytes))
        return NULL;
    if (mt_jis(value, MT_J_WIDE))
        return value;
    if (mt_jis_integer(value))
        return mt_jint(run, mt_jinteger(value));
    if (mt_jis_text(value)) {
        if (mt_jread_int(value->text, base >= 0 && base <= 36 ? (int)base : -1, &integer, &overflow))
            return mt_jint(run, integer);
        if (overflow)
            return too_large(run);
        if (!mt_jread_float(value->text, &number))
            number = NAN;
    } else {
        number = mt_jis(value, MT_J_FLOAT) ? value->number : NAN;
        if (isinf(number)) /* Python's int() raises what the filter does not catch */
            return mt_jfail(run, "int: infinity is no whole number");
    }
    if (!isfinite(number))
        return given[0] ? given[0] : mt_jint(run, 0);
    return fabs(number) < 0x1p63 ? mt_jint(run, (int64_t)number) : too_large(run);
}

FILTER(float)
{
    static const char *const names[] = {"default"};
    struct mt_jvalue *given;
    double number;
    if (!mt_jbind(run, "float", args, names, 1, 0, &given))
        return NULL;
    if (mt_jis(value, MT_J_UNDEFINED))
        return mt_jfail_undefined(run, value);
    if (mt_jis_text(value) && !mt_jwork_characters(run, value->text.bytes))
        return NULL;
    if (mt_jis_number(value))
        return mt_jfloat(run, mt_jnumber(value));
    if ((mt_jis_text(value) || mt_jis(value, MT_J_WIDE)) && mt_jread_float(value->text, &number))
        return mt_jfloat(run, number);
    return given ? given : mt_jfloat(run, 0);
}

/* round(): the decimal text nearest to the number's exact value, ties to even, read back. */
static double round_decimals(double number, int64_t precision)
{
    char text[400];
    if (!isfinite(number) || precision > 300)
        return number;
    if (precision >= 0) {
        snprintf(text, sizeof text, "%.*f", (int)precision, number);
        return fabs(number) >= 1e22 ? number : strtod(text, NULL);
    }
    if (precision < -308)
        return copysign(0, number);
    const double unit = pow(10, (double)-precision);
    return rint(number / unit) * unit;
}

static struct mt_jvalue *round_integer(struct mt_jrun *run, int64_t integer, int64_t precision)
{
    if (precision >= 0)
        return mt_jint(run, integer);
    if (precision < -18)
        return mt_jint(run, 0);
    int64_t unit = 1, result;
    while (precision++)
        unit *= 10;
    int64_t rest = integer % unit, whole = integer / unit;
    if (rest < 0) {
        rest += unit;
        whole--;
    }
    if (rest * 2 > unit || (rest * 2 == unit && whole % 2))
        whole++;
    return __builtin_mul_overflow(whole, unit, &result) ? too_large(run) : mt_jint(run, result);
}

FILTER(round)
{
    static const char *const names[] = {"precision", "method"};
    struct mt_jvalue *given[2];
    int64_t precision = 0;
    if (!mt_jbind(run, "round", args, names, 2, 0, given) ||
        !mt_jgiven_integer(run, "round", given[0], &precision))
        return NULL;
    const struct mt_jslice method =
        given[1] && mt_jis_text(given[1]) ? given[1]->text : (struct mt_jslice){"common", 6};
    const bool up = mt_jslice_is(method, "ceil"), down = mt_jslice_is(method, "floor");
    if (!up && !down && !mt_jslice_is(method, "common"))
        return mt_jfail(run, "round: the method must be common, ceil or floor");
    if (mt_jis(value, MT_J_UNDEFINED))
        return mt_jfail_undefined(run, value);
    if (mt_jis_text(value) && !mt_jwork_characters(run, value->text.bytes))
        return NULL;
    if (!mt_jis_number(value))
        return mt_jfail(run, "round needs a number, not a value of type %s", mt_jtype(value));
    if (up || down) {
        if (precision < 0 || precision > 15 || fabs(mt_jnumber(value)) >= 1e15)
            return mt_jfail_unsupported(run, "round: such a number or precision is not supported");
        const double unit = pow(10, (double)precision), scaled = mt_jnumber(value) * unit;
        return mt_jfloat(run, (up ? ceil(scaled) : floor(scaled)) / unit);
    }
    return mt_jis_integer(value) ? round_integer(run, mt_jinteger(value), precision)
                                 : mt_jfloat(run, round_decimals(value->number, precision));
}

FILTER(abs)
{
    if (!mt_jbind(run, "abs", args, NULL, 0, 0, NULL))
        return NULL;
    if (mt_jis(value, MT_J_FLOAT))
        return mt_jfloat(run, fabs(value->number));
    if (!mt_jis_integer(value))
        return mt_jfail(run, "abs needs a number, not a value of type %s", mt_jtype(value));
    return mt_jinteger(value) < 0 ? mt_jnegate(run, value, true) : mt_jint(run, mt_jinteger(value));
}

FILTER(filesizeformat)
{
    static const char *const names[] = {"binary"};
    static const char *const decimal[] = {"kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"};
    static const char *const powers[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"};
    struct mt_jvalue *binary;
    struct mt_jbuffer buffer = {0};
    double bytes;
    if (!mt_jbind(run, "filesizeformat", args, names, 1, 0, &binary) ||
        (mt_jis_text(value) && !mt_jwork_characters(run, value->text.bytes)))
        return NULL;
    if (mt_jis_number(value))
        bytes = mt_jnumber(value);
    else if (!mt_jis_text(value) || !mt_jread_float(value->text, &bytes))
        return mt_jfail(run, "filesizeformat needs a number");
    const bool is_binary = binary && mt_jtruth(binary);
    const double base = is_binary ? 1024 : 1000;
    if (bytes == 1)
        return mt_jliteral(run, "1 Byte");
    if (bytes < -0x1p63)
        return too_large(run);
    if (bytes < base) {
        if (!mt_jputf(run, &buffer, "%" PRId64 " Bytes", (int64_t)bytes))
            return NULL;
        return mt_jbuffer_value(run, &buffer, false);
    }
    double unit = base;
    size_t i = 0;
    for (; i < 8; i++) {
        unit *= base;
        if (bytes < unit)
            break;
    }
    i = i < 8 ? i : 7;
    return mt_jputf(run, &buffer, "%.1f %s", base * bytes / unit, (is_binary ? powers : decimal)[i])
               ? mt_jbuffer_value(run, &buffer, false)
               : NULL;
}

FILTER(sum)
{
    static const char *const names[] = {"attribute", "start"};
    struct mt_jvalue *given[2];
    struct mt_jiterator iterator;
    if (!mt_jbind(run, "sum", args, names, 2, 0, given) || !mt_jiterate(run, value, &iterator))
        return NULL;
    struct mt_jvalue *total = given[1] ? given[1] : mt_jint(run, 0);
    if (total && mt_jis_text(total))
        return mt_jfail(run, "sum can't add texts");
    for (struct mt_jvalue *item; total && (item = mt_jnext(run, &iterator));) {
        if (mt_jgiven(given[0]) && !(item = mt_jattribute_path(run, item, given[0], NULL)))
            return NULL;
        total = mt_joperate(run, MT_J_ADD, total, item);
    }
    return run->failed ? NULL : total;
}
