#include "core/queue/state.h"

#include <stddef.h>
#include <string.h>

static const char *const names[MT_QUEUE_NUM_STATES] = {
    [MT_QUEUE_QUEUED] = "queued",       [MT_QUEUE_STARTING] = "starting",   [MT_QUEUE_RUNNING] = "running",
    [MT_QUEUE_PAUSED] = "paused",       [MT_QUEUE_COMPLETED] = "completed", [MT_QUEUE_FAILED] = "failed",
    [MT_QUEUE_CANCELLED] = "cancelled",
};

/* A job completes only from `running`: a worker must have spoken before its last word counts. `failed` can be
 * resumed, `completed` and `cancelled` are for good. `running` goes back to `starting` when a worker died and
 * the next one is on its way. */
static const bool transitions[MT_QUEUE_NUM_STATES][MT_QUEUE_NUM_STATES] = {
    [MT_QUEUE_QUEUED] = {[MT_QUEUE_STARTING] = true,
                         [MT_QUEUE_PAUSED] = true,
                         [MT_QUEUE_FAILED] = true,
                         [MT_QUEUE_CANCELLED] = true},
    [MT_QUEUE_STARTING] = {[MT_QUEUE_QUEUED] = true,
                           [MT_QUEUE_RUNNING] = true,
                           [MT_QUEUE_PAUSED] = true,
                           [MT_QUEUE_FAILED] = true,
                           [MT_QUEUE_CANCELLED] = true},
    [MT_QUEUE_RUNNING] = {[MT_QUEUE_QUEUED] = true,
                          [MT_QUEUE_STARTING] = true,
                          [MT_QUEUE_PAUSED] = true,
                          [MT_QUEUE_COMPLETED] = true,
                          [MT_QUEUE_FAILED] = true,
                          [MT_QUEUE_CANCELLED] = true},
    [MT_QUEUE_PAUSED] = {[MT_QUEUE_QUEUED] = true, [MT_QUEUE_CANCELLED] = true},
    [MT_QUEUE_FAILED] = {[MT_QUEUE_QUEUED] = true},
};

const char *mt_queue_state_name(enum mt_queue_state state)
{
    return names[state];
}

int mt_queue_state_parse(const char *name)
{
    for (int state = 0; state < MT_QUEUE_NUM_STATES; state++)
        if (strcmp(name, names[state]) == 0)
            return state;
    return -1;
}

bool mt_queue_state_may_follow(enum mt_queue_state from, enum mt_queue_state to)
{
    return transitions[from][to];
}

bool mt_queue_state_is_active(enum mt_queue_state state)
{
    return state == MT_QUEUE_STARTING || state == MT_QUEUE_RUNNING;
}

bool mt_queue_state_is_ended(enum mt_queue_state state)
{
    return state == MT_QUEUE_COMPLETED || state == MT_QUEUE_FAILED || state == MT_QUEUE_CANCELLED;
}
