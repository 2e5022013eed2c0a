/* What the parts of core/data/ that build a dataset share. */
#ifndef MT_DATA_DATASET_INTERNAL_H
#define MT_DATA_DATASET_INTERNAL_H

#include "core/base/sha256.h"
#include "core/data/dataset.h"
#include "core/data/pack.h"
#include "core/data/samples.h"
#include "core/data/source.h"

/* What one source gave. */
struct mt_dataset_part {
    uint64_t first_sample, num_samples;
    uint64_t first_sequence[2], num_sequences[2]; /* training, validation */
    uint64_t draws;                               /* of training sequences in an epoch */
};

struct mt_dataset {
    struct mt_samples samples;
    struct mt_dataset_part *parts;
    size_t num_parts;
    uint8_t *validation;          /* bit i: is sample i held out? */
    unsigned char (*digests)[32]; /* of the files, in order */
    size_t num_digests;
    struct mt_packs packs[2]; /* training, validation */
    struct mt_dataset_stats stats;
    uint64_t seed;
    char fingerprint[65];
};

static inline bool mt_dataset_held_out(const struct mt_dataset *dataset, size_t sample)
{
    return dataset->validation[sample / 8] >> sample % 8 & 1;
}

/* The files and columns that the options name; one source, or one a part of the mixture. */
struct mt_sources {
    struct mt_source *list;
    size_t count;
};
int mt_dataset_sources(const struct mt_dataset_options *options, struct mt_sources *sources,
                       struct mt_error *error);
void mt_sources_free(struct mt_sources *sources);
size_t mt_sources_num_files(const struct mt_sources *sources);

/* All of the options that samples, packs or order depend on, but not the files. A change of how any of it is
 * done must change the first line. */
void mt_dataset_hash_options(struct mt_sha256 *hash, const struct mt_dataset_options *options,
                             const struct mt_sources *sources);

/* Reads, renders, tokenises and cuts all rows of the sources into dataset->samples (which are begun), fills
 * parts and digests, and counts. */
int mt_dataset_ingest(struct mt_dataset *dataset, const struct mt_dataset_options *options,
                      const struct mt_sources *sources, struct mt_error *error);

/* Marks the validation samples and lays the samples of both splits into sequences. */
int mt_dataset_arrange(struct mt_dataset *dataset, const struct mt_dataset_options *options,
                       struct mt_error *error);

/* Fills what of the statistics follows from samples and packs. */
int mt_dataset_count(struct mt_dataset *dataset, struct mt_error *error);

#endif
