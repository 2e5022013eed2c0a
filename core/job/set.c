/* Command-line settings put into a document before it is parsed: `--set KEY=VALUE`, `--data-path PATH`. The
 * command line wins: what contradicts the setting leaves the document. */
#include "core/base/cleanup.h"
#include "core/job/job.h"
#include "core/job/ollama.h"
#include "core/job/path.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MAX_KEY_BYTES 256

/* Of each pair only one may be given. */
static const char *const rivals[][2] = {
    {"/training/max_steps", "/training/num_epochs"},
    {"/dataset/path", "/dataset/name"},
    {"/model/path", "/model/name"},
};

/* The block that holds the last part of `pointer`; NULL when it is absent and not to be made, or not one. */
static json_t *find_block(json_t *document, const char *pointer, bool create)
{
    json_t *block = document;
    const char *part = pointer + 1;
    for (const char *slash; (slash = strchr(part, '/')) != NULL; part = slash + 1) {
        char name[MAX_KEY_BYTES];
        snprintf(name, sizeof name, "%.*s", (int)(slash - part), part);
        json_t *next = json_object_get(block, name);
        if (!next && create && json_object_set_new(block, name, json_object()) == 0)
            next = json_object_get(block, name);
        if (!json_is_object(next))
            return NULL;
        block = next;
    }
    return block;
}

static void drop(json_t *document, const char *pointer)
{
    json_t *block = find_block(document, pointer, false);
    if (block)
        json_object_del(block, mt_job_key_name(pointer));
}

/* The key under all of its names, and what it excludes. */
static void drop_rivals(json_t *document, const char *pointer)
{
    const struct mt_job_key *key = mt_job_key_of_alias(pointer);
    const char *canonical = key ? key->pointer : pointer;
    const char *also[2] = {canonical, canonical};
    for (size_t i = 0; i < sizeof rivals / sizeof *rivals; i++) {
        if (strcmp(rivals[i][0], canonical) == 0)
            also[1] = rivals[i][1];
        if (strcmp(rivals[i][1], canonical) == 0)
            also[1] = rivals[i][0];
    }
    for (size_t k = 0; k < 2; k++) {
        drop(document, also[k]);
        for (size_t i = 0; i < mt_job_num_aliases; i++) {
            if (strcmp(mt_job_aliases[i].canonical, also[k]) == 0)
                drop(document, mt_job_aliases[i].pointer);
        }
    }
}

/* Takes the reference `value`. */
static int set_value(json_t *document, const char *pointer, json_t *value, struct mt_error *error)
{
    if (!json_is_object(document)) {
        json_decref(value);
        return mt_error_set(error, -EINVAL, MT_REASON_BAD_JOB, "the job document is not an object");
    }
    drop_rivals(document, pointer);
    json_t *block = find_block(document, pointer, true);
    if (!block) {
        json_decref(value);
        return mt_error_set(error, -EINVAL, MT_REASON_USAGE,
                            "cannot set %s: what stands above it in the document is not a block", pointer);
    }
    if (json_object_set_new(block, mt_job_key_name(pointer), value) < 0)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory");
    return 0;
}

int mt_job_set(json_t *document, const char *assignment, struct mt_error *error)
{
    char pointer[MAX_KEY_BYTES];
    const char *equals = strchr(assignment, '=');
    size_t key_bytes = equals ? (size_t)(equals - assignment) : 0;
    json_t *value = NULL;
    if (key_bytes == 0 || key_bytes + 2 > sizeof pointer || *assignment == '.' || equals[-1] == '.' ||
        memchr(assignment, '/', key_bytes) || memmem(assignment, key_bytes, "..", 2))
        return mt_error_set(error, -EINVAL, MT_REASON_USAGE,
                            "--set takes KEY=VALUE with a dotted key, such as training.learning_rate=3e-4 "
                            "(an empty VALUE takes the key away); "
                            "found \"%.200s\"",
                            assignment);
    snprintf(pointer, sizeof pointer, "/%.*s", (int)key_bytes, assignment);
    for (char *c = pointer; *c; c++) {
        if (*c == '.')
            *c = '/';
    }
    if (equals[1 + strspn(equals + 1, " ")] == '\0') {
        drop_rivals(document, pointer);
        return 0;
    }
    int result = mt_yaml_parse(equals + 1, strlen(equals + 1), "the value of --set", &value, NULL, error);
    if (result < 0) {
        if (error)
            error->reason = MT_REASON_USAGE;
        return result;
    }
    return set_value(document, pointer, value, error);
}

int mt_job_set_data_path(json_t *document, const char *path, struct mt_error *error)
{
    json_t *value = json_string(path);
    if (!value)
        return mt_error_set(error, -EINVAL, MT_REASON_USAGE, "--data-path is not valid UTF-8");
    return set_value(document, "/dataset/path", value, error);
}

static json_t *absolute_text(struct mt_arena *arena, const json_t *value)
{
    const char *text = json_string_value(value);
    const char *path = text && *text ? mt_path_absolute(arena, NULL, text, false) : NULL;
    return path ? json_string(path) : json_incref((json_t *)(uintptr_t)value);
}

static json_t *absolute_value(struct mt_arena *arena, const json_t *value)
{
    if (!json_is_array(value))
        return absolute_text(arena, value);
    json_t *list = json_array();
    for (size_t i = 0; list && i < json_array_size(value); i++)
        json_array_append_new(list, absolute_text(arena, json_array_get(value, i)));
    return list;
}

int mt_job_make_absolute(json_t *document, struct mt_error *error)
{
    struct mt_arena *arena = mt_arena_new();
    int result = arena ? 0 : -ENOMEM;
    for (size_t i = 0; result == 0 && i < mt_job_num_keys; i++) {
        const struct mt_job_key *key = &mt_job_keys[i];
        json_t *block = key->type == MT_KEY_PATH || key->type == MT_KEY_PATHS
                            ? find_block(document, key->pointer, false)
                            : NULL;
        const char *name = mt_job_key_name(key->pointer);
        const json_t *value = json_object_get(block, name);
        bool word = strcmp(key->pointer, "/model/tokenizer") == 0 && json_is_string(value) &&
                    strcmp(json_string_value(value), "bytes") == 0;
        word = word || (strcmp(key->pointer, "/model/path") == 0 && json_is_string(value) &&
                        mt_is_ollama(json_string_value(value)));
        if (value && !word && json_object_set_new(block, name, absolute_value(arena, value)) < 0)
            result = -ENOMEM;
    }
    json_t *dataset = json_object_get(document, "dataset"), *part;
    bool named = json_object_get(dataset, "name");
    size_t entry;
    json_array_foreach(json_object_get(dataset, "mix"), entry, part)
    {
        const json_t *path = json_object_get(part, "path");
        named = named || json_object_get(part, "name");
        if (path && json_object_set_new(part, "path", absolute_value(arena, path)) < 0)
            result = -ENOMEM;
    }
    /* A data set is named in a folder that has a default of its own here. */
    if (result == 0 && named && !json_object_get(dataset, "dataset_dir") &&
        access("data/dataset_info.json", F_OK) == 0) {
        const char *folder = mt_path_absolute(arena, NULL, "data", false);
        if (!folder || json_object_set_new(dataset, "dataset_dir", json_string(folder)) < 0)
            result = -ENOMEM;
    }
    mt_arena_free(arena);
    return result == 0 ? 0 : mt_error_set(error, result, MT_REASON_OUT_OF_MEMORY, "out of memory");
}
