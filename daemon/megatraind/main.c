/* megatraind: reads its settings, takes the state folder, serves the API, and runs the supervisor until it is
 * told to stop. */
#include "api/control.h"
#include "core/base/cleanup.h"
#include "core/base/file.h"
#include "core/base/log.h"
#include "core/base/time.h"
#include "core/base/version.h"
#include "core/job/job.h"
#include "daemon/megatraind/control.h"
#include "daemon/megatraind/janitor.h"
#include "daemon/megatraind/notify.h"
#include "daemon/megatraind/state_folder.h"
#include "daemon/megatraind/supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <math.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sysexits.h>
#include <unistd.h>

#define DESCRIPTORS 65536

#define MAX_POLLED 160

static int complain(const struct mt_error *error, int exit_code)
{
    mt_log(LOG_ERR, "%s", error->message);
    return exit_code;
}

/* ---- before the loop ---- */

static int find_worker_program(struct mt_daemon *daemon, struct mt_error *error)
{
    const char *given = getenv("MEGATRAIN_WORKER");
    if (given && *given) {
        daemon->worker_program = realpath(given, NULL);
        if (!daemon->worker_program)
            return mt_error_set_errno(error, MT_REASON_BAD_JOB, "MEGATRAIN_WORKER names %s", given);
        return 0;
    }
    char own[4096];
    ssize_t length = readlink("/proc/self/exe", own, sizeof own - 1);
    if (length < 0)
        return mt_error_set_errno(error, MT_REASON_INTERNAL, "cannot find the daemon's own program");
    own[length] = '\0';
    char *slash = strrchr(own, '/');
    *slash = '\0';
    daemon->worker_program = mt_path_join(own, "megatrain-worker");
    if (!daemon->worker_program)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory");
    if (access(daemon->worker_program, X_OK) < 0)
        mt_log(LOG_WARNING, "%s: %s; jobs cannot be run until it is there", daemon->worker_program,
               strerror(errno));
    return 0;
}

static int read_token(const struct mt_options *options, char **token, struct mt_error *error)
{
    size_t bytes;
    struct stat status;
    *token = NULL;
    if (!options->token_file)
        return 0;
    int r = mt_file_read(options->token_file, 4096, token, &bytes, error);
    if (r < 0)
        return mt_error_prefix(error, "token_file");
    (*token)[strcspn(*token, "\r\n")] = '\0';
    if (strlen(*token) < 8)
        return mt_error_set(error, -EINVAL, MT_REASON_BAD_JOB,
                            "token_file %s: the token in its first line is shorter than 8 characters",
                            options->token_file);
    for (const char *c = *token; *c; c++)
        if (*c <= ' ' || *c > '~')
            return mt_error_set(
                error, -EINVAL, MT_REASON_BAD_JOB,
                "token_file %s: the token in its first line has a blank or a character that is "
                "not ASCII",
                options->token_file);
    if (stat(options->token_file, &status) == 0 && (status.st_mode & S_IROTH))
        mt_log(LOG_WARNING, "%s can be read by every user of this machine; chmod 600 it",
               options->token_file);
    return 0;
}

static void check_allowed_paths(const struct mt_options *options)
{
    struct stat status;
    for (size_t i = 0; i < options->allow_path.count; i++)
        if (stat(options->allow_path.items[i], &status) < 0)
            mt_log(LOG_WARNING,
                   "allow_path %s cannot be used now (%s); jobs that name something in it are refused",
                   options->allow_path.items[i], strerror(errno));
}

/* The default Unix socket needs /run/megatrain, which systemd makes; run by hand without it the daemon serves
 * TCP alone, and says so. */
static size_t default_listeners(const char *listeners[2])
{
    static const char folder[] = "/run/megatrain";
    size_t count = 0;
    listeners[count++] = MT_OPTIONS_DEFAULT_TCP;
    if ((mkdir(folder, 0755) == 0 || errno == EEXIST) && access(folder, W_OK | X_OK) == 0)
        listeners[count++] = MT_OPTIONS_DEFAULT_UNIX;
    else
        mt_log(LOG_NOTICE, "no Unix socket: %s cannot be written; listening on %s alone", folder,
               MT_OPTIONS_DEFAULT_TCP);
    return count;
}

