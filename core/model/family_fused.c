/* Families whose query, key and value, or gate and up, are one matrix. */
#include "core/model/family_entries.h"

static const struct mt_family families[] = {
    {
        .model_type = "glm",
        .architecture = "GlmForCausalLM",
        .names = {EMBEDDING_AND_HEAD, FINAL_NORM,
                  SPLIT_QKV, [MT_ROLE_O] = "model.layers.#.self_attn.o_proj.weight", PRE_NORMS, FUSED_MLP},
        .rope_theta = 10000,
        .partial_rotary_factor = 0.5,
        .norm_eps = 1.5625e-7,
        .head_dim = 128,
        .qkv_bias = {"attention_bias", false},
        .interleaved = true,
        .keys = KEYS("attention_bias", "partial_rotary_factor"),
    },
    {
        .model_type = "glm4",
        .architecture = "Glm4ForCausalLM",
        .names = {EMBEDDING_AND_HEAD, FINAL_NORM,
                  SPLIT_QKV, [MT_ROLE_O] = "model.layers.#.self_attn.o_proj.weight",
                  PRE_NORMS, [MT_ROLE_POST_ATTENTION_NORM] = "model.layers.#.post_self_attn_layernorm.weight",
                  [MT_ROLE_POST_MLP_NORM] = "model.layers.#.post_mlp_layernorm.weight", FUSED_MLP},
        .rope_theta = 10000,
        .partial_rotary_factor = 0.5,
        .norm_eps = 1.5625e-7,
        .head_dim = 128,
        .qkv_bias = {"attention_bias", false},
        .interleaved = true,
        .keys = KEYS("attention_bias", "partial_rotary_factor"),
    },
    {
        .model_type = "phi3",
        .architecture = "Phi3ForCausalLM",
        .names = {EMBEDDING_AND_HEAD, FINAL_NORM, [MT_ROLE_QKV] = "model.layers.#.self_attn.qkv_proj.weight",
                  [MT_ROLE_O] = "model.layers.#.self_attn.o_proj.weight", PRE_NORMS, FUSED_MLP},
        .rope_theta = 10000,
        .norm_eps = 1e-5,
        .windows = MT_WINDOW_ALL,
        .keys = KEYS("sliding_window", "partial_rotary_factor", "original_max_position_embeddings"),
        .fixed = FIXED({"attention_bias", "false"}),
    },
};

MT_FAMILY_GROUP(fused);
