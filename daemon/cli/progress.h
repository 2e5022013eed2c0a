/* Progress of a job for people: on a terminal a bar that is drawn over itself, elsewhere plain lines. */
#ifndef MT_CLI_PROGRESS_H
#define MT_CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* What there is to show; a number that is not known is NaN (seconds: or below 0). */
struct mt_progress_state {
    const char *phase; /* shown until the first step: "loading"; may be NULL */
    uint64_t step, max_steps;
    double loss, learning_rate, grad_norm, tokens_per_second, eta_seconds;
    double val_loss;
};

struct mt_progress {
    FILE *out;
    bool terminal;       /* `out` is one that understands \r */
    uint64_t interval;   /* plain: steps between two lines */
    uint64_t last_step;  /* the last step with a plain line */
    char last_phase[32]; /* the last phase with a plain line */
    bool drawn;          /* a bar stands in the last line of the terminal */
};

/* `interval` as logging.log_interval; 0 is 1. */
void mt_progress_init(struct mt_progress *progress, FILE *out, uint64_t interval);
/* Shows the state: draws the bar anew, or prints a line when a step is due (each `interval` steps, the first,
 * and the last one), a val_loss came, or the phase changed before any step. */
void mt_progress_show(struct mt_progress *progress, const struct mt_progress_state *state);
/* Prints a line, above the bar where there is one. No newline in `format`. */
void mt_progress_line(struct mt_progress *progress, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Leaves the bar where it stands and goes to the next line. */
void mt_progress_end(struct mt_progress *progress);

/* The bar's text at `width` columns, without \r; returns `text`. Public for tests. */
const char *mt_progress_bar(const struct mt_progress_state *state, unsigned width, char *text,
                            size_t text_bytes);
/* "987", "12,345": whole numbers with separators; returns `text`. */
const char *mt_progress_count(double value, char text[40]);

#endif
