/* The order in which a dataset's sequences train: a seeded permutation an epoch, handed out a step at a time.
 * Of a mixture each part gives as many sequences to an epoch as mt_dataset_share says, at places that the
 * permutation chooses, and goes on in the next epoch where it stopped. Everything is a function of seed,
 * epoch and place. A position is (epoch, sequences handed out in it), so it resumes exactly, whatever the
 * step it was saved at. The last step of an epoch holds what is left of it. */
#ifndef MT_DATA_SAMPLER_H
#define MT_DATA_SAMPLER_H

#include "core/base/error.h"
#include "core/data/batch.h"
#include "core/data/dataset.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mt_sampler;

struct mt_sampler_options {
    bool validation;           /* the validation split, in its own order, else the training split */
    size_t sequences_per_step; /* batch_size x gradient_accumulation_steps */
    bool in_order;             /* no shuffle; always so for validation */
    bool group_by_length;      /* sequences of nearly the same length in a step */
};

/* The dataset must outlive the sampler. -ENODATA, MT_REASON_BAD_DATA when the split is empty. */
int mt_sampler_new(const struct mt_dataset *dataset, const struct mt_sampler_options *options,
                   struct mt_sampler **sampler, struct mt_error *error);
void mt_sampler_free(struct mt_sampler *sampler); /* NULL is fine */

size_t mt_sampler_steps_per_epoch(const struct mt_sampler *sampler);
/* num_epochs (may be a fraction; > 0) as steps: rounded up. -ERANGE when it does not fit. */
int mt_sampler_max_steps(const struct mt_sampler *sampler, double num_epochs, uint64_t *max_steps,
                         struct mt_error *error);

/* The next step's sequences; epochs follow one another without end. The caller frees with mt_batch_free. Only
 * ids and labels of the step are made, from what the dataset holds. */
int mt_sampler_next(struct mt_sampler *sampler, struct mt_batch **batch, struct mt_error *error);
void mt_batch_free(struct mt_batch *batch); /* NULL is fine */

/* The position as a small JSON object: {"epoch", "position", "sequences", "fingerprint"}. New reference; NULL
 * when out of memory. */
json_t *mt_sampler_state(const struct mt_sampler *sampler);
/* Goes to a saved position. -ESTALE, MT_REASON_BAD_DATA when it was saved with other data, tokenizer,
 * template, lengths or seed; -EINVAL, MT_REASON_BAD_MODEL when it is damaged. */
int mt_sampler_restore(struct mt_sampler *sampler, const json_t *state, struct mt_error *error);

#endif
