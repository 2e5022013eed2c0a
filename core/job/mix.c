/* dataset.mix: a list of data sets, each by `name` or `path`, with a `weight`. */
#include "core/job/mix.h"

#include "core/base/cleanup.h"

#include <stdio.h>
#include <string.h>

#define MAX_PARTS 256

static json_t *fail(struct mt_job_reader *reader, const char *pointer, const char *sentence)
{
    mt_reader_error(reader, MT_REASON_BAD_JOB, pointer, NULL, "%s", sentence);
    return NULL;
}

static bool is_path(const json_t *value)
{
    return json_string_length(value) > 0 && strlen(json_string_value(value)) == json_string_length(value);
}

static bool are_paths(const json_t *value)
{
    bool good = json_array_size(value) > 0;
    for (size_t i = 0; good && i < json_array_size(value); i++)
        good = is_path(json_array_get(value, i));
    return good || is_path(value);
}

/* One entry in its canonical form. */
static json_t *check_part(struct mt_job_reader *reader, const char *pointer, const json_t *value)
{
    const char *key;
    json_t *member;
    const json_t *name = json_object_get(value, "name"), *path = json_object_get(value, "path");
    const json_t *weight = json_object_get(value, "weight");
    if (!json_is_object(value))
        return fail(reader, pointer, "an entry of mix must be an object with name or path, and weight");
    json_object_foreach((json_t *)(uintptr_t)value, key, member)
    {
        if (strcmp(key, "name") == 0 || strcmp(key, "path") == 0 || strcmp(key, "weight") == 0)
            continue;
        mt_reader_error(reader, MT_REASON_BAD_JOB, pointer, NULL,
                        "unknown key %s; an entry of mix has name or path, and weight",
                        mt_text_quote(reader->arena, key, strlen(key)));
        return NULL;
    }
    if (!name == !path)
        return fail(reader, pointer, "an entry of mix must have either name or path");
    if (name && !is_path(name))
        return fail(reader, pointer, "name must be a string");
    if (path && !are_paths(path))
        return fail(reader, pointer, "path must be a path or a list of paths");
    const double number = weight ? json_number_value(weight) : 1;
    if ((weight && !json_is_number(weight)) || !(number >= 1e-6 && number <= 1e6))
        return fail(reader, pointer, "weight must be a number above 0, at most 1e6");
    return json_pack("{s:O, s:f}", name ? "name" : "path", name ? name : path, "weight", number);
}

json_t *mt_mix_check(struct mt_job_reader *reader, const char *pointer, const json_t *value)
{
    const size_t count = json_array_size(value);
    if (!json_is_array(value) || count == 0 || count > MAX_PARTS)
        return fail(reader, pointer, "mix must be a list of 1 to 256 data sets");
    mt_autojson json_t *parts = json_array();
    bool good = true;
    for (size_t i = 0; parts && i < count; i++) {
        char item[MT_JOB_POINTER_BYTES];
        snprintf(item, sizeof item, "%s/%zu", pointer, i);
        json_t *part = check_part(reader, item, json_array_get(value, i));
        good = good && part;
        if (part && json_array_append_new(parts, part) < 0)
            reader->out_of_memory = true;
    }
    return good ? json_incref(parts) : NULL;
}

static const char *copy(struct mt_job_reader *reader, const json_t *text)
{
    const char *made = text ? mt_arena_strdup(reader->arena, json_string_value(text)) : NULL;
    if (text && !made)
        reader->out_of_memory = true;
    return made;
}

void mt_mix_fill(struct mt_job_reader *reader, const json_t *value, struct mt_job_mix *mix)
{
    const size_t count = json_array_size(value);
    struct mt_job_mix_part *parts = mt_arena_alloc(reader->arena, count + 1, sizeof *parts);
    for (size_t i = 0; parts && i < count; i++) {
        const json_t *from = json_array_get(value, i), *path = json_object_get(from, "path");
        const size_t num_paths = json_is_array(path) ? json_array_size(path) : path != NULL;
        const char **paths = mt_arena_alloc(reader->arena, num_paths + 1, sizeof *paths);
        if (!paths) {
            reader->out_of_memory = true;
            return;
        }
        for (size_t p = 0; p < num_paths; p++)
            paths[p] = copy(reader, json_is_array(path) ? json_array_get(path, p) : path);
        parts[i] = (struct mt_job_mix_part){
            .name = copy(reader, json_object_get(from, "name")),
            .paths = paths,
            .num_paths = num_paths,
            .weight = json_number_value(json_object_get(from, "weight")),
        };
    }
    if (!parts)
        reader->out_of_memory = true;
    *mix = (struct mt_job_mix){.parts = parts, .count = parts ? count : 0};
}

json_t *mt_mix_schema(void)
{
    return json_pack(
        "{s:s, s:i, s:i, s:{s:s, s:b, s:{s:{s:s, s:i}, s:{s:[{s:s, s:i}, {s:s, s:i, s:{s:s, s:i}}]}, "
        "s:{s:s, s:f, s:f}}, s:[{s:[s]}, {s:[s]}]}}",
        "type", "array", "minItems", 1, "maxItems", MAX_PARTS, "items", "type", "object",
        "additionalProperties", 0, "properties", "name", "type", "string", "minLength", 1, "path", "anyOf",
        "type", "string", "minLength", 1, "type", "array", "minItems", 1, "items", "type", "string",
        "minLength", 1, "weight", "type", "number", "minimum", 1e-6, "maximum", 1e6, "oneOf", "required",
        "name", "required", "path");
}
