#include "core/data/samples.h"

#include "core/base/size.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

const char *const mt_samples_names[MT_SAMPLES_NUM_ARRAYS] = {"ids", "learned", "ranges"};

void mt_samples_begin(struct mt_samples *samples, struct mt_bulk_folder *folder)
{
    *samples = (struct mt_samples){0};
    for (size_t i = 0; i < MT_SAMPLES_NUM_ARRAYS; i++)
        samples->arrays[i] = (struct mt_bulk){.folder = folder, .name = mt_samples_names[i]};
}

/* Whole bytes of tokens that are all learned. */
static int add_learned_bytes(struct mt_samples *samples, size_t bytes, struct mt_error *error)
{
    uint8_t piece[512];
    int r = 0;
    memset(piece, 0xff, sizeof piece);
    while (r == 0 && bytes > 0) {
        const size_t part = bytes < sizeof piece ? bytes : sizeof piece;
        r = mt_bulk_append(&samples->arrays[MT_SAMPLES_LEARNED], piece, part, error);
        bytes -= part;
    }
    return r;
}

static int add_bits(struct mt_samples *samples, const int32_t *learned, size_t count, struct mt_error *error)
{
    unsigned bit = (unsigned)(samples->num_tokens % 8);
    for (size_t i = 0; i < count; i++) {
        if (!learned && bit == 0 && count - i >= 8) {
            int r = add_learned_bytes(samples, (count - i) / 8, error);
            if (r < 0)
                return r;
            i += (count - i) / 8 * 8;
            if (i == count)
                break;
        }
        samples->bits |= (uint8_t)((!learned || learned[i]) << bit);
        if (++bit < 8)
            continue;
        int r = mt_bulk_append(&samples->arrays[MT_SAMPLES_LEARNED], &samples->bits, 1, error);
        if (r < 0)
            return r;
        samples->bits = 0;
        bit = 0;
    }
    return 0;
}

int mt_samples_add_tokens(struct mt_samples *samples, const int32_t *ids, const int32_t *learned,
                          size_t count, struct mt_error *error)
{
    int r = mt_bulk_append(&samples->arrays[MT_SAMPLES_IDS], ids, count * sizeof *ids, error);
    if (r == 0)
        r = add_bits(samples, learned, count, error);
    samples->num_tokens += count;
    return r;
}

static uint32_t check_of(const int32_t *ids, const uint8_t *learned, size_t tokens, uint64_t row)
{
    const uint64_t seed = XXH3_64bits_withSeed(learned, tokens, row);
    return (uint32_t)XXH3_64bits_withSeed(ids, tokens * sizeof *ids, seed);
}

/* One byte a token; NULL: no memory. */
static const uint8_t *learned_bytes(struct mt_samples *samples, const int32_t *learned, size_t tokens)
{
    if (tokens > samples->scratch_tokens) {
        free(samples->scratch);
        samples->scratch_tokens = mt_size_max(tokens, 4096);
        samples->scratch = malloc(samples->scratch_tokens);
        if (!samples->scratch)
            samples->scratch_tokens = 0;
    }
    for (size_t i = 0; samples->scratch && i < tokens; i++)
        samples->scratch[i] = !learned || learned[i];
    return samples->scratch;
}

int mt_samples_add_range(struct mt_samples *samples, uint64_t first, const int32_t *ids,
                         const int32_t *learned, uint32_t tokens, uint64_t row, struct mt_error *error)
{
    if (samples->count == UINT32_MAX)
        return mt_error_set(error, -EFBIG, MT_REASON_BAD_DATA,
                            "the data set has more than %u samples; train on a part of it", UINT32_MAX);
    const uint8_t *bytes = learned_bytes(samples, learned, tokens);
    if (!bytes)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory for the data set");
    const struct mt_sample_range range = {
        .first = first, .row = row, .tokens = tokens, .check = check_of(ids, bytes, tokens, row)};
    samples->count++;
    return mt_bulk_append(&samples->arrays[MT_SAMPLES_RANGES], &range, sizeof range, error);
}

int mt_samples_seal(struct mt_samples *samples, struct mt_error *error)
{
    int r = 0;
    free(samples->scratch);
    samples->scratch = NULL;
    samples->scratch_tokens = 0;
    if (samples->num_tokens % 8)
        r = mt_bulk_append(&samples->arrays[MT_SAMPLES_LEARNED], &samples->bits, 1, error);
    for (size_t i = 0; r == 0 && i < MT_SAMPLES_NUM_ARRAYS; i++)
        r = mt_bulk_seal(&samples->arrays[i], error);
    return r;
}

static bool fits(const struct mt_samples *samples, const struct mt_sample_range *range)
{
    return range->tokens > 0 && range->first <= samples->num_tokens &&
           range->tokens <= samples->num_tokens - range->first;
}

