/* The split and the packing: both follow from the seed and the samples alone. */
#include "core/base/cleanup.h"
#include "core/base/random.h"
#include "core/data/dataset_internal.h"
#include "core/data/shuffle.h"

#include <math.h>
#include <string.h>

static int no_memory(struct mt_error *error)
{
    return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY,
                        "out of memory for the order of the data set");
}

/* Samples held out. A share is rounded to the nearest and always leaves one to train on. */
static int count_validation(const struct mt_dataset_options *options, size_t count, size_t *held_out,
                            struct mt_error *error)
{
    *held_out = 0;
    if (!(options->val_size > 0))
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

static int split(struct mt_dataset *dataset, const struct mt_dataset_options *options, uint32_t *scratch,
                 struct mt_error *error)
{
    size_t held_out;
    int r = count_validation(options, dataset->samples.count, &held_out, error);
    if (r < 0 || !held_out)
        return r;
    mt_shuffle(mt_random_key(options->seed, "validation split"), scratch, dataset->samples.count);
    for (size_t i = 0; i < held_out; i++)
        dataset->samples.ranges[scratch[i]].validation = true;
    return 0;
}

/* The sequences of one split. Packs are filled in a shuffled order, else neighbours in a file would always
 * stay together. */
static int arrange_split(struct mt_dataset *dataset, const struct mt_dataset_options *options,
                         bool validation, uint32_t *order, uint32_t *lengths, struct mt_error *error)
{
    const struct mt_samples *samples = &dataset->samples;
    size_t count = 0;
    if (options->packing && !validation) {
        mt_shuffle(mt_random_key(options->seed, "packing"), order, samples->count);
    } else {
        for (size_t i = 0; i < samples->count; i++)
            order[i] = (uint32_t)i;
    }
    for (size_t i = 0; i < samples->count; i++)
        if (samples->ranges[order[i]].validation == validation)
            order[count++] = order[i];
    for (size_t i = 0; i < count; i++)
        lengths[i] = samples->ranges[order[i]].tokens;
    const uint32_t capacity = options->packing ? (uint32_t)options->max_seq_len : 0;
    if (mt_packs_make(order, lengths, count, capacity, &dataset->packs[validation]) < 0)
        return no_memory(error);
    return 0;
}

int mt_dataset_arrange(struct mt_dataset *dataset, const struct mt_dataset_options *options,
                       struct mt_error *error)
{
    mt_autofree uint32_t *order = calloc(dataset->samples.count + 1, sizeof *order);
    mt_autofree uint32_t *lengths = malloc((dataset->samples.count + 1) * sizeof *lengths);
    if (!order || !lengths)
        return no_memory(error);
    int r = split(dataset, options, order, error);
    if (r == 0)
        r = arrange_split(dataset, options, false, order, lengths, error);
    if (r == 0)
        r = arrange_split(dataset, options, true, order, lengths, error);
    return r;
}
