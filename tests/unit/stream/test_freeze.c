/* Freezing by globs on models that are not llama: what is frozen keeps its bits, what is trained gets the
 * very gradient that it has when all is trained. */
#include "core/base/document.h"
#include "tests/unit/stream/stream_support.h"

static struct mt_model *golden_model(const char *name)
{
    struct mt_error error = {0};
    struct mt_model *model;
    json_t *config;
    char path[256];
    snprintf(path, sizeof path, "tests/golden/%s/config.json", name);
    mt_assert_ok(mt_document_read(path, &config, NULL, &error), &error);
    mt_assert_ok(mt_model_from_config(config, &model, &error), &error);
    json_decref(config);
    return model;
}

static float *values_of(const struct bed *bed, const struct mt_parameter *p, enum mt_store_part what)
{
    float *values = malloc(p->count * sizeof *values);
    assert_int_equal(mt_store_read(bed->store, p, what, 0, p->count, values, NULL), 0);
    return values;
}

static void check(const char *name, const char *const *globs, size_t num_globs, const char *device)
{
    struct mt_error error = {0};
    struct setting setting = usual_setting(4, 16);
    setting.device = device;
    setting.executor.max_grad_norm = 0;
    struct bed all = {0}, some = {0};
    struct mt_model *model = golden_model(name);
    mt_assert_ok(mt_model_freeze(model, globs, num_globs, &error), &error);
    mt_assert_ok(bed_try(&some, model, &setting, &error), &error);
    mt_assert_ok(bed_try(&all, golden_model(name), &setting, &error), &error);

    const size_t lengths[] = {9, 4, 16};
    struct mt_batch *batch = batch_new(3, lengths, model->vocab_size, 3);
    size_t count, frozen = 0;
    float *before = bed_masters(&some, &count);
    struct mt_step_result result;
    mt_assert_ok(mt_executor_step(all.executor, batch, 1e-3, &result, &error), &error);
    mt_assert_ok(mt_executor_step(some.executor, batch, 1e-3, &result, &error), &error);
    mt_assert_ok(mt_executor_finish(all.executor, &error), &error);
    mt_assert_ok(mt_executor_finish(some.executor, &error), &error);
    float *after = bed_masters(&some, &count);
    size_t at = 0;
    for (size_t i = 0; i < model->num_parameters; i++) {
        const struct mt_parameter *p = &model->parameters[i];
        if (p->frozen) {
            assert_memory_equal(before + at, after + at, p->count * sizeof *after);
            frozen++;
        } else {
            float *alone = values_of(&some, p, MT_STORE_GRADIENT);
            float *together = values_of(&all, &all.model->parameters[i], MT_STORE_GRADIENT);
            float largest = 0;
            for (size_t k = 0; k < p->count; k++)
                largest = together[k] > largest    ? together[k]
                          : -together[k] > largest ? -together[k]
                                                   : largest;
            for (size_t k = 0; k < p->count; k++)
                if (!(alone[k] - together[k] <= 1e-5f * largest + 1e-8f) ||
                    !(together[k] - alone[k] <= 1e-5f * largest + 1e-8f))
                    fail_msg("%s: gradient of %s[%zu] is %.9g, with all trained %.9g", name, p->name, k,
                             (double)alone[k], (double)together[k]);
            free(alone);
            free(together);
        }
        at += p->count;
    }
    assert_true(frozen > 0);
    free(before);
    free(after);
    batch_free(batch);
    bed_close(&some);
    bed_close(&all);
}

/* The biases alone, as BitFit has it: weights that share their product are frozen. */
static void biases_are_trained_beside_frozen_weights(void **state)
{
    (void)state;
    const char *const globs[] = {"*.weight"};
    check("qwen2", globs, 1, "cpu");
    check("phi", globs, 1, "cpu-discrete");
}

static void norms_and_halves_are_frozen_apart(void **state)
{
    (void)state;
    const char *const globs[] = {"*norm*", "model.layers.0.*", "*.1.self_attn.k_proj.*"};
    check("gemma3_text", globs, 3, "cpu");
    check("cohere_qk_norm", globs, 3, "cpu-discrete");
    const char *const neox[] = {"gpt_neox.layers.0.*", "*query_key_value.weight", "*final_layer_norm.weight"};
    check("gpt_neox", neox, 3, "cpu-discrete");
}

