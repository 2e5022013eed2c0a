/* What the files of the training loop share: the state of a run (trainer.c), its start (trainer_start.c) and
 * its saves (trainer_save.c). */
#ifndef MT_TRAIN_TRAINER_INTERNAL_H
#define MT_TRAIN_TRAINER_INTERNAL_H

#include "core/train/run.h"
#include "core/train/series.h"
#include "core/train/trainer.h"

#define MT_TRAINER_STATE_FORMAT 1 /* of trainer_state.json */

struct trainer {
    const struct mt_trainer_options *options;
    struct mt_run run;
    struct mt_series *series;
    char *checkpoints; /* folder */
    unsigned attempt;

    /* What trainer_state.json carries. */
    size_t step, trained_tokens, skipped_steps, skipped_in_row;
    size_t best_step; /* of the lowest validation loss; 0: none yet */
    double best_val_loss;

    size_t saved_step, resumed_step;
    bool has_saved, has_resumed;
    struct mt_step_row row; /* the last one */
    bool has_row;
    bool evaluation_due; /* a request broke off the evaluation that belongs to the last row */
    double last_loss;
    double mean_step_seconds;
    enum mt_trainer_request request; /* the most urgent so far, checkpoint apart */
    bool checkpoint_asked;
    const char *phase;
};

/* trainer.c. To log.jsonl and the owner; `priority` as in syslog.h. */
void mt_trainer_log(struct trainer *trainer, int priority, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The phase that the owner is told of. */
void mt_trainer_enter(struct trainer *trainer, const char *phase);
/* Asks the owner; true when the run is to end. mt_trainer_should_stop: the same as a callback. */
bool mt_trainer_asked_to_end(struct trainer *trainer);
bool mt_trainer_should_stop(void *context);

/* fetch.c. Model and data that are to be brought here first. *settled: the job has changed, since the model
 * is a GGUF file, which it names now. -ECANCELED when asked to end. */
int mt_trainer_fetch(struct trainer *trainer, bool *settled, struct mt_error *error);

/* trainer_start.c. Model, data, device and engine; the state of the newest whole checkpoint, or the first
 * one. */
int mt_trainer_open(struct trainer *trainer, struct mt_error *error);

/* trainer_save.c. A checkpoint of the step that was made last, unless there is one; old ones go. */
int mt_trainer_save(struct trainer *trainer, struct mt_error *error);
/* checkpoints/final -> step-N, replaced in one rename. */
int mt_trainer_link_final(struct trainer *trainer, struct mt_error *error);
/* "the last good checkpoint is that of step N", for errors. */
const char *mt_trainer_last_good(const struct trainer *trainer, char text[static 64]);
/* Passes `result` on; a state that updates have spoilt already is told with its step and where to go on from.
 */
int mt_trainer_blown_up(const struct trainer *trainer, size_t step, int result, struct mt_error *error);

#endif
