#include "core/data/hub.h"

#include "core/base/cleanup.h"
#include "core/base/document.h"
#include "core/base/file.h"
#include "core/data/hub_internal.h"
#include "core/data/source.h"
#include "core/job/job.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MAX_DEPTH 32
#define MAX_LISTING_BYTES ((size_t)64 << 20)
#define NUM_SPLITS 3
#define MAX_NAMES 64

static void free_arena(struct mt_arena **arena)
{
    mt_arena_free(*arena);
}

static int no_memory(struct mt_error *error)
{
    return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory while looking for data");
}

int mt_hub_list_add(struct mt_hub_list *list, struct mt_arena *arena, const char *path)
{
    if (list->count == list->capacity) {
        const size_t capacity = 2 * list->capacity + 16;
        const char **paths = mt_arena_alloc(arena, capacity, sizeof *paths);
        if (!paths)
            return -ENOMEM;
        if (list->count)
            memcpy(paths, list->paths, list->count * sizeof *paths);
        list->paths = paths;
        list->capacity = capacity;
    }
    list->paths[list->count++] = path;
    return 0;
}

/* --- patterns ---------------------------------------------------------------------------------------------
 */

/* The set that begins behind '['; NULL where it does not end. */
static const char *match_set(const char *set, char c, bool *matches)
{
    const bool inverted = *set == '!' || *set == '^';
    bool found = false;
    set += inverted;
    for (const char *begin = set; *set && (*set != ']' || set == begin); set++) {
        if (set[1] == '-' && set[2] && set[2] != ']') {
            found = found || (c >= set[0] && c <= set[2]);
            set += 2;
        } else {
            found = found || c == *set;
        }
    }
    *matches = found != inverted;
    return *set == ']' ? set + 1 : NULL;
}

static bool matches(const char *pattern, const char *path, unsigned *steps)
{
    for (;;) {
        if (++*steps > 100000) /* a pattern made to take for ever */
            return false;
        if (*pattern == '*') {
            const bool over_parts = pattern[1] == '*';
            pattern += over_parts ? 2 : 1;
            if (over_parts && *pattern == '/' && matches(pattern + 1, path, steps))
                return true; /* no part at all */
            do {
                if (matches(pattern, path, steps))
                    return true;
            } while (*path && (over_parts || *path != '/') && path++);
            return false;
        }
        if (!*path || !*pattern)
            return *path == *pattern;
        if (*pattern == '[') {
            bool found;
            const char *behind = match_set(pattern + 1, *path, &found);
            if (!behind || !found || *path == '/')
                return false;
            pattern = behind;
        } else {
            if (*pattern == '?' ? *path == '/' : *pattern != *path)
                return false;
            pattern++;
        }
        path++;
    }
}

bool mt_hub_matches(const char *pattern, const char *path)
{
    unsigned steps = 0;
    return matches(pattern, path, &steps);
}

/* --- splits by names ------------------------------------------------------------------------------------ */

static const char *const split_names[NUM_SPLITS] = {"train", "validation", "test"};
static const char *const split_words[NUM_SPLITS][5] = {
    {"train", "training", NULL},
    {"validation", "valid", "dev", "val", NULL},
    {"test", "testing", "eval", "evaluation", NULL},
};

static bool separates(char c)
{
    return c && (strchr("-._ ", c) || isdigit((unsigned char)c));
}

/* Does the part of a path [part, end) hold the word, with separators (or an end, in a folder's name) around?
 */
static bool has_word(const char *part, const char *end, const char *word, bool folder)
{
    const size_t length = strlen(word);
    for (const char *at = part; at + length <= end; at++)
        if (strncmp(at, word, length) == 0 && (at == part || separates(at[-1])) &&
            (at + length == end ? folder : separates(at[length])))
            return true;
    return false;
}

