/* Submission: a document becomes a job. The order makes the row's commit the one moment at which the job
 * exists: its folder and job.json are on disk before, and a folder without a row is removed at the next
 * start. */
#include "core/base/cleanup.h"
#include "core/base/file.h"
#include "core/base/log.h"
#include "core/base/size.h"
#include "core/job/job.h"
#include "daemon/megatraind/control.h"
#include "daemon/megatraind/job_object.h"
#include "daemon/megatraind/probe.h"

#include <errno.h>
#include <string.h>
#include <sys/statvfs.h>

#define RESERVE_BYTES (UINT64_C(8) << 20)

static void free_job(struct mt_job **job)
{
    mt_job_free(*job);
}

enum mt_control_result mt_control_refuse(struct mt_job_errors *found, json_t **errors, struct mt_error *error)
{
    *errors = mt_job_errors_json(found);
    size_t count = found->count;
    mt_job_errors_free(found);
    if (!*errors) {
        mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory");
        return MT_CONTROL_FAILED;
    }
    mt_error_set(error, -EINVAL, MT_REASON_BAD_JOB, "the job document has %zu error%s", count,
                 count == 1 ? "" : "s");
    return MT_CONTROL_INVALID;
}

/* Paths of a document are relative to the state folder, and stay below it and the configured roots. */
int mt_control_parse(const struct mt_daemon *daemon, const json_t *document, enum mt_job_purpose purpose,
                     struct mt_job **job, struct mt_job_errors *errors)
{
    struct mt_job_context context = {
        .purpose = purpose,
        .model_base = daemon->models_folder,
        .dataset_base = daemon->datasets_folder,
        .dataset_dir = daemon->datasets_folder,
        .models_folder = daemon->models_folder,
        .hub_cache = daemon->hub_cache,
        .lm_studio = daemon->lm_studio,
        .ollama_store = daemon->ollama_store,
        .allow_download = daemon->options.allow_download,
        .confined = true,
        .roots = (const char *const *)daemon->options.allow_path.items,
        .num_roots = daemon->options.allow_path.count,
    };
    return mt_job_parse(document, &context, job, errors);
}

/* What only model and data can tell. A model that was named by `name` became a path in the frozen document;
 * the client is told of the key that it wrote. Returns the findings, or NULL when there are none. */
static json_t *look_at_model_and_data(const struct mt_daemon *daemon, const json_t *document,
                                      const struct mt_job *job, const struct mt_control_client *client)
{
    json_t *found = mt_probe_job(daemon->worker_program, mt_job_frozen(job), client);
    bool by_name = !mt_pointer_get(document, "/model/path") && mt_pointer_get(document, "/model/name");
    size_t i;
    json_t *item;
    json_array_foreach(found, i, item)
    {
        const char *pointer = json_string_value(json_object_get(item, "pointer"));
        if (by_name && strcmp(pointer, "/model/path") == 0)
            json_object_set_new(item, "pointer", json_string("/model/name"));
    }
    if (json_array_size(found) > 0)
        return found;
    json_decref(found);
    return NULL;
}

/* The last of a disk is kept for what was accepted before: its states, and the removals that make room. */
static int check_room(const struct mt_daemon *daemon, struct mt_error *error)
{
    struct statvfs status;
    if (statvfs(daemon->state_folder, &status) < 0)
        return 0;
    uint64_t total = status.f_blocks * status.f_frsize, available = status.f_bavail * status.f_frsize;
    uint64_t reserve = total / 16 < RESERVE_BYTES ? total / 16 : RESERVE_BYTES;
    char text[32];
    if (available >= reserve)
        return 0;
    return mt_error_set(error, -ENOSPC, MT_REASON_DISK_FULL,
                        "the disk of %s is full (%s left); remove old jobs or make room, and submit again",
                        daemon->state_folder, mt_size_format((size_t)available, text, sizeof text));
}

