/* What of a data set is fetched, into the local hub cache. */
#include "core/base/cleanup.h"
#include "core/base/file.h"
#include "core/model/download.h"
#include "core/model/fetching.h"

#include <stdlib.h>
#include <string.h>

static int no_memory(struct mt_error *error)
{
    return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory for a download");
}

/* The commit that the cache has as main; NULL without any. */
static char *kept_commit(const char *reference)
{
    char *commit = NULL;
    size_t bytes;
    if (mt_file_read(reference, 128, &commit, &bytes, NULL) < 0)
        return NULL;
    commit[strcspn(commit, "\r\n ")] = '\0';
    if (mt_fetching_is_plain(commit))
        return commit;
    free(commit);
    return NULL;
}

/* What tells which files are the data comes first. */
static int fetch_readme(const struct mt_fetching *fetching, struct mt_error *error)
{
    size_t i;
    json_t *file;
    json_array_foreach(fetching->available, i, file)
    {
        if (strcmp(json_string_value(json_object_get(file, "name")), "README.md") == 0)
            return mt_fetching_file(fetching, file, error);
    }
    return 0;
}

static int choose_files(struct mt_fetching *fetching, mt_download_choose *choose, void *context,
                        struct mt_error *error)
{
    const size_t count = json_array_size(fetching->available);
    mt_autofree const char **names = calloc(count + 1, sizeof *names);
    mt_autofree bool *wanted = calloc(count + 1, sizeof *wanted);
    if (!names || !wanted)
        return no_memory(error);
    for (size_t i = 0; i < count; i++)
        names[i] = json_string_value(json_object_get(json_array_get(fetching->available, i), "name"));
    int r = choose(context, fetching->folder, names, count, wanted, error);
    for (size_t i = 0; r == 0 && i < count; i++)
        if (wanted[i] && json_array_append(fetching->files, json_array_get(fetching->available, i)) < 0)
            r = no_memory(error);
    return r;
}

static int fetch_all(struct mt_fetching *fetching, const char *folder, const char *reference,
                     mt_download_choose *choose, void *context, struct mt_error *error)
{
    size_t i;
    json_t *file;
    int r = mt_fetching_list(fetching, error);
    if (r < 0)
        return r;
    if (asprintf(&fetching->folder, "%s/snapshots/%s", folder, fetching->commit) < 0) {
        fetching->folder = NULL;
        return no_memory(error);
    }
    r = mt_folder_create(fetching->folder, 0755, error);
    mt_autofree char *lock_path = mt_path_join(folder, ".lock");
    if (r < 0 || !lock_path)
        return r < 0 ? r : no_memory(error);
    mt_autofd int lock = mt_fetching_lock(lock_path, folder, error);
    if (lock < 0)
        return lock;
    r = fetch_readme(fetching, error);
    if (r == 0)
        r = choose_files(fetching, choose, context, error);
    if (r == 0)
        r = mt_fetching_check_space(fetching, error);
    json_array_foreach(fetching->files, i, file)
    {
        if (r == 0)
            r = mt_fetching_file(fetching, file, error);
    }
    mt_autofree char *references = mt_path_join(folder, "refs");
    if (r == 0)
        r = references ? mt_folder_create(references, 0755, error) : no_memory(error);
    return r == 0 ? mt_file_write_atomic(reference, fetching->commit, strlen(fetching->commit), 0644, error)
                  : r;
}

int mt_dataset_download(const struct mt_download *download, const char *folder, mt_download_choose *choose,
                        void *choose_context, struct mt_error *error)
{
    struct mt_download wish = *download;
    struct mt_fetching fetching;
    mt_autofree char *reference = mt_path_join(folder, "refs/main");
    mt_autofree char *commit = reference ? kept_commit(reference) : NULL;
    if (!wish.revision)
        wish.revision = commit;
    int r = mt_fetching_begin(&fetching, &wish, true, error);
    if (r == 0)
        r = reference ? fetch_all(&fetching, folder, reference, choose, choose_context, error)
                      : no_memory(error);
    if (r < 0)
        mt_error_prefix(error, "downloading the data set %s", download->name);
    mt_fetching_end(&fetching);
    return r;
}
