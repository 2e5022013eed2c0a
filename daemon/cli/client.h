/* The daemon, as a client sees it: HTTP over TCP or a Unix socket. MEGATRAIN_URL says where it is
 * (http://127.0.0.1:8642 without; unix:/run/megatrain/api.sock), MEGATRAIN_TOKEN is the bearer token. */
#ifndef MT_CLI_CLIENT_H
#define MT_CLI_CLIENT_H

#include "core/base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct mt_client;

/* Errors: -EINVAL, MT_REASON_USAGE for a MEGATRAIN_URL that is none. */
int mt_client_open(struct mt_client **client, struct mt_error *error);
void mt_client_close(struct mt_client *client); /* NULL is fine */
const char *mt_client_url(const struct mt_client *client);

struct mt_request {
    const char *method;          /* "GET", "POST", "DELETE" */
    const char *path;            /* "/jobs?limit=20", already encoded */
    const json_t *body;          /* or NULL */
    const char *accept;          /* NULL: application/json */
    const char *idempotency_key; /* or NULL */
    /* Where the answer goes piece by piece, without a time limit; NULL: to mt_response.text. Returns false to
     * stop. Only for answers below 300. */
    bool (*sink)(void *context, const char *data, size_t bytes);
    void *context;
};

struct mt_response {
    long status;
    char *text; /* malloc'd, with a zero byte after it */
    size_t bytes;
    json_t *json; /* NULL when it is none */
};
void mt_response_free(struct mt_response *response); /* leaves it zeroed */

/* 0 when an answer came, whatever its status. -ECONNREFUSED when none came (the daemon is not there, stopped
 * in the middle of the answer, or took too long), -ENOMEM; with a sentence. */
int mt_client_send(struct mt_client *client, const struct mt_request *request, struct mt_response *response,
                   struct mt_error *error);

/* Sends, and complains about everything but an answer below 300 that is JSON, or 204, which has none. Returns
 * 0 or the exit code. */
int mt_client_call(struct mt_client *client, const struct mt_request *request, struct mt_response *response);
/* Complains about an answer; returns the exit code for its status. */
int mt_client_complain(const struct mt_response *response);

/* Path of a job: "/jobs/<id><rest>", the id encoded; "last" is the newest job. malloc'd; NULL after a
 * complaint, with the exit code in *code. */
char *mt_client_job_path(struct mt_client *client, const char *id, const char *rest, int *code);

#endif
