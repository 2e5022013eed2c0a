/* dataset_info.json: names of data sets, as LLaMA-Factory and MegaTrain users write them. */
#include "core/base/cleanup.h"
#include "core/base/document.h"
#include "core/base/file.h"
#include "core/data/source.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define MAX_REGISTRY_BYTES ((size_t)16 << 20)

struct entry {
    const char *registry; /* path of dataset_info.json */
    const char *name;
    const json_t *object;
};

#define not_supported(error, entry, ...)                                                                     \
    (mt_error_set(error, -ENOTSUP, MT_REASON_BAD_DATA, __VA_ARGS__),                                         \
     mt_error_prefix(error, "%s: data set \"%s\"", (entry)->registry, (entry)->name))
#define bad_entry(error, entry, ...)                                                                         \
    (mt_error_set(error, -EINVAL, MT_REASON_BAD_DATA, __VA_ARGS__),                                          \
     mt_error_prefix(error, "%s: data set \"%s\"", (entry)->registry, (entry)->name))

static int no_memory(struct mt_error *error)
{
    return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory while reading the registry");
}

static int unknown_name(const char *registry, const char *name, const json_t *document,
                        struct mt_error *error)
{
    const char *key, *nearest = NULL;
    json_t *value;
    size_t best = 4;
    json_object_foreach((json_t *)document, key, value)
    {
        const size_t distance = mt_text_distance(name, key, best);
        if (distance < best) {
            best = distance;
            nearest = key;
        }
    }
    return mt_error_set(error, -ENOENT, MT_REASON_BAD_DATA, "%s has no data set \"%s\"%s%s%s", registry, name,
                        nearest ? "; did you mean \"" : "", nearest ? nearest : "", nearest ? "\"?" : "");
}

static bool is_true(const json_t *value)
{
    return value && !json_is_false(value) && !json_is_null(value);
}

/* What an entry may ask that is not there yet. */
static int check_supported(const struct entry *entry, struct mt_error *error)
{
    const json_t *formatting = json_object_get(entry->object, "formatting");
    if (formatting && !json_is_string(formatting))
        return bad_entry(error, entry, "formatting is not a text");
    if (formatting && strcmp(json_string_value(formatting), "alpaca") != 0)
        return not_supported(error, entry, "the formatting \"%s\" is not supported yet; there is: alpaca",
                             json_string_value(formatting));
    if (is_true(json_object_get(entry->object, "ranking")))
        return not_supported(error, entry, "preference data (ranking) is not supported yet");

    static const char *const remote[] = {"hf_hub_url", "ms_hub_url", "om_hub_url", "script_url",
                                         "cloud_file_name"};
    if (!json_is_string(json_object_get(entry->object, "file_name"))) {
        for (size_t i = 0; i < sizeof remote / sizeof *remote; i++)
            if (json_object_get(entry->object, remote[i]))
                return not_supported(error, entry,
                                     "%s is not supported yet; copy the data here and name it by file_name",
                                     remote[i]);
        return bad_entry(error, entry, "it has no file_name");
    }
    return 0;
}

/* `*column`: the caller's own choice stays; else the entry's name for `key`, or none. */
static int take_column(const struct entry *entry, const json_t *columns, const char *key,
                       struct mt_arena *arena, const char **column, struct mt_error *error)
{
    if (*column)
        return 0;
    const json_t *name = json_object_get(columns, key);
    if (!name) {
        *column = "";
        return 0;
    }
    if (!json_is_string(name))
        return bad_entry(error, entry, "the name of its column for %s is not a text", key);
    *column = mt_arena_strdup(arena, json_string_value(name));
    return *column ? 0 : no_memory(error);
}

static int read_columns(const struct entry *entry, struct mt_arena *arena, struct mt_columns *columns,
                        struct mt_error *error)
{
    const json_t *object = json_object_get(entry->object, "columns");
    if (!object)
        return 0;
    if (!json_is_object(object))
        return bad_entry(error, entry, "its columns are not an object");
    static const char *const not_yet[] = {"images",   "videos", "audios",   "tools",
                                          "messages", "chosen", "rejected", "kto_tag"};
    for (size_t i = 0; i < sizeof not_yet / sizeof *not_yet; i++)
        if (json_object_get(object, not_yet[i]))
            return not_supported(error, entry, "the column %s is not supported yet", not_yet[i]);

