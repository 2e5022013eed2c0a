#include "daemon/megatraind/job_object.h"

#include "core/base/cleanup.h"
#include "core/base/time.h"

static json_t *time_value(int64_t microseconds)
{
    char text[MT_TIME_TEXT_BYTES];
    return microseconds ? json_string(mt_time_format(microseconds, text)) : json_null();
}

static json_t *text_value(const char *text)
{
    return text ? json_string(text) : json_null();
}

/* Every field is always there: clients read null, and need not know what is absent when. */
json_t *mt_job_object_progress(const struct mt_queue_job *job)
{
    static const char *const fields[] = {"phase",         "max_steps",   "epoch",        "loss",
                                         "learning_rate", "grad_norm",   "val_loss",     "tokens_per_second",
                                         "step_seconds",  "eta_seconds", "skipped_steps"};
    json_t *progress = json_object();
    json_object_set_new(progress, "step", json_integer(job->step));
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        json_t *value = json_object_get(job->progress, fields[i]);
        json_object_set_new(progress, fields[i], value ? json_incref(value) : json_null());
    }
    json_t *tokens = json_object_get(job->progress, "trained_tokens");
    json_object_set_new(progress, "trained_tokens", tokens ? json_incref(tokens) : json_integer(0));
    /* Before a worker has counted, the document may know. */
    json_t *steps = json_object_get(json_object_get(job->document, "training"), "max_steps");
    if (json_is_null(json_object_get(progress, "max_steps")) && json_is_integer(steps))
        json_object_set(progress, "max_steps", steps);
    if (!mt_queue_state_is_active(job->state)) {
        json_object_set_new(progress, "phase", json_null());
        json_object_set_new(progress, "eta_seconds",
                            job->state == MT_QUEUE_COMPLETED ? json_integer(0) : json_null());
    }
    return progress;
}

static json_t *links(const char *id)
{
    static const char *const names[] = {"metrics", "logs",   "checkpoints", "cancel",
                                        "pause",   "resume", "checkpoint"};
    char path[96];
    json_t *object = json_object();
    snprintf(path, sizeof path, "/jobs/%s", id);
    json_object_set_new(object, "self", json_string(path));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "/jobs/%s/%s", id, names[i]);
        json_object_set_new(object, names[i], json_string(path));
    }
    return object;
}

json_t *mt_job_object(const struct mt_queue_job *job)
{
    static const char *const requests[] = {NULL, "pause", "cancel"};
    json_t *error = job->error_message ? json_pack("{s:s, s:o}", "message", job->error_message, "detail",
                                                   text_value(job->error_detail))
                                       : json_null();
    json_t *object = json_object();
    json_object_set_new(object, "id", json_string(job->id));
    json_object_set_new(object, "name", text_value(job->name));
    json_object_set_new(object, "state", json_string(mt_queue_state_name(job->state)));
    json_object_set_new(object, "reason", text_value(job->reason));
    json_object_set_new(object, "error", error);
    json_object_set_new(object, "requested", text_value(requests[job->requested]));
    json_object_set_new(object, "priority", json_integer(job->priority));
    json_object_set_new(object, "labels", json_incref(job->labels));
    json_object_set_new(object, "attempt", json_integer(job->attempt));
    json_object_set_new(object, "created_at", time_value(job->created_us));
    json_object_set_new(object, "started_at", time_value(job->started_us));
    json_object_set_new(object, "finished_at", time_value(job->finished_us));
    json_object_set_new(object, "progress", mt_job_object_progress(job));
    json_object_set_new(object, "device", text_value(job->device));
    json_object_set_new(object, "last_checkpoint",
                        job->last_checkpoint ? json_incref(job->last_checkpoint) : json_null());
    json_object_set_new(object, "config", json_incref(job->document));
    if (json_object_set_new(object, "links", links(job->id)) < 0) {
        json_decref(object);
        return NULL;
    }
    return object;
}
