/* trainer_start.c: what a run stands on, and where it goes on from. */
#include "core/base/cleanup.h"
#include "core/base/file.h"
#include "core/device/open.h"
#include "core/store/files.h"
#include "core/train/checkpoint.h"
#include "core/train/checkpoint_list.h"
#include "core/train/state.h"
#include "core/train/trainer_internal.h"

#include <stdlib.h>
#include <string.h>
#include <syslog.h>

static void report_damage(void *context, const char *sentence)
{
    mt_trainer_log(context, LOG_WARNING, "a checkpoint is passed over: %s", sentence);
}

static int restore_state(struct trainer *trainer, const json_t *state, const char *path,
                         struct mt_error *error)
{
    if (json_integer_value(json_object_get(state, "format")) != MT_TRAINER_STATE_FORMAT)
        return mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL,
                            "the state in '%s' has a format that this version does not know", path);
    trainer->step = (size_t)json_integer_value(json_object_get(state, "step"));
    trainer->trained_tokens = (size_t)json_integer_value(json_object_get(state, "trained_tokens"));
    trainer->skipped_steps = (size_t)json_integer_value(json_object_get(state, "skipped_steps"));
    trainer->skipped_in_row = (size_t)json_integer_value(json_object_get(state, "skipped_in_row"));
    const json_t *best = json_object_get(state, "best"), *loss = json_object_get(state, "loss");
    if (best) {
        trainer->best_step = (size_t)json_integer_value(json_object_get(best, "step"));
        trainer->best_val_loss = json_number_value(json_object_get(best, "val_loss"));
    }
    if (loss)
        trainer->last_loss = json_number_value(loss);
    const json_t *due = json_object_get(state, "evaluation_due");
    if (due && trainer->run.validation) {
        mt_state_read_row(due, trainer->step, &trainer->row);
        trainer->has_row = trainer->evaluation_due = true;
    }
    char course[256];
    if (mt_state_new_course(json_object_get(state, "schedule"), &trainer->run.schedule, trainer->step, course,
                            sizeof course))
        mt_trainer_log(trainer, LOG_WARNING, "the learning rate takes another course from here: %s", course);
    const char *kernel_set = json_string_value(json_object_get(state, "kernel_set"));
    if (kernel_set && strcmp(kernel_set, trainer->run.device_info.kernel_set) != 0)
        mt_trainer_log(
            trainer, LOG_WARNING,
            "the checkpoint was made with the kernels '%s', this run has '%s': it goes on with the same "
            "numbers, but "
            "its bits will differ from an undisturbed run's",
            kernel_set, trainer->run.device_info.kernel_set);
    return mt_sampler_restore(trainer->run.sampler, json_object_get(state, "sampler"), error);
}

/* From the newest whole checkpoint, or the first start. */
static int start(struct trainer *trainer, struct mt_error *error)
{
    mt_autofree char *path = NULL;
    int result = mt_checkpoint_remove_unfinished(trainer->checkpoints, error);
    if (result == 0)
        result = mt_checkpoint_newest_whole(trainer->checkpoints, &path, report_damage, trainer, error);
    if (result < 0)
        return result;
    if (!path && trainer->attempt > 1)
        mt_trainer_log(trainer, LOG_INFO,
                       "there is no checkpoint to go on from: starting with the first step");
    if (!path)
        return mt_run_init_weights(&trainer->run, error);
    mt_autojson json_t *state = NULL;
    result = mt_checkpoint_load(path, trainer->run.store, trainer->run.pool, &state, error);
    if (result == 0)
        result = restore_state(trainer, state, path, error);
    if (result < 0)
        return result;
    trainer->saved_step = trainer->resumed_step = trainer->step;
    trainer->has_saved = trainer->has_resumed = true;
    mt_trainer_log(trainer, LOG_INFO, "resuming from step %zu (%s)", trainer->step, path);
    return 0;
}

static int settle_job(struct trainer *trainer, struct mt_error *error)
{
    mt_autofree char *path = mt_path_join(trainer->options->folder, "job.json");
    if (!path)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory to write job.json");
    int result = mt_job_save(trainer->run.job, path, error);
    if (result == 0 && trainer->options->hooks.config)
        trainer->options->hooks.config(trainer->options->hooks.context);
    return result;
}

