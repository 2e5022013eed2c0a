/* Whole training steps of a SmolLM2-135M-shaped model (30 layers, hidden 576, 9 heads, 3 key-value heads,
 * intermediate 1536, vocabulary 49152, tied; random weights, 2 rows of 512 tokens, recomputation on) beside
 * the roof: OpenBLAS alone, with its own threads, doing every product with a weight that the step does.
 * Attention's own products are not in the roof, so the ratio is the lower for them. Steps and roofs
 * alternate; figures are medians. */
#include "core/base/random.h"
#include "core/base/time.h"
#include "core/device/open.h"
#include "core/stream/executor.h"
#include "tests/bench/bench.h"

#include <cblas.h>

#define PAIRS 5
#define ROWS 2u
#define LENGTH 512u
#define TOKENS (ROWS * LENGTH)
#define HEAD_CHUNK 256u

enum { LAYERS = 30, HIDDEN = 576, QKV = 960, HEADS = 576, WIDE = 1536, VOCABULARY = 49152 };

static const char shape[] =
    "{\"vocab_size\": 49152, \"hidden_size\": 576, \"num_layers\": 30, \"num_attention_heads\": 9,"
    " \"num_key_value_heads\": 3, \"intermediate_size\": 1536, \"tie_word_embeddings\": true}";

extern void openblas_set_num_threads(int);

/* ---- the roof ---- */

struct roof {
    float *x, *y, *weight, *gradient;
};

/* y[tokens, out] = x W^T */
static void forward(const struct roof *r, int tokens, int in, int out)
{
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, tokens, out, in, 1, r->x, in, r->weight, in, 0, r->y,
                out);
}

/* dx = dy W and dW = dy^T x */
static void backward(const struct roof *r, int tokens, int in, int out)
{
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, tokens, in, out, 1, r->y, out, r->weight, in, 0,
                r->x, in);
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, out, in, tokens, 1, r->y, out, r->x, in, 0,
                r->gradient, in);
}

static double roof_seconds(const struct roof *r, int threads)
{
    openblas_set_num_threads(threads);
    const double start = mt_time_monotonic();
    for (int layer = 0; layer < LAYERS; layer++) {
        for (int pass = 0; pass < 2; pass++) { /* forward, and again for the backward pass */
            forward(r, TOKENS, HIDDEN, QKV);
            forward(r, TOKENS, HEADS, HIDDEN);
            forward(r, TOKENS, HIDDEN, 2 * WIDE);
            if (pass == 0) /* the last product need not be recomputed */
                forward(r, TOKENS, WIDE, HIDDEN);
        }
        backward(r, TOKENS, HIDDEN, QKV);
        backward(r, TOKENS, HEADS, HIDDEN);
        backward(r, TOKENS, HIDDEN, 2 * WIDE);
        backward(r, TOKENS, WIDE, HIDDEN);
    }
    for (unsigned chunk = 0; chunk < TOKENS; chunk += HEAD_CHUNK) {
        forward(r, HEAD_CHUNK, HIDDEN, VOCABULARY);
        backward(r, HEAD_CHUNK, HIDDEN, VOCABULARY);
    }
    const double seconds = mt_time_monotonic() - start;
    openblas_set_num_threads(1);
    return seconds;
}

static float *filled(size_t count)
{
    float *array = aligned_alloc(64, count * sizeof *array);
    mt_random_normal_fill(1, 0, 0, 0.02f, array, count);
    return array;
}

/* ---- the step ---- */

static struct mt_batch *make_batch(void)
{
    static struct mt_sequence sequences[ROWS];
    static int32_t ids[ROWS][LENGTH], labels[ROWS][LENGTH], starts[2] = {0, LENGTH};
    static struct mt_batch batch = {.num_sequences = ROWS, .sequences = sequences, .tokens = TOKENS};
    struct mt_random random = {.key = 3};
    for (size_t r = 0; r < ROWS; r++) {
        for (size_t t = 0; t < LENGTH; t++)
            ids[r][t] = (int32_t)mt_random_below(&random, VOCABULARY);
        for (size_t t = 0; t < LENGTH; t++)
            labels[r][t] = t + 1 < LENGTH ? ids[r][t + 1] : MT_LABEL_IGNORED;
        sequences[r] = (struct mt_sequence){.tokens = LENGTH,
                                            .ids = ids[r],
                                            .labels = labels[r],
                                            .num_documents = 1,
                                            .document_starts = starts,
                                            .row = r};
        batch.target_tokens += LENGTH - 1;
    }
    return &batch;
}