/* Positions and projections of the first layer, xIELU's curvatures, weights stored input first. */
static void what_older_families_have_is_frozen_too(void **state)
{
    (void)state;
    const char *const gpt2[] = {"transformer.wpe.weight", "*c_attn.weight", "*.0.mlp.*"};
    check("gpt2", gpt2, 3, "cpu");
    const char *const opt[] = {"*embed_positions*", "*project_in*", "*.fc1.bias"};
    check("opt_post_norm", opt, 3, "cpu-discrete");
    const char *const rest[] = {"*project_out*", "*embed_tokens*"};
    check("opt_post_norm", rest, 2, "cpu");
    const char *const apertus[] = {"*alpha_p", "*.0.mlp.act_fn.alpha_n"};
    check("apertus", apertus, 2, "cpu");
    const char *const stablelm[] = {"*k_layernorm.norms.*"};
    check("stablelm_parallel_qk_norm", stablelm, 1, "cpu-discrete");
    const char *const baichuan[] = {"*W_pack*"};
    check("baichuan2_13b", baichuan, 1, "cpu");
}

/* A norm that is a tensor a head is one parameter to the engine. */
static void a_norms_heads_are_frozen_together_or_not_at_all(void **state)
{
    (void)state;
    struct mt_error error = {0};
    struct mt_model *model = golden_model("stablelm_parallel_qk_norm");
    const char *glob = "*.0.self_attn.q_layernorm.norms.1.weight";
    assert_int_equal(mt_model_freeze(model, &glob, 1, &error), -ENOTSUP);
    mt_assert_mentions(error.message, "norms.1.weight");
    mt_model_free(model);
}

/* A device that counts what is differentiated. */
static const struct mt_device_api *counted;
static size_t differentiated;

static int count_backward(struct mt_stream *stream, const struct mt_attention_backward_args *args)
{
    differentiated++;
    return counted->attention_backward(stream, args);
}

static size_t layers_differentiated(const char *const *globs, size_t num_globs)
{
    struct mt_error error = {0};
    const struct setting setting = usual_setting(4, 16);
    struct mt_model *model = golden_model("gemma3_text_pattern"); /* three layers */
    struct mt_store_bytes bytes;
    struct mt_step_result result;
    struct bed bed = {0};
    if (num_globs)
        mt_assert_ok(mt_model_freeze(model, globs, num_globs, &error), &error);
    mt_assert_ok(bed_try(&bed, model, &setting, &error), &error);
    counted = bed.device->api;
    struct mt_device_api api = *counted;
    api.attention_backward = count_backward;
    bed.device->api = &api;
    differentiated = 0;
    const size_t length = 9;
    struct mt_batch *batch = batch_new(1, &length, model->vocab_size, 3);
    mt_assert_ok(mt_executor_step(bed.executor, batch, 1e-3, &result, &error), &error);
    mt_assert_ok(mt_executor_finish(bed.executor, &error), &error);
    bed.device->api = counted;

    /* What is frozen has no optimizer state and no gradient, neither its own nor room for them. */
    size_t room = 0;
    for (size_t g = 0; g < model->num_groups; g++)
        room += model->groups[g].train_count;
    mt_store_count_bytes(model, &(struct mt_store_options){0}, &bytes);
    assert_true(bytes.moments >= 2 * sizeof(float) * model->trainable_count);
    assert_true(bytes.moments <= 2 * sizeof(float) * room + model->num_groups * 3 * 4096);
    assert_true(bytes.gradients <= sizeof(float) * room + model->num_groups * 2 * 4096);
    for (size_t i = 0; i < model->num_parameters; i++) {
        const struct mt_parameter *p = &model->parameters[i];
        float value;
        for (enum mt_store_part part = MT_STORE_MOMENT1; part <= MT_STORE_GRADIENT; part++)
            assert_int_equal(mt_store_read(bed.store, p, part, 0, 1, &value, NULL), p->frozen ? -ENODATA : 0);
    }
    batch_free(batch);
    bed_close(&bed);
    return differentiated;
}

static void what_is_below_the_lowest_trained_layer_is_not_differentiated(void **state)
{
    (void)state;
    const char *const globs[] = {"*embed_tokens*", "model.layers.0.*", "model.layers.1.*",
                                 "model.layers.2.*"};
    assert_int_equal(layers_differentiated(NULL, 0), 3);
    assert_int_equal(layers_differentiated(globs, 1), 3);
    assert_int_equal(layers_differentiated(globs, 2), 2);
    assert_int_equal(layers_differentiated(globs, 3), 1);
    assert_int_equal(layers_differentiated(globs, 4), 0);     /* the final norm alone */
    assert_int_equal(layers_differentiated(globs + 1, 2), 3); /* the embedding is below all */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(biases_are_trained_beside_frozen_weights),
        cmocka_unit_test(norms_and_halves_are_frozen_apart),
        cmocka_unit_test(what_older_families_have_is_frozen_too),
        cmocka_unit_test(a_norms_heads_are_frozen_together_or_not_at_all),
        cmocka_unit_test(what_is_below_the_lowest_trained_layer_is_not_differentiated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
