#include "core/data/sampler.h"

#include "core/base/random.h"
#include "core/base/size.h"
#include "core/data/shuffle.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NO_EPOCH UINT64_MAX

struct mt_sampler {
    const struct mt_dataset *dataset;
    bool validation;
    bool in_order;
    size_t sequences_per_step;
    size_t num_sequences;
    uint64_t epoch;  /* from 0 */
    size_t position; /* sequences of it that were handed out; num_sequences at its end */
    uint32_t *order; /* [num_sequences] of `ordered_epoch` */
    uint64_t ordered_epoch;
};

static int no_memory(struct mt_error *error)
{
    return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory for the next batch");
}

int mt_sampler_new(const struct mt_dataset *dataset, const struct mt_sampler_options *options,
                   struct mt_sampler **result, struct mt_error *error)
{
    *result = NULL;
    const size_t num_sequences = mt_dataset_num_sequences(dataset, options->validation);
    if (!num_sequences)
        return mt_error_set(error, -ENODATA, MT_REASON_BAD_DATA, "the %s split has no sample",
                            options->validation ? "validation" : "training");
    if (!options->sequences_per_step)
        return mt_error_set(error, -EINVAL, MT_REASON_BAD_JOB, "a step must hold at least one sequence");
    struct mt_sampler *sampler = calloc(1, sizeof *sampler);
    if (!sampler)
        return no_memory(error);
    *sampler = (struct mt_sampler){
        .dataset = dataset,
        .validation = options->validation,
        .in_order = options->in_order || options->validation,
        .sequences_per_step = options->sequences_per_step,
        .num_sequences = num_sequences,
        .order = malloc(num_sequences * sizeof *sampler->order),
        .ordered_epoch = NO_EPOCH,
    };
    if (!sampler->order) {
        free(sampler);
        return no_memory(error);
    }
    *result = sampler;
    return 0;
}

void mt_sampler_free(struct mt_sampler *sampler)
{
    if (!sampler)
        return;
    free(sampler->order);
    free(sampler);
}

size_t mt_sampler_steps_per_epoch(const struct mt_sampler *sampler)
{
    return mt_size_ceil_div(sampler->num_sequences, sampler->sequences_per_step);
}

int mt_sampler_max_steps(const struct mt_sampler *sampler, double num_epochs, uint64_t *max_steps,
                         struct mt_error *error)
{
    const double steps = ceil(num_epochs * (double)mt_sampler_steps_per_epoch(sampler) - 1e-9);
    if (!(steps >= 1 && steps <= 0x1p53))
        return mt_error_set(error, -ERANGE, MT_REASON_BAD_JOB,
                            "%g epochs of %zu steps are no number of steps", num_epochs,
                            mt_sampler_steps_per_epoch(sampler));
    *max_steps = (uint64_t)steps;
    return 0;
}

/* Makes `order` that of the epoch at hand; it is a function of seed and epoch alone. */
static void order_epoch(struct mt_sampler *sampler)
{
    if (sampler->ordered_epoch == sampler->epoch)
        return;
    sampler->ordered_epoch = sampler->epoch;
    if (sampler->in_order) {
        for (size_t i = 0; i < sampler->num_sequences; i++)
            sampler->order[i] = (uint32_t)i;
        return;
    }
    char name[48];
    snprintf(name, sizeof name, "order of epoch %" PRIu64, sampler->epoch);
    mt_shuffle(mt_random_key(mt_dataset_seed(sampler->dataset), name), sampler->order,
               sampler->num_sequences);
}

/* A batch with room for these sequences, all in one block: ids, labels and document starts lie behind the
 * sequences. */
