#include "core/data/value_build.h"

#include "core/base/utf8.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct mt_value *mt_value_append(struct mt_arena *arena, struct mt_value_tail *tail)
{
    struct mt_value *value = mt_arena_alloc(arena, 1, sizeof *value);
    if (value) {
        *tail->link = value;
        tail->link = &value->next;
    }
    return value;
}

static int set(struct mt_value *value, struct mt_arena *arena, enum mt_value_kind kind, const void *text,
               size_t bytes)
{
    char *copy = mt_arena_alloc(arena, bytes + 1, 1);
    if (!copy)
        return -ENOMEM;
    if (bytes)
        memcpy(copy, text, bytes);
    value->kind = kind;
    value->text = copy;
    value->bytes = bytes;
    return 0;
}

int mt_value_set_text(struct mt_value *value, struct mt_arena *arena, const void *text, size_t bytes)
{
    return set(value, arena, MT_VALUE_TEXT, text, bytes);
}

int mt_value_set_bytes(struct mt_value *value, struct mt_arena *arena, const void *bytes, size_t count)
{
    if (mt_utf8_find_ill_formed(bytes, count) == count)
        return set(value, arena, MT_VALUE_TEXT, bytes, count);
    struct mt_value_tail tail = {&value->first};
    struct mt_value *length = mt_value_append(arena, &tail);
    if (!length)
        return -ENOMEM;
    value->kind = MT_VALUE_OBJECT;
    length->key = "bytes";
    length->key_bytes = 5;
    return mt_value_set_unsigned(length, arena, count);
}

int mt_value_set_integer(struct mt_value *value, struct mt_arena *arena, int64_t number)
{
    char text[24];
    return set(value, arena, MT_VALUE_NUMBER, text, (size_t)snprintf(text, sizeof text, "%" PRId64, number));
}

int mt_value_set_unsigned(struct mt_value *value, struct mt_arena *arena, uint64_t number)
{
    char text[24];
    return set(value, arena, MT_VALUE_NUMBER, text, (size_t)snprintf(text, sizeof text, "%" PRIu64, number));
}

int mt_value_set_real(struct mt_value *value, struct mt_arena *arena, double number, bool single)
{
    char text[40];
    if (isnan(number))
        return set(value, arena, MT_VALUE_NUMBER, "NaN", 3);
    if (isinf(number))
        return number > 0 ? set(value, arena, MT_VALUE_NUMBER, "Infinity", 8)
                          : set(value, arena, MT_VALUE_NUMBER, "-Infinity", 9);
    const double magnitude = fabs(number);
    if (magnitude < 1e15 && number == nearbyint(number)) {
        snprintf(text, sizeof text, "%.1f", number);
    } else {
        for (int digits = 1; digits <= 17; digits++) {
            snprintf(text, sizeof text, "%.*g", digits, number);
            if (single ? strtof(text, NULL) == (float)number : strtod(text, NULL) == number)
                break;
        }
    }
    return set(value, arena, MT_VALUE_NUMBER, text, strlen(text));
}

int mt_value_set_decimal(struct mt_value *value, struct mt_arena *arena, const uint8_t *big_endian,
                         size_t bytes, int32_t scale)
{
    uint8_t number[32];
    char digits[80], text[200];
    if (bytes > sizeof number || scale > 76 || bytes == 0)
        return set(value, arena, MT_VALUE_NUMBER, "NaN", 3);
    const bool negative = big_endian[0] & 0x80;
    unsigned carry = 1;
    for (size_t i = bytes; i-- > 0;) {
        number[i] = negative ? (uint8_t)~big_endian[i] : big_endian[i];
        if (negative) {
            carry += number[i];
            number[i] = (uint8_t)carry;
            carry >>= 8;
        }
    }
    size_t count = 0; /* of digits, lowest first */
    bool zero = false;
    while (!zero && count < sizeof digits) {
        unsigned rest = 0;
        zero = true;
        for (size_t i = 0; i < bytes; i++) {
            const unsigned part = rest << 8 | number[i];
            number[i] = (uint8_t)(part / 10);
            rest = part % 10;
            zero = zero && number[i] == 0;
        }
        digits[count++] = (char)('0' + rest);
    }
    while (count <= (size_t)scale && count < sizeof digits)
        digits[count++] = '0';
    char *out = text;
    if (negative)
        *out++ = '-';
    while (count-- > 0) {
        *out++ = digits[count];
        if (count == (size_t)scale && scale > 0)
            *out++ = '.';
    }
    return set(value, arena, MT_VALUE_NUMBER, text, (size_t)(out - text));
}

