/* What becomes of a job whose worker has ended, case by case. */
#include "daemon/megatraind/outcome.h"
#include "tests/unit/support.h"

#include <signal.h>

/* Statuses as waitpid gives them. */
#define EXITED(code) ((code) << 8)
#define KILLED_BY(number) (number)

static struct mt_outcome decide(struct mt_outcome_facts facts)
{
    struct mt_outcome outcome;
    if (facts.restart_limit == 0)
        facts.restart_limit = 5;
    mt_outcome_decide(&facts, &outcome);
    return outcome;
}

static void assert_outcome(struct mt_outcome outcome, enum mt_queue_state to, const char *reason)
{
    assert_string_equal(mt_queue_state_name(outcome.to), mt_queue_state_name(to));
    if (reason)
        assert_string_equal(outcome.reason, reason);
    else
        assert_null(outcome.reason);
}

static void the_last_word_counts_whatever_the_process_did_after_it(void **state)
{
    (void)state;
    struct mt_outcome_facts facts = {.word = MT_WORKER_COMPLETED};
    const int statuses[] = {EXITED(0), EXITED(1), KILLED_BY(SIGKILL), KILLED_BY(SIGSEGV)};
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++) {
        facts.wait_status = statuses[i];
        assert_outcome(decide(facts), MT_QUEUE_COMPLETED, NULL);
    }
    /* Done is done, even if a cancel came in the same moment or the daemon is stopping. */
    facts.requested = MT_QUEUE_REQUEST_CANCEL;
    assert_outcome(decide(facts), MT_QUEUE_COMPLETED, NULL);
    facts.requested = MT_QUEUE_REQUEST_NONE;
    facts.stopping = true;
    assert_outcome(decide(facts), MT_QUEUE_COMPLETED, NULL);
}

static void a_success_is_never_guessed_from_an_exit_code(void **state)
{
    (void)state;
    struct mt_outcome outcome = decide((struct mt_outcome_facts){.wait_status = EXITED(0)});
    assert_outcome(outcome, MT_QUEUE_STARTING, "exit");
    mt_assert_mentions(outcome.message, "code 0");
}

static void signals_are_named_and_sigkill_by_what_the_kernel_counts(void **state)
{
    (void)state;
    struct mt_outcome outcome =
        decide((struct mt_outcome_facts){.wait_status = KILLED_BY(SIGSEGV), .step = 41});
    assert_outcome(outcome, MT_QUEUE_STARTING, "signal");
    mt_assert_mentions(outcome.message, "SIGSEGV");
    mt_assert_mentions(outcome.message, "41");
    struct mt_outcome_facts killed = {.wait_status = KILLED_BY(SIGKILL), .resident_bytes = (size_t)3 << 30};
    outcome = decide(killed);
    assert_outcome(outcome, MT_QUEUE_STARTING, "signal");
    mt_assert_mentions(outcome.message, "signal 9 (perhaps out of memory)");
    mt_assert_mentions(outcome.message, "3.0 GiB");
    killed.memory = MT_MEMORY_KILLED;
    outcome = decide(killed);
    assert_outcome(outcome, MT_QUEUE_STARTING, "out_of_memory");
    mt_assert_mentions(outcome.message, "for want of memory; it last held 3.0 GiB");
    killed.memory = MT_MEMORY_SPARED;
    outcome = decide(killed);
    assert_outcome(outcome, MT_QUEUE_STARTING, "signal");
    mt_assert_mentions(outcome.message, "not for want of memory");
    /* Not when it was our own signal. */
    outcome = decide((struct mt_outcome_facts){.wait_status = KILLED_BY(SIGKILL), .killed_for = "stalled"});
    assert_outcome(outcome, MT_QUEUE_STARTING, "stalled");
}

static void restarts_end_at_the_limit(void **state)
{
    (void)state;
    struct mt_outcome_facts facts = {.wait_status = KILLED_BY(SIGBUS), .restarts = 4};
    assert_outcome(decide(facts), MT_QUEUE_STARTING, "signal");
    facts.restarts = 5;
    struct mt_outcome outcome = decide(facts);
    assert_outcome(outcome, MT_QUEUE_FAILED, "signal");
    mt_assert_mentions(outcome.message, "SIGBUS");
    mt_assert_mentions(outcome.message, "6 workers");
}

static void what_would_happen_again_fails_at_once(void **state)
{
    (void)state;
    const char *reasons[] = {"bad_data", "bad_model", "bad_job", "non_finite_loss", "usage"};
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++) {
        struct mt_outcome_facts facts = {.word = MT_WORKER_FAILED,
                                         .failed_reason = reasons[i],
                                         .failed_message = "why",
                                         .failed_detail = "how"};
        struct mt_outcome outcome = decide(facts);
        assert_outcome(outcome, MT_QUEUE_FAILED, reasons[i]);
        assert_string_equal(outcome.message, "why");
        assert_string_equal(outcome.detail, "how");
        /* Neither a pause nor a stop makes good data of it. */
        facts.requested = MT_QUEUE_REQUEST_PAUSE;
        assert_outcome(decide(facts), MT_QUEUE_FAILED, reasons[i]);
        facts.requested = MT_QUEUE_REQUEST_NONE;
        facts.stopping = true;
        assert_outcome(decide(facts), MT_QUEUE_FAILED, reasons[i]);
    }
}

static void other_failures_are_tried_again_and_a_full_disk_waits_for_room(void **state)
{
    (void)state;
    struct mt_outcome_facts facts = {
        .word = MT_WORKER_FAILED, .failed_reason = "device", .failed_message = "the GPU fell off the bus"};
    assert_outcome(decide(facts), MT_QUEUE_STARTING, "device");
    facts.failed_reason = "of its own invention";
    assert_outcome(decide(facts), MT_QUEUE_STARTING, "internal");
    facts.failed_reason = NULL;
    facts.failed_message = NULL;
    assert_outcome(decide(facts), MT_QUEUE_STARTING, "internal");
    facts.failed_reason = "disk_full";
    assert_outcome(decide(facts), MT_QUEUE_PAUSED, "disk_full");
}

