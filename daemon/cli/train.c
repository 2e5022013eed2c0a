/* `megatrain train`: a job without a daemon. The run's folder holds what jobs/<id>/ holds under the daemon.
 */
#include "core/base/cleanup.h"
#include "core/base/file.h"
#include "core/base/log.h"
#include "core/base/pool.h"
#include "core/job/job.h"
#include "core/train/trainer.h"
#include "daemon/cli/cli.h"
#include "daemon/cli/job_file.h"
#include "daemon/cli/progress.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char usage[] =
    "Usage: megatrain train [--config] JOB [--data-path PATH] [--output-dir DIR] [--resume] [--set "
    "KEY=VALUE]...\n"
    "\n"
    "Trains the job of the file JOB (YAML or JSON; `megatrain schema` says what it may hold) in this "
    "process.\n"
    "DIR (by default runs/<name>) gets job.json, metrics.jsonl, log.jsonl and checkpoints/. Ctrl-C saves a\n"
    "checkpoint and stops; the same command with --resume goes on with the very same numbers.\n"
    "\n"
    "  --config JOB       the job document\n"
    "  --data-path PATH   a file or folder to train on, instead of the document's dataset\n"
    "  --output-dir DIR   where the run lives (--output is the same)\n"
    "  --resume           go on from the newest checkpoint in DIR\n"
    "  --set KEY=VALUE    a value of the document by its dotted key, as often as needed\n"
    "  --quiet            no progress\n"
    "  --trace FILE       what the device, the copies and the updates do and when, for Perfetto\n"
    "  --allow-download   fetches a model or data set of the hub that is not here (HF_ENDPOINT, HF_TOKEN)\n"
    "\n"
    "Examples:\n"
    "  megatrain train job.yaml\n"
    "  megatrain train --config config_test.yaml --data-path ./sample_data --output-dir ./test_run\n"
    "  megatrain train job.yaml --resume --set training.max_steps=500\n"
    "\n"
    "Exit: 0 completed, 64 usage, 65 bad data or model, 70 failed in training, 74 input/output, 75 stopped "
    "and\n"
    "resumable, 78 bad job document.\n";

enum {
    OPTION_OUTPUT_DIR = 256,
    OPTION_RESUME,
    OPTION_QUIET,
    OPTION_TRACE,
};

static const struct option long_options[] = {
    {"config", required_argument, NULL, MT_JOB_OPTION_CONFIG},
    {"output-dir", required_argument, NULL, OPTION_OUTPUT_DIR},
    {"output", required_argument, NULL, OPTION_OUTPUT_DIR},
    {"resume", no_argument, NULL, OPTION_RESUME},
    MT_JOB_OPTIONS_CHANGES,
    {"quiet", no_argument, NULL, OPTION_QUIET},
    {"trace", required_argument, NULL, OPTION_TRACE},
    {"allow-download", no_argument, NULL, MT_JOB_OPTION_ALLOW_DOWNLOAD},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

struct command {
    struct mt_job_file job; /* its file may be NULL: then, on a resume, the run's own */
    const char *output_dir, *trace;
    bool resume, quiet, help;
};

/* 0, or the exit code after a complaint. */
static int parse(int argc, char **argv, struct command *command)
{
    int code;
    for (int option; (option = mt_cli_option(argc, argv, "h", long_options)) != -1;) {
        switch (option) {
        case OPTION_OUTPUT_DIR:
            command->output_dir = optarg;
            break;
        case OPTION_RESUME:
            command->resume = true;
            break;
        case OPTION_TRACE:
            command->trace = optarg;
            break;
        case OPTION_QUIET:
            command->quiet = true;
            break;
        case 'h':
            command->help = true;
            return 0;
        default:
            code = mt_job_file_option(&command->job, "train", option, optarg);
            if (code)
                return code;
        }
    }
    if (optind < argc && !command->job.file)
        command->job.file = argv[optind++];
    if (optind < argc)
        return mt_cli_usage("train", "'%s' is one argument too many", argv[optind]);
    if (!command->job.file && !(command->resume && command->output_dir))
        return mt_cli_usage("train", "name a job document: megatrain train JOB");
    return 0;
}

/* --- the job ------------------------------------------------------------------------------------------- */

/* The document named, else, on a resume, the run's own; with what the command line changes in it. 0, or the
 * exit code after a complaint. */
static int read_job(const struct command *command, struct mt_job **job)
{
    mt_autofree char *own = command->job.file ? NULL : mt_path_join(command->output_dir, "job.json");
    struct mt_job_file from = command->job;
    if (!from.file)
        from.file = own;
    return mt_job_file_parse(&from, MT_JOB_RUN, NULL, job);
}

/* Collects the dotted keys whose values differ, as "training.learning_rate 1e-05 -> 0.0003". */
static void compare(const char *prefix, const json_t *old, const json_t *new, char *list, size_t list_bytes)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t) new, key, value)
    {
        char name[256];
        snprintf(name, sizeof name, "%s%s%s", prefix, prefix[0] ? "." : "", key);
        const json_t *before = json_object_get(old, key);
        if (json_is_object(value) && json_is_object(before)) {
            compare(name, before, value, list, list_bytes);
        } else if (!before || !json_equal((json_t *)(uintptr_t)before, value)) {
            mt_autofree char *was =
                before ? json_dumps(before, JSON_ENCODE_ANY | JSON_REAL_PRECISION(6)) : NULL;
            mt_autofree char *is = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(6));
            size_t used = strlen(list);
            snprintf(list + used, list_bytes - used, "%s%s %s -> %s", used > 0 ? ", " : "", name,
                     was ? was : "(absent)", is ? is : "?");
        }
    }
}

