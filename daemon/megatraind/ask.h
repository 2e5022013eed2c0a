/* Questions that touch models, data or tensors, which the daemon itself never does: a short-lived worker
 * (`megatrain-worker --task ...`) answers them. */
#ifndef MT_MEGATRAIND_ASK_H
#define MT_MEGATRAIND_ASK_H

#include "core/base/error.h"

#include <jansson.h>

/* A client waits, and so does its thread of the API: a slow disk does not get the time of a whole request. */
#define MT_ASK_SECONDS 5.0

/* Gives the question to `program` on its standard input and reads the answer, within so many seconds. *reply:
 * a new reference. Any thread. Errors: it could not be started, took too long (-ETIMEDOUT) or answered with
 * no JSON. */
int mt_ask_worker(const char *program, const char *task, const json_t *question, double seconds,
                  json_t **reply, struct mt_error *error);

#endif
