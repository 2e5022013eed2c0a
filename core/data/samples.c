#include "core/data/samples.h"

#include "core/base/size.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int reserve_tokens(struct mt_samples *samples, size_t more)
{
    size_t needed;
    if (!mt_size_add(samples->num_tokens, more, &needed) || needed > SIZE_MAX / 16)
        return -ENOMEM;
    if (needed <= samples->token_capacity)
        return 0;
    const size_t capacity = mt_size_max(needed, samples->token_capacity + samples->token_capacity / 2 + 4096);
    int32_t *ids = realloc(samples->ids, capacity * sizeof *ids);
    if (!ids)
        return -ENOMEM;
    samples->ids = ids;
    const size_t old_bytes = mt_size_ceil_div(samples->token_capacity, 8);
    const size_t new_bytes = mt_size_ceil_div(capacity, 8);
    uint8_t *learned = realloc(samples->learned, new_bytes);
    if (!learned)
        return -ENOMEM;
    memset(learned + old_bytes, 0, new_bytes - old_bytes);
    samples->learned = learned;
    samples->token_capacity = capacity;
    return 0;
}

int mt_samples_add_tokens(struct mt_samples *samples, const int32_t *ids, const int32_t *learned,
                          size_t count)
{
    if (!count)
        return 0;
    if (reserve_tokens(samples, count) < 0)
        return -ENOMEM;
    memcpy(samples->ids + samples->num_tokens, ids, count * sizeof *ids);
    for (size_t i = 0; i < count; i++)
        if (!learned || learned[i]) {
            const size_t token = samples->num_tokens + i;
            samples->learned[token / 8] |= (uint8_t)(1u << token % 8);
        }
    samples->num_tokens += count;
    return 0;
}

int mt_samples_add_range(struct mt_samples *samples, uint64_t first, uint32_t tokens, uint64_t row)
{
    if (samples->count == UINT32_MAX)
        return -ENOMEM;
    if (samples->count == samples->capacity) {
        const size_t capacity = samples->capacity + samples->capacity / 2 + 64;
        void *ranges = realloc(samples->ranges, capacity * sizeof *samples->ranges);
        if (!ranges)
            return -ENOMEM;
        samples->ranges = ranges;
        samples->capacity = capacity;
    }
    samples->ranges[samples->count++] =
        (struct mt_sample_range){.first = first, .row = row, .tokens = tokens};
    return 0;
}

static void *trim(void *data, size_t bytes)
{
    void *smaller = bytes ? realloc(data, bytes) : NULL;
    return smaller ? smaller : data;
}

void mt_samples_trim(struct mt_samples *samples)
{
    samples->ids = trim(samples->ids, samples->num_tokens * sizeof *samples->ids);
    samples->learned = trim(samples->learned, mt_size_ceil_div(samples->num_tokens, 8));
    samples->ranges = trim(samples->ranges, samples->count * sizeof *samples->ranges);
    samples->token_capacity = samples->num_tokens;
    samples->capacity = samples->count;
}

void mt_samples_free(struct mt_samples *samples)
{
    free(samples->ids);
    free(samples->learned);
    free(samples->ranges);
    *samples = (struct mt_samples){0};
}
