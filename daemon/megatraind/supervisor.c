#include "daemon/megatraind/supervisor.h"

#include "core/base/cgroup.h"
#include "core/base/cleanup.h"
#include "core/base/file.h"
#include "core/base/log.h"
#include "core/base/memory.h"
#include "core/base/time.h"
#include "daemon/megatraind/deadline.h"
#include "daemon/megatraind/run.h"

#include <math.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>

#define FLUSH_SECONDS 1.0
#define RETRY_SECONDS 2.0
#define LEFTOVER_LOOK_SECONDS 0.1
#define READ_BYTES ((size_t)256 << 10) /* of one worker in one turn, so that a flood starves nobody */
#define DRAIN_BYTES ((size_t)16 << 20) /* of one that has ended */
#define WORKER_LOG_BYTES ((off_t)16 << 20)
#define MAX_RUNS 128

struct mt_supervisor {
    struct mt_daemon *daemon;
    struct mt_run *runs[MAX_RUNS]; /* leftovers of an earlier daemon count, too: their devices are in use */
    size_t num_runs;
    struct mt_stop stop;
    double flushed_at;
    double complained_at; /* about the database, not more often than it helps */
    double retry_at;      /* when to claim again after a failure */
};

static struct mt_run *run_new(struct mt_daemon *daemon, const struct mt_queue_job *job)
{
    struct mt_run *run = calloc(1, sizeof *run);
    if (!run)
        return NULL;
    run->daemon = daemon;
    memcpy(run->worker.job_id, job->id, sizeof run->worker.job_id);
    run->worker.fd = run->worker.exec_error_fd = -1;
    run->folder = mt_daemon_job_folder(daemon, job->id);
    run->progress = json_is_object(job->progress) ? json_deep_copy(job->progress) : json_object();
    run->attempt = job->attempt;
    run->restarts = job->restarts;
    run->best_step = job->best_step;
    run->step = job->step;
    run->requested = job->requested;
    if (!run->folder || !run->progress) {
        free(run->folder);
        json_decref(run->progress);
        free(run);
        return NULL;
    }
    return run;
}

static void run_free(struct mt_run *run)
{
    mt_worker_clear(&run->worker);
    json_decref(run->progress);
    free(run->device);
    free(run->folder);
    free(run);
}

struct mt_supervisor *mt_supervisor_new(struct mt_daemon *daemon)
{
    struct mt_supervisor *supervisor = calloc(1, sizeof *supervisor);
    if (supervisor)
        supervisor->daemon = daemon;
    return supervisor;
}

void mt_supervisor_free(struct mt_supervisor *supervisor)
{
    if (!supervisor)
        return;
    for (size_t i = 0; i < supervisor->num_runs; i++) {
        if (supervisor->runs[i]->stage == MT_RUN_ALIVE)
            mt_worker_signal(&supervisor->runs[i]->worker, SIGKILL);
        run_free(supervisor->runs[i]);
    }
    free(supervisor);
}

static void complain(struct mt_supervisor *supervisor, double now, const struct mt_error *error)
{
    if (now - supervisor->complained_at > 10 || supervisor->complained_at <= 0) {
        mt_log(LOG_ERR, "%s", error->message);
        supervisor->complained_at = now;
    }
}

static bool add_run(struct mt_supervisor *supervisor, struct mt_run *run)
{
    if (!run || supervisor->num_runs == MAX_RUNS) {
        mt_log(LOG_ERR, "out of memory for another job");
        if (run)
            run_free(run);
        return false;
    }
    supervisor->runs[supervisor->num_runs++] = run;
    return true;
}

