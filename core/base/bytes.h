/* Numbers out of bytes, as files have them. */
#ifndef MT_BASE_BYTES_H
#define MT_BASE_BYTES_H

#include <stddef.h>
#include <stdint.h>

/* A little-endian number of `width` bytes, at most 8. */
static inline uint64_t mt_little_endian(const void *data, size_t width)
{
    uint64_t value = 0;
    for (size_t i = 0; i < width; i++)
        value |= (uint64_t)((const uint8_t *)data)[i] << 8 * i;
    return value;
}

/* A number in groups of seven bits, the lowest first, each but the last with its highest bit set (LEB128:
 * protocol buffers, Thrift, Parquet). Returns the bytes that it takes; 0: the data end within it, or it is of
 * more than 64 bits. */
static inline size_t mt_varint_read(const void *data, size_t bytes, uint64_t *value)
{
    *value = 0;
    for (size_t i = 0; i < bytes && i < 10; i++) {
        const uint8_t byte = ((const uint8_t *)data)[i];
        if (i == 9 && byte > 1)
            return 0;
        *value |= (uint64_t)(byte & 0x7f) << 7 * i;
        if (!(byte & 0x80))
            return i + 1;
    }
    return 0;
}

#endif
