/* Errors as RFC 9457 problem documents; under /v1 in the shape that OpenAI's clients expect. */
#ifndef MT_API_PROBLEM_H
#define MT_API_PROBLEM_H

#include "api/control.h"
#include "api/request.h"

/* Answers with a problem; the sentence says what was wrong and what to do. */
void mt_problem(struct mt_request *request, unsigned status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* 422 with `errors`, an array of {pointer, detail, suggestion?} (borrowed, may be NULL). */
void mt_problem_invalid(struct mt_request *request, json_t *errors, const char *detail);

/* The answer for a call of the daemon that did not end with MT_CONTROL_OK. */
void mt_problem_control(struct mt_request *request, enum mt_control_result result, json_t *errors,
                        const struct mt_error *error);

#endif
