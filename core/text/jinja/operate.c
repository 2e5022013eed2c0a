/* Operators on values, as Python has them on its types. */
#include "core/text/jinja/run.h"

#include <math.h>
#include <string.h>

static void *fail_types(struct mt_jrun *run, enum mt_joperator operator, const struct mt_jvalue * a,
                        const struct mt_jvalue *b)
{
    static const char *const texts[] = {"+", "-", "*", "/", "//", "%", "**"};
    return mt_jfail(run, "`%s` is not possible between values of the types %s and %s", texts[operator],
                    mt_jtype(a), mt_jtype(b));
}

static struct mt_jvalue *join_texts(struct mt_jrun *run, struct mt_jvalue *a, struct mt_jvalue *b)
{
    const bool markup = a->markup || b->markup;
    struct mt_jbuffer buffer = {0};
    if (markup && (!(a = mt_jescape(run, a)) || !(b = mt_jescape(run, b))))
        return NULL;
    return mt_jput_slice(run, &buffer, a->text) && mt_jput_slice(run, &buffer, b->text)
               ? mt_jbuffer_value(run, &buffer, markup)
               : NULL;
}

static struct mt_jvalue *join_lists(struct mt_jrun *run, const struct mt_jvalue *a, const struct mt_jvalue *b)
{
    const size_t count = a->list->count + b->list->count;
    struct mt_jvalue *list = mt_jlist_new(run, a->kind, count);
    if (!list || !mt_jwork(run, count * 8))
        return NULL;
    if (a->list->count)
        memcpy(list->list->items, a->list->items, a->list->count * sizeof *a->list->items);
    if (b->list->count)
        memcpy(list->list->items + a->list->count, b->list->items, b->list->count * sizeof *b->list->items);
    list->list->count = count;
    return list;
}

static struct mt_jvalue *repeat(struct mt_jrun *run, const struct mt_jvalue *sequence, int64_t times)
{
    const size_t count = times > 0 ? (size_t)times : 0;
    if (mt_jis_text(sequence)) {
        struct mt_jbuffer buffer = {0};
        return mt_jput_repeated(run, &buffer, sequence->text, count)
                   ? mt_jbuffer_value(run, &buffer, sequence->markup)
                   : NULL;
    }
    const size_t length = sequence->list->count;
    size_t total;
    if (__builtin_mul_overflow(length, count, &total) || total > run->limits->memory_bytes)
        total = run->limits->memory_bytes; /* more than there is: the allocation says so */
    struct mt_jvalue *list = mt_jlist_new(run, sequence->kind, total);
    if (!list || !mt_jwork(run, total * 8))
        return NULL;
    for (size_t i = 0; i < count && length; i++)
        memcpy(list->list->items + i * length, sequence->list->items, length * sizeof *list->list->items);
    list->list->count = length * count;
    return list;
}

static bool is_sequence(const struct mt_jvalue *value)
{
    return mt_jis_text(value) || mt_jis(value, MT_J_LIST) || mt_jis(value, MT_J_TUPLE);
}

static struct mt_jvalue *too_large(struct mt_jrun *run)
{
    return mt_jfail_unsupported(run, "a whole number of more than 64 bits is not supported");
}

static struct mt_jvalue *power(struct mt_jrun *run, int64_t base, int64_t exponent)
{
    if (exponent < 0) {
        if (!base)
            return mt_jfail(run, "zero can't be raised to a negative power");
        return mt_jfloat(run, pow((double)base, (double)exponent));
    }
    int64_t result = 1;
    for (; exponent; exponent >>= 1) {
        if ((exponent & 1) && __builtin_mul_overflow(result, base, &result))
            return too_large(run);
        if (exponent > 1 && __builtin_mul_overflow(base, base, &base))
            return too_large(run);
    }
    return mt_jint(run, result);
}

static struct mt_jvalue *on_integers(struct mt_jrun *run, enum mt_joperator operator, int64_t a, int64_t b)
{
    int64_t result = 0;
    bool overflow = false;
    if ((operator== MT_J_FLOOR_DIVIDE || operator== MT_J_MODULO || operator== MT_J_DIVIDE) && b == 0)
        return mt_jfail(run, "division by zero");
    switch (operator) {
    case MT_J_ADD:
        overflow = __builtin_add_overflow(a, b, &result);
        break;
    case MT_J_SUBTRACT:
        overflow = __builtin_sub_overflow(a, b, &result);
        break;
    case MT_J_MULTIPLY:
        overflow = __builtin_mul_overflow(a, b, &result);
        break;
    case MT_J_DIVIDE:
        return mt_jfloat(run, (double)((long double)a / (long double)b));
    case MT_J_FLOOR_DIVIDE: /* rounded down */
        if (b == -1) {
            overflow = __builtin_sub_overflow(0, a, &result);
            break;
        }
        result = a / b - (a % b != 0 && (a < 0) != (b < 0));
        break;
    case MT_J_MODULO: /* with the sign of the divisor */
        result = b == -1 ? 0 : a % b;
        if (result && (result < 0) != (b < 0))
            result += b;
        break;
    default:
        return power(run, a, b);
    }
    return overflow ? too_large(run) : mt_jint(run, result);
}