/* Days since 1970 as year, month and day of the proleptic Gregorian calendar (Hinnant, "chrono-compatible
 * low-level date algorithms"). */
static void civil(int64_t days, int64_t *year, unsigned *month, unsigned *day)
{
    days += 719468;
    const int64_t era = (days >= 0 ? days : days - 146096) / 146097;
    const unsigned day_of_era = (unsigned)(days - era * 146097);
    const unsigned year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    const unsigned day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    const unsigned shifted = (5 * day_of_year + 2) / 153; /* months from March */
    *day = day_of_year - (153 * shifted + 2) / 5 + 1;
    *month = shifted < 10 ? shifted + 3 : shifted - 9;
    *year = (int64_t)year_of_era + era * 400 + (*month <= 2);
}

static size_t write_date(char *text, size_t size, int64_t days)
{
    int64_t year;
    unsigned month, day;
    civil(days, &year, &month, &day);
    return (size_t)snprintf(text, size, "%04" PRId64 "-%02u-%02u", year, month, day);
}

static size_t write_time(char *text, size_t size, int64_t time, int64_t units)
{
    const int64_t seconds = time / units;
    size_t used = (size_t)snprintf(text, size, "%02d:%02d:%02d", (int)(seconds / 3600 % 24),
                                   (int)(seconds / 60 % 60), (int)(seconds % 60));
    const int64_t nanoseconds = time % units * (1000000000 / units);
    if (nanoseconds % 1000)
        used += (size_t)snprintf(text + used, size - used, ".%09d", (int)nanoseconds);
    else if (nanoseconds)
        used += (size_t)snprintf(text + used, size - used, ".%06d", (int)(nanoseconds / 1000));
    return used;
}

int mt_value_set_date(struct mt_value *value, struct mt_arena *arena, int64_t days)
{
    char text[64];
    if (days > INT32_MAX || days < INT32_MIN)
        return mt_value_set_integer(value, arena, days);
    return set(value, arena, MT_VALUE_TEXT, text, write_date(text, sizeof text, days));
}

int mt_value_set_time(struct mt_value *value, struct mt_arena *arena, int64_t time, int64_t units_per_second)
{
    char text[64];
    if (time < 0)
        return mt_value_set_integer(value, arena, time);
    return set(value, arena, MT_VALUE_TEXT, text, write_time(text, sizeof text, time, units_per_second));
}

int mt_value_set_timestamp(struct mt_value *value, struct mt_arena *arena, int64_t time,
                           int64_t units_per_second, bool utc)
{
    char text[128];
    const int64_t day = 86400 * units_per_second;
    int64_t days = time / day, rest = time % day;
    if (rest < 0) {
        rest += day;
        days--;
    }
    size_t used = write_date(text, sizeof text, days);
    text[used++] = 'T';
    used += write_time(text + used, sizeof text - used, rest, units_per_second);
    if (utc)
        text[used++] = 'Z';
    return set(value, arena, MT_VALUE_TEXT, text, used);
}

int mt_value_set_uuid(struct mt_value *value, struct mt_arena *arena, const uint8_t bytes[16])
{
    char text[40], *out = text;
    for (int i = 0; i < 16; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            *out++ = '-';
        out += sprintf(out, "%02x", bytes[i]);
    }
    return set(value, arena, MT_VALUE_TEXT, text, 36);
}

void mt_value_make_object(struct mt_value *map)
{
    for (const struct mt_value *pair = map->first; pair; pair = pair->next)
        if (pair->kind != MT_VALUE_OBJECT || !pair->first || pair->first->kind != MT_VALUE_TEXT ||
            !pair->first->next)
            return;
    struct mt_value_tail tail = {&map->first};
    for (struct mt_value *pair = map->first, *next; pair; pair = next) {
        struct mt_value *member = pair->first->next;
        next = pair->next;
        member->key = pair->first->text;
        member->key_bytes = pair->first->bytes;
        member->next = NULL;
        *tail.link = member;
        tail.link = &member->next;
    }
    map->kind = MT_VALUE_OBJECT;
}
