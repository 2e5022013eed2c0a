/* `megatrain submit`: a job document to the daemon. */
#include "core/base/cleanup.h"
#include "core/base/id.h"
#include "daemon/cli/cli.h"
#include "daemon/cli/client.h"
#include "daemon/cli/job_file.h"
#include "daemon/cli/watch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char help[] =
    "Usage: megatrain submit JOB [--set KEY=VALUE]... [--data-path PATH] [--wait] [--json]\n"
    "\n"
    "Gives a job (YAML, or JSON when its name ends in .json; - reads standard input) to the daemon and "
    "prints its\n"
    "id. Relative paths are relative to the current directory. Every error in the document is reported at "
    "once,\n"
    "with its line.\n"
    "\n"
    "  --set KEY=VALUE          sets a key, as --set training.learning_rate=3e-4; repeatable\n"
    "  --data-path PATH         trains on this file or folder instead of what the job names\n"
    "  --wait                   follows the job to its end, as `megatrain watch` does\n"
    "  --idempotency-key KEY    a word of yours: the same job submitted with it again is the first one\n"
    "  --json                   prints the whole job object\n"
    "\n"
    "Exit: 0 accepted (with --wait: as watch), 64 usage, 69 the daemon does not answer, 77 it wants another\n"
    "token, 78 the job is wrong.\n"
    "\n"
    "  megatrain submit job.yaml --set name=second-try --set training.max_steps=200\n";

struct submission {
    struct mt_job_file job;
    const char *key;
    bool wait, as_json;
};

/* The server's 422: {"errors": [{"pointer", "detail", "suggestion"?}]}, with the lines of our file. */
static int complain_about_errors(const struct mt_response *response, const struct submission *submission,
                                 const struct mt_lines *lines)
{
    const json_t *errors = json_object_get(response->json, "errors");
    struct mt_job_errors list = {0};
    size_t count = json_array_size(errors);
    if (response->status != 422 || count == 0)
        return mt_client_complain(response);
    list.items = calloc(count, sizeof *list.items);
    for (size_t i = 0; list.items && i < count; i++) {
        const json_t *error = json_array_get(errors, i);
        const char *pointer = json_string_value(json_object_get(error, "pointer"));
        const char *detail = json_string_value(json_object_get(error, "detail"));
        list.items[list.count++] =
            (struct mt_job_error){.pointer = pointer ? pointer : "",
                                  .detail = detail ? detail : "",
                                  .line = mt_lines_find_around(lines, pointer ? pointer : ""),
                                  .reason = MT_REASON_BAD_JOB};
    }
    int code = mt_job_file_complain(&submission->job, lines, &list);
    mt_job_errors_free(&list);
    return code ? code : 78;
}

static int send_job(struct mt_client *client, const struct submission *submission, const json_t *document,
                    const struct mt_lines *lines)
{
    struct mt_response response = {0};
    struct mt_error error = {0};
    char key[MT_ID_BYTES];
    mt_id_new(key);
    const struct mt_request request = {.method = "POST",
                                       .path = "/jobs",
                                       .body = document,
                                       .idempotency_key = submission->key ? submission->key : key};
    /* With the key, asking again after a lost answer cannot make a second job. */
    int result = mt_client_send(client, &request, &response, &error);
    if (result == -ECONNREFUSED) {
        sleep(1);
        result = mt_client_send(client, &request, &response, &error);
    }
    if (result < 0)
        return mt_cli_fail(&error);
    const char *id = json_string_value(json_object_get(response.json, "id"));
    int code = response.status >= 300 ? complain_about_errors(&response, submission, lines) : 0;
    if (code == 0 && !id) {
        mt_cli_complain("the answer from %s is not a job; is that megatraind?", mt_client_url(client));
        code = 70;
    }
    if (code == 0 && submission->as_json) {
        char *text = json_dumps(response.json, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
        puts(text ? text : "");
        free(text);
    } else if (code == 0) {
        puts(id);
    }
    fflush(stdout);
    if (code == 0 && submission->wait)
        code = mt_cli_watch_job(client, id, MT_WATCH_PATIENCE_SECONDS);
    mt_response_free(&response);
    return code;
}

/* The document with absolute paths and a name. */
static int prepare(const struct submission *submission, json_t **document, struct mt_lines **lines)
{
    struct mt_error error = {0};
    bool is_stdin = strcmp(submission->job.file, "-") == 0;
    struct mt_job_file from = submission->job;
    if (is_stdin)
        from.file = "/dev/stdin";
    int code = mt_job_file_document(&from, document, lines);
    if (code)
        return code;
    if (mt_job_make_absolute(*document, &error) < 0)
        return mt_cli_fail(&error);
    if (!is_stdin && json_is_object(*document) && !json_object_get(*document, "name")) {
        mt_autofree char *name = mt_job_file_name(submission->job.file);
        if (!name || json_object_set_new(*document, "name", json_string(name)) < 0)
            return 70;
    }
    return 0;
}

static int read_options(int argc, char **argv, struct submission *submission)
{
    static const struct option options[] = {
        MT_JOB_OPTIONS_CHANGES,           {"wait", no_argument, NULL, 'w'},
        {"json", no_argument, NULL, 'j'}, {"idempotency-key", required_argument, NULL, 'k'},
        {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};
    int code;
    for (int letter; (letter = mt_cli_option(argc, argv, "h", options)) != -1;) {
        switch (letter) {
        case 'k':
            if (!*optarg || strpbrk(optarg, "\r\n") || strlen(optarg) > 255)
                return mt_cli_usage(argv[0], "an idempotency key has 1 to 255 characters in one line");
            submission->key = optarg;
            break;
        case 'w':
            submission->wait = true;
            break;
        case 'j':
            submission->as_json = true;
            break;
        case 'h':
            fputs(help, stdout);
            return -1;
        default:
            code = mt_job_file_option(&submission->job, argv[0], letter, optarg);
            if (code)
                return code;
        }
    }
    if (optind + 1 != argc)
        return mt_cli_usage(argv[0], "give one job file");
    submission->job.file = argv[optind];
    return 0;
}

int mt_cli_submit(int argc, char **argv)
{
    struct submission submission = {.key = NULL};
    struct mt_error error = {0};
    struct mt_client *client;
    mt_autojson json_t *document = NULL;
    struct mt_lines *lines = NULL;
    int code = read_options(argc, argv, &submission);
    if (code || !submission.job.file)
        return code < 0 ? 0 : code;
    code = prepare(&submission, &document, &lines);
    if (code == 0 && mt_client_open(&client, &error) < 0) {
        code = mt_cli_fail(&error);
    } else if (code == 0) {
        code = send_job(client, &submission, document, lines);
        mt_client_close(client);
    }
    mt_lines_free(lines);
    return code;
}
