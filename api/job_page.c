/* job_page.c: all that is known of a job: progress, curve, checkpoints, the end of its log, its document. */
#include "api/job_page.h"

#include "api/curve.h"
#include "api/html.h"
#include "api/job_files.h"
#include "api/rows.h"
#include "api/server.h"
#include "core/base/cleanup.h"

#include <string.h>

#define REFRESH_SECONDS 5
#define LOG_BYTES ((off_t)16 << 10)
#define MOST_CHECKPOINTS 50

static bool is_one_of(const json_t *job, const char *states)
{
    const char *state = json_string_value(json_object_get(job, "state"));
    return state && strstr(states, state);
}

/* What is not there is not shown. */
static void fact(struct mt_text *text, const json_t *object, const char *key, const char *name,
                 void (*write)(struct mt_text *text, const json_t *value))
{
    const json_t *value = json_object_get(object, key);
    if (value && !json_is_null(value))
        mt_html_fact(text, name, write, value);
}

static void facts(struct mt_text *text, const json_t *job)
{
    static const struct {
        const char *key, *name;
    } numbers[] = {{"loss", "loss"},
                   {"val_loss", "validation loss"},
                   {"learning_rate", "learning rate"},
                   {"grad_norm", "gradient norm"},
                   {"epoch", "epoch"},
                   {"tokens_per_second", "tokens/s"},
                   {"step_seconds", "seconds a step"},
                   {"trained_tokens", "tokens trained"},
                   {"skipped_steps", "steps skipped"}};
    const json_t *progress = json_object_get(job, "progress");
    mt_text_puts(text, "<div class=card>");
    mt_html_progress(text, job);
    mt_text_puts(text, "<dl>");
    fact(text, progress, "phase", "phase", mt_html_words);
    if (is_one_of(job, "running starting"))
        fact(text, progress, "eta_seconds", "left", mt_html_seconds);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        fact(text, progress, numbers[i].key, numbers[i].name, mt_html_number);
    fact(text, job, "device", "device", mt_html_words);
    fact(text, job, "attempt", "attempt", mt_html_number);
    fact(text, job, "priority", "priority", mt_html_number);
    fact(text, job, "created_at", "created (UTC)", mt_html_time);
    fact(text, job, "started_at", "started", mt_html_time);
    fact(text, job, "finished_at", "ended", mt_html_time);
    mt_text_puts(text, "</dl></div>\n");
}

static void fault(struct mt_text *text, const json_t *job)
{
    const json_t *error = json_object_get(job, "error"), *reason = json_object_get(job, "reason");
    if (!json_is_object(error) && !json_is_string(reason))
        return;
    mt_text_puts(text, json_is_object(error) ? "<div class=bad>" : "<div>");
    if (json_is_string(reason)) {
        mt_text_puts(text, "Reason: <code>");
        mt_html_words(text, reason);
        mt_text_puts(text, "</code> ");
    }
    mt_html_words(text, json_object_get(error, "message"));
    if (json_is_string(json_object_get(error, "detail"))) {
        mt_text_puts(text, "<pre>");
        mt_html_words(text, json_object_get(error, "detail"));
        mt_text_puts(text, "</pre>");
    }
    mt_text_puts(text, "</div>\n");
}

/* What the state allows, as commands: the page itself changes nothing. */
static void commands(struct mt_text *text, const json_t *job)
{
    static const struct {
        const char *states, *command;
    } known[] = {{"queued starting running", "pause"},
                 {"paused failed", "resume"},
                 {"queued starting running paused", "cancel"}};
    const char *separator = "<p>In a terminal: ";
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (!is_one_of(job, known[i].states))
            continue;
        mt_text_printf(text, "%s<code>megatrain %s ", separator, known[i].command);
        mt_html_words(text, json_object_get(job, "id"));
        mt_text_puts(text, "</code>");
        separator = " \xc2\xb7 ";
    }
    if (*separator == ' ')
        mt_text_puts(text, "</p>\n");
}

/* How to ask the model that a completed job has made. */
static void question(struct mt_text *text, const json_t *job, const char *folder)
{
    if (!is_one_of(job, "completed"))
        return;
    mt_text_puts(text, "<p>Ask it, in a terminal: <code>megatrain generate --model ");
    mt_text_html(text, folder);
    mt_text_puts(text, " --message '...'</code> (<code>--prompt</code> goes on from a text)</p>\n");
}

