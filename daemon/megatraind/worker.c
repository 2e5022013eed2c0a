#include "daemon/megatraind/worker.h"

#include "core/base/cleanup.h"
#include "core/base/document.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

extern char **environ;

/* Workers go first when memory runs out, never the daemon. */
#define OOM_SCORE "500"

/* Everything that the child needs, made before fork: after it only async-signal-safe calls are allowed, since
 * other threads may hold any lock. */
struct plan {
    char attempt[24];
    char log_path[4096];
    char job_variable[64];
    const char *arguments[8];
    const char **environment;
    int socket, gate, exec_error;
};

static bool is_private_variable(const char *entry)
{
    /* systemd's words are for the daemon alone; the job's name is set anew. */
    static const char *const names[] = {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID",
                                        "LISTEN_FDS",    "LISTEN_PID",    MT_PROCESS_JOB_VARIABLE};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t length = strlen(names[i]);
        if (strncmp(entry, names[i], length) == 0 && entry[length] == '=')
            return true;
    }
    return false;
}

static int make_plan(struct plan *plan, const struct mt_worker *worker, const struct mt_worker_start *start,
                     struct mt_error *error)
{
    size_t count = 0, kept = 0;
    while (environ[count])
        count++;
    plan->environment = calloc(count + 2, sizeof *plan->environment);
    if (!plan->environment)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory");
    for (size_t i = 0; i < count; i++)
        if (!is_private_variable(environ[i]))
            plan->environment[kept++] = environ[i];
    snprintf(plan->job_variable, sizeof plan->job_variable, "%s=%s", MT_PROCESS_JOB_VARIABLE, worker->job_id);
    plan->environment[kept] = plan->job_variable;
    snprintf(plan->attempt, sizeof plan->attempt, "%lld", (long long)start->attempt);
    if (snprintf(plan->log_path, sizeof plan->log_path, "%s/worker.log", start->job_folder) >=
        (int)sizeof plan->log_path)
        return mt_error_set(error, -ENAMETOOLONG, MT_REASON_IO, "the path %s is too long", start->job_folder);
    const char *arguments[] = {start->program,    "--task",    "train",       "--job-dir",
                               start->job_folder, "--attempt", plan->attempt, NULL};
    memcpy(plan->arguments, arguments, sizeof arguments);
    return 0;
}

static _Noreturn void fail_in_child(const struct plan *plan)
{
    int code = errno;
    ssize_t ignored = write(plan->exec_error, &code, sizeof code);
    (void)ignored;
    _exit(127);
}

static void raise_oom_score(void)
{
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        ssize_t ignored = write(fd, OOM_SCORE, strlen(OOM_SCORE));
        (void)ignored;
        close(fd);
    }
}

/* Descriptors 0 to 3 as the protocol has them; `socket` and `exec_error` are moved above 3 first, since dup2
 * would close them in passing. */
