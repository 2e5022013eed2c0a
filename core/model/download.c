/* What of a model is fetched. */
#include "core/model/download.h"

#include "core/base/cleanup.h"
#include "core/base/file.h"
#include "core/job/gguf_names.h"
#include "core/model/fetching.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Files of no model that are wanted all the same. */
static const char *const side_files[] = {
    "config.json",     "generation_config.json",  "tokenizer.json",     "tokenizer_config.json",
    "tokenizer.model", "special_tokens_map.json", "added_tokens.json",  "vocab.json",
    "merges.txt",      "chat_template.jinja",     "chat_template.json", "model.safetensors.index.json",
    "spiece.model",    "qwen.tiktoken",
};

static int no_memory(struct mt_error *error)
{
    return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory for a download");
}

static bool is_wanted(const char *name)
{
    if (!mt_fetching_is_plain(name))
        return false;
    for (size_t i = 0; i < sizeof side_files / sizeof *side_files; i++)
        if (strcmp(name, side_files[i]) == 0)
            return true;
    return mt_path_ends_with(name, ".safetensors");
}

static const char *name_of(const json_t *file)
{
    return json_string_value(json_object_get(file, "name"));
}

static int want(struct mt_fetching *fetching, json_t *file, struct mt_error *error)
{
    return json_array_append(fetching->files, file) < 0 ? no_memory(error) : 0;
}

/* All parts of the model; the first last, since it is by that one that the model is found. */
static int want_parts(struct mt_fetching *fetching, const char *first, struct mt_error *error)
{
    const size_t expected = mt_gguf_parts_named(first);
    size_t i;
    json_t *file, *last = NULL;
    int r = 0;
    json_array_foreach(fetching->available, i, file)
    {
        if (strcmp(name_of(file), first) == 0)
            last = file;
        else if (r == 0 && mt_gguf_same_model(name_of(file), first))
            r = want(fetching, file, error);
    }
    r = r ? r : want(fetching, last, error);
    if (r == 0 && json_array_size(fetching->files) != expected)
        return mt_error_set(
            error, -ENOENT, MT_REASON_BAD_MODEL,
            "%s on the hub has %zu of the %zu parts of %s, and the model is not whole without "
            "the others",
            fetching->download.name, json_array_size(fetching->files), expected, first);
    return r;
}

/* *first is the GGUF file that is wanted, the first of its parts. */
static int choose_gguf(struct mt_fetching *fetching, const char *choice, const char **first,
                       struct mt_error *error)
{
    mt_autofree const char **names = calloc(json_array_size(fetching->available) + 1, sizeof *names);
    mt_autofree char *where = NULL;
    mt_autofree char *before = NULL;
    size_t i, count = 0, chosen;
    json_t *file;
    if (!names || asprintf(&where, "%s on the hub", fetching->download.name) < 0) {
        where = NULL;
        return no_memory(error);
    }
    if (asprintf(&before, "%s:", fetching->download.name) < 0) {
        before = NULL;
        return no_memory(error);
    }
    json_array_foreach(fetching->available, i, file)
    {
        if (mt_gguf_starts_model(name_of(file)))
            names[count++] = name_of(file);
    }
    const int r = mt_gguf_choose(where, before, names, count, choice, &chosen, error);
    if (r < 0)
        return r;
    *first = names[chosen];
    return want_parts(fetching, *first, error);
}

/* *gguf is NULL where it is no GGUF model. */
static int choose_files(struct mt_fetching *fetching, const char *choice, const char **gguf,
                        struct mt_error *error)
{
    bool config = false, weights = false, pickle = false, packed = choice;
    size_t i;
    json_t *file;
    int r = 0;
    *gguf = NULL;
    json_array_foreach(fetching->available, i, file)
    {
        const char *name = name_of(file);
        pickle = pickle || mt_path_ends_with(name, ".bin") || mt_path_ends_with(name, ".pt") ||
                 mt_path_ends_with(name, ".pth");
        packed = packed || mt_gguf_starts_model(name);
        if (choice || !is_wanted(name))
            continue;
        config = config || strcmp(name, "config.json") == 0;
        weights = weights || mt_path_ends_with(name, ".safetensors");
        r = r ? r : want(fetching, file, error);
    }
    if (r < 0 || (config && weights))
        return r;
    json_array_clear(fetching->files);
    if (packed)
        return choose_gguf(fetching, choice, gguf, error);
    return mt_error_set(error, -ENOTSUP, MT_REASON_BAD_MODEL, "%s on the hub has no %s%s",
                        fetching->download.name, config ? "safetensors files" : "config.json",
                        config && pickle ? ", only pickle files, which can run code when they are read" : "");
}

