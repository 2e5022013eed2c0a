/* Loss, parameters and moments after 20 steps have the same bits whatever the schedule's settings. */
#include "tests/unit/stream/stream_support.h"

#include <math.h>

#define STEPS 20u
#define BATCHES 3u
#define ROWS 4u
#define LENGTH 23u

static const char untied[] =
    "{\"vocab_size\": 97, \"hidden_size\": 32, \"num_layers\": 5, \"num_attention_heads\": 4,"
    " \"num_key_value_heads\": 2, \"intermediate_size\": 48}";
static const char tied[] =
    "{\"vocab_size\": 97, \"hidden_size\": 24, \"num_layers\": 3, \"num_attention_heads\": 2,"
    " \"intermediate_size\": 40, \"tie_word_embeddings\": true, \"attention_bias\": true}";
/* Layers that read beside the stream, and keys and values that go on to later ones. */
static const char beside[] =
    "{\"architecture\": \"gemma4_text\", \"vocab_size\": 97, \"vocab_size_per_layer_input\": 97,"
    " \"hidden_size\": 24, \"num_layers\": 4, \"num_attention_heads\": 4, \"num_key_value_heads\": 2,"
    " \"head_dim\": 8, \"global_head_dim\": 16, \"intermediate_size\": 40, \"sliding_window\": 8,"
    " \"hidden_size_per_layer_input\": 12, \"num_kv_shared_layers\": 2, \"layer_types\": "
    "[\"sliding_attention\","
    " \"full_attention\", \"sliding_attention\", \"full_attention\"]}";

struct outcome {
    double losses[STEPS];
    uint64_t hash;
};

static struct outcome run(const char *keys, const struct setting *setting)
{
    static const size_t lengths[BATCHES][ROWS] = {{23, 1 + 1, 17, 9}, {5, 23, 23, 3}, {11, 12, 13, 14}};
    struct outcome outcome;
    struct mt_batch *batches[BATCHES];
    struct bed bed;
    for (size_t b = 0; b < BATCHES; b++)
        batches[b] = batch_new(ROWS, lengths[b], 97, b);
    bed_open(&bed, keys, setting);
    outcome.hash = bed_run(&bed, batches, BATCHES, STEPS, outcome.losses);
    bed_close(&bed);
    for (size_t b = 0; b < BATCHES; b++)
        batch_free(batches[b]);
    return outcome;
}

static void check_same(const char *what, const char *keys, const struct setting *setting,
                       const struct outcome *wanted)
{
    const struct outcome seen = run(keys, setting);
    for (size_t s = 0; s < STEPS; s++)
        if (seen.losses[s] != wanted->losses[s])
            fail_msg("%s: loss of step %zu is %.17g, not %.17g", what, s, seen.losses[s], wanted->losses[s]);
    if (seen.hash != wanted->hash)
        fail_msg("%s: the state has other bits", what);
}

/* Every setting that must not matter, one by one and some together. */
static void check_settings(const char *keys, const struct setting *base, bool also_apart)
{
    const struct outcome wanted = run(keys, base);
    assert_true(wanted.losses[STEPS - 1] < wanted.losses[0]);
    struct setting s = *base;
    s.threads = 1;
    check_same("1 thread", keys, &s, &wanted);
    s = *base;
    s.executor.immediate_update = true;
    check_same("immediate update", keys, &s, &wanted);
    s = *base;
    s.executor.recompute = MT_CHOICE_OFF;
    check_same("keeping activations", keys, &s, &wanted);
    s = *base;
    s.executor.recompute = MT_CHOICE_AUTO;
    check_same("keeping what fits", keys, &s, &wanted);
    for (size_t k = 2; k <= 4; k += 2) {
        s = *base;
        s.executor.checkpoint_interval = k;
        check_same("checkpoint_interval in place", keys, &s, &wanted);
    }
    if (!also_apart)
        return;

    struct setting apart = *base;
    apart.device = "cpu-discrete";
    check_same("a device apart", keys, &apart, &wanted);
    s = apart;
    s.threads = 1;
    s.executor.num_weight_buffers = 3;
    check_same("three weight buffers", keys, &s, &wanted);
    s = apart;
    s.executor.num_grad_slabs = 1;
    check_same("one gradient slab", keys, &s, &wanted);
    s = apart;
    s.executor.num_grad_slabs = 7;
    s.executor.recompute = MT_CHOICE_OFF;
    check_same("seven slabs, keeping activations", keys, &s, &wanted);
    s = apart;
    s.executor.activation_offload = MT_CHOICE_ON;
    check_same("offloaded activations", keys, &s, &wanted);
    for (size_t k = 2; k <= 4; k += 2) {
        s = apart;
        s.executor.checkpoint_interval = k;
        check_same("checkpoint_interval apart", keys, &s, &wanted);
        s.executor.activation_offload = MT_CHOICE_ON;
        check_same("checkpoint_interval and offload", keys, &s, &wanted);
    }
    s = apart;
    s.executor.activation_offload = MT_CHOICE_ON;
    s.device_options.test_delay_seed = 99;
    s.device_options.test_delay_microseconds = 30;
    check_same("random delays in the streams", keys, &s, &wanted);
    for (size_t i = 0; i < 2; i++) {
        s = i ? apart : *base;
        s.executor.stream_head = MT_CHOICE_ON;
        check_same(i ? "a streamed head apart" : "a streamed head in place", keys, &s, &wanted);
    }
}

