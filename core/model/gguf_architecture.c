/* Architectures of GGUF files. Names of tensors and of most metadata are the same for all of them; an entry
 * says what is not. */
#include "core/model/gguf_architecture.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define COPIED(...) ((const struct mt_gguf_copied[]){__VA_ARGS__, {NULL, NULL}})
#define SECOND_NORM "blk.0.attn_norm_2.weight"
#define UNDERSTOOD(...) ((const char *const[]){__VA_ARGS__, NULL})

static int out_of_memory(struct mt_error *error)
{
    return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory for the model's description");
}

static int set(struct mt_gguf_config *reading, const char *key, json_t *value, struct mt_error *error)
{
    return value && json_object_set_new(reading->config, key, value) == 0 ? 0 : out_of_memory(error);
}

/* The scale of queries is not in the files: it is that of the published sizes, the head's but for the largest
 * one, whose number of layers tells it. */
static int set_query_scalar(struct mt_gguf_config *reading, size_t largest, struct mt_error *error)
{
    const size_t scalar = reading->num_layers == largest && reading->num_heads
                              ? reading->hidden_size / reading->num_heads
                              : reading->head_dim;
    return set(reading, "query_pre_attn_scalar", json_integer((json_int_t)scalar), error);
}

static int adjust_gemma2(struct mt_gguf_config *reading, struct mt_error *error)
{
    return set_query_scalar(reading, 46, error);
}

static int adjust_gemma3(struct mt_gguf_config *reading, struct mt_error *error)
{
    json_t *local = mt_gguf_config_number(reading, "rope.freq_base_swa");
    int r = set(reading, "rope_local_base_freq", local ? local : json_real(10000), error);
    if (r == 0 && !mt_gguf_config_value(reading, "attention.sliding_window"))
        r = set(reading, "sliding_window", json_null(), error);
    return r == 0 ? set_query_scalar(reading, 62, error) : r;
}

/* `layer_types` from an array with a bool a layer, true where it slides. */
static int set_layer_types(struct mt_gguf_config *reading, struct mt_error *error)
{
    const struct mt_gguf_value *pattern = mt_gguf_config_value(reading, "attention.sliding_window_pattern");
    if (!pattern)
        return 0;
    if (!pattern->is_array || pattern->kind != MT_GGUF_BOOL || pattern->count != reading->num_layers)
        return mt_error_set(error, -ENOTSUP, MT_REASON_BAD_MODEL,
                            "%s: attention.sliding_window_pattern is not a bool for each of the %zu layers",
                            mt_gguf_path(reading->file), reading->num_layers);
    json_t *types = json_array();
    for (size_t i = 0; types && i < pattern->count; i++) {
        int64_t slides = 0;
        mt_gguf_integer(pattern, i, &slides);
        json_array_append_new(types, json_string(slides ? "sliding_attention" : "full_attention"));
    }
    return set(reading, "layer_types", types, error);
}

static int adjust_exaone4(struct mt_gguf_config *reading, struct mt_error *error)
{
    if (!mt_gguf_config_value(reading, "attention.sliding_window"))
        return set(reading, "sliding_window", json_null(), error);
    return set_layer_types(reading, error);
}

/* With windows it is olmo3, whose full layers alone have the rope's scaling. */
static int adjust_olmo2(struct mt_gguf_config *reading, struct mt_error *error)
{
    if (mt_gguf_config_integer(reading, "attention.sliding_window", 0) <= 0)
        return 0;
    const struct mt_family *family = mt_family_find("olmo3", NULL);
    json_t *base = mt_gguf_config_number(reading, "rope.freq_base_swa");
    if (!base)
        base = json_deep_copy(json_object_get(reading->config, "rope_theta"));
    json_t *full = json_deep_copy(json_object_get(reading->config, "rope_scaling"));
    if (!full)
        full = json_pack("{s:s}", "rope_type", "default");
    if (full)
        json_object_set(full, "rope_theta", json_object_get(reading->config, "rope_theta"));
    json_object_del(reading->config, "rope_scaling");
    json_object_del(reading->config, "rope_theta");
    reading->family = family;
    int r = set(reading, "rope_parameters",
                json_pack("{s:o, s:{s:s, s:o}}", "full_attention", full, "sliding_attention", "rope_type",
                          "default", "rope_theta", base),
                error);
    if (r == 0)
        r = set(reading, "sliding_window",
                json_integer(mt_gguf_config_integer(reading, "attention.sliding_window", 0)), error);
    return r == 0 ? set_layer_types(reading, error) : r;
}