/* Files of another commit than the one that is wanted now would make no model. */
static int settle_commit(const struct mt_fetching *fetching, struct mt_error *error)
{
    mt_autofree char *path = mt_path_join(fetching->folder, ".commit");
    mt_autofree char *kept = NULL;
    size_t bytes;
    if (!path)
        return no_memory(error);
    if (mt_file_read(path, 256, &kept, &bytes, NULL) == 0 && strcmp(kept, fetching->commit) == 0)
        return 0;
    int r = mt_folder_remove(fetching->folder, error);
    if (r == 0)
        r = mt_folder_create(fetching->folder, 0755, error);
    return r == 0 ? mt_file_write_atomic(path, fetching->commit, strlen(fetching->commit), 0644, error) : r;
}

/* Where the files grow. */
static int name_partial(struct mt_fetching *fetching, const char *folder, const char *gguf,
                        struct mt_error *error)
{
    const char *slash = gguf ? strrchr(gguf, '/') : NULL, *base = slash ? slash + 1 : gguf;
    if (asprintf(&fetching->folder, "%s%s%s.partial", folder, base ? "." : "", base ? base : "") >= 0)
        return 0;
    fetching->folder = NULL;
    return no_memory(error);
}

/* One file from where it grew into the model's folder, in which there may be others. */
static int move_file(const struct mt_fetching *fetching, const char *folder, const char *name,
                     struct mt_error *error)
{
    mt_autofree char *from = mt_path_join(fetching->folder, name);
    mt_autofree char *to = mt_path_join(folder, name);
    mt_autofree char *inner = to ? strndup(to, (size_t)(strrchr(to, '/') - to)) : NULL;
    if (!from || !inner)
        return no_memory(error);
    int r = mt_folder_create(inner, 0755, error);
    if (r == 0 && rename(from, to) < 0)
        r = mt_error_set_errno(error, MT_REASON_IO, "cannot name %s", to);
    return r < 0 ? r : mt_folder_sync(inner, error);
}

/* What is whole gets its name. */
static int publish(const struct mt_fetching *fetching, const char *folder, bool gguf, struct mt_error *error)
{
    size_t i;
    json_t *file;
    int r = mt_folder_sync(fetching->folder, error);
    if (r == 0 && !gguf && rename(fetching->folder, folder) < 0)
        return mt_error_set_errno(error, MT_REASON_IO, "cannot name %s", folder);
    if (r < 0 || !gguf)
        return r;
    json_array_foreach(fetching->files, i, file)
    {
        if (r == 0)
            r = move_file(fetching, folder, name_of(file), error);
    }
    return r < 0 ? r : mt_folder_remove(fetching->folder, error);
}

static int fetch_all(struct mt_fetching *fetching, const char *folder, const char *choice,
                     struct mt_error *error)
{
    size_t i;
    json_t *file;
    const char *gguf = NULL;
    int r = mt_fetching_list(fetching, error);
    if (r == 0)
        r = choose_files(fetching, choice, &gguf, error);
    if (r == 0)
        r = name_partial(fetching, folder, gguf, error);
    if (r == 0)
        r = mt_folder_create(fetching->folder, 0755, error);
    if (r < 0)
        return r;
    mt_autofree char *lock_path = NULL;
    if (asprintf(&lock_path, "%s.lock", fetching->folder) < 0) {
        lock_path = NULL;
        return no_memory(error);
    }
    mt_autofd int lock = mt_fetching_lock(lock_path, folder, error);
    if (lock < 0)
        return lock;
    r = settle_commit(fetching, error);
    if (r == 0)
        r = mt_fetching_check_space(fetching, error);
    json_array_foreach(fetching->files, i, file)
    {
        if (r == 0)
            r = mt_fetching_file(fetching, file, error);
    }
    if (r == 0)
        r = publish(fetching, folder, gguf, error);
    if (r == 0)
        unlink(lock_path);
    return r;
}

int mt_model_download(const struct mt_download *download, const char *folder, const char *file,
                      struct mt_error *error)
{
    struct mt_fetching fetching;
    int r = mt_fetching_begin(&fetching, download, false, error);
    if (r == 0)
        r = fetch_all(&fetching, folder, file, error);
    if (r < 0)
        mt_error_prefix(error, "downloading %s", download->name);
    mt_fetching_end(&fetching);
    return r;
}
