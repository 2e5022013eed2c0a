/* Saving and loading one checkpoint folder; docs/checkpoint.md has its contents. */
#ifndef MT_TRAIN_CHECKPOINT_H
#define MT_TRAIN_CHECKPOINT_H

#include "core/base/error.h"
#include "core/base/pool.h"
#include "core/store/store.h"
#include "core/text/tokenizer.h"

#include <jansson.h>
#include <stddef.h>

/* What goes into the folder beside the store's arrays. */
struct mt_checkpoint_contents {
    const struct mt_store *store; /* whole: after mt_executor_finish */
    const struct mt_tokenizer *tokenizer;
    const char *model_folder;    /* generation_config.json is copied from it; NULL: from scratch */
    const char *template_folder; /* chat_template.* are copied from it; NULL: there is none */
    const char *template;        /* the named chat template that was trained with; NULL: the model's own */
    const json_t *state;         /* trainer_state.json; "updates" (Adam's step count) is added */
    size_t step;
    double loss; /* of the last step; NaN before the first */
};

/* Writes `<checkpoints>/step-<N>`: beside, synced, renamed. A folder of that name that is there is replaced
 * only once the new one is whole. *path is malloc'd. A disk that cannot hold it is found out before anything
 * is written, with the bytes needed in the sentence (MT_REASON_DISK_FULL); after any failure nothing of the
 * new folder is left. */
int mt_checkpoint_save(const char *checkpoints, const struct mt_checkpoint_contents *contents, char **path,
                       struct mt_error *error);

/* Restores masters, moments and Adam's step count from a folder whose manifest was verified; *state is a new
 * reference. Anything missing is an error (MT_REASON_BAD_MODEL): no silent start with fresh moments. */
int mt_checkpoint_load(const char *path, struct mt_store *store, struct mt_pool *pool, json_t **state,
                       struct mt_error *error);

#endif
