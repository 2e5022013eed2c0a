/* Making the values of a row from what binary formats hold. Everything lives in the arena. Results: 0, or
 * -ENOMEM (the caller has the sentence). */
#ifndef MT_DATA_VALUE_BUILD_H
#define MT_DATA_VALUE_BUILD_H

#include "core/base/arena.h"
#include "core/data/value.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The last child so far of a list or an object that is being filled. */
struct mt_value_tail {
    struct mt_value **link;
};

/* A new value at the end of `parent`; NULL: no memory. Start with tail = {&parent->first}. */
struct mt_value *mt_value_append(struct mt_arena *arena, struct mt_value_tail *tail);

int mt_value_set_text(struct mt_value *value, struct mt_arena *arena, const void *text, size_t bytes);
/* Bytes that need not be text: a text where they are UTF-8, else an object {"bytes": how many}, which no
 * column of text may hold. */
int mt_value_set_bytes(struct mt_value *value, struct mt_arena *arena, const void *bytes, size_t count);
int mt_value_set_integer(struct mt_value *value, struct mt_arena *arena, int64_t number);
int mt_value_set_unsigned(struct mt_value *value, struct mt_arena *arena, uint64_t number);
/* As Python writes it: the shortest digits that give the number again; NaN and Infinity as json writes them.
 */
int mt_value_set_real(struct mt_value *value, struct mt_arena *arena, double number, bool single);
/* A big-endian number in two's complement (at most 32 bytes) times 10^-scale. */
int mt_value_set_decimal(struct mt_value *value, struct mt_arena *arena, const uint8_t *big_endian,
                         size_t bytes, int32_t scale);
int mt_value_set_date(struct mt_value *value, struct mt_arena *arena, int64_t days);
/* ISO 8601 as Python writes it: six digits of the second where they are not all zero (nine where needed).
 * units_per_second: 1, 10^3, 10^6 or 10^9. */
int mt_value_set_time(struct mt_value *value, struct mt_arena *arena, int64_t time, int64_t units_per_second);
int mt_value_set_timestamp(struct mt_value *value, struct mt_arena *arena, int64_t time,
                           int64_t units_per_second, bool utc);
int mt_value_set_uuid(struct mt_value *value, struct mt_arena *arena, const uint8_t bytes[16]);

/* Makes a map, a list of {key, value}, an object where all keys are texts; another one stays a list. */
void mt_value_make_object(struct mt_value *map);

#endif