/* 0 is no window. */
static int adjust_phi3(struct mt_gguf_config *reading, struct mt_error *error)
{
    const int64_t window = mt_gguf_config_integer(reading, "attention.sliding_window", 0);
    json_t *original = mt_gguf_config_number(reading, "rope.scaling.original_context_length");
    int r = set(reading, "sliding_window", window > 0 ? json_integer(window) : json_null(), error);
    return r == 0 && original ? set(reading, "original_max_position_embeddings", original, error) : r;
}

static int adjust_cohere(struct mt_gguf_config *reading, struct mt_error *error)
{
    const bool normed = mt_gguf_find_tensor(reading->file, "blk.0.attn_q_norm.weight") != NULL;
    return set(reading, "use_qk_norm", json_boolean(normed), error);
}

static int adjust_olmo(struct mt_gguf_config *reading, struct mt_error *error)
{
    double most;
    const struct mt_gguf_value *clamp = mt_gguf_config_value(reading, "attention.clamp_kqv");
    if (clamp && mt_gguf_number(clamp, 0, &most) && most > 0)
        return set(reading, "clip_qkv", mt_gguf_config_number(reading, "attention.clamp_kqv"), error);
    return 0;
}

/* The converter says four times hidden_size whatever there is: the tensor tells. */
static int adjust_gpt2(struct mt_gguf_config *reading, struct mt_error *error)
{
    const struct mt_gguf_tensor *up = mt_gguf_find_tensor(reading->file, "blk.0.ffn_up.weight");
    return up ? set(reading, "intermediate_size", json_integer((json_int_t)up->shape[0]), error) : 0;
}

/* It says one key-value head, too, also where there are as many as heads. */
static int adjust_starcoder(struct mt_gguf_config *reading, struct mt_error *error)
{
    const struct mt_gguf_tensor *qkv = mt_gguf_find_tensor(reading->file, "blk.0.attn_qkv.weight");
    int r = adjust_gpt2(reading, error);
    json_object_del(reading->config, "num_key_value_heads");
    return r == 0 ? set(reading, "multi_query",
                        json_boolean(!qkv || qkv->shape[0] != 3 * reading->hidden_size), error)
                  : r;
}

/* Which of the three kinds it is, its norms and heads tell. */
static int adjust_falcon(struct mt_gguf_config *reading, struct mt_error *error)
{
    const bool two_norms = mt_gguf_find_tensor(reading->file, SECOND_NORM) != NULL;
    const bool is_new = two_norms || mt_gguf_config_integer(reading, "attention.head_count_kv", 1) > 1;
    int r = adjust_gpt2(reading, error);
    r = r ? r : set(reading, "new_decoder_architecture", json_boolean(is_new), error);
    if (r == 0 && is_new)
        r = set(reading, "num_ln_in_parallel_attn", json_integer(two_norms ? 2 : 1), error);
    else if (r == 0) {
        json_object_del(reading->config, "num_key_value_heads");
        r = set(reading, "multi_query", json_true(), error);
        r = r ? r : set(reading, "parallel_attn", json_true(), error);
    }
    if (r == 0)
        reading->family = mt_family_find("falcon", reading->config);
    return r;
}

