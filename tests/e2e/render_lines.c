/* Renders templates for tests that are written in Python. A line of standard input is an object with
 * `template`, `variables` and, if wanted, `now` (seconds since 1970, UTC) and `limits` (steps, memory_bytes,
 * output_bytes, depth); a line of standard output is `{"text", "spans", "spans_lost"}` or `{"error", "code",
 * "reason"}`. */
#include "core/base/cleanup.h"
#include "core/base/document.h"
#include "core/text/jinja/jinja.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t limit(const json_t *limits, const char *name, size_t otherwise)
{
    const json_t *value = json_object_get(limits, name);
    return value ? (size_t)json_integer_value(value) : otherwise;
}

static json_t *failure(const struct mt_error *error)
{
    const char *reason = mt_reason_name(error->reason);
    return json_pack("{s:s, s:s, s:s}", "error", error->message, "code", strerrorname_np(-error->code),
                     "reason", reason ? reason : "");
}

static json_t *success(const struct mt_jinja_output *output)
{
    json_t *spans = json_array();
    for (size_t i = 0; i < output->num_spans; i++)
        json_array_append_new(
            spans, json_pack("[I, I]", (json_int_t)output->spans[i].begin, (json_int_t)output->spans[i].end));
    return json_pack("{s:o, s:o, s:b}", "text", json_stringn(output->text.data, output->text.bytes), "spans",
                     spans, "spans_lost", output->spans_lost);
}

static json_t *render(const json_t *request, struct mt_jinja_output *output)
{
    struct mt_error error = {0};
    struct mt_jinja_template *template;
    const json_t *source = json_object_get(request, "template"), *limits = json_object_get(request, "limits");
    const json_t *now = json_object_get(request, "now");
    const struct mt_jinja_limits bounds = {
        .steps = limit(limits, "steps", mt_jinja_default_limits.steps),
        .memory_bytes = limit(limits, "memory_bytes", mt_jinja_default_limits.memory_bytes),
        .output_bytes = limit(limits, "output_bytes", mt_jinja_default_limits.output_bytes),
        .depth = (unsigned)limit(limits, "depth", mt_jinja_default_limits.depth),
    };
    const time_t seconds = now ? (time_t)json_integer_value(now) : 0;
    struct tm time;
    gmtime_r(&seconds, &time);
    if (mt_jinja_parse(json_string_value(source), json_string_length(source), "template", &template, &error) <
        0)
        return failure(&error);
    const int r = mt_jinja_render(template, json_object_get(request, "variables"),
                                  &(struct mt_jinja_options){.limits = &bounds, .now = now ? &time : NULL},
                                  output, &error);
    mt_jinja_free(template);
    return r < 0 ? failure(&error) : success(output);
}

int main(void)
{
    char *line = NULL;
    size_t capacity = 0;
    struct mt_jinja_output output = {0};
    for (ssize_t length; (length = getline(&line, &capacity, stdin)) > 0;) {
        json_error_t why;
        mt_autojson json_t *request = mt_json_load(line, (size_t)length, JSON_ALLOW_NUL, &why);
        if (!request || !json_is_string(json_object_get(request, "template"))) {
            fprintf(stderr, "not a request: %s\n", why.text);
            return 1;
        }
        mt_autojson json_t *answer = render(request, &output);
        mt_autofree char *text = answer ? json_dumps(answer, JSON_COMPACT) : NULL;
        printf("%s\n", text ? text : "{\"error\": \"no answer\"}");
        fflush(stdout);
    }
    mt_jinja_output_free(&output);
    free(line);
    return 0;
}
