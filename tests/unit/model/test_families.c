/* The family table: its order, its page, and what each entry must say. */
#include "core/base/cleanup.h"
#include "core/base/file.h"
#include "core/job/job.h"
#include "core/model/family.h"
#include "tests/unit/support.h"

#include <stdlib.h>

static void the_page_is_printed_from_the_table(void **state)
{
    (void)state;
    char *seen = mt_family_markdown(), *page = NULL;
    size_t bytes;
    FILE *file = fopen("docs/models.md", "r");
    assert_non_null(seen);
    assert_non_null(file);
    page = calloc(1, 1 << 20);
    bytes = fread(page, 1, (1 << 20) - 1, file);
    fclose(file);
    if (bytes != strlen(seen) || memcmp(page, seen, bytes) != 0)
        fail_msg("docs/models.md is old: build/megatrain models --families --markdown > docs/models.md");
    free(seen);
    free(page);
}

static void entries_are_in_order_and_complete(void **state)
{
    (void)state;
    size_t count;
    const struct mt_family *const *families = mt_family_table(&count);
    for (size_t i = 0; i < count; i++) {
        const struct mt_family *f = families[i];
        const bool another = i && strcmp(families[i - 1]->model_type, f->model_type) == 0;
        if (i)
            assert_true(strcmp(families[i - 1]->model_type, f->model_type) <= 0);
        if (another)
            assert_non_null(families[i - 1]->when); /* else it would hide this one */
        else
            assert_ptr_equal(mt_family_find(f->model_type, NULL), f);
        assert_non_null(f->architecture);
        assert_true(f->rope_theta > 0 || f->ropes == MT_ROPE_NOWHERE);
        assert_non_null(f->names[MT_ROLE_EMBEDDING]);
        assert_non_null(f->names[MT_ROLE_O]);
        assert_non_null(f->names[MT_ROLE_DOWN]);
        assert_non_null(f->names[MT_ROLE_HEAD]);
        assert_true(!f->names[MT_ROLE_QKV] != !f->names[MT_ROLE_Q]);
        assert_true(!f->names[MT_ROLE_UP] != !f->names[MT_ROLE_GATE_UP]);
    }
    assert_null(mt_family_find("mamba", NULL));
}

/* No family, whatever its keys, reads over a setting that nobody knows. */
static void every_family_refuses_what_it_does_not_know(void **state)
{
    (void)state;
    size_t count;
    const struct mt_family *const *families = mt_family_table(&count);
    for (size_t i = 0; i < count; i++) {
        struct mt_error error = {0};
        struct mt_model *model;
        json_t *config =
            json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:n, s:n}", "model_type", families[i]->model_type,
                      "vocab_size", 50, "hidden_size", 32, "intermediate_size", 40, "num_hidden_layers", 2,
                      "num_attention_heads", 4, "head_dim", 8, "sliding_window", "rotary_dim");
        assert_non_null(config);
        if (families[i]->names[MT_ROLE_LAYER_EMBEDDING])
            json_object_set_new(config, "vocab_size_per_layer_input", json_integer(50));
        mt_assert_ok(mt_model_from_config(config, &model, &error), &error);
        json_t *back = mt_model_to_config(model);
        assert_true(json_equal(back, config));
        json_decref(back);
        mt_model_free(model);
        json_object_set_new(config, "attention_by_moonlight", json_real(0.5));
        assert_int_equal(mt_model_from_config(config, &model, &error), -ENOTSUP);
        mt_assert_mentions(error.message, "attention_by_moonlight");
        json_decref(config);
    }
}

static void check_published(const char *text, size_t num_notes, const char *refused)
{
    struct mt_error error = {0};
    struct mt_model *model;
    mt_autojson json_t *config = json_loads(text, 0, NULL);
    assert_non_null(config);
    const int r = mt_model_from_config(config, &model, &error);
    if (refused) {
        assert_true(r < 0);
        mt_assert_mentions(error.message, refused);
        return;
    }
    mt_assert_ok(r, &error);
    assert_int_equal(json_array_size(model->notes), num_notes);
    mt_model_free(model);
}

/* Published files say more than transformers reads: gemma-2-9b-it its window twice, Hunyuan what it was
 * trained with. A job from scratch has nothing of it to say. */
