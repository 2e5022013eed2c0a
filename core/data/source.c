/* Finding the files of a dataset. */
#include "core/data/source.h"

#include "core/base/cleanup.h"
#include "core/base/file.h"
#include "core/base/size.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

#define MAX_FOLDER_DEPTH 32

#define KNOWN_ENDINGS ".txt, .json, .jsonl, .csv, .tsv (also with .gz or .zst behind), .parquet or .arrow"

static const struct {
    const char *suffix;
    enum mt_format format;
} known[] = {
    {".txt", MT_FORMAT_TEXT},     {".json", MT_FORMAT_JSON},       {".jsonl", MT_FORMAT_LINES},
    {".ndjson", MT_FORMAT_LINES}, {".csv", MT_FORMAT_CSV},         {".tsv", MT_FORMAT_TSV},
    {".arrow", MT_FORMAT_ARROW},  {".parquet", MT_FORMAT_PARQUET}, {".feather", MT_FORMAT_ARROW},
    {".ipc", MT_FORMAT_ARROW},
};

static const struct {
    const char *suffix;
    enum mt_compression compression;
} packed[] = {{".gz", MT_COMPRESSION_GZIP}, {".zst", MT_COMPRESSION_ZSTD}};

/* Data that must not be passed over in silence. */
static const char *const later[] = {".gz", ".zst", ".zip", ".bz2", ".xz", ".7z", ".tar"};

static const char *later_format(const char *path)
{
    for (size_t i = 0; i < sizeof later / sizeof *later; i++)
        if (mt_path_ends_with(path, later[i]))
            return later[i];
    return NULL;
}

bool mt_source_format(const char *path, struct mt_source_file *file)
{
    size_t length = strlen(path);
    *file = (struct mt_source_file){.path = path};
    for (size_t i = 0; i < sizeof packed / sizeof *packed; i++)
        if (mt_path_part_ends_with(path, length, packed[i].suffix)) {
            length -= strlen(packed[i].suffix);
            file->compression = packed[i].compression;
            break;
        }
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (mt_path_part_ends_with(path, length, known[i].suffix)) {
            file->format = known[i].format;
            return file->compression == MT_COMPRESSION_NONE || file->format < MT_FORMAT_PARQUET;
        }
    return false;
}

static int no_memory(struct mt_error *error)
{
    return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory while looking for data");
}

static int add_file(struct mt_source *source, const struct mt_source_file *file, struct mt_error *error)
{
    if (source->num_files == source->capacity) {
        const size_t capacity = mt_size_max(source->capacity * 2, 16);
        void *files = realloc(source->files, capacity * sizeof *source->files);
        if (!files)
            return no_memory(error);
        source->files = files;
        source->capacity = capacity;
    }
    const char *copy = mt_arena_strdup(source->arena, file->path);
    if (!copy)
        return no_memory(error);
    source->files[source->num_files] = *file;
    source->files[source->num_files++].path = copy;
    return 0;
}

static int refuse_later(const char *path, struct mt_error *error)
{
    return mt_error_set(error, -ENOTSUP, MT_REASON_BAD_DATA,
                        "%s: %s files are not supported yet; there are " KNOWN_ENDINGS, path,
                        later_format(path));
}

static int walk(struct mt_source *source, const char *folder, unsigned depth, struct mt_error *error);

static int visit(struct mt_source *source, const char *folder, const char *name, unsigned depth,
                 struct mt_error *error)
{
    mt_autofree char *path = mt_path_join(folder, name);
    if (!path)
        return no_memory(error);
    struct stat status, target;
    if (lstat(path, &status) < 0)
        return mt_error_set_errno(error, MT_REASON_BAD_DATA, "cannot read %s", path);
    if (S_ISDIR(status.st_mode))
        return walk(source, path, depth + 1, error);
    if (S_ISLNK(status.st_mode)) { /* to a file: as in hub caches */
        if (stat(path, &target) < 0)
            return mt_error_set_errno(error, MT_REASON_BAD_DATA, "the link %s leads nowhere", path);
        status = target;
    }
    struct mt_source_file file;
    const bool known_format = mt_source_format(path, &file);
    if (S_ISREG(status.st_mode) && !known_format && later_format(path))
        return refuse_later(path, error);
    if (!S_ISREG(status.st_mode) || !known_format || strcmp(name, "dataset_info.json") == 0) {
        source->skipped_files++;
        return 0;
    }
    return add_file(source, &file, error);
}

static int compare_entries(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int not_hidden(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static int walk(struct mt_source *source, const char *folder, unsigned depth, struct mt_error *error)
{
    if (depth > MAX_FOLDER_DEPTH)
        return mt_error_set(error, -ELOOP, MT_REASON_BAD_DATA, "%s: folders are nested more than %d deep",
                            folder, MAX_FOLDER_DEPTH);
    struct dirent **entries;
    const int count = scandir(folder, &entries, not_hidden, compare_entries);
    if (count < 0)
        return mt_error_set_errno(error, MT_REASON_BAD_DATA, "cannot read the folder %s", folder);
    int r = 0;
    for (int i = 0; i < count; i++) {
        if (r == 0)
            r = visit(source, folder, entries[i]->d_name, depth, error);
        free(entries[i]);
    }
    free(entries);
    return r;
}

static int add_path(struct mt_source *source, const char *path, struct mt_error *error)
{
    struct stat status;
    if (stat(path, &status) < 0)
        return mt_error_set_errno(error, MT_REASON_BAD_DATA, "cannot read the data set %s", path);
    if (S_ISDIR(status.st_mode)) {
        const size_t before = source->num_files, skipped = source->skipped_files;
        int r = walk(source, path, 0, error);
        if (r == 0 && source->num_files == before)
            return mt_error_set(error, -ENODATA, MT_REASON_BAD_DATA,
                                "the folder %s holds no file that ends in " KNOWN_ENDINGS " (%zu others)",
                                path, source->skipped_files - skipped);
        return r;
    }
    if (!S_ISREG(status.st_mode))
        return mt_error_set(error, -EINVAL, MT_REASON_BAD_DATA, "%s is neither a file nor a folder", path);
    struct mt_source_file file;
    if (mt_source_format(path, &file))
        return add_file(source, &file, error);
    if (later_format(path))
        return refuse_later(path, error);
    return mt_error_set(error, -EINVAL, MT_REASON_BAD_DATA,
                        "%s: the file's name does not say what it holds; it must end in " KNOWN_ENDINGS,
                        path);
}

/* The usual names for what was left open. */
static void fill_columns(struct mt_columns *columns)
{
    if (!columns->query)
        columns->query = columns->prompt ? "" : "input";
    if (!columns->prompt)
        columns->prompt = "instruction";
    if (!columns->response)
        columns->response = "output";
    if (!columns->system)
        columns->system = "system";
    if (!columns->history)
        columns->history = "history";
}

int mt_source_from_paths(const char *const *paths, size_t num_paths, const struct mt_columns *columns,
                         struct mt_source *source, struct mt_error *error)
{
    if (!source->arena) {
        *source = (struct mt_source){.arena = mt_arena_new(), .max_rows = SIZE_MAX};
        if (!source->arena)
            return no_memory(error);
    }
    source->columns = columns ? *columns : (struct mt_columns){0};
    fill_columns(&source->columns);
    int r = 0;
    for (size_t i = 0; r == 0 && i < num_paths; i++)
        r = add_path(source, paths[i], error);
    return r;
}

void mt_source_free(struct mt_source *source)
{
    free(source->files);
    mt_arena_free(source->arena);
    *source = (struct mt_source){0};
}
