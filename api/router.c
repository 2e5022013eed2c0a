/* router.c: the table, and the way of a request through it. See router.h. */
#include "api/router.h"

#include "api/asks.h"
#include "api/auth.h"
#include "api/curve.h"
#include "api/datasets.h"
#include "api/job_files.h"
#include "api/jobs.h"
#include "api/machine.h"
#include "api/metrics.h"
#include "api/openapi.h"
#include "api/page.h"
#include "api/plans.h"
#include "api/probes.h"
#include "api/problem.h"
#include "api/server.h"
#include "core/base/cleanup.h"
#include "core/base/document.h"
#include "core/base/id.h"
#include "core/base/nearest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- the table ---- */

static const char *const job_states[] = {"queued",    "starting", "running",   "paused",
                                         "completed", "failed",   "cancelled", NULL};

static const struct mt_route_parameter list_parameters[] = {
    {.name = "state", .summary = "only jobs in this state", .words = job_states},
    {.name = "limit",
     .summary = "jobs a page",
     .type = MT_PARAMETER_INTEGER,
     .minimum = 1,
     .maximum = 1000,
     .standard = 100},
    {.name = "after", .summary = "the `next` of the page before"},
    {0}};

static const struct mt_route_parameter metrics_parameters[] = {
    {.name = "since_step",
     .summary = "only rows with a step greater than this",
     .type = MT_PARAMETER_INTEGER,
     .minimum = 0,
     .maximum = INT64_MAX},
    {.name = "limit",
     .summary = "rows a page",
     .type = MT_PARAMETER_INTEGER,
     .minimum = 1,
     .maximum = 10000,
     .standard = 1000},
    {0}};

static const struct mt_route_parameter log_parameters[] = {
    {.name = "limit",
     .summary = "rows a page; of no effect on plain text and with follow",
     .type = MT_PARAMETER_INTEGER,
     .minimum = 1,
     .maximum = 10000,
     .standard = 1000},
    {.name = "after", .summary = "the `next` of the page before"},
    {.name = "follow",
     .summary = "go on with new lines until the job ends: plain lines, or one JSON object a line",
     .type = MT_PARAMETER_SWITCH},
    {0}};

static const struct mt_route_parameter plan_parameters[] = {
    {.name = "gpu_memory", .summary = "plan for a GPU with so much memory, as 24G"},
    {.name = "host_memory", .summary = "host memory that the job may use, as 128G"},
    {.name = "bus_gbps", .summary = "copies between host and device, each direction, 1e9 bytes a second"},
    {.name = "bus_latency_us", .summary = "added to each copy, microseconds"},
    {.name = "device_tflops", .summary = "matrix products that the device reaches, 1e12 a second"},
    {.name = "device_gbps", .summary = "the device's own memory, 1e9 bytes a second"},
    {.name = "dram_gbps", .summary = "the host's memory, 1e9 bytes a second"},
    {0}};

static const struct mt_route_parameter preview_parameters[] = {
    {.name = "show",
     .summary = "samples to show, the first ones",
     .type = MT_PARAMETER_INTEGER,
     .minimum = 0,
     .maximum = 100,
     .standard = 3},
    {.name = "rows",
     .summary = "rows to read at most, the first ones",
     .type = MT_PARAMETER_INTEGER,
     .minimum = 1,
     .maximum = 100000,
     .standard = 2000},
    {0}};

#define JOB_ANSWER(code, words)                                                                              \
    {                                                                                                        \
        .status = (code), .schema = "Job", .summary = (words)                                                \
    }
#define PROBLEM_ANSWER(code, words)                                                                          \
    {                                                                                                        \
        .status = (code), .schema = "Problem", .summary = (words)                                            \
    }