static bool names_split(const char *path, int split, bool folders)
{
    const char *file = strrchr(path, '/');
    file = file ? file + 1 : path;
    for (size_t w = 0; split_words[split][w]; w++) {
        if (!folders && has_word(file, file + strlen(file), split_words[split][w], false))
            return true;
        for (const char *part = path; folders && part < file;) {
            const char *end = strchr(part, '/');
            if (has_word(part, end, split_words[split][w], true))
                return true;
            part = end + 1;
        }
    }
    return false;
}

/* data/SPLIT-00000-of-00002*.*: the length of the split's name, or 0. */
static size_t sharded_split(const char *path)
{
    if (!mt_hub_matches("data/*-[0-9][0-9][0-9][0-9][0-9]-of-[0-9][0-9][0-9][0-9][0-9]*.*", path))
        return 0;
    const char *of = strstr(path, "-of-");
    return of && of >= path + 11 ? (size_t)(of - path) - 11 : 0;
}

/* A split that there is, for errors, which have no room for many. */
static int add_name(struct mt_hub_list *found, struct mt_arena *arena, const char *name)
{
    for (size_t i = 0; i < found->count; i++)
        if (strcmp(found->paths[i], name) == 0)
            return 0;
    return found->count < MAX_NAMES ? mt_hub_list_add(found, arena, name) : 0;
}

/* Puts the files of the split into `chosen`, and the names of all splits there are into `found`. */
static int by_names(const struct mt_hub_list *files, const char *split, struct mt_arena *arena,
                    struct mt_hub_list *chosen, struct mt_hub_list *found)
{
    bool any = false;
    for (size_t i = 0; i < files->count; i++) {
        const size_t length = sharded_split(files->paths[i]);
        if (!length)
            continue;
        const char *name = mt_arena_strndup(arena, files->paths[i] + 5, length);
        any = true;
        if (!name || add_name(found, arena, name) < 0 ||
            (strcmp(name, split) == 0 && mt_hub_list_add(chosen, arena, files->paths[i]) < 0))
            return -ENOMEM;
    }
    for (int folders = 1; !any && folders >= 0; folders--)
        for (int s = 0; s < NUM_SPLITS; s++)
            for (size_t i = 0; i < files->count; i++) {
                if (!names_split(files->paths[i], s, folders))
                    continue;
                any = true;
                if (add_name(found, arena, split_names[s]) < 0 ||
                    (strcmp(split_names[s], split) == 0 &&
                     mt_hub_list_add(chosen, arena, files->paths[i]) < 0))
                    return -ENOMEM;
            }
    if (any)
        return 0;
    if (strcmp(split, "train") == 0)
        *chosen = *files;
    return add_name(found, arena, "train");
}

/* --- the cache ------------------------------------------------------------------------------------------ */

static int compare_entries(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int visible(const struct dirent *entry)
{
    static const char *const ignored[] = {"README.md", "config.json", "dataset_info.json",
                                          "dataset_infos.json", "dataset_dict.json"};
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++)
        if (strcmp(entry->d_name, ignored[i]) == 0)
            return 0;
    return entry->d_name[0] != '.' && strncmp(entry->d_name, "__", 2) != 0;
}

