/* dataset_info.json: names of data sets, as LLaMA-Factory and MegaTrain users write them. */
#include "core/base/cleanup.h"
#include "core/base/document.h"
#include "core/base/file.h"
#include "core/base/nearest.h"
#include "core/data/hub.h"
#include "core/data/source.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

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

static void free_arena(struct mt_arena **arena)
{
    mt_arena_free(*arena);
}

static int no_memory(struct mt_error *error)
{
    return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory while reading the registry");
}

static int unknown_name(const char *registry, const char *name, const json_t *document,
                        struct mt_error *error)
{
    const char *key, *best = NULL;
    json_t *value;
    struct mt_nearest nearest = {name, 4};
    json_object_foreach((json_t *)document, key, value)
    {
        if (mt_nearest_is(&nearest, key))
            best = key;
    }
    return mt_error_set(error, -ENOENT, MT_REASON_BAD_DATA, "%s has no data set \"%s\"%s%s%s", registry, name,
                        best ? "; did you mean \"" : "", best ? best : "", best ? "\"?" : "");
}

static bool is_true(const json_t *value)
{
    return value && !json_is_false(value) && !json_is_null(value);
}

static bool is_given(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return value && !json_is_null(value);
}

/* What an entry may ask that is not there yet, and where its data is. */
static int check_supported(const struct entry *entry, struct mt_error *error)
{
    static const char *const remote[] = {"ms_hub_url", "om_hub_url", "script_url", "cloud_file_name"};
    if (is_given(entry->object, "file_name") || is_given(entry->object, "hf_hub_url"))
        return 0;
    for (size_t i = 0; i < sizeof remote / sizeof *remote; i++)
        if (is_given(entry->object, remote[i]))
            return not_supported(error, entry,
                                 "%s is not supported yet; copy the data here and name it by file_name",
                                 remote[i]);
    return bad_entry(error, entry, "it has no file_name");
}

static int read_formatting(const struct entry *entry, struct mt_columns *columns, struct mt_error *error)
{
    static const struct {
        const char *name;
        enum mt_job_formatting formatting;
    } known[] = {{"alpaca", MT_JOB_FORMATTING_ALPACA},
                 {"sharegpt", MT_JOB_FORMATTING_SHAREGPT},
                 {"openai", MT_JOB_FORMATTING_OPENAI}};
    const json_t *formatting = json_object_get(entry->object, "formatting");
    if (is_true(json_object_get(entry->object, "ranking")))
        columns->preference = MT_PREFERENCE_RANKING;
    if (!formatting || json_is_null(formatting) || columns->formatting != MT_JOB_FORMATTING_OPEN)
        return 0;
    if (!json_is_string(formatting))
        return bad_entry(error, entry, "formatting is not a text");
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].name, json_string_value(formatting)) == 0) {
            columns->formatting = known[i].formatting;
            return 0;
        }
    return not_supported(error, entry,
                         "the formatting \"%s\" is not supported yet; there are: alpaca, sharegpt, openai",
                         json_string_value(formatting));
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

static int read_tags(const struct entry *entry, struct mt_arena *arena, struct mt_job_tags *tags,
                     struct mt_error *error)
{
    const json_t *object = json_object_get(entry->object, "tags"), *value;
    const char *key;
    if (!object || json_is_null(object))
        return 0;
    if (!json_is_object(object))
        return bad_entry(error, entry, "its tags are not an object");
    const struct {
        const char *key;
        const char **tag;
    } table[] = {
        {"role_tag", &tags->role},
        {"content_tag", &tags->content},
        {"user_tag", &tags->user},
        {"assistant_tag", &tags->assistant},
        {"observation_tag", &tags->observation},
        {"function_tag", &tags->function},
        {"system_tag", &tags->system},
    };
    json_object_foreach((json_t *)(uintptr_t)object, key, value)
    {
        size_t i = 0;
        while (i < sizeof table / sizeof *table && strcmp(table[i].key, key) != 0)
            i++;
        if (i == sizeof table / sizeof *table)
            return bad_entry(error, entry, "its tags know no \"%s\"", key);
        if (json_is_null(value) || *table[i].tag)
            continue;
        if (!json_is_string(value) || !json_string_length(value))
            return bad_entry(error, entry, "its %s is not a text", key);
        if (!(*table[i].tag = mt_arena_strdup(arena, json_string_value(value))))
            return no_memory(error);
    }
    return 0;
}

