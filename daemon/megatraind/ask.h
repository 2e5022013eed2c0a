/* Questions that touch models, data or tensors, which the daemon itself never does: a short-lived worker
 * (`megatrain-worker --task ...`) answers them. */
#ifndef MT_MEGATRAIND_ASK_H
#define MT_MEGATRAIND_ASK_H

#include "api/control.h"
#include "core/base/error.h"

#include <jansson.h>

/* A submission waits for it, too: a slow disk does not get the time of a whole request. */
#define MT_ASK_SECONDS 5.0

/* Gives the question to `program` on its standard input and reads the answer, within so many seconds, or
 * until the client (may be NULL) is gone; then the process is killed. *reply: a new reference. Any thread.
 * Errors: -ETIMEDOUT silent for so long; -ECANCELED the client is gone; -ECHILD it died or exited with an
 * error, which the sentence tells, with the last it said on standard error; -EBADMSG its answer is no JSON,
 * or over 8 MiB. */
int mt_ask_worker(const char *program, const char *task, const json_t *question, double seconds,
                  const struct mt_control_client *client, json_t **reply, struct mt_error *error);

/* The same for a call of the API: UNAVAILABLE where a later try may go well. */
enum mt_control_result mt_ask_for_client(const char *program, const char *task, const json_t *question,
                                         double seconds, const struct mt_control_client *client,
                                         json_t **reply, struct mt_error *error);

#endif
