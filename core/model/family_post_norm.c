/* Families whose norms stand behind the halves. */
#include "core/model/family_entries.h"

static const struct mt_family families[] = {
    {
        .model_type = "exaone4",
        .architecture = "Exaone4ForCausalLM",
        .names = {EMBEDDING_AND_HEAD, FINAL_NORM, SPLIT_QKV, OUTPUT, QK_NORMS, POST_NORMS, GATED_MLP},
        .rope_theta = 10000,
        .norm_eps = 1e-5,
        .qk_norm = MT_QK_NORM_HEAD,
        .windows = MT_WINDOW_LAYER_TYPES,
        .ropes = MT_ROPE_WINDOWED_IF_ANY,
        .keys = KEYS("sliding_window", "sliding_window_pattern", "layer_types"),
    },
    {
        .model_type = "olmo2",
        .architecture = "Olmo2ForCausalLM",
        .names = {EMBEDDING_AND_HEAD, FINAL_NORM, SPLIT_QKV, OUTPUT, QK_NORMS, POST_NORMS, GATED_MLP},
        .rope_theta = 10000,
        .norm_eps = 1e-5,
        .qkv_bias = {"attention_bias", false},
        .output_bias = {"attention_bias", false},
        .qk_norm = MT_QK_NORM_WHOLE,
        .keys = KEYS("attention_bias"),
    },
    {
        .model_type = "olmo3",
        .architecture = "Olmo3ForCausalLM",
        .names = {EMBEDDING_AND_HEAD, FINAL_NORM, SPLIT_QKV, OUTPUT, QK_NORMS, POST_NORMS, GATED_MLP},
        .rope_theta = 500000,
        .local_rope_theta = 500000,
        .norm_eps = 1e-5,
        .window = 4096,
        .window_pattern = 4,
        .qkv_bias = {"attention_bias", false},
        .output_bias = {"attention_bias", false},
        .qk_norm = MT_QK_NORM_WHOLE,
        .windows = MT_WINDOW_PATTERN,
        .ropes = MT_ROPE_BY_LAYER_TYPE,
        .keys = KEYS("attention_bias", "sliding_window", "layer_types"),
    },
};

MT_FAMILY_GROUP(post_norm);