static void what_was_asked_for_is_what_it_becomes(void **state)
{
    (void)state;
    struct mt_outcome_facts facts = {.word = MT_WORKER_PAUSED, .requested = MT_QUEUE_REQUEST_PAUSE};
    struct mt_outcome outcome = decide(facts);
    assert_outcome(outcome, MT_QUEUE_PAUSED, "paused_by_user");
    assert_string_equal(outcome.message, "");
    facts = (struct mt_outcome_facts){.word = MT_WORKER_CANCELLED, .requested = MT_QUEUE_REQUEST_CANCEL};
    assert_outcome(decide(facts), MT_QUEUE_CANCELLED, "cancelled_by_user");
    /* A cancel that overtook a pause. */
    facts.word = MT_WORKER_PAUSED;
    assert_outcome(decide(facts), MT_QUEUE_CANCELLED, "cancelled_by_user");
    /* A worker that crashed or had to be killed on the way: the same, and the fault is told. */
    facts = (struct mt_outcome_facts){
        .wait_status = KILLED_BY(SIGKILL), .killed_for = "slow_to_stop", .requested = MT_QUEUE_REQUEST_PAUSE};
    outcome = decide(facts);
    assert_outcome(outcome, MT_QUEUE_PAUSED, "paused_by_user");
    mt_assert_mentions(outcome.message, "did not stop in time");
}

static void a_stopping_daemon_puts_its_jobs_back_into_the_queue(void **state)
{
    (void)state;
    struct mt_outcome_facts facts = {.word = MT_WORKER_PAUSED, .stopping = true};
    assert_outcome(decide(facts), MT_QUEUE_QUEUED, "interrupted");
    facts.word = MT_WORKER_SAID_NOTHING;
    const int statuses[] = {EXITED(75), EXITED(70), KILLED_BY(SIGKILL), KILLED_BY(SIGSEGV)};
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++) {
        facts.wait_status = statuses[i];
        assert_outcome(decide(facts), MT_QUEUE_QUEUED, "interrupted");
    }
}

static void a_worker_of_an_earlier_daemon_leaves_an_interrupted_job(void **state)
{
    (void)state;
    struct mt_outcome_facts facts = {.left_behind = true};
    struct mt_outcome outcome = decide(facts);
    assert_outcome(outcome, MT_QUEUE_QUEUED, "interrupted");
    assert_string_equal(outcome.message, "");
    facts.requested = MT_QUEUE_REQUEST_CANCEL;
    assert_outcome(decide(facts), MT_QUEUE_CANCELLED, "cancelled_by_user");
}

static void a_stop_that_nobody_asked_for_is_started_again(void **state)
{
    (void)state;
    struct mt_outcome_facts facts = {.wait_status = EXITED(75)};
    assert_outcome(decide(facts), MT_QUEUE_STARTING, "interrupted");
    facts.restarts = 5;
    assert_outcome(decide(facts), MT_QUEUE_FAILED, "interrupted");
    /* One that had stalled may still save when it gets SIGTERM: that makes it no less stalled. */
    facts = (struct mt_outcome_facts){.wait_status = EXITED(75), .killed_for = "stalled"};
    assert_outcome(decide(facts), MT_QUEUE_STARTING, "stalled");
}

static void a_program_that_cannot_be_executed_is_told(void **state)
{
    (void)state;
    struct mt_outcome outcome =
        decide((struct mt_outcome_facts){.wait_status = EXITED(127), .exec_error = ENOENT});
    assert_outcome(outcome, MT_QUEUE_STARTING, "internal");
    mt_assert_mentions(outcome.message, "No such file");
}

static void every_outcome_may_follow_running(void **state)
{
    (void)state;
    for (int word = MT_WORKER_SAID_NOTHING; word <= MT_WORKER_FAILED; word++)
        for (int requested = MT_QUEUE_REQUEST_NONE; requested <= MT_QUEUE_REQUEST_CANCEL; requested++)
            for (int flags = 0; flags < 8; flags++) {
                struct mt_outcome_facts facts = {.word = (enum mt_worker_word)word,
                                                 .requested = (enum mt_queue_request)requested,
                                                 .stopping = flags & 1,
                                                 .left_behind = flags & 2,
                                                 .restarts = flags & 4 ? 9 : 0,
                                                 .wait_status = EXITED(1)};
                assert_true(mt_queue_state_may_follow(MT_QUEUE_RUNNING, decide(facts).to));
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_word_counts_whatever_the_process_did_after_it),
        cmocka_unit_test(a_success_is_never_guessed_from_an_exit_code),
        cmocka_unit_test(signals_are_named_and_sigkill_by_what_the_kernel_counts),
        cmocka_unit_test(restarts_end_at_the_limit),
        cmocka_unit_test(what_would_happen_again_fails_at_once),
        cmocka_unit_test(other_failures_are_tried_again_and_a_full_disk_waits_for_room),
        cmocka_unit_test(what_was_asked_for_is_what_it_becomes),
        cmocka_unit_test(a_stopping_daemon_puts_its_jobs_back_into_the_queue),
        cmocka_unit_test(a_worker_of_an_earlier_daemon_leaves_an_interrupted_job),
        cmocka_unit_test(a_stop_that_nobody_asked_for_is_started_again),
        cmocka_unit_test(a_program_that_cannot_be_executed_is_told),
        cmocka_unit_test(every_outcome_may_follow_running),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
