/* The end of a run: what is known is gathered, decided (outcome.c) and written. */
#include "core/base/cgroup.h"
#include "core/base/cleanup.h"
#include "core/base/log.h"
#include "core/base/memory.h"
#include "daemon/megatraind/outcome.h"
#include "daemon/megatraind/run.h"

#include <math.h>
#include <string.h>

#define RETRY_SECONDS 1.0
#define LONGEST_DELAY 300.0

static const char *member(const json_t *message, const char *key)
{
    return json_string_value(json_object_get(message, key));
}

static enum mt_memory_verdict memory_verdict(const struct mt_run *run)
{
    uint64_t kills;
    if (!run->has_memory_kills ||
        !mt_memory_kills(MT_CGROUP_MEMBERSHIP, MT_CGROUP_MOUNT, MT_MEMORY_VMSTAT, &kills))
        return MT_MEMORY_UNKNOWN;
    return kills > run->memory_kills ? MT_MEMORY_KILLED : MT_MEMORY_SPARED;
}

static void gather(const struct mt_run *run, enum mt_queue_request requested, struct mt_outcome_facts *facts)
{
    const struct mt_worker *worker = &run->worker;
    *facts = (struct mt_outcome_facts){
        .word = worker->word,
        .failed_reason = member(worker->last_message, "reason"),
        .failed_message = member(worker->last_message, "message"),
        .failed_detail = member(worker->last_message, "detail"),
        .left_behind = worker->pid > 0 && !worker->is_child,
        .wait_status = worker->wait_status,
        .exec_error = run->start_error ? (int)run->start_error : worker->exec_error,
        .killed_for = run->kill_at > 0 || (run->term_at > 0 && run->killed_for) ? run->killed_for : NULL,
        .requested = requested,
        .stopping = run->daemon->stopping,
        .resident_bytes = run->resident_bytes,
        .memory = memory_verdict(run),
        .step = run->step,
        /* A step that no attempt before had made wipes the slate. */
        .restarts = run->step > run->best_step ? 0 : run->restarts,
        .restart_limit = (int64_t)run->daemon->options.restart_limit,
    };
}

/* A job completes only from `running`; one whose first words were its last may not be there yet. */
static int record_running(struct mt_run *run, struct mt_error *error)
{
    if (run->recorded_running)
        return 0;
    struct mt_queue_change change = {.to = MT_QUEUE_RUNNING, .restarts = -1, .assumed = run->requested};
    int r = mt_queue_change(run->daemon->queue, run->worker.job_id, &change, error);
    if (r == 0)
        run->recorded_running = true;
    return r;
}

static int write_outcome(struct mt_run *run, const struct mt_outcome *outcome,
                         const struct mt_outcome_facts *facts, struct mt_error *error)
{
    int r = mt_run_flush(run, error);
    if (r == 0 && outcome->to == MT_QUEUE_COMPLETED)
        r = record_running(run, error);
    if (r < 0)
        return r;
    struct mt_queue_change change = {
        .to = outcome->to,
        .reason = outcome->reason,
        .error_message = *outcome->message ? outcome->message : NULL,
        .error_detail = *outcome->detail ? outcome->detail : NULL,
        .restarts = outcome->to == MT_QUEUE_STARTING ? facts->restarts + 1 : facts->restarts,
        .assumed = facts->requested,
    };
    /* A worker that died before it spoke: the job is `starting` already and only its words change. */
    if (outcome->to == MT_QUEUE_STARTING && !run->recorded_running)
        return mt_queue_note(run->daemon->queue, run->worker.job_id, &change, error);
    return mt_queue_change(run->daemon->queue, run->worker.job_id, &change, error);
}

static void tell(const struct mt_run *run, const struct mt_outcome *outcome)
{
    bool bad = outcome->to == MT_QUEUE_FAILED || outcome->to == MT_QUEUE_STARTING;
    mt_log(bad ? LOG_WARNING : LOG_INFO, "job %s: %s at step %lld%s%s%s%s", run->worker.job_id,
           outcome->to == MT_QUEUE_STARTING ? "to be started again" : mt_queue_state_name(outcome->to),
           (long long)run->step, outcome->reason ? ", " : "", outcome->reason ? outcome->reason : "",
           *outcome->message ? ": " : "", outcome->message);
}

static void wait_to_start_again(struct mt_run *run, int64_t restarts, double now)
{
    double delay = run->daemon->options.restart_delay * exp2((double)(restarts < 32 ? restarts : 32));
    mt_worker_clear(&run->worker);
    run->stage = MT_RUN_WAITING;
    run->start_at = now + fmin(delay, fmax(LONGEST_DELAY, run->daemon->options.restart_delay));
    run->recorded_running = false;
}

bool mt_run_end(struct mt_run *run, double now, bool *drop)
{
    struct mt_error error = {0};
    struct mt_outcome_facts facts = {0};
    struct mt_outcome outcome = {0};
    *drop = false;
    mt_run_take_over_files(run);

    struct mt_queue_job *job = NULL;
    int r = mt_queue_get(run->daemon->queue, run->worker.job_id, &job, &error);
    if (r == 0) {
        gather(run, job->requested, &facts);
        mt_queue_job_free(job);
        mt_outcome_decide(&facts, &outcome);
        r = write_outcome(run, &outcome, &facts, &error);
    }
    if (r == -ENOENT || r == -EPERM) {
        /* Someone changed the database behind us: nothing that trying again would mend. */
        mt_log(LOG_ERR, "job %s: %s", run->worker.job_id, error.message);
        *drop = true;
        return true;
    }
    if (r < 0) {
        if (r != -EAGAIN)
            mt_log(LOG_ERR, "job %s: what became of it cannot be written yet: %s", run->worker.job_id,
                   error.message);
        run->retry_at = r == -EAGAIN ? now : now + RETRY_SECONDS;
        return false;
    }
    tell(run, &outcome);
    if (outcome.to == MT_QUEUE_STARTING) {
        mt_queue_count_restart(run->daemon->queue, outcome.reason ? outcome.reason : "other");
        wait_to_start_again(run, facts.restarts, now);
    } else {
        *drop = true;
    }
    return true;
}
