/* The split and the packing: both follow from the seed and the samples alone. Each part of a mixture is split
 * and packed by itself, so that weights are shares of sequences. */
#include "core/base/cleanup.h"
#include "core/base/random.h"
#include "core/base/size.h"
#include "core/data/dataset_internal.h"
#include "core/data/shuffle.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Samples that are packed together at most: what packing needs in memory is a function of it. */
#define WINDOW_SAMPLES ((size_t)1 << 20)

static int no_memory(struct mt_error *error)
{
    return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY,
                        "out of memory for the order of the data set");
}

/* The key of a part's own randomness; that of the first part has the plain name. */
static uint64_t part_key(uint64_t seed, const char *what, size_t part)
{
    char name[64];
    snprintf(name, sizeof name, part ? "%s of part %zu" : "%s", what, part);
    return mt_random_key(seed, name);
}

/* Samples held out. A share is rounded to the nearest and always leaves one to train on. */
static int count_validation(const struct mt_dataset_options *options, size_t count, size_t *held_out,
                            struct mt_error *error)
{
    *held_out = 0;
    if (!(options->val_size > 0) || !count)
        return 0;
    if (options->val_size < 1) {
        const size_t share = (size_t)llround(options->val_size * (double)count);
        *held_out = share < count ? share : count - 1;
        return 0;
    }
    if (options->val_size >= (double)count)
        return mt_error_set(error, -ENODATA, MT_REASON_BAD_DATA,
                            "dataset.val_size %.0f leaves nothing to train on: the data set has %zu samples",
                            options->val_size, count);
    *held_out = (size_t)options->val_size;
    return 0;
}

static int split(struct mt_dataset *dataset, const struct mt_dataset_options *options, size_t part,
                 struct mt_error *error)
{
    const size_t first = (size_t)dataset->parts[part].first_sample;
    const size_t count = (size_t)dataset->parts[part].num_samples;
    size_t held_out;
    int r = count_validation(options, count, &held_out, error);
    if (r < 0 || !held_out)
        return r;
    struct mt_order order;
    if (mt_order_make(&order, part_key(options->seed, "validation split", part), count) < 0)
        return no_memory(error);
    for (size_t i = 0; i < held_out; i++) {
        const size_t sample = first + mt_order_at(&order, i);
        dataset->validation[sample / 8] |= (uint8_t)(1u << sample % 8);
    }
    mt_order_free(&order);
    return 0;
}

/* The sequences of one split of a part. Packs are filled in a shuffled order, else neighbours in a file would
 * always stay together. */
static int arrange_split(struct mt_dataset *dataset, const struct mt_dataset_options *options, size_t part,
                         bool validation, struct mt_error *error)
{
    const struct mt_dataset_part *samples = &dataset->parts[part];
    const size_t count = (size_t)samples->num_samples, window = mt_size_min(count, WINDOW_SAMPLES);
    const uint32_t capacity = options->packing ? (uint32_t)options->max_seq_len : 0;
    struct mt_packs *packs = &dataset->packs[validation];
    mt_autofree uint32_t *members = malloc((window + 1) * sizeof *members);
    mt_autofree uint32_t *lengths = malloc((window + 1) * sizeof *lengths);
    struct mt_order order = mt_order_identity(count);
    if (!members || !lengths)
        return no_memory(error);
    if (options->packing && !validation &&
        mt_order_make(&order, part_key(options->seed, "packing", part), count) < 0)
        return no_memory(error);
    int r = 0;
    size_t used = 0;
    for (size_t i = 0; r == 0 && i < count; i++) {
        const size_t sample = (size_t)samples->first_sample + mt_order_at(&order, i);
        if (mt_dataset_held_out(dataset, sample) == validation) {
            struct mt_sample_range range = {0};
            r = mt_samples_range(&dataset->samples, sample, &range, error);
            members[used] = (uint32_t)sample;
            lengths[used++] = range.tokens;
        }
        if (r == 0 && (used == window || (used && i + 1 == count))) {
            r = mt_packs_add(packs, members, lengths, used, capacity, error);
            used = 0;
        }
    }
    mt_order_free(&order);
    return r;
}

/* How many training sequences of each part an epoch has. */
static int share_out(struct mt_dataset *dataset, const struct mt_dataset_options *options,
                     struct mt_error *error)
{
    const bool over = options->mix_strategy == MT_JOB_MIX_OVER;
    double epoch = 0, weights = 0, sequences = 0;
    for (size_t k = 0; k < dataset->num_parts; k++)
        dataset->parts[k].draws = dataset->parts[k].num_sequences[0];
    if (!options->num_mix || options->mix_strategy == MT_JOB_MIX_CONCAT)
        return 0;
    for (size_t k = 0; k < dataset->num_parts; k++)
        weights += options->mix[k].weight;
    for (size_t k = 0; k < dataset->num_parts; k++) {
        const double whole = (double)dataset->parts[k].num_sequences[0] * weights / options->mix[k].weight;
        if (k == 0 || (over ? whole > epoch : whole < epoch))
            epoch = whole;
    }
    for (size_t k = 0; k < dataset->num_parts; k++) {
        const double draws = round(epoch * options->mix[k].weight / weights);
        dataset->parts[k].draws = !dataset->parts[k].num_sequences[0] ? 0 : draws < 1 ? 1 : (uint64_t)draws;
        sequences += draws;
    }
    if (sequences > (double)UINT32_MAX)
        return mt_error_set(error, -EFBIG, MT_REASON_BAD_JOB,
                            "dataset.mix: with these weights an epoch has %.0f sequences; bring the weights "
                            "closer together, or set mix_strategy: interleave_under",
                            sequences);
    return 0;
}

int mt_dataset_arrange(struct mt_dataset *dataset, const struct mt_dataset_options *options,
                       struct mt_error *error)
{
    static const char *const names[2][2] = {{"train-starts", "train-members"},
                                            {"validation-starts", "validation-members"}};
    struct mt_bulk_folder folder = {.parent = options->cache_dir, .memory = options->cache_memory_bytes};
    dataset->validation = calloc(dataset->samples.count / 8 + 1, 1);
    int r = dataset->validation ? 0 : no_memory(error);
    for (size_t part = 0; r == 0 && part < dataset->num_parts; part++)
        r = split(dataset, options, part, error);
    for (int validation = 0; r == 0 && validation < 2; validation++) {
        struct mt_packs *packs = &dataset->packs[validation];
        mt_packs_begin(packs, &folder, names[validation]);
        for (size_t part = 0; r == 0 && part < dataset->num_parts; part++) {
            const size_t first = packs->num_packs;
            r = arrange_split(dataset, options, part, validation, error);
            dataset->parts[part].first_sequence[validation] = first;
            dataset->parts[part].num_sequences[validation] = packs->num_packs - first;
        }
        if (r == 0)
            r = mt_packs_seal(packs, error);
    }
    mt_bulk_folder_remove(&folder);
    return r < 0 ? r : share_out(dataset, options, error);
}
