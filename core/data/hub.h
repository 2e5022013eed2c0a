/* Data sets of the Hugging Face hub, as far as they lie in the local cache: <cache>/datasets--Org--Name/
 * snapshots/<revision>, the revision that refs/main names, else the only one there is. Which files are the
 * data follows what the library `datasets` does: the `configs` in the front matter of README.md; else names
 * such as data/train-00000-of-00002.parquet; else folders, then file names, with a word for a split in them;
 * else all files are the split train. Of several formats the most common one is taken. */
#ifndef MT_DATA_HUB_H
#define MT_DATA_HUB_H

#include "core/base/arena.h"
#include "core/base/error.h"

#include <stdbool.h>
#include <stddef.h>

struct mt_hub_dataset {
    const char *repository; /* "Org/Name", or "Name" */
    const char *subset;     /* the configuration; NULL: the default one */
    const char *split;      /* NULL: "train" */
    const char *folder;     /* look below this folder of the repository alone; NULL: everywhere */
};

/* The files, absolute and in order, in `arena`. MT_REASON_BAD_DATA: -EREMOTE when they are not in the cache,
 * or not all of them, so that they may be fetched; else the data set has no such subset, split or data, and
 * those that it has are told. `cache` NULL: that of the environment
 * (mt_job_hub_cache). */
int mt_hub_files(const char *cache, const struct mt_hub_dataset *dataset, struct mt_arena *arena,
                 const char *const **paths, size_t *num_paths, struct mt_error *error);

/* For a download: <cache>/datasets--Org--Name, in `arena`; NULL for a name that is none, or without memory.
 */
const char *mt_hub_folder(const char *cache, const char *repository, struct mt_arena *arena);

/* Which of the files that the hub has are the data (context: a struct mt_hub_dataset); `snapshot` is
 * <folder>/snapshots/<commit>, with README.md where there is one. What the hub has is kept in
 * <folder>/listings/<commit>.json: from then on a part of the data is not taken for all of it. */
int mt_hub_wanted(void *context, const char *snapshot, const char *const *names, size_t count, bool *wanted,
                  struct mt_error *error);

#endif
