/* The transitions, exhaustively: the table against one written down here by hand, and the database against
 * both; every action of a client in every state. */
#include "tests/unit/queue/queue_support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const allowed[MT_QUEUE_NUM_STATES] = {
    [MT_QUEUE_QUEUED] = "starting paused failed cancelled",
    [MT_QUEUE_STARTING] = "queued running paused failed cancelled",
    [MT_QUEUE_RUNNING] = "queued starting paused completed failed cancelled",
    [MT_QUEUE_PAUSED] = "queued cancelled",
    [MT_QUEUE_COMPLETED] = "",
    [MT_QUEUE_FAILED] = "queued",
    [MT_QUEUE_CANCELLED] = "",
};

static bool is_allowed(enum mt_queue_state from, enum mt_queue_state to)
{
    char list[96], name[16];
    snprintf(list, sizeof list, " %s ", allowed[from]);
    snprintf(name, sizeof name, " %s ", mt_queue_state_name(to));
    return strstr(list, name) != NULL;
}

static void names_read_back(void **state)
{
    (void)state;
    for (int i = 0; i < MT_QUEUE_NUM_STATES; i++)
        assert_int_equal(mt_queue_state_parse(mt_queue_state_name((enum mt_queue_state)i)), i);
    assert_int_equal(mt_queue_state_parse("Queued"), -1);
    assert_int_equal(mt_queue_state_parse(""), -1);
}

static void only_legal_states_follow_one_another(void **state)
{
    (void)state;
    for (int from = 0; from < MT_QUEUE_NUM_STATES; from++)
        for (int to = 0; to < MT_QUEUE_NUM_STATES; to++)
            assert_int_equal(mt_queue_state_may_follow((enum mt_queue_state)from, (enum mt_queue_state)to),
                             is_allowed((enum mt_queue_state)from, (enum mt_queue_state)to));
}

/* Brings a fresh job into a state by legal steps. */
static void bring(struct mt_queue *queue, const char *id, enum mt_queue_state to)
{
    if (to == MT_QUEUE_QUEUED)
        return;
    if (to == MT_QUEUE_PAUSED || to == MT_QUEUE_CANCELLED || to == MT_QUEUE_FAILED) {
        change(queue, id, to);
        return;
    }
    claim(queue, id);
    if (to != MT_QUEUE_STARTING)
        change(queue, id, MT_QUEUE_RUNNING);
    if (to == MT_QUEUE_COMPLETED)
        change(queue, id, to);
}

static void the_database_refuses_what_the_table_forbids(void **state)
{
    struct fixture *fixture = *state;
    for (int from = 0; from < MT_QUEUE_NUM_STATES; from++)
        for (int to = 0; to < MT_QUEUE_NUM_STATES; to++) {
            char id[MT_ID_BYTES];
            submit(fixture->queue, "job", from * 100 + to, id);
            bring(fixture->queue, id, (enum mt_queue_state)from);
            struct mt_error error = {0};
            struct mt_queue_change wanted = {.to = (enum mt_queue_state)to, .restarts = -1};
            int r = mt_queue_change(fixture->queue, id, &wanted, &error);
            bool legal = is_allowed((enum mt_queue_state)from, (enum mt_queue_state)to);
            assert_int_equal(r, legal ? 0 : -EPERM);
            assert_int_equal(state_of(fixture->queue, id), legal ? to : from);
            /* Out of the way of the next claim. */
            if (state_of(fixture->queue, id) == MT_QUEUE_QUEUED)
                change(fixture->queue, id, MT_QUEUE_CANCELLED);
        }
}

struct outcome {
    int result;
    enum mt_queue_state state;
    enum mt_queue_request requested;
};

static void check_action(struct mt_queue *queue, enum mt_queue_state from, enum mt_queue_request before,
                         enum mt_queue_action action, struct outcome expected)
{
    char id[MT_ID_BYTES];
    submit(queue, "job", 0, id);
    bring(queue, id, from);
    if (before != MT_QUEUE_REQUEST_NONE)
        assert_int_equal(act(queue, id, before == MT_QUEUE_REQUEST_PAUSE ? MT_QUEUE_PAUSE : MT_QUEUE_CANCEL),
                         0);
    struct mt_error error = {0};
    struct mt_queue_job *job = NULL;
    int r = mt_queue_act(queue, id, action, &job, &error);
    mt_queue_job_free(job);
    assert_int_equal(r, expected.result);
    if (r < 0)
        assert_string_not_equal(error.message, "");
    assert_int_equal(mt_queue_get(queue, id, &job, NULL), 0);
    assert_int_equal(job->state, expected.state);
    assert_int_equal(job->requested, expected.requested);
    mt_queue_job_free(job);
    if (expected.state == MT_QUEUE_QUEUED)
        change(queue, id, MT_QUEUE_CANCELLED);
}