/* On a resume job.json is the truth. A document that says something else is refused, unless --set says it
 * aloud. */
static int resume_job(const struct command *command, const char *folder, struct mt_job **job,
                      struct mt_error *error)
{
    mt_autofree char *path = mt_path_join(folder, "job.json");
    if (!path)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory to read job.json");
    struct mt_job *saved = NULL;
    int result = mt_job_load(path, &saved, error);
    if (result < 0)
        return result;
    struct mt_job *asked = *job;
    if (asked && saved->training.micro_batch_size > 0 && asked->training.micro_batch_size == 0)
        mt_job_set_micro_batch_size(asked, saved->training.micro_batch_size);
    char changes[1024] = "";
    if (asked)
        compare("", mt_job_frozen(saved), mt_job_frozen(asked), changes, sizeof changes);
    if (changes[0] == '\0') {
        mt_job_free(asked);
        *job = saved;
        return 0;
    }
    mt_job_free(saved);
    if (command->job.num_sets == 0)
        return mt_error_set(
            error, -EINVAL, MT_REASON_BAD_JOB,
            "the document differs from the run in '%s': %s. A resumed run goes on with its own job.json; say "
            "what "
            "is to change with --set KEY=VALUE, or leave the document out: megatrain train --resume "
            "--output-dir %s",
            folder, changes, folder);
    fprintf(stderr, "megatrain train: the resumed run changes: %s\n", changes);
    return mt_job_save(asked, path, error);
}

static int no_run(const char *folder, struct mt_error *error)
{
    return mt_error_set(error, -ENOENT, MT_REASON_IO,
                        "there is no run in '%s' to go on with; without --resume one is started there",
                        folder);
}

/* One process a run: the lock goes with the process, however it ends. */
static int lock_folder(const char *folder, int *fd, struct mt_error *error)
{
    *fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*fd < 0 && errno == ENOENT)
        return no_run(folder, error);
    if (*fd < 0)
        return mt_error_set_errno(error, MT_REASON_IO, "cannot open the run's folder '%s'", folder);
    if (flock(*fd, LOCK_EX | LOCK_NB) != 0)
        return mt_error_set(error, -EBUSY, MT_REASON_USAGE, "another process is training in '%s'", folder);
    return 0;
}

/* Whether all that `folder` holds, if anything, comes from a run that ended before its first step: such as
 * one with a mistake in its data. That one may start again without --resume. */
static bool is_unused(const char *folder)
{
    mt_autofree char *metrics = mt_path_join(folder, "metrics.jsonl");
    mt_autofree char *checkpoints = mt_path_join(folder, "checkpoints");
    struct stat status;
    DIR *entries = opendir(folder);
    bool unused = entries && metrics && checkpoints && mt_folder_is_empty(checkpoints) &&
                  (stat(metrics, &status) != 0 || status.st_size == 0);
    for (const struct dirent *entry; unused && (entry = readdir(entries)) != NULL;) {
        static const char *const own[] = {".", "..", "job.json", "log.jsonl", "metrics.jsonl", "checkpoints"};
        size_t i = 0;
        while (i < sizeof own / sizeof *own && strcmp(own[i], entry->d_name) != 0)
            i++;
        unused = i < sizeof own / sizeof *own;
    }
    if (entries)
        closedir(entries);
    return unused;
}

static int place_job(const struct command *command, const char *folder, struct mt_job **job,
                     struct mt_error *error)
{
    mt_autofree char *saved = mt_path_join(folder, "job.json");
    if (command->resume && saved && !mt_path_exists(saved))
        return no_run(folder, error);
    if (command->resume)
        return resume_job(command, folder, job, error);
    if (!is_unused(folder))
        return mt_error_set(error, -ENOTEMPTY, MT_REASON_USAGE,
                            "the folder '%s' is not empty: --resume goes on with the run in it, --output-dir "
                            "names another one",
                            folder);
    return saved ? mt_job_save(*job, saved, error)
                 : mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory to write job.json");
}

/* --- listening ----------------------------------------------------------------------------------------- */

static atomic_llong asked_to_stop_at; /* milliseconds; 0: not asked */

