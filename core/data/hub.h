/* Data sets of the Hugging Face hub, as far as they lie in the local cache: <cache>/datasets--Org--Name/
 * snapshots/<revision>, the revision that refs/main names, else the only one there is. Which files are the
 * data follows what the library `datasets` does: the `configs` in the front matter of README.md; else names
 * such as data/train-00000-of-00002.parquet; else folders, then file names, with a word for a split in them;
 * else all files are the split train. Of several formats the most common one is taken. */
#ifndef MT_DATA_HUB_H
#define MT_DATA_HUB_H

#include "core/base/arena.h"
#include "core/base/error.h"

#include <stddef.h>

struct mt_hub_dataset {
    const char *repository; /* "Org/Name", or "Name" */
    const char *subset;     /* the configuration; NULL: the default one */
    const char *split;      /* NULL: "train" */
    const char *folder;     /* look below this folder of the repository alone; NULL: everywhere */
};

/* The files, absolute and in order, in `arena`. -ENOENT, MT_REASON_BAD_DATA, when the data set is not in the
 * cache, or has no such subset, split or data, with those that it has. `cache` NULL: that of the environment
 * (mt_job_hub_cache). */
int mt_hub_files(const char *cache, const struct mt_hub_dataset *dataset, struct mt_arena *arena,
                 const char *const **paths, size_t *num_paths, struct mt_error *error);

#endif
