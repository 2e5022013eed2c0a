/* durations.c: the histogram of requests. A short list searched in order: there are as many series as routes
 * times the codes that each gives, some dozens. */
#include "api/durations.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

const double mt_duration_bounds[MT_DURATION_BUCKETS] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
                                                        0.1,   0.25,   0.5,   1,    2.5};

struct mt_durations {
    pthread_mutex_t lock;
    struct mt_duration_series *series;
    size_t count;
};

static const char *known_method(const char *method)
{
    static const char *const known[] = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", NULL};
    for (size_t i = 0; known[i]; i++) {
        if (strcmp(known[i], method) == 0)
            return known[i];
    }
    return "other";
}

struct mt_durations *mt_durations_new(void)
{
    struct mt_durations *durations = calloc(1, sizeof *durations);
    if (durations)
        pthread_mutex_init(&durations->lock, NULL);
    return durations;
}

void mt_durations_free(struct mt_durations *durations)
{
    if (!durations)
        return;
    pthread_mutex_destroy(&durations->lock);
    free(durations->series);
    free(durations);
}

/* With the lock held; NULL when out of memory. */
static struct mt_duration_series *find(struct mt_durations *durations, const char *route, const char *method,
                                       unsigned code)
{
    for (size_t i = 0; i < durations->count; i++) {
        struct mt_duration_series *series = &durations->series[i];
        if (series->code == code && strcmp(series->route, route) == 0 && strcmp(series->method, method) == 0)
            return series;
    }
    struct mt_duration_series *grown =
        realloc(durations->series, (durations->count + 1) * sizeof *durations->series);
    if (!grown)
        return NULL;
    durations->series = grown;
    grown[durations->count] = (struct mt_duration_series){.route = route, .method = method, .code = code};
    return &grown[durations->count++];
}

void mt_durations_declare(struct mt_durations *durations, const char *route, const char *method,
                          unsigned code)
{
    pthread_mutex_lock(&durations->lock);
    find(durations, route, known_method(method), code);
    pthread_mutex_unlock(&durations->lock);
}

void mt_durations_observe(struct mt_durations *durations, const char *route, const char *method,
                          unsigned code, double seconds)
{
    pthread_mutex_lock(&durations->lock);
    struct mt_duration_series *series = find(durations, route, known_method(method), code);
    if (series) {
        size_t bucket = 0;
        while (bucket < MT_DURATION_BUCKETS && seconds > mt_duration_bounds[bucket])
            bucket++;
        series->buckets[bucket]++;
        series->count++;
        series->sum += seconds;
    }
    pthread_mutex_unlock(&durations->lock);
}

void mt_durations_each(struct mt_durations *durations,
                       void (*show)(void *context, const struct mt_duration_series *series), void *context)
{
    pthread_mutex_lock(&durations->lock);
    size_t count = durations->count;
    struct mt_duration_series *copy = malloc((count + 1) * sizeof *copy);
    if (copy && count > 0)
        memcpy(copy, durations->series, count * sizeof *copy);
    pthread_mutex_unlock(&durations->lock);
    for (size_t i = 0; copy && i < count; i++)
        show(context, &copy[i]);
    free(copy);
}
