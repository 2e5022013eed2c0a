/* Models from config.json and from keys: sizes, names, places, refusals, and the way back. */
#include "core/base/document.h"
#include "core/model/family.h"
#include "core/model/model.h"
#include "tests/unit/support.h"

#include <math.h>

static json_t *parse(const char *text)
{
    json_t *value = json_loads(text, 0, NULL);
    assert_non_null(value);
    return value;
}

#define SMALL                                                                                                \
    "\"model_type\":\"llama\",\"vocab_size\":50,\"hidden_size\":24,\"intermediate_size\":40,\"num_hidden_"   \
    "layers\":2,"                                                                                            \
    "\"num_attention_heads\":4"

static int from_config(const char *text, struct mt_model **model, struct mt_error *error)
{
    json_t *config = parse(text);
    int r = mt_model_from_config(config, model, error);
    json_decref(config);
    return r;
}

static int from_keys(const char *text, struct mt_model **model, struct mt_error *error)
{
    json_t *keys = parse(text);
    int r = mt_model_from_keys("llama", keys, model, error);
    json_decref(keys);
    return r;
}

static void keys_get_the_pinned_defaults(void **state)
{
    (void)state;
    struct mt_error error = {0};
    struct mt_model *model;
    mt_assert_ok(
        from_keys("{\"hidden_size\":200,\"num_layers\":3,\"num_attention_heads\":4,\"vocab_size\":259}",
                  &model, &error),
        &error);
    json_t *config = mt_model_to_config(model);
    json_t *wanted =
        parse("{\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\",\"dtype\":\"float32\","
              "\"hidden_size\":200,\"num_hidden_layers\":3,\"num_attention_heads\":4,\"vocab_size\":259,"
              "\"intermediate_size\":576,\"num_key_value_heads\":4,\"head_dim\":50,\"rms_norm_eps\":1e-05,"
              "\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":10000.0},"
              "\"tie_word_embeddings\":false,\"attention_bias\":false,\"mlp_bias\":false,"
              "\"attention_dropout\":0.0,\"hidden_act\":\"silu\",\"initializer_range\":0.02,"
              "\"max_position_embeddings\":2048,\"use_cache\":true,\"pretraining_tp\":1,"
              "\"bos_token_id\":null,\"eos_token_id\":null,\"pad_token_id\":null}");
    char *seen = json_dumps(config, JSON_SORT_KEYS), *must = json_dumps(wanted, JSON_SORT_KEYS);
    assert_string_equal(seen, must);
    free(seen);
    free(must);
    json_decref(config);
    json_decref(wanted);
    assert_int_equal(model->source_dtype, MT_F32);
    assert_false(model->tied);
    mt_model_free(model);
}

/* SmolLM2-135M: 134,515,008 parameters, as its card says. */
static void parameters_are_counted_to_the_unit(void **state)
{
    (void)state;
    struct mt_error error = {0};
    struct mt_model *model;
    mt_assert_ok(
        from_keys(
            "{\"hidden_size\":576,\"num_layers\":30,\"num_attention_heads\":9,\"num_key_value_heads\":3,"
            "\"intermediate_size\":1536,\"vocab_size\":49152,\"tie_word_embeddings\":true}",
            &model, &error),
        &error);
    assert_int_equal(model->total_count, 134515008);
    assert_int_equal(model->trainable_count, 134515008);
    assert_int_equal(model->num_parameters, 30 * 9 + 2);
    mt_model_free(model);
}

static void places_do_not_overlap_and_are_aligned(void **state)
{
    (void)state;
    struct mt_error error = {0};
    struct mt_model *model;
    mt_assert_ok(from_config("{" SMALL ",\"attention_bias\":true,\"mlp_bias\":true}", &model, &error),
                 &error);
    for (size_t g = 0; g < model->num_groups; g++) {
        size_t end = 0;
        for (size_t i = 0; i < model->groups[g].num_parameters; i++) {
            const struct mt_parameter *p = &model->parameters[model->groups[g].first_parameter + i];
            assert_int_equal(p->offset % MT_MODEL_ALIGNMENT, 0);
            assert_true(p->offset >= end);
            assert_int_equal(p->decay, p->rank > 1);
            end = p->offset + p->count;
        }
        assert_true(end <= model->groups[g].count);
    }
    assert_non_null(mt_model_find(model, "model.layers.1.self_attn.o_proj.bias"));
    assert_non_null(mt_model_find(model, "lm_head.weight"));
    assert_null(mt_model_find(model, "model.layers.2.mlp.up_proj.weight"));
    mt_model_free(model);
}

