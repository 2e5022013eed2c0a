/* The states of a job and which may follow which. */
#ifndef MT_QUEUE_STATE_H
#define MT_QUEUE_STATE_H

#include <stdbool.h>

enum mt_queue_state {
    MT_QUEUE_QUEUED,
    MT_QUEUE_STARTING, /* claimed: its worker is being started, or waits to be started again */
    MT_QUEUE_RUNNING,  /* its worker has spoken */
    MT_QUEUE_PAUSED,
    MT_QUEUE_COMPLETED,
    MT_QUEUE_FAILED,
    MT_QUEUE_CANCELLED,
    MT_QUEUE_NUM_STATES,
};

/* "queued", ... as the API shows it and the database stores it. */
const char *mt_queue_state_name(enum mt_queue_state state);
/* -1 when there is no such state. */
int mt_queue_state_parse(const char *name);

/* The one table of transitions. A state never follows itself. */
bool mt_queue_state_may_follow(enum mt_queue_state from, enum mt_queue_state to);

/* starting or running: the job holds a slot, and a worker may write its files. */
bool mt_queue_state_is_active(enum mt_queue_state state);
/* completed, failed or cancelled. */
bool mt_queue_state_is_ended(enum mt_queue_state state);

#endif