static void keys_of_published_files_that_nothing_reads_are_noted(void **state)
{
    (void)state;
#define SIZES                                                                                                \
    "\"vocab_size\":50,\"hidden_size\":32,\"intermediate_size\":40,\"num_hidden_layers\":2,"                 \
    "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"head_dim\":8"
#define GEMMA "{\"model_type\":\"gemma2\"," SIZES ",\"sliding_window\":4096"
#define HUNYUAN "{\"model_type\":\"hunyuan_v1_dense\"," SIZES
    check_published(GEMMA ",\"sliding_window_size\":4096}", 1, NULL);
    check_published(HUNYUAN
                    ",\"attention_head_dim\":8,\"norm_type\":\"rms\",\"num_experts\":1,\"use_cla\":false,"
                    "\"use_qk_norm\":true,\"use_rotary_pos_emb\":true,\"mlp_bias\":false}",
                    2, NULL);
    check_published(HUNYUAN ",\"use_qk_norm\":false}", 0, "`use_qk_norm` is supported");
    check_published(HUNYUAN ",\"use_cla\":true}", 0, "`use_cla` is supported");
    check_published(HUNYUAN ",\"num_experts\":16}", 0, "`num_experts` is supported");
    check_published("{\"model_type\":\"phi3\"," SIZES ",\"full_attn_mod\":1,\"interpolate_factor\":1}", 0,
                    NULL);
    check_published("{\"model_type\":\"apertus\"," SIZES ",\"qk_norm\":true,\"post_norm\":false}", 0, NULL);
    check_published(
        "{\"model_type\":\"cohere2\"," SIZES
        ",\"layer_switch\":4,\"order_of_interleaved_layers\":\"local_attn_first\",\"rotary_pct\":1.0,"
        "\"position_embedding_type\":\"rope_gptj\",\"use_embedding_sharing\":true,"
        "\"use_gated_activation\":true,\"use_parallel_block\":true,\"use_parallel_embedding\":true}",
        3, NULL);
    check_published("{\"model_type\":\"llama\"," SIZES ",\"pruned_heads\":{}}", 0, NULL);
    check_published("{\"model_type\":\"llama\"," SIZES ",\"pruned_heads\":{\"1\":[0]}}", 0, "pruned_heads");
    check_published("{\"model_type\":\"phi3\"," SIZES ",\"full_attn_mod\":2}", 0,
                    "`full_attn_mod` is supported");
    check_published("{\"model_type\":\"gptj\",\"vocab_size\":50,\"n_embd\":32,\"n_layer\":2,\"n_head\":4,"
                    "\"rotary_dim\":8,\"rotary\":true}",
                    0, NULL);
    check_published(
        "{\"model_type\":\"starcoder2\"," SIZES
        ",\"activation_function\":\"gelu\",\"layer_norm_epsilon\":1e-05,\"scale_attn_weights\":true,"
        "\"attention_softmax_in_fp32\":true,\"scale_attention_softmax_in_fp32\":true}",
        5, NULL);
    check_published("{\"model_type\":\"llama\"," SIZES ",\"sliding_window_size\":4096}", 0,
                    "sliding_window_size");

    struct mt_error error = {0};
    struct mt_model *model;
    mt_autojson json_t *keys = json_pack("{s:i, s:i}", "vocab_size", 300, "sliding_window_size", 16);
    assert_int_equal(mt_model_from_keys("gemma2", keys, &model, &error), -EINVAL);
    mt_assert_mentions(error.message, "sliding_window_size");
}

/* EXAONE's own file has GPT-2's names for some of them. */
static void exaones_own_names_are_read(void **state)
{
    (void)state;
    struct mt_error error = {0};
    struct mt_model *model;
    mt_autojson json_t *config =
        json_loads("{\"model_type\":\"exaone\",\"vocab_size\":50,\"hidden_size\":32,\"intermediate_size\":40,"
                   "\"num_layers\":3,\"num_attention_heads\":4,\"num_key_value_heads\":2,\"head_dim\":8,"
                   "\"layer_norm_epsilon\":0.25,\"activation_function\":\"gelu\",\"embed_dropout\":0.0}",
                   0, NULL);
    mt_assert_ok(mt_model_from_config(config, &model, &error), &error);
    assert_int_equal(model->num_layers, 3);
    assert_true(model->norm_eps == 0.25f);
    assert_int_equal(model->layers[0].activation, MT_ACTIVATION_GELU);
    assert_int_equal(json_array_size(model->notes), 0);
    mt_model_free(model);
}

