/* megatrain-worker: one process per running job, and short-lived ones for whatever else touches model or
 * data. docs/worker-protocol.md has what it says to its daemon. */
#include "core/base/log.h"
#include "core/base/pool.h"
#include "core/base/version.h"
#include "core/device/open.h"
#include "daemon/worker/tasks.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

static const char usage[] =
    "Usage: megatrain-worker --task train --job-dir DIR [--attempt N]\n"
    "       megatrain-worker --task probe < job.json\n"
    "       megatrain-worker --task plan|preview|models < question.json\n"
    "       megatrain-worker --task devices\n"
    "\n"
    "Runs one job for megatraind, which starts it; for training by hand use `megatrain train`.\n"
    "\n"
    "  --task NAME      train; probe: print what is wrong with the job's model and data, as JSON; plan: "
    "what\n"
    "                   the job takes; preview: what of its data is learned; devices: what this\n"
    "                   machine computes on; models: those that are on it\n"
    "  --job-dir DIR    the job's folder, with its job.json\n"
    "  --attempt N      which try of the job this is, from 1\n"
    "  --help           this text\n"
    "  --version        the version\n"
    "\n"
    "Descriptor 3, when it is a socket, leads to the daemon: JSON lines both ways.\n"
    "Exit: 0 done, 64 usage, 65 bad data or model, 70 failed, 74 input/output, 75 stopped and resumable, 78 "
    "bad job.\n";

static const struct option long_options[] = {
    {"task", required_argument, NULL, 't'},    {"job-dir", required_argument, NULL, 'j'},
    {"attempt", required_argument, NULL, 'a'}, {"help", no_argument, NULL, 'h'},
    {"version", no_argument, NULL, 'v'},       {NULL, 0, NULL, 0},
};

/* Descriptor 3 where the daemon put a socket there, else -1. */
static int daemon_socket(void)
{
    int type;
    socklen_t length = sizeof type;
    return getsockopt(3, SOL_SOCKET, SO_TYPE, &type, &length) == 0 ? 3 : -1;
}

int main(int argc, char **argv)
{
    const char *task = NULL;
    struct mt_worker_options options = {.attempt = 0};
    mt_blas_start_alone(argv);
    for (int option; (option = getopt_long(argc, argv, "", long_options, NULL)) != -1;) {
        char *end = NULL;
        switch (option) {
        case 't':
            task = optarg;
            break;
        case 'j':
            options.job_folder = optarg;
            break;
        case 'a':
            options.attempt = (unsigned)strtoul(optarg, &end, 10);
            if (*end != '\0' || options.attempt == 0) {
                fprintf(stderr, "megatrain-worker: --attempt takes a number from 1, not '%s'\n", optarg);
                return mt_reason_exit_code(MT_REASON_USAGE);
            }
            break;
        case 'h':
            fputs(usage, stdout);
            return 0;
        case 'v':
            puts("megatrain-worker " MT_VERSION);
            return 0;
        default:
            fputs(usage, stderr);
            return mt_reason_exit_code(MT_REASON_USAGE);
        }
    }
    bool train = task && strcmp(task, "train") == 0;
    if (!task || (train && !options.job_folder) || optind != argc) {
        fputs(usage, stderr);
        return mt_reason_exit_code(MT_REASON_USAGE);
    }
    if (strcmp(task, "probe") == 0)
        return mt_worker_probe();
    if (strcmp(task, "plan") == 0)
        return mt_worker_plan();
    if (strcmp(task, "preview") == 0)
        return mt_worker_preview();
    if (strcmp(task, "devices") == 0)
        return mt_worker_devices();
    if (strcmp(task, "models") == 0)
        return mt_worker_models();
    if (!train) {
        fprintf(stderr,
                "megatrain-worker: the task '%s' is not supported yet; known: train, probe, plan, preview, "
                "devices, models\n",
                task);
        return mt_reason_exit_code(MT_REASON_USAGE);
    }
    struct mt_error error = {0};
    if (mt_link_open(daemon_socket(), &options.link, &error) < 0) {
        mt_log(LOG_ERR, "%s", error.message);
        return mt_reason_exit_code(error.reason);
    }
    options.pool = mt_pool_new(0);
    int code = options.pool ? mt_worker_train(&options) : mt_reason_exit_code(MT_REASON_OUT_OF_MEMORY);
    mt_pool_free(options.pool);
    mt_link_close(options.link);
    return code;
}