static void both_forms_of_config_json_say_the_same_and_go_back_as_they_were(void **state)
{
    (void)state;
    struct mt_error error = {0};
    struct mt_model *now, *before;
    const char *present =
        "{" SMALL ",\"rope_parameters\":{\"rope_type\":\"linear\",\"factor\":4.0,\"rope_theta\":500.0},"
        "\"dtype\":\"bfloat16\"}";
    const char *older =
        "{" SMALL ",\"rope_theta\":500.0,\"rope_scaling\":{\"type\":\"linear\",\"factor\":4.0},"
        "\"torch_dtype\":\"bfloat16\",\"some_note\":1}";
    mt_assert_ok(from_config(present, &now, &error), &error);
    mt_assert_ok(from_config(older, &before, &error), &error);
    assert_memory_equal(&now->ropes[0], &before->ropes[0], sizeof now->ropes[0]);
    assert_int_equal(now->source_dtype, MT_BF16);
    assert_int_equal(before->source_dtype, MT_BF16);
    json_t *back = mt_model_to_config(before), *was = parse(older);
    assert_true(json_equal(back, was));
    assert_int_equal(json_array_size(before->notes), 1); /* some_note */
    json_decref(back);
    json_decref(was);
    mt_model_free(now);
    mt_model_free(before);
}

static void check_refused(const char *text, const char *mention)
{
    struct mt_error error = {0};
    struct mt_model *model;
    int r = from_config(text, &model, &error);
    if (!r)
        fail_msg("%s was accepted", text);
    assert_null(model);
    assert_int_equal(error.reason, MT_REASON_BAD_MODEL);
    mt_assert_mentions(error.message, mention);
}

static void what_is_not_known_is_refused_by_name(void **state)
{
    (void)state;
    check_refused("{\"model_type\":\"mamba\"}", "llama, ");
    check_refused("{\"hidden_size\":4}", "model_type");
    check_refused("{" SMALL ",\"rope_scaling\":{\"rope_type\":\"proportional\",\"factor\":2.0}}",
                  "proportional");
    check_refused("{" SMALL ",\"rope_parameters\":{\"rope_type\":\"default\",\"mscale\":2.0}}", "mscale");
    check_refused("{" SMALL ",\"attn_logit_softcapping\":50.0}", "attn_logit_softcapping");
    check_refused("{" SMALL ",\"rope_interleaved\":true}", "rope_interleaved");
    check_refused("{" SMALL ",\"quantization_config\":{\"bits\":4}}", "quantization_config");
    check_refused("{" SMALL ",\"hidden_act\":\"mish\"}", "mish");
    check_refused("{" SMALL ",\"dtype\":\"int8\"}", "int8");
}

