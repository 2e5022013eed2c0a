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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(biases_are_trained_beside_frozen_weights),
        cmocka_unit_test(norms_and_halves_are_frozen_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
