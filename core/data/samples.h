/* The tokens of a dataset, compactly: ids one after another, one bit a token for "learned", and samples as
 * ranges of them. Ranges may share a token (windows of a document do). Written once, then sealed and read.
 *
 * What is read is checked, a sample at a time: the files lie open to other programs while a run goes on, and
 * nothing that they may write there is trained on. */
#ifndef MT_DATA_SAMPLES_H
#define MT_DATA_SAMPLES_H

#include "core/data/bulk.h"

#include <stddef.h>
#include <stdint.h>

struct mt_sample_range {
    uint64_t first; /* token */
    uint64_t row;
    uint32_t tokens;
    uint32_t check; /* of its tokens, of what is learned, and of its row */
};

enum { MT_SAMPLES_IDS, MT_SAMPLES_LEARNED, MT_SAMPLES_RANGES, MT_SAMPLES_NUM_ARRAYS };
extern const char *const mt_samples_names[MT_SAMPLES_NUM_ARRAYS]; /* of their files */

struct mt_samples {
    struct mt_bulk arrays[MT_SAMPLES_NUM_ARRAYS];
    uint64_t num_tokens;
    size_t count;
    uint8_t bits;     /* of "learned", not in its array yet: those of the last num_tokens % 8 tokens */
    uint8_t *scratch; /* [scratch_tokens], of mt_samples_add_range */
    size_t scratch_tokens;
};

void mt_samples_begin(struct mt_samples *samples, struct mt_bulk_folder *folder); /* borrowed until sealed */
/* Appends tokens; `learned` is an entry a token, NULL for all learned. */
int mt_samples_add_tokens(struct mt_samples *samples, const int32_t *ids, const int32_t *learned,
                          size_t count, struct mt_error *error);
/* A sample of tokens that are there already: the first is token `first`, and `ids` and `learned` (NULL: all)
 * are they once more. At most 2^32 - 1 samples. */
int mt_samples_add_range(struct mt_samples *samples, uint64_t first, const int32_t *ids,
                         const int32_t *learned, uint32_t tokens, uint64_t row, struct mt_error *error);
int mt_samples_seal(struct mt_samples *samples, struct mt_error *error);
/* Sealed samples whose arrays were opened: checks that the ranges lie within the tokens, and sets the rest.
 */
int mt_samples_adopt(struct mt_samples *samples, struct mt_error *error);
void mt_samples_free(struct mt_samples *samples);

/* Sealed samples; on any thread. -ESTALE where files were changed since. */
int mt_samples_range(const struct mt_samples *samples, size_t i, struct mt_sample_range *range,
                     struct mt_error *error);
/* The sample's tokens, [range->tokens], and of each whether it is learned, 0 or 1. */
int mt_samples_read(const struct mt_samples *samples, const struct mt_sample_range *range, int32_t *ids,
                    uint8_t *learned, struct mt_error *error);

/* All samples from front to back: how long each is, and how many of its tokens but the first are learned. */
struct mt_samples_cursor {
    struct mt_bulk_view ranges, learned;
};
int mt_samples_next(const struct mt_samples *samples, struct mt_samples_cursor *cursor, size_t i,
                    struct mt_sample_range *range, uint64_t *targets, struct mt_error *error);
void mt_samples_cursor_end(struct mt_samples_cursor *cursor);

#endif
