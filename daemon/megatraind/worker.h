/* One worker process as the daemon holds it: how it is started, heard, told and reaped. What to do with a
 * worker is the supervisor's business; nothing here decides. docs/worker-protocol.md has the lines. */
#ifndef MT_MEGATRAIND_WORKER_H
#define MT_MEGATRAIND_WORKER_H

#include "core/base/error.h"
#include "core/base/id.h"
#include "daemon/megatraind/process.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define MT_WORKER_LINE_BYTES 65536

/* The last word of a worker. */
enum mt_worker_word {
    MT_WORKER_SAID_NOTHING,
    MT_WORKER_COMPLETED,
    MT_WORKER_PAUSED,
    MT_WORKER_CANCELLED,
    MT_WORKER_FAILED,
};

struct mt_worker {
    char job_id[MT_ID_BYTES];
    pid_t pid;      /* and the number of its process group; 0: none runs */
    uint64_t start; /* see mt_process_start */
    bool is_child;  /* false: left by an earlier daemon, seen only through /proc */
    int fd;         /* our end of the socket, -1 after its end */
    int exec_error_fd;

    char *buffer; /* [MT_WORKER_LINE_BYTES]: an incomplete line */
    size_t used;
    bool discarding; /* inside a line that is too long */
    size_t bad_lines;

    /* What it has said. */
    enum mt_worker_word word;
    json_t *last_message; /* the one that holds the word, or NULL */

    /* How it ended. */
    bool exited;
    int wait_status;
    int exec_error; /* errno of a program that could not be executed, or 0 */
};

struct mt_worker_start {
    const char *program;    /* absolute */
    const char *job_folder; /* absolute */
    int64_t attempt;
    /* Called with the process in being and not yet running the program: what it writes is on disk before the
     * worker does anything. A failure ends the process unstarted. */
    int (*record)(void *context, const struct mt_worker *worker, struct mt_error *error);
    void *context;
};

/* `worker` is zeroed but for its job_id. Errors: whatever fork, sockets or `record` say. */
int mt_worker_start(struct mt_worker *worker, const struct mt_worker_start *start, struct mt_error *error);

/* Reads what has arrived, at most `max_bytes`, and calls `on_message` for each JSON object; lines that are
 * none are counted. Closes the socket at its end. */
void mt_worker_read(struct mt_worker *worker, size_t max_bytes,
                    void (*on_message)(void *context, struct mt_worker *worker, json_t *message),
                    void *context);

/* {"type": type} without waiting; false when it did not fit and must be tried again. */
bool mt_worker_send(struct mt_worker *worker, const char *type);

/* To the whole process group. */
void mt_worker_signal(struct mt_worker *worker, int signal);

/* Notices that the process has ended: kills what is left of its group, then reaps it. True once. */
bool mt_worker_reap(struct mt_worker *worker);

/* Frees what a run held; the job_id stays. */
void mt_worker_clear(struct mt_worker *worker);

#endif
