/* What becomes of a job whose worker has ended: a function of what is known, and of nothing else. */
#ifndef MT_MEGATRAIND_OUTCOME_H
#define MT_MEGATRAIND_OUTCOME_H

#include "core/base/error.h"
#include "core/queue/queue.h"
#include "daemon/megatraind/worker.h"

struct mt_outcome_facts {
    enum mt_worker_word word;
    const char *failed_reason, *failed_message, *failed_detail; /* with MT_WORKER_FAILED; may be NULL */
    bool left_behind;       /* a worker of an earlier daemon: nobody heard its last word */
    int wait_status;        /* of waitpid */
    int exec_error;         /* the program could not be executed: errno */
    const char *killed_for; /* why the daemon killed it (a reason), or NULL */
    enum mt_queue_request requested;
    bool stopping;         /* the daemon is */
    size_t resident_bytes; /* last seen; 0: unknown */
    enum mt_memory_verdict {
        MT_MEMORY_UNKNOWN,
        MT_MEMORY_KILLED, /* the kernel killed for want of memory while it ran */
        MT_MEMORY_SPARED, /* it did not */
    } memory;
    int64_t step;     /* last known */
    int64_t restarts; /* deaths before this one without a new step */
    int64_t restart_limit;
};

struct mt_outcome {
    enum mt_queue_state to;               /* MT_QUEUE_STARTING: start it again */
    const char *reason;                   /* or NULL */
    char message[MT_ERROR_MESSAGE_BYTES]; /* or "" */
    char detail[256];                     /* or "" */
};

void mt_outcome_decide(const struct mt_outcome_facts *facts, struct mt_outcome *outcome);

#endif