#define ACTION(name, function, words)                                                                        \
    {                                                                                                        \
        .method = "POST", .pattern = "/jobs/{id}/" name, .handler = (function), .flags = MT_ROUTE_NO_BODY,   \
        .summary = (words), .answers = {                                                                     \
            JOB_ANSWER(202, "accepted; the job as it is now"),                                               \
            PROBLEM_ANSWER(409, "the job's state does not allow it")                                         \
        }                                                                                                    \
    }
#define NOT_BUILT(verb, path, words)                                                                         \
    {                                                                                                        \
        .method = (verb), .pattern = (path), .flags = MT_ROUTE_NOT_BUILT | MT_ROUTE_ANY_QUERY,               \
        .summary = (words)                                                                                   \
    }

static const struct mt_route routes[] = {
    {.method = "POST",
     .pattern = "/jobs",
     .handler = mt_jobs_submit,
     .flags = MT_ROUTE_BODY | MT_ROUTE_IDEMPOTENT | MT_ROUTE_WAITS | MT_ROUTE_KEEPS,
     .summary = "Submit a job. It is on disk when 201 comes back.",
     .body_schema = "JobDocument",
     .answers = {JOB_ANSWER(201, "the job; its address is in Location"),
                 PROBLEM_ANSWER(409, "the Idempotency-Key came before with another body"),
                 PROBLEM_ANSWER(507, "the disk is full; nothing was accepted")}},
    {.method = "GET",
     .pattern = "/jobs",
     .handler = mt_jobs_list,
     .summary = "List jobs, newest first.",
     .parameters = list_parameters,
     .answers = {{.status = 200, .schema = "JobList", .summary = "a page of jobs"}}},
    {.method = "GET",
     .pattern = "/jobs/{id}",
     .handler = mt_jobs_show,
     .summary = "Show one job; a page for Accept: text/html.",
     .answers = {JOB_ANSWER(200, "the job"), {.status = 200, .type = "text/html", .summary = "for people"}}},
    {.method = "DELETE",
     .pattern = "/jobs/{id}",
     .handler = mt_jobs_remove,
     .summary = "Remove a job that has ended, with its files.",
     .answers = {{.status = 204, .summary = "removed"}, PROBLEM_ANSWER(409, "the job has not ended")}},
    ACTION("cancel", mt_jobs_cancel, "Cancel a job; a checkpoint is saved first where a step has been made."),
    ACTION("pause", mt_jobs_pause, "Pause a job: save a checkpoint, end the worker, free the device."),
    ACTION("resume", mt_jobs_resume, "Queue a paused or failed job again, from its last checkpoint."),
    ACTION("checkpoint", mt_jobs_checkpoint, "Save a checkpoint of a running job now."),
    {.method = "GET",
     .pattern = "/jobs/{id}/metrics",
     .handler = mt_job_metrics,
     .summary = "The step series: one row a step.",
     .parameters = metrics_parameters,
     .answers = {{.status = 200, .schema = "StepList", .summary = "rows by step"}}},
    {.method = "GET",
     .pattern = "/jobs/{id}/logs",
     .handler = mt_job_logs,
     .summary = "The log, oldest line first; plain lines for Accept: text/plain.",
     .parameters = log_parameters,
     .answers = {{.status = 200, .schema = "LogList", .summary = "log rows"},
                 {.status = 200, .type = "text/plain", .summary = "one line a message"},
                 {.status = 200, .type = "application/x-ndjson", .summary = "with follow: one row a line"}}},
    {.method = "GET",
     .pattern = "/jobs/{id}/checkpoints",
     .handler = mt_job_checkpoints,
     .summary = "The checkpoints on disk, newest first.",
     .answers = {{.status = 200, .schema = "CheckpointList", .summary = "checkpoints"}}},
    {.method = "GET",
     .pattern = "/jobs/{id}/chart.svg",
     .handler = mt_job_chart,
     .summary = "The loss curve as a picture; 404 before the second step.",
     .answers = {{.status = 200, .type = "image/svg+xml", .summary = "the curve"}}},
    {.method = "POST",
     .pattern = "/plan",
     .handler = mt_plans_make,
     .flags = MT_ROUTE_BODY | MT_ROUTE_WAITS,
     .summary = "What a job would take of this or another machine, without running it.",
     .body_schema = "JobDocument",
     .parameters = plan_parameters,
     .answers = {{.status = 200, .schema = "Plan", .summary = "the plan, whether it fits or not"}}},
    {.method = "POST",
     .pattern = "/datasets/preview",
     .handler = mt_datasets_preview,
     .flags = MT_ROUTE_BODY | MT_ROUTE_WAITS,
     .alone = "another look at data is under way", /* each takes memory and all cores */
     .summary = "What of a job's data would be learned: samples, counts, what is dropped and why.",
     .body_schema = "JobDocument",
     .parameters = preview_parameters,
     .answers = {{.status = 200, .schema = "Preview", .summary = "the data as the job would train on it"}}},
    {.method = "GET",
     .pattern = "/devices",
     .handler = mt_devices_list,
     .flags = MT_ROUTE_WAITS,
     .summary = "What this machine computes on; what cannot be used says why.",
     .answers = {{.status = 200, .schema = "DeviceList", .summary = "the CPU, and each CUDA device"}}},
    {.method = "GET",
     .pattern = "/models",
     .handler = mt_models_list,
     .flags = MT_ROUTE_WAITS,
     .summary = "The models on this machine that jobs can name; what cannot be trained says why.",
     .answers = {{.status = 200,
                  .schema = "ModelList",
                  .summary = "models folder, hub cache, LM Studio, Ollama's store"}}},
    {.method = "GET",
     .pattern = "/metrics",
     .handler = mt_metrics,
     .flags = MT_ROUTE_ANY_QUERY,
     .summary = "Prometheus text, OpenMetrics, or a JSON snapshot, as Accept says.",
     .answers = {{.status = 200, .type = "text/plain", .summary = "Prometheus text 0.0.4"},
                 {.status = 200, .type = "application/openmetrics-text", .summary = "OpenMetrics 1.0.0"},
                 {.status = 200, .schema = "Snapshot", .summary = "the same as JSON"}}},
    {.method = "GET",
     .pattern = "/healthz",
     .handler = mt_probe_health,
     .flags = MT_ROUTE_OPEN | MT_ROUTE_ANY_QUERY,
     .summary = "Alive.",
     .answers = {{.status = 200, .schema = "Status", .summary = "alive"}}},
    {.method = "GET",
     .pattern = "/readyz",
     .handler = mt_probe_ready,
     .flags = MT_ROUTE_OPEN | MT_ROUTE_ANY_QUERY,
     .summary = "Ready to take and run jobs.",
     .answers = {{.status = 200, .schema = "Status", .summary = "ready"}, PROBLEM_ANSWER(503, "not ready")}},
    {.method = "GET",
     .pattern = "/version",
     .handler = mt_probe_version,
     .flags = MT_ROUTE_ANY_QUERY,
     .summary = "Which version this is.",
     .answers = {{.status = 200, .schema = "Version", .summary = "name and version"}}},
    {.method = "GET",
     .pattern = "/openapi.json",
     .handler = mt_openapi,
     .flags = MT_ROUTE_ANY_QUERY,
     .summary = "This document.",
     .answers = {{.status = 200, .schema = "Document", .summary = "OpenAPI 3.1"}}},
    {.method = "GET",
     .pattern = "/",
     .handler = mt_page,
     .flags = MT_ROUTE_ANY_QUERY,
     .summary = "A page for people: what runs, and all jobs.",
     .answers = {{.status = 200, .type = "text/html", .summary = "the page"}}},

    NOT_BUILT("GET", "/jobs/{id}/events", "the event stream of a job"),
    NOT_BUILT("GET", "/events", "the event stream"),
    NOT_BUILT("POST", "/jobs/{id}/export", "exporting over the API"),
    NOT_BUILT("GET", "/exports/{id}", "exporting over the API"),
    NOT_BUILT("GET", "/exports/{id}/files/{name}", "exporting over the API"),
    NOT_BUILT("GET", "/datasets", "listing data sets over the API"),
    NOT_BUILT("POST", "/datasets", "uploading a data set"),
    NOT_BUILT("DELETE", "/datasets/{name}", "removing a data set over the API"),
    {.method = "*",
     .pattern = "/v1/{rest}",
     .flags = MT_ROUTE_NOT_BUILT | MT_ROUTE_ANY_QUERY | MT_ROUTE_ANY_METHOD,
     .summary = "the OpenAI wire format"},
};

