/* `megatrain jobs`, `show`, `cancel`, `pause`, `resume`: what the daemon has, and what it shall do with it.
 */
#include "core/base/cleanup.h"
#include "core/base/time.h"
#include "core/queue/state.h"
#include "daemon/cli/cli.h"
#include "daemon/cli/client.h"
#include "daemon/cli/progress.h"
#include "daemon/cli/table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE 1000L

static const struct option no_options[] = {
    {"json", no_argument, NULL, 'j'}, {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};

static int print_json(const json_t *value)
{
    char *text = json_dumps(value, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
    if (text)
        puts(text);
    free(text);
    return text ? 0 : 70;
}

static const char *text_at(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

/* ---- jobs ---- */

static const char jobs_help[] =
    "Usage: megatrain jobs [--state STATE] [--limit N] [--json]\n"
    "\n"
    "Lists the daemon's jobs, newest first.\n"
    "\n"
    "  --state STATE   only queued, starting, running, paused, completed, failed or cancelled ones\n"
    "  --limit N       at most N (20)\n"
    "  --json          the job objects, as a JSON list\n"
    "\n"
    "  megatrain jobs --state running\n"
    "  megatrain jobs --limit 1000 --json | jq -r '.[] | select(.state == \"failed\") | .id'\n";

static void add_job(struct mt_table *table, const json_t *job)
{
    char step[48] = "-", loss[32] = "-", speed[40] = "-";
    const json_t *progress = json_object_get(job, "progress");
    const json_t *max_steps = json_object_get(progress, "max_steps");
    const json_t *tokens_per_second = json_object_get(progress, "tokens_per_second");
    if (json_is_integer(json_object_get(progress, "step")))
        snprintf(step, sizeof step, "%lld", (long long)json_integer_value(json_object_get(progress, "step")));
    if (json_integer_value(max_steps) > 0)
        snprintf(step + strlen(step), sizeof step - strlen(step), "/%lld",
                 (long long)json_integer_value(max_steps));
    if (json_is_number(json_object_get(progress, "loss")))
        snprintf(loss, sizeof loss, "%.4f", json_number_value(json_object_get(progress, "loss")));
    if (json_is_number(tokens_per_second))
        mt_progress_count(json_number_value(tokens_per_second), speed);
    const char *const cells[] = {
        text_at(job, "id"),        text_at(job, "name"), text_at(job, "state"), step, loss, speed,
        text_at(job, "created_at")};
    mt_table_add(table, cells);
}

/* "/jobs?limit=..&state=..&after=..", malloc'd. States are words, cursors go through as they are encoded. */
static char *list_path(const char *state, long limit, const char *after)
{
    char *path = NULL;
    if (asprintf(&path, "/jobs?limit=%ld%s%s%s%s", limit, state ? "&state=" : "", state ? state : "",
                 after ? "&after=" : "", after ? after : "") < 0)
        return NULL;
    return path;
}

/* All pages up to `limit` jobs, into `jobs`. */
static int fetch_jobs(struct mt_client *client, const char *state, long limit, json_t *jobs)
{
    char after[512] = "";
    for (;;) {
        long left = limit - (long)json_array_size(jobs);
        struct mt_response response = {0};
        mt_autofree char *path = list_path(state, left < PAGE ? left : PAGE, *after ? after : NULL);
        if (!path)
            return 70;
        const struct mt_request request = {.method = "GET", .path = path};
        int code = mt_client_call(client, &request, &response);
        if (code)
            return code;
        const char *next = text_at(response.json, "next");
        size_t before = json_array_size(jobs);
        json_array_extend(jobs, json_object_get(response.json, "data"));
        bool more = json_is_true(json_object_get(response.json, "has_more")) && next &&
                    strlen(next) < sizeof after &&
                    strspn(next, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~%=") ==
                        strlen(next) &&
                    json_array_size(jobs) > before;
        if (more)
            strcpy(after, next);
        mt_response_free(&response);
        if (!more || (long)json_array_size(jobs) >= limit)
            return 0;
    }
}

static void print_jobs(const json_t *jobs)
{
    struct mt_table table = {.num_columns = 7,
                             .titles = {"ID", "NAME", "STATE", "STEP", "LOSS", "TOKENS/S", "CREATED"}};
    for (size_t i = 0; i < json_array_size(jobs); i++)
        add_job(&table, json_array_get(jobs, i));
    if (table.num_rows)
        mt_table_print(&table, stdout);
    else
        puts("No jobs.");
    mt_table_free(&table);
}

static bool is_state(const char *text)
{
    return mt_queue_state_parse(text) >= 0;
}

int mt_cli_jobs(int argc, char **argv)
{
    static const struct option options[] = {{"state", required_argument, NULL, 's'},
                                            {"limit", required_argument, NULL, 'n'},
                                            {"json", no_argument, NULL, 'j'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    const char *state = NULL;
    long limit = 20;
    bool as_json = false;
    for (int letter; (letter = mt_cli_option(argc, argv, "hn:", options)) != -1;) {
        if (letter == 'h')
            return fputs(jobs_help, stdout), 0;
        if (letter == '?' || (letter == 'n' && !mt_cli_number("--limit", optarg, 1, 1000000, &limit)))
            return 64;
        if (letter == 's')
            state = optarg;
        as_json |= letter == 'j';
    }
    if (optind < argc)
        return mt_cli_usage(argv[0], "unexpected argument \"%s\"", argv[optind]);
    if (state && !is_state(state))
        return mt_cli_usage(
            argv[0],
            "\"%s\" is no state; the states are queued, starting, running, paused, completed, "
            "failed and cancelled",
            state);
    struct mt_error error = {0};
    struct mt_client *client;
    mt_autojson json_t *jobs = json_array();
    if (!jobs || mt_client_open(&client, &error) < 0)
        return mt_cli_fail(&error);
    int code = fetch_jobs(client, state, limit, jobs);
    mt_client_close(client);
    if (code)
        return code;
    if (as_json)
        return print_json(jobs);
    print_jobs(jobs);
    return 0;
}

/* ---- show ---- */

static const char show_help[] = "Usage: megatrain show ID [--json]\n"
                                "\n"
                                "Shows one job. `last` stands for the newest one.\n"
                                "\n"
                                "  --json   the job object, with the frozen document in `config`\n";

static void print_line(const char *name, const char *value)
{
    char *copy = value ? strdup(value) : NULL;
    if (!copy)
        return;
    mt_text_make_safe(copy, strlen(copy), "");
    printf("%-13s %s\n", name, copy);
    free(copy);
}

static void print_progress(const json_t *progress)
{
    char text[160], count[40], duration[32];
    const json_t *loss = json_object_get(progress, "loss"), *eta = json_object_get(progress, "eta_seconds");
    json_int_t step = json_integer_value(json_object_get(progress, "step"));
    json_int_t max_steps = json_integer_value(json_object_get(progress, "max_steps"));
    snprintf(text, sizeof text, "%lld%s%.0lld", (long long)step, max_steps ? " of " : "",
             (long long)max_steps);
    print_line("step", text);
    if (json_is_number(loss)) {
        snprintf(text, sizeof text, "%.6f", json_number_value(loss));
        print_line("loss", text);
    }
    if (json_is_number(json_object_get(progress, "tokens_per_second"))) {
        snprintf(text, sizeof text, "%s tokens/s",
                 mt_progress_count(json_number_value(json_object_get(progress, "tokens_per_second")), count));
        print_line("speed", text);
    }
    if (json_is_number(eta) && step < max_steps)
        print_line("ETA", mt_time_duration(json_number_value(eta), duration));
}

static void print_job(const json_t *job)
{
    static const char *const before[] = {"id", "name", "state", "reason"};
    static const char *const after[] = {"device", "created_at", "started_at", "finished_at"};
    const json_t *error = json_object_get(job, "error"), *labels = json_object_get(job, "labels"), *value;
    const char *key;
    for (size_t i = 0; i < sizeof before / sizeof *before; i++)
        print_line(before[i], text_at(job, before[i]));
    print_line("error", text_at(error, "message"));
    print_line("", text_at(error, "detail"));
    if (json_is_object(json_object_get(job, "progress")))
        print_progress(json_object_get(job, "progress"));
    for (size_t i = 0; i < sizeof after / sizeof *after; i++)
        print_line(after[i], text_at(job, after[i]));
    print_line("checkpoint", text_at(json_object_get(job, "last_checkpoint"), "path"));
    json_object_foreach((json_t *)(uintptr_t)labels, key, value)
    {
        char text[400];
        snprintf(text, sizeof text, "%s: %s", key, json_string_value(value) ? json_string_value(value) : "");
        print_line("label", text);
    }
}

int mt_cli_show(int argc, char **argv)
{
    bool as_json = false;
    for (int letter; (letter = mt_cli_option(argc, argv, "h", no_options)) != -1;) {
        if (letter == 'h')
            return fputs(show_help, stdout), 0;
        if (letter == '?')
            return 64;
        as_json |= letter == 'j';
    }
    if (optind + 1 != argc)
        return mt_cli_usage(argv[0], "give the id of one job");
    struct mt_error error = {0};
    struct mt_client *client;
    struct mt_response response = {0};
    int code = 0;
    if (mt_client_open(&client, &error) < 0)
        return mt_cli_fail(&error);
    mt_autofree char *path = mt_client_job_path(client, argv[optind], "", &code);
    const struct mt_request request = {.method = "GET", .path = path};
    if (path && (code = mt_client_call(client, &request, &response)) == 0) {
        if (as_json)
            code = print_json(response.json);
        else
            print_job(response.json);
    }
    mt_response_free(&response);
    mt_client_close(client);
    return code;
}

/* ---- pause, resume, checkpoint, cancel, delete ---- */

/* What one of the actions asks of the daemon, and its help. */
struct action {
    const char *help, *method, *rest;
};

static int act_on(struct mt_client *client, const char *id, const struct action *action, bool as_json)
{
    struct mt_response response = {0};
    int code = 0;
    mt_autofree char *path = mt_client_job_path(client, id, action->rest, &code);
    if (!path)
        return code;
    const struct mt_request request = {.method = action->method, .path = path};
    code = mt_client_call(client, &request, &response);
    if (code == 0 && response.status == 204) {
        if (!as_json)
            printf("%s deleted\n", path + strlen("/jobs/"));
    } else if (code == 0 && as_json) {
        code = print_json(response.json);
    } else if (code == 0) {
        const char *state = text_at(response.json, "state"), *name = text_at(response.json, "id");
        const char *requested = text_at(response.json, "requested");
        printf("%s %s%s%s%s\n", name ? name : id, state ? state : "?", requested ? " (" : "",
               requested ? requested : "", requested ? " requested)" : "");
    }
    mt_response_free(&response);
    return code;
}

static int act(int argc, char **argv, const struct action *action)
{
    bool as_json = false;
    for (int letter; (letter = mt_cli_option(argc, argv, "h", no_options)) != -1;) {
        if (letter == 'h')
            return fputs(action->help, stdout), 0;
        if (letter == '?')
            return 64;
        as_json |= letter == 'j';
    }
    if (optind == argc)
        return mt_cli_usage(argv[0], "give the id of a job");
    struct mt_error error = {0};
    struct mt_client *client;
    int worst = 0;
    if (mt_client_open(&client, &error) < 0)
        return mt_cli_fail(&error);
    for (int i = optind; i < argc; i++) {
        int code = act_on(client, argv[i], action, as_json);
        worst = code ? code : worst;
    }
    mt_client_close(client);
    return worst;
}

int mt_cli_cancel(int argc, char **argv)
{
    static const struct action action = {"Usage: megatrain cancel ID... [--json]\n"
                                         "\n"
                                         "Ends jobs for good. A running one saves a checkpoint first.\n"
                                         "Exit: 0, 1 when a job's state forbids it, 66 no such job.\n",
                                         "POST", "/cancel"};
    return act(argc, argv, &action);
}

int mt_cli_pause(int argc, char **argv)
{
    static const struct action action = {
        "Usage: megatrain pause ID... [--json]\n"
        "\n"
        "Saves a checkpoint, ends the worker and frees the device; `megatrain resume` "
        "goes on from there.\n"
        "Exit: 0, 1 when a job's state forbids it, 66 no such job.\n",
        "POST", "/pause"};
    return act(argc, argv, &action);
}

int mt_cli_resume(int argc, char **argv)
{
    static const struct action action = {
        "Usage: megatrain resume ID... [--json]\n"
        "\n"
        "Queues paused or failed jobs again; they go on from their last checkpoint.\n"
        "Exit: 0, 1 when a job's state forbids it, 66 no such job.\n",
        "POST", "/resume"};
    return act(argc, argv, &action);
}

int mt_cli_checkpoint(int argc, char **argv)
{
    static const struct action action = {"Usage: megatrain checkpoint ID... [--json]\n"
                                         "\n"
                                         "Has running jobs save a checkpoint now, and go on.\n"
                                         "Exit: 0, 1 when a job's state forbids it, 66 no such job.\n",
                                         "POST", "/checkpoint"};
    return act(argc, argv, &action);
}

int mt_cli_delete(int argc, char **argv)
{
    static const struct action action = {
        "Usage: megatrain delete ID...\n"
        "\n"
        "Removes jobs that have ended, with all their files: checkpoints and the finished model, too.\n"
        "Exit: 0, 1 when a job's state forbids it, 66 no such job.\n",
        "DELETE", ""};
    return act(argc, argv, &action);
}