static int start_api(const struct mt_daemon *daemon, const struct mt_control *control, const char *token,
                     struct mt_api **api, struct mt_error *error)
{
    const char *defaults[2];
    struct mt_api_options options = {
        .listen = (const char *const *)daemon->options.listen.items,
        .num_listen = daemon->options.listen.count,
        .token = token,
        .version = MT_VERSION,
        .allow_hosts = (const char *const *)daemon->options.allow_host.items,
        .num_allow_hosts = daemon->options.allow_host.count,
    };
    if (options.num_listen == 0) {
        options.num_listen = default_listeners(defaults);
        options.listen = defaults;
    }
    int r = mt_api_start(control, &options, api, error);
    if (r < 0)
        return r;
    const char *const *addresses;
    size_t count = mt_api_addresses(*api, &addresses);
    for (size_t i = 0; i < count; i++)
        mt_log(LOG_INFO, "listening on %s", addresses[i]);
    return mt_state_folder_write_listen(daemon, addresses, count, error);
}

static int block_signals(struct mt_error *error)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    sigaddset(&set, SIGCHLD);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
        return mt_error_set_errno(error, MT_REASON_INTERNAL, "cannot block signals");
    int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return fd >= 0 ? fd : mt_error_set_errno(error, MT_REASON_INTERNAL, "cannot receive signals");
}

/* ---- the loop ---- */

static void take_signals(struct mt_daemon *daemon, struct mt_supervisor *supervisor, int signal_fd)
{
    struct signalfd_siginfo information;
    while (read(signal_fd, &information, sizeof information) == (ssize_t)sizeof information) {
        if (information.ssi_signo == SIGHUP)
            mt_log(LOG_NOTICE, "SIGHUP: settings are read at the start only; restart to change them");
        if (information.ssi_signo != SIGTERM && information.ssi_signo != SIGINT)
            continue; /* SIGCHLD: being awake is all it takes */
        mt_log(LOG_NOTICE, daemon->stopping ? "stopping at once" : "stopping: %zu job%s to save",
               mt_supervisor_running(supervisor), mt_supervisor_running(supervisor) == 1 ? "" : "s");
        mt_notify("STOPPING=1\nSTATUS=Stopping: workers are saving");
        daemon->stopping = true;
        mt_supervisor_stop(supervisor);
    }
}

static void tell_status(const struct mt_supervisor *supervisor)
{
    static size_t told = SIZE_MAX;
    size_t running = mt_supervisor_running(supervisor);
    if (running != told)
        mt_notify("STATUS=%zu job%s running", running, running == 1 ? "" : "s");
    told = running;
}

static void loop(struct mt_daemon *daemon, struct mt_supervisor *supervisor, int signal_fd)
{
    double watchdog = mt_notify_watchdog() / 2;
    bool look = true;
    for (;;) {
        double wait = mt_supervisor_turn(supervisor, look), now = mt_time_monotonic();
        if (daemon->stopping && (mt_supervisor_is_idle(supervisor) || mt_supervisor_is_overdue(supervisor)))
            return;
        if (watchdog > 0) {
            mt_notify("WATCHDOG=1");
            wait = fmin(wait, watchdog);
        }
        if (!daemon->stopping)
            tell_status(supervisor);
        else
            wait = fmin(wait, 0.5);
        daemon->last_turn = now;
        daemon->next_turn_by = now + wait;

        struct pollfd fds[MAX_POLLED] = {{.fd = signal_fd, .events = POLLIN},
                                         {.fd = daemon->wake_fd, .events = POLLIN}};
        size_t count = 2 + mt_supervisor_poll(supervisor, fds + 2, MAX_POLLED - 2);
        if (poll(fds, (nfds_t)count, (int)ceil(wait * 1000)) < 0 && errno != EINTR)
            mt_log(LOG_ERR, "poll: %s", strerror(errno));
        uint64_t wakes;
        look = read(daemon->wake_fd, &wakes, sizeof wakes) == (ssize_t)sizeof wakes;
        take_signals(daemon, supervisor, signal_fd);
    }
}

/* ---- the order of things ---- */

