#include "daemon/megatraind/outcome.h"

#include "core/base/size.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

/* Trying again would find the same: the job, its data or its mathematics is at fault. */
static const char *const deterministic[] = {"bad_data", "bad_model", "bad_job", "non_finite_loss", "usage"};

/* Reasons that a job may show; anything else that a worker says is its own invention. */
static const char *const known[] = {"out_of_memory", "device", "disk_full", "io", "interrupted", "internal"};

static const char *find(const char *const *list, size_t count, const char *reason)
{
    for (size_t i = 0; i < count; i++)
        if (reason && strcmp(list[i], reason) == 0)
            return list[i];
    return NULL;
}
#define FIND(list, reason) find(list, sizeof(list) / sizeof *(list), reason)

static void say(struct mt_outcome *outcome, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void say(struct mt_outcome *outcome, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(outcome->message, sizeof outcome->message, format, arguments);
    va_end(arguments);
}

/* SIGKILL comes from the kernel for want of memory, which it counts, or from someone. */
static void explain_kill(const struct mt_outcome_facts *facts, struct mt_outcome *outcome)
{
    char size[32], held[64] = "";
    if (facts->resident_bytes)
        snprintf(held, sizeof held, "; it last held %s",
                 mt_size_format(facts->resident_bytes, size, sizeof size));
    outcome->reason = facts->memory == MT_MEMORY_KILLED ? "out_of_memory" : "signal";
    if (facts->memory == MT_MEMORY_KILLED)
        say(outcome, "the kernel killed the worker for want of memory%s", held);
    else
        say(outcome, "the worker was killed by signal 9 (%s) after step %lld%s",
            facts->memory == MT_MEMORY_SPARED ? "not for want of memory, as the kernel counts it"
                                              : "perhaps out of memory",
            (long long)facts->step, held);
    snprintf(outcome->detail, sizeof outcome->detail, "SIGKILL, resident size %zu bytes",
             facts->resident_bytes);
}

/* A worker that ended without a word: what the kernel says of it. */
static void explain_death(const struct mt_outcome_facts *facts, struct mt_outcome *outcome)
{
    int status = facts->wait_status;
    if (facts->exec_error) {
        outcome->reason = "internal";
        say(outcome, "the worker program could not be started: %s", strerror(facts->exec_error));
    } else if (facts->killed_for) {
        outcome->reason = facts->killed_for;
        if (strcmp(facts->killed_for, "stalled") == 0)
            say(outcome, "the worker said nothing for too long and was ended; its last step was %lld",
                (long long)facts->step);
        else
            say(outcome, "the worker did not stop in time and was ended; its last step was %lld",
                (long long)facts->step);
    } else if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) {
        explain_kill(facts, outcome);
    } else if (WIFSIGNALED(status)) {
        const char *name = sigabbrev_np(WTERMSIG(status));
        outcome->reason = "signal";
        say(outcome, "the worker was ended by the signal SIG%s (%s) after step %lld", name ? name : "?",
            strsignal(WTERMSIG(status)), (long long)facts->step);
        snprintf(outcome->detail, sizeof outcome->detail, "SIG%s%s", name ? name : "?",
                 WCOREDUMP(status) ? ", core dumped" : "");
    } else {
        outcome->reason = "exit";
        say(outcome,
            "the worker exited with code %d without its last word; worker.log in the job's folder may "
            "say more",
            WEXITSTATUS(status));
        snprintf(outcome->detail, sizeof outcome->detail, "exit code %d", WEXITSTATUS(status));
    }
}

static void explain_failure(const struct mt_outcome_facts *facts, struct mt_outcome *outcome)
{
    const char *reason = FIND(deterministic, facts->failed_reason);
    if (!reason)
        reason = FIND(known, facts->failed_reason);
    outcome->reason = reason ? reason : "internal";
    say(outcome, "%s",
        facts->failed_message ? facts->failed_message : "the worker failed and did not say why");
    if (facts->failed_detail)
        snprintf(outcome->detail, sizeof outcome->detail, "%s", facts->failed_detail);
}

/* Neither deterministic nor wished for: start again, unless that has been tried often enough. */
static void restart_or_fail(const struct mt_outcome_facts *facts, struct mt_outcome *outcome)
{
    if (facts->restarts < facts->restart_limit) {
        outcome->to = MT_QUEUE_STARTING;
        return;
    }
    char cause[MT_ERROR_MESSAGE_BYTES];
    memcpy(cause, outcome->message, sizeof cause);
    outcome->to = MT_QUEUE_FAILED;
    if (facts->restart_limit > 0)
        say(outcome, "%.1800s (%lld workers died in a row without a new step)", cause,
            (long long)facts->restarts + 1);
}

static void take_to_rest(struct mt_outcome *outcome, enum mt_queue_state to, const char *reason)
{
    outcome->to = to;
    outcome->reason = reason;
}

void mt_outcome_decide(const struct mt_outcome_facts *facts, struct mt_outcome *outcome)
{
    memset(outcome, 0, sizeof *outcome);
    /* The trainer's own last word decides, however its process ended after it. */
    if (facts->word == MT_WORKER_COMPLETED) {
        outcome->to = MT_QUEUE_COMPLETED;
        return;
    }
    /* One that had stalled and was ended saved nothing that counts as obeying, whatever its exit code. */
    bool stalled = facts->killed_for && strcmp(facts->killed_for, "stalled") == 0;
    bool exited_75 = WIFEXITED(facts->wait_status) && WEXITSTATUS(facts->wait_status) == 75;
    bool stopped_as_told =
        facts->word == MT_WORKER_PAUSED || facts->word == MT_WORKER_CANCELLED || facts->left_behind ||
        (facts->word == MT_WORKER_SAID_NOTHING && exited_75 && !facts->exec_error && !stalled);
    if (facts->word == MT_WORKER_FAILED)
        explain_failure(facts, outcome);
    else if (!stopped_as_told)
        explain_death(facts, outcome);

    /* What went wrong on the way to a stop that was asked for is told beside it. */
    if (facts->requested == MT_QUEUE_REQUEST_CANCEL) {
        take_to_rest(outcome, MT_QUEUE_CANCELLED, "cancelled_by_user");
    } else if (FIND(deterministic, outcome->reason) && facts->word == MT_WORKER_FAILED) {
        outcome->to = MT_QUEUE_FAILED;
    } else if (outcome->reason && strcmp(outcome->reason, "disk_full") == 0) {
        /* Nothing is lost: the last checkpoint is whole. Whoever makes room resumes it. */
        outcome->to = MT_QUEUE_PAUSED;
    } else if (facts->requested == MT_QUEUE_REQUEST_PAUSE) {
        take_to_rest(outcome, MT_QUEUE_PAUSED, "paused_by_user");
    } else if (facts->stopping || facts->left_behind) {
        take_to_rest(outcome, MT_QUEUE_QUEUED, "interrupted");
    } else {
        if (stopped_as_told) {
            outcome->reason = "interrupted";
            say(outcome, "the worker stopped though nobody had asked the daemon for it");
        }
        restart_or_fail(facts, outcome);
    }
}
