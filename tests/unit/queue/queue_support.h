/* A queue in a folder of its own, and short ways to use it. */
#ifndef MT_TEST_QUEUE_SUPPORT_H
#define MT_TEST_QUEUE_SUPPORT_H

#include "core/queue/queue.h"
#include "tests/unit/support.h"

struct fixture {
    char folder[64];
    char path[96]; /* of the database */
    struct mt_queue *queue;
};

/* cmocka set-up and tear-down; the state is a struct fixture. */
int fixture_set_up(void **state);
int fixture_tear_down(void **state);
/* Closes and opens again; asserts that it works. */
void fixture_reopen(struct fixture *fixture);

/* Submits a small job and gives its id; asserts success. */
void submit(struct mt_queue *queue, const char *name, int64_t priority, char id[MT_ID_BYTES]);
/* Submits; returns mt_queue_submit's result. */
int submit_with_key(struct mt_queue *queue, const char *key, const char *body, char id[MT_ID_BYTES]);
enum mt_queue_state state_of(struct mt_queue *queue, const char *id);
/* Claims and asserts that it was this job. */
void claim(struct mt_queue *queue, const char *id);
void change(struct mt_queue *queue, const char *id, enum mt_queue_state to);
int act(struct mt_queue *queue, const char *id, enum mt_queue_action action);

#endif
