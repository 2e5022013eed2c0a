/* The tokens of a dataset, compactly: ids one after another, one bit a token for "learned", and samples as
 * ranges of them. Ranges may share a token (windows of a document do). */
#ifndef MT_DATA_SAMPLES_H
#define MT_DATA_SAMPLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mt_sample_range {
    uint64_t first; /* token */
    uint64_t row;
    uint32_t tokens;
    bool validation;
};

struct mt_samples {
    int32_t *ids;
    uint8_t *learned; /* bit t of the whole */
    size_t num_tokens, token_capacity;
    struct mt_sample_range *ranges;
    size_t count, capacity;
};

/* Appends tokens; `learned` is an entry a token, NULL for all learned. 0 or -ENOMEM. */
int mt_samples_add_tokens(struct mt_samples *samples, const int32_t *ids, const int32_t *learned,
                          size_t count);
/* A sample of tokens that are there already. 0 or -ENOMEM (also beyond 2^32 - 1 samples). */
int mt_samples_add_range(struct mt_samples *samples, uint64_t first, uint32_t tokens, uint64_t row);
/* Gives back the memory that growing left over. */
void mt_samples_trim(struct mt_samples *samples);
void mt_samples_free(struct mt_samples *samples);

static inline bool mt_samples_learned(const struct mt_samples *samples, size_t token)
{
    return samples->learned[token / 8] >> (token % 8) & 1;
}

#endif
