/* What the API asks of the daemon. The daemon fills this table; api/ calls it from its own threads, so every
 * function is thread-safe. No function touches a tensor. Those that get a client ask a process and may take
 * seconds; the others block no longer than a database write takes. */
#ifndef MT_API_CONTROL_H
#define MT_API_CONTROL_H

#include "core/base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How a call ended; the HTTP status follows from it. */
enum mt_control_result {
    MT_CONTROL_OK,
    MT_CONTROL_NOT_FOUND,   /* 404 */
    MT_CONTROL_CONFLICT,    /* 409: the state forbids it, or the idempotency key came with another body */
    MT_CONTROL_INVALID,     /* 422: `errors` lists what is wrong */
    MT_CONTROL_BAD_CURSOR,  /* 400 */
    MT_CONTROL_DISK_FULL,   /* 507: nothing was accepted */
    MT_CONTROL_UNAVAILABLE, /* 503: stopping, or no answer in time; later it may go well */
    MT_CONTROL_FAILED,      /* 500: the sentence is in `error` */
};

struct mt_control_submission {
    const json_t *document;      /* as posted, parsed */
    const char *idempotency_key; /* or NULL */
    const char *body_sha256;     /* 64 hexadecimal digits; used with the key */
};

struct mt_control_list_query {
    const char *state; /* or NULL */
    const char *after; /* opaque cursor of the previous page, or NULL */
    size_t limit;      /* 1 to 1000 */
};

enum mt_control_action {
    MT_CONTROL_CANCEL,
    MT_CONTROL_PAUSE,
    MT_CONTROL_RESUME,
    MT_CONTROL_CHECKPOINT,
};

/* Who waits for an answer that takes seconds: what makes it looks now and then whether it is still wanted. */
struct mt_control_client {
    bool (*gone)(void *context); /* from then on true; any thread */
    void *context;
};

struct mt_control_preview {
    size_t show; /* samples */
    size_t rows; /* that are read at most */
};

struct mt_control {
    void *context;

    /* 201: the job is on disk when this returns OK. *job (new reference) is the job object; *errors, with
     * INVALID, an array of {pointer, detail, suggestion?}. */
    enum mt_control_result (*submit)(void *context, const struct mt_control_submission *submission,
                                     const struct mt_control_client *client, json_t **job, json_t **errors,
                                     struct mt_error *error);
    enum mt_control_result (*job)(void *context, const char *id, json_t **job, struct mt_error *error);
    /* *page is {"data": [...], "has_more", "next"}, newest first. */
    enum mt_control_result (*list)(void *context, const struct mt_control_list_query *query, json_t **page,
                                   struct mt_error *error);
    enum mt_control_result (*act)(void *context, const char *id, enum mt_control_action action, json_t **job,
                                  struct mt_error *error);
    enum mt_control_result (*remove)(void *context, const char *id, struct mt_error *error);

    /* Path of the job's folder (jobs/<id>), malloc'd; NULL when there is no such job. */
    char *(*job_folder)(void *context, const char *id);
    /* True while a worker of this job may still write its files. */
    bool (*job_active)(void *context, const char *id);

    /* Everything that /metrics shows; new reference. Members:
     * {"time", "version", "jobs": {state: count}, "running": [{"id", "name", "progress": {...}}],
     *  "counters": {"trained_tokens_total", "steps_total", "worker_restarts_total": {reason: n}},
     *  "histograms": {"step_duration_seconds": {"buckets": [[le, cumulative count], ...], "sum", "count"},
     * "queue_wait_seconds": {...}, "job_duration_seconds": {state: {...}}}, "devices": [...], "memory":
     * {"resident_bytes", "total_bytes", "available_bytes"}, "disk": {"total_bytes", "free_bytes"}} */
    json_t *(*snapshot)(void *context);

    /* Ready: the database answers and the scheduler runs. false with a sentence otherwise. */
    bool (*ready)(void *context, struct mt_error *error);

    /* What the job would take of a machine, or of this one (`machine` NULL; members as in docs/plan.md, text
     * or numbers). *plan: new reference. INVALID: *errors as submit's. BAD_CURSOR: the machine is wrong. */
    enum mt_control_result (*plan)(void *context, const json_t *document, const json_t *machine,
                                   const struct mt_control_client *client, json_t **plan, json_t **errors,
                                   struct mt_error *error);

    /* What of the job's data would be learned: the document of `megatrain data --json`. *preview: new
     * reference. INVALID: *errors as submit's. Takes memory and all cores: never called twice at a time. */
    enum mt_control_result (*preview)(void *context, const json_t *document,
                                      const struct mt_control_preview *wish,
                                      const struct mt_control_client *client, json_t **preview,
                                      json_t **errors, struct mt_error *error);

    /* What this machine computes on, as core/device/list.h has it; new reference. */
    enum mt_control_result (*devices)(void *context, const struct mt_control_client *client, json_t **devices,
                                      struct mt_error *error);

    /* The models on this machine, as core/model/on_disk.h has them; new reference. */
    enum mt_control_result (*models)(void *context, const struct mt_control_client *client, json_t **models,
                                     struct mt_error *error);
};

/* ---- the server itself (api/server.c), called by daemon/megatraind ---- */

struct mt_api;

struct mt_api_options {
    const char *const *listen; /* "127.0.0.1:8642", "[::1]:0", "unix:/run/megatrain/api.sock" */
    size_t num_listen;
    const char *token;   /* bearer token, or NULL; required for any address that is not loopback */
    const char *version; /* "0.1.0" */
    /* Names, beside localhost, this machine's own and IP addresses, that clients may have in Host: of a proxy
     * in front, say. May be NULL. */
    const char *const *allow_hosts;
    size_t num_allow_hosts;
};

/* Starts listening on every address; addresses in use afterwards from mt_api_addresses. Errors: -EADDRINUSE
 * (exit 69), -EINVAL for an address that is wrong or needs a token (exit 78). */
int mt_api_start(const struct mt_control *control, const struct mt_api_options *options, struct mt_api **api,
                 struct mt_error *error);
/* "http://127.0.0.1:41234" or "unix:/path", one per listener. */
size_t mt_api_addresses(const struct mt_api *api, const char *const **addresses);
/* Stops taking connections, ends open streams, waits for handlers, frees. */
void mt_api_stop(struct mt_api *api);

#endif
