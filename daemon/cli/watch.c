/* `megatrain watch`. */
#include "daemon/cli/watch.h"

#include "core/base/cleanup.h"
#include "core/base/time.h"
#include "daemon/cli/cli.h"
#include "daemon/cli/progress.h"
#include "daemon/cli/table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char help[] =
    "Usage: megatrain watch ID [--patience SECONDS]\n"
    "\n"
    "Follows a job to its end: a progress bar on a terminal, a line a step elsewhere. `last` stands for the "
    "newest\n"
    "job. A daemon that restarts meanwhile is waited for.\n"
    "\n"
    "  --patience SECONDS   how long to wait for a daemon that does not answer (120)\n"
    "\n"
    "Exit: 0 the job completed, 70 it failed, 1 it was cancelled, 75 it is paused and can be resumed,\n"
    "66 no such job, 69 the daemon does not answer.\n"
    "\n"
    "  megatrain watch $(megatrain submit job.yaml) && ./deploy.sh\n";

/* What is being followed. */
struct watch {
    struct mt_client *client;
    const char *path; /* "/jobs/<id>" */
    long patience_seconds;
    struct mt_progress progress;
    struct mt_progress_state shown;
    bool started; /* a first answer came */
    bool silent;  /* the daemon does not answer; said so */
    char state[32];
};

static double number_at(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static uint64_t count_at(const json_t *object, const char *key)
{
    json_int_t value = json_integer_value(json_object_get(object, key));
    return value > 0 ? (uint64_t)value : 0;
}

static void pause_for(double seconds)
{
    struct timespec time = {(time_t)seconds, (long)((seconds - floor(seconds)) * 1e9)};
    nanosleep(&time, NULL);
}

/* Asks until an answer comes or patience ends. 0, or the exit code. */
static int ask(struct watch *watch, const char *path, struct mt_response *response)
{
    const struct mt_request request = {.method = "GET", .path = path};
    double since = mt_time_monotonic();
    for (;;) {
        struct mt_error error = {0};
        int result = mt_client_send(watch->client, &request, response, &error);
        bool away = result == -ECONNREFUSED || (result == 0 && response->status == 503);
        if (result == 0 && !away && response->status < 300 && response->json) {
            if (watch->silent)
                mt_progress_line(&watch->progress, "The daemon answers again.");
            watch->silent = false;
            return 0;
        }
        if (!away || mt_time_monotonic() - since > (double)watch->patience_seconds) {
            mt_progress_end(&watch->progress);
            int code = MT_EXIT_UNAVAILABLE;
            if (result < 0)
                mt_cli_complain("%s", error.message);
            else
                code = mt_client_complain(response);
            mt_response_free(response);
            return code;
        }
        mt_response_free(response);
        if (!watch->silent)
            mt_progress_line(&watch->progress, "The daemon does not answer; trying again for %ld s.",
                             watch->patience_seconds);
        watch->silent = true;
        pause_for(1);
    }
}

static void show_row(struct watch *watch, const json_t *row)
{
    struct mt_progress_state *state = &watch->shown;
    state->step = count_at(row, "step");
    state->loss = number_at(row, "loss");
    state->learning_rate = number_at(row, "learning_rate");
    state->grad_norm = number_at(row, "grad_norm");
    state->val_loss = number_at(row, "val_loss");
    state->tokens_per_second = number_at(row, "tokens_per_second");
    if (!watch->progress.terminal)
        mt_progress_show(&watch->progress, state);
}

/* All rows since the last one shown. */
static int show_rows(struct watch *watch)
{
    for (;;) {
        struct mt_response response = {0};
        mt_autofree char *path = NULL;
        if (asprintf(&path, "%s/metrics?since_step=%llu", watch->path,
                     (unsigned long long)watch->shown.step) < 0) {
            path = NULL;
            return 70;
        }
        int code = ask(watch, path, &response);
        if (code)
            return code;
        const json_t *rows = json_object_get(response.json, "data");
        for (size_t i = 0; i < json_array_size(rows); i++)
            show_row(watch, json_array_get(rows, i));
        bool more = json_is_true(json_object_get(response.json, "has_more")) && json_array_size(rows) > 0;
        mt_response_free(&response);
        if (!more)
            return 0;
    }
}

static void show_state(struct watch *watch, const json_t *job, const char *state)
{
    const char *reason = json_string_value(json_object_get(job, "reason"));
    const char *message = json_string_value(json_object_get(json_object_get(job, "error"), "message"));
    char text[1024];
    if (strncmp(watch->state, state, sizeof watch->state - 1) == 0)
        return;
    snprintf(watch->state, sizeof watch->state, "%s", state);
    snprintf(text, sizeof text, "%s%s%s%s%s%s", state, reason ? " (" : "", reason ? reason : "",
             reason ? ")" : "", message ? ": " : "", message ? message : "");
    mt_text_make_safe(text, strlen(text), "");
    mt_progress_line(&watch->progress, "%s", text);
}

/* Negative while the job may still go on. */
static int exit_code_of(const char *state)
{
    static const struct {
        const char *state;
        int code;
    } ends[] = {{"completed", 0}, {"failed", 70}, {"cancelled", MT_EXIT_CONFLICT}, {"paused", 75}};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        if (strcmp(ends[i].state, state) == 0)
            return ends[i].code;
    }
    return -1;
}

