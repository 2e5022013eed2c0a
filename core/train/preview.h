/* A look at a job's data before anything is computed: what `megatrain data` and POST /datasets/preview show.
 */
#ifndef MT_TRAIN_PREVIEW_H
#define MT_TRAIN_PREVIEW_H

#include "core/base/error.h"
#include "core/base/pool.h"
#include "core/job/job.h"

#include <jansson.h>
#include <stddef.h>

#define MT_PREVIEW_MAX_SHOW 1000 /* samples */

struct mt_preview_options {
    size_t show;       /* samples */
    size_t max_tokens; /* of all samples shown together: what goes beyond is cut off; 0: no bound */
    size_t max_rows;   /* that are read; 0: all */
};

/* Reads the data as a run would, with the model's tokenizer and template, and without its weights.
 * *document (new reference) is mt_dataset_stats_json, with `template`, the chat template's name, and `show`:
 * of the first samples in the order of the files [{row, ids, learned, pieces, text, validation}], `learned`
 * 0 or 1 a token, `pieces` its text, which together are `text`; special tokens are written out. `complete`
 * is false where there were more rows than max_rows. Errors as mt_run_open_data. `pool` may be NULL. */
int mt_preview_make(struct mt_job *job, const struct mt_preview_options *options, struct mt_pool *pool,
                    json_t **document, struct mt_error *error);

#endif
