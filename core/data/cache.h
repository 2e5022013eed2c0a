/* The samples of a data set, kept for the next time: reading and tokenising happen once for the same files,
 * tokenizer, template, columns and lengths.
 *
 * An entry is a folder named by a SHA-256 over all of these (files by path, size, time of change and inode),
 * with the arrays of samples.h and a file `index`: sizes and checksums of the arrays, counts, and the SHA-256
 * of each file's contents. It appears by one rename when it is whole; damaged entries are removed and made
 * anew. Only data sets that outgrow memory (bulk.h) leave an entry. Entries that were not used for 30 days,
 * and what a killed process left, are removed when another one is made. */
#ifndef MT_DATA_CACHE_H
#define MT_DATA_CACHE_H

#include "core/base/error.h"
#include "core/data/bulk.h"
#include "core/data/dataset_internal.h"

struct mt_cache {
    struct mt_bulk_folder folder; /* where arrays that outgrow memory are put */
    char key[65];                 /* "": no cache */
};

int mt_cache_begin(struct mt_cache *cache, const struct mt_dataset_options *options,
                   const struct mt_sources *sources, struct mt_error *error);
/* 1 when samples, parts, digests and the counts of reading were found; 0 when they must be made. */
int mt_cache_find(const struct mt_cache *cache, struct mt_dataset *dataset, struct mt_error *error);
/* Keeps sealed samples, where a part of them outgrew memory. */
int mt_cache_keep(struct mt_cache *cache, struct mt_dataset *dataset, struct mt_error *error);
void mt_cache_end(struct mt_cache *cache);

#endif
