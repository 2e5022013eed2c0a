#include "core/formats/parquet_encoding.h"

#include "core/base/size.h"

static bool read_varint(struct mt_parquet_bytes *bytes, uint64_t *value)
{
    const size_t used = mt_varint_read(bytes->at, (size_t)(bytes->end - bytes->at), value);
    bytes->at += used;
    return used;
}

/* `width` bits (at most 64) from bit `bit` on, lowest first. */
static uint64_t unpack(const uint8_t *bits, size_t bit, unsigned width)
{
    uint64_t value = 0;
    for (unsigned have = 0; have < width;) {
        const unsigned offset = (unsigned)(bit % 8), part = 8 - offset;
        value |= (uint64_t)(bits[bit / 8] >> offset) << have;
        have += part;
        bit += part;
    }
    return width < 64 ? value & ((UINT64_C(1) << width) - 1) : value;
}

void mt_parquet_rle_begin(struct mt_parquet_rle *rle, struct mt_parquet_bytes bytes, unsigned width)
{
    *rle = (struct mt_parquet_rle){.bytes = bytes, .width = width};
}

/* The next run: a varint, its lowest bit says bit-packed (groups of 8) or repeated. */
bool mt_parquet_rle_refill(struct mt_parquet_rle *rle)
{
    uint64_t header, value;
    while (!rle->repeated && !rle->packed) {
        if (!read_varint(&rle->bytes, &header))
            return false;
        if (header & 1) {
            size_t bytes;
            const uint64_t groups = header >> 1;
            if (!mt_size_mul(groups, rle->width, &bytes))
                return false;
            /* Writers may leave out the padding of the last group. */
            const size_t there = mt_size_min(bytes, (size_t)(rle->bytes.end - rle->bytes.at));
            rle->bits = rle->bytes.at;
            rle->bit = 0;
            rle->packed = rle->width                ? (uint64_t)there * 8 / rle->width
                          : groups > UINT64_MAX / 8 ? 0
                                                    : groups * 8;
            rle->bytes.at += there;
            if (there < bytes && !rle->packed)
                return false;
        } else {
            if (!mt_parquet_fixed(&rle->bytes, (rle->width + 7) / 8, &value))
                return false;
            rle->repeated = header >> 1;
            rle->value = (uint32_t)value;
        }
    }
    return true;
}

uint32_t mt_parquet_rle_unpack(struct mt_parquet_rle *rle)
{
    const uint32_t value = (uint32_t)unpack(rle->bits, rle->bit, rle->width);
    rle->bit += rle->width;
    return value;
}

static bool read_zigzag(struct mt_parquet_bytes *bytes, uint64_t *value)
{
    if (!read_varint(bytes, value))
        return false;
    *value = *value >> 1 ^ -(*value & 1);
    return true;
}

bool mt_parquet_delta_begin(struct mt_parquet_delta *delta, struct mt_parquet_bytes bytes)
{
    uint64_t block_values, num_minis;
    *delta = (struct mt_parquet_delta){.bytes = bytes, .first = true};
    if (!read_varint(&delta->bytes, &block_values) || !read_varint(&delta->bytes, &num_minis) ||
        !read_varint(&delta->bytes, &delta->left) || !read_zigzag(&delta->bytes, &delta->last))
        return false;
    if (num_minis == 0 || num_minis > 4096 || block_values == 0 || block_values > 1 << 20 ||
        delta->left > INT32_MAX || block_values % num_minis || block_values / num_minis % 8)
        return false;
    delta->num_minis = (size_t)num_minis;
    delta->mini_values = (size_t)(block_values / num_minis);
    delta->mini = delta->num_minis;
    return true;
}

static bool next_mini(struct mt_parquet_delta *delta)
{
    if (delta->mini == delta->num_minis) {
        if (!read_zigzag(&delta->bytes, &delta->min_delta))
            return false;
        delta->widths = delta->bytes.at;
        if (!mt_parquet_skip(&delta->bytes, delta->num_minis))
            return false;
        delta->mini = 0;
    }
    delta->width = delta->widths[delta->mini++];
    delta->bits = delta->bytes.at;
    delta->bit = 0;
    delta->mini_left = delta->mini_values;
    return delta->width <= 64 && mt_parquet_skip(&delta->bytes, delta->mini_values / 8 * delta->width);
}

bool mt_parquet_delta_next(struct mt_parquet_delta *delta, int64_t *value)
{
    if (!delta->left)
        return false;
    delta->left--;
    if (delta->first) {
        delta->first = false;
    } else {
        if (!delta->mini_left && !next_mini(delta))
            return false;
        delta->mini_left--;
        delta->last += delta->min_delta + unpack(delta->bits, delta->bit, delta->width);
        delta->bit += delta->width;
    }
    *value = (int64_t)delta->last;
    return true;
}

bool mt_parquet_delta_end(struct mt_parquet_delta delta, struct mt_parquet_bytes *rest)
{
    int64_t value;
    while (delta.left)
        if (!mt_parquet_delta_next(&delta, &value))
            return false;
    *rest = delta.bytes;
    return true;
}