static int serve(struct mt_daemon *daemon, const char *token, int signal_fd)
{
    struct mt_error error = {0};
    struct mt_control control;
    struct mt_api *api = NULL;
    mt_control_fill(&control, daemon);
    struct mt_supervisor *supervisor = mt_supervisor_new(daemon);
    int exit_code = EX_OK;
    if (!supervisor || mt_janitor_start(daemon, &daemon->janitor, &error) < 0) {
        exit_code = complain(&error, EX_OSERR);
    } else {
        daemon->next_turn_by = mt_time_monotonic();
        mt_janitor_remove_unborn(daemon);
        int r = start_api(daemon, &control, token, &api, &error);
        if (r < 0)
            exit_code = complain(&error, r == -EINVAL   ? EX_CONFIG
                                         : r == -ENOSPC ? EX_CANTCREAT
                                                        : EX_UNAVAILABLE);
        else if (mt_supervisor_adopt(supervisor, &error) < 0)
            exit_code = complain(&error, EX_CANTCREAT);
    }
    if (exit_code == EX_OK) {
        mt_notify("READY=1\nMAINPID=%ld", (long)getpid());
        mt_log(LOG_NOTICE, "megatraind %s is ready; state in %s", MT_VERSION, daemon->state_folder);
        loop(daemon, supervisor, signal_fd);
        mt_log(LOG_NOTICE, "stopped");
    }
    if (api) {
        mt_state_folder_remove_listen(daemon);
        mt_api_stop(api);
    }
    mt_supervisor_free(supervisor);
    mt_janitor_stop(daemon->janitor);
    return exit_code;
}

/* A descriptor a connection, and more for who follows a log: the usual soft limit of 1024 would keep workers
 * from being started. */
static void allow_descriptors(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur >= DESCRIPTORS)
        return;
    limit.rlim_cur = limit.rlim_max < DESCRIPTORS ? limit.rlim_max : DESCRIPTORS;
    setrlimit(RLIMIT_NOFILE, &limit);
}

static int run(struct mt_daemon *daemon)
{
    struct mt_error error = {0};
    mt_autofd int lock_fd = -1;
    mt_autofree char *token = NULL;
    mt_log_set_level(mt_log_level_parse(daemon->options.log_level));
    if (read_token(&daemon->options, &token, &error) < 0 || find_worker_program(daemon, &error) < 0)
        return complain(&error, EX_CONFIG);
    check_allowed_paths(&daemon->options);
    allow_descriptors();
    daemon->hub_cache = mt_job_hub_cache();
    daemon->lm_studio = mt_job_lm_studio();
    daemon->ollama_store = mt_job_ollama_store();
    /* For the workers, which inherit it. */
    if (daemon->options.allow_download ? setenv("MEGATRAIN_ALLOW_DOWNLOAD", "1", 1) < 0
                                       : unsetenv("MEGATRAIN_ALLOW_DOWNLOAD") < 0)
        return complain(&error, EX_OSERR);
    mt_process_boot(daemon->boot);
    mt_autofd int signal_fd = block_signals(&error);
    daemon->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (signal_fd < 0 || daemon->wake_fd < 0)
        return complain(&error, EX_OSERR);
    int r = mt_state_folder_open(daemon, &lock_fd, &error);
    if (r < 0)
        return complain(&error, r == -EBUSY ? EX_TEMPFAIL : EX_CANTCREAT);
    mt_autofree char *database = mt_path_join(daemon->state_folder, "megatrain.db");
    if (!database || mt_queue_open(database, &daemon->queue, &error) < 0)
        return complain(&error, EX_CANTCREAT);
    return serve(daemon, token, signal_fd);
}

/* Where whoever starts us closed one of the standard descriptors, the first file opened would get its number,
 * and the log would be written into it. */
static void hold_standard_descriptors(void)
{
    int fd;
    while ((fd = open("/dev/null", O_RDWR)) >= 0 && fd <= STDERR_FILENO) {
    }
    if (fd >= 0)
        close(fd);
}

int main(int argc, char **argv)
{
    hold_standard_descriptors();
    /* A handful of threads that allocate little: one arena each would only spread the memory. */
    mallopt(M_ARENA_MAX, 2);
    umask(027);
    static struct mt_daemon daemon = {.wake_fd = -1, .mutex = PTHREAD_MUTEX_INITIALIZER};
    struct mt_error error = {0};
    int exit_code;
    switch (mt_options_read(argc, argv, &daemon.options, &error)) {
    case MT_OPTIONS_EXIT:
        exit_code = EX_OK;
        break;
    case MT_OPTIONS_FAIL:
        exit_code = complain(&error, error.reason == MT_REASON_USAGE ? EX_USAGE : EX_CONFIG);
        break;
    default:
        exit_code = run(&daemon);
    }
    mt_queue_close(daemon.queue);
    mt_cleanup_fd(&daemon.wake_fd);
    free(daemon.state_folder);
    free(daemon.jobs_folder);
    free(daemon.models_folder);
    free(daemon.datasets_folder);
    free(daemon.hub_cache);
    free(daemon.lm_studio);
    free(daemon.ollama_store);
    free(daemon.worker_program);
    free(daemon.save_requests);
    mt_options_free(&daemon.options);
    return exit_code;
}