/* A field of /proc/self/status in bytes. */
static double status_bytes(const char *field)
{
    char line[256];
    double bytes = 0;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, field, strlen(field)) == 0)
            bytes = strtod(line + strlen(field), NULL) * 1024;
    if (file)
        fclose(file);
    return bytes;
}

static int fail(const struct mt_error *error)
{
    fprintf(stderr, "%s\n", error->message);
    return 1;
}

int main(void)
{
    struct mt_error error = {0};
    struct mt_pool *pool = mt_pool_new(0);
    struct mt_device *device;
    struct mt_model *model;
    struct mt_store *store;
    struct mt_executor *executor;
    json_t *keys = json_loads(shape, 0, NULL);
    const struct mt_executor_options options = {
        .micro_batch_size = ROWS,
        .max_sequences = ROWS,
        .max_sequence_tokens = LENGTH,
        .head_chunk_tokens = HEAD_CHUNK,
        .recompute = MT_CHOICE_ON,
        .max_grad_norm = 1,
        .max_skipped_steps = 3,
        .adamw = {.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.01},
    };
    if (mt_device_open("cpu", &(struct mt_device_options){.pool = pool}, &device, &error) ||
        mt_model_from_keys("llama", keys, &model, &error) ||
        mt_store_new(model, device, &(struct mt_store_options){.compute_dtype = MT_F32}, &store, &error) ||
        mt_store_init(store, 1, pool, &error) ||
        mt_executor_new(store, device, pool, &options, &executor, &error))
        return fail(&error);
    json_decref(keys);
    const struct mt_batch *batch = make_batch();
    struct mt_step_result result;
    for (size_t i = 0; i < 2; i++) /* both to warm up and to reach the peak, before the roof takes memory */
        if (mt_executor_step(executor, batch, 1e-5, &result, &error))
            return fail(&error);
    if (mt_executor_finish(executor, &error))
        return fail(&error);

    struct mt_executor_memory memory;
    mt_executor_memory(executor, &memory);
    const double peak = status_bytes("VmHWM:");
    const double rest = (double)memory.device.total + (double)memory.host.total + (64 << 20);
    const double per_parameter = (peak - rest) / (double)model->total_count;

    const struct roof roof = {filled((size_t)TOKENS * VOCABULARY), filled((size_t)TOKENS * VOCABULARY),
                              filled((size_t)HIDDEN * VOCABULARY), filled((size_t)HIDDEN * VOCABULARY)};
    double seconds[PAIRS], ratios[PAIRS], roofs[PAIRS];
    roof_seconds(&roof, (int)mt_pool_threads(pool));
    for (size_t pair = 0; pair < PAIRS; pair++) {
        roofs[pair] = roof_seconds(&roof, (int)mt_pool_threads(pool));
        if (mt_executor_step(executor, batch, 1e-5, &result, &error))
            return fail(&error);
        seconds[pair] = result.seconds;
        ratios[pair] = roofs[pair] / seconds[pair];
    }
    bench_note("cpu_train_tokens_per_second", TOKENS / bench_median(seconds, PAIRS), "tokens/s");
    bench_note("cpu_roof_tokens_per_second", TOKENS / bench_median(roofs, PAIRS), "tokens/s");
    bool pass = bench_at_least("cpu_train_roof_ratio", bench_median(ratios, PAIRS), "ratio", 0.75);
    pass = bench_at_most("peak_bytes_per_parameter", per_parameter, "bytes", 16) && pass;
    printf("# peak %.0f MiB; activations %.0f, boundaries %.0f, head %.0f, tables %.1f MiB; %zu parameters\n",
           peak / (1 << 20), (double)memory.device.activations / (1 << 20),
           (double)memory.device.boundaries / (1 << 20), (double)memory.device.head / (1 << 20),
           (double)memory.device.tables / (1 << 20), model->total_count);
    mt_executor_free(executor);
    mt_store_free(store);
    mt_model_free(model);
    mt_device_close(device);
    mt_pool_free(pool);
    free(roof.x);
    free(roof.y);
    free(roof.weight);
    free(roof.gradient);
    return pass ? 0 : 1;
}
