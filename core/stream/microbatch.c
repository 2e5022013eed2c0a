#include "core/stream/microbatch.h"

#include "core/base/size.h"

#include <stdlib.h>
#include <string.h>

int mt_microbatches_init(struct mt_microbatches *all, struct mt_blocks *blocks, bool separate,
                         size_t micro_batch_size, size_t max_sequences, size_t max_sequence_tokens,
                         struct mt_error *error)
{
    *all = (struct mt_microbatches){.micro_batch_size = micro_batch_size};
    if (!micro_batch_size || !max_sequences || !max_sequence_tokens)
        return mt_error_set(error, -EINVAL, MT_REASON_BAD_JOB,
                            "micro_batch_size, sequences and tokens must be at least 1");
    const size_t together = mt_size_min(micro_batch_size, max_sequences);
    if (!mt_size_mul(max_sequences, max_sequence_tokens, &all->max_tokens) || all->max_tokens > INT32_MAX)
        return mt_error_set(error, -EOVERFLOW, MT_REASON_BAD_JOB,
                            "%zu sequences of %zu tokens are too many for one step", max_sequences,
                            max_sequence_tokens);
    all->max_micro_tokens = together * max_sequence_tokens;
    all->max_count = mt_size_ceil_div(max_sequences, micro_batch_size);
    all->items = calloc(all->max_count, sizeof *all->items);
    all->document_starts = calloc(all->max_tokens + all->max_count, sizeof *all->document_starts);
    all->ids = calloc(all->max_tokens, sizeof *all->ids);
    if (!all->items || !all->document_starts || !all->ids)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory for a step's tokens");
    const size_t bytes = all->max_tokens * sizeof(int32_t);
    void *labels, *positions;
    MT_TRY(mt_blocks_host(blocks, bytes, "labels", &labels, error));
    MT_TRY(mt_blocks_host(blocks, bytes, "positions", &positions, error));
    all->labels = all->device_labels = labels;
    all->positions = all->device_positions = positions;
    if (separate) {
        MT_TRY(mt_blocks_device(blocks, bytes, "labels", &labels, error));
        MT_TRY(mt_blocks_device(blocks, bytes, "positions", &positions, error));
        all->device_labels = labels;
        all->device_positions = positions;
    }
    return 0;
}

void mt_microbatches_clear(struct mt_microbatches *all)
{
    free(all->items);
    free(all->document_starts);
    free(all->ids);
}

static int bad_sequence(const struct mt_sequence *sequence, const char *what, struct mt_error *error)
{
    return mt_error_set(error, -EINVAL, MT_REASON_BAD_DATA, "sample %llu: %s",
                        (unsigned long long)sequence->row, what);
}

static int check(const struct mt_sequence *sequence, size_t vocab_size, struct mt_error *error)
{
    if (!sequence->tokens || !sequence->num_documents || sequence->document_starts[0] != 0 ||
        (size_t)sequence->document_starts[sequence->num_documents] != sequence->tokens)
        return bad_sequence(sequence, "has no tokens or broken document bounds", error);
    for (size_t d = 0; d < sequence->num_documents; d++)
        if (sequence->document_starts[d + 1] <= sequence->document_starts[d])
            return bad_sequence(sequence, "has an empty document", error);
    for (size_t t = 0; t < sequence->tokens; t++) {
        const int32_t id = sequence->ids[t], label = sequence->labels[t];
        if (id < 0 || (size_t)id >= vocab_size ||
            (label != MT_LABEL_IGNORED && (label < 0 || (size_t)label >= vocab_size)))
            return mt_error_set(
                error, -EINVAL, MT_REASON_BAD_DATA,
                "sample %llu: token %zu is %d with label %d, but the model's vocabulary has %zu entries; "
                "the tokenizer does not belong to this model",
                (unsigned long long)sequence->row, t, id, label, vocab_size);
    }
    return 0;
}

int mt_microbatches_load(struct mt_microbatches *all, const struct mt_batch *batch, size_t vocab_size,
                         struct mt_error *error)
{
    all->count = all->tokens = all->target_tokens = 0;
    if (!batch->num_sequences)
        return mt_error_set(error, -EINVAL, MT_REASON_BAD_DATA, "a batch without sequences");
    int32_t *starts = all->document_starts;
    for (size_t s = 0; s < batch->num_sequences; s++) {
        const struct mt_sequence *sequence = &batch->sequences[s];
        MT_TRY(check(sequence, vocab_size, error));
        if (s % all->micro_batch_size == 0) {
            if (all->count == all->max_count)
                return mt_error_set(error, -E2BIG, MT_REASON_INTERNAL,
                                    "a step of %zu sequences is more than was planned for",
                                    batch->num_sequences);
            starts += all->count ? all->items[all->count - 1].rows.num_documents + 1 : 0;
            all->items[all->count++] = (struct mt_microbatch){
                .first = all->tokens,
                .rows = {.document_starts = starts, .positions = all->device_positions + all->tokens}};
            starts[0] = 0;
        }
        struct mt_rows *rows = &all->items[all->count - 1].rows;
        if (sequence->tokens > all->max_tokens - all->tokens ||
            rows->tokens + sequence->tokens > all->max_micro_tokens)
            return mt_error_set(error, -E2BIG, MT_REASON_INTERNAL,
                                "sample %llu has %zu tokens, more than was planned for",
                                (unsigned long long)sequence->row, sequence->tokens);
        for (size_t d = 0; d < sequence->num_documents; d++) {
            for (int32_t t = sequence->document_starts[d]; t < sequence->document_starts[d + 1]; t++)
                all->positions[all->tokens + (size_t)t] = t - sequence->document_starts[d];
            starts[++rows->num_documents] = (int32_t)rows->tokens + sequence->document_starts[d + 1];
        }
        memcpy(all->ids + all->tokens, sequence->ids, sequence->tokens * sizeof(int32_t));
        memcpy(all->labels + all->tokens, sequence->labels, sequence->tokens * sizeof(int32_t));
        for (size_t t = 0; t < sequence->tokens; t++)
            all->target_tokens += sequence->labels[t] != MT_LABEL_IGNORED;
        all->tokens += sequence->tokens;
        rows->tokens += sequence->tokens;
    }
    return 0;
}

int mt_microbatches_upload(const struct mt_microbatches *all, struct mt_device *device,
                           struct mt_stream *stream)
{
    if (all->device_labels == all->labels)
        return 0;
    const size_t bytes = all->tokens * sizeof(int32_t);
    mt_stream_mark(device, stream, MT_STAGE_TOKENS_IN, 0);
    MT_TRY(device->api->copy_to_device(stream, all->device_labels, all->labels, bytes));
    return device->api->copy_to_device(stream, all->device_positions, all->positions, bytes);
}