static void begin(struct watch *watch, const json_t *job)
{
    const json_t *logging = json_object_get(json_object_get(job, "config"), "logging");
    uint64_t step = count_at(json_object_get(job, "progress"), "step");
    mt_progress_init(&watch->progress, stdout, count_at(logging, "log_interval"));
    watch->shown.step = step > 0 ? step - 1 : 0; /* what was before is in `megatrain logs` */
    watch->started = true;
}

/* One look at the job: -1 to go on, else the exit code. */
static int look(struct watch *watch)
{
    struct mt_response response = {0};
    int code = ask(watch, watch->path, &response);
    if (code)
        return code;
    if (!watch->started)
        begin(watch, response.json);
    const json_t *progress = json_object_get(response.json, "progress");
    const char *state = json_string_value(json_object_get(response.json, "state"));
    int end = exit_code_of(state ? state : "");
    watch->shown.max_steps = count_at(progress, "max_steps");
    watch->shown.eta_seconds = number_at(progress, "eta_seconds");
    watch->shown.phase = state;
    if (end < 0)
        show_state(watch, response.json, state ? state : "?");
    /* A run that goes on from a checkpoint may repeat steps that were shown. */
    if (count_at(progress, "step") < watch->shown.step)
        watch->shown.step = count_at(progress, "step");
    code = show_rows(watch);
    if (code == 0 && watch->progress.terminal)
        mt_progress_show(&watch->progress, &watch->shown);
    if (code == 0 && end >= 0) {
        mt_progress_end(&watch->progress);
        show_state(watch, response.json, state ? state : "?");
        const char *path =
            json_string_value(json_object_get(json_object_get(response.json, "last_checkpoint"), "path"));
        if (path)
            mt_progress_line(&watch->progress, "checkpoint %s", path);
        if (path && end == 0)
            mt_cli_tell_how_to_ask(stdout, path);
    }
    mt_response_free(&response);
    return code ? code : end;
}

int mt_cli_watch_job(struct mt_client *client, const char *id, long patience_seconds)
{
    struct watch watch = {.client = client, .patience_seconds = patience_seconds};
    int code = 0;
    mt_autofree char *path = mt_client_job_path(client, id, "", &code);
    if (!path)
        return code;
    watch.path = path;
    watch.shown = (struct mt_progress_state){.loss = NAN,
                                             .learning_rate = NAN,
                                             .grad_norm = NAN,
                                             .tokens_per_second = NAN,
                                             .eta_seconds = NAN,
                                             .val_loss = NAN};
    mt_progress_init(&watch.progress, stdout, 1);
    while ((code = look(&watch)) < 0)
        pause_for(0.5);
    mt_progress_end(&watch.progress);
    return code;
}

int mt_cli_watch(int argc, char **argv)
{
    static const struct option options[] = {
        {"patience", required_argument, NULL, 'p'}, {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};
    long patience = MT_WATCH_PATIENCE_SECONDS;
    for (int letter; (letter = mt_cli_option(argc, argv, "h", options)) != -1;) {
        if (letter == 'h')
            return fputs(help, stdout), 0;
        if (letter == '?' || !mt_cli_number("--patience", optarg, 0, 1000000, &patience))
            return 64;
    }
    if (optind + 1 != argc)
        return mt_cli_usage(argv[0], "give the id of one job");
    struct mt_error error = {0};
    struct mt_client *client;
    if (mt_client_open(&client, &error) < 0)
        return mt_cli_fail(&error);
    int code = mt_cli_watch_job(client, argv[optind], patience);
    mt_client_close(client);
    return code;
}
