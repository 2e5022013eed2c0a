/* page.c: version, where the API is described, and the newest jobs, as plain HTML: no script, nothing from
 * elsewhere, and a policy that says so to the browser. */
#include "api/page.h"

#include "api/problem.h"
#include "api/server.h"
#include "core/base/cleanup.h"
#include "core/base/sha256.h"

#include <stdio.h>
#include <string.h>

#define PAGE_JOBS 50

static const char style[] =
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}"
    "table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:.3rem .6rem;"
    "border-bottom:1px solid "
    "#ccc}td.n{text-align:right;font-variant-numeric:tabular-nums}code{font-size:.9em}";

/* The policy names the one style sheet by its hash, so that no other style is taken. */
static void policy(char text[256])
{
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    struct mt_sha256 hash;
    uint8_t digest[33] = {0}; /* a multiple of three */
    char base64[45];
    mt_sha256_init(&hash);
    mt_sha256_update(&hash, style, sizeof style - 1);
    mt_sha256_final(&hash, digest);
    for (size_t i = 0; i < 11; i++) {
        unsigned group = (unsigned)digest[3 * i] << 16 | (unsigned)digest[3 * i + 1] << 8 | digest[3 * i + 2];
        for (size_t j = 0; j < 4; j++)
            base64[4 * i + j] = alphabet[group >> (18 - 6 * j) & 63];
    }
    base64[43] = '=';
    base64[44] = '\0';
    snprintf(text, 256,
             "default-src 'none'; style-src 'sha256-%s'; base-uri 'none'; form-action 'none'; "
             "frame-ancestors 'none'",
             base64);
}

static void cell(struct mt_text *text, const char *words)
{
    mt_text_puts(text, "<td>");
    mt_text_html(text, words ? words : "");
    mt_text_puts(text, "</td>");
}

static void number_cell(struct mt_text *text, const json_t *value)
{
    mt_text_puts(text, "<td class=n>");
    if (json_is_integer(value))
        mt_text_printf(text, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else if (json_is_real(value))
        mt_text_printf(text, "%.4g", json_real_value(value));
    mt_text_puts(text, "</td>");
}

static void job_row(struct mt_text *text, const json_t *job)
{
    const json_t *progress = json_object_get(job, "progress");
    const char *id = json_string_value(json_object_get(job, "id"));
    mt_text_puts(text, "<tr><td><a href=\"/jobs/");
    mt_text_html(text, id ? id : "");
    mt_text_puts(text, "\"><code>");
    mt_text_html(text, id ? id : "");
    mt_text_puts(text, "</code></a></td>");
    cell(text, json_string_value(json_object_get(job, "name")));
    cell(text, json_string_value(json_object_get(job, "state")));
    number_cell(text, json_object_get(progress, "step"));
    number_cell(text, json_object_get(progress, "max_steps"));
    number_cell(text, json_object_get(progress, "loss"));
    cell(text, json_string_value(json_object_get(job, "created_at")));
    mt_text_puts(text, "</tr>\n");
}

static void jobs_table(struct mt_text *text, const json_t *page)
{
    size_t i;
    json_t *job, *jobs = json_object_get(page, "data");
    if (json_array_size(jobs) == 0) {
        mt_text_puts(text, "<p>No jobs yet.</p>\n");
        return;
    }
    mt_text_puts(text, "<table>\n<tr><th>Job<th>Name<th>State<th>Step<th>of<th>Loss<th>Created</tr>\n");
    json_array_foreach(jobs, i, job)
    {
        job_row(text, job);
    }
    mt_text_puts(text, "</table>\n");
    if (json_is_true(json_object_get(page, "has_more")))
        mt_text_puts(text, "<p>Older ones: <a href=\"/jobs\">/jobs</a></p>\n");
}

void mt_page(struct mt_request *request)
{
    struct mt_api *api = request->listener->api;
    struct mt_control_list_query query = {.limit = PAGE_JOBS};
    mt_autojson json_t *page = NULL;
    struct mt_error error = {0};
    enum mt_control_result result = api->control->list(api->control->context, &query, &page, &error);
    if (result != MT_CONTROL_OK) {
        mt_problem_control(request, result, NULL, &error);
        return;
    }
    struct mt_text text = {0};
    mt_text_printf(&text,
                   "<!doctype html>\n<html lang=en>\n<head>\n<meta charset=utf-8>\n<title>MegaTrain</title>\n"
                   "<meta name=viewport content=\"width=device-width\">\n<style>%s</style>\n</head>\n<body>\n"
                   "<h1>MegaTrain ",
                   style);
    mt_text_html(&text, api->version);
    mt_text_puts(
        &text,
        "</h1>\n<p>The API is described in <a href=\"/openapi.json\">/openapi.json</a>; figures are at "
        "<a href=\"/metrics\">/metrics</a>.</p>\n<h2>Jobs</h2>\n");
    jobs_table(&text, page);
    mt_text_puts(&text, "</body>\n</html>\n");
    mt_reply_text(request, 200, "text/html; charset=utf-8", &text);
    char allowed[256];
    policy(allowed);
    mt_reply_header(request, "Content-Security-Policy", allowed);
    mt_reply_header(request, "Referrer-Policy", "no-referrer");
}
