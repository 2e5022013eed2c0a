/* The short-lived tasks: a question is read, an answer printed, both JSON. */
#ifndef MT_WORKER_QUESTION_H
#define MT_WORKER_QUESTION_H

#include "core/base/error.h"

#include <jansson.h>

#define MT_WORKER_STDIN "/dev/stdin"

/* *reply: a new reference. Negative, with the sentence, where there is no answer. */
typedef int mt_worker_answer(const json_t *question, json_t **reply, struct mt_error *error);

/* Answers the question in the file (NULL: there is none to read) on standard output, in one line; what kept
 * it from that goes to the log. Returns the exit code. The process ends with the one that started it, which
 * alone wants the answer. */
int mt_worker_reply(const char *path, mt_worker_answer *answer);

#endif