static struct mt_batch *allocate(const struct mt_sampler *sampler, const uint32_t *order, size_t count)
{
    size_t tokens = 0, starts = 0, integers, bytes, total;
    for (size_t i = 0; i < count; i++) {
        tokens += mt_dataset_sequence_tokens(sampler->dataset, sampler->validation, order[i]);
        starts += mt_dataset_sequence_documents(sampler->dataset, sampler->validation, order[i]) + 1;
    }
    if (!mt_size_mul(count, sizeof(struct mt_sequence), &bytes) || !mt_size_mul(tokens, 2, &integers) ||
        !mt_size_add(integers, starts, &integers) || !mt_size_mul(integers, sizeof(int32_t), &integers) ||
        !mt_size_add(bytes, integers, &total) || !mt_size_add(total, sizeof(struct mt_batch), &total))
        return NULL;
    struct mt_batch *batch = calloc(1, total);
    if (!batch)
        return NULL;
    batch->num_sequences = count;
    batch->sequences = (struct mt_sequence *)(batch + 1);
    return batch;
}

static void fill(const struct mt_sampler *sampler, const uint32_t *order, struct mt_batch *batch)
{
    int32_t *room = (int32_t *)(batch->sequences + batch->num_sequences);
    for (size_t i = 0; i < batch->num_sequences; i++) {
        struct mt_sequence *sequence = &batch->sequences[i];
        const size_t tokens = mt_dataset_sequence_tokens(sampler->dataset, sampler->validation, order[i]);
        sequence->ids = room;
        sequence->labels = room + tokens;
        sequence->document_starts = room + 2 * tokens;
        batch->target_tokens +=
            mt_dataset_fill_sequence(sampler->dataset, sampler->validation, order[i], sequence);
        batch->tokens += tokens;
        room += 2 * tokens + sequence->num_documents + 1;
    }
}

int mt_sampler_next(struct mt_sampler *sampler, struct mt_batch **result, struct mt_error *error)
{
    *result = NULL;
    if (sampler->position == sampler->num_sequences) {
        sampler->epoch++;
        sampler->position = 0;
    }
    order_epoch(sampler);
    const uint32_t *order = sampler->order + sampler->position;
    const size_t count = mt_size_min(sampler->sequences_per_step, sampler->num_sequences - sampler->position);
    struct mt_batch *batch = allocate(sampler, order, count);
    if (!batch)
        return no_memory(error);
    fill(sampler, order, batch);
    sampler->position += count;
    batch->epoch = (double)sampler->epoch + (double)sampler->position / (double)sampler->num_sequences;
    *result = batch;
    return 0;
}

void mt_batch_free(struct mt_batch *batch)
{
    free(batch);
}

json_t *mt_sampler_state(const struct mt_sampler *sampler)
{
    return json_pack("{s:I, s:I, s:I, s:s}", "epoch", (json_int_t)sampler->epoch, "position",
                     (json_int_t)sampler->position, "sequences", (json_int_t)sampler->num_sequences,
                     "fingerprint", mt_dataset_fingerprint(sampler->dataset));
}

int mt_sampler_restore(struct mt_sampler *sampler, const json_t *state, struct mt_error *error)
{
    const json_t *epoch = json_object_get(state, "epoch"), *position = json_object_get(state, "position");
    const char *fingerprint = json_string_value(json_object_get(state, "fingerprint"));
    if (!json_is_integer(epoch) || !json_is_integer(position) || !fingerprint ||
        json_integer_value(epoch) < 0 || json_integer_value(position) < 0)
        return mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL,
                            "the checkpoint's position in the data is damaged: resume from an earlier one");
    if (strcmp(fingerprint, mt_dataset_fingerprint(sampler->dataset)) != 0)
        return mt_error_set(
            error, -ESTALE, MT_REASON_BAD_DATA,
            "the checkpoint was made with other data: the files, the tokenizer, the template, "
            "dataset.* or training.seed changed since. Resume with what it was made with, or "
            "start a new job from its weights");
    if ((uint64_t)json_integer_value(position) > sampler->num_sequences)
        return mt_error_set(
            error, -EINVAL, MT_REASON_BAD_MODEL,
            "the checkpoint's position in the data lies beyond its end: resume from an earlier "
            "one");
    sampler->epoch = (uint64_t)json_integer_value(epoch);
    sampler->position = (size_t)json_integer_value(position);
    return 0;
}