    const bool prompt_chosen = columns->prompt != NULL;
    const struct {
        const char *key;
        const char **column;
    } table[] = {
        {"prompt", &columns->prompt}, {"query", &columns->query},     {"response", &columns->response},
        {"system", &columns->system}, {"history", &columns->history},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        int r = take_column(entry, object, table[i].key, arena, table[i].column, error);
        if (r < 0)
            return r;
    }
    /* A prompt alone is a document: that is how registries name plain text. */
    if (!prompt_chosen && *columns->prompt && !*columns->response && !columns->text) {
        columns->text = columns->prompt;
        columns->prompt = "";
    }
    return 0;
}

static int read_num_samples(const struct entry *entry, size_t *max_rows, struct mt_error *error)
{
    const json_t *value = json_object_get(entry->object, "num_samples");
    *max_rows = SIZE_MAX;
    if (!value || json_is_null(value))
        return 0;
    if (!json_is_integer(value) || json_integer_value(value) < 1)
        return bad_entry(error, entry, "num_samples must be a number of rows, 1 or more");
    *max_rows = (size_t)json_integer_value(value);
    return 0;
}

/* A registry may come with data from elsewhere: it must not name files of the machine. */
static bool stays_inside(const char *path)
{
    if (*path == '/' || !*path)
        return false;
    for (const char *part = path; part; part = strchr(part, '/')) {
        part += *part == '/';
        const size_t length = strcspn(part, "/");
        if (length == 2 && memcmp(part, "..", 2) == 0)
            return false;
    }
    return true;
}

static int read_entry(const struct entry *entry, const char *dataset_dir, const struct mt_columns *given,
                      struct mt_source *source, struct mt_error *error)
{
    if (!json_is_object(entry->object))
        return bad_entry(error, entry, "its entry is not an object");
    int r = check_supported(entry, error);
    if (r < 0)
        return r;
    struct mt_columns columns = given ? *given : (struct mt_columns){0};
    r = read_columns(entry, source->arena, &columns, error);
    if (r == 0)
        r = read_num_samples(entry, &source->max_rows, error);
    if (r < 0)
        return r;

    const char *file_name = json_string_value(json_object_get(entry->object, "file_name"));
    if (!stays_inside(file_name))
        return bad_entry(error, entry,
                         "its file_name \"%s\" leads out of the folder; name such data by dataset.path",
                         file_name);
    mt_autofree char *path = mt_path_join(dataset_dir, file_name);
    if (!path)
        return no_memory(error);
    const char *const paths[] = {path};
    r = mt_source_from_paths(paths, 1, &columns, source, error);
    return r < 0 ? mt_error_prefix(error, "data set \"%s\"", entry->name) : 0;
}

int mt_source_from_registry(const char *dataset_dir, const char *name, const struct mt_columns *columns,
                            struct mt_source *source, struct mt_error *error)
{
    *source = (struct mt_source){.arena = mt_arena_new(), .max_rows = SIZE_MAX};
    mt_autofree char *path = mt_path_join(dataset_dir ? dataset_dir : ".", "dataset_info.json");
    if (!source->arena || !path)
        return no_memory(error);
    if (!mt_path_exists(path))
        return mt_error_set(
            error, -ENOENT, MT_REASON_BAD_DATA,
            "%s is not there, so the data set \"%s\" cannot be found: set dataset.dataset_dir "
            "to the folder with dataset_info.json, or dataset.path to the data itself",
            path, name);
    mt_autofree char *text = NULL;
    size_t bytes;
    int r = mt_file_read(path, MAX_REGISTRY_BYTES, &text, &bytes, error);
    mt_autojson json_t *document = NULL;
    const size_t mark = r == 0 && bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    if (r == 0)
        r = mt_json_parse(text + mark, bytes - mark, path, &document, error);
    if (r < 0) {
        if (error && r != -ENOMEM)
            error->reason = MT_REASON_BAD_DATA;
        return r;
    }
    const struct entry entry = {
        .registry = path,
        .name = name,
        .object = json_object_get(document, name),
    };
    if (!entry.object)
        return unknown_name(path, name, document, error);
    return read_entry(&entry, dataset_dir ? dataset_dir : ".", columns, source, error);
}