static struct setting base_setting(void)
{
    struct setting setting = usual_setting(ROWS, LENGTH);
    setting.executor.head_chunk_tokens = 7;
    return setting;
}

static void an_untied_model_has_the_same_bits(void **state)
{
    (void)state;
    const struct setting setting = base_setting();
    check_settings(untied, &setting, true);
}

static void a_tied_model_has_the_same_bits(void **state)
{
    (void)state;
    struct setting setting = base_setting();
    setting.executor.micro_batch_size = 3;
    check_settings(tied, &setting, true);
}

static void what_is_beside_the_stream_has_the_same_bits(void **state)
{
    (void)state;
    const struct setting setting = usual_setting(ROWS, LENGTH);
    check_settings(beside, &setting, true);
}

/* Each setting with all of the output matrix on the device, and one by one with its tiles streamed. */
static void a_head_in_tiles_has_the_same_bits(void **state)
{
    (void)state;
    struct setting setting = base_setting();
    setting.executor.head_tile_rows = 40;
    check_settings(untied, &setting, true);
    setting.executor.stream_head = MT_CHOICE_ON;
    check_settings(untied, &setting, true);
    check_settings(tied, &setting, true);
    setting.executor.stream_head = MT_CHOICE_OFF;
    setting.dtype = MT_BF16;
    check_settings(untied, &setting, true);
}

/* All gradients after one step, one after another; malloc'd. */
static float *gradients_of(const struct setting *setting, size_t *count)
{
    static const size_t lengths[ROWS] = {23, 2, 17, 9};
    struct mt_batch *batch = batch_new(ROWS, lengths, 97, 5);
    struct mt_step_result result;
    struct mt_error error = {0};
    struct bed bed;
    bed_open(&bed, untied, setting);
    mt_assert_ok(mt_executor_step(bed.executor, batch, 1e-4, &result, &error), &error);
    *count = 0;
    for (size_t i = 0; i < bed.model->num_parameters; i++)
        *count += bed.model->parameters[i].count;
    float *all = malloc(*count * sizeof *all), *at = all;
    assert_non_null(all);
    for (size_t i = 0; i < bed.model->num_parameters; at += bed.model->parameters[i].count, i++) {
        const struct mt_parameter *p = &bed.model->parameters[i];
        assert_int_equal(mt_store_read(bed.store, p, MT_STORE_GRADIENT, 0, p->count, at, NULL), 0);
    }
    bed_close(&bed);
    batch_free(batch);
    return all;
}

/* In bf16 the gradient of what the output matrix reads is a sum over tiles that is rounded once: cut into as
 * many tiles as there are tokens in the vocabulary, or not at all, it is the same but for the order of the
 * sum. */
