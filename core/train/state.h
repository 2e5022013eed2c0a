/* Parts of trainer_state.json: what a resumed run must know beside parameters, moments and the sampler. */
#ifndef MT_TRAIN_STATE_H
#define MT_TRAIN_STATE_H

#include "core/optim/schedule.h"
#include "core/train/series.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* A row whose evaluation was broken off, so that the resumed run can write it again with what the evaluation
 * finds. New reference; NULL when out of memory. */
json_t *mt_state_row(const struct mt_step_row *row);
void mt_state_read_row(const json_t *value, size_t step, struct mt_step_row *row);

/* The course of the learning rate; new reference. */
json_t *mt_state_schedule(const struct mt_schedule *schedule);
/* Whether the rates from `step` on are other than the saved schedule's; then `text` has some of both, as
 * "step 7 0.001 (was 0.003), ...". */
bool mt_state_new_course(const json_t *saved, const struct mt_schedule *schedule, size_t step, char *text,
                         size_t bytes);

#endif
