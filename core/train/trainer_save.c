/* trainer_save.c: checkpoints of a run, and what errors say of them. */
#include "core/base/cleanup.h"
#include "core/base/file.h"
#include "core/train/checkpoint.h"
#include "core/train/checkpoint_list.h"
#include "core/train/manifest.h"
#include "core/train/state.h"
#include "core/train/trainer_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

static json_t *trainer_state(const struct trainer *trainer)
{
    json_t *state =
        json_pack("{s:i, s:I, s:I, s:I, s:I, s:I, s:s, s:i}", "format", MT_TRAINER_STATE_FORMAT, "step",
                  (json_int_t)trainer->step, "trained_tokens", (json_int_t)trainer->trained_tokens,
                  "skipped_steps", (json_int_t)trainer->skipped_steps, "skipped_in_row",
                  (json_int_t)trainer->skipped_in_row, "max_steps", (json_int_t)trainer->run.max_steps,
                  "kernel_set", trainer->run.device_info.kernel_set, "attempt", (int)trainer->attempt);
    if (!state)
        return NULL;
    json_object_set_new(state, "sampler", mt_sampler_state(trainer->run.sampler));
    json_object_set_new(state, "schedule", mt_state_schedule(&trainer->run.schedule));
    if (trainer->best_step > 0)
        json_object_set_new(state, "best",
                            json_pack("{s:I, s:f}", "step", (json_int_t)trainer->best_step, "val_loss",
                                      trainer->best_val_loss));
    if (isfinite(trainer->last_loss))
        json_object_set_new(state, "loss", json_real(trainer->last_loss));
    if (trainer->evaluation_due)
        json_object_set_new(state, "evaluation_due", mt_state_row(&trainer->row));
    return state;
}

/* Old checkpoints go only once the new one was written and read back (its manifest hashes what the disk gave
 * back). */
static void prune(struct trainer *trainer)
{
    size_t kept[3], count = 0;
    kept[count++] = trainer->step;
    if (trainer->best_step > 0)
        kept[count++] = trainer->best_step;
    if (trainer->has_resumed)
        kept[count++] = trainer->resumed_step;
    struct mt_error error = {0};
    if (mt_checkpoint_prune(trainer->checkpoints, trainer->run.job->checkpoint.keep, kept, count, &error) < 0)
        mt_trainer_log(trainer, LOG_WARNING, "old checkpoints were not removed: %s", error.message);
}

const char *mt_trainer_last_good(const struct trainer *trainer, char text[static 64])
{
    snprintf(text, 64, "there is no checkpoint before it");
    if (trainer->has_saved)
        snprintf(text, 64, "the last good checkpoint is that of step %zu", trainer->saved_step);
    return text;
}

/* A state that updates have spoilt already is told with its step and where to go on from. */
int mt_trainer_blown_up(const struct trainer *trainer, size_t step, int result, struct mt_error *error)
{
    char good[64];
    if (result == 0 || error->reason != MT_REASON_NON_FINITE_LOSS)
        return result;
    return mt_error_set(error, result, MT_REASON_NON_FINITE_LOSS,
                        "step %zu failed: %s; %s. Lower the learning rate or look at the data", step,
                        error->message, mt_trainer_last_good(trainer, good));
}

int mt_trainer_save(struct trainer *trainer, struct mt_error *error)
{
    if (trainer->has_saved && trainer->saved_step == trainer->step)
        return 0;
    const char *phase = trainer->phase;
    mt_trainer_enter(trainer, "saving");
    int result = mt_executor_finish(trainer->run.executor, error);
    result = mt_trainer_blown_up(trainer, trainer->step, result, error);
    if (result == 0)
        result = mt_series_sync(trainer->series, error);
    mt_autojson json_t *state = result == 0 ? trainer_state(trainer) : NULL;
    if (result == 0 && !state)
        result = mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory to save a checkpoint");
    if (result < 0)
        return result;
    mt_autofree char *moved = NULL;
    result = mt_checkpoint_make_way(trainer->checkpoints, trainer->step, &moved, error);
    if (result < 0)
        return result;
    if (moved)
        mt_trainer_log(trainer, LOG_WARNING, "a file stood in the place of the checkpoint; it is now '%s'",
                       moved);
    struct mt_checkpoint_contents contents = {
        .store = trainer->run.store,
        .tokenizer = trainer->run.tokenizer,
        .model_folder = trainer->run.job->model.path,
        .template_folder = mt_run_template_folder(trainer->run.job),
        .template = trainer->run.job->dataset.template,
        .state = state,
        .step = trainer->step,
        .loss = trainer->last_loss,
    };
    struct mt_checkpoint_entry entry = {.step = trainer->step};
    result = mt_checkpoint_save(trainer->checkpoints, &contents, &entry.path, error);
    if (result < 0)
        return result;
    trainer->saved_step = trainer->step;
    trainer->has_saved = true;
    mt_trainer_log(trainer, LOG_INFO, "saved the checkpoint of step %zu in %s", trainer->step, entry.path);
    if (mt_manifest_read(entry.path, &entry.manifest, error) == 0) {
        mt_autojson json_t *object = mt_checkpoint_object(&entry, true);
        if (object && trainer->options->hooks.checkpoint)
            trainer->options->hooks.checkpoint(trainer->options->hooks.context, object);
    }
    json_decref(entry.manifest);
    free(entry.path);
    prune(trainer);
    mt_trainer_enter(trainer, phase);
    return 0;
}

/* checkpoints/final -> step-N, replaced in one rename. */
int mt_trainer_link_final(struct trainer *trainer, struct mt_error *error)
{
    char name[32];
    mt_checkpoint_folder_name(trainer->step, name);
    mt_autofree char *link = mt_path_join(trainer->checkpoints, "final");
    mt_autofree char *fresh = mt_path_join(trainer->checkpoints, ".tmp-final");
    if (!link || !fresh)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY,
                            "no memory to name the final checkpoint");
    unlink(fresh);
    if (symlink(name, fresh) != 0 || rename(fresh, link) != 0)
        return mt_error_set_errno(error, MT_REASON_IO, "cannot name the final checkpoint '%s'", link);
    return mt_folder_sync(trainer->checkpoints, error);
}