#define NUM_ROUTES (sizeof routes / sizeof routes[0])

const struct mt_route *mt_routes(size_t *count)
{
    *count = NUM_ROUTES;
    return routes;
}

/* ---- paths ---- */

/* Decodes one segment of a path; NULL for one that no resource has: malformed, or with a slash, a dot segment
 * or a control character hidden in its escapes. */
static char *decode_segment(const char *from, size_t bytes)
{
    char *decoded = mt_percent_decode(from, bytes, false);
    if (!decoded)
        return NULL;
    bool good = *decoded && strcmp(decoded, ".") != 0 && strcmp(decoded, "..") != 0;
    for (const char *c = decoded; *c; c++)
        good = good && (unsigned char)*c >= 0x20 && *c != 0x7f && *c != '/' && *c != '\\';
    if (good)
        return decoded;
    free(decoded);
    return NULL;
}

/* Whether a path fits a pattern; *id gets the (malloc'd) value of {id}, *name what another placeholder has.
 */
static bool path_fits(const char *pattern, const char *path, char **id)
{
    *id = NULL;
    if (strcmp(pattern, "/") == 0 || strcmp(path, "/") == 0)
        return strcmp(pattern, path) == 0;
    while (*pattern == '/' && *path == '/') {
        size_t wanted = strcspn(++pattern, "/"), given = strcspn(++path, "/");
        if (strncmp(pattern, "{rest}", wanted) == 0)
            return true;
        mt_autofree char *segment = decode_segment(path, given);
        if (!segment)
            return false;
        if (*pattern == '{') {
            if (strncmp(pattern, "{id}", wanted) == 0) {
                if (!mt_id_valid(segment))
                    return false;
                free(*id);
                *id = segment;
                segment = NULL;
            }
        } else if (strlen(segment) != wanted || memcmp(segment, pattern, wanted) != 0) {
            return false;
        }
        pattern += wanted;
        path += given;
    }
    return *pattern == '\0' && *path == '\0';
}

