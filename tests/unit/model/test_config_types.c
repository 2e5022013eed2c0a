/* Every key of every family's config.json with values of other types: refused by its name, and never taken
 * for absent, where a default would stand in for it without a word. */
#include "core/model/model.h"
#include "tests/unit/other_types.h"
#include "tests/unit/support.h"

#include <glob.h>

struct looked_at {
    json_t *config;
    const char *path;
    size_t changes;
};

static bool listed(const char *const *keys, const char *key)
{
    for (; *keys; keys++)
        if (strcmp(key, *keys) == 0)
            return true;
    return false;
}

/* What has no effect whatever it says, or is not read where another key decides. */
static bool without_effect(const char *place, const char *key)
{
    static const char *const keys[] = {
        "architectures", "transformers_version", "use_cache", "return_dict", "auto_map", "bos_token_id",
        "eos_token_id", "unk_token_id", "sep_token_id", "eod_token_id", "decoder_start_token_id",
        "tokenizer_class", "is_decoder", "layerdrop", "model_max_length", "n_ctx", "init_device",
        "slow_but_exact", "reorder_and_upcast_attn", "attention_softmax_in_fp32",
        "scale_attention_softmax_in_fp32", "embedding_fraction", "learned_pos_emb", "expansion_ratio",
        "attn_impl", "id2label", "label2id", "problem_type", "output_attentions", "output_hidden_states",
        "chunk_size_feed_forward", "attn_config.dtype", "attn_config.model_type",
        /* Other keys decide: layer_types, attention_layers, the architecture. */
        "sliding_window_pattern", "attention_types", "multi_query", NULL};
    return listed(keys, key) || listed(keys, place) || key[0] == '_' || strstr(key, "dropout") ||
           strstr(key, "pdrop") || strncmp(key, "summary_", 8) == 0;
}

/* Files in which one setting leaves others without a meaning. */
static bool is_moot(const char *path, const char *place, const char *key)
{
    static const char *const alpha[] = {"beta_fast", "beta_slow", "mscale", "mscale_all_dim", NULL};
    return (strstr(path, "/falcon_rw") && strncmp(place, "rope_parameters", 15) == 0) || /* alibi */
           (strstr(path, "/hunyuan_v1_dense_alpha/") && listed(alpha, key)) ||
           (strstr(path, "/biogpt/") && strcmp(key, "layer_norm_eps") == 0) || /* a fixed one */
           (strstr(path, "/ministral3/") && strcmp(place, "rope_parameters.max_position_embeddings") == 0) ||
           (strstr(path, "/gemma2_old/") && strcmp(key, "hidden_act") == 0); /* hidden_activation */
}

/* Numbers that are whole in these files and need not be. */
static bool takes_fractions(const char *key)
{
    static const char *const keys[] = {"original_max_position_embeddings", "query_pre_attn_scalar",
                                       "alibi_bias_max", NULL};
    return listed(keys, key);
}

/* The key itself, what it stands in, or the strange key that stands in its object now. */
static bool names(const char *message, const char *place, const char *key)
{
    char outer[64];
    snprintf(outer, sizeof outer, "%.*s", (int)strcspn(place, "."), place);
    return strstr(message, key) || strstr(message, outer) || strstr(message, "`a`");
}

static void refuses(void *context, const char *place, const char *key, const char *value)
{
    struct looked_at *looked = context;
    struct mt_error error = {0};
    struct mt_model *model;
    if (is_moot(looked->path, place, key) || (strcmp(value, "0.5") == 0 && takes_fractions(key)))
        return;
    looked->changes++;
    if (mt_model_from_config(looked->config, &model, &error) == 0) {
        mt_model_free(model);
        fail_msg("%s: `%s` was accepted as %s", looked->path, place, value);
    }
    assert_int_equal(error.reason, MT_REASON_BAD_MODEL);
    if (!names(error.message, place, key))
        fail_msg("%s: `%s` as %s is not named: %s", looked->path, place, value, error.message);
}

static void values_of_other_types_are_refused_by_name(void **state)
{
    (void)state;
    glob_t found;
    size_t changes = 0;
    assert_int_equal(glob("tests/golden/*/config.json", 0, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        struct looked_at looked = {.path = found.gl_pathv[i]};
        looked.config = json_load_file(looked.path, 0, NULL);
        assert_non_null(looked.config);
        struct mt_model *model;
        if (mt_model_from_config(looked.config, &model, NULL) == 0) { /* else a family that comes later */
            mt_model_free(model);
            mt_other_types_run(&(struct mt_other_types){
                .root = looked.config, .try = refuses, .passed_over = without_effect, .context = &looked});
        }
        changes += looked.changes;
        json_decref(looked.config);
    }
    printf("# %zu changes of %zu files\n", changes, found.gl_pathc);
    assert_true(changes > 10000);
    globfree(&found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(values_of_other_types_are_refused_by_name)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