int mt_supervisor_adopt(struct mt_supervisor *supervisor, struct mt_error *error)
{
    struct mt_queue_page page;
    int r = mt_queue_active(supervisor->daemon->queue, &page, error);
    if (r < 0)
        return r;
    double now = mt_time_monotonic();
    for (size_t i = 0; i < page.count; i++) {
        const struct mt_queue_job *job = page.jobs[i];
        struct mt_run *run = run_new(supervisor->daemon, job);
        if (!add_run(supervisor, run))
            continue;
        run->recorded_running = job->state == MT_QUEUE_RUNNING;
        run->begun_at = run->heard_at = now;
        run->stage = MT_RUN_ALIVE;
        /* After another boot every process is another one; and there may have been none yet. */
        bool this_boot = job->worker_boot && strcmp(job->worker_boot, supervisor->daemon->boot) == 0;
        run->worker.pid = this_boot && job->worker_pid > 0 ? (pid_t)job->worker_pid : INT32_MAX;
        run->worker.start = this_boot && job->worker_start > 0 ? (uint64_t)job->worker_start : UINT64_MAX;
        mt_log(LOG_NOTICE, "job %s was %s when the last daemon ended%s", job->id,
               mt_queue_state_name(job->state),
               mt_process_start(run->worker.pid) == run->worker.start
                   ? "; its worker still lives and is given time to save"
                   : "");
    }
    mt_queue_page_free(&page);
    return 0;
}

size_t mt_supervisor_running(const struct mt_supervisor *supervisor)
{
    return supervisor->num_runs;
}

size_t mt_supervisor_poll(const struct mt_supervisor *supervisor, struct pollfd *fds, size_t capacity)
{
    size_t count = 0;
    for (size_t i = 0; i < supervisor->num_runs && count < capacity; i++)
        if (supervisor->runs[i]->worker.fd >= 0)
            fds[count++] = (struct pollfd){.fd = supervisor->runs[i]->worker.fd, .events = POLLIN};
    return count;
}

/* ---- starting ---- */

/* The folder is made with the job; one that someone took away is made again from the database. */
static int prepare_folder(struct mt_run *run, const struct mt_queue_job *job, struct mt_error *error)
{
    mt_autofree char *path = mt_path_join(run->folder, "job.json");
    mt_autofree char *log = mt_path_join(run->folder, "worker.log");
    if (!path || !log)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory");
    struct stat status;
    if (stat(log, &status) == 0 && status.st_size > WORKER_LOG_BYTES / 4)
        (void)!truncate(log, 0);
    if (mt_path_exists(path))
        return 0;
    int r = mt_folder_create(run->folder, 0750, error);
    mt_autofree char *text = json_dumps(job->document, JSON_INDENT(2));
    if (r == 0 && !text)
        r = mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory");
    return r < 0 ? r : mt_file_write_atomic(path, text, strlen(text), 0640, error);
}

struct recording {
    struct mt_run *run;
    bool failed; /* the database, not the worker */
};

static int record_worker(void *context, const struct mt_worker *worker, struct mt_error *error)
{
    struct recording *recording = context;
    struct mt_daemon *daemon = recording->run->daemon;
    int r = mt_queue_set_worker(daemon->queue, worker->job_id, worker->pid, (int64_t)worker->start,
                                daemon->boot, error);
    recording->failed = r < 0;
    return r;
}

/* A worker that cannot even be started is a worker that died; a database or disk that refuses is no fault of
 * it, and is tried again. */