/* A job that trains `architecture` from scratch; `more` are further keys of its model block. */
static struct mt_model *from_scratch(const char *architecture, const char *more)
{
    char text[512];
    struct mt_error error = {0};
    struct mt_job_errors errors = {0};
    const struct mt_job_context context = {.purpose = MT_JOB_PLAN, .default_name = "scratch"};
    struct mt_job *job;
    struct mt_model *model;
    snprintf(text, sizeof text,
             "{\"model\": {\"architecture\": \"%s\", \"num_layers\": 2, \"vocab_size\": 300, %s}, "
             "\"dataset\": {\"path\": \"data\"}}",
             architecture, more);
    json_t *document = json_loads(text, 0, NULL);
    assert_non_null(document);
    if (mt_job_parse(document, &context, &job, &errors) < 0) {
        mt_job_errors_report(&errors, &error);
        fail_msg("%s: %s", architecture, error.message);
    }
    json_decref(document);
    if (mt_model_from_keys(job->model.architecture, job->model.config, &model, &error))
        fail_msg("%s: %s", architecture, error.message);
    mt_job_free(job);
    return model;
}

/* Every family can be trained from scratch: a job names it, and what its config.json then says is the same
 * model. */
static void every_family_trains_from_scratch(void **state)
{
    (void)state;
    size_t count;
    const struct mt_family *const *families = mt_family_table(&count);
    for (size_t i = 0; i < count; i++) {
        struct mt_error error = {0};
        struct mt_model *again,
            *model = from_scratch(families[i]->model_type, "\"hidden_size\": 32, \"num_attention_heads\": 4");
        json_t *config = mt_model_to_config(model);
        if (mt_model_from_config(config, &again, &error))
            fail_msg("%s: %s", families[i]->model_type, error.message);
        assert_int_equal(again->num_parameters, model->num_parameters);
        assert_int_equal(again->total_count, model->total_count);
        assert_string_equal(again->family->model_type, families[i]->model_type);
        for (size_t p = 0; p < model->num_parameters; p++)
            assert_string_equal(again->parameters[p].name, model->parameters[p].name);
        assert_int_equal(model->hidden_size, 32);
        assert_int_equal(model->vocab_size, 300);
        const char *folder =
            getenv("MT_SCRATCH_CONFIGS"); /* for whoever wants to see what others make of them */
        char path[512];
        if (folder) {
            snprintf(path, sizeof path, "%s/%s.json", folder, families[i]->model_type);
            assert_int_equal(json_dump_file(config, path, JSON_INDENT(2)), 0);
        }
        json_decref(config);
        mt_model_free(again);
        mt_model_free(model);
    }
}

/* Any key of the family's config.json under its own name; what is none is refused by name. */
static void keys_from_scratch_have_the_familys_own_names(void **state)
{
    (void)state;
    struct mt_model *model = from_scratch("gpt2", "\"n_embd\": 48, \"n_head\": 3, \"n_positions\": 77, "
                                                  "\"scale_attn_by_inverse_layer_idx\": true");
    assert_int_equal(model->hidden_size, 48);
    assert_int_equal(model->layers[1].num_heads, 3);
    assert_int_equal(model->max_position_embeddings, 77);
    assert_true(model->layers[1].attention_scale == model->layers[0].attention_scale / 2);
    mt_model_free(model);
    model = from_scratch("gemma2", "\"hidden_size\": 32, \"num_attention_heads\": 4, "
                                   "\"attn_logit_softcapping\": 20.0, \"sliding_window\": 16");
    assert_true(model->layers[0].attention_softcap == 20.0f);
    assert_int_equal(model->layers[0].window, 16);
    assert_int_equal(model->layers[1].window, 0);
    mt_model_free(model);

    struct mt_error error = {0};
    json_t *keys = json_pack("{s:i, s:i, s:i, s:i, s:i}", "hidden_size", 32, "num_layers", 2,
                             "num_attention_heads", 4, "vocab_size", 300, "n_embed_dim", 5);
    assert_int_equal(mt_model_from_keys("qwen3", keys, &model, &error), -EINVAL);
    assert_int_equal(error.reason, MT_REASON_BAD_JOB);
    mt_assert_mentions(error.message, "n_embed_dim");
    assert_int_equal(mt_model_from_keys("mamba", keys, &model, &error), -ENOTSUP);
    mt_assert_mentions(error.message, "gpt2, ");
    json_decref(keys);
}

