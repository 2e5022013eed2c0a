/* page.c: what runs and waits, and all jobs, newest first, a page at a time. */
#include "api/page.h"

#include "api/html.h"
#include "api/problem.h"
#include "api/server.h"
#include "core/base/cleanup.h"

#include <string.h>

#define PAGE_JOBS 50
#define REFRESH_SECONDS 5

static const char *const states[] = {"running", "starting",  "queued",   "paused",
                                     "failed",  "completed", "cancelled"};

/* "?state=running&after=..." into a link; either may be NULL. */
static void link_begin(struct mt_text *text, const char *state, const char *after)
{
    mt_text_puts(text, "<a href=\"/");
    if (state)
        mt_text_printf(text, "?state=%s", state);
    if (after) {
        mt_text_puts(text, state ? "&amp;after=" : "?after=");
        mt_text_html(text, after);
    }
    mt_text_puts(text, "\">");
}

static void machine(struct mt_text *text, const json_t *snapshot)
{
    const json_t *memory = json_object_get(snapshot, "memory"), *disk = json_object_get(snapshot, "disk");
    mt_text_puts(text, "<p>Memory: ");
    mt_html_bytes(text, json_object_get(memory, "available_bytes"));
    mt_text_puts(text, " of ");
    mt_html_bytes(text, json_object_get(memory, "total_bytes"));
    mt_text_puts(text, " free. Disk of the state folder: ");
    mt_html_bytes(text, json_object_get(disk, "free_bytes"));
    mt_text_puts(text, " of ");
    mt_html_bytes(text, json_object_get(disk, "total_bytes"));
    mt_text_puts(text, " free.</p>\n");
}

static void choices(struct mt_text *text, const json_t *snapshot, const char *chosen)
{
    const json_t *counts = json_object_get(snapshot, "jobs");
    mt_text_puts(text, "<nav aria-label=\"jobs by state\">");
    link_begin(text, NULL, NULL);
    mt_text_puts(text, "all</a> ");
    for (size_t i = 0; i < sizeof states / sizeof states[0]; i++) {
        const json_int_t count = json_integer_value(json_object_get(counts, states[i]));
        if (count == 0 && (!chosen || strcmp(chosen, states[i]) != 0))
            continue;
        link_begin(text, states[i], NULL);
        mt_text_printf(text, "%s (%" JSON_INTEGER_FORMAT ")</a> ", states[i], count);
    }
    mt_text_puts(text, "</nav>\n");
}

static void name_link(struct mt_text *text, const json_t *job)
{
    const json_t *name = json_object_get(job, "name"), *id = json_object_get(job, "id");
    mt_text_puts(text, "<a href=\"/jobs/");
    mt_html_words(text, id);
    mt_text_puts(text, "\">");
    mt_html_words(text, json_is_string(name) ? name : id);
    mt_text_puts(text, "</a>");
}

static void running_card(struct mt_text *text, const json_t *job)
{
    const json_t *progress = json_object_get(job, "progress");
    mt_text_puts(text, "<div class=card><b>");
    name_link(text, job);
    mt_text_puts(text, "</b> ");
    mt_html_words(text, json_object_get(progress, "phase"));
    mt_text_puts(text, "<br>");
    mt_html_progress(text, job);
    mt_text_puts(text, "<dl>");
    mt_html_fact(text, "loss", mt_html_number, json_object_get(progress, "loss"));
    mt_html_fact(text, "tokens/s", mt_html_number, json_object_get(progress, "tokens_per_second"));
    mt_html_fact(text, "left", mt_html_seconds, json_object_get(progress, "eta_seconds"));
    mt_text_puts(text, "</dl></div>\n");
}

static void job_row(struct mt_text *text, const json_t *job)
{
    const json_t *progress = json_object_get(job, "progress"), *error = json_object_get(job, "error");
    mt_text_puts(text, "<tr><td>");
    name_link(text, job);
    if (json_is_object(error)) {
        mt_text_puts(text, "<br><small>");
        mt_html_words(text, json_object_get(error, "message"));
        mt_text_puts(text, "</small>");
    }
    mt_text_puts(text, "<td>");
    mt_html_state(text, job);
    mt_text_puts(text, "<td class=p>");
    mt_html_progress(text, job);
    mt_text_puts(text, "<td class=\"n w\">");
    mt_html_number(text, json_object_get(progress, "loss"));
    mt_text_puts(text, "<td class=\"n w\">");
    mt_html_time(text, json_object_get(job, "created_at"));
    mt_text_puts(text, "</tr>\n");
}

static void jobs_table(struct mt_text *text, const json_t *page, const char *state)
{
    size_t i;
    json_t *job, *jobs = json_object_get(page, "data");
    if (json_array_size(jobs) == 0) {
        mt_text_puts(text,
                     state ? "<p>No such jobs.</p>\n"
                           : "<p>No jobs yet. In a terminal: <code>megatrain submit job.yaml</code></p>\n");
        return;
    }
    mt_text_puts(text, "<div class=t><table>\n<tr><th scope=col>Job<th scope=col>State<th scope=col>Steps<th "
                       "scope=col class=\"n w\">Loss<th scope=col class=\"n w\">Created (UTC)</tr>\n");
    json_array_foreach(jobs, i, job)
    {
        job_row(text, job);
    }
    mt_text_puts(text, "</table></div>\n");
    const char *next = json_string_value(json_object_get(page, "next"));
    if (json_is_true(json_object_get(page, "has_more")) && next) {
        mt_text_puts(text, "<p>");
        link_begin(text, state, next);
        mt_text_puts(text, "Older ones</a></p>\n");
    }
}

/* One of the states that the query names, or NULL. */
static const char *state_of(const struct mt_request *request)
{
    const char *asked = mt_request_parameter(request, "state");
    for (size_t i = 0; asked && i < sizeof states / sizeof states[0]; i++) {
        if (strcmp(asked, states[i]) == 0)
            return states[i];
    }
    return NULL;
}

void mt_page(struct mt_request *request)
{
    struct mt_api *api = request->listener->api;
    struct mt_control_list_query query = {
        .limit = PAGE_JOBS, .state = state_of(request), .after = mt_request_parameter(request, "after")};
    mt_autojson json_t *page = NULL;
    struct mt_error error = {0};
    enum mt_control_result result = api->control->list(api->control->context, &query, &page, &error);
    if (result != MT_CONTROL_OK) {
        mt_problem_control(request, result, NULL, &error);
        return;
    }
    mt_autojson json_t *snapshot = api->control->snapshot(api->control->context);
    struct mt_text text = {0};
    mt_html_begin(&text, "MegaTrain", query.after ? 0 : REFRESH_SECONDS);
    mt_text_puts(&text, "<h1>MegaTrain ");
    mt_text_html(&text, api->version);
    mt_text_puts(&text, "</h1>\n");
    machine(&text, snapshot);
    size_t i;
    json_t *job, *running = json_object_get(snapshot, "running");
    if (json_array_size(running) > 0)
        mt_text_puts(&text, "<h2>Running</h2>\n");
    json_array_foreach(running, i, job)
    {
        running_card(&text, job);
    }
    mt_text_puts(&text, "<h2>Jobs</h2>\n");
    choices(&text, snapshot, query.state);
    jobs_table(&text, page, query.state);
    mt_text_puts(&text, "<p><small>For programs: <a href=\"/openapi.json\">the API</a>, <a "
                        "href=\"/metrics\">metrics</a>.</small></p>\n");
    mt_html_reply(request, &text);
}