/* Settings that mean another mathematics than the family's entry has. */
static void settings_that_change_the_mathematics_are_refused_by_name(void **state)
{
    (void)state;
    static const char *const settings[][3] = {
        {"gpt2", "\"add_cross_attention\":true", "add_cross_attention"},
        {"gpt2", "\"rope_interleaved\":true", "rope_interleaved"},
        {"opt", "\"_remove_final_layer_norm\":true", "_remove_final_layer_norm"},
        {"opt", "\"word_embed_proj_dim\":32", "word_embed_proj_dim"},
        {"falcon", "\"num_ln_in_parallel_attn\":2", "num_ln_in_parallel_attn"},
        {"falcon", "\"new_decoder_architecture\":true,\"parallel_attn\":false", "parallel_attn"},
        {"falcon", "\"multi_query\":false,\"num_kv_heads\":1", "num_kv_heads"},
        {"gpt_bigcode", "\"multi_query\":false,\"num_key_value_heads\":1", "num_key_value_heads"},
        {"mpt", "\"attn_config\":{\"qk_ln\":true}", "attn_config.qk_ln"},
        {"mpt", "\"attn_config\":{\"alibi\":false}", "attn_config.alibi"},
        {"mpt", "\"attn_config\":{\"attn_curve\":3}", "attn_config.attn_curve"},
        {"mpt", "\"logit_scale\":2.0", "logit_scale"},
        {"bloom", "\"alibi_slopes\":[1,2]", "alibi_slopes"},
        {"baichuan", "\"z_loss_weight\":0.1", "z_loss_weight"},
        {"chatglm", "\"add_bias_linear\":true", "add_bias_linear"},
        {"chatglm", "\"rmsnorm\":false", "rmsnorm"},
        {"gemma4_text", "\"enable_moe_block\":true", "enable_moe_block"},
        {"gemma4_text", "\"vocab_size_per_layer_input\":9", "vocab_size_per_layer_input"},
        {"gemma4_text", "\"vocab_size_per_layer_input\":50,\"num_kv_shared_layers\":2", "without keys"},
        {"gemma4_text", "\"use_bidirectional_attention\":\"all\"", "use_bidirectional_attention"},
        {"qwen3", "\"rope_parameters\":{\"rope_type\":\"proportional\"}", "proportional"},
        {"gpt_neo", "\"attention_layers\":[\"global\",\"sparse\"]", "sparse"},
        {"codegen", "\"rotary_dim\":90", "rotary_dim"},
        {"apertus", "\"hidden_act\":\"xielu2\"", "xielu2"},
        {"llama", "\"hidden_act\":\"xielu\"", "xielu"},
    };
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        struct mt_error error = {0};
        struct mt_model *model;
        char text[512];
        snprintf(text, sizeof text,
                 "{\"model_type\":\"%s\",\"vocab_size\":50,\"hidden_size\":24,\"intermediate_size\":40,"
                 "\"num_hidden_layers\":2,\"num_attention_heads\":3%s,%s}",
                 settings[i][0], strcmp(settings[i][0], "codegen") ? "" : ",\"n_head\":4", settings[i][1]);
        if (!from_config(text, &model, &error))
            fail_msg("%s was accepted", text);
        assert_int_equal(error.reason, MT_REASON_BAD_MODEL);
        mt_assert_mentions(error.message, settings[i][2]);
    }
}

static void wrong_numbers_are_refused_by_name(void **state)
{
    (void)state;
    check_refused("{\"model_type\":\"llama\",\"vocab_size\":50}", "hidden_size");
    check_refused("{\"model_type\":\"llama\",\"vocab_size\":50,\"hidden_size\":10,\"intermediate_size\":8,"
                  "\"num_hidden_layers\":1,\"num_attention_heads\":4}",
                  "not divisible");
    check_refused("{" SMALL ",\"num_key_value_heads\":3}", "num_key_value_heads");
    check_refused("{" SMALL ",\"head_dim\":7}", "even");
    check_refused("{" SMALL ",\"head_dim\":-8}", "head_dim");
    check_refused("{" SMALL ",\"rms_norm_eps\":\"small\"}", "rms_norm_eps");
    check_refused("{" SMALL ",\"rms_norm_eps\":1e308}", "rms_norm_eps");
    check_refused("{" SMALL ",\"tie_word_embeddings\":1}", "tie_word_embeddings");
    check_refused(
        "{\"model_type\":\"llama\",\"vocab_size\":99999999999,\"hidden_size\":24,\"intermediate_size\":40,"
        "\"num_hidden_layers\":2,\"num_attention_heads\":4}",
        "vocab_size");
}

static void a_job_with_a_strange_key_is_a_bad_job(void **state)
{
    (void)state;
    struct mt_error error = {0};
    struct mt_model *model;
    assert_int_not_equal(
        from_keys("{\"hidden_size\":24,\"num_layers\":1,\"num_attention_heads\":4,\"vocab_size\":9,"
                  "\"hiden_sise\":3}",
                  &model, &error),
        0);
    assert_int_equal(error.reason, MT_REASON_BAD_JOB);
    mt_assert_mentions(error.message, "hiden_sise");
    assert_int_not_equal(
        from_keys("{\"hidden_size\":24,\"num_layers\":1,\"num_attention_heads\":4}", &model, &error), 0);
    mt_assert_mentions(error.message, "vocab_size");
}

