#include "core/data/sampler.h"

#include "core/base/cleanup.h"
#include "core/base/random.h"
#include "core/base/size.h"
#include "core/data/shuffle.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NO_EPOCH UINT64_MAX

/* Steps whose sequences are grouped by length together: enough that those of a step are nearly as long. */
#define GROUP_STEPS 64

struct mt_sampler {
    const struct mt_dataset *dataset;
    bool validation;
    bool in_order;
    bool group_by_length;
    size_t sequences_per_step;
    size_t num_sequences;  /* of an epoch */
    uint64_t epoch;        /* from 0 */
    size_t position;       /* sequences of it that were handed out; num_sequences at its end */
    struct mt_order order; /* of `ordered_epoch` */
    uint64_t ordered_epoch;
    size_t *group; /* [GROUP_STEPS x sequences_per_step]: the sequences from place `group_first` on */
    size_t group_first, group_count;
    size_t *batch; /* [sequences_per_step]: those of the step at hand */
};

static int no_memory(struct mt_error *error)
{
    return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory for the next batch");
}

/* Validation looks at every sequence once, whatever the weights of a mixture. */
static size_t epoch_sequences(const struct mt_dataset *dataset, const struct mt_sampler_options *options)
{
    if (options->validation)
        return mt_dataset_num_sequences(dataset, true);
    size_t draws = 0;
    for (size_t k = 0; k < mt_dataset_num_shares(dataset); k++)
        draws += (size_t)mt_dataset_share(dataset, k).draws;
    return draws;
}

int mt_sampler_new(const struct mt_dataset *dataset, const struct mt_sampler_options *options,
                   struct mt_sampler **result, struct mt_error *error)
{
    *result = NULL;
    const size_t num_sequences = epoch_sequences(dataset, options);
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
        .ordered_epoch = NO_EPOCH,
        .batch = calloc(options->sequences_per_step, sizeof *sampler->batch),
    };
    sampler->group_by_length = options->group_by_length && !sampler->in_order;
    if (sampler->group_by_length)
        sampler->group = calloc(options->sequences_per_step, GROUP_STEPS * sizeof *sampler->group);
    if (!sampler->batch || (sampler->group_by_length && !sampler->group)) {
        mt_sampler_free(sampler);
        return no_memory(error);
    }
    *result = sampler;
    return 0;
}

