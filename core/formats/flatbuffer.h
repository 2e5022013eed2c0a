/* Reading FlatBuffers (flatbuffers.dev, "internals") that are not trusted: every step is checked against the
 * buffer, and what is not there is 0. Positions count from the buffer's beginning; 0 is no position of
 * anything, since the buffer begins with the root's. */
#ifndef MT_FORMATS_FLATBUFFER_H
#define MT_FORMATS_FLATBUFFER_H

#include "core/base/bytes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mt_flatbuffer {
    const uint8_t *data;
    size_t bytes; /* below 2^31 */
};

/* A little-endian number of 1, 2, 4 or 8 bytes; 0 outside of the buffer. */
static inline uint64_t mt_flat_number(const struct mt_flatbuffer *buffer, size_t at, size_t width)
{
    return at > buffer->bytes || width > buffer->bytes - at ? 0 : mt_little_endian(buffer->data + at, width);
}

/* What the 32-bit offset at `at` leads to; 0: nothing within the buffer. */
static inline size_t mt_flat_follow(const struct mt_flatbuffer *buffer, size_t at)
{
    const size_t target = at + (size_t)mt_flat_number(buffer, at, 4);
    return at && target > at && target < buffer->bytes ? target : 0;
}

static inline size_t mt_flat_root(const struct mt_flatbuffer *buffer)
{
    const size_t target = (size_t)mt_flat_number(buffer, 0, 4);
    return target < buffer->bytes ? target : 0;
}

/* Where field number `field` of the table at `table` lies; 0: the field has its default. */
static inline size_t mt_flat_field(const struct mt_flatbuffer *buffer, size_t table, unsigned field)
{
    const int64_t vtable = (int64_t)table - (int32_t)mt_flat_number(buffer, table, 4);
    const size_t slot = 4 + 2 * (size_t)field;
    if (!table || vtable < 0 || (uint64_t)vtable >= buffer->bytes ||
        slot + 2 > mt_flat_number(buffer, (size_t)vtable, 2))
        return 0;
    const size_t offset = (size_t)mt_flat_number(buffer, (size_t)vtable + slot, 2);
    return offset && table + offset < buffer->bytes ? table + offset : 0;
}

static inline int64_t mt_flat_integer(const struct mt_flatbuffer *buffer, size_t table, unsigned field,
                                      size_t width, int64_t otherwise)
{
    const size_t at = mt_flat_field(buffer, table, field);
    const uint64_t value = mt_flat_number(buffer, at, width);
    if (!at)
        return otherwise;
    return width == 1   ? (int8_t)value
           : width == 2 ? (int16_t)value
           : width == 4 ? (int32_t)value
                        : (int64_t)value;
}

static inline size_t mt_flat_table(const struct mt_flatbuffer *buffer, size_t table, unsigned field)
{
    return mt_flat_follow(buffer, mt_flat_field(buffer, table, field));
}

/* The first element of a vector and their number, which fits into the buffer; 0 and 0 without one. */
static inline size_t mt_flat_vector(const struct mt_flatbuffer *buffer, size_t table, unsigned field,
                                    size_t element_bytes, size_t *count)
{
    const size_t at = mt_flat_table(buffer, table, field);
    *count = (size_t)mt_flat_number(buffer, at, 4);
    if (at && at + 4 <= buffer->bytes && *count <= (buffer->bytes - at - 4) / element_bytes)
        return at + 4;
    *count = 0;
    return 0;
}

#endif
