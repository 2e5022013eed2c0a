/* The door: from a source to a template, from a template and variables to a text. */
#include "core/base/cleanup.h"
#include "core/base/size.h"
#include "core/text/jinja/parser.h"
#include "core/text/jinja/run.h"
#include "core/text/jinja/unicode.h"

#include <stdlib.h>
#include <string.h>

#define MAX_SOURCE_BYTES ((size_t)1 << 20)

const struct mt_jinja_limits mt_jinja_default_limits = {
    .steps = 30 * 1000 * 1000,
    .memory_bytes = (size_t)512 << 20,
    .output_bytes = (size_t)128 << 20,
    .depth = 1500,
};

/* The source with "\n" for every line end, and without the last one, as jinja2 reads it. */
static bool normalise(struct mt_arena *arena, const char *source, size_t bytes, struct mt_jslice *result)
{
    char *text = mt_arena_alloc(arena, bytes + 1, 1);
    size_t length = 0;
    if (!text)
        return false;
    for (size_t i = 0; i < bytes; i++) {
        text[length++] = source[i] == '\r' ? '\n' : source[i];
        if (source[i] == '\r' && i + 1 < bytes && source[i + 1] == '\n')
            i++;
    }
    if (length && text[length - 1] == '\n')
        length--;
    *result = (struct mt_jslice){text, length};
    return true;
}

static int parse(struct mt_jinja_template *template, const char *source, size_t bytes, const char *name,
                 struct mt_error *error)
{
    struct mt_jslice text;
    struct mt_jtoken *tokens = NULL;
    size_t count = 0;
    template->name = mt_arena_strdup(template->arena, name);
    if (!template->name || !normalise(template->arena, source, bytes, &text))
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory for a chat template");
    int r = mt_jlex(template->arena, template->name, text, &tokens, &count, error);
    if (r < 0)
        return r;
    struct mt_jparser parser = {.template = template, .token = tokens, .error = error};
    if (!mt_jparse_template(&parser))
        return parser.failed;
    template->loop = UINT32_MAX;
    for (size_t i = 0; i < template->num_names; i++)
        if (strcmp(template->names[i], "loop") == 0)
            template->loop = (uint32_t)i;
    if (!mt_janalyse(template))
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory for a chat template");
    return 0;
}

int mt_jinja_parse(const char *source, size_t bytes, const char *name, struct mt_jinja_template **result,
                   struct mt_error *error)
{
    *result = NULL;
    if (bytes > MAX_SOURCE_BYTES)
        return mt_error_set(error, -EFBIG, MT_REASON_BAD_MODEL, "%s: a chat template of more than %zu bytes",
                            name, MAX_SOURCE_BYTES);
    if (!mt_jis_utf8((struct mt_jslice){source, bytes}))
        return mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL, "%s: the chat template is not UTF-8", name);
    struct mt_arena *arena = mt_arena_new();
    struct mt_jinja_template *template = arena ? mt_arena_alloc(arena, 1, sizeof *template) : NULL;
    if (!template) {
        mt_arena_free(arena);
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory for a chat template");
    }
    template->arena = arena;
    int r = parse(template, source, bytes, name, error);
    if (r < 0) {
        mt_arena_free(arena);
        return r;
    }
    *result = template;
    return 0;
}

void mt_jinja_free(struct mt_jinja_template *template)
{
    if (template)
        mt_arena_free(template->arena);
}

void mt_jinja_output_free(struct mt_jinja_output *output)
{
    mt_text_free(&output->text);
    free(output->spans);
    free(output->places);
    *output = (struct mt_jinja_output){0};
}

/* The variables that the template names, as values; what is not given is one of Jinja's own globals. */
static bool resolve_globals(struct mt_jrun *run, const json_t *variables)
{
    const struct mt_jinja_template *template = run->template;
    run->globals = mt_jalloc(run, template->num_names + 1, sizeof(struct mt_jvalue *));
    for (size_t i = 0; run->globals && i < template->num_names; i++) {
        const json_t *json = variables ? json_object_get(variables, template->names[i]) : NULL;
        run->globals[i] = json ? mt_jfrom_json(run, json) : mt_jglobal_find(template->names[i]);
        if (json && !run->globals[i])
            return false;
    }
    return run->globals;
}

/* Numbers the items of the list that is followed, for loops to note where they are written. */
static int follow(struct mt_jrun *run, const char *name)
{
    const struct mt_jinja_template *template = run->template;
    for (size_t i = 0; i < template->num_names; i++) {
        const struct mt_jvalue *list = run->globals[i];
        if (strcmp(template->names[i], name) != 0 || !list || !mt_jis(list, MT_J_LIST) ||
            list->list->count >= UINT32_MAX)
            continue;
        const size_t count = list->list->count;
        void *places = reallocarray(run->output->places, count + 1, sizeof *run->output->places);
        if (!places)
            return mt_error_set(run->error, -ENOMEM, MT_REASON_OUT_OF_MEMORY,
                                "out of memory for a chat template");
        run->output->places = places;
        run->output->num_places = count;
        memset(places, 0, count * sizeof *run->output->places);
        for (size_t k = 0; k < count; k++) /* other values (true, null) are shared */
            if (mt_jis(list->list->items[k], MT_J_DICT))
                list->list->items[k]->followed = (uint32_t)k + 1;
    }
    return 0;
}

/* An item that was written several times has no place. */
static void drop_doubles(struct mt_jinja_output *output)
{
    for (size_t i = 0; i < output->num_places; i++)
        if (output->places[i].begin == SIZE_MAX)
            output->places[i] = (struct mt_jinja_span){0};
}

static void free_arena(struct mt_arena **arena)
{
    mt_arena_free(*arena);
}

int mt_jinja_render(const struct mt_jinja_template *template, const json_t *variables,
                    const struct mt_jinja_options *options, struct mt_jinja_output *output,
                    struct mt_error *error)
{
    output->text.bytes = 0;
    output->num_spans = 0;
    output->spans_lost = false;
    output->num_places = 0;
    output->steps = 0;
    mt_cleanup(free_arena) struct mt_arena *arena = mt_arena_new();
    if (!arena)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory for a chat template");
    struct mt_jbuffer out = {0};
    struct mt_jrun run = {
        .template = template,
        .limits = options && options->limits ? options->limits : &mt_jinja_default_limits,
        .now = options ? options->now : NULL,
        .arena = arena,
        .error = error,
        .out = &out,
        .output = output,
    };
    if (!resolve_globals(&run, variables))
        return run.failed;
    int r = options && options->follow ? follow(&run, options->follow) : 0;
    if (r < 0)
        return r;
    const bool ok = (run.frame = mt_jframe_new(&run, NULL, &template->undefined)) &&
                    mt_jexecute(&run, &template->body) && !run.failed;
    output->steps = run.steps;
    drop_doubles(output);
    if (!ok) {
        output->num_spans = 0;
        return run.failed;
    }
    if (mt_text_append(&output->text, out.data, out.bytes) < 0)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory for a chat template");
    return 0;
}