static bool method_fits(const struct mt_route *route, const char *method)
{
    return (route->flags & MT_ROUTE_ANY_METHOD) || strcmp(route->method, method) == 0 ||
           (strcmp(method, "HEAD") == 0 && strcmp(route->method, "GET") == 0);
}

/* Finds the route; otherwise `allow` lists the methods that the path has ("" for a path that nobody has). */
static const struct mt_route *find_route(struct mt_request *request, char allow[64])
{
    allow[0] = '\0';
    for (size_t i = 0; i < NUM_ROUTES; i++) {
        char *id = NULL;
        if (path_fits(routes[i].pattern, request->path, &id)) {
            if (method_fits(&routes[i], request->method)) {
                request->path_value = id;
                return &routes[i];
            }
            if (allow[0])
                strcat(allow, ", ");
            strcat(allow, strcmp(routes[i].method, "GET") == 0 ? "GET, HEAD" : routes[i].method);
        }
        free(id);
    }
    if (allow[0])
        strcat(allow, ", OPTIONS");
    return NULL;
}

/* ---- before the body ---- */

/* "application/json", with or without parameters; a charset must be UTF-8. */
static bool is_json(const char *content_type)
{
    static const char wanted[] = "application/json";
    if (!content_type || strncasecmp(content_type, wanted, sizeof wanted - 1) != 0)
        return false;
    const char *rest = content_type + sizeof wanted - 1;
    rest += strspn(rest, " \t");
    if (*rest != '\0' && *rest != ';')
        return false;
    const char *charset = strcasestr(rest, "charset=");
    if (!charset)
        return true;
    charset += strlen("charset=");
    charset += *charset == '"';
    return strncasecmp(charset, "utf-8", 5) == 0 || strncasecmp(charset, "us-ascii", 8) == 0;
}

