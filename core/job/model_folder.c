/* What a folder that somebody names as a model stands for, where it is no model folder itself. */
#include "core/job/model_folder.h"

#include "core/base/cleanup.h"
#include "core/base/file.h"
#include "core/job/gguf_names.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int no_memory(struct mt_error *error)
{
    return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory while looking for a model");
}

/* --- what there is ------------------------------------------------------------------------------------- */

void mt_gguf_list_free(struct mt_gguf_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->names[i]);
    free(list->names);
    *list = (struct mt_gguf_list){0};
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Takes `name`. */
static int append(struct mt_gguf_list *list, char *name)
{
    char **grown = name ? realloc(list->names, (list->count + 1) * sizeof *grown) : NULL;
    if (!grown) {
        free(name);
        return -ENOMEM;
    }
    list->names = grown;
    list->names[list->count++] = name;
    return 0;
}

static bool is_own_folder(const char *path)
{
    struct stat status;
    return lstat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

/* `below` is the name of the folder in `folder` that is listed; NULL: `folder` itself. */
static int list_entries(const char *folder, const char *below, bool deep, struct mt_gguf_list *list)
{
    mt_autofree char *path = below ? mt_path_join(folder, below) : strdup(folder);
    DIR *entries = path ? opendir(path) : NULL;
    int r = path ? 0 : -ENOMEM;
    for (struct dirent *entry; r == 0 && entries && (entry = readdir(entries)) != NULL;) {
        if (*entry->d_name == '.')
            continue;
        mt_autofree char *inner = deep && !below ? mt_path_join(folder, entry->d_name) : NULL;
        if (mt_gguf_starts_model(entry->d_name))
            r = append(list, below ? mt_path_join(below, entry->d_name) : strdup(entry->d_name));
        else if (inner && is_own_folder(inner))
            r = list_entries(folder, entry->d_name, deep, list);
    }
    if (entries)
        closedir(entries);
    return r;
}

int mt_gguf_list_folder(const char *folder, bool deep, struct mt_gguf_list *list)
{
    *list = (struct mt_gguf_list){0};
    const int r = list_entries(folder, NULL, deep, list);
    if (r < 0)
        mt_gguf_list_free(list);
    else if (list->count)
        qsort(list->names, list->count, sizeof *list->names, by_name);
    return r;
}

/* --- which of it is meant ------------------------------------------------------------------------------ */

bool mt_model_folder_is_whole(const char *folder)
{
    mt_autofree char *config = mt_path_join(folder, "config.json");
    bool weights = false;
    if (!config || !mt_path_exists(config))
        return false;
    DIR *entries = opendir(folder);
    for (struct dirent *entry; entries && !weights && (entry = readdir(entries)) != NULL;)
        weights = mt_path_ends_with(entry->d_name, ".safetensors");
    if (entries)
        closedir(entries);
    return weights;
}

/* <cache>/models--Org--Name, which holds the model several times, a commit each. */
static int refuse_cache_entry(const char *folder, struct mt_error *error)
{
    const char *slash = strrchr(folder, '/'), *name = slash ? slash + 1 : folder;
    mt_autofree char *snapshots = mt_path_join(folder, "snapshots");
    if (strncmp(name, "models--", 8) != 0 || !snapshots || !mt_path_exists(snapshots))
        return 0;
    name += 8;
    const char *mark = strstr(name, "--");
    const int before = (int)(mark ? mark - name : 0);
    return mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL,
                        "%s is a folder of the hub's cache and no model itself; say %.*s%s%s instead of it, "
                        "in a job as model.name",
                        folder, before, name, mark ? "/" : "", mark ? mark + 2 : name);
}

static int choose(const char *folder, const char *before, bool deep, const char *file, char **path,
                  struct mt_error *error)
{
    struct mt_gguf_list list;
    size_t chosen;
    *path = NULL;
    if (!file && mt_model_folder_is_whole(folder))
        return 0;
    if (mt_gguf_list_folder(folder, deep, &list) < 0)
        return no_memory(error);
    int r;
    if (!file && list.count == 0)
        r = refuse_cache_entry(folder, error);
    else
        r = mt_gguf_choose(folder, before, (const char *const *)list.names, list.count, file, &chosen, error);
    if (r == 0 && list.count && (*path = mt_path_join(folder, list.names[chosen])) == NULL)
        r = no_memory(error);
    mt_gguf_list_free(&list);
    return r;
}

int mt_gguf_in_folder(const char *folder, const char *file, char **path, struct mt_error *error)
{
    mt_autofree char *before = mt_path_join(folder, "");
    *path = NULL;
    return before ? choose(folder, before, file != NULL, file, path, error) : no_memory(error);
}

int mt_gguf_in_repository(const char *folder, const char *name, const char *file, char **path,
                          struct mt_error *error)
{
    mt_autofree char *before = NULL;
    *path = NULL;
    if (asprintf(&before, "%s:", name) < 0) {
        before = NULL;
        return no_memory(error);
    }
    return choose(folder, before, true, file, path, error);
}

bool mt_model_is_to_come(const char *path, const char *file)
{
    struct stat status;
    if (stat(path, &status) < 0)
        return true;
    if (!S_ISDIR(status.st_mode))
        return false;
    mt_autofree char *config = mt_path_join(path, "config.json");
    mt_autofree char *gguf = NULL;
    const int r = choose(path, "", true, file, &gguf, NULL);
    return r == -ENOENT || (r == 0 && !gguf && config && !mt_path_exists(config));
}