/* Settings that transformers does not read for a family: what they would train, nothing else could load. */
static void a_setting_that_the_family_lacks_has_no_other_value(void **state)
{
    (void)state;
    static const struct {
        const char *family, *key, *value;
        bool taken;
    } cases[] = {
        {"gpt2", "head_dim", "16", false},
        {"gpt2", "head_dim", "8", true},
        {"gpt2", "num_key_value_heads", "2", false},
        {"gpt2", "num_key_value_heads", "4", true},
        {"bloom", "num_key_value_heads", "2", false},
        {"gptj", "rope_scaling", "{\"type\": \"linear\", \"factor\": 2}", false},
        {"codegen", "rope_parameters", "{\"rope_type\": \"yarn\", \"factor\": 2}", false},
        {"gpt_neox", "rope_scaling", "{\"type\": \"linear\", \"factor\": 2}", true},
        {"gpt_neox", "num_key_value_heads", "2", false},
        {"gpt_bigcode", "head_dim", "16", false},
        {"gpt_bigcode", "num_key_value_heads", "2", false},
        {"gpt_bigcode", "num_key_value_heads", "4", false},
        {"gpt_bigcode", "num_key_value_heads", "1", true},
        {"falcon", "head_dim", "16", false},
        {"falcon", "num_key_value_heads", "2", false},
        {"falcon", "num_key_value_heads", "4", false},
        {"falcon", "num_key_value_heads", "1", true},
        {"falcon", "num_kv_heads", "2", false},
        {"falcon", "num_kv_heads", "4", true}, /* transformers writes it so */
        {"helium", "head_dim", "16", false},
        {"stablelm", "num_key_value_heads", "2", true},
        {"llama", "head_dim", "16", true},
        {"llama", "num_key_value_heads", "2", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mt_error error = {0};
        struct mt_model *model = NULL;
        json_t *keys =
            json_pack("{s:i, s:i, s:i, s:i, s:o}", "hidden_size", 32, "num_layers", 2, "num_attention_heads",
                      4, "vocab_size", 300, cases[i].key, json_loads(cases[i].value, JSON_DECODE_ANY, NULL));
        const int r = mt_model_from_keys(cases[i].family, keys, &model, &error);
        if ((r == 0) != cases[i].taken)
            fail_msg("%s with %s %s: %d %s", cases[i].family, cases[i].key, cases[i].value, r, error.message);
        if (!cases[i].taken) {
            mt_assert_mentions(error.message, cases[i].family);
            mt_assert_mentions(error.message,
                               strncmp(cases[i].key, "rope", 4) ? cases[i].key : "rope_scaling");
        }
        mt_model_free(model);
        json_decref(keys);
    }
}

/* transformers reads no other rope types for phi3: with them it would not load what was trained. */
static void phi3_turns_plainly_or_by_longrope_alone(void **state)
{
    (void)state;
    static const struct {
        const char *rope, *refused;
    } cases[] = {
        {"{\"rope_type\": \"default\"}", NULL},
        {"{\"type\": \"longrope\", \"short_factor\": [1, 1, 1, 1], \"long_factor\": [1, 2, 3, 4]}", NULL},
        {"{\"type\": \"su\", \"short_factor\": [1, 1, 1, 1], \"long_factor\": [1, 2, 3, 4]}", NULL},
        {"{\"type\": \"yarn\", \"short_factor\": [1, 1, 1, 1], \"long_factor\": [1, 2, 3, 4]}", NULL},
        {"{\"type\": \"su\", \"short_factor\": [1, 1, 1, 1], \"long_factor\": [1, 2, 3]}", "`long_factor`"},
        {"{\"type\": \"linear\", \"factor\": 2}", "`linear`"},
        {"{\"rope_type\": \"dynamic\", \"factor\": 2}", "`dynamic`"},
        {"{\"rope_type\": \"llama3\", \"factor\": 2}", "`llama3`"},
        {"{\"rope_type\": \"yarn\", \"factor\": 2}", "`short_factor`"}, /* as longrope once was called */
    };
    for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        struct mt_error error = {0};
        struct mt_model *model;
        json_t *keys =
            json_pack("{s:i, s:i, s:i, s:i, s:o}", "hidden_size", 32, "num_layers", 2, "num_attention_heads",
                      4, "vocab_size", 300, i % 2 ? "rope_scaling" : "rope_parameters",
                      json_loads(cases[i / 2].rope, 0, NULL));
        const int r = mt_model_from_keys("phi3", keys, &model, &error);
        json_decref(keys);
        if (!cases[i / 2].refused) {
            mt_assert_ok(r, &error);
            mt_model_free(model);
            continue;
        }
        assert_true(r == -ENOTSUP || r == -EINVAL);
        mt_assert_mentions(error.message, cases[i / 2].refused);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_page_is_printed_from_the_table),
        cmocka_unit_test(entries_are_in_order_and_complete),
        cmocka_unit_test(every_family_refuses_what_it_does_not_know),
        cmocka_unit_test(keys_of_published_files_that_nothing_reads_are_noted),
        cmocka_unit_test(exaones_own_names_are_read),
        cmocka_unit_test(every_family_trains_from_scratch),
        cmocka_unit_test(keys_from_scratch_have_the_familys_own_names),
        cmocka_unit_test(a_setting_that_the_family_lacks_has_no_other_value),
        cmocka_unit_test(phi3_turns_plainly_or_by_longrope_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
