/* trainer.c: the loop. A run is a function of its job: data order, rates and bits do not depend on where it
 * was stopped and resumed. What a stop needs is asked between steps and between phases, so every phase ends
 * in a resumable state. */
#include "core/train/trainer.h"

#include "core/base/cleanup.h"
#include "core/base/file.h"
#include "core/base/time.h"
#include "core/store/files.h"
#include "core/train/checkpoint.h"
#include "core/train/checkpoint_list.h"
#include "core/train/manifest.h"
#include "core/train/run.h"
#include "core/train/state.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

#define STATE_FORMAT 1
#define ETA_WEIGHT 0.1 /* of the newest step in the running mean of step times */

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

/* --- listeners ----------------------------------------------------------------------------------------- */

static void log_line(struct trainer *trainer, int priority, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void log_line(struct trainer *trainer, int priority, const char *format, ...)
{
    char message[MT_ERROR_MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    static const char *const names[] = {[LOG_ERR] = "error", [LOG_WARNING] = "warning", [LOG_INFO] = "info"};
    if (trainer->series)
        mt_series_log(trainer->series, names[priority], message, NULL, NULL);
    if (trainer->options->hooks.log)
        trainer->options->hooks.log(trainer->options->hooks.context, priority, message);
}

static void note_of_device(void *context, const char *sentence)
{
    log_line(context, LOG_WARNING, "%s", sentence);
}

static void report_progress(struct trainer *trainer)
{
    if (!trainer->options->hooks.progress)
        return;
    struct mt_trainer_progress progress = {
        .phase = trainer->phase,
        .device = trainer->run.device ? trainer->run.device_info.id : NULL,
        .step = trainer->step,
        .max_steps = trainer->run.max_steps,
        .trained_tokens = trainer->trained_tokens,
        .eta_seconds = trainer->mean_step_seconds > 0
                           ? trainer->mean_step_seconds * (double)(trainer->run.max_steps - trainer->step)
                           : -1,
        .row = trainer->has_row ? &trainer->row : NULL,
    };
    trainer->options->hooks.progress(trainer->options->hooks.context, &progress);
}

static void enter(struct trainer *trainer, const char *phase)
{
    trainer->phase = phase;
    report_progress(trainer);
}

/* Asks the owner; true when the run is to end. */
static bool asked_to_end(struct trainer *trainer)
{
    const struct mt_trainer_hooks *hooks = &trainer->options->hooks;
    enum mt_trainer_request request = hooks->poll ? hooks->poll(hooks->context) : MT_TRAINER_GO_ON;
    if (request == MT_TRAINER_CHECKPOINT)
        trainer->checkpoint_asked = true;
    else if (request > trainer->request)
        trainer->request = request;
    return trainer->request >= MT_TRAINER_STOP;
}

static bool should_stop(void *context)
{
    return asked_to_end(context);
}

/* --- checkpoints --------------------------------------------------------------------------------------- */

static json_t *trainer_state(const struct trainer *trainer)
{
    json_t *state =
        json_pack("{s:i, s:I, s:I, s:I, s:I, s:I, s:s, s:i}", "format", STATE_FORMAT, "step",
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
        log_line(trainer, LOG_WARNING, "old checkpoints were not removed: %s", error.message);
}

static const char *last_good(const struct trainer *trainer, char text[static 64])
{
    snprintf(text, 64, "there is no checkpoint before it");
    if (trainer->has_saved)
        snprintf(text, 64, "the last good checkpoint is that of step %zu", trainer->saved_step);
    return text;
}

/* A state that updates have spoilt already is told with its step and where to go on from. */
static int blown_up(const struct trainer *trainer, size_t step, int result, struct mt_error *error)
{
    char good[64];
    if (result == 0 || error->reason != MT_REASON_NON_FINITE_LOSS)
        return result;
    return mt_error_set(error, result, MT_REASON_NON_FINITE_LOSS,
                        "step %zu failed: %s; %s. Lower the learning rate or look at the data", step,
                        error->message, last_good(trainer, good));
}

static int save(struct trainer *trainer, struct mt_error *error)
{
    if (trainer->has_saved && trainer->saved_step == trainer->step)
        return 0;
    const char *phase = trainer->phase;
    enter(trainer, "saving");
    int result = mt_executor_finish(trainer->run.executor, error);
    result = blown_up(trainer, trainer->step, result, error);
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
        log_line(trainer, LOG_WARNING, "a file stood in the place of the checkpoint; it is now '%s'", moved);
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
    log_line(trainer, LOG_INFO, "saved the checkpoint of step %zu in %s", trainer->step, entry.path);
    if (mt_manifest_read(entry.path, &entry.manifest, error) == 0) {
        mt_autojson json_t *object = mt_checkpoint_object(&entry, true);
        if (object && trainer->options->hooks.checkpoint)
            trainer->options->hooks.checkpoint(trainer->options->hooks.context, object);
    }
    json_decref(entry.manifest);
    free(entry.path);
    prune(trainer);
    enter(trainer, phase);
    return 0;
}

/* checkpoints/final -> step-N, replaced in one rename. */
static int link_final(struct trainer *trainer, struct mt_error *error)
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

/* --- starting ------------------------------------------------------------------------------------------ */

static void report_damage(void *context, const char *sentence)
{
    log_line(context, LOG_WARNING, "a checkpoint is passed over: %s", sentence);
}

static int restore_state(struct trainer *trainer, const json_t *state, const char *path,
                         struct mt_error *error)
{
    if (json_integer_value(json_object_get(state, "format")) != STATE_FORMAT)
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
        log_line(trainer, LOG_WARNING, "the learning rate takes another course from here: %s", course);
    const char *kernel_set = json_string_value(json_object_get(state, "kernel_set"));
    if (kernel_set && strcmp(kernel_set, trainer->run.device_info.kernel_set) != 0)
        log_line(trainer, LOG_WARNING,
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
        log_line(trainer, LOG_INFO, "there is no checkpoint to go on from: starting with the first step");
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
    log_line(trainer, LOG_INFO, "resuming from step %zu (%s)", trainer->step, path);
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
    log_line(trainer, LOG_INFO,
             "data: %zu rows, %zu samples (%zu to train on in %zu sequences, %zu to validate), %llu tokens, "
             "%llu of them "
             "learned; %zu truncated",
             stats->rows, stats->samples, stats->train_samples, stats->train_sequences, stats->val_samples,
             (unsigned long long)stats->tokens, (unsigned long long)stats->target_tokens, stats->truncated);
    for (int reason = 0; reason < MT_NUM_DROPS; reason++) {
        const char *why = stats->dropped_why[reason];
        if (stats->dropped[reason] > 0)
            log_line(trainer, LOG_WARNING, "data: %zu rows dropped (%s), the first is row %zu%s%s",
                     stats->dropped[reason], mt_drop_name((enum mt_drop)reason),
                     stats->dropped_rows[reason][0], *why ? ": " : "", why);
    }
}

/* Before the data is read and memory taken. A run that has checkpoints needs the model's own weights no more.
 */
static int check_weights(const struct trainer *trainer, struct mt_error *error)
{
    const char *folder = trainer->run.job->model.path;
    struct mt_checkpoint_list list = {0};
    if (!folder)
        return 0;
    int result = mt_checkpoint_list_read(trainer->checkpoints, &list, error);
    if (result == 0 && list.count == 0)
        result = mt_store_check_files(trainer->run.model, folder, error);
    mt_checkpoint_list_free(&list);
    return result;
}

static int open_run(struct trainer *trainer, struct mt_error *error)
{
    struct mt_run *run = &trainer->run;
    run->note_context = trainer;
    enter(trainer, "loading");
    int result = mt_run_open_model(run, error);
    if (result == 0)
        result = check_weights(trainer, error);
    if (result < 0)
        return result;
    size_t i;
    json_t *note;
    json_array_foreach(run->model->notes, i, note) log_line(trainer, LOG_INFO, "%s", json_string_value(note));
    for (i = 0; i < run->job->num_notes; i++)
        log_line(trainer, LOG_INFO, "%s", run->job->notes[i]);
    enter(trainer, "tokenizing");
    result = mt_run_open_data(run, should_stop, trainer, error);
    if (result < 0)
        return result;
    describe_data(trainer);
    if (asked_to_end(trainer))
        return mt_error_set(error, -ECANCELED, MT_REASON_INTERRUPTED, "stopped before the first step");
    enter(trainer, "loading");
    bool settled;
    result = mt_run_open_engine(run, &settled, error);
    if (result == 0 && settled)
        result = settle_job(trainer, error);
    if (result == 0 && run->checkpoint_interval < run->job->memory.checkpoint_interval)
        log_line(trainer, LOG_WARNING,
                 "the device has no room for memory.checkpoint_interval: %zu; this run visits %zu layers "
                 "together (the numbers are the same)",
                 run->job->memory.checkpoint_interval, run->checkpoint_interval);
    if (result == 0)
        result = start(trainer, error);
    if (result == 0)
        log_line(trainer, LOG_INFO,
                 "model: %s, %zu parameters (%zu trained); device: %s (%s), micro-batches of %zu",
                 run->job->model.architecture ? run->job->model.architecture : run->job->model.path,
                 run->model->total_count, run->model->trainable_count, run->device_info.id,
                 run->device_info.name, run->job->training.micro_batch_size);
    return result;
}

/* --- stepping ------------------------------------------------------------------------------------------ */

/* Mean loss over the validation split's target tokens. A request to end breaks it off, and the run ends:
 * *complete is false. */
static int evaluate(struct trainer *trainer, double *val_loss, bool *complete, struct mt_error *error)
{
    enter(trainer, "evaluating");
    double loss_sum = 0;
    size_t targets = 0;
    *complete = true;
    size_t steps = mt_sampler_steps_per_epoch(trainer->run.validation);
    for (size_t i = 0; i < steps; i++) {
        if (asked_to_end(trainer)) {
            *complete = false;
            break;
        }
        struct mt_batch *batch;
        int result = mt_sampler_next(trainer->run.validation, &batch, error);
        if (result < 0)
            return result;
        double sum;
        size_t count;
        result = mt_executor_evaluate(trainer->run.executor, batch, &sum, &count, error);
        mt_batch_free(batch);
        if (result < 0)
            return result;
        loss_sum += sum;
        targets += count;
    }
    *val_loss = targets > 0 ? loss_sum / (double)targets : NAN;
    trainer->phase = "training";
    return 0;
}

/* The evaluation that belongs to the last row; broken off, it stays due. */
static int evaluate_row(struct trainer *trainer, struct mt_error *error)
{
    bool complete;
    double val_loss;
    int result = evaluate(trainer, &val_loss, &complete, error);
    if (result < 0)
        return result;
    trainer->evaluation_due = !complete;
    trainer->row.has_val_loss = complete && isfinite(val_loss);
    trainer->row.val_loss = val_loss;
    if (trainer->row.has_val_loss && (trainer->best_step == 0 || val_loss < trainer->best_val_loss)) {
        trainer->best_step = trainer->step;
        trainer->best_val_loss = val_loss;
    }
    return 0;
}

static int refuse_step(struct trainer *trainer, struct mt_error *error)
{
    trainer->skipped_steps++;
    trainer->skipped_in_row++;
    size_t allowed = trainer->run.job->training.max_skipped_steps;
    log_line(trainer, LOG_WARNING,
             "step %zu was refused: its loss or gradient is not finite; parameters stay as they were, its "
             "batch is "
             "consumed (%zu in a row, %zu in all)",
             trainer->step + 1, trainer->skipped_in_row, trainer->skipped_steps);
    if (trainer->skipped_in_row < (allowed > 0 ? allowed : 1))
        return 0;
    char good[64];
    return mt_error_set(
        error, -EDOM, MT_REASON_NON_FINITE_LOSS,
        "step %zu failed: loss or gradient was not finite %zu times in a row; %s. Lower the learning rate "
        "or look at the data",
        trainer->step + 1, trainer->skipped_in_row, last_good(trainer, good));
}

static void note_step(struct trainer *trainer, const struct mt_batch *batch,
                      const struct mt_step_result *step, double rate)
{
    trainer->step++;
    trainer->skipped_in_row = 0;
    trainer->trained_tokens += step->tokens;
    trainer->last_loss = step->loss;
    trainer->mean_step_seconds =
        trainer->mean_step_seconds > 0
            ? (1 - ETA_WEIGHT) * trainer->mean_step_seconds + ETA_WEIGHT * step->seconds
            : step->seconds;
    trainer->row = (struct mt_step_row){
        .step = trainer->step,
        .epoch = batch->epoch,
        .loss = step->loss,
        .grad_norm = step->grad_norm,
        .learning_rate = rate,
        .tokens = step->tokens,
        .target_tokens = step->target_tokens,
        .step_seconds = step->seconds,
        .skipped_steps = trainer->skipped_steps,
        .attempt = trainer->attempt,
    };
    trainer->has_row = true;
}

/* One step and its row; evaluates where a checkpoint is due. */
static int make_step(struct trainer *trainer, struct mt_error *error)
{
    struct mt_run *run = &trainer->run;
    struct mt_batch *batch;
    int result = mt_sampler_next(run->sampler, &batch, error);
    if (result < 0)
        return result;
    double rate = mt_schedule_rate(&run->schedule, trainer->step);
    struct mt_step_result step;
    result = mt_executor_step(run->executor, batch, rate, &step, error);
    result = blown_up(trainer, trainer->step + 1, result, error);
    if (result == 0 && step.skipped) {
        mt_batch_free(batch);
        return refuse_step(trainer, error);
    }
    if (result == 0)
        note_step(trainer, batch, &step, rate);
    mt_batch_free(batch);
    if (result < 0)
        return result;

    size_t every = run->job->checkpoint.every_steps;
    bool due = (every > 0 && trainer->step % every == 0) || trainer->step == run->max_steps;
    if (due && run->validation) {
        result = evaluate_row(trainer, error);
        if (result < 0)
            return result;
    }
    result = mt_series_row(trainer->series, &trainer->row, error);
    if (result == 0)
        report_progress(trainer);
    if (result == 0 && (due || trainer->checkpoint_asked)) {
        trainer->checkpoint_asked = false;
        result = save(trainer, error);
    }
    return result;
}

/* The step that the series are cut at: that of the newest checkpoint with its name. Which one is whole is
 * known only once the data is open, and rows past an older one are cut then. */
static int open_series(struct trainer *trainer, size_t step, struct mt_error *error)
{
    mt_series_close(trainer->series);
    trainer->series = NULL;
    return mt_series_open(trainer->options->folder, step, &trainer->series, error);
}

/* What an earlier run broke off: its row is written again, whole. A kill in between leaves the row away and
 * the checkpoint as it was, so that the next run comes here again. */
static int evaluate_late(struct trainer *trainer, struct mt_error *error)
{
    int result = evaluate_row(trainer, error);
    if (result < 0 || trainer->evaluation_due)
        return result;
    result = open_series(trainer, trainer->step - 1, error);
    if (result == 0)
        result = mt_series_row(trainer->series, &trainer->row, error);
    if (trainer->step == trainer->run.max_steps)
        trainer->has_saved = false; /* the last checkpoint says what was found */
    report_progress(trainer);
    return result;
}

/* What a run ends as that was asked to end. */
static enum mt_trainer_end end_of(enum mt_trainer_request request)
{
    return request == MT_TRAINER_PAUSE    ? MT_TRAINER_PAUSED
           : request == MT_TRAINER_CANCEL ? MT_TRAINER_CANCELLED
                                          : MT_TRAINER_STOPPED;
}

static int loop(struct trainer *trainer, struct mt_trainer_result *result, struct mt_error *error)
{
    if (trainer->evaluation_due) {
        int code = evaluate_late(trainer, error);
        if (code < 0)
            return code;
    } else if (trainer->step >= trainer->run.max_steps)
        log_line(trainer, LOG_INFO, "nothing is left to train: all %zu steps are made",
                 trainer->run.max_steps);
    enter(trainer, "training");
    while (!trainer->evaluation_due && !asked_to_end(trainer) && trainer->step < trainer->run.max_steps) {
        int code = make_step(trainer, error);
        if (code < 0)
            return code;
    }
    bool complete = trainer->step >= trainer->run.max_steps && !trainer->evaluation_due;
    int code = 0;
    if (complete || trainer->step > 0)
        code = save(trainer, error);
    if (code == 0 && complete)
        code = link_final(trainer, error);
    if (code == 0)
        code = mt_series_sync(trainer->series, error);
    result->end = complete ? MT_TRAINER_COMPLETED : end_of(trainer->request);
    return code;
}

int mt_trainer_run(const struct mt_trainer_options *options, struct mt_trainer_result *result,
                   struct mt_error *error)
{
    mt_autofree char *trace =
        !options->trace && options->job->logging.trace ? mt_path_join(options->folder, "trace.json") : NULL;
    struct trainer trainer = {
        .options = options,
        .run = {.job = options->job,
                .pool = options->pool,
                .trace = trace ? trace : options->trace,
                .note = note_of_device},
        .attempt = options->attempt > 0 ? options->attempt : mt_series_last_attempt(options->folder) + 1,
        .last_loss = NAN,
        .phase = "loading",
    };
    *result = (struct mt_trainer_result){.end = MT_TRAINER_STOPPED, .loss = NAN};
    trainer.checkpoints = mt_path_join(options->folder, "checkpoints");
    int code = trainer.checkpoints
                   ? mt_folder_create(trainer.checkpoints, 0755, error)
                   : mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory to start a run");
    if (code == 0)
        code = open_series(&trainer, SIZE_MAX / 2, error);
    if (code == 0)
        code = open_run(&trainer, error);
    if (code == 0)
        code = open_series(&trainer, trainer.step, error);
    if (code == 0)
        code = loop(&trainer, result, error);
    if (code == -ECANCELED &&
        trainer.request >= MT_TRAINER_STOP) { /* asked to end while data was being read */
        result->end = end_of(trainer.request);
        code = 0;
    }
    if (code < 0 && error)
        log_line(&trainer, LOG_ERR, "%s", error->message);
    result->step = trainer.step;
    result->loss = trainer.last_loss;
    mt_run_close(&trainer.run);
    mt_series_close(trainer.series);
    free(trainer.checkpoints);
    return code;
}
