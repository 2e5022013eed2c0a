/* The daemon as its parts share it. The main thread runs the supervisor; the API's threads come in through
 * the control table and touch only the queue, the options and what is marked as shared here. */
#ifndef MT_MEGATRAIND_DAEMON_H
#define MT_MEGATRAIND_DAEMON_H

#include "core/base/id.h"
#include "core/queue/queue.h"
#include "daemon/megatraind/options.h"
#include "daemon/megatraind/process.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

struct mt_daemon {
    struct mt_options options;
    struct mt_queue *queue;
    char *state_folder; /* absolute, without links */
    char *jobs_folder, *models_folder, *datasets_folder;
    char *hub_cache;      /* or NULL */
    char *lm_studio;      /* or NULL */
    char *ollama_store;   /* or NULL */
    char *worker_program; /* absolute */
    char boot[MT_PROCESS_BOOT_BYTES];

    int wake_fd;                 /* eventfd: something for the main thread to look at */
    atomic_bool stopping;        /* shared: no more submissions */
    _Atomic double last_turn;    /* shared: when the main thread was last awake (monotonic) */
    _Atomic double next_turn_by; /* shared: when it meant to be awake again at the latest */

    pthread_mutex_t mutex;              /* of what follows, shared */
    char (*save_requests)[MT_ID_BYTES]; /* jobs whose worker is to save now */
    size_t num_save_requests;

    struct mt_janitor *janitor;
};

/* Has the main thread look around; from any thread. */
void mt_daemon_wake(struct mt_daemon *daemon);

/* malloc'd "<state>/jobs/<id>"; NULL when out of memory. */
char *mt_daemon_job_folder(const struct mt_daemon *daemon, const char *id);

#endif
