/* ask.c: one process with the question on its standard input, the answer on its standard output and, where it
 * has none, a sentence on its standard error. */
#include "daemon/megatraind/ask.h"

#include "core/base/cleanup.h"
#include "core/base/document.h"
#include "core/base/file.h"
#include "core/base/log.h"
#include "core/base/time.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

extern char **environ;

#define ANSWER_BYTES ((size_t)8 << 20)
#define SAID_BYTES 400          /* of standard error, the last */
#define LOOK_MILLISECONDS 100.0 /* how often it is seen whether the client waits */

/* One question under way. */
struct asked {
    pid_t pid;
    int answer, complaint; /* what we read of it */
    char *text;            /* the answer */
    size_t bytes, room;
    char said[SAID_BYTES]; /* its last words on standard error */
    size_t said_bytes;
};

/* The question as a file without a name, so that neither side ever waits for the other to read. */
static int open_question(const json_t *question)
{
    mt_autofree char *text = json_dumps(question, JSON_COMPACT | JSON_REAL_PRECISION(17));
    int fd = text ? memfd_create("question", MFD_CLOEXEC) : -1;
    if (fd < 0)
        return -1;
    if (mt_fd_write_all(fd, text, strlen(text)) < 0 || lseek(fd, 0, SEEK_SET) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/* 0 or an errno. */
static int spawn(const char *program, const char *task, const int standard[3], pid_t *pid)
{
    char *arguments[] = {(char *)(uintptr_t)program, (char *)(uintptr_t) "--task", (char *)(uintptr_t)task,
                         NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    for (int i = 0; i < 3; i++)
        posix_spawn_file_actions_adddup2(&actions, standard[i], i);
    posix_spawnattr_setflags(&attributes,
                             POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    int code = posix_spawn(pid, program, &actions, &attributes, arguments, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return code;
}

/* Reads a piece of the answer. 1: there may be more; 0: that was all; negative: it cannot be taken. */
static int read_answer(struct asked *asked)
{
    if (asked->bytes == asked->room) {
        const size_t room = asked->room ? asked->room * 2 : (size_t)64 << 10;
        char *grown = room <= ANSWER_BYTES ? realloc(asked->text, room) : NULL;
        if (!grown)
            return room <= ANSWER_BYTES ? -ENOMEM : -E2BIG;
        asked->text = grown;
        asked->room = room;
    }
    const ssize_t got = read(asked->answer, asked->text + asked->bytes, asked->room - asked->bytes);
    if (got < 0)
        return errno == EINTR ? 1 : -errno;
    asked->bytes += (size_t)got;
    return got > 0;
}

/* Reads a piece of what it complains of and keeps the end. False: that was all. */
static bool read_complaint(struct asked *asked)
{
    char piece[SAID_BYTES];
    const ssize_t got = read(asked->complaint, piece, sizeof piece);
    if (got <= 0)
        return got < 0 && errno == EINTR;
    size_t keep = asked->said_bytes;
    if (keep + (size_t)got > SAID_BYTES) {
        keep = SAID_BYTES - (size_t)got;
        memmove(asked->said, asked->said + asked->said_bytes - keep, keep);
    }
    memcpy(asked->said + keep, piece, (size_t)got);
    asked->said_bytes = keep + (size_t)got;
    return true;
}

/* All of the answer, up to where the process closes its output. Negative: -ETIMEDOUT, -ECANCELED, or why the
 * answer cannot be taken. */
static int listen_to(struct asked *asked, double seconds, const struct mt_control_client *client)
{
    const double deadline = mt_time_monotonic() + seconds;
    struct pollfd ends[] = {{.fd = asked->answer, .events = POLLIN},
                            {.fd = asked->complaint, .events = POLLIN}};
    for (;;) {
        const double left = (deadline - mt_time_monotonic()) * 1000;
        if (client && client->gone(client->context))
            return -ECANCELED;
        if (left <= 0)
            return -ETIMEDOUT;
        if (poll(ends, 2, 1 + (int)(left < LOOK_MILLISECONDS ? left : LOOK_MILLISECONDS)) <= 0)
            continue;
        if (ends[1].revents && !read_complaint(asked))
            ends[1].fd = -1;
        const int r = ends[0].revents ? read_answer(asked) : 1;
        if (r <= 0)
            return r;
    }
}

/* Ends what has not ended, and gives its status; *hung: it had to be. */
static int end(pid_t pid, bool *hung)
{
    int status = 0;
    siginfo_t information = {0};
    /* Its output is closed: what lives on after a moment is hanging. */
    *hung = true;
    for (int i = 0; *hung && i < 50; i++) {
        if (waitid(P_PID, (id_t)pid, &information, WEXITED | WNOHANG | WNOWAIT) < 0 ||
            information.si_pid == pid)
            *hung = false;
        else
            poll(NULL, 0, 2);
    }
    kill(-pid, SIGKILL); /* the group's number is its own until the leader is reaped */
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return status;
}

/* The last line that it said, without what surrounds it; "" when it said nothing. */
static const char *last_line(struct asked *asked)
{
    struct pollfd rest = {.fd = asked->complaint, .events = POLLIN};
    while (poll(&rest, 1, 0) > 0 && read_complaint(asked)) {
    }
    size_t bytes = asked->said_bytes < SAID_BYTES ? asked->said_bytes : SAID_BYTES - 1;
    memmove(asked->said, asked->said + asked->said_bytes - bytes, bytes);
    while (bytes > 0 && (unsigned char)asked->said[bytes - 1] <= ' ')
        bytes--;
    asked->said[bytes] = '\0';
    const char *line = strrchr(asked->said, '\n');
    return line ? line + 1 : asked->said;
}

/* Why there is no answer, of a process that was not too slow. */
static int explain(struct asked *asked, int status, int heard, const char *program, const char *task,
                   struct mt_error *error)
{
    const char *line = last_line(asked), *colon = *line ? ": " : "";
    if (WIFSIGNALED(status) && heard == 0) {
        const char *name = sigabbrev_np(WTERMSIG(status));
        return mt_error_set(error, -ECHILD, MT_REASON_INTERNAL,
                            "%s --task %s died by SIG%s before it had answered%s%s%s", program, task,
                            name ? name : "?",
                            WTERMSIG(status) == SIGKILL ? " (perhaps for want of memory)" : "", colon, line);
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) != 0)
        return mt_error_set(error, -ECHILD, MT_REASON_INTERNAL,
                            "%s --task %s ended with status %d and no answer%s%s", program, task,
                            WEXITSTATUS(status), colon, line);
    if (heard == -E2BIG)
        return mt_error_set(error, -EBADMSG, MT_REASON_INTERNAL, "%s --task %s answered more than %zu MiB",
                            program, task, ANSWER_BYTES >> 20);
    if (heard < 0)
        return mt_error_set(error, heard, MT_REASON_INTERNAL, "cannot take the answer of %s --task %s: %s",
                            program, task, strerror(-heard));
    return mt_error_set(error, -EBADMSG, MT_REASON_INTERNAL, "what %s --task %s answered is no JSON%s%s",
                        program, task, colon, line);
}

static void close_ends(int ends[2])
{
    for (int i = 0; i < 2; i++) {
        if (ends[i] >= 0)
            close(ends[i]);
    }
}

/* Starts the process; its two outputs are ours to close. */
static int start(struct asked *asked, const char *program, const char *task, int question,
                 struct mt_error *error)
{
    int answer[2] = {-1, -1}, complaint[2] = {-1, -1};
    if (pipe2(answer, O_CLOEXEC) < 0 || pipe2(complaint, O_CLOEXEC) < 0) {
        const int r = mt_error_set_errno(error, MT_REASON_INTERNAL, "cannot ask a worker to %s", task);
        close_ends(answer);
        return r;
    }
    const int code = spawn(program, task, (const int[3]){question, answer[1], complaint[1]}, &asked->pid);
    close(answer[1]);
    close(complaint[1]);
    if (code != 0) {
        close(answer[0]);
        close(complaint[0]);
        return mt_error_set(error, -code, MT_REASON_INTERNAL, "cannot start %s: %s", program, strerror(code));
    }
    asked->answer = answer[0];
    asked->complaint = complaint[0];
    return 0;
}

int mt_ask_worker(const char *program, const char *task, const json_t *question, double seconds,
                  const struct mt_control_client *client, json_t **reply, struct mt_error *error)
{
    struct asked asked = {0};
    *reply = NULL;
    if (client && client->gone(client->context))
        return mt_error_set(error, -ECANCELED, MT_REASON_INTERRUPTED, "nobody waits for the answer");
    mt_autofd int written = open_question(question);
    if (written < 0)
        return mt_error_set_errno(error, MT_REASON_INTERNAL, "cannot ask a worker to %s", task);
    int r = start(&asked, program, task, written, error);
    if (r < 0)
        return r;
    const int heard = listen_to(&asked, seconds, client);
    bool hung;
    const int status = end(asked.pid, &hung);
    if (heard == -ETIMEDOUT)
        r = mt_error_set(error, -ETIMEDOUT, MT_REASON_INTERNAL,
                         "%s --task %s gave no answer in %.0f s; try again when the machine is less busy",
                         program, task, seconds);
    else if (heard == -ECANCELED)
        r = mt_error_set(error, -ECANCELED, MT_REASON_INTERRUPTED, "nobody waits for the answer");
    else if (heard == 0 && hung)
        r = mt_error_set(error, -ECHILD, MT_REASON_INTERNAL,
                         "%s --task %s closed its output, then hung, and was killed", program, task);
    else if (heard < 0 || !WIFEXITED(status) || WEXITSTATUS(status) != 0 ||
             mt_json_parse(asked.text, asked.bytes, task, reply, NULL) < 0)
        r = explain(&asked, status, heard, program, task, error);
    close(asked.answer);
    close(asked.complaint);
    free(asked.text);
    return r;
}

enum mt_control_result mt_ask_for_client(const char *program, const char *task, const json_t *question,
                                         double seconds, const struct mt_control_client *client,
                                         json_t **reply, struct mt_error *error)
{
    if (!question) {
        mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory for the question");
        return MT_CONTROL_FAILED;
    }
    switch (mt_ask_worker(program, task, question, seconds, client, reply, error)) {
    case 0:
        return MT_CONTROL_OK;
    case -ETIMEDOUT:
    case -ECANCELED:
        return MT_CONTROL_UNAVAILABLE;
    default:
        return MT_CONTROL_FAILED;
    }
}