static void every_action_in_every_state(void **state)
{
    struct mt_queue *queue = ((struct fixture *)*state)->queue;
    const enum mt_queue_request none = MT_QUEUE_REQUEST_NONE, pause = MT_QUEUE_REQUEST_PAUSE,
                                cancel = MT_QUEUE_REQUEST_CANCEL;
    const struct {
        enum mt_queue_state from;
        enum mt_queue_request before;
        struct outcome on[4]; /* by enum mt_queue_action: cancel, pause, resume, checkpoint */
    } cases[] = {
        {MT_QUEUE_QUEUED,
         none,
         {{0, MT_QUEUE_CANCELLED, none},
          {0, MT_QUEUE_PAUSED, none},
          {-EPERM, MT_QUEUE_QUEUED, none},
          {-EPERM, MT_QUEUE_QUEUED, none}}},
        {MT_QUEUE_STARTING,
         none,
         {{0, MT_QUEUE_STARTING, cancel},
          {0, MT_QUEUE_STARTING, pause},
          {-EPERM, MT_QUEUE_STARTING, none},
          {-EPERM, MT_QUEUE_STARTING, none}}},
        {MT_QUEUE_RUNNING,
         none,
         {{0, MT_QUEUE_RUNNING, cancel},
          {0, MT_QUEUE_RUNNING, pause},
          {-EPERM, MT_QUEUE_RUNNING, none},
          {0, MT_QUEUE_RUNNING, none}}},
        {MT_QUEUE_RUNNING,
         pause,
         {{0, MT_QUEUE_RUNNING, cancel},
          {0, MT_QUEUE_RUNNING, pause},
          {-EPERM, MT_QUEUE_RUNNING, pause},
          {-EPERM, MT_QUEUE_RUNNING, pause}}},
        {MT_QUEUE_RUNNING,
         cancel,
         {{0, MT_QUEUE_RUNNING, cancel},
          {-EPERM, MT_QUEUE_RUNNING, cancel},
          {-EPERM, MT_QUEUE_RUNNING, cancel},
          {-EPERM, MT_QUEUE_RUNNING, cancel}}},
        {MT_QUEUE_PAUSED,
         none,
         {{0, MT_QUEUE_CANCELLED, none},
          {-EPERM, MT_QUEUE_PAUSED, none},
          {0, MT_QUEUE_QUEUED, none},
          {-EPERM, MT_QUEUE_PAUSED, none}}},
        {MT_QUEUE_COMPLETED,
         none,
         {{-EPERM, MT_QUEUE_COMPLETED, none},
          {-EPERM, MT_QUEUE_COMPLETED, none},
          {-EPERM, MT_QUEUE_COMPLETED, none},
          {-EPERM, MT_QUEUE_COMPLETED, none}}},
        {MT_QUEUE_FAILED,
         none,
         {{-EPERM, MT_QUEUE_FAILED, none},
          {-EPERM, MT_QUEUE_FAILED, none},
          {0, MT_QUEUE_QUEUED, none},
          {-EPERM, MT_QUEUE_FAILED, none}}},
        {MT_QUEUE_CANCELLED,
         none,
         {{-EPERM, MT_QUEUE_CANCELLED, none},
          {-EPERM, MT_QUEUE_CANCELLED, none},
          {-EPERM, MT_QUEUE_CANCELLED, none},
          {-EPERM, MT_QUEUE_CANCELLED, none}}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int action = 0; action < 4; action++)
            check_action(queue, cases[i].from, cases[i].before, (enum mt_queue_action)action,
                         cases[i].on[action]);
}

static void only_ended_jobs_are_removed(void **state)
{
    struct mt_queue *queue = ((struct fixture *)*state)->queue;
    for (int from = 0; from < MT_QUEUE_NUM_STATES; from++) {
        char id[MT_ID_BYTES];
        submit(queue, "job", from, id);
        bring(queue, id, (enum mt_queue_state)from);
        bool ended = from == MT_QUEUE_COMPLETED || from == MT_QUEUE_FAILED || from == MT_QUEUE_CANCELLED;
        assert_int_equal(mt_queue_remove(queue, id, NULL), ended ? 0 : -EPERM);
        struct mt_queue_job *job = NULL;
        assert_int_equal(mt_queue_get(queue, id, &job, NULL), ended ? -ENOENT : 0);
        mt_queue_job_free(job);
    }
    char **ids;
    size_t count;
    assert_int_equal(mt_queue_removals(queue, &ids, &count, NULL), 0);
    assert_int_equal(count, 3);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(mt_queue_removal_done(queue, ids[i], NULL), 0);
        free(ids[i]);
    }
    free(ids);
    assert_int_equal(mt_queue_removals(queue, &ids, &count, NULL), 0);
    assert_int_equal(count, 0);
    assert_int_equal(mt_queue_remove(queue, "01ARZ3NDEKTSV4RRFFQ69G5FAV", NULL), -ENOENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_read_back),
        cmocka_unit_test(only_legal_states_follow_one_another),
        cmocka_unit_test_setup_teardown(the_database_refuses_what_the_table_forbids, fixture_set_up,
                                        fixture_tear_down),
        cmocka_unit_test_setup_teardown(every_action_in_every_state, fixture_set_up, fixture_tear_down),
        cmocka_unit_test_setup_teardown(only_ended_jobs_are_removed, fixture_set_up, fixture_tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