void mt_sampler_free(struct mt_sampler *sampler)
{
    if (!sampler)
        return;
    mt_order_free(&sampler->order);
    free(sampler->group);
    free(sampler->batch);
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
static int order_epoch(struct mt_sampler *sampler, struct mt_error *error)
{
    if (sampler->ordered_epoch == sampler->epoch)
        return 0;
    mt_order_free(&sampler->order);
    sampler->ordered_epoch = NO_EPOCH;
    sampler->group_count = 0;
    if (sampler->in_order) {
        sampler->order = mt_order_identity(sampler->num_sequences);
    } else {
        char name[48];
        snprintf(name, sizeof name, "order of epoch %" PRIu64, sampler->epoch);
        if (mt_order_make(&sampler->order, mt_random_key(mt_dataset_seed(sampler->dataset), name),
                          sampler->num_sequences) < 0)
            return no_memory(error);
    }
    sampler->ordered_epoch = sampler->epoch;
    return 0;
}

/* Draw `draw` (from 0, through all epochs) of a part of a mixture: the part is gone through in an order of
 * its own, again and again. Computed, since an epoch may go through it many times. */
static size_t draw_of_part(const struct mt_sampler *sampler, size_t part,
                           const struct mt_dataset_share *share, uint64_t draw)
{
    char name[96];
    snprintf(name, sizeof name, "order of part %zu, round %" PRIu64, part, draw / share->count);
    const struct mt_order order =
        mt_order_computed(mt_random_key(mt_dataset_seed(sampler->dataset), name), share->count);
    return share->first + mt_order_at(&order, (size_t)(draw % share->count));
}

/* The sequence at a place of the epoch at hand. */
static size_t sequence_at(const struct mt_sampler *sampler, size_t place)
{
    size_t i = mt_order_at(&sampler->order, place);
    const size_t parts = mt_dataset_num_shares(sampler->dataset);
    if (sampler->validation || parts == 1)
        return i;
    for (size_t k = 0; k < parts; k++) {
        const struct mt_dataset_share share = mt_dataset_share(sampler->dataset, k);
        if (i < share.draws)
            return draw_of_part(sampler, k, &share, sampler->epoch * share.draws + i);
        i -= (size_t)share.draws;
    }
    return 0; /* not reached: the draws sum up to the order's count */
}

struct by_length {
    size_t tokens, place, sequence;
};

static int longer_first(const void *a, const void *b)
{
    const struct by_length *x = a, *y = b;
    if (x->tokens != y->tokens)
        return x->tokens > y->tokens ? -1 : 1;
    return x->place < y->place ? -1 : 1;
}

/* The group that `place` lies in: its sequences sorted by length and cut into steps, the steps shuffled. What
 * does not fill a step at the end of an epoch comes last. */
static int load_group(struct mt_sampler *sampler, size_t place, struct mt_error *error)
{
    const size_t size = GROUP_STEPS * sampler->sequences_per_step, per_step = sampler->sequences_per_step;
    const size_t first = place / size * size, count = mt_size_min(size, sampler->num_sequences - first);
    if (sampler->group_count && sampler->group_first == first)
        return 0;
    mt_autofree struct by_length *sorted = calloc(count, sizeof *sorted);
    if (!sorted)
        return no_memory(error);
    for (size_t i = 0; i < count; i++) {
        struct mt_documents documents;
        sorted[i].place = i;
        sorted[i].sequence = sequence_at(sampler, first + i);
        int r = mt_dataset_find_documents(sampler->dataset, sampler->validation, sorted[i].sequence,
                                          &documents, error);
        if (r < 0)
            return r;
        sorted[i].tokens = documents.tokens;
        mt_documents_free(&documents);
    }
    qsort(sorted, count, sizeof *sorted, longer_first);
    char name[96];
    uint32_t steps[GROUP_STEPS];
    snprintf(name, sizeof name, "steps from %zu on of epoch %" PRIu64, first, sampler->epoch);
    mt_shuffle(mt_random_key(mt_dataset_seed(sampler->dataset), name), steps, count / per_step);
    for (size_t i = 0; i < count; i++) {
        const size_t step = i / per_step, from = step < count / per_step ? steps[step] : step;
        sampler->group[i] = sorted[from * per_step + i % per_step].sequence;
    }
    sampler->group_first = first;
    sampler->group_count = count;
    return 0;
}

/* The sequences of the next step into sampler->batch. */
static int choose(struct mt_sampler *sampler, size_t count, struct mt_error *error)
{
    int r = order_epoch(sampler, error);
    for (size_t i = 0; r == 0 && i < count; i++) {
        const size_t place = sampler->position + i;
        if (sampler->group_by_length)
            r = load_group(sampler, place, error);
        if (r == 0)
            sampler->batch[i] = sampler->group_by_length ? sampler->group[place - sampler->group_first]
                                                         : sequence_at(sampler, place);
    }
    return r;
}

/* What the sequences of a step are made of, each read once. */
struct step {
    struct mt_documents *documents; /* [count] */
    size_t count;
};

static void free_step(struct step *step)
{
    for (size_t i = 0; step->documents && i < step->count; i++)
        mt_documents_free(&step->documents[i]);
    free(step->documents);
}

static int find(const struct mt_sampler *sampler, struct step *step, struct mt_error *error)
{
    step->documents = calloc(step->count, sizeof *step->documents);
    int r = step->documents ? 0 : no_memory(error);
    for (size_t i = 0; r == 0 && i < step->count; i++)
        r = mt_dataset_find_documents(sampler->dataset, sampler->validation, sampler->batch[i],
                                      &step->documents[i], error);
    return r;
}

/* Makes room for the step's sequences in a batch that is all one block: ids, labels and document starts lie
 * behind the sequences. */
static int allocate(const struct step *step, struct mt_batch **result, struct mt_error *error)
{
    size_t tokens = 0, starts = 0, integers, bytes, total;
    for (size_t i = 0; i < step->count; i++) {
        tokens += step->documents[i].tokens;
        starts += step->documents[i].count + 1;
    }
    if (!mt_size_mul(step->count, sizeof(struct mt_sequence), &bytes) || !mt_size_mul(tokens, 2, &integers) ||
        !mt_size_add(integers, starts, &integers) || !mt_size_mul(integers, sizeof(int32_t), &integers) ||
        !mt_size_add(bytes, integers, &total) || !mt_size_add(total, sizeof(struct mt_batch), &total))
        return no_memory(error);
    struct mt_batch *batch = calloc(1, total);
    if (!batch)
        return no_memory(error);
    batch->num_sequences = step->count;
    batch->sequences = (struct mt_sequence *)(batch + 1);
    int32_t *room = (int32_t *)(batch->sequences + step->count);
    for (size_t i = 0; i < step->count; i++) {
        struct mt_sequence *sequence = &batch->sequences[i];
        sequence->tokens = step->documents[i].tokens;
        sequence->num_documents = step->documents[i].count;
        sequence->ids = room;
        sequence->labels = room + sequence->tokens;
        sequence->document_starts = room + 2 * sequence->tokens;
        room += 2 * sequence->tokens + sequence->num_documents + 1;
    }
    *result = batch;
    return 0;
}

static int fill(const struct mt_sampler *sampler, const struct step *step, struct mt_batch *batch,
                struct mt_error *error)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < step->count; i++) {
        size_t targets;
        r = mt_dataset_fill_sequence(sampler->dataset, &step->documents[i], &batch->sequences[i], &targets,
                                     error);
        batch->target_tokens += targets;
        batch->tokens += batch->sequences[i].tokens;
    }
    return r;
}

int mt_sampler_next(struct mt_sampler *sampler, struct mt_batch **result, struct mt_error *error)
{
    *result = NULL;
    if (sampler->position == sampler->num_sequences) {
        sampler->epoch++;
        sampler->position = 0;
    }
    const size_t count = mt_size_min(sampler->sequences_per_step, sampler->num_sequences - sampler->position);
    mt_cleanup(free_step) struct step step = {.count = count};
    struct mt_batch *batch = NULL;
    int r = choose(sampler, count, error);
    if (r == 0)
        r = find(sampler, &step, error);
    if (r == 0)
        r = allocate(&step, &batch, error);
    if (r == 0)
        r = fill(sampler, &step, batch, error);
    if (r != 0) {
        mt_batch_free(batch);
        return r;
    }
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
