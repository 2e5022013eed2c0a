#include "daemon/worker/pulse.h"

#include "core/base/time.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#define SILENCE_SECONDS 4.0           /* the protocol allows 5 */
#define LIVING_PROCESSOR_SECONDS 0.01 /* far above what this thread and the link use meanwhile */

struct mt_pulse {
    struct mt_link *link;
    pthread_t thread;
    pthread_mutex_t mutex; /* of what follows */
    pthread_cond_t ended;
    bool end;
    json_t *last; /* NULL before the first */
    double sent_at;
};

static double processor_seconds(void)
{
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (double)used.tv_sec + 1e-9 * (double)used.tv_nsec;
}

static void wait_until(struct mt_pulse *pulse, double moment)
{
    struct timespec until = {.tv_sec = (time_t)moment,
                             .tv_nsec = (long)((moment - (double)(time_t)moment) * 1e9)};
    pthread_cond_timedwait(&pulse->ended, &pulse->mutex, &until);
}

static void *pulse_main(void *context)
{
    struct mt_pulse *pulse = context;
    double used_before = processor_seconds();
    pthread_mutex_lock(&pulse->mutex);
    while (!pulse->end) {
        double now = mt_time_monotonic();
        if (now < pulse->sent_at + SILENCE_SECONDS) {
            wait_until(pulse, pulse->sent_at + SILENCE_SECONDS);
            continue;
        }
        double used = processor_seconds();
        if (pulse->last && used - used_before >= LIVING_PROCESSOR_SECONDS)
            mt_link_send(pulse->link, json_incref(pulse->last), false);
        used_before = used;
        pulse->sent_at = now;
    }
    pthread_mutex_unlock(&pulse->mutex);
    return NULL;
}

int mt_pulse_start(struct mt_link *link, struct mt_pulse **pulse, struct mt_error *error)
{
    *pulse = NULL;
    struct mt_pulse *started = calloc(1, sizeof *started);
    if (!started)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory for a sign of life");
    started->link = link;
    started->sent_at = mt_time_monotonic();
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&started->mutex, NULL);
    pthread_cond_init(&started->ended, &attributes);
    pthread_condattr_destroy(&attributes);
    if (pthread_create(&started->thread, NULL, pulse_main, started) != 0) {
        pthread_cond_destroy(&started->ended);
        pthread_mutex_destroy(&started->mutex);
        free(started);
        return mt_error_set(error, -EAGAIN, MT_REASON_OUT_OF_MEMORY,
                            "cannot start a thread for signs of life");
    }
    *pulse = started;
    return 0;
}

void mt_pulse_progress(struct mt_pulse *pulse, json_t *line)
{
    if (!line)
        return;
    pthread_mutex_lock(&pulse->mutex);
    json_decref(pulse->last);
    pulse->last = line;
    pulse->sent_at = mt_time_monotonic();
    mt_link_send(pulse->link, json_incref(line), false);
    pthread_mutex_unlock(&pulse->mutex);
}

void mt_pulse_stop(struct mt_pulse *pulse)
{
    if (!pulse)
        return;
    pthread_mutex_lock(&pulse->mutex);
    pulse->end = true;
    pthread_cond_signal(&pulse->ended);
    pthread_mutex_unlock(&pulse->mutex);
    pthread_join(pulse->thread, NULL);
    json_decref(pulse->last);
    pthread_cond_destroy(&pulse->ended);
    pthread_mutex_destroy(&pulse->mutex);
    free(pulse);
}