static void start_worker(struct mt_supervisor *supervisor, struct mt_run *run, const struct mt_queue_job *job,
                         double now)
{
    struct mt_error error = {0};
    struct recording recording = {.run = run};
    struct mt_worker_start start = {.program = supervisor->daemon->worker_program,
                                    .job_folder = run->folder,
                                    .attempt = job->attempt,
                                    .record = record_worker,
                                    .context = &recording};
    run->attempt = job->attempt;
    run->restarts = job->restarts;
    run->best_step = job->best_step;
    run->requested = job->requested;
    run->has_baseline = run->recorded_running = run->saving = false;
    run->told_cancel = run->told_pause = run->save_wanted = false;
    run->begun_at = run->heard_at = now;
    run->requested_at = run->requested ? now : 0;
    run->word_at = run->silent_at = run->term_at = run->kill_at = run->sampled_at = 0;
    run->killed_for = NULL;
    run->resident_bytes = 0;
    run->start_error = 0;
    run->has_memory_kills =
        mt_memory_kills(MT_CGROUP_MEMBERSHIP, MT_CGROUP_MOUNT, MT_MEMORY_VMSTAT, &run->memory_kills);
    int r = prepare_folder(run, job, &error);
    recording.failed = r < 0;
    if (r == 0)
        r = mt_worker_start(&run->worker, &start, &error);
    if (r == 0) {
        run->stage = MT_RUN_ALIVE;
        mt_log(LOG_INFO, "job %s: attempt %lld, worker %ld", job->id, (long long)job->attempt,
               (long)run->worker.pid);
    } else if (recording.failed) {
        complain(supervisor, now, &error);
        run->stage = MT_RUN_WAITING;
        run->start_at = now + RETRY_SECONDS;
    } else {
        mt_log(LOG_ERR, "job %s: %s", job->id, error.message);
        run->start_error = -r;
        run->stage = MT_RUN_ENDED;
        run->retry_at = now;
    }
}

static void start_again(struct mt_supervisor *supervisor, struct mt_run *run, double now)
{
    struct mt_error error = {0};
    struct mt_queue_job *job = NULL;
    if (mt_queue_next_attempt(supervisor->daemon->queue, run->worker.job_id, &job, &error) < 0) {
        complain(supervisor, now, &error);
        run->start_at = now + RETRY_SECONDS;
        return;
    }
    start_worker(supervisor, run, job, now);
    mt_queue_job_free(job);
}

static void fill_slots(struct mt_supervisor *supervisor, double now)
{
    size_t slots = (size_t)supervisor->daemon->options.workers;
    while (supervisor->num_runs < slots && !supervisor->stop.begun_at && now >= supervisor->retry_at) {
        struct mt_error error = {0};
        struct mt_queue_job *job = NULL;
        int r = mt_queue_claim(supervisor->daemon->queue, &job, &error);
        if (r == -ENOENT)
            return;
        if (r < 0) {
            complain(supervisor, now, &error);
            supervisor->retry_at = now + RETRY_SECONDS;
            return;
        }
        struct mt_run *run = run_new(supervisor->daemon, job);
        if (add_run(supervisor, run))
            start_worker(supervisor, run, job, now);
        mt_queue_job_free(job);
    }
}

/* ---- what clients ask ---- */

static bool take_save_request(struct mt_daemon *daemon, const char *id)
{
    bool found = false;
    pthread_mutex_lock(&daemon->mutex);
    for (size_t i = 0; i < daemon->num_save_requests && !found; i++)
        if (strcmp(daemon->save_requests[i], id) == 0) {
            memcpy(daemon->save_requests[i], daemon->save_requests[--daemon->num_save_requests], MT_ID_BYTES);
            found = true;
        }
    pthread_mutex_unlock(&daemon->mutex);
    return found;
}

static void look_at_requests(struct mt_supervisor *supervisor, double now)
{
    struct mt_error error = {0};
    struct mt_queue_page page;
    if (supervisor->num_runs == 0)
        return;
    if (mt_queue_active(supervisor->daemon->queue, &page, &error) < 0) {
        complain(supervisor, now, &error);
        mt_daemon_wake(supervisor->daemon);
        return;
    }
    for (size_t i = 0; i < supervisor->num_runs; i++) {
        struct mt_run *run = supervisor->runs[i];
        for (size_t k = 0; k < page.count; k++) {
            if (strcmp(page.jobs[k]->id, run->worker.job_id) != 0 ||
                page.jobs[k]->requested == run->requested)
                continue;
            run->requested = page.jobs[k]->requested;
            run->requested_at = now;
        }
        if (take_save_request(supervisor->daemon, run->worker.job_id))
            run->save_wanted = true;
    }
    mt_queue_page_free(&page);
    /* What is left is of jobs that have ended meanwhile. */
    pthread_mutex_lock(&supervisor->daemon->mutex);
    supervisor->daemon->num_save_requests = 0;
    pthread_mutex_unlock(&supervisor->daemon->mutex);
}