/* Asked twice: the last checkpoint is what there is. Some programs send a signal to the process and to its
 * group (timeout, shells): what comes within a second of the first is the same request. */
static void on_stop(int signal_number)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    long long at = (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000 + 1, first = 0;
    if (!atomic_compare_exchange_strong(&asked_to_stop_at, &first, at) && at - first > 1000)
        _exit(128 + signal_number);
}

struct listener {
    struct mt_progress bar;
    bool quiet, told;
};

static enum mt_trainer_request on_poll(void *context)
{
    struct listener *listener = context;
    if (atomic_load(&asked_to_stop_at) == 0)
        return MT_TRAINER_GO_ON;
    if (!listener->told && !listener->quiet)
        mt_progress_line(&listener->bar, "stopping: a checkpoint is saved first (again: stop at once)");
    listener->told = true;
    return MT_TRAINER_STOP;
}

static void on_progress(void *context, const struct mt_trainer_progress *progress)
{
    struct listener *listener = context;
    const struct mt_step_row *row = progress->row;
    struct mt_progress_state state = {
        .phase = progress->phase,
        .step = progress->step,
        .max_steps = progress->max_steps,
        .loss = row ? row->loss : NAN,
        .learning_rate = row ? row->learning_rate : NAN,
        .grad_norm = row ? row->grad_norm : NAN,
        .tokens_per_second = row && row->step_seconds > 0 ? (double)row->tokens / row->step_seconds : NAN,
        .eta_seconds = progress->eta_seconds < 0 ? NAN : progress->eta_seconds,
        .val_loss = row && row->has_val_loss ? row->val_loss : NAN,
    };
    if (!listener->quiet)
        mt_progress_show(&listener->bar, &state);
}

static void on_log(void *context, int priority, const char *message)
{
    struct listener *listener = context;
    if (!listener->quiet && priority > LOG_ERR) /* what ends the run is printed once, at the end */
        mt_progress_line(&listener->bar, "%s%s", priority == LOG_WARNING ? "warning: " : "", message);
}

static int run(const struct command *command, struct mt_job *job, const char *folder, struct mt_error *error)
{
    struct listener listener = {.quiet = command->quiet};
    mt_progress_init(&listener.bar, stderr, job->logging.log_interval);
    struct mt_pool *pool = mt_pool_new(0);
    struct mt_trainer_options options = {
        .job = job,
        .folder = folder,
        .pool = pool,
        .trace = command->trace,
        .allow_download = command->job.allow_download,
        .hooks = {.context = &listener, .poll = on_poll, .progress = on_progress, .log = on_log},
    };
    struct mt_trainer_result end = {0};
    int result = pool ? mt_trainer_run(&options, &end, error)
                      : mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory for threads");
    mt_progress_end(&listener.bar);
    mt_pool_free(pool);
    if (result < 0)
        return result;
    if (end.end == MT_TRAINER_STOPPED)
        return mt_error_set(error, -EINTR, MT_REASON_INTERRUPTED,
                            "stopped at step %zu; go on with: megatrain train --resume --output-dir %s",
                            end.step, folder);
    mt_autofree char *final = mt_path_join(folder, "checkpoints/final");
    if (!command->quiet && final) {
        fprintf(stderr, "Completed %zu steps, loss %.4f. The model stands in %s. ", end.step, end.loss,
                final);
        mt_cli_tell_how_to_ask(stderr, final);
    }
    return 0;
}

int mt_cli_train(int argc, char **argv)
{
    struct command command = {0};
    int code = parse(argc, argv, &command);
    if (code != 0)
        return code;
    if (command.help) {
        fputs(usage, stdout);
        return 0;
    }
    struct sigaction action = {.sa_handler = on_stop, .sa_flags = SA_RESTART};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    /* A terminal that hangs up asks for a stop, too, unless nohup was told to ignore it; and a reader of the
     * progress who goes away (`| head`) does not end the run. */
    struct sigaction hangup;
    if (sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler == SIG_DFL)
        sigaction(SIGHUP, &action, NULL);
    signal(SIGPIPE, SIG_IGN);
    struct mt_job *job = NULL;
    bool asked = command.job.file || command.job.num_sets > 0 || command.job.data_path;
    if (asked && (code = read_job(&command, &job)) != 0)
        return code;
    struct mt_error error = {0};
    mt_autofd int lock = -1;
    mt_autofree char *folder =
        command.output_dir ? strdup(command.output_dir) : mt_path_join("runs", job ? job->name : ".");
    int result = folder ? 0 : mt_error_set(&error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory to start");
    if (result == 0 && !command.resume)
        result = mt_folder_create(folder, 0755, &error);
    if (result == 0)
        result = lock_folder(folder, &lock, &error);
    if (result == 0)
        result = place_job(&command, folder, &job, &error);
    if (result == 0 && job)
        result = run(&command, job, folder, &error);
    mt_job_free(job);
    return result < 0 ? mt_cli_fail(&error) : 0;
}