static const struct mt_gguf_architecture architectures[] = {
    {.name = "bloom", .model_type = "bloom", .qkv_in_turn = true},
    {.name = "arcee", .model_type = "arcee", .neighbours = true},
    {.name = "command-r",
     .model_type = "cohere",
     .copied = COPIED({"logit_scale", "logit_scale"}),
     .adjust = adjust_cohere},
    {.name = "cohere2",
     .model_type = "cohere2",
     .copied = COPIED({"logit_scale", "logit_scale"}, {"attention.sliding_window", "sliding_window"})},
    {.name = "ernie4_5", .model_type = "ernie4_5"},
    {.name = "exaone4",
     .model_type = "exaone4",
     .copied = COPIED({"attention.sliding_window", "sliding_window"}),
     .understood = UNDERSTOOD("attention.sliding_window_pattern"),
     .adjust = adjust_exaone4},
    {.name = "falcon", .model_type = "falcon", .qkv_in_turn = true, .adjust = adjust_falcon},
    {.name = "gemma", .model_type = "gemma"},
    {.name = "gemma2",
     .model_type = "gemma2",
     .copied = COPIED({"attention.sliding_window", "sliding_window"},
                      {"attn_logit_softcapping", "attn_logit_softcapping"},
                      {"final_logit_softcapping", "final_logit_softcapping"}),
     .adjust = adjust_gemma2},
    {.name = "gemma3",
     .model_type = "gemma3_text",
     .copied = COPIED({"attention.sliding_window", "sliding_window"},
                      {"final_logit_softcapping", "final_logit_softcapping"}),
     .understood = UNDERSTOOD("rope.freq_base_swa"),
     .adjust = adjust_gemma3},
    {.name = "glm4", .model_type = "glm4"},
    {.name = "gpt2", .model_type = "gpt2", .adjust = adjust_gpt2},
    {.name = "gptneox",
     .model_type = "gpt_neox",
     .copied = COPIED({"use_parallel_residual", "use_parallel_residual"}),
     .qkv_in_turn = true},
    {.name = "granite",
     .model_type = "granite",
     .neighbours = true,
     .copied =
         COPIED({"attention.scale", "attention_multiplier"}, {"embedding_scale", "embedding_multiplier"},
                {"residual_scale", "residual_multiplier"}, {"logit_scale", "logits_scaling"})},
    {.name = "hunyuan-dense", .model_type = "hunyuan_v1_dense"},
    {.name = "jais2", .model_type = "jais2"},
    {.name = "llama", .model_type = "llama", .neighbours = true},
    {.name = "nemotron", .model_type = "nemotron"},
    {.name = "olmo",
     .model_type = "olmo",
     .neighbours = true,
     .understood = UNDERSTOOD("attention.clamp_kqv"),
     .adjust = adjust_olmo},
    {.name = "olmo2",
     .model_type = "olmo2",
     .understood =
         UNDERSTOOD("attention.sliding_window", "attention.sliding_window_pattern", "rope.freq_base_swa"),
     .adjust = adjust_olmo2},
    {.name = "phi2", .model_type = "phi"},
    {.name = "phi3",
     .model_type = "phi3",
     .understood = UNDERSTOOD("attention.sliding_window"),
     .adjust = adjust_phi3},
    {.name = "qwen2", .model_type = "qwen2"},
    {.name = "qwen3", .model_type = "qwen3"},
    {.name = "seed_oss", .model_type = "seed_oss", .mlp_norm = "blk.#.post_attention_norm.weight"},
    {.name = "smollm3", .model_type = "smollm3", .neighbours = true},
    {.name = "stablelm",
     .model_type = "stablelm",
     .copied = COPIED({"use_parallel_residual", "use_parallel_residual"})},
    {.name = "starcoder", .model_type = "gpt_bigcode", .adjust = adjust_starcoder},
    {.name = "starcoder2", .model_type = "starcoder2"},
};

#define NUM_ARCHITECTURES (sizeof architectures / sizeof *architectures)

const struct mt_gguf_architecture *mt_gguf_architecture_find(const struct mt_gguf *file)
{
    const struct mt_gguf_value *value = mt_gguf_find(file, "general.architecture");
    struct mt_gguf_text name;
    if (!value || !mt_gguf_string(value, &name))
        return NULL;
    for (size_t i = 0; i < NUM_ARCHITECTURES; i++)
        if (strlen(architectures[i].name) == name.bytes &&
            memcmp(architectures[i].name, name.data, name.bytes) == 0)
            return &architectures[i];
    return NULL;
}

