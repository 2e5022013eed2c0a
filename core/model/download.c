/* What of a model is fetched. */
#include "core/model/download.h"

#include "core/base/cleanup.h"
#include "core/base/file.h"
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

static int choose_files(struct mt_fetching *fetching, struct mt_error *error)
{
    bool config = false, weights = false, pickle = false, gguf = false;
    size_t i;
    json_t *file;
    json_array_foreach(fetching->available, i, file)
    {
        const char *name = json_string_value(json_object_get(file, "name"));
        pickle = pickle || mt_path_ends_with(name, ".bin") || mt_path_ends_with(name, ".pt") ||
                 mt_path_ends_with(name, ".pth");
        gguf = gguf || mt_path_ends_with(name, ".gguf");
        if (!is_wanted(name))
            continue;
        config = config || strcmp(name, "config.json") == 0;
        weights = weights || mt_path_ends_with(name, ".safetensors");
        if (json_array_append(fetching->files, file) < 0)
            return no_memory(error);
    }
    if (config && weights)
        return 0;
    if (gguf)
        return mt_error_set(
            error, -ENOTSUP, MT_REASON_BAD_MODEL,
            "%s on the hub has GGUF files, which are not fetched: download one of them, with all "
            "of its parts, and name it by model.path",
            fetching->download.name);
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

static int fetch_all(struct mt_fetching *fetching, const char *folder, struct mt_error *error)
{
    size_t i;
    json_t *file;
    int r = mt_fetching_list(fetching, error);
    if (r == 0)
        r = choose_files(fetching, error);
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
        r = mt_folder_sync(fetching->folder, error);
    if (r == 0 && rename(fetching->folder, folder) < 0)
        r = mt_error_set_errno(error, MT_REASON_IO, "cannot name %s", folder);
    if (r == 0)
        unlink(lock_path);
    return r;
}

int mt_model_download(const struct mt_download *download, const char *folder, struct mt_error *error)
{
    struct mt_fetching fetching;
    int r = mt_fetching_begin(&fetching, download, false, error);
    if (r == 0 && asprintf(&fetching.folder, "%s.partial", folder) < 0) {
        fetching.folder = NULL;
        r = no_memory(error);
    }
    if (r == 0)
        r = fetch_all(&fetching, folder, error);
    if (r < 0)
        mt_error_prefix(error, "downloading %s", download->name);
    mt_fetching_end(&fetching);
    return r;
}
