/* The two files that a run writes line by line: metrics.jsonl (exactly one row a step) and log.jsonl. A row
 * is one write(), so that a reader never sees half of one while the machine runs; mt_series_sync makes them
 * durable. */
#ifndef MT_TRAIN_SERIES_H
#define MT_TRAIN_SERIES_H

#include "core/base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A row of metrics.jsonl; DESIGN's names. */
struct mt_step_row {
    size_t step;
    double epoch;
    double loss, grad_norm;
    double learning_rate;
    size_t tokens, target_tokens;
    double step_seconds;
    bool has_val_loss;
    double val_loss;
    size_t skipped_steps; /* so far */
    unsigned attempt;     /* from 1 */
};

struct mt_series;

/* Opens `<folder>/metrics.jsonl` and `<folder>/log.jsonl` for appending. Rows of steps past `step`, which a
 * resumed run makes again, and a torn last line are cut off first. */
int mt_series_open(const char *folder, size_t step, struct mt_series **series, struct mt_error *error);
void mt_series_close(struct mt_series *series); /* NULL is fine */

/* The attempt of the last row in `<folder>/metrics.jsonl`; 0 when there is none. */
unsigned mt_series_last_attempt(const char *folder);

int mt_series_row(struct mt_series *series, const struct mt_step_row *row, struct mt_error *error);
/* `fields` (may be NULL, borrowed) is an object whose members are added to the line. Thread-safe. */
int mt_series_log(struct mt_series *series, const char *level, const char *message, const json_t *fields,
                  struct mt_error *error);
int mt_series_sync(struct mt_series *series, struct mt_error *error);

#endif