/* The data files below `folder`, with `prefix` before their names. */
static int walk(const char *folder, const char *prefix, unsigned depth, struct mt_arena *arena,
                struct mt_hub_list *files)
{
    struct dirent **entries;
    const int count = depth < MAX_DEPTH ? scandir(folder, &entries, visible, compare_entries) : -1;
    int r = 0;
    for (int i = 0; i < count; i++) {
        const char *name = entries[i]->d_name;
        const char *path = mt_arena_printf(arena, "%s/%s", folder, name);
        const char *relative = mt_arena_printf(arena, "%s%s", prefix, name);
        const char *below = mt_arena_printf(arena, "%s%s/", prefix, name);
        struct mt_source_file known;
        struct stat status;
        if (!path || !relative || !below)
            r = -ENOMEM;
        else if (r == 0 && stat(path, &status) == 0 && S_ISDIR(status.st_mode))
            r = walk(path, below, depth + 1, arena, files);
        else if (r == 0 && mt_source_format(relative, &known))
            r = mt_hub_list_add(files, arena, relative);
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
    return r;
}

const char *mt_hub_folder(const char *cache, const char *repository, struct mt_arena *arena)
{
    char *folder = mt_arena_printf(arena, "%s/datasets--%s", cache, repository), *slash;
    if (*repository == '.' || strstr(repository, ".."))
        return NULL;
    while (folder && (slash = strchr(folder + strlen(cache) + 1, '/')))
        folder = mt_arena_printf(arena, "%.*s--%s", (int)(slash - folder), folder, slash + 1);
    return folder;
}

/* The snapshot of the repository; NULL when it is not there. */
static const char *find_snapshot(const char *cache, const char *repository, struct mt_arena *arena)
{
    const char *folder = mt_hub_folder(cache, repository, arena);
    if (!folder)
        return NULL;
    mt_autofree char *revision = NULL;
    size_t bytes;
    const char *reference = mt_arena_printf(arena, "%s/refs/main", folder);
    if (reference && mt_file_read(reference, 128, &revision, &bytes, NULL) == 0) {
        revision[strcspn(revision, "\r\n /")] = '\0';
        const char *snapshot = mt_arena_printf(arena, "%s/snapshots/%s", folder, revision);
        if (snapshot && *revision && mt_path_exists(snapshot))
            return snapshot;
    }
    struct dirent **entries;
    const char *snapshots = mt_arena_printf(arena, "%s/snapshots", folder), *only = NULL;
    const int count = snapshots ? scandir(snapshots, &entries, visible, compare_entries) : -1;
    for (int i = 0; i < count; i++) {
        if (count == 1)
            only = mt_arena_printf(arena, "%s/%s", snapshots, entries[i]->d_name);
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
    return only;
}

/* Of several formats the most common one; of equally common ones the one that stands last in mt_format:
 * Parquet and Arrow are what others are converted to. */
static void keep_one_format(struct mt_hub_list *files)
{
    size_t counts[MT_NUM_FORMATS] = {0}, kept = 0;
    struct mt_source_file known = {0};
    for (size_t i = 0; i < files->count; i++)
        if (mt_source_format(files->paths[i], &known))
            counts[known.format]++;
    int best = 0;
    for (int format = 1; format < MT_NUM_FORMATS; format++)
        if (counts[format] >= counts[best])
            best = format;
    for (size_t i = 0; i < files->count; i++)
        if (mt_source_format(files->paths[i], &known) && (int)known.format == best)
            files->paths[kept++] = files->paths[i];
    files->count = kept;
}

static int nothing_chosen(const struct mt_hub_dataset *dataset, const char *split,
                          const struct mt_hub_list *found, size_t num_files, struct mt_error *error)
{
    char names[512] = "";
    size_t used = 0;
    for (size_t i = 0; i < found->count && used < sizeof names - 80; i++)
        used +=
            (size_t)snprintf(names + used, sizeof names - used, "%s%.60s", used ? ", " : "", found->paths[i]);
    if (!num_files)
        return mt_error_set(error, -ENODATA, MT_REASON_BAD_DATA,
                            "the data set %s has no file of a known format in the hub cache%s%s",
                            dataset->repository, dataset->folder ? " below " : "",
                            dataset->folder ? dataset->folder : "");
    return mt_error_set(error, -ENOENT, MT_REASON_BAD_DATA,
                        "the data set %s has no data for the split \"%s\"%s%s", dataset->repository, split,
                        used ? "; it has: " : "", names);
}

/* --- what the hub has ----------------------------------------------------------------------------------- */

/* snapshots/<commit> -> listings/<commit>.json */
static const char *listing_path(const char *snapshot, struct mt_arena *arena)
{
    const char *commit = strrchr(snapshot, '/') + 1;
    return mt_arena_printf(arena, "%.*s/../listings/%s.json", (int)(commit - snapshot) - 1, snapshot, commit);
}

/* As if all of the repository were here and were walked. */
static bool is_data(const char *path)
{
    struct mt_source_file known;
    for (const char *part = path; part; part = strchr(part, '/')) {
        struct dirent entry;
        part += *part == '/';
        const size_t length = strcspn(part, "/");
        if (length >= sizeof entry.d_name)
            return false;
        memcpy(entry.d_name, part, length);
        entry.d_name[length] = '\0';
        if (!visible(&entry))
            return false;
    }
    return mt_source_format(path, &known);
}

/* The order of walk(): by parts. */
static int compare_paths(const void *a, const void *b)
{
    const unsigned char *x = *(const unsigned char *const *)a, *y = *(const unsigned char *const *)b;
    while (*x && *x == *y) {
        x++;
        y++;
    }
    const int left = *x == '/' ? 1 : *x, right = *y == '/' ? 1 : *y; /* an end, then a slash, then letters */
    return left - right;
}

static int add_listed(const char *name, const char *prefix, struct mt_arena *arena, struct mt_hub_list *files)
{
    if (!name || !is_data(name) || strncmp(name, prefix, strlen(prefix)) != 0)
        return 0;
    const char *copy = mt_arena_strdup(arena, name);
    return copy ? mt_hub_list_add(files, arena, copy) : -ENOMEM;
}

static void sort_list(struct mt_hub_list *files)
{
    if (files->count)
        qsort(files->paths, files->count, sizeof *files->paths, compare_paths);
}

/* 1 when it is known what the hub has of this commit: what is here may be a part of it. */
static int read_listing(const char *snapshot, const char *prefix, struct mt_arena *arena,
                        struct mt_hub_list *files)
{
    const char *path = listing_path(snapshot, arena);
    mt_autofree char *text = NULL;
    mt_autojson json_t *names = NULL;
    size_t bytes, i;
    json_t *name;
    if (!path)
        return -ENOMEM;
    if (mt_file_read(path, MAX_LISTING_BYTES, &text, &bytes, NULL) < 0 ||
        mt_json_parse(text, bytes, path, &names, NULL) < 0)
        return 0;
    json_array_foreach(names, i, name)
    {
        if (add_listed(json_string_value(name), prefix, arena, files) < 0)
            return -ENOMEM;
    }
    sort_list(files);
    return 1;
}

static int keep_listing(const char *snapshot, const char *const *names, size_t count, struct mt_arena *arena,
                        struct mt_error *error)
{
    const char *path = listing_path(snapshot, arena);
    char *folder = path ? mt_arena_strndup(arena, path, (size_t)(strrchr(path, '/') - path)) : NULL;
    mt_autojson json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, json_string(names[i]));
    mt_autofree char *text = list ? json_dumps(list, JSON_INDENT(1)) : NULL;
    if (!folder || !text || json_array_size(list) != count)
        return no_memory(error);
    int r = mt_folder_create(folder, 0755, error);
    return r < 0 ? r : mt_file_write_atomic(path, text, strlen(text), 0644, error);
}

static int choose_of(const char *snapshot, const struct mt_hub_dataset *dataset, struct mt_hub_list *files,
                     struct mt_arena *arena, struct mt_hub_list *chosen, struct mt_error *error)
{
    const char *split = dataset->split ? dataset->split : "train";
    struct mt_hub_list found = {0};
    const char *readme = mt_arena_printf(arena, "%s/README.md", snapshot);
    if (!readme)
        return no_memory(error);
    int r = dataset->folder ? 0 : mt_hub_by_configs(readme, dataset, arena, files, chosen, error);
    if (r < 0)
        return r;
    if (r == 0 && dataset->subset && !dataset->folder)
        return mt_error_set(
            error, -ENOENT, MT_REASON_BAD_DATA,
            "the data set %s names no subsets in its README.md, so there is no \"%s\"; a folder of it "
            "can be named by `folder`",
            dataset->repository, dataset->subset);
    if (r == 0 && by_names(files, split, arena, chosen, &found) < 0)
        return no_memory(error);
    keep_one_format(chosen);
    return chosen->count ? 0 : nothing_chosen(dataset, split, &found, files->count, error);
}

static int not_here(const struct mt_hub_dataset *dataset, const char *place, const char *what,
                    struct mt_error *error)
{
    return mt_error_set(
        error, -EREMOTE, MT_REASON_BAD_DATA,
        "the data set %s of the Hugging Face hub is not in the local cache %s%s: fetch it first "
        "(hf download --repo-type dataset %s), or have downloads allowed (allow_download of the "
        "daemon, megatrain train --allow-download)",
        dataset->repository, place, what, dataset->repository);
}

static int choose(const char *snapshot, const struct mt_hub_dataset *dataset, const char *place,
                  struct mt_arena *arena, struct mt_hub_list *chosen, struct mt_error *error)
{
    struct mt_hub_list files = {0};
    const char *folder =
        dataset->folder ? mt_arena_printf(arena, "%s/%s", snapshot, dataset->folder) : snapshot;
    const char *prefix = dataset->folder ? mt_arena_printf(arena, "%s/", dataset->folder) : "";
    const int listed = folder && prefix ? read_listing(snapshot, prefix, arena, &files) : -ENOMEM;
    if (listed < 0 || (!listed && walk(folder, prefix, 0, arena, &files) < 0))
        return no_memory(error);
    int r = choose_of(snapshot, dataset, &files, arena, chosen, error);
    if (r < 0 && r != -ENOMEM && !listed) /* somebody may have fetched other parts of it alone */
        return error ? error->code = -EREMOTE : -EREMOTE;
    for (size_t i = 0; r == 0 && i < chosen->count; i++) {
        chosen->paths[i] = mt_arena_printf(arena, "%s/%s", snapshot, chosen->paths[i]);
        if (!chosen->paths[i])
            return no_memory(error);
        if (!mt_path_exists(chosen->paths[i]))
            r = not_here(dataset, place, ", or not all of it", error);
    }
    return r;
}

int mt_hub_wanted(void *context, const char *snapshot, const char *const *names, size_t count, bool *wanted,
                  struct mt_error *error)
{
    const struct mt_hub_dataset *dataset = context;
    mt_cleanup(free_arena) struct mt_arena *arena = mt_arena_new();
    struct mt_hub_list files = {0}, chosen = {0};
    const char *prefix = !arena || !dataset->folder ? "" : mt_arena_printf(arena, "%s/", dataset->folder);
    int r = arena && prefix ? keep_listing(snapshot, names, count, arena, error) : no_memory(error);
    for (size_t i = 0; r == 0 && i < count; i++)
        if (add_listed(names[i], prefix, arena, &files) < 0)
            r = no_memory(error);
    sort_list(&files);
    if (r == 0)
        r = choose_of(snapshot, dataset, &files, arena, &chosen, error);
    if (r == 0) {
        qsort(chosen.paths, chosen.count, sizeof *chosen.paths, compare_paths);
        for (size_t i = 0; i < count; i++)
            wanted[i] = bsearch(&names[i], chosen.paths, chosen.count, sizeof *chosen.paths, compare_paths);
    }
    return r;
}

int mt_hub_files(const char *cache, const struct mt_hub_dataset *dataset, struct mt_arena *arena,
                 const char *const **paths, size_t *num_paths, struct mt_error *error)
{
    mt_autofree char *usual = cache ? NULL : mt_job_hub_cache();
    const char *place = cache ? cache : usual;
    const char *snapshot = place ? find_snapshot(place, dataset->repository, arena) : NULL;
    struct mt_hub_list chosen = {0};
    if (!snapshot)
        return not_here(dataset, place ? place : "(none: HOME is not set)", "", error);
    int r = choose(snapshot, dataset, place, arena, &chosen, error);
    if (r < 0)
        return r;
    *paths = chosen.paths;
    *num_paths = chosen.count;
    return 0;
}