static void admit_body(struct mt_request *request)
{
    const char *content_type = mt_request_header(request, "Content-Type");
    char shown[88];
    if (!(request->route->flags & MT_ROUTE_BODY) || is_json(content_type))
        return;
    if (content_type)
        mt_problem(request, 415, "The body must be JSON: send 'Content-Type: application/json', not '%s'.",
                   mt_request_show(content_type, shown));
    else
        mt_problem(request, 415, "The body must be JSON: send 'Content-Type: application/json'.");
}

void mt_router_admit(struct mt_request *request)
{
    char allow[64], shown[88];
    bool is_options = strcmp(request->method, "OPTIONS") == 0;
    request->route = find_route(request, allow);
    bool open_to_all = (request->route && (request->route->flags & MT_ROUTE_OPEN)) || is_options;
    if (!mt_auth_admits(request, open_to_all))
        return;
    if (is_options && (allow[0] || strcmp(request->path, "*") == 0)) {
        mt_reply_empty(request, 204);
        mt_reply_header(request, "Allow", allow[0] ? allow : "GET, HEAD, POST, DELETE, OPTIONS");
    } else if (!request->route && allow[0]) {
        mt_problem(request, 405, "'%s' is not possible here; possible are %s.",
                   mt_request_show(request->method, shown), allow);
        mt_reply_header(request, "Allow", allow);
    } else if (!request->route) {
        mt_problem(request, 404, "There is nothing at '%s'.", mt_request_show(request->path, shown));
    } else if (request->route->flags & MT_ROUTE_NOT_BUILT) {
        mt_problem(request, 501, "Not supported yet: %s.", request->route->summary);
    } else {
        admit_body(request);
    }
}

/* ---- query ---- */

static const struct mt_route_parameter *find_parameter(const struct mt_route *route, const char *name)
{
    for (const struct mt_route_parameter *known = route->parameters; known && known->name; known++) {
        if (strcmp(known->name, name) == 0)
            return known;
    }
    return NULL;
}

static const char *nearest_parameter(const struct mt_route *route, const char *name)
{
    const char *best = NULL;
    struct mt_nearest nearest = {name, 3};
    for (const struct mt_route_parameter *known = route->parameters; known && known->name; known++) {
        if (mt_nearest_is(&nearest, known->name))
            best = known->name;
    }
    return best;
}

static bool parse_switch(const char *value, long long *number)
{
    if (strcmp(value, "1") == 0 || strcmp(value, "true") == 0)
        *number = 1;
    else if (strcmp(value, "0") == 0 || strcmp(value, "false") == 0)
        *number = 0;
    else
        return false;
    return true;
}

static bool parse_integer(const struct mt_route_parameter *parameter, const char *value, long long *number)
{
    size_t digits = strspn(value, "0123456789");
    if (digits == 0 || value[digits] != '\0')
        return false;
    errno = 0;
    *number = strtoll(value, NULL, 10);
    return errno == 0 && *number >= parameter->minimum && *number <= parameter->maximum;
}