static int read_columns(const struct entry *entry, struct mt_arena *arena, struct mt_columns *columns,
                        struct mt_error *error)
{
    const json_t *object = json_object_get(entry->object, "columns"), *value;
    const bool prompt_chosen = columns->prompt != NULL;
    const char *chosen = NULL, *rejected = NULL, *kto_tag = NULL;
    const char *key;
    if (object && !json_is_null(object) && !json_is_object(object))
        return bad_entry(error, entry, "its columns are not an object");
    const struct {
        const char *key;
        const char **column;
    } table[] = {
        {"prompt", &columns->prompt},     {"query", &columns->query},
        {"response", &columns->response}, {"system", &columns->system},
        {"history", &columns->history},   {"messages", &columns->messages},
        {"tools", &columns->tools},       {"chosen", &chosen},
        {"rejected", &rejected},          {"kto_tag", &kto_tag},
    };
    const size_t count = sizeof table / sizeof *table;
    json_object_foreach((json_t *)(uintptr_t)object, key, value)
    {
        size_t i = 0;
        while (i < count && strcmp(table[i].key, key) != 0)
            i++;
        if (i < count || json_is_null(value))
            continue;
        if (strcmp(key, "images") == 0 || strcmp(key, "videos") == 0 || strcmp(key, "audios") == 0)
            return not_supported(error, entry, "the column %s is not supported yet: only text is trained on",
                                 key);
        return bad_entry(error, entry, "its columns know no \"%s\"", key);
    }
    for (size_t i = 0; json_object_size(object) && i < count; i++) {
        int r = take_column(entry, object, table[i].key, arena, table[i].column, error);
        if (r < 0)
            return r;
    }
    const bool turns =
        columns->formatting == MT_JOB_FORMATTING_SHAREGPT || columns->formatting == MT_JOB_FORMATTING_OPENAI;
    if (columns->messages && !*columns->messages && turns)
        columns->messages = NULL; /* the usual ones */
    if (columns->preference == MT_PREFERENCE_NONE && kto_tag && *kto_tag)
        columns->preference = MT_PREFERENCE_KTO;
    /* A prompt alone is a document: that is how registries name plain text. */
    if (!prompt_chosen && !turns && columns->preference == MT_PREFERENCE_NONE && columns->prompt &&
        *columns->prompt && (!columns->response || !*columns->response) &&
        (!columns->messages || !*columns->messages) && !columns->text) {
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

/* file_name: a file, a folder, or a list of them. (`subset`, `split` and `folder` say where in a hub's
 * repository data lies, and nothing of local files.) */
static int find_files(const struct entry *entry, const char *dataset_dir, const struct mt_columns *columns,
                      struct mt_source *source, struct mt_error *error)
{
    const json_t *names = json_object_get(entry->object, "file_name");
    const size_t count = json_is_array(names) ? json_array_size(names) : 1;
    const char **paths = mt_arena_alloc(source->arena, count + 1, sizeof *paths);
    if (!paths)
        return no_memory(error);
    for (size_t i = 0; i < count; i++) {
        const json_t *name = json_is_array(names) ? json_array_get(names, i) : names;
        if (!json_is_string(name))
            return bad_entry(error, entry, "its file_name is neither a text nor a list of texts");
        /* A registry may come with data from elsewhere: it must not name files of the machine. */
        if (!mt_path_stays_below(json_string_value(name)))
            return bad_entry(error, entry,
                             "its file_name \"%s\" leads out of the folder; name such data by dataset.path",
                             json_string_value(name));
        paths[i] = mt_arena_printf(source->arena, "%s/%s", dataset_dir, json_string_value(name));
        if (!paths[i])
            return no_memory(error);
    }
    if (!count)
        return bad_entry(error, entry, "its file_name is an empty list");
    int r = mt_source_from_paths(paths, count, columns, source, error);
    return r < 0 ? mt_error_prefix(error, "data set \"%s\"", entry->name) : 0;
}

/* hf_hub_url: "Org/Name", of the Hugging Face hub. Texts are borrowed from the entry. */
static int read_hub_dataset(const struct entry *entry, struct mt_hub_dataset *dataset, struct mt_error *error)
{
    const char *values[4];
    static const char *const keys[] = {"hf_hub_url", "subset", "split", "folder"};
    for (size_t i = 0; i < 4; i++) {
        const json_t *value = json_object_get(entry->object, keys[i]);
        values[i] = json_string_value(value);
        if (value && !json_is_null(value) && !values[i])
            return bad_entry(error, entry, "%s is not a text", keys[i]);
    }
    *dataset = (struct mt_hub_dataset){
        .repository = values[0], .subset = values[1], .split = values[2], .folder = values[3]};
    if (dataset->folder && !mt_path_stays_below(dataset->folder))
        return bad_entry(error, entry, "its folder \"%s\" leads out of the repository", dataset->folder);
    return 0;
}

static int find_hub_files(const struct entry *entry, const struct mt_columns *columns,
                          struct mt_source *source, struct mt_error *error)
{
    const char *const *paths;
    size_t num_paths;
    struct mt_hub_dataset dataset;
    int r = read_hub_dataset(entry, &dataset, error);
    if (r < 0)
        return r;
    r = mt_hub_files(NULL, &dataset, source->arena, &paths, &num_paths, error);
    if (r == 0)
        r = mt_source_from_paths(paths, num_paths, columns, source, error);
    return r < 0 ? mt_error_prefix(error, "data set \"%s\"", entry->name) : 0;
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
    r = read_formatting(entry, &columns, error);
    if (r == 0)
        r = read_columns(entry, source->arena, &columns, error);
    if (r == 0)
        r = read_tags(entry, source->arena, &columns.tags, error);
    if (r == 0)
        r = read_num_samples(entry, &source->max_rows, error);
    if (r < 0)
        return r;
    source->columns = columns; /* told even where the files are not here */
    return is_given(entry->object, "file_name") ? find_files(entry, dataset_dir, &columns, source, error)
                                                : find_hub_files(entry, &columns, source, error);
}

/* Reads dataset_info.json and finds the entry; `*document` and `*path` are to be freed in any case. */
static int find_entry(const char *dataset_dir, const char *name, char **path, json_t **document,
                      struct entry *entry, struct mt_error *error)
{
    *document = NULL;
    *path = mt_path_join(dataset_dir ? dataset_dir : ".", "dataset_info.json");
    if (!*path)
        return no_memory(error);
    if (!mt_path_exists(*path))
        return mt_error_set(
            error, -ENOENT, MT_REASON_BAD_DATA,
            "%s is not there, so the data set \"%s\" cannot be found: set dataset.dataset_dir "
            "to the folder with dataset_info.json, or dataset.path to the data itself",
            *path, name);
    int r = mt_json_read(*path, MT_REASON_BAD_DATA, document, error);
    if (r < 0)
        return r;
    *entry = (struct entry){.registry = *path, .name = name, .object = json_object_get(*document, name)};
    return entry->object ? 0 : unknown_name(*path, name, *document, error);
}

int mt_source_from_registry(const char *dataset_dir, const char *name, const struct mt_columns *columns,
                            struct mt_source *source, struct mt_error *error)
{
    *source = (struct mt_source){.arena = mt_arena_new(), .max_rows = SIZE_MAX};
    if (!source->arena)
        return no_memory(error);
    mt_autofree char *path = NULL;
    mt_autojson json_t *document = NULL;
    struct entry entry;
    int r = find_entry(dataset_dir, name, &path, &document, &entry, error);
    return r < 0 ? r : read_entry(&entry, dataset_dir ? dataset_dir : ".", columns, source, error);
}

int mt_source_fetch(const char *dataset_dir, const char *name, mt_source_fetcher *fetch, void *context,
                    struct mt_error *error)
{
    mt_autofree char *path = NULL;
    mt_autojson json_t *document = NULL;
    mt_cleanup(free_arena) struct mt_arena *arena = mt_arena_new();
    const char *const *paths;
    size_t num_paths;
    struct entry entry;
    struct mt_hub_dataset dataset;
    int r = arena ? find_entry(dataset_dir, name, &path, &document, &entry, error) : no_memory(error);
    if (r < 0)
        return r;
    if (!json_is_object(entry.object) || is_given(entry.object, "file_name") ||
        !is_given(entry.object, "hf_hub_url"))
        return 0;
    r = read_hub_dataset(&entry, &dataset, error);
    if (r == 0)
        r = mt_hub_files(NULL, &dataset, arena, &paths, &num_paths, error);
    if (r == -EREMOTE) {
        *error = (struct mt_error){0};
        r = fetch(context, &dataset, error);
    }
    return r < 0 ? mt_error_prefix(error, "data set \"%s\"", name) : 0;
}
