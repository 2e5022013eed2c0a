/* The figure of a whole training step: the streaming executor on a model of real layers, cut off after a few,
 * with random weights and tokens. */
#include "core/base/memory.h"
#include "core/base/random.h"
#include "core/base/time.h"
#include "core/model/model.h"
#include "core/store/store.h"
#include "core/stream/executor.h"
#include "tests/gpu/figures.h"

#include <stdio.h>
#include <stdlib.h>

enum { SEQUENCES = 4, WARM = 2, TIMED = 3 };

/* Of host memory: parameters, moments, gradients. */
#define BYTES_A_PARAMETER 16.0

static struct mt_batch *made_up_batch(const struct shape *shape)
{
    struct mt_batch *batch = calloc(1, sizeof *batch);
    batch->sequences = calloc(SEQUENCES, sizeof *batch->sequences);
    batch->num_sequences = SEQUENCES;
    for (size_t s = 0; s < SEQUENCES; s++) {
        struct mt_sequence *one = &batch->sequences[s];
        const size_t tokens = shape->tokens / 2;
        *one = (struct mt_sequence){.tokens = tokens,
                                    .ids = calloc(tokens, sizeof(int32_t)),
                                    .labels = calloc(tokens, sizeof(int32_t)),
                                    .num_documents = 1,
                                    .document_starts = calloc(2, sizeof(int32_t)),
                                    .row = s};
        one->document_starts[1] = (int32_t)tokens;
        for (size_t t = 0; t < tokens; t++)
            one->ids[t] = one->labels[t] = (int32_t)((t * 2654435761u + s) % shape->step_vocab);
        batch->tokens += tokens;
        batch->target_tokens += tokens;
    }
    return batch;
}

static void free_batch(struct mt_batch *batch)
{
    for (size_t s = 0; s < batch->num_sequences; s++) {
        free(batch->sequences[s].ids);
        free(batch->sequences[s].labels);
        free(batch->sequences[s].document_starts);
    }
    free(batch->sequences);
    free(batch);
}

/* Too little memory is no fault: a small GPU has no room for the larger models' layers. All else ends the
 * program. */
static void not_run(const struct shape *shape, const char *what, const struct mt_error *error)
{
    if (error->reason == MT_REASON_OUT_OF_MEMORY) {
        printf("| %s | not run: %s | | | | | | |\n", shape->name, error->message);
        fflush(stdout);
        return;
    }
    fprintf(stderr, "figures: %s: %s\n", what, error->message);
    exit(1);
}

/* *seconds: a step's. */
static int run_steps(struct mt_executor *executor, const struct mt_batch *batch, double *seconds,
                     struct mt_error *error)
{
    struct mt_step_result result = {0};
    double start = 0;
    for (int step = 0; step < WARM + TIMED; step++) {
        if (step == WARM)
            start = mt_time_monotonic();
        const int code = mt_executor_step(executor, batch, 1e-5, &result, error);
        if (code)
            return code;
    }
    const int code = mt_executor_finish(executor, error);
    *seconds = (mt_time_monotonic() - start) / TIMED;
    return code;
}

static void step_line(struct figures *f, const struct shape *shape, const struct mt_model *model,
                      const struct mt_executor *executor, const struct mt_batch *batch, double seconds)
{
    struct mt_executor_memory memory;
    struct mt_device_info info;
    f->api->info(f->device, &info);
    mt_executor_memory(executor, &memory);
    const double embedding = (double)shape->step_vocab * (double)shape->hidden;
    const double matrices = (double)model->total_count - embedding;
    const double flops = 6 * matrices * (double)batch->tokens;
    printf("| %s | %zu layers, %zu tokens | %.3f | %.0f | %.1f | %.0f%% | %.2f | %s |\n", shape->name,
           shape->layers, batch->tokens, seconds, (double)batch->tokens / seconds, flops / seconds * 1e-12,
           100 * flops / seconds / f->peak, (double)(memory.device.total + info.own_bytes) / (1 << 30),
           memory.pinned ? "yes" : "no");
    fflush(stdout);
}

static void step_of(struct figures *f, const struct shape *shape, struct mt_model *model)
{
    const struct mt_store_options store_options = {.compute_dtype = MT_BF16};
    const struct mt_executor_options options = {.micro_batch_size = 1,
                                                .max_sequences = SEQUENCES,
                                                .max_sequence_tokens = shape->tokens / 2,
                                                .recompute = MT_CHOICE_ON,
                                                .max_grad_norm = 1,
                                                .max_skipped_steps = 3,
                                                .adamw = {.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8}};
    struct mt_error error = {0};
    struct mt_store *store = NULL;
    struct mt_executor *executor = NULL;
    struct mt_batch *batch = made_up_batch(shape);
    double seconds = 0;
    if (mt_store_new(model, f->device, &store_options, &store, &error) ||
        mt_store_init(store, 1, f->pool, &error))
        not_run(shape, "store", &error);
    else if (mt_executor_new(store, f->device, f->pool, &options, &executor, &error))
        not_run(shape, "executor", &error);
    else if (run_steps(executor, batch, &seconds, &error))
        not_run(shape, "step", &error);
    else
        step_line(f, shape, model, executor, batch, seconds);
    mt_executor_free(executor);
    free_batch(batch);
    mt_store_free(store);
}

void figures_of_step(struct figures *f, const struct shape *shape)
{
    struct mt_error error = {0};
    struct mt_model *model;
    json_t *keys = json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "hidden_size",
                             (json_int_t)shape->hidden, "intermediate_size", (json_int_t)shape->intermediate,
                             "num_hidden_layers", (json_int_t)shape->layers, "num_attention_heads",
                             (json_int_t)shape->heads, "num_key_value_heads", (json_int_t)shape->kv_heads,
                             "head_dim", (json_int_t)shape->dim, "vocab_size", (json_int_t)shape->step_vocab,
                             "max_position_embeddings", (json_int_t)shape->tokens);
    const int code = mt_model_from_keys("llama", keys, &model, &error);
    json_decref(keys);
    if (code) {
        not_run(shape, "model", &error);
        return;
    }
    const double needed = BYTES_A_PARAMETER * (double)model->total_count;
    if (needed > 0.9 * (double)mt_memory_available())
        printf("| %s | not run: %.0f GiB of host memory are needed, %.0f are available | | | | | | |\n",
               shape->name, needed / (1 << 30), (double)mt_memory_available() / (1 << 30));
    else
        step_of(f, shape, model);
    mt_model_free(model);
}