static void describe_data(struct trainer *trainer)
{
    const struct mt_dataset_stats *stats = mt_dataset_stats(trainer->run.dataset);
    mt_trainer_log(
        trainer, LOG_INFO,
        "data: %zu row%s, %zu samples (%zu to train on in %zu sequences, %zu to validate), %llu tokens, "
        "%llu of them "
        "learned; %zu truncated",
        stats->rows, stats->rows == 1 ? "" : "s", stats->samples, stats->train_samples,
        stats->train_sequences, stats->val_samples, (unsigned long long)stats->tokens,
        (unsigned long long)stats->target_tokens, stats->truncated);
    if (stats->tools_unwritten > 0)
        mt_trainer_log(
            trainer, LOG_WARNING,
            "data: %zu conversations have tools or calls of them, which the model's chat template "
            "does not write: the model sees and learns nothing of them; take a model whose template "
            "knows tools",
            stats->tools_unwritten);
    for (int reason = 0; reason < MT_NUM_DROPS; reason++) {
        const char *why = stats->dropped_why[reason];
        if (stats->dropped[reason] > 0)
            mt_trainer_log(trainer, LOG_WARNING, "data: %zu row%s dropped (%s), the first is row %zu%s%s",
                           stats->dropped[reason], stats->dropped[reason] == 1 ? "" : "s",
                           mt_drop_name((enum mt_drop)reason), stats->dropped_rows[reason][0] + 1,
                           *why ? ": " : "", why);
    }
}

/* Before the data is read and memory taken. A run that has checkpoints needs the model's own weights no more.
 */
static int check_weights(struct trainer *trainer, struct mt_error *error)
{
    struct mt_checkpoint_list list = {0};
    int result = mt_checkpoint_list_read(trainer->checkpoints, &list, error);
    if (result == 0 && list.count == 0)
        result = mt_run_check_weights(&trainer->run, error);
    mt_checkpoint_list_free(&list);
    return result;
}

int mt_trainer_open(struct trainer *trainer, struct mt_error *error)
{
    struct mt_run *run = &trainer->run;
    run->note_context = trainer;
    bool settled;
    int result = mt_trainer_fetch(trainer, &settled, error);
    if (result == 0 && settled)
        result = settle_job(trainer, error);
    mt_trainer_enter(trainer, "loading");
    if (result == 0)
        result = mt_run_open_model(run, error);
    if (result == 0)
        result = check_weights(trainer, error);
    if (result == 0)
        result = mt_device_check(run->job->device, error);
    if (result < 0)
        return result;
    size_t i;
    json_t *note;
    json_array_foreach(run->model->notes, i, note)
        mt_trainer_log(trainer, LOG_INFO, "%s", json_string_value(note));
    for (i = 0; i < run->job->num_notes; i++)
        mt_trainer_log(trainer, LOG_INFO, "%s", run->job->notes[i]);
    mt_trainer_enter(trainer, "tokenizing");
    result = mt_run_open_data(run, mt_trainer_should_stop, trainer, error);
    if (result < 0)
        return result;
    describe_data(trainer);
    if (mt_trainer_asked_to_end(trainer))
        return mt_error_set(error, -ECANCELED, MT_REASON_INTERRUPTED, "stopped before the first step");
    mt_trainer_enter(trainer, "loading");
    result = mt_run_open_engine(run, &settled, error);
    if (result == 0 && settled)
        result = settle_job(trainer, error);
    if (result == 0 && run->checkpoint_interval < run->job->memory.checkpoint_interval)
        mt_trainer_log(
            trainer, LOG_WARNING,
            "the device has no room for memory.checkpoint_interval: %zu; this run visits %zu layers "
            "together (the numbers are the same)",
            run->job->memory.checkpoint_interval, run->checkpoint_interval);
    if (result == 0)
        result = start(trainer, error);
    if (result == 0)
        mt_trainer_log(trainer, LOG_INFO,
                       "model: %s, %zu parameters (%zu trained); device: %s (%s), micro-batches of %zu",
                       run->job->model.architecture ? run->job->model.architecture : run->job->model.path,
                       run->model->total_count, run->model->trainable_count, run->device_info.id,
                       run->device_info.name, run->job->training.micro_batch_size);
    return result;
}
