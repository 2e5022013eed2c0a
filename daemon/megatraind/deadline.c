#include "daemon/megatraind/deadline.h"

#include "core/base/log.h"

#include <math.h>
#include <signal.h>

/* After its last word a worker has nothing left to do but to free its device. */
#define EXIT_SECONDS 3.0
/* A cancelled job's device is to be free within ten seconds: these, kill_grace and the reaping. */
#define CANCEL_SECONDS 5.0
/* An earlier daemon's worker notices by itself that its daemon is gone. */
#define HURRY_SECONDS 2.0

void mt_deadline_begin_stop(struct mt_stop *stop, double grace, double now)
{
    stop->begun_at = now;
    stop->term_by = now + 0.7 * grace;
    stop->kill_by = now + 0.85 * grace;
    stop->end_by = now + 0.97 * grace;
}

struct deadline {
    double at; /* INFINITY: none */
    const char *cause;
};

static void sooner(struct deadline *deadline, double at, const char *cause)
{
    if (at < deadline->at)
        *deadline = (struct deadline){at, cause};
}

/* A worker that says it is saving, and goes on saying so, is not disturbed in it by a pause. */
static double end_of_patience(const struct mt_run *run, double patience, double when_saving)
{
    return run->requested_at + (run->saving ? when_saving : patience);
}

static struct deadline term_deadline(const struct mt_run *run, const struct mt_stop *stop)
{
    const struct mt_options *options = &run->daemon->options;
    struct deadline deadline = {INFINITY, NULL};
    if (options->stall_timeout > 0 && run->worker.is_child && run->word_at <= 0)
        sooner(&deadline, run->heard_at + options->stall_timeout, "stalled");
    if (run->word_at > 0)
        sooner(&deadline, run->word_at + EXIT_SECONDS, "hung_after_end");
    if (run->silent_at > 0 && run->word_at <= 0)
        sooner(&deadline, run->silent_at + options->save_grace, "internal");
    if (!run->worker.is_child)
        sooner(&deadline, run->begun_at + options->save_grace, "interrupted");
    if (run->requested == MT_QUEUE_REQUEST_CANCEL)
        sooner(&deadline, end_of_patience(run, CANCEL_SECONDS, options->save_grace), "slow_to_stop");
    if (run->requested == MT_QUEUE_REQUEST_PAUSE)
        sooner(&deadline, end_of_patience(run, options->save_grace, INFINITY), "slow_to_stop");
    if (stop->begun_at > 0)
        sooner(&deadline, stop->hurried ? 0 : stop->term_by, "slow_to_stop");
    return deadline;
}

static double kill_deadline(const struct mt_run *run, const struct mt_stop *stop)
{
    double at = run->term_at + run->daemon->options.kill_grace;
    if (stop->begun_at > 0)
        at = fmin(at, stop->hurried ? run->term_at + HURRY_SECONDS : stop->kill_by);
    return at;
}

void mt_deadline_enforce(struct mt_run *run, const struct mt_stop *stop, double now)
{
    if (run->term_at <= 0) {
        struct deadline deadline = term_deadline(run, stop);
        if (now < deadline.at)
            return;
        run->killed_for = deadline.cause;
        run->term_at = now;
        mt_log(LOG_WARNING, "job %s: worker %ld gets SIGTERM (%s)", run->worker.job_id, (long)run->worker.pid,
               deadline.cause);
        mt_worker_signal(&run->worker, SIGTERM);
    } else if (run->kill_at <= 0 && now >= kill_deadline(run, stop)) {
        run->kill_at = now;
        mt_log(LOG_WARNING, "job %s: worker %ld gets SIGKILL", run->worker.job_id, (long)run->worker.pid);
        mt_worker_signal(&run->worker, SIGKILL);
    }
}

double mt_deadline_next(const struct mt_run *run, const struct mt_stop *stop)
{
    if (run->term_at <= 0)
        return term_deadline(run, stop).at;
    return run->kill_at <= 0 ? kill_deadline(run, stop) : INFINITY;
}
