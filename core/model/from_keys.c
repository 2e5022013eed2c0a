/* From scratch: the keys of a job's model block, which are those of the family's config.json, and the
 * defaults of what they leave out. The config.json that comes of it is written out with the weights, so it
 * says all that transformers would otherwise take from its own defaults where those are other ones than here.
 */
#include "core/base/cleanup.h"
#include "core/model/config.h"
#include "core/model/family.h"
#include "core/model/model.h"

#include <string.h>

/* Keys of a job's model block that say nothing of the shape. */
static const char *const job_keys[] = {"path",  "name",   "architecture",        "tokenizer",
                                       "dtype", "device", "attn_implementation", "trust_remote_code"};

static bool is_job_key(const char *key)
{
    for (size_t i = 0; i < sizeof job_keys / sizeof *job_keys; i++)
        if (strcmp(key, job_keys[i]) == 0)
            return true;
    return false;
}

/* Sizes that a job may give under the usual names, whatever the family calls them. */
static const char *const sizes[] = {"hidden_size",         "num_hidden_layers", "num_attention_heads",
                                    "num_key_value_heads", "intermediate_size", "max_position_embeddings",
                                    "vocab_size",          "head_dim",          "initializer_range"};

/* The family's own name of a usual key. */
static const char *own_key(const struct mt_family *family, const char *usual)
{
    for (const struct mt_family_renamed *renamed = family->renamed; renamed && renamed->own; renamed++)
        if (strcmp(renamed->usual, usual) == 0 && !strchr(renamed->own, '.'))
            return renamed->own;
    return usual;
}

static void use_own_keys(const struct mt_family *family, json_t *config)
{
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const char *own = own_key(family, sizes[i]);
        json_t *value = json_object_get(config, sizes[i]);
        if (own == sizes[i] || !value)
            continue;
        if (!json_object_get(config, own))
            json_object_set(config, own, value);
        json_object_del(config, sizes[i]);
    }
}

static size_t size_of(const json_t *config, const char *key)
{
    const json_t *value = json_object_get(config, key);
    return json_is_integer(value) && json_integer_value(value) > 0 ? (size_t)json_integer_value(value) : 0;
}

/* Takes `value`. A NULL key or MT_NO_KEY: nothing is set. */
static void set_default(json_t *config, const char *key, json_t *value)
{
    if (!key || !*key || json_object_get(config, key))
        json_decref(value);
    else
        json_object_set_new(config, key, value);
}

static json_t *plain_rope(double theta, double partial)
{
    json_t *rope = json_pack("{s:s, s:f}", "rope_type", "default", "rope_theta", theta);
    if (partial > 0)
        json_object_set_new(rope, "partial_rotary_factor", json_real(partial));
    return rope;
}

/* The present form of the rope settings. Older ones (rope_theta, rope_scaling) are put into it where the
 * family has one kind of layer, else left as they are. */
static int fill_rope(const struct mt_family *family, json_t *config, struct mt_error *error)
{
    json_t *old = json_object_get(config, "rope_scaling"), *theta = json_object_get(config, "rope_theta");
    const bool apart = family->ropes == MT_ROPE_BY_LAYER_TYPE;
    if (family->ropes == MT_ROPE_NOWHERE || json_object_get(config, "rope_parameters") ||
        ((apart || family->rope_default) && (old || theta)))
        return 0;
    json_t *rope;
    if (family->rope_default)
        rope = json_loads(family->rope_default, 0, NULL);
    else if (apart)
        rope = json_pack("{s:o, s:o}", "full_attention", plain_rope(family->rope_theta, 0),
                         "sliding_attention", plain_rope(family->local_rope_theta, 0));
    else
        rope = json_is_object(old) ? json_deep_copy(old) : json_object();
    if (!apart && !family->rope_default) {
        if (json_object_get(rope, "type") && !json_object_get(rope, "rope_type"))
            json_object_set(rope, "rope_type", json_object_get(rope, "type"));
        json_object_del(rope, "type");
        set_default(rope, "rope_type", json_string("default"));
        if (theta && !json_is_null(theta))
            json_object_set(rope, "rope_theta", theta);
        set_default(rope, "rope_theta", json_real(family->rope_theta));
        if (family->partial_rotary_factor > 0 && !json_object_get(config, "partial_rotary_factor"))
            set_default(rope, "partial_rotary_factor", json_real(family->partial_rotary_factor));
        json_object_del(config, "rope_scaling");
        json_object_del(config, "rope_theta");
    }
    return json_object_set_new(config, "rope_parameters", rope)
               ? mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY,
                              "out of memory for the model's description")
               : 0;
}

static void fill_switch(json_t *config, const struct mt_family_switch *family)
{
    set_default(config, family->key, json_boolean(family->otherwise));
}

static json_t *every_layer(const char *word, size_t count)
{
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, json_string(word));
    return list;
}

/* Families whose windows are listed by layer: none slides where the job does not say. */
static void fill_layer_types(const struct mt_family *family, json_t *config, size_t layers)
{
    const char *key = own_key(family, "layer_types");
    if (family->windows != MT_WINDOW_LAYER_TYPES || !layers || layers > 8192 || json_object_get(config, key))
        return;
    const bool neo = strcmp(key, "attention_layers") == 0;
    set_default(config, key, every_layer(neo ? "global" : "full_attention", layers));
    if (neo)
        set_default(config, "attention_types", json_pack("[[[s], i]]", "global", (int)layers));
}

