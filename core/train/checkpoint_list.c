/* checkpoint_list.c: names, order and pruning of checkpoint folders. Removal first renames to ".tmp-...", so
 * that a kill in the middle never leaves a half-removed folder under a checkpoint's name. */
#include "core/train/checkpoint_list.h"

#include "core/base/cleanup.h"
#include "core/base/file.h"
#include "core/formats/gguf.h"
#include "core/train/manifest.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define UNFINISHED_PREFIX ".tmp-"

void mt_checkpoint_folder_name(size_t step, char name[32])
{
    snprintf(name, 32, "step-%08zu", step);
}

/* true and the step for "step-<digits>". */
static bool parse_name(const char *name, size_t *step)
{
    if (strncmp(name, "step-", 5) != 0 || name[5] < '0' || name[5] > '9')
        return false;
    char *end;
    errno = 0;
    unsigned long long value = strtoull(name + 5, &end, 10);
    if (errno != 0 || *end != '\0' || value > SIZE_MAX / 2)
        return false;
    *step = (size_t)value;
    return true;
}

static int by_step(const void *a, const void *b)
{
    size_t x = ((const struct mt_checkpoint_entry *)a)->step,
           y = ((const struct mt_checkpoint_entry *)b)->step;
    return x < y ? -1 : x > y;
}

int mt_checkpoint_list_read(const char *folder, struct mt_checkpoint_list *list, struct mt_error *error)
{
    memset(list, 0, sizeof *list);
    DIR *directory = opendir(folder);
    if (!directory) {
        if (errno == ENOENT)
            return 0;
        return mt_error_set_errno(error, MT_REASON_IO, "cannot list the checkpoints in '%s'", folder);
    }
    int result = 0;
    struct dirent *found;
    while (result == 0 && (found = readdir(directory))) {
        size_t step;
        if (!parse_name(found->d_name, &step))
            continue;
        struct mt_checkpoint_entry *grown = realloc(list->entries, (list->count + 1) * sizeof *grown);
        char *path = mt_path_join(folder, found->d_name);
        if (grown)
            list->entries = grown;
        if (!grown || !path) {
            free(path);
            result = mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory to list '%s'", folder);
            break;
        }
        struct mt_checkpoint_entry *entry = &list->entries[list->count++];
        struct stat status;
        *entry = (struct mt_checkpoint_entry){
            .step = step, .path = path, .is_folder = stat(path, &status) == 0 && S_ISDIR(status.st_mode)};
        if (mt_manifest_read(path, &entry->manifest, NULL) < 0)
            entry->manifest = NULL;
    }
    closedir(directory);
    if (result < 0) {
        mt_checkpoint_list_free(list);
        return result;
    }
    if (list->count > 1)
        qsort(list->entries, list->count, sizeof *list->entries, by_step);
    return 0;
}

void mt_checkpoint_list_free(struct mt_checkpoint_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free(list->entries[i].path);
        json_decref(list->entries[i].manifest);
    }
    free(list->entries);
    memset(list, 0, sizeof *list);
}

json_t *mt_checkpoint_object(const struct mt_checkpoint_entry *entry, bool verified)
{
    json_t *loss = json_object_get(entry->manifest, "loss");
    json_t *bytes = json_object_get(entry->manifest, "bytes");
    json_t *created_at = json_object_get(entry->manifest, "created_at");
    return json_pack("{s:I, s:s, s:O, s:O, s:O, s:b}", "step", (json_int_t)entry->step, "path", entry->path,
                     "bytes", bytes ? bytes : json_null(), "loss", loss ? loss : json_null(), "created_at",
                     created_at ? created_at : json_null(), "verified", verified);
}

/* Whole, and of the step that its folder's name says. */
static int verify_entry(const struct mt_checkpoint_entry *entry, struct mt_error *error)
{
    if (!entry->is_folder)
        return mt_error_set(error, -ENOTDIR, MT_REASON_BAD_MODEL,
                            "'%s' is not a folder, and so no checkpoint", entry->path);
    const int result = mt_manifest_verify(entry->path, MT_MANIFEST_HASHES, error);
    if (result < 0)
        return result;
    const json_int_t step = json_integer_value(json_object_get(entry->manifest, "step"));
    if (step != (json_int_t)entry->step)
        return mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL,
                            "the checkpoint '%s' holds step %lld: its folder was renamed", entry->path,
                            (long long)step);
    return 0;
}

int mt_checkpoint_newest_whole(const char *folder, char **path,
                               void (*report)(void *context, const char *sentence), void *context,
                               struct mt_error *error)
{
    *path = NULL;
    struct mt_checkpoint_list list;
    int result = mt_checkpoint_list_read(folder, &list, error);
    if (result < 0)
        return result;
    struct mt_error newest_fault = {0};
    for (size_t i = list.count; i-- > 0 && !*path;) {
        struct mt_error fault = {0};
        if (verify_entry(&list.entries[i], &fault) == 0) {
            *path = list.entries[i].path;
            list.entries[i].path = NULL;
            break;
        }
        if (newest_fault.code == 0)
            newest_fault = fault;
        if (report)
            report(context, fault.message);
    }
    if (!*path && list.count > 0) {
        if (error)
            *error = newest_fault;
        result = newest_fault.code;
    }
    mt_checkpoint_list_free(&list);
    return result;
}

