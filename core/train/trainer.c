/* trainer.c: the loop. A run is a function of its job: data order, rates and bits do not depend on where it
 * was stopped and resumed. What a stop needs is asked between steps and between phases, so every phase ends
 * in a resumable state. */
#include "core/base/cleanup.h"
#include "core/base/file.h"
#include "core/base/time.h"
#include "core/train/trainer_internal.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

#define ETA_WEIGHT 0.1 /* of the newest step in the running mean of step times */

/* --- listeners ----------------------------------------------------------------------------------------- */

void mt_trainer_log(struct trainer *trainer, int priority, const char *format, ...)
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
    mt_trainer_log(context, LOG_WARNING, "%s", sentence);
}

static void report_progress(struct trainer *trainer)
{
    if (!trainer->options->hooks.progress)
        return;
    struct mt_trainer_progress progress = {
        .phase = trainer->phase,
        .device = trainer->run.device ? trainer->run.device_info.id : NULL,
        .step = trainer->step,
        /* With num_epochs it is known when the data is. */
        .max_steps = trainer->run.max_steps ? trainer->run.max_steps : trainer->run.job->training.max_steps,
        .trained_tokens = trainer->trained_tokens,
        .eta_seconds = trainer->mean_step_seconds > 0
                           ? trainer->mean_step_seconds * (double)(trainer->run.max_steps - trainer->step)
                           : -1,
        .row = trainer->has_row ? &trainer->row : NULL,
    };
    trainer->options->hooks.progress(trainer->options->hooks.context, &progress);
}

void mt_trainer_enter(struct trainer *trainer, const char *phase)
{
    trainer->phase = phase;
    report_progress(trainer);
}

/* Asks the owner; true when the run is to end. */
bool mt_trainer_asked_to_end(struct trainer *trainer)
{
    const struct mt_trainer_hooks *hooks = &trainer->options->hooks;
    enum mt_trainer_request request = hooks->poll ? hooks->poll(hooks->context) : MT_TRAINER_GO_ON;
    if (request == MT_TRAINER_CHECKPOINT)
        trainer->checkpoint_asked = true;
    else if (request > trainer->request)
        trainer->request = request;
    return trainer->request >= MT_TRAINER_STOP;
}

bool mt_trainer_should_stop(void *context)
{
    return mt_trainer_asked_to_end(context);
}

/* --- stepping ------------------------------------------------------------------------------------------ */

/* Mean loss over the validation split's target tokens. A request to end breaks it off, and the run ends:
 * *complete is false. */
static int evaluate(struct trainer *trainer, double *val_loss, bool *complete, struct mt_error *error)
{
    mt_trainer_enter(trainer, "evaluating");
    double loss_sum = 0;
    size_t targets = 0;
    *complete = true;
    size_t steps = mt_sampler_steps_per_epoch(trainer->run.validation);
    for (size_t i = 0; i < steps; i++) {
        if (mt_trainer_asked_to_end(trainer)) {
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
    mt_trainer_log(
        trainer, LOG_WARNING,
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
        trainer->step + 1, trainer->skipped_in_row, mt_trainer_last_good(trainer, good));
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
    result = mt_trainer_blown_up(trainer, trainer->step + 1, result, error);
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
        result = mt_trainer_save(trainer, error);
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
        mt_trainer_log(trainer, LOG_INFO, "nothing is left to train: all %zu steps are made",
                       trainer->run.max_steps);
    mt_trainer_enter(trainer, "training");
    while (!trainer->evaluation_due && !mt_trainer_asked_to_end(trainer) &&
           trainer->step < trainer->run.max_steps) {
        int code = make_step(trainer, error);
        if (code < 0)
            return code;
    }
    bool complete = trainer->step >= trainer->run.max_steps && !trainer->evaluation_due;
    int code = 0;
    if (complete || trainer->step > 0)
        code = mt_trainer_save(trainer, error);
    if (code == 0 && complete)
        code = mt_trainer_link_final(trainer, error);
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
        code = mt_trainer_open(&trainer, error);
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
        mt_trainer_log(&trainer, LOG_ERR, "%s", error->message);
    result->step = trainer.step;
    result->loss = trainer.last_loss;
    mt_run_close(&trainer.run);
    mt_series_close(trainer.series);
    free(trainer.checkpoints);
    return code;
}
