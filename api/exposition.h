/* Writing the page that Prometheus reads: text format 0.0.4, or OpenMetrics 1.0.0, which differs in the names
 * of counters' families, in how whole numbers are written as bounds, and in its last line. */
#ifndef MT_API_EXPOSITION_H
#define MT_API_EXPOSITION_H

#include "api/text.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct mt_exposition {
    struct mt_text text;
    bool open_metrics;
};

/* Starts a family: "counter" (with a name that ends in _total), "gauge", "histogram", "info" (_info). All its
 * samples must follow before the next one starts. */
void mt_exposition_family(struct mt_exposition *page, const char *name, const char *type, const char *help);

/* A sample: name{label="value",...} number. `labels` is a NULL-terminated list of names and values. */
void mt_exposition_sample(struct mt_exposition *page, const char *name, const char *const *labels,
                          double value);

/* A histogram's samples out of {"buckets": [[bound, cumulative count], ...], "sum", "count"}; an empty one
 * when `histogram` is NULL. */
void mt_exposition_histogram(struct mt_exposition *page, const char *name, const char *const *labels,
                             const json_t *histogram);

void mt_exposition_end(struct mt_exposition *page);

#endif