static double float_modulo(double a, double b)
{
    double result = fmod(a, b);
    if (result != 0) {
        if ((result < 0) != (b < 0))
            result += b;
    } else {
        result = copysign(0.0, b);
    }
    return result;
}

static double float_floor_divide(double a, double b)
{
    const double modulo = float_modulo(a, b), quotient = (a - modulo) / b;
    double result = floor(quotient);
    if (quotient - result > 0.5)
        result += 1;
    return quotient != 0 ? result : copysign(0.0, a / b);
}

static struct mt_jvalue *on_floats(struct mt_jrun *run, enum mt_joperator operator, double a, double b)
{
    switch (operator) {
    case MT_J_ADD:
        return mt_jfloat(run, a + b);
    case MT_J_SUBTRACT:
        return mt_jfloat(run, a - b);
    case MT_J_MULTIPLY:
        return mt_jfloat(run, a * b);
    case MT_J_POWER:
        if ((a == 0 && b < 0) || (a < 0 && b != floor(b) && isfinite(b)))
            return mt_jfail_unsupported(run, "a power that is no real number is not supported");
        if (isfinite(a) && isfinite(b) && !isfinite(pow(a, b)))
            return mt_jfail(run, "the power is too large");
        return mt_jfloat(run, pow(a, b));
    default:
        break;
    }
    if (b == 0)
        return mt_jfail(run, "division by zero");
    return mt_jfloat(run, operator== MT_J_DIVIDE       ? a / b :
                          operator== MT_J_FLOOR_DIVIDE ? float_floor_divide(a, b)
                                                       : float_modulo(a, b));
}

struct mt_jvalue *mt_joperate(struct mt_jrun *run, enum mt_joperator operator, struct mt_jvalue * a,
                              struct mt_jvalue *b)
{
    if (operator== MT_J_MODULO && mt_jis_text(a)) /* a text's own `%` comes first */
        return mt_jpercent(run, a, b);
    if (mt_jis(a, MT_J_UNDEFINED))
        return mt_jfail_undefined(run, a);
    if (mt_jis(b, MT_J_UNDEFINED))
        return mt_jfail_undefined(run, b);
    if (mt_jis(a, MT_J_WIDE) || mt_jis(b, MT_J_WIDE))
        return too_large(run);
    if (mt_jis_integer(a) && mt_jis_integer(b))
        return on_integers(run, operator, mt_jinteger(a), mt_jinteger(b));
    if (mt_jis_number(a) && mt_jis_number(b))
        return on_floats(run, operator, mt_jnumber(a), mt_jnumber(b));
    if (operator== MT_J_ADD) {
        if (mt_jis_text(a) && mt_jis_text(b))
            return join_texts(run, a, b);
        if (a->kind == b->kind && is_sequence(a))
            return join_lists(run, a, b);
    } else if (operator== MT_J_MULTIPLY) {
        if (is_sequence(a) && mt_jis_integer(b))
            return repeat(run, a, mt_jinteger(b));
        if (is_sequence(b) && mt_jis_integer(a))
            return repeat(run, b, mt_jinteger(a));
    }
    return fail_types(run, operator, a, b);
}

struct mt_jvalue *mt_jnegate(struct mt_jrun *run, struct mt_jvalue *value, bool minus)
{
    if (mt_jis(value, MT_J_UNDEFINED))
        return mt_jfail_undefined(run, value);
    if (mt_jis(value, MT_J_FLOAT))
        return mt_jfloat(run, minus ? -value->number : value->number);
    if (mt_jis(value, MT_J_WIDE))
        return minus ? too_large(run) : value;
    if (!mt_jis_integer(value))
        return mt_jfail(run, "a sign before a value of type %s is not possible", mt_jtype(value));
    int64_t result = mt_jinteger(value);
    if (minus && __builtin_sub_overflow(0, result, &result))
        return too_large(run);
    return mt_jint(run, result);
}

bool mt_jrelate(struct mt_jrun *run, enum mt_joperator operator, struct mt_jvalue * a, struct mt_jvalue *b,
                bool *holds)
{
    int order;
    bool unordered;
    switch (operator) {
    case MT_J_EQUAL:
    case MT_J_NOT_EQUAL:
        *holds = mt_jequal(run, a, b) == (operator== MT_J_EQUAL);
        return !run->failed;
    case MT_J_IN:
    case MT_J_NOT_IN:
        if (!mt_jcontains(run, b, a, holds))
            return false;
        *holds = *holds == (operator== MT_J_IN);
        return true;
    default:
        break;
    }
    if (!mt_jcompare(run, a, b, &order, &unordered))
        return false;
    *holds = !unordered && (operator== MT_J_LESS       ? order < 0 :
                            operator== MT_J_LESS_EQUAL ? order <= 0
                            :
                            operator== MT_J_GREATER ? order > 0
                                                    : order >= 0);
    return true;
}
