/* ask.c: one process with the question on its standard input and the answer on its standard output. */
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
static int spawn(const char *program, const char *task, int question, int answer, pid_t *pid)
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
    posix_spawn_file_actions_adddup2(&actions, question, 0);
    posix_spawn_file_actions_adddup2(&actions, answer, 1);
    posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
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

/* All of the answer, up to the end of the process; false when it takes too long or says too much. */
static bool read_answer(int fd, double seconds, char **text, size_t *bytes)
{
    double deadline = mt_time_monotonic() + seconds;
    size_t room = 0;
    for (*bytes = 0;;) {
        if (*bytes == room) {
            room = room ? room * 2 : (size_t)64 << 10;
            char *grown = room <= ANSWER_BYTES ? realloc(*text, room) : NULL;
            if (!grown)
                return false;
            *text = grown;
        }
        double left = deadline - mt_time_monotonic();
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        int ready = left > 0 ? poll(&wait, 1, (int)(left * 1000) + 1) : 0;
        if (ready < 0 && errno == EINTR)
            continue;
        if (ready <= 0)
            return false;
        ssize_t got = read(fd, *text + *bytes, room - *bytes);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return false;
        if (got == 0)
            return *bytes > 0;
        *bytes += (size_t)got;
    }
}

/* Ends what has not ended, and says whether it exited with 0. */
static bool ended_well(pid_t pid)
{
    int status = 0;
    siginfo_t information = {0};
    /* Its output is closed: what lives on after a moment is hanging. */
    for (int i = 0; i < 50; i++) {
        if (waitid(P_PID, (id_t)pid, &information, WEXITED | WNOHANG | WNOWAIT) < 0 ||
            information.si_pid == pid)
            break;
        poll(NULL, 0, 2);
    }
    kill(-pid, SIGKILL); /* the group's number is its own until the leader is reaped */
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int mt_ask_worker(const char *program, const char *task, const json_t *question, double seconds,
                  json_t **reply, struct mt_error *error)
{
    mt_autofd int asked = open_question(question);
    int ends[2] = {-1, -1};
    mt_autofree char *text = NULL;
    size_t bytes;
    *reply = NULL;
    if (asked < 0 || pipe2(ends, O_CLOEXEC) < 0)
        return mt_error_set_errno(error, MT_REASON_INTERNAL, "cannot ask a worker to %s", task);
    mt_autofd int answer = ends[0];
    pid_t pid;
    int code = spawn(program, task, asked, ends[1], &pid);
    close(ends[1]);
    if (code != 0)
        return mt_error_set(error, -code, MT_REASON_INTERNAL, "cannot start %s: %s", program, strerror(code));
    bool whole = read_answer(answer, seconds, &text, &bytes);
    bool well = ended_well(pid);
    if (whole && well && mt_json_parse(text, bytes, task, reply, NULL) == 0)
        return 0;
    return mt_error_set(error, -ETIMEDOUT, MT_REASON_INTERNAL, "%s gave no answer in %.0f s", program,
                        seconds);
}