/* Sends what is due; what does not fit into the socket is tried again in the next turn. */
static void pass_requests_on(struct mt_supervisor *supervisor, struct mt_run *run)
{
    if (run->word_at > 0 || run->worker.fd < 0)
        return;
    if (run->requested == MT_QUEUE_REQUEST_CANCEL && !run->told_cancel)
        run->told_cancel = mt_worker_send(&run->worker, "cancel");
    else if ((run->requested == MT_QUEUE_REQUEST_PAUSE || supervisor->stop.begun_at > 0) &&
             !run->told_cancel && !run->told_pause)
        run->told_pause = mt_worker_send(&run->worker, "pause");
    else if (run->save_wanted)
        run->save_wanted = !mt_worker_send(&run->worker, "checkpoint");
}

/* ---- a turn ---- */

static void record_first_words(struct mt_supervisor *supervisor, struct mt_run *run, double now)
{
    struct mt_error error = {0};
    struct mt_queue_change change = {.to = MT_QUEUE_RUNNING, .restarts = -1, .assumed = run->requested};
    if (run->recorded_running || !run->has_baseline)
        return;
    int r = mt_queue_change(supervisor->daemon->queue, run->worker.job_id, &change, &error);
    if (r == 0)
        r = mt_run_flush(run, &error);
    if (r < 0)
        complain(supervisor, now, &error);
    else
        run->recorded_running = true;
}

static void sample(struct mt_run *run, double now)
{
    if (now - run->sampled_at < 1)
        return;
    run->sampled_at = now;
    size_t bytes = mt_process_resident(run->worker.pid);
    if (bytes)
        run->resident_bytes = bytes;
    /* What the worker prints is kept within bounds; its real log is log.jsonl. */
    mt_autofree char *log = mt_path_join(run->folder, "worker.log");
    struct stat status;
    if (log && stat(log, &status) == 0 && status.st_size > WORKER_LOG_BYTES)
        (void)!truncate(log, 0);
}

static void tend(struct mt_supervisor *supervisor, struct mt_run *run, double now)
{
    size_t bad = run->worker.bad_lines;
    mt_worker_read(&run->worker, READ_BYTES, mt_run_hear, run);
    if (bad == 0 && run->worker.bad_lines > 0)
        mt_log(LOG_WARNING, "job %s: its worker says things that are not in the protocol",
               run->worker.job_id);
    if (run->worker.fd < 0 && run->worker.is_child && run->silent_at <= 0)
        run->silent_at = now;
    if (mt_worker_reap(&run->worker)) {
        mt_worker_read(&run->worker, DRAIN_BYTES, mt_run_hear, run);
        run->stage = MT_RUN_ENDED;
        run->retry_at = now;
        return;
    }
    record_first_words(supervisor, run, now);
    sample(run, now);
    pass_requests_on(supervisor, run);
    mt_deadline_enforce(run, &supervisor->stop, now);
}

/* Waiting to be started again costs nothing to give up. */
static bool ends_while_waiting(const struct mt_supervisor *supervisor, const struct mt_run *run)
{
    return run->requested != MT_QUEUE_REQUEST_NONE || supervisor->stop.begun_at > 0;
}

static int end_waiting(struct mt_supervisor *supervisor, const struct mt_run *run, struct mt_error *error)
{
    struct mt_queue_change change = {.to = MT_QUEUE_QUEUED, .reason = "interrupted", .restarts = -1};
    change.assumed = run->requested;
    if (run->requested == MT_QUEUE_REQUEST_CANCEL) {
        change.to = MT_QUEUE_CANCELLED;
        change.reason = "cancelled_by_user";
    } else if (run->requested == MT_QUEUE_REQUEST_PAUSE) {
        change.to = MT_QUEUE_PAUSED;
        change.reason = "paused_by_user";
    }
    return mt_queue_change(supervisor->daemon->queue, run->worker.job_id, &change, error);
}