static void arrange_descriptors(struct plan *plan)
{
    plan->exec_error = fcntl(plan->exec_error, F_DUPFD_CLOEXEC, 10);
    int link = fcntl(plan->socket, F_DUPFD_CLOEXEC, 10);
    int nothing = open("/dev/null", O_RDONLY);
    int log = open(plan->log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
    if (link < 0 || nothing < 0 || log < 0 || dup2(nothing, 0) < 0)
        fail_in_child(plan);
    log = fcntl(log, F_DUPFD_CLOEXEC, 10);
    if (log < 0 || dup2(log, 1) < 0 || dup2(log, 2) < 0 || dup2(link, 3) < 0)
        fail_in_child(plan);
    /* Nothing else of the daemon's may stay open in a worker: neither a client's socket nor the lock. */
    if (close_range(4, ~0U, CLOSE_RANGE_CLOEXEC) < 0)
        for (int fd = 4; fd < 1024; fd++)
            fcntl(fd, F_SETFD, FD_CLOEXEC);
}

static _Noreturn void run_child(struct plan *plan)
{
    setpgid(0, 0);
    /* The daemon records us first; if it dies before, the gate closes without a word. */
    char word;
    ssize_t got;
    do
        got = read(plan->gate, &word, 1);
    while (got < 0 && errno == EINTR);
    if (got != 1)
        _exit(127);
    for (int number = 1; number < NSIG; number++)
        signal(number, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    raise_oom_score();
    arrange_descriptors(plan);
    execve(plan->arguments[0], (char *const *)(uintptr_t)plan->arguments,
           (char *const *)(uintptr_t)plan->environment);
    fail_in_child(plan);
}

static void close_pair(const int ends[2])
{
    mt_cleanup_fd(&ends[0]);
    mt_cleanup_fd(&ends[1]);
}

/* Lets the child go, or ends it when it could not be recorded. */
static int release_child(struct mt_worker *worker, const struct mt_worker_start *start, int gate,
                         struct mt_error *error)
{
    int r = start->record(start->context, worker, error);
    if (r == 0 && write(gate, "g", 1) != 1)
        r = mt_error_set_errno(error, MT_REASON_INTERNAL, "cannot start a worker");
    if (r < 0) {
        kill(worker->pid, SIGKILL);
        waitpid(worker->pid, NULL, 0);
        worker->pid = 0;
    }
    return r;
}

int mt_worker_start(struct mt_worker *worker, const struct mt_worker_start *start, struct mt_error *error)
{
    int link[2] = {-1, -1}, gate[2] = {-1, -1}, exec_error[2] = {-1, -1};
    struct plan plan = {0};
    worker->fd = worker->exec_error_fd = -1;
    int r = make_plan(&plan, worker, start, error);
    if (r == 0 && !(worker->buffer = malloc(MT_WORKER_LINE_BYTES)))
        r = mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory");
    if (r == 0 && (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, link) < 0 ||
                   pipe2(gate, O_CLOEXEC) < 0 || pipe2(exec_error, O_CLOEXEC | O_NONBLOCK) < 0))
        r = mt_error_set_errno(error, MT_REASON_INTERNAL, "cannot start a worker");
    if (r == 0) {
        plan.socket = link[1];
        plan.gate = gate[0];
        plan.exec_error = exec_error[1];
        pid_t pid = fork();
        if (pid == 0) {
            close(gate[1]);
            run_child(&plan);
        }
        if (pid < 0)
            r = mt_error_set_errno(error, MT_REASON_INTERNAL, "cannot start a worker");
        else
            worker->pid = pid;
    }
    if (r == 0) {
        setpgid(worker->pid, worker->pid); /* also here: whoever comes first, the group is there */
        worker->is_child = true;
        worker->start = mt_process_start(worker->pid);
        fcntl(link[0], F_SETFL, O_NONBLOCK);
        r = release_child(worker, start, gate[1], error);
    }
    if (r == 0) {
        worker->fd = link[0];
        worker->exec_error_fd = exec_error[0];
        link[0] = exec_error[0] = -1;
    }
    close_pair(link);
    close_pair(gate);
    close_pair(exec_error);
    free(plan.environment);
    if (r < 0)
        mt_worker_clear(worker);
    return r;
}

static void take_line(struct mt_worker *worker, const char *line, size_t bytes,
                      void (*on_message)(void *context, struct mt_worker *worker, json_t *message),
                      void *context)
{
    mt_autojson json_t *message = NULL;
    if (mt_json_parse(line, bytes, "worker", &message, NULL) < 0 || !json_is_object(message)) {
        worker->bad_lines++;
        return;
    }
    on_message(context, worker, message);
}

/* Cuts the buffer into lines; what is left of it is the beginning of the next one. */
static void take_lines(struct mt_worker *worker,
                       void (*on_message)(void *context, struct mt_worker *worker, json_t *message),
                       void *context)
{
    size_t begin = 0;
    char *end;
    while ((end = memchr(worker->buffer + begin, '\n', worker->used - begin))) {
        size_t length = (size_t)(end - worker->buffer) - begin;
        if (worker->discarding)
            worker->discarding = false;
        else if (length > 0)
            take_line(worker, worker->buffer + begin, length, on_message, context);
        begin += length + 1;
    }
    memmove(worker->buffer, worker->buffer + begin, worker->used - begin);
    worker->used -= begin;
    if (worker->used == MT_WORKER_LINE_BYTES) {
        worker->bad_lines += !worker->discarding;
        worker->discarding = true;
        worker->used = 0;
    }
}

void mt_worker_read(struct mt_worker *worker, size_t max_bytes,
                    void (*on_message)(void *context, struct mt_worker *worker, json_t *message),
                    void *context)
{
    size_t total = 0;
    while (worker->fd >= 0 && total < max_bytes) {
        ssize_t got = recv(worker->fd, worker->buffer + worker->used, MT_WORKER_LINE_BYTES - worker->used, 0);
        if (got > 0) {
            worker->used += (size_t)got;
            total += (size_t)got;
            take_lines(worker, on_message, context);
            continue;
        }
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return;
        close(worker->fd);
        worker->fd = -1;
    }
}

bool mt_worker_send(struct mt_worker *worker, const char *type)
{
    if (worker->fd < 0)
        return false;
    char line[64];
    int length = snprintf(line, sizeof line, "{\"type\": \"%s\"}\n", type);
    /* Less than a page goes whole or not at all into a socket that is not full. */
    return send(worker->fd, line, (size_t)length, MSG_DONTWAIT | MSG_NOSIGNAL) == length;
}

void mt_worker_signal(struct mt_worker *worker, int number)
{
    if (worker->pid <= 0)
        return;
    if (worker->is_child)
        kill(-worker->pid, number); /* not reaped yet, so the number is still its own */
    else
        mt_process_signal_job(worker->job_id, worker->pid, number);
}

bool mt_worker_reap(struct mt_worker *worker)
{
    if (worker->pid <= 0 || worker->exited)
        return false;
    if (!worker->is_child) {
        if (mt_process_start(worker->pid) == worker->start)
            return false;
        mt_process_signal_job(worker->job_id, worker->pid, SIGKILL);
        worker->exited = true;
        return true;
    }
    siginfo_t information = {0};
    if (waitid(P_PID, (id_t)worker->pid, &information, WEXITED | WNOHANG | WNOWAIT) < 0 ||
        information.si_pid != worker->pid)
        return false;
    /* While the leader is a zombie its group's number cannot be anyone else's. */
    kill(-worker->pid, SIGKILL);
    waitpid(worker->pid, &worker->wait_status, 0);
    int code;
    if (read(worker->exec_error_fd, &code, sizeof code) == (ssize_t)sizeof code)
        worker->exec_error = code;
    worker->exited = true;
    return true;
}

void mt_worker_clear(struct mt_worker *worker)
{
    if (worker->fd >= 0)
        close(worker->fd);
    if (worker->exec_error_fd >= 0)
        close(worker->exec_error_fd);
    free(worker->buffer);
    json_decref(worker->last_message);
    char id[MT_ID_BYTES];
    memcpy(id, worker->job_id, sizeof id);
    *worker = (struct mt_worker){.fd = -1, .exec_error_fd = -1};
    memcpy(worker->job_id, id, sizeof id);
}
