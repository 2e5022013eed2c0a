#include "tests/unit/queue/queue_support.h"

#include "core/base/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int fixture_set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    if (!fixture)
        return -1;
    strcpy(fixture->folder, "/tmp/mt-queue-XXXXXX");
    if (!mkdtemp(fixture->folder))
        return -1;
    snprintf(fixture->path, sizeof fixture->path, "%s/megatrain.db", fixture->folder);
    struct mt_error error = {0};
    if (mt_queue_open(fixture->path, &fixture->queue, &error) < 0) {
        print_error("%s\n", error.message);
        return -1;
    }
    *state = fixture;
    return 0;
}

int fixture_tear_down(void **state)
{
    struct fixture *fixture = *state;
    mt_queue_close(fixture->queue);
    mt_folder_remove(fixture->folder, NULL);
    free(fixture);
    return 0;
}

void fixture_reopen(struct fixture *fixture)
{
    struct mt_error error = {0};
    mt_queue_close(fixture->queue);
    fixture->queue = NULL;
    if (mt_queue_open(fixture->path, &fixture->queue, &error) < 0)
        fail_msg("cannot open again: %s", error.message);
}

static int submit_any(struct mt_queue *queue, const char *name, int64_t priority, const char *key,
                      const char *body, char id[MT_ID_BYTES], struct mt_error *error)
{
    mt_id_new(id);
    json_t *document = json_pack("{s:s, s:{s:i}}", "name", name, "training", "max_steps", 10);
    struct mt_queue_submission submission = {.id = id,
                                             .name = name,
                                             .priority = priority,
                                             .document = document,
                                             .idempotency_key = key,
                                             .body_sha256 = body};
    struct mt_queue_job *job = NULL;
    int r = mt_queue_submit(queue, &submission, &job, error);
    if (job)
        memcpy(id, job->id, MT_ID_BYTES);
    mt_queue_job_free(job);
    json_decref(document);
    return r;
}

void submit(struct mt_queue *queue, const char *name, int64_t priority, char id[MT_ID_BYTES])
{
    struct mt_error error = {0};
    if (submit_any(queue, name, priority, NULL, NULL, id, &error) < 0)
        fail_msg("submit: %s", error.message);
}

int submit_with_key(struct mt_queue *queue, const char *key, const char *body, char id[MT_ID_BYTES])
{
    return submit_any(queue, "keyed", 0, key, body, id, NULL);
}

enum mt_queue_state state_of(struct mt_queue *queue, const char *id)
{
    struct mt_queue_job *job = NULL;
    struct mt_error error = {0};
    if (mt_queue_get(queue, id, &job, &error) < 0)
        fail_msg("get: %s", error.message);
    enum mt_queue_state state = job->state;
    mt_queue_job_free(job);
    return state;
}

void claim(struct mt_queue *queue, const char *id)
{
    struct mt_queue_job *job = NULL;
    struct mt_error error = {0};
    if (mt_queue_claim(queue, &job, &error) < 0)
        fail_msg("claim: %s", error.message);
    assert_string_equal(job->id, id);
    assert_int_equal(job->state, MT_QUEUE_STARTING);
    mt_queue_job_free(job);
}

void change(struct mt_queue *queue, const char *id, enum mt_queue_state to)
{
    struct mt_error error = {0};
    struct mt_queue_change wanted = {.to = to, .restarts = -1};
    if (mt_queue_change(queue, id, &wanted, &error) < 0)
        fail_msg("change: %s", error.message);
}

int act(struct mt_queue *queue, const char *id, enum mt_queue_action action)
{
    struct mt_queue_job *job = NULL;
    int r = mt_queue_act(queue, id, action, &job, NULL);
    mt_queue_job_free(job);
    return r;
}
