/* Parquet's encodings (parquet-format, Encodings.md), each as a reader of one value after another that never
 * looks past its bytes. A reader's functions are false when the data ends early or makes no sense. */
#ifndef MT_FORMATS_PARQUET_ENCODING_H
#define MT_FORMATS_PARQUET_ENCODING_H

#include "core/base/bytes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mt_parquet_bytes {
    const uint8_t *at, *end;
};

static inline bool mt_parquet_skip(struct mt_parquet_bytes *bytes, size_t count)
{
    if (count > (size_t)(bytes->end - bytes->at))
        return false;
    bytes->at += count;
    return true;
}

/* A little-endian number of `width` bytes, at most 8. */
static inline bool mt_parquet_fixed(struct mt_parquet_bytes *bytes, size_t width, uint64_t *value)
{
    const uint8_t *at = bytes->at;
    if (!mt_parquet_skip(bytes, width))
        return false;
    *value = mt_little_endian(at, width);
    return true;
}

/* --- RLE and bit-packing, mixed: levels, dictionary indices, booleans
 * --------------------------------------- */

struct mt_parquet_rle {
    struct mt_parquet_bytes bytes;
    unsigned width;      /* of a value in bits, at most 32 */
    uint64_t repeated;   /* values of a run that are left */
    uint32_t value;      /* of the run */
    uint64_t packed;     /* bit-packed values that are left */
    const uint8_t *bits; /* of them */
    size_t bit;          /* next one, from `bits` on */
};

void mt_parquet_rle_begin(struct mt_parquet_rle *rle, struct mt_parquet_bytes bytes, unsigned width);
bool mt_parquet_rle_refill(struct mt_parquet_rle *rle);
uint32_t mt_parquet_rle_unpack(struct mt_parquet_rle *rle);

static inline bool mt_parquet_rle_next(struct mt_parquet_rle *rle, uint32_t *value)
{
    if (!rle->repeated && !rle->packed && !mt_parquet_rle_refill(rle))
        return false;
    if (rle->repeated) {
        rle->repeated--;
        *value = rle->value;
    } else {
        rle->packed--;
        *value = mt_parquet_rle_unpack(rle);
    }
    return true;
}

/* --- DELTA_BINARY_PACKED
 * ------------------------------------------------------------------------------------ */

struct mt_parquet_delta {
    struct mt_parquet_bytes bytes;
    uint64_t left;      /* values */
    uint64_t last;      /* arithmetic wraps around */
    uint64_t min_delta; /* of the block */
    size_t mini_values; /* in a miniblock */
    size_t num_minis;   /* in a block */
    size_t mini;        /* next miniblock of the block */
    size_t mini_left;   /* deltas of the miniblock at hand */
    unsigned width;     /* of them in bits */
    const uint8_t *widths, *bits;
    size_t bit;
    bool first;
};

bool mt_parquet_delta_begin(struct mt_parquet_delta *delta, struct mt_parquet_bytes bytes);
bool mt_parquet_delta_next(struct mt_parquet_delta *delta, int64_t *value);
/* Reads all values that are left and says where the data after them begins. */
bool mt_parquet_delta_end(struct mt_parquet_delta delta, struct mt_parquet_bytes *rest);

#endif
