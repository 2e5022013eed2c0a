/* train.c: the trainer with the daemon as its listener. */
#include "core/base/cleanup.h"
#include "core/base/file.h"
#include "core/base/log.h"
#include "core/base/time.h"
#include "core/base/utf8_repair.h"
#include "core/train/trainer.h"
#include "daemon/worker/pulse.h"
#include "daemon/worker/tasks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LAST_WORD_SECONDS 10.0
struct listener {
    const struct mt_worker_options *options;
    struct mt_pulse *pulse;
};

static enum mt_trainer_request on_poll(void *context)
{
    const struct mt_worker_options *options = ((struct listener *)context)->options;
    static const enum mt_trainer_request requests[] = {
        [MT_LINK_NOTHING] = MT_TRAINER_GO_ON, [MT_LINK_CHECKPOINT] = MT_TRAINER_CHECKPOINT,
        [MT_LINK_STOP] = MT_TRAINER_STOP,     [MT_LINK_PAUSE] = MT_TRAINER_PAUSE,
        [MT_LINK_CANCEL] = MT_TRAINER_CANCEL,
    };
    return requests[mt_link_poll(options->link)];
}

static void on_progress(void *context, const struct mt_trainer_progress *progress)
{
    json_t *line =
        json_pack("{s:s, s:s, s:s*, s:I, s:I, s:I}", "type", "progress", "phase", progress->phase, "device",
                  progress->device, "step", (json_int_t)progress->step, "max_steps",
                  (json_int_t)progress->max_steps, "trained_tokens", (json_int_t)progress->trained_tokens);
    if (!line)
        return;
    json_object_set_new(line, "eta_seconds",
                        progress->eta_seconds < 0 ? json_null() : json_real(progress->eta_seconds));
    const struct mt_step_row *row = progress->row;
    if (row && row->step == progress->step) {
        double rate = row->step_seconds > 0 ? (double)row->tokens / row->step_seconds : 0;
        json_object_set_new(line, "epoch", json_real(row->epoch));
        json_object_set_new(line, "loss", json_real(row->loss));
        json_object_set_new(line, "learning_rate", json_real(row->learning_rate));
        json_object_set_new(line, "grad_norm", json_real(row->grad_norm));
        json_object_set_new(line, "tokens_per_second", json_real(rate));
        json_object_set_new(line, "step_seconds", json_real(row->step_seconds));
        json_object_set_new(line, "skipped_steps", json_integer((json_int_t)row->skipped_steps));
        if (row->has_val_loss && isfinite(row->val_loss))
            json_object_set_new(line, "val_loss", json_real(row->val_loss));
    }
    mt_pulse_progress(((struct listener *)context)->pulse, line);
}

static void on_config(void *context)
{
    const struct mt_worker_options *options = ((struct listener *)context)->options;
    mt_link_send(options->link, json_pack("{s:s}", "type", "config"), true);
}

static void on_checkpoint(void *context, const json_t *object)
{
    const struct mt_worker_options *options = ((struct listener *)context)->options;
    json_t *line = json_copy((json_t *)(uintptr_t)object);
    if (line)
        json_object_set_new(line, "type", json_string("checkpoint"));
    mt_link_send(options->link, line, true);
}

static void on_log(void *context, int priority, const char *message)
{
    const struct mt_worker_options *options = ((struct listener *)context)->options;
    mt_log(priority, "%s", message);
    mt_autofree char *text = strdup(message);
    if (text)
        mt_link_send(options->link,
                     json_pack("{s:s, s:s, s:s}", "type", "log", "level", mt_log_level_name(priority),
                               "message", mt_utf8_repair(text)),
                     false);
}

/* The last word: the daemon learns from it, not from the exit code, how the run ended. */
static int say_failed(const struct mt_worker_options *options, const struct mt_error *error, size_t step)
{
    const char *reason = mt_reason_name(error->reason);
    mt_log(LOG_ERR, "%s", error->message);
    mt_link_send(options->link,
                 json_pack("{s:s, s:s, s:s, s:I}", "type", "failed", "reason", reason ? reason : "internal",
                           "message", error->message, "step", (json_int_t)step),
                 true);
    mt_link_flush(options->link, LAST_WORD_SECONDS);
    return mt_reason_exit_code(error->reason);
}

static int say_done(const struct mt_worker_options *options, const struct mt_trainer_result *result,
                    const char *state)
{
    mt_link_send(options->link,
                 json_pack("{s:s, s:s, s:I, s:o}", "type", "done", "state", state, "step",
                           (json_int_t)result->step, "loss",
                           isfinite(result->loss) ? json_real(result->loss) : json_null()),
                 true);
    mt_link_flush(options->link, LAST_WORD_SECONDS);
    return 0;
}

int mt_worker_train(const struct mt_worker_options *options)
{
    struct mt_error error = {0};
    mt_autofree char *path = mt_path_join(options->job_folder, "job.json");
    struct mt_job *job = NULL;
    if (!path || mt_job_load(path, &job, &error) < 0)
        return say_failed(options, &error, 0);
    struct listener listener = {.options = options};
    if (mt_pulse_start(options->link, &listener.pulse, &error) < 0) {
        mt_job_free(job);
        return say_failed(options, &error, 0);
    }
    struct mt_trainer_options trainer = {
        .job = job,
        .folder = options->job_folder,
        .attempt = options->attempt,
        .pool = options->pool,
        .allow_download = getenv(MT_WORKER_ALLOW_DOWNLOAD) != NULL,
        .hooks = {.context = &listener,
                  .poll = on_poll,
                  .progress = on_progress,
                  .config = on_config,
                  .checkpoint = on_checkpoint,
                  .log = on_log},
    };
    struct mt_trainer_result result = {0};
    int code = mt_trainer_run(&trainer, &result, &error);
    mt_pulse_stop(listener.pulse);
    if (code < 0) {
        code = say_failed(options, &error, result.step);
    } else {
        switch (result.end) {
        case MT_TRAINER_COMPLETED:
            code = say_done(options, &result, "completed");
            break;
        case MT_TRAINER_PAUSED:
            code = say_done(options, &result, "paused");
            break;
        case MT_TRAINER_CANCELLED:
            code = say_done(options, &result, "cancelled");
            break;
        case MT_TRAINER_STOPPED:
            mt_link_flush(options->link, 1.0);
            code = mt_reason_exit_code(MT_REASON_INTERRUPTED);
            break;
        }
    }
    mt_job_free(job);
    return code;
}
