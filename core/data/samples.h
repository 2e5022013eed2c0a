/* The tokens of a dataset, compactly: ids one after another, one bit a token for "learned", and samples as
 * ranges of them. Ranges may share a token (windows of a document do). Written once, then sealed and read. */
#ifndef MT_DATA_SAMPLES_H
#define MT_DATA_SAMPLES_H

#include "core/data/bulk.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mt_sample_range {
    uint64_t first; /* token */
    uint64_t row;
    uint32_t tokens;
    uint32_t unused; /* 0: it lies in files */
};

enum { MT_SAMPLES_IDS, MT_SAMPLES_LEARNED, MT_SAMPLES_RANGES, MT_SAMPLES_NUM_ARRAYS };
extern const char *const mt_samples_names[MT_SAMPLES_NUM_ARRAYS]; /* of their files */

struct mt_samples {
    struct mt_bulk arrays[MT_SAMPLES_NUM_ARRAYS];
    uint64_t num_tokens;
    size_t count;
    uint8_t bits; /* of "learned", not in its array yet: those of the last num_tokens % 8 tokens */
    /* Once sealed: */
    const int32_t *ids;
    const uint8_t *learned; /* bit t of the whole */
    const struct mt_sample_range *ranges;
};

void mt_samples_begin(struct mt_samples *samples, struct mt_bulk_folder *folder); /* borrowed until sealed */
/* Appends tokens; `learned` is an entry a token, NULL for all learned. */
int mt_samples_add_tokens(struct mt_samples *samples, const int32_t *ids, const int32_t *learned,
                          size_t count, struct mt_error *error);
/* A sample of tokens that are there already. At most 2^32 - 1 samples. */
int mt_samples_add_range(struct mt_samples *samples, uint64_t first, uint32_t tokens, uint64_t row,
                         struct mt_error *error);
int mt_samples_seal(struct mt_samples *samples, struct mt_error *error);
/* Sealed samples whose arrays were mapped: checks that the ranges lie within the tokens, and sets the rest.
 */
int mt_samples_adopt(struct mt_samples *samples, struct mt_error *error);
void mt_samples_free(struct mt_samples *samples);

static inline bool mt_samples_learned(const struct mt_samples *samples, uint64_t token)
{
    return samples->learned[token / 8] >> (token % 8) & 1;
}
/* How many of the tokens [first, end) are learned. */
uint64_t mt_samples_count_learned(const struct mt_samples *samples, uint64_t first, uint64_t end);

#endif
