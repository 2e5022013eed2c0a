/* jobs.c: submitting, listing, showing, steering and removing jobs. The daemon decides; this file speaks
 * HTTP. */
#include "api/jobs.h"

#include "api/job_page.h"
#include "api/problem.h"
#include "api/router.h"
#include "api/server.h"
#include "core/base/cleanup.h"
#include "core/base/sha256.h"

#include <stdio.h>
#include <string.h>

#define KEY_BYTES 255

static const struct mt_control *control_of(const struct mt_request *request)
{
    return request->listener->api->control;
}

static void body_sha256(const struct mt_request *request, char hex[65])
{
    struct mt_sha256 hash;
    uint8_t digest[32];
    mt_sha256_init(&hash);
    mt_sha256_update(&hash, request->body, request->body_bytes);
    mt_sha256_final(&hash, digest);
    mt_sha256_hex(digest, hex);
}

/* What a database column and a log line can hold. */
static bool key_is_good(const char *key)
{
    size_t bytes = strlen(key);
    if (bytes == 0 || bytes > KEY_BYTES)
        return false;
    for (size_t i = 0; i < bytes; i++) {
        if (key[i] < 0x20 || key[i] >= 0x7f)
            return false;
    }
    return true;
}

void mt_jobs_submit(struct mt_request *request)
{
    mt_autojson json_t *document = mt_request_document(request), *job = NULL, *errors = NULL;
    struct mt_error error = {0};
    if (!document)
        return;
    const char *key = mt_request_header(request, "Idempotency-Key");
    if (key && !key_is_good(key)) {
        mt_problem(request, 400, "An Idempotency-Key is 1 to %d printable ASCII characters.", KEY_BYTES);
        return;
    }
    char hash[65];
    body_sha256(request, hash);
    struct mt_control_submission submission = {
        .document = document, .idempotency_key = key, .body_sha256 = hash};
    const struct mt_control_client client = mt_asks_client(request);
    const struct mt_control *control = control_of(request);
    enum mt_control_result result =
        control->submit(control->context, &submission, &client, &job, &errors, &error);
    if (result != MT_CONTROL_OK) {
        mt_problem_control(request, result, errors, &error);
        return;
    }
    mt_reply_json(request, 201, job);
    const char *id = json_string_value(json_object_get(job, "id"));
    char location[64];
    snprintf(location, sizeof location, "/jobs/%s", id ? id : "");
    mt_reply_header(request, "Location", location);
}

void mt_jobs_list(struct mt_request *request)
{
    const struct mt_control *control = control_of(request);
    struct mt_control_list_query query = {
        .state = mt_request_parameter(request, "state"),
        .after = mt_request_parameter(request, "after"),
        .limit = (size_t)mt_router_number(request, "limit"),
    };
    mt_autojson json_t *page = NULL;
    struct mt_error error = {0};
    enum mt_control_result result = control->list(control->context, &query, &page, &error);
    if (result != MT_CONTROL_OK)
        mt_problem_control(request, result, NULL, &error);
    else
        mt_reply_json(request, 200, page);
}

void mt_jobs_show(struct mt_request *request)
{
    const struct mt_control *control = control_of(request);
    mt_autojson json_t *job = NULL;
    struct mt_error error = {0};
    static const char *const types[] = {"application/json", "text/html", NULL};
    enum mt_control_result result = control->job(control->context, request->path_value, &job, &error);
    if (result != MT_CONTROL_OK) {
        mt_problem_control(request, result, NULL, &error);
    } else if (mt_request_accepts(request, types) == 1) {
        mt_job_page(request, job);
    } else {
        mt_reply_json(request, 200, job);
        mt_reply_header(request, "Vary", "Accept");
    }
}

void mt_jobs_remove(struct mt_request *request)
{
    const struct mt_control *control = control_of(request);
    struct mt_error error = {0};
    enum mt_control_result result = control->remove(control->context, request->path_value, &error);
    if (result != MT_CONTROL_OK)
        mt_problem_control(request, result, NULL, &error);
    else
        mt_reply_empty(request, 204);
}

static void act(struct mt_request *request, enum mt_control_action action)
{
    const struct mt_control *control = control_of(request);
    mt_autojson json_t *job = NULL;
    struct mt_error error = {0};
    enum mt_control_result result = control->act(control->context, request->path_value, action, &job, &error);
    if (result != MT_CONTROL_OK)
        mt_problem_control(request, result, NULL, &error);
    else
        mt_reply_json(request, 202, job);
}

void mt_jobs_cancel(struct mt_request *request)
{
    act(request, MT_CONTROL_CANCEL);
}

void mt_jobs_pause(struct mt_request *request)
{
    act(request, MT_CONTROL_PAUSE);
}

void mt_jobs_resume(struct mt_request *request)
{
    act(request, MT_CONTROL_RESUME);
}

void mt_jobs_checkpoint(struct mt_request *request)
{
    act(request, MT_CONTROL_CHECKPOINT);
}
