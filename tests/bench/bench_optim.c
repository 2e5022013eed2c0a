/* AdamW's bytes a second beside a plain triad loop (a = b + s * c) on the same pool: both are bound by
 * memory. AdamW moves 28 bytes a parameter (reads gradient, moments, master; writes moments, master), the
 * triad 12 an element. */
#include "core/base/time.h"
#include "core/device/open.h"
#include "core/optim/adamw.h"
#include "tests/bench/bench.h"

#define PAIRS 9
#define ELEMENTS ((size_t)1 << 24)
#define BLOCK ((size_t)1 << 15)

struct triad {
    float *a;
    const float *b, *c;
};

/* Wide vectors wherever the processor has them, so that the peer is not held back. */
#if defined(__x86_64__) && !defined(__clang__)
__attribute__((target_clones("avx512f", "avx2", "default"), optimize("O3")))
#endif
static void
triad_loop(float *restrict a, const float *restrict b, const float *restrict c)
{
    for (size_t i = 0; i < BLOCK; i++)
        a[i] = b[i] + 0.5f * c[i];
}

static void triad_block(void *context, size_t task)
{
    const struct triad *t = context;
    triad_loop(t->a + task * BLOCK, t->b + task * BLOCK, t->c + task * BLOCK);
}

static float *filled(float value)
{
    float *array = aligned_alloc(64, ELEMENTS * sizeof *array);
    for (size_t i = 0; i < ELEMENTS; i++)
        array[i] = value;
    return array;
}

int main(void)
{
    struct mt_error error = {0};
    struct mt_pool *pool = mt_pool_new(0);
    struct mt_device *device;
    struct mt_model *model;
    struct mt_store *store;
    json_t *keys = json_pack("{s:i, s:i, s:i, s:i}", "vocab_size", 32768, "hidden_size", 512, "num_layers", 1,
                             "num_attention_heads", 8);
    if (mt_device_open("cpu", &(struct mt_device_options){.pool = pool}, &device, &error) ||
        mt_model_from_keys("llama", keys, &model, &error) ||
        mt_store_new(model, device, &(struct mt_store_options){.compute_dtype = MT_F32}, &store, &error) ||
        mt_store_init(store, 1, pool, &error)) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    json_decref(keys);
    const struct mt_slab *slab = mt_store_slab(store, MT_GROUP_EMBEDDING);
    for (size_t i = 0; i < ELEMENTS; i++)
        slab->gradient[i] = 1e-3f * (float)(i % 97);

    struct triad triad = {filled(0), filled(1), filled(2)};
    const struct mt_adamw adamw = {.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.01};
    double ratios[PAIRS], adam_rates[PAIRS], triad_rates[PAIRS];
    for (size_t pair = 0; pair < PAIRS; pair++) {
        double start = mt_time_monotonic();
        mt_pool_run(pool, ELEMENTS / BLOCK, triad_block, &triad);
        triad_rates[pair] = 12.0 * (double)ELEMENTS / (mt_time_monotonic() - start);
        const struct mt_adamw_step step = {.learning_rate = 1e-4, .grad_scale = 0.5, .update = pair + 1};
        start = mt_time_monotonic();
        mt_adamw_update(&adamw, &step, store, MT_GROUP_EMBEDDING, slab->gradient, pool);
        adam_rates[pair] = 28.0 * (double)ELEMENTS / (mt_time_monotonic() - start);
        ratios[pair] = adam_rates[pair] / triad_rates[pair];
    }
    bench_note("adamw_bytes_per_second", bench_median(adam_rates, PAIRS) / 1e9, "GB/s");
    bench_note("triad_bytes_per_second", bench_median(triad_rates, PAIRS) / 1e9, "GB/s");
    const bool pass = bench_at_least("adamw_triad_ratio", bench_median(ratios, PAIRS), "ratio", 0.85);
    mt_store_free(store);
    mt_model_free(model);
    mt_device_close(device);
    mt_pool_free(pool);
    free(triad.a);
    free((void *)(uintptr_t)triad.b);
    free((void *)(uintptr_t)triad.c);
    return pass ? 0 : 1;
}
