/* Long sequences: 32,768 tokens through two layers, one with a window and one without, in memory that is
 * linear in length; and windows that begin and end where they must. */
#include "tests/unit/stream/stream_support.h"

#define LONG 32768u

static void open_model(struct bed *bed, const char *architecture, const char *keys,
                       const struct setting *setting)
{
    struct mt_error error = {0};
    struct mt_model *model;
    json_t *object = json_loads(keys, 0, NULL);
    assert_non_null(object);
    mt_assert_ok(mt_model_from_keys(architecture, object, &model, &error), &error);
    json_decref(object);
    *bed = (struct bed){0};
    mt_assert_ok(bed_try(bed, model, setting, &error), &error);
}

static const char two_layers[] =
    "{\"hidden_size\": 16, \"num_layers\": 2, \"num_attention_heads\": 2, \"num_key_value_heads\": 1, "
    "\"head_dim\": 8, \"intermediate_size\": 32, \"vocab_size\": 300, \"max_position_embeddings\": 32768, "
    "\"sliding_window\": 1000, \"layer_types\": [\"sliding_attention\", \"full_attention\"]}";

static size_t device_bytes(size_t tokens)
{
    const struct setting setting = usual_setting(1, tokens);
    struct mt_executor_memory memory;
    struct bed bed;
    open_model(&bed, "ministral", two_layers, &setting);
    mt_executor_memory(bed.executor, &memory);
    bed_close(&bed);
    return memory.device.total + memory.host.total;
}

/* Of the process, at its highest so far. */
static size_t peak_bytes(void)
{
    size_t kib = 0;
    char line[256];
    FILE *file = fopen("/proc/self/status", "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file))
        if (sscanf(line, "VmHWM: %zu kB", &kib) == 1)
            break;
    fclose(file);
    return kib * 1024;
}

static void a_step_of_32768_tokens_takes_memory_linear_in_length(void **state)
{
    (void)state;
    struct mt_error error = {0};
    assert_true(device_bytes(LONG) <= 2 * device_bytes(LONG / 2));
    const struct setting setting = usual_setting(1, LONG);
    const size_t length = LONG, before = peak_bytes();
    struct mt_batch *batch = batch_new(1, &length, 300, 1);
    struct mt_step_result result;
    struct bed bed;
    open_model(&bed, "ministral", two_layers, &setting);
    mt_assert_ok(mt_executor_step(bed.executor, batch, 1e-3, &result, &error), &error);
    mt_assert_ok(mt_executor_finish(bed.executor, &error), &error);
    assert_true(result.loss > 5 && result.loss < 7); /* ln 300 = 5.7: nothing is learnt yet */
    assert_true(result.grad_norm > 0 && !result.skipped);
    bed_close(&bed);
    batch_free(batch);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    /* The scores of one head of one layer alone would be 4 GiB. */
    assert_true(peak_bytes() < before + ((size_t)256 << 20));
#else
    (void)before;
#endif
}

/* The logits of one row, [tokens, vocab], malloc'd. */
static float *logits_of(const struct bed *bed, struct mt_batch *batch)
{
    struct mt_error error = {0};
    float *logits = malloc(batch->tokens * bed->model->vocab_size * sizeof *logits);
    mt_assert_ok(mt_executor_logits(bed->executor, batch, logits, &error), &error);
    return logits;
}

static bool same_bits(const void *one, const void *other, size_t bytes)
{
    return memcmp(one, other, bytes) == 0;
}

/* Through one layer a token is felt by the `window` tokens from itself on, and by no other. */
static void a_window_ends_at_its_edge(void **state)
{
    (void)state;
    enum { TOKENS = 700, VOCAB = 50 };
    static const size_t windows[] = {1, 2, 127, 128, 129, 300};
    for (size_t w = 0; w < sizeof windows / sizeof *windows; w++) {
        const struct setting setting = usual_setting(1, TOKENS);
        const size_t length = TOKENS, window = windows[w], changed = 130;
        char keys[512];
        struct bed bed;
        snprintf(keys, sizeof keys,
                 "{\"hidden_size\": 16, \"num_layers\": 1, \"num_attention_heads\": 2, "
                 "\"intermediate_size\": 32, \"vocab_size\": %d, \"initializer_range\": 0.4, "
                 "\"sliding_window\": %zu}",
                 VOCAB, window);
        open_model(&bed, "mistral", keys, &setting);
        struct mt_batch *batch = batch_new(1, &length, VOCAB, 3);
        float *before = logits_of(&bed, batch);
        batch->sequences[0].ids[changed] = (batch->sequences[0].ids[changed] + 1) % VOCAB;
        float *after = logits_of(&bed, batch);
        for (size_t t = 0; t < TOKENS; t++) {
            const bool same = same_bits(before + t * VOCAB, after + t * VOCAB, VOCAB * sizeof(float));
            const bool seen = t >= changed && t < changed + window;
            if (same == seen)
                fail_msg("window %zu: token %zu %s token %zu", window, t, seen ? "does not see" : "sees",
                         changed);
        }
        free(before);
        free(after);
        batch_free(batch);
        bed_close(&bed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_window_ends_at_its_edge),
        cmocka_unit_test(a_step_of_32768_tokens_takes_memory_linear_in_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