const char *mt_gguf_architecture_list(char *buffer, size_t bytes)
{
    size_t used = 0;
    if (bytes)
        buffer[0] = 0;
    for (size_t i = 0; i < NUM_ARCHITECTURES && used < bytes; i++) {
        int written = snprintf(buffer + used, bytes - used, "%s%s", i ? ", " : "", architectures[i].name);
        used += written > 0 ? (size_t)written : 0;
    }
    return buffer;
}

static const char *const role_names[MT_NUM_ROLES] = {
    [MT_ROLE_EMBEDDING] = "token_embd.weight",
    [MT_ROLE_POSITIONS] = "position_embd.weight",
    [MT_ROLE_EMBEDDING_NORM] = "token_embd_norm.weight",
    [MT_ROLE_EMBEDDING_NORM_BIAS] = "token_embd_norm.bias",
    [MT_ROLE_ATTENTION_NORM] = "blk.#.attn_norm.weight",
    [MT_ROLE_ATTENTION_NORM_BIAS] = "blk.#.attn_norm.bias",
    [MT_ROLE_Q] = "blk.#.attn_q.weight",
    [MT_ROLE_K] = "blk.#.attn_k.weight",
    [MT_ROLE_V] = "blk.#.attn_v.weight",
    [MT_ROLE_QKV] = "blk.#.attn_qkv.weight",
    [MT_ROLE_Q_BIAS] = "blk.#.attn_q.bias",
    [MT_ROLE_K_BIAS] = "blk.#.attn_k.bias",
    [MT_ROLE_V_BIAS] = "blk.#.attn_v.bias",
    [MT_ROLE_QKV_BIAS] = "blk.#.attn_qkv.bias",
    [MT_ROLE_Q_NORM] = "blk.#.attn_q_norm.weight",
    [MT_ROLE_K_NORM] = "blk.#.attn_k_norm.weight",
    [MT_ROLE_O] = "blk.#.attn_output.weight",
    [MT_ROLE_O_BIAS] = "blk.#.attn_output.bias",
    [MT_ROLE_POST_ATTENTION_NORM] = "blk.#.post_attention_norm.weight",
    [MT_ROLE_MLP_NORM] = "blk.#.ffn_norm.weight",
    [MT_ROLE_MLP_NORM_BIAS] = "blk.#.ffn_norm.bias",
    [MT_ROLE_GATE] = "blk.#.ffn_gate.weight",
    [MT_ROLE_UP] = "blk.#.ffn_up.weight",
    [MT_ROLE_GATE_UP] = "blk.#.ffn_up.weight",
    [MT_ROLE_GATE_BIAS] = "blk.#.ffn_gate.bias",
    [MT_ROLE_UP_BIAS] = "blk.#.ffn_up.bias",
    [MT_ROLE_DOWN] = "blk.#.ffn_down.weight",
    [MT_ROLE_DOWN_BIAS] = "blk.#.ffn_down.bias",
    [MT_ROLE_POST_MLP_NORM] = "blk.#.post_ffw_norm.weight",
    [MT_ROLE_FINAL_NORM] = "output_norm.weight",
    [MT_ROLE_FINAL_NORM_BIAS] = "output_norm.bias",
    [MT_ROLE_HEAD_BIAS] = "output.bias",
    [MT_ROLE_HEAD] = "output.weight",
};

/* Falcon's second norm, where there is one, is the attention's; the first is the MLP's then. */
static const char *second_norm_name(enum mt_role role)
{
    return role == MT_ROLE_ATTENTION_NORM        ? "blk.#.attn_norm_2.weight"
           : role == MT_ROLE_ATTENTION_NORM_BIAS ? "blk.#.attn_norm_2.bias"
           : role == MT_ROLE_MLP_NORM            ? "blk.#.attn_norm.weight"
           : role == MT_ROLE_MLP_NORM_BIAS       ? "blk.#.attn_norm.bias"
                                                 : NULL;
}

const char *mt_gguf_role_name(const struct mt_gguf_architecture *architecture, const struct mt_gguf *file,
                              enum mt_role role)
{
    const char *name = second_norm_name(role);
    if (name && mt_gguf_find_tensor(file, SECOND_NORM))
        return name;
    return role == MT_ROLE_MLP_NORM && architecture->mlp_norm ? architecture->mlp_norm : role_names[role];
}