static void check_parameter(struct mt_request *request, const struct mt_parameter *given)
{
    const struct mt_route_parameter *known = find_parameter(request->route, given->name);
    char name[88], value[88];
    long long number;
    mt_request_show(given->name, name);
    mt_request_show(given->value, value);
    if (!known) {
        const char *near = nearest_parameter(request->route, given->name);
        mt_problem(request, 400, "There is no query parameter '%s' here%s%s%s", name,
                   near ? "; did you mean '" : "", near ? near : "", near ? "'?" : ".");
    } else if (known->type == MT_PARAMETER_INTEGER && !parse_integer(known, given->value, &number)) {
        mt_problem(request, 400, "'%s' must be a whole number from %lld to %lld, not '%s'.", name,
                   known->minimum, known->maximum, value);
    } else if (known->type == MT_PARAMETER_SWITCH && !parse_switch(given->value, &number)) {
        mt_problem(request, 400, "'%s' must be 0, 1, true or false, not '%s'.", name, value);
    } else if (known->words) {
        char words[128] = "";
        for (size_t i = 0; known->words[i]; i++) {
            if (strcmp(known->words[i], given->value) == 0)
                return;
            snprintf(words + strlen(words), sizeof words - strlen(words), "%s%s", i ? ", " : "",
                     known->words[i]);
        }
        mt_problem(request, 400, "'%s' must be one of %s, not '%s'.", name, words, value);
    }
}

/* Takes the query apart; answers 400 where it is malformed. */
static void parse_query(struct mt_request *request)
{
    bool strict = !(request->route->flags & MT_ROUTE_ANY_QUERY);
    const char *from = request->query;
    while (from && *from && !request->response) {
        size_t bytes = strcspn(from, "&");
        const char *equals = memchr(from, '=', bytes);
        size_t name_bytes = equals ? (size_t)(equals - from) : bytes;
        struct mt_parameter parameter = {
            .name = mt_percent_decode(from, name_bytes, true),
            .value = equals ? mt_percent_decode(equals + 1, bytes - name_bytes - 1, true) : strdup(""),
        };
        from += bytes + (from[bytes] == '&');
        bool keep = bytes > 0 && request->num_parameters < MT_REQUEST_MAX_PARAMETERS;
        if (!parameter.name || !parameter.value) {
            keep = false;
            if (strict)
                mt_problem(request, 400, "The query has a malformed percent escape or is not UTF-8.");
        } else if (bytes > 0 && mt_request_parameter(request, parameter.name)) {
            keep = false;
            char shown[88];
            if (strict)
                mt_problem(request, 400, "The query parameter '%s' was given more than once.",
                           mt_request_show(parameter.name, shown));
        } else if (bytes > 0 && strict) {
            check_parameter(request, &parameter);
        }
        if (keep) {
            request->parameters[request->num_parameters++] = parameter;
        } else {
            free(parameter.name);
            free(parameter.value);
        }
    }
}

long long mt_router_number(const struct mt_request *request, const char *name)
{
    const struct mt_route_parameter *known = find_parameter(request->route, name);
    const char *value = mt_request_parameter(request, name);
    long long number = known->standard;
    if (value && known->type == MT_PARAMETER_SWITCH)
        parse_switch(value, &number);
    else if (value)
        parse_integer(known, value, &number);
    return number;
}

/* ---- dispatch ---- */

static void check_no_body(struct mt_request *request)
{
    mt_autojson json_t *document = NULL;
    struct mt_error error = {0};
    if (request->body_bytes == 0)
        return;
    if (mt_json_parse(request->body, request->body_bytes, "request body", &document, &error) < 0)
        mt_problem(request, 400, "%s", error.message);
    else if (!json_is_object(document) || json_object_size(document) > 0)
        mt_problem(request, 400, "This call takes no body.");
}

bool mt_router_dispatch(struct mt_request *request)
{
    parse_query(request);
    if (!request->response && (request->route->flags & MT_ROUTE_BODY) && request->body_bytes == 0)
        mt_problem(request, 400, "The body is empty; it must be a JSON document.");
    if (!request->response && (request->route->flags & MT_ROUTE_NO_BODY))
        check_no_body(request);
    if (!request->response && (request->route->flags & MT_ROUTE_WAITS))
        return !mt_asks_take(request->listener->api->asks, request);
    if (!request->response)
        request->route->handler(request);
    return true;
}
