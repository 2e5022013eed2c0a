/* Which files a dataset is made of, and which columns they are read by. */
#ifndef MT_DATA_SOURCE_H
#define MT_DATA_SOURCE_H

#include "core/base/arena.h"
#include "core/base/error.h"
#include "core/data/columns.h"
#include "core/data/hub.h"
#include "core/data/input.h"

#include <stdbool.h>
#include <stddef.h>

enum mt_format {
    MT_FORMAT_TEXT,  /* .txt: one document */
    MT_FORMAT_JSON,  /* .json: an array of rows, or rows one after another */
    MT_FORMAT_LINES, /* .jsonl, .ndjson: a row a line */
    MT_FORMAT_CSV,   /* .csv: the first record names the columns */
    MT_FORMAT_TSV,   /* .tsv: the same with tabs */
    MT_FORMAT_PARQUET,
    MT_FORMAT_ARROW, /* .arrow, .feather, .ipc: Arrow's file or stream */
    MT_NUM_FORMATS,
};

struct mt_source_file {
    const char *path;
    enum mt_format format;
    enum mt_compression compression; /* .gz, .zst behind the format's ending */
};

struct mt_source {
    struct mt_source_file *files;
    size_t num_files, capacity;
    size_t skipped_files; /* in folders: not data by their names */
    struct mt_columns columns;
    size_t max_rows; /* num_samples of a registry entry; SIZE_MAX: all */
    struct mt_arena *arena;
};

/* What the file's name says that it holds; false where it does not say. Borrows `path`. */
bool mt_source_format(const char *path, struct mt_source_file *file);

/* Paths of files and folders; a folder is walked recursively in byte order of the paths, links to folders are
 * not followed. Formats that come later are refused by name, in folders too. MT_REASON_BAD_DATA. */
int mt_source_from_paths(const char *const *paths, size_t num_paths, const struct mt_columns *columns,
                         struct mt_source *source, struct mt_error *error);

/* An entry of `<dataset_dir>/dataset_info.json` with `file_name`, or with `hf_hub_url` in the local hub cache
 * (-EREMOTE where it is not there). Columns given here go before the entry's. */
int mt_source_from_registry(const char *dataset_dir, const char *name, const struct mt_columns *columns,
                            struct mt_source *source, struct mt_error *error);

/* Where the entry's data is that of a hub, and is not in the local hub cache, `fetch` is to bring it there;
 * nothing is done for other entries. */
typedef int mt_source_fetcher(void *context, const struct mt_hub_dataset *dataset, struct mt_error *error);
int mt_source_fetch(const char *dataset_dir, const char *name, mt_source_fetcher *fetch, void *context,
                    struct mt_error *error);

void mt_source_free(struct mt_source *source); /* {0} is fine; leaves {0} */

#endif