int mt_samples_adopt(struct mt_samples *samples, struct mt_error *error)
{
    const struct mt_bulk *arrays = samples->arrays;
    samples->num_tokens = arrays[MT_SAMPLES_IDS].bytes / sizeof(int32_t);
    samples->count = (size_t)(arrays[MT_SAMPLES_RANGES].bytes / sizeof(struct mt_sample_range));
    bool fine = arrays[MT_SAMPLES_LEARNED].bytes == samples->num_tokens / 8 + (samples->num_tokens % 8 != 0);
    struct mt_bulk_view ranges = {.bulk = &arrays[MT_SAMPLES_RANGES]};
    for (size_t i = 0; fine && i < samples->count; i++) {
        const void *range;
        fine = mt_bulk_view_at(&ranges, i * sizeof(struct mt_sample_range), sizeof(struct mt_sample_range),
                               &range, error) == 0 &&
               fits(samples, range);
    }
    mt_bulk_view_end(&ranges);
    return fine ? 0 : mt_error_set(error, -EINVAL, MT_REASON_IO, "the cached samples make no sense");
}

void mt_samples_free(struct mt_samples *samples)
{
    for (size_t i = 0; i < MT_SAMPLES_NUM_ARRAYS; i++)
        mt_bulk_free(&samples->arrays[i]);
    free(samples->scratch);
    *samples = (struct mt_samples){0};
}

int mt_samples_range(const struct mt_samples *samples, size_t i, struct mt_sample_range *range,
                     struct mt_error *error)
{
    const struct mt_bulk *ranges = &samples->arrays[MT_SAMPLES_RANGES];
    int r = mt_bulk_read(ranges, i * sizeof *range, range, sizeof *range, error);
    return r == 0 && !fits(samples, range) ? mt_bulk_spoilt(ranges, error) : r;
}

int mt_samples_read(const struct mt_samples *samples, const struct mt_sample_range *range, int32_t *ids,
                    uint8_t *learned, struct mt_error *error)
{
    const size_t tokens = range->tokens, shift = (size_t)(range->first % 8);
    /* The bits, at the end of their room: expanded from the front on, none is overwritten before it was read.
     */
    const size_t packed = (shift + tokens + 7) / 8;
    uint8_t *bits = learned + tokens - packed;
    int r = mt_bulk_read(&samples->arrays[MT_SAMPLES_IDS], range->first * sizeof *ids, ids,
                         tokens * sizeof *ids, error);
    if (r == 0)
        r = mt_bulk_read(&samples->arrays[MT_SAMPLES_LEARNED], range->first / 8, bits, packed, error);
    if (r < 0)
        return r;
    for (size_t t = 0; t < tokens; t++)
        learned[t] = bits[(shift + t) / 8] >> (shift + t) % 8 & 1;
    return check_of(ids, learned, tokens, range->row) == range->check
               ? 0
               : mt_bulk_spoilt(&samples->arrays[MT_SAMPLES_IDS], error);
}

/* How many of the bits [first, end) are set; `bits` begins with bit `first` - `first` % 8. */
static uint64_t count_bits(const uint8_t *bits, uint64_t first, uint64_t end)
{
    uint64_t count = 0, at = first % 8;
    end -= first - at;
    for (; at < end && at % 8; at++)
        count += bits[at / 8] >> at % 8 & 1;
    for (; at + 64 <= end; at += 64) {
        uint64_t word;
        memcpy(&word, bits + at / 8, sizeof word);
        count += (uint64_t)__builtin_popcountll(word);
    }
    for (; at < end; at++)
        count += bits[at / 8] >> at % 8 & 1;
    return count;
}

int mt_samples_next(const struct mt_samples *samples, struct mt_samples_cursor *cursor, size_t i,
                    struct mt_sample_range *range, uint64_t *targets, struct mt_error *error)
{
    cursor->ranges.bulk = &samples->arrays[MT_SAMPLES_RANGES];
    cursor->learned.bulk = &samples->arrays[MT_SAMPLES_LEARNED];
    const void *found;
    int r = mt_bulk_view_at(&cursor->ranges, i * sizeof *range, sizeof *range, &found, error);
    if (r < 0)
        return r;
    memcpy(range, found, sizeof *range);
    if (!fits(samples, range))
        return mt_bulk_spoilt(cursor->ranges.bulk, error);
    *targets = 0;
    const uint64_t end = range->first + range->tokens;
    for (uint64_t first = range->first + 1; first < end;) {
        const uint64_t piece = mt_size_min((size_t)(end - first), 4 * MT_BULK_VIEW_BYTES);
        r = mt_bulk_view_at(&cursor->learned, first / 8, (size_t)((first + piece + 7) / 8 - first / 8),
                            &found, error);
        if (r < 0)
            return r;
        *targets += count_bits(found, first, first + piece);
        first += piece;
    }
    return 0;
}

void mt_samples_cursor_end(struct mt_samples_cursor *cursor)
{
    mt_bulk_view_end(&cursor->ranges);
    mt_bulk_view_end(&cursor->learned);
}
