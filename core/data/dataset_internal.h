/* What the parts of core/data/ that build a dataset share. */
#ifndef MT_DATA_DATASET_INTERNAL_H
#define MT_DATA_DATASET_INTERNAL_H

#include "core/base/sha256.h"
#include "core/data/dataset.h"
#include "core/data/pack.h"
#include "core/data/samples.h"

struct mt_dataset {
    struct mt_samples samples;
    struct mt_packs packs[2]; /* training, validation */
    struct mt_dataset_stats stats;
    uint64_t seed;
    char fingerprint[65];
    struct mt_sha256 hash; /* becomes the fingerprint */
};

/* The files and columns that the options name. */
int mt_dataset_source(const struct mt_dataset_options *options, struct mt_source *source,
                      struct mt_error *error);

/* Preference data is read and checked by mt_conversation_read, and not trained on yet: -ENOTSUP. */
int mt_dataset_check_method(const struct mt_dataset_options *options, const struct mt_columns *columns,
                            struct mt_error *error);

/* Reads, renders, tokenises and cuts all rows of `source` into dataset->samples, counts, and adds the files
 * to dataset->hash. */
int mt_dataset_ingest(struct mt_dataset *dataset, const struct mt_dataset_options *options,
                      const struct mt_source *source, struct mt_error *error);

/* Marks the validation samples and lays the samples of both splits into sequences. */
int mt_dataset_arrange(struct mt_dataset *dataset, const struct mt_dataset_options *options,
                       struct mt_error *error);

/* Fills what of the statistics follows from samples and packs. */
void mt_dataset_count(struct mt_dataset *dataset);

#endif