static void a_gradient_summed_over_tiles_is_rounded_once(void **state)
{
    (void)state;
    struct setting setting = base_setting();
    size_t count = 0;
    setting.dtype = MT_BF16;
    float *whole = gradients_of(&setting, &count);
    setting.executor.head_tile_rows = 1;
    float *tiled = gradients_of(&setting, &count);
    double off = 0, all = 0;
    for (size_t i = 0; i < count; i++) {
        off += pow((double)tiled[i] - (double)whole[i], 2);
        all += pow((double)whole[i], 2);
    }
    print_message("# tiles change gradients by %.2g of their norm\n", sqrt(off / all));
    assert_true(off < 1e-6 * all);
    free(whole);
    free(tiled);
}

static void bf16_with_a_split_master_has_the_same_bits(void **state)
{
    (void)state;
    struct setting setting = base_setting();
    setting.dtype = MT_BF16;
    check_settings(untied, &setting, true);
    check_settings(tied, &setting, true);
}

/* Without clipping and without skipped steps updates run in the backward pass: the bits are those of updating
 * after it. */
static void updates_in_the_backward_pass_have_the_same_bits(void **state)
{
    (void)state;
    const char *models[] = {untied, tied};
    for (size_t m = 0; m < 2; m++) {
        struct setting after = base_setting();
        after.executor.max_grad_norm = 0;
        const struct outcome wanted = run(models[m], &after);
        struct setting within = after;
        within.executor.max_skipped_steps = 0;
        check_same("updates in the backward pass", models[m], &within, &wanted);
        check_settings(models[m], &within, true);
        within.executor.head_tile_rows = 40;
        after.executor.head_tile_rows = 40;
        const struct outcome tiled = run(models[m], &after);
        within.device = "cpu-discrete";
        within.executor.stream_head = MT_CHOICE_ON;
        within.executor.num_grad_slabs = 1;
        check_same("the same with the head in tiles", models[m], &within, &tiled);
    }
}

/* What a step is made of does not matter, only how it is cut: 8 rows at once or 8 accumulated are the same
 * call. */
static void micro_batches_of_other_sizes_agree_to_rounding(void **state)
{
    (void)state;
    static const size_t lengths[8] = {23, 2, 17, 9, 5, 20, 3, 11};
    struct mt_batch *batch = batch_new(8, lengths, 97, 5);
    float *masters[3];
    double losses[3][3];
    const size_t sizes[3] = {1, 2, 8};
    size_t count = 0;
    for (size_t i = 0; i < 3; i++) {
        struct setting setting = usual_setting(8, LENGTH);
        struct mt_error error = {0};
        struct bed bed;
        setting.executor.micro_batch_size = sizes[i];
        bed_open(&bed, untied, &setting);
        for (size_t s = 0; s < 3; s++) {
            struct mt_step_result result;
            mt_assert_ok(mt_executor_step(bed.executor, batch, 1e-4, &result, &error), &error);
            losses[i][s] = result.loss;
        }
        mt_assert_ok(mt_executor_finish(bed.executor, &error), &error);
        masters[i] = bed_masters(&bed, &count);
        bed_close(&bed);
    }
    for (size_t i = 1; i < 3; i++) {
        for (size_t s = 0; s < 3; s++)
            assert_true(losses[i][s] - losses[0][s] < 1e-6 * losses[0][s] &&
                        losses[0][s] - losses[i][s] < 1e-6 * losses[0][s]);
        size_t off = 0;
        for (size_t k = 0; k < count; k++)
            off += masters[i][k] - masters[0][k] > 5e-6f || masters[0][k] - masters[i][k] > 5e-6f;
        /* Where a gradient is rounding noise Adam's direction is too: a handful of all. */
        assert_true(off <= count / 1000);
    }
    for (size_t i = 0; i < 3; i++)
        free(masters[i]);
    batch_free(batch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_untied_model_has_the_same_bits),
        cmocka_unit_test(a_tied_model_has_the_same_bits),
        cmocka_unit_test(what_is_beside_the_stream_has_the_same_bits),
        cmocka_unit_test(a_head_in_tiles_has_the_same_bits),
        cmocka_unit_test(a_gradient_summed_over_tiles_is_rounded_once),
        cmocka_unit_test(bf16_with_a_split_master_has_the_same_bits),
        cmocka_unit_test(updates_in_the_backward_pass_have_the_same_bits),
        cmocka_unit_test(micro_batches_of_other_sizes_agree_to_rounding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