static void freezing_by_globs_moves_what_is_trained_together(void **state)
{
    (void)state;
    struct mt_error error = {0};
    struct mt_model *model;
    mt_assert_ok(from_config("{" SMALL "}", &model, &error), &error);
    const size_t all = model->trainable_count;
    const char *globs[] = {"model.layers.*.self_attn.q_proj.weight", "lm_head.*"};
    mt_assert_ok(mt_model_freeze(model, globs, 2, &error), &error);
    assert_int_equal(model->trainable_count, all - 2 * 24 * 24 - 50 * 24);
    const struct mt_parameter *q = mt_model_find(model, "model.layers.0.self_attn.q_proj.weight");
    const struct mt_parameter *k = mt_model_find(model, "model.layers.0.self_attn.k_proj.weight");
    assert_true(q->frozen && !k->frozen && k->train_offset == k->offset - 576);
    const char *nothing = "encoder.*";
    assert_int_equal(mt_model_freeze(model, &nothing, 1, &error), -EINVAL);
    mt_assert_mentions(error.message, "encoder.*");
    const char *everything = "*";
    assert_int_equal(mt_model_freeze(model, &everything, 1, &error), -EINVAL);
    mt_model_free(model);
}

/* Angles that are rounded to bfloat16, or positions that are, make neighbours far out the same one. */
static void rotary_angles_are_exact_far_out_in_a_long_text(void **state)
{
    enum { LONG = 131072, DIM = 64, HALF = DIM / 2 };
    (void)state;
    const struct mt_rope rope = {
        .type = MT_ROPE_DEFAULT, .theta = 10000, .rotary_dim = DIM, .attention_factor = 1};
    float *cosines = malloc(2 * sizeof *cosines * LONG * HALF), *sines = cosines + (size_t)LONG * HALF;
    assert_non_null(cosines);
    mt_rope_tables(&rope, 0, LONG, LONG, cosines, sines);
    for (size_t p = LONG - 300; p < LONG; p++)
        for (size_t i = 0; i < HALF; i++) {
            const long double angle = (long double)p * powl(10000, -2.0L * (long double)i / DIM);
            assert_true(fabsl((long double)cosines[p * HALF + i] - cosl(angle)) < 1e-7L);
            assert_true(fabsl((long double)sines[p * HALF + i] - sinl(angle)) < 1e-7L);
        }
    free(cosines);
}

/* Llama 3.1's rope_scaling, frequencies as transformers 5.24 gives them for dim 128, theta 500000. */
static void llama3_scaling_is_that_of_transformers(void **state)
{
    (void)state;
    const struct mt_rope rope = {.type = MT_ROPE_LLAMA3,
                                 .theta = 500000,
                                 .rotary_dim = 128,
                                 .factor = 8,
                                 .attention_factor = 1,
                                 .low_freq_factor = 1,
                                 .high_freq_factor = 4,
                                 .original_max_position_embeddings = 8192};
    float cosines[2 * 64], sines[2 * 64];
    mt_rope_tables(&rope, 0, 2, 2, cosines, sines);
    const struct {
        size_t i;
        double frequency;
    } wanted[] = {{0, 1},
                  {10, 0.128687382},
                  {28, 0.00321144611},
                  {30, 0.00137189368},
                  {32, 0.000524846022},
                  {34, 0.000178507791},
                  {40, 3.42810235e-05},
                  {63, 3.06892588e-07}};
    for (size_t n = 0; n < sizeof wanted / sizeof *wanted; n++)
        assert_true(fabs((double)sines[64 + wanted[n].i] - sin(wanted[n].frequency)) <
                    1e-5 * wanted[n].frequency);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_get_the_pinned_defaults),
        cmocka_unit_test(parameters_are_counted_to_the_unit),
        cmocka_unit_test(places_do_not_overlap_and_are_aligned),
        cmocka_unit_test(both_forms_of_config_json_say_the_same_and_go_back_as_they_were),
        cmocka_unit_test(what_is_not_known_is_refused_by_name),
        cmocka_unit_test(settings_that_change_the_mathematics_are_refused_by_name),
        cmocka_unit_test(wrong_numbers_are_refused_by_name),
        cmocka_unit_test(a_job_with_a_strange_key_is_a_bad_job),
        cmocka_unit_test(freezing_by_globs_moves_what_is_trained_together),
        cmocka_unit_test(llama3_scaling_is_that_of_transformers),
        cmocka_unit_test(rotary_angles_are_exact_far_out_in_a_long_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
