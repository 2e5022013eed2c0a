#include "daemon/megatraind/control.h"

#include "core/base/cleanup.h"
#include "core/base/file.h"
#include "core/base/log.h"
#include "core/base/time.h"
#include "daemon/megatraind/janitor.h"
#include "daemon/megatraind/job_object.h"

#include <errno.h>
#include <string.h>

/* How late the main thread may be before the daemon calls itself not ready. */
#define LATE_SECONDS 10.0

enum mt_control_result mt_control_result_of(int code)
{
    switch (code) {
    case 0:
        return MT_CONTROL_OK;
    case -ENOENT:
        return MT_CONTROL_NOT_FOUND;
    case -EPERM:
        return MT_CONTROL_CONFLICT;
    case -ENOSPC:
    case -EDQUOT:
        return MT_CONTROL_DISK_FULL;
    default:
        return MT_CONTROL_FAILED;
    }
}

static enum mt_control_result out_of_memory(struct mt_error *error)
{
    mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory");
    return MT_CONTROL_FAILED;
}

/* Consumes `row`. */
static enum mt_control_result answer_with(struct mt_queue_job *row, json_t **job, struct mt_error *error)
{
    *job = mt_job_object(row);
    mt_queue_job_free(row);
    return *job ? MT_CONTROL_OK : out_of_memory(error);
}

static enum mt_control_result get_job(void *context, const char *id, json_t **job, struct mt_error *error)
{
    const struct mt_daemon *daemon = context;
    struct mt_queue_job *row = NULL;
    int r = mt_queue_get(daemon->queue, id, &row, error);
    return r < 0 ? mt_control_result_of(r) : answer_with(row, job, error);
}

static enum mt_control_result list_jobs(void *context, const struct mt_control_list_query *query,
                                        json_t **page, struct mt_error *error)
{
    const struct mt_daemon *daemon = context;
    int state = query->state ? mt_queue_state_parse(query->state) : -1;
    if (query->state && state < 0) {
        mt_error_set(error, -EINVAL, MT_REASON_USAGE, "there is no job state \"%.32s\"", query->state);
        return MT_CONTROL_BAD_CURSOR;
    }
    struct mt_queue_page rows;
    int r = mt_queue_list(daemon->queue, state, query->after, query->limit, &rows, error);
    if (r < 0)
        return r == -EBADMSG ? MT_CONTROL_BAD_CURSOR : mt_control_result_of(r);
    json_t *data = json_array();
    for (size_t i = 0; i < rows.count; i++)
        json_array_append_new(data, mt_job_object(rows.jobs[i]));
    size_t shown = json_array_size(data), wanted = rows.count;
    *page = json_pack("{s:o, s:b, s:o}", "data", data, "has_more", rows.has_more, "next",
                      rows.has_more ? json_string(rows.next) : json_null());
    mt_queue_page_free(&rows);
    if (*page && shown == wanted)
        return MT_CONTROL_OK;
    json_decref(*page);
    *page = NULL;
    return out_of_memory(error);
}

/* Leaves word for the main thread that a running job's worker is to save. */
static int want_save(struct mt_daemon *daemon, const char *id)
{
    pthread_mutex_lock(&daemon->mutex);
    void *grown =
        realloc(daemon->save_requests, (daemon->num_save_requests + 1) * sizeof *daemon->save_requests);
    if (grown) {
        daemon->save_requests = grown;
        snprintf(daemon->save_requests[daemon->num_save_requests++], MT_ID_BYTES, "%s", id);
    }
    pthread_mutex_unlock(&daemon->mutex);
    return grown ? 0 : -ENOMEM;
}

static enum mt_control_result act(void *context, const char *id, enum mt_control_action action, json_t **job,
                                  struct mt_error *error)
{
    static const enum mt_queue_action actions[] = {
        [MT_CONTROL_CANCEL] = MT_QUEUE_CANCEL,
        [MT_CONTROL_PAUSE] = MT_QUEUE_PAUSE,
        [MT_CONTROL_RESUME] = MT_QUEUE_RESUME,
        [MT_CONTROL_CHECKPOINT] = MT_QUEUE_CHECKPOINT,
    };
    struct mt_daemon *daemon = context;
    struct mt_queue_job *row = NULL;
    int r = mt_queue_act(daemon->queue, id, actions[action], &row, error);
    if (r == -ENOSPC) /* the queue has just made what room it could */
        r = mt_queue_act(daemon->queue, id, actions[action], &row, error);
    if (r < 0)
        return mt_control_result_of(r);
    if (action == MT_CONTROL_CHECKPOINT && want_save(daemon, row->id) < 0) {
        mt_queue_job_free(row);
        return out_of_memory(error);
    }
    mt_daemon_wake(daemon);
    return answer_with(row, job, error);
}

static enum mt_control_result remove_job(void *context, const char *id, struct mt_error *error)
{
    struct mt_daemon *daemon = context;
    int r = mt_queue_remove(daemon->queue, id, error);
    if (r == -ENOSPC)
        r = mt_queue_remove(daemon->queue, id, error);
    if (r == 0)
        mt_janitor_take(daemon->janitor, id);
    return mt_control_result_of(r);
}

static char *job_folder(void *context, const char *id)
{
    const struct mt_daemon *daemon = context;
    struct mt_queue_job *row = NULL;
    if (!mt_id_valid(id) || mt_queue_get(daemon->queue, id, &row, NULL) < 0)
        return NULL;
    char *folder = mt_daemon_job_folder(daemon, row->id);
    mt_queue_job_free(row);
    return folder;
}

static bool job_active(void *context, const char *id)
{
    const struct mt_daemon *daemon = context;
    struct mt_queue_job *row = NULL;
    if (mt_queue_get(daemon->queue, id, &row, NULL) < 0)
        return false;
    bool active = mt_queue_state_is_active(row->state);
    mt_queue_job_free(row);
    return active;
}

static bool ready(void *context, struct mt_error *error)
{
    struct mt_daemon *daemon = context;
    if (daemon->stopping) {
        mt_error_set(error, -ESHUTDOWN, MT_REASON_INTERRUPTED, "the daemon is stopping");
        return false;
    }
    if (mt_time_monotonic() > daemon->next_turn_by + LATE_SECONDS) {
        mt_error_set(error, -ETIMEDOUT, MT_REASON_INTERNAL, "the scheduler does not answer");
        return false;
    }
    return mt_queue_check(daemon->queue, error) == 0;
}

void mt_control_fill(struct mt_control *control, struct mt_daemon *daemon)
{
    *control = (struct mt_control){
        .context = daemon,
        .submit = mt_submit,
        .job = get_job,
        .list = list_jobs,
        .act = act,
        .remove = remove_job,
        .job_folder = job_folder,
        .job_active = job_active,
        .snapshot = mt_snapshot,
        .ready = ready,
        .plan = mt_plan,
        .preview = mt_preview,
        .devices = mt_devices,
        .models = mt_models,
    };
}