int mt_checkpoint_make_way(const char *folder, size_t step, char **moved, struct mt_error *error)
{
    char name[32];
    struct stat status;
    *moved = NULL;
    mt_checkpoint_folder_name(step, name);
    mt_autofree char *path = mt_path_join(folder, name);
    if (!path)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory to save a checkpoint");
    if (lstat(path, &status) != 0 || S_ISDIR(status.st_mode))
        return 0;
    for (unsigned n = 1;; n++) {
        mt_autofree char *other = NULL;
        if (asprintf(&other, "%s.aside-%u", path, n) < 0)
            return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory to save a checkpoint");
        if (lstat(other, &status) == 0)
            continue;
        if (rename(path, other) != 0)
            return mt_error_set_errno(
                error, MT_REASON_IO,
                "'%s' is not a folder and stands in the way of a checkpoint; it cannot be "
                "renamed",
                path);
        *moved = other;
        other = NULL;
        return 0;
    }
}

/* A folder with all it holds, or whatever else has the name. */
static int remove_unfinished(const char *path, struct mt_error *error)
{
    struct stat status;
    if (lstat(path, &status) == 0 && !S_ISDIR(status.st_mode))
        return unlink(path) == 0 || errno == ENOENT
                   ? 0
                   : mt_error_set_errno(error, MT_REASON_IO, "cannot remove '%s'", path);
    return mt_folder_remove(path, error);
}

int mt_checkpoint_remove_unfinished(const char *folder, struct mt_error *error)
{
    DIR *directory = opendir(folder);
    if (!directory)
        return errno == ENOENT ? 0 : mt_error_set_errno(error, MT_REASON_IO, "cannot list '%s'", folder);
    int result = 0;
    struct dirent *found;
    while (result == 0 && (found = readdir(directory))) {
        if (strncmp(found->d_name, UNFINISHED_PREFIX, strlen(UNFINISHED_PREFIX)) != 0)
            continue;
        mt_autofree char *path = mt_path_join(folder, found->d_name);
        result =
            path ? remove_unfinished(path, error)
                 : mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory to clean '%s'", folder);
    }
    closedir(directory);
    return result;
}

static bool is_kept(size_t step, const size_t *kept_steps, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (kept_steps[i] == step)
            return true;
    }
    return false;
}

int mt_checkpoint_prune(const char *folder, size_t keep, const size_t *kept_steps, size_t num_kept_steps,
                        struct mt_error *error)
{
    struct mt_checkpoint_list list;
    int result = mt_checkpoint_list_read(folder, &list, error);
    if (result < 0)
        return result;
    size_t newer = 0;
    for (size_t i = 0; i < list.count; i++)
        newer += list.entries[i].is_folder;
    for (size_t i = 0; i < list.count && result == 0; i++) {
        if (!list.entries[i].is_folder || newer-- <= keep)
            continue;
        if (is_kept(list.entries[i].step, kept_steps, num_kept_steps))
            continue;
        char name[64];
        snprintf(name, sizeof name, UNFINISHED_PREFIX "removed-%zu", list.entries[i].step);
        mt_autofree char *aside = mt_path_join(folder, name);
        if (!aside)
            result = mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory to prune '%s'", folder);
        else if (rename(list.entries[i].path, aside) != 0)
            result = mt_error_set_errno(error, MT_REASON_IO, "cannot remove the old checkpoint '%s'",
                                        list.entries[i].path);
        else
            result = mt_folder_remove(aside, error);
    }
    mt_checkpoint_list_free(&list);
    return result;
}

int mt_checkpoint_resolve(const char *folder, char **path, struct mt_error *error)
{
    *path = NULL;
    mt_autofree char *config = mt_path_join(folder, "config.json");
    mt_autofree char *checkpoints = mt_path_join(folder, "checkpoints");
    mt_autofree char *final = checkpoints ? mt_path_join(checkpoints, "final") : NULL;
    if (!config || !final)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory to look into '%s'", folder);
    if (!mt_path_exists(folder))
        return mt_error_set(error, -ENOENT, MT_REASON_BAD_MODEL, "there is no folder '%s'", folder);
    struct mt_checkpoint_list list = {0};
    if (mt_path_exists(config) || mt_gguf_is(folder)) {
        *path = strdup(folder);
    } else if (mt_path_exists(final)) {
        *path = strdup(final);
    } else {
        int result = mt_checkpoint_list_read(checkpoints, &list, error);
        if (result < 0)
            return result;
        for (size_t i = list.count; i-- > 0 && !*path;)
            if (list.entries[i].is_folder)
                *path = strdup(list.entries[i].path);
        mt_checkpoint_list_free(&list);
    }
    if (!*path)
        return mt_error_set(
            error, -ENOENT, MT_REASON_BAD_MODEL,
            "'%s' has neither a config.json nor checkpoints: name a model's folder, a checkpoint or a run",
            folder);
    return 0;
}