/* The folder of the job with its job.json, durable: file, folder, and the folder's own name. */
static int write_folder(const struct mt_daemon *daemon, const char *folder, const struct mt_job *job,
                        struct mt_error *error)
{
    mt_autofree char *path = mt_path_join(folder, "job.json");
    if (!path)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory");
    int r = mt_folder_create(folder, 0750, error);
    if (r == 0)
        r = mt_job_save(job, path, error);
    return r < 0 ? r : mt_folder_sync(daemon->jobs_folder, error);
}

/* What a key that was used before answers; MT_CONTROL_OK when there is such a job. */
static enum mt_control_result answer_again(int result, struct mt_queue_job *row, json_t **job,
                                           struct mt_error *error)
{
    if (result == -EBADMSG)
        return MT_CONTROL_CONFLICT;
    if (result != -EEXIST)
        return mt_control_result_of(result);
    *job = mt_job_object(row);
    mt_queue_job_free(row);
    if (*job)
        return MT_CONTROL_OK;
    mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory");
    return MT_CONTROL_FAILED;
}

static enum mt_control_result refuse_stopping(struct mt_error *error)
{
    mt_error_set(error, -ESHUTDOWN, MT_REASON_INTERRUPTED,
                 "the daemon is stopping; submit again after it has started");
    return MT_CONTROL_UNAVAILABLE;
}

enum mt_control_result mt_submit(void *context, const struct mt_control_submission *submission,
                                 const struct mt_control_client *client, json_t **result, json_t **errors,
                                 struct mt_error *error)
{
    struct mt_daemon *daemon = context;
    struct mt_queue_job *row = NULL;
    int r;
    if (daemon->stopping)
        return refuse_stopping(error);
    if (submission->idempotency_key) {
        r = mt_queue_find_key(daemon->queue, submission->idempotency_key, submission->body_sha256, &row,
                              error);
        if (r < 0)
            return answer_again(r, row, result, error);
    }
    struct mt_job_errors found = {0};
    mt_cleanup(free_job) struct mt_job *job = NULL;
    if (mt_control_parse(daemon, submission->document, MT_JOB_RUN, &job, &found) < 0)
        return mt_control_refuse(&found, errors, error);
    mt_job_errors_free(&found);
    *errors = look_at_model_and_data(daemon, submission->document, job, client);
    if (*errors) {
        mt_error_set(error, -EINVAL, MT_REASON_BAD_JOB, "the job's model or data are not usable: %s",
                     json_string_value(json_object_get(json_array_get(*errors, 0), "detail")));
        return MT_CONTROL_INVALID;
    }
    /* The look was broken off, or could have been: no job is taken unseen because of that. */
    if (client->gone(client->context))
        return refuse_stopping(error);

    char id[MT_ID_BYTES];
    mt_id_new(id);
    mt_autofree char *folder = mt_daemon_job_folder(daemon, id);
    if (!folder) {
        mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory");
        return MT_CONTROL_FAILED;
    }
    struct mt_queue_submission insertion = {
        .id = id,
        .name = job->name,
        .priority = job->priority,
        .labels = job->labels,
        .document = mt_job_frozen(job),
        .idempotency_key = submission->idempotency_key,
        .body_sha256 = submission->body_sha256,
    };
    r = check_room(daemon, error);
    if (r == 0)
        r = write_folder(daemon, folder, job, error);
    if (r == 0)
        r = mt_queue_submit(daemon->queue, &insertion, &row, error);
    if (r < 0) {
        mt_folder_remove(folder, NULL);
        return answer_again(r, row, result, error);
    }
    for (size_t i = 0; i < job->num_notes; i++)
        mt_log(LOG_NOTICE, "job %s: %s", id, job->notes[i]);
    mt_log(LOG_INFO, "job %s: queued (%s)", id, job->name ? job->name : "no name");
    mt_daemon_wake(daemon);
    /* It exists, whatever happens now: the answer is made like one to a repetition. */
    return answer_again(-EEXIST, row, result, error);
}
