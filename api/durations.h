/* How long requests took: the histogram megatrain_http_request_duration_seconds{route,method,code}. */
#ifndef MT_API_DURATIONS_H
#define MT_API_DURATIONS_H

#include <stddef.h>
#include <stdint.h>

#define MT_DURATION_BUCKETS 11
extern const double mt_duration_bounds[MT_DURATION_BUCKETS]; /* seconds, the last before +Inf */

struct mt_duration_series {
    const char *route; /* a route's pattern, or "other" */
    const char *method;
    unsigned code;
    uint64_t buckets[MT_DURATION_BUCKETS + 1]; /* not cumulative; the last is +Inf */
    uint64_t count;
    double sum;
};

struct mt_durations;

struct mt_durations *mt_durations_new(void); /* NULL: out of memory */
void mt_durations_free(struct mt_durations *durations);

/* Makes the series, at zero, when it is not there. `route` must outlive the histogram; a method that HTTP
 * does not know counts as "other", so that no client makes up labels. */
void mt_durations_declare(struct mt_durations *durations, const char *route, const char *method,
                          unsigned code);
void mt_durations_observe(struct mt_durations *durations, const char *route, const char *method,
                          unsigned code, double seconds);

/* Calls `show` for each series, from a consistent copy. */
void mt_durations_each(struct mt_durations *durations,
                       void (*show)(void *context, const struct mt_duration_series *series), void *context);

#endif