static void checkpoints(struct mt_text *text, const char *folder)
{
    mt_autojson json_t *list = mt_job_checkpoint_list(folder, MOST_CHECKPOINTS);
    size_t i;
    json_t *item;
    mt_text_puts(text, "<h2>Checkpoints</h2>\n");
    if (json_array_size(list) == 0) {
        mt_text_puts(text, "<p>None yet.</p>\n");
        return;
    }
    mt_text_puts(
        text, "<div class=t><table>\n<tr><th scope=col class=n>Step<th scope=col class=n>Loss<th scope=col "
              "class=n>Size<th scope=col>Folder</tr>\n");
    json_array_foreach(list, i, item)
    {
        mt_text_puts(text, "<tr><td class=n>");
        mt_html_number(text, json_object_get(item, "step"));
        mt_text_puts(text, "<td class=n>");
        mt_html_number(text, json_object_get(item, "loss"));
        mt_text_puts(text, "<td class=n>");
        mt_html_bytes(text, json_object_get(item, "bytes"));
        mt_text_puts(text, json_is_true(json_object_get(item, "verified")) ? "<td><code>"
                                                                           : "<td>(not whole) <code>");
        mt_html_words(text, json_object_get(item, "path"));
        mt_text_puts(text, "</code></tr>\n");
    }
    mt_text_puts(text, "</table></div>\n");
}

static void log_end(struct mt_text *text, const char *folder)
{
    struct mt_rows rows;
    struct mt_row row;
    size_t count = 0;
    mt_text_puts(text, "<h2>Log, its end</h2>\n");
    if (mt_rows_open(&rows, folder, "log.jsonl") == 0) {
        mt_rows_seek_tail(&rows, LOG_BYTES);
        for (; mt_rows_next(&rows, &row); count++) {
            mt_text_puts(text, count == 0 ? "<pre class=log>" : "");
            mt_html_words(text, json_object_get(row.value, "time"));
            mt_text_puts(text, "  ");
            mt_html_words(text, json_object_get(row.value, "level"));
            mt_text_puts(text, "  ");
            mt_html_words(text, json_object_get(row.value, "message"));
            mt_text_puts(text, "\n");
            json_decref(row.value);
        }
        mt_rows_close(&rows);
    }
    mt_text_puts(text, count > 0 ? "</pre>\n" : "<p>Nothing yet.</p>\n");
}

/* Not folded: a page that asks again by itself would close it under the reader's eyes. */
static void document(struct mt_text *text, const json_t *job)
{
    mt_autofree char *config =
        json_dumps(json_object_get(job, "config"), JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    mt_text_puts(text, "<h2>The job document, as it runs</h2>\n<pre>");
    mt_text_html(text, config ? config : "");
    mt_text_puts(text, "</pre>\n");
}

void mt_job_page(struct mt_request *request, const json_t *job)
{
    const struct mt_control *control = request->listener->api->control;
    mt_autofree char *folder = control->job_folder(control->context, request->path_value);
    const char *name = json_string_value(json_object_get(job, "name"));
    struct mt_text text = {0};
    mt_html_begin(&text, name ? name : request->path_value,
                  is_one_of(job, "queued starting running") ? REFRESH_SECONDS : 0);
    mt_text_puts(&text, "<p><a href=\"/\">All jobs</a></p>\n<h1>");
    mt_text_html(&text, name ? name : request->path_value);
    mt_text_puts(&text, " ");
    mt_html_state(&text, job);
    mt_text_puts(&text, "</h1>\n<p><code>");
    mt_text_html(&text, request->path_value);
    mt_text_puts(&text, "</code></p>\n");
    fault(&text, job);
    facts(&text, job);
    commands(&text, job);
    if (folder) {
        question(&text, job, folder);
        struct mt_text curve = {0};
        if (mt_curve_draw(&curve, folder, false)) {
            mt_text_puts(&text, "<h2>Loss</h2>\n");
            mt_text_append(&text, curve.data, curve.bytes);
            mt_text_puts(&text,
                         "<p><small>By step: training loss (blue), validation loss (orange).</small></p>\n");
        }
        mt_text_free(&curve);
        checkpoints(&text, folder);
        log_end(&text, folder);
    }
    document(&text, job);
    mt_html_reply(request, &text);
}
