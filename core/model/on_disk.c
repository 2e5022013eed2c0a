#include "core/model/on_disk.h"

#include "core/base/cleanup.h"
#include "core/base/file.h"
#include "core/formats/gguf.h"
#include "core/job/gguf_names.h"
#include "core/job/model_folder.h"
#include "core/job/model_name.h"
#include "core/model/open.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define FOLDER_DEPTH 3
#define STUDIO_DEPTH 2 /* Org, Model */
#define OLLAMA_DEPTH 4 /* host, namespace, name, tag */

struct search {
    json_t *found;
    size_t most;
    bool more;
    bool no_memory;
    const char *source;
};

static bool is_folder(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

static json_int_t file_bytes(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 ? (json_int_t)status.st_size : 0;
}

/* Of all files of a GGUF model; of the named one where it cannot be read. Only one in parts has to be opened.
 */
static json_int_t gguf_bytes(const char *path)
{
    struct mt_gguf *file;
    json_int_t bytes = 0;
    const char *slash = strrchr(path, '/');
    if (!mt_gguf_names_part(slash ? slash + 1 : path) || mt_gguf_open(path, &file, NULL) < 0)
        return file_bytes(path);
    for (size_t i = 0; i < mt_gguf_num_parts(file); i++)
        bytes += file_bytes(mt_gguf_part_path(file, i));
    mt_gguf_close(file);
    return bytes;
}

/* Of a GGUF model, or of the safetensors files of a folder. */
static json_int_t weight_bytes(const char *path, bool folder)
{
    struct stat status;
    if (!folder)
        return gguf_bytes(path);
    json_int_t bytes = 0;
    DIR *entries = opendir(path);
    for (struct dirent *entry; entries && (entry = readdir(entries)) != NULL;)
        if (mt_path_ends_with(entry->d_name, ".safetensors") &&
            fstatat(dirfd(entries), entry->d_name, &status, 0) == 0)
            bytes += (json_int_t)status.st_size;
    if (entries)
        closedir(entries);
    return bytes;
}

/* `found` is 0, or what was wrong with the place already, with its sentence in `problem`. */
static void add(struct search *search, const char *id, const char *path, int found,
                const struct mt_error *problem)
{
    if (json_array_size(search->found) >= search->most) {
        search->more = true;
        return;
    }
    struct mt_error error = found < 0 ? *problem : (struct mt_error){0};
    struct mt_model *model = NULL;
    mt_autojson json_t *config = NULL;
    const bool folder = is_folder(path);
    int r = found < 0 ? found : mt_model_read_config(path, &config, &error);
    if (r == 0)
        r = mt_model_from_config(config, &model, &error);
    const json_int_t bytes = found < 0 ? 0 : weight_bytes(path, folder);
    if (r == 0 && bytes == 0)
        r = mt_error_set(&error, -ENOENT, MT_REASON_BAD_MODEL, "%s holds no .safetensors file", path);
    const char *type = json_string_value(json_object_get(config, "model_type"));
    json_t *one =
        json_pack("{s:s, s:s, s:s, s:s, s:s?, s:o, s:I, s:b, s:s?}", "id", id, "path", path, "source",
                  search->source, "format", folder && found == 0 ? "huggingface" : "gguf", "model_type", type,
                  "parameters", model ? json_integer((json_int_t)model->total_count) : json_null(), "bytes",
                  bytes, "usable", r == 0, "reason", r < 0 ? error.message : NULL);
    mt_model_free(model);
    search->no_memory = search->no_memory || r == -ENOMEM || json_array_append_new(search->found, one) < 0;
}

static bool is_listed(const struct search *search, const char *id)
{
    size_t i;
    json_t *one;
    json_array_foreach(search->found, i, one)
    {
        if (strcmp(json_string_value(json_object_get(one, "id")), id) == 0)
            return true;
    }
    return false;
}

/* Whether something that is listed goes before a model of this name elsewhere: itself, or one of its files.
 */
static bool is_taken(const struct search *search, const char *name)
{
    const size_t bytes = strlen(name);
    size_t i;
    json_t *one;
    json_array_foreach(search->found, i, one)
    {
        const char *id = json_string_value(json_object_get(one, "id"));
        if (strncmp(id, name, bytes) == 0 && strchr("/:", id[bytes])) /* the end, too */
            return true;
    }
    return false;
}

static int visible(const struct dirent *entry)
{
    return entry->d_name[0] != '.' &&
           !mt_path_ends_with(entry->d_name, ".partial"); /* a download that goes on */
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

/* Calls `visit` with the path and the id (`id`/name) of each entry. */
static void each_entry(struct search *search, const char *folder, const char *id, unsigned depth,
                       void (*visit)(struct search *, const char *path, const char *id, unsigned depth))
{
    struct dirent **entries;
    const int count = scandir(folder, &entries, visible, by_name);
    for (int i = 0; i < count; i++) {
        mt_autofree char *path = mt_path_join(folder, entries[i]->d_name);
        mt_autofree char *below = *id ? mt_path_join(id, entries[i]->d_name) : strdup(entries[i]->d_name);
        if (!path || !below)
            search->no_memory = true;
        else if (!search->more)
            visit(search, path, below, depth);
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
}

static void visit_models(struct search *search, const char *path, const char *id, unsigned depth)
{
    mt_autofree char *config = mt_path_join(path, "config.json");
    if (is_folder(path)) {
        if (config && mt_path_exists(config))
            add(search, id, path, 0, NULL);
        else if (depth < FOLDER_DEPTH)
            each_entry(search, path, id, depth + 1, visit_models);
    } else if (mt_gguf_starts_model(strrchr(path, '/') + 1)) {
        add(search, id, path, 0, NULL);
    }
}

/* A repository's folder: the model that it is, or each GGUF model in it. `name` is Org/Model; jobs that say
 * it find what is listed first. */
static void add_repository(struct search *search, const char *name, const char *folder)
{
    struct mt_gguf_list files = {0};
    mt_autofree char *config = mt_path_join(folder, "config.json");
    const bool taken = is_taken(search, name);
    if (!config || (!mt_model_folder_is_whole(folder) && mt_gguf_list_folder(folder, true, &files) < 0)) {
        search->no_memory = true;
        return;
    }
    /* A tokenizer alone is no model. */
    if (files.count == 0 && mt_path_exists(config) && !taken)
        add(search, name, folder, 0, NULL);
    for (size_t i = 0; i < files.count; i++) {
        mt_autofree char *path = mt_path_join(folder, files.names[i]);
        mt_autofree char *id = NULL;
        if (asprintf(&id, files.count > 1 || taken ? "%s:%s" : "%s", name, files.names[i]) < 0)
            id = NULL;
        if (!path || !id)
            search->no_memory = true;
        else if (!is_listed(search, id))
            add(search, id, path, 0, NULL);
    }
    mt_gguf_list_free(&files);
}

/* models--Org--Name */
static void visit_cache(struct search *search, const char *path, const char *id, unsigned depth)
{
    (void)depth;
    if (strncmp(id, "models--", 8) != 0 || !is_folder(path))
        return;
    mt_autofree char *cache = strndup(path, strlen(path) - strlen(id) - 1);
    mt_autofree char *name = strdup(id + 8);
    char *mark = name ? strstr(name, "--") : NULL;
    if (mark) {
        *mark = '/';
        memmove(mark + 1, mark + 2, strlen(mark + 2) + 1);
    }
    struct mt_arena *arena = mt_arena_new();
    const char *snapshot = arena && cache && name ? mt_hub_snapshot(arena, cache, name) : NULL;
    search->no_memory = search->no_memory || !arena || !cache || !name;
    if (snapshot && mt_is_model_name(name))
        add_repository(search, name, snapshot);
    mt_arena_free(arena);
}

/* <models>/Org/Model */
static void visit_studio(struct search *search, const char *path, const char *id, unsigned depth)
{
    if (is_folder(path) && depth < STUDIO_DEPTH)
        each_entry(search, path, id, depth + 1, visit_studio);
    else if (is_folder(path) && mt_is_model_name(id))
        add_repository(search, id, path);
}

static void visit_ollama(struct search *search, const char *path, const char *id, unsigned depth)
{
    if (is_folder(path)) {
        if (depth < OLLAMA_DEPTH)
            each_entry(search, path, id, depth + 1, visit_ollama);
        return;
    }
    if (depth != OLLAMA_DEPTH)
        return;
    static const char host[] = "registry.ollama.ai/", space[] = "library/"; /* as Ollama says them: not */
    const bool usual = strncmp(id, host, sizeof host - 1) == 0;
    const char *name = usual ? id + sizeof host - 1 : id;
    if (usual && strncmp(name, space, sizeof space - 1) == 0)
        name += sizeof space - 1;
    mt_autofree char *file = NULL;
    char said[1024];
    const char *tag = strrchr(name, '/');
    struct mt_error error = {0};
    if (!tag || (size_t)snprintf(said, sizeof said, "ollama:%.*s:%s", (int)(tag - name), name, tag + 1) >=
                    sizeof said)
        return;
    const int r = mt_job_find_model(said, &file, &error);
    add(search, said, file ? file : path, r, &error);
}

int mt_models_on_disk(const char *models_folder, size_t most, json_t **list, struct mt_error *error)
{
    mt_autofree char *cache = mt_job_hub_cache();
    mt_autofree char *studio = mt_job_lm_studio();
    mt_autofree char *ollama = mt_job_ollama_store();
    mt_autofree char *manifests = ollama ? mt_path_join(ollama, "manifests") : NULL;
    struct search search = {.found = json_array(), .most = most, .source = "models"};
    each_entry(&search, models_folder, "", 1, visit_models);
    search.source = "hub_cache";
    if (cache)
        each_entry(&search, cache, "", 1, visit_cache);
    search.source = "lm_studio";
    if (studio)
        each_entry(&search, studio, "", 1, visit_studio);
    search.source = "ollama";
    if (manifests)
        each_entry(&search, manifests, "", 1, visit_ollama);
    *list = search.no_memory || !search.found
                ? NULL
                : json_pack("{s:O, s:b, s:n}", "data", search.found, "has_more", search.more, "next");
    json_decref(search.found);
    return *list ? 0
                 : mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory for the list of models");
}
