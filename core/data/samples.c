#include "core/data/samples.h"

#include <string.h>

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

int mt_samples_add_range(struct mt_samples *samples, uint64_t first, uint32_t tokens, uint64_t row,
                         struct mt_error *error)
{
    const struct mt_sample_range range = {.first = first, .row = row, .tokens = tokens};
    if (samples->count == UINT32_MAX)
        return mt_error_set(error, -EFBIG, MT_REASON_BAD_DATA,
                            "the data set has more than %u samples; train on a part of it", UINT32_MAX);
    samples->count++;
    return mt_bulk_append(&samples->arrays[MT_SAMPLES_RANGES], &range, sizeof range, error);
}

static void point(struct mt_samples *samples)
{
    samples->ids = samples->arrays[MT_SAMPLES_IDS].data;
    samples->learned = samples->arrays[MT_SAMPLES_LEARNED].data;
    samples->ranges = samples->arrays[MT_SAMPLES_RANGES].data;
}

int mt_samples_seal(struct mt_samples *samples, struct mt_error *error)
{
    int r = 0;
    if (samples->num_tokens % 8)
        r = mt_bulk_append(&samples->arrays[MT_SAMPLES_LEARNED], &samples->bits, 1, error);
    for (size_t i = 0; r == 0 && i < MT_SAMPLES_NUM_ARRAYS; i++)
        r = mt_bulk_seal(&samples->arrays[i], error);
    point(samples);
    return r;
}

int mt_samples_adopt(struct mt_samples *samples, struct mt_error *error)
{
    const struct mt_bulk *arrays = samples->arrays;
    point(samples);
    samples->num_tokens = arrays[MT_SAMPLES_IDS].bytes / sizeof *samples->ids;
    samples->count = (size_t)(arrays[MT_SAMPLES_RANGES].bytes / sizeof *samples->ranges);
    bool fine = arrays[MT_SAMPLES_LEARNED].bytes == samples->num_tokens / 8 + (samples->num_tokens % 8 != 0);
    for (size_t i = 0; fine && i < samples->count; i++) {
        const struct mt_sample_range *range = &samples->ranges[i];
        fine = range->tokens > 0 && range->first <= samples->num_tokens &&
               range->tokens <= samples->num_tokens - range->first;
    }
    return fine ? 0 : mt_error_set(error, -EINVAL, MT_REASON_IO, "the cached samples make no sense");
}

void mt_samples_free(struct mt_samples *samples)
{
    for (size_t i = 0; i < MT_SAMPLES_NUM_ARRAYS; i++)
        mt_bulk_free(&samples->arrays[i]);
    *samples = (struct mt_samples){0};
}

uint64_t mt_samples_count_learned(const struct mt_samples *samples, uint64_t first, uint64_t end)
{
    uint64_t count = 0;
    for (; first < end && first % 8; first++)
        count += mt_samples_learned(samples, first);
    for (; first + 64 <= end; first += 64) {
        uint64_t word;
        memcpy(&word, samples->learned + first / 8, sizeof word);
        count += (uint64_t)__builtin_popcountll(word);
    }
    for (; first < end; first++)
        count += mt_samples_learned(samples, first);
    return count;
}