/* Sizes that follow from others. */
static void fill_sizes(const struct mt_family *family, json_t *config)
{
    const size_t hidden = size_of(config, own_key(family, "hidden_size"));
    const size_t heads = size_of(config, own_key(family, "num_attention_heads"));
    const bool gated = family->names[MT_ROLE_GATE] || family->names[MT_ROLE_GATE_UP];
    const bool grouped = family->ropes != MT_ROPE_NOWHERE && !family->multi_query.key;
    if (hidden && hidden <= MT_CONFIG_MAX_WIDTH && !family->mlp_factor)
        set_default(config, own_key(family, "intermediate_size"),
                    json_integer((json_int_t)(gated ? (hidden * 8 + 191) / 192 * 64 : 4 * hidden)));
    if (heads && grouped)
        set_default(config, own_key(family, "num_key_value_heads"), json_integer((json_int_t)heads));
    if (heads && hidden % heads == 0 && grouped)
        set_default(config, own_key(family, "head_dim"), json_integer((json_int_t)(hidden / heads)));
    if (mt_family_has_key(family, "rotary_dim") && heads)
        set_default(config, "rotary_dim",
                    json_integer((json_int_t)(hidden / heads < 64 ? hidden / heads / 2 * 2 : 64)));
    const size_t positions = family->max_positions ? family->max_positions : 2048;
    set_default(config, own_key(family, "max_position_embeddings"), json_integer((json_int_t)positions));
    if (family->names[MT_ROLE_LAYER_EMBEDDING]) {
        set_default(config, "hidden_size_per_layer_input", json_integer(256));
        set_default(config, "vocab_size_per_layer_input",
                    json_incref(json_object_get(config, "vocab_size") ? json_object_get(config, "vocab_size")
                                                                      : json_null()));
    }
    fill_layer_types(family, config, size_of(config, own_key(family, "num_hidden_layers")));
}

/* Every key that transformers needs written out. */
static int fill_defaults(const struct mt_family *family, json_t *config, struct mt_error *error)
{
    const bool llama = strcmp(family->model_type, "llama") == 0; /* its defaults are pinned: DESIGN */
    set_default(config, "architectures", json_pack("[s]", family->architecture));
    json_object_set_new(config, "dtype", json_string("float32"));
    fill_switch(config, &family->qkv_bias);
    fill_switch(config, &family->output_bias);
    fill_switch(config, &family->mlp_bias);
    fill_switch(config, &family->parallel);
    if (llama)
        set_default(config, "attention_dropout", json_real(0));
    if (!family->ids_not_null) {
        set_default(config, "bos_token_id", json_null());
        set_default(config, "eos_token_id", json_null());
    }
    set_default(config, "pad_token_id", json_null());
    set_default(config, family->activation_key ? family->activation_key : "hidden_act",
                json_string(family->activation ? family->activation : "silu"));
    set_default(config, own_key(family, "initializer_range"), json_real(0.02));
    set_default(config, family->eps_key ? family->eps_key : "rms_norm_eps",
                json_real(llama                  ? 1e-5
                          : family->norm_eps > 0 ? family->norm_eps
                                                 : 1e-6));
    set_default(config, "tie_word_embeddings", json_boolean(family->tied));
    set_default(config, "use_cache", json_true());
    if (llama)
        set_default(config, "pretraining_tp", json_integer(1));
    fill_sizes(family, config);
    return fill_rope(family, config, error);
}

static int config_from_keys(const char *architecture, const json_t *keys, json_t *config,
                            struct mt_error *error)
{
    const json_t *given = json_object_get(keys, "architecture");
    const char *type = architecture ? architecture : json_string_value(given);
    const struct mt_family *family = type ? mt_family_find(type, keys) : NULL;
    if (!family) {
        char known[2048];
        return mt_error_set(error, -ENOTSUP, MT_REASON_BAD_JOB,
                            "model.architecture `%s` is not supported yet (known: %s)", type ? type : "",
                            mt_family_list(known, sizeof known));
    }
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)keys, key, value)
    {
        if (is_job_key(key) && !mt_family_has_key(family, key))
            continue;
        json_object_set(config, strcmp(key, "num_layers") == 0 ? "num_hidden_layers" : key, value);
    }
    json_object_set_new(config, "model_type", json_string(family->model_type));
    use_own_keys(family, config);
    return fill_defaults(family, config, error);
}

int mt_model_from_keys(const char *architecture, const json_t *keys, struct mt_model **model,
                       struct mt_error *error)
{
    *model = NULL;
    mt_autojson json_t *config = json_object();
    if (!config)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY,
                            "out of memory for the model's description");
    int r = json_is_object(keys)
                ? config_from_keys(architecture, keys, config, error)
                : mt_error_set(error, -EINVAL, MT_REASON_BAD_JOB, "model: must be an object of keys");
    if (r)
        return r;
    r = mt_model_make(config, true, model, error);
    if (r && error && error->reason == MT_REASON_BAD_MODEL)
        error->reason = MT_REASON_BAD_JOB;
    return r;
}