/* True when the run is over. */
static bool advance(struct mt_supervisor *supervisor, struct mt_run *run, double now)
{
    struct mt_error error = {0};
    bool drop = false;
    if (run->stage == MT_RUN_ALIVE)
        tend(supervisor, run, now);
    if (run->stage == MT_RUN_ENDED && now >= run->retry_at && mt_run_end(run, now, &drop) && drop)
        return true;
    if (run->stage != MT_RUN_WAITING)
        return false;
    if (ends_while_waiting(supervisor, run)) {
        int r = end_waiting(supervisor, run, &error);
        if (r == 0)
            return true;
        if (r == -EAGAIN)
            mt_daemon_wake(supervisor->daemon);
        else
            complain(supervisor, now, &error);
    } else if (now >= run->start_at) {
        start_again(supervisor, run, now);
    }
    return false;
}

static void flush(struct mt_supervisor *supervisor, double now)
{
    struct mt_queue_progress progress[MAX_RUNS];
    struct mt_error error = {0};
    size_t count = 0;
    if (now - supervisor->flushed_at < FLUSH_SECONDS)
        return;
    for (size_t i = 0; i < supervisor->num_runs; i++) {
        const struct mt_run *run = supervisor->runs[i];
        if (run->dirty && run->recorded_running)
            progress[count++] = (struct mt_queue_progress){.id = run->worker.job_id,
                                                           .step = run->step,
                                                           .device = run->device,
                                                           .progress = run->progress};
    }
    if (count == 0)
        return;
    supervisor->flushed_at = now;
    if (mt_queue_record(supervisor->daemon->queue, progress, count, &error) < 0) {
        complain(supervisor, now, &error);
        return;
    }
    for (size_t i = 0; i < supervisor->num_runs; i++)
        supervisor->runs[i]->dirty &= !supervisor->runs[i]->recorded_running;
}

static double next_turn(const struct mt_supervisor *supervisor, double now)
{
    double next = now + 30;
    for (size_t i = 0; i < supervisor->num_runs; i++) {
        const struct mt_run *run = supervisor->runs[i];
        switch (run->stage) {
        case MT_RUN_WAITING:
            next = fmin(next, ends_while_waiting(supervisor, run) ? now + RETRY_SECONDS : run->start_at);
            break;
        case MT_RUN_ENDED:
            next = fmin(next, run->retry_at);
            break;
        case MT_RUN_ALIVE:
            next = fmin(next, now + (run->worker.is_child ? 1.0 : LEFTOVER_LOOK_SECONDS));
            next = fmin(next, mt_deadline_next(run, &supervisor->stop));
            break;
        }
    }
    if (supervisor->retry_at > now)
        next = fmin(next, supervisor->retry_at);
    return fmax(next - now, 0);
}

double mt_supervisor_turn(struct mt_supervisor *supervisor, bool look)
{
    double now = mt_time_monotonic();
    if (look)
        look_at_requests(supervisor, now);
    for (size_t i = 0; i < supervisor->num_runs;) {
        if (advance(supervisor, supervisor->runs[i], now)) {
            run_free(supervisor->runs[i]);
            memmove(&supervisor->runs[i], &supervisor->runs[i + 1],
                    (--supervisor->num_runs - i) * sizeof *supervisor->runs);
        } else {
            i++;
        }
    }
    flush(supervisor, now);
    fill_slots(supervisor, now);
    return next_turn(supervisor, mt_time_monotonic());
}

void mt_supervisor_stop(struct mt_supervisor *supervisor)
{
    double now = mt_time_monotonic();
    if (supervisor->stop.begun_at > 0)
        supervisor->stop.hurried = true;
    else
        mt_deadline_begin_stop(&supervisor->stop, supervisor->daemon->options.stop_grace, now);
}

bool mt_supervisor_is_idle(const struct mt_supervisor *supervisor)
{
    return supervisor->num_runs == 0;
}

bool mt_supervisor_is_overdue(const struct mt_supervisor *supervisor)
{
    return supervisor->stop.begun_at > 0 && mt_time_monotonic() >= supervisor->stop.end_by;
}
