/* The family table. */
#include "core/model/family.h"

#include <stdio.h>
#include <string.h>

/* ---- names that many families share ---- */

#define EMBEDDING_AND_HEAD                                                                                   \
    [MT_ROLE_EMBEDDING] = "model.embed_tokens.weight", [MT_ROLE_HEAD] = "lm_head.weight"
#define FINAL_NORM [MT_ROLE_FINAL_NORM] = "model.norm.weight"
#define FINAL_NORM_BIAS [MT_ROLE_FINAL_NORM_BIAS] = "model.norm.bias"
#define SPLIT_QKV                                                                                            \
    [MT_ROLE_Q] = "model.layers.#.self_attn.q_proj.weight",                                                  \
    [MT_ROLE_K] = "model.layers.#.self_attn.k_proj.weight",                                                  \
    [MT_ROLE_V] = "model.layers.#.self_attn.v_proj.weight",                                                  \
    [MT_ROLE_Q_BIAS] = "model.layers.#.self_attn.q_proj.bias",                                               \
    [MT_ROLE_K_BIAS] = "model.layers.#.self_attn.k_proj.bias",                                               \
    [MT_ROLE_V_BIAS] = "model.layers.#.self_attn.v_proj.bias"
#define OUTPUT                                                                                               \
    [MT_ROLE_O] = "model.layers.#.self_attn.o_proj.weight", [MT_ROLE_O_BIAS] =                               \
                                                                "model.layers.#.self_attn.o_proj.bias"
#define QK_NORMS                                                                                             \
    [MT_ROLE_Q_NORM] = "model.layers.#.self_attn.q_norm.weight",                                             \
    [MT_ROLE_K_NORM] = "model.layers.#.self_attn.k_norm.weight"
#define PRE_NORMS                                                                                            \
    [MT_ROLE_ATTENTION_NORM] = "model.layers.#.input_layernorm.weight",                                      \
    [MT_ROLE_MLP_NORM] = "model.layers.#.post_attention_layernorm.weight"
#define PRE_NORM_BIASES                                                                                      \
    [MT_ROLE_ATTENTION_NORM_BIAS] = "model.layers.#.input_layernorm.bias",                                   \
    [MT_ROLE_MLP_NORM_BIAS] = "model.layers.#.post_attention_layernorm.bias"
#define POST_NORMS                                                                                           \
    [MT_ROLE_POST_ATTENTION_NORM] = "model.layers.#.post_attention_layernorm.weight",                        \
    [MT_ROLE_POST_MLP_NORM] = "model.layers.#.post_feedforward_layernorm.weight"
#define UP_DOWN                                                                                              \
    [MT_ROLE_UP] = "model.layers.#.mlp.up_proj.weight",                                                      \
    [MT_ROLE_UP_BIAS] = "model.layers.#.mlp.up_proj.bias",                                                   \
    [MT_ROLE_DOWN] = "model.layers.#.mlp.down_proj.weight",                                                  \
    [MT_ROLE_DOWN_BIAS] = "model.layers.#.mlp.down_proj.bias"
#define GATED_MLP                                                                                            \
    [MT_ROLE_GATE] = "model.layers.#.mlp.gate_proj.weight",                                                  \
    [MT_ROLE_GATE_BIAS] = "model.layers.#.mlp.gate_proj.bias", UP_DOWN
#define FUSED_MLP                                                                                            \
    [MT_ROLE_GATE_UP] = "model.layers.#.mlp.gate_up_proj.weight", [MT_ROLE_DOWN] =                           \
                                                                      "model.layers.#.mlp.down_proj.weight"
#define LLAMA_NAMES EMBEDDING_AND_HEAD, FINAL_NORM, SPLIT_QKV, OUTPUT, PRE_NORMS, GATED_MLP
#define SANDWICH_NORMS                                                                                       \
    [MT_ROLE_ATTENTION_NORM] = "model.layers.#.input_layernorm.weight",                                      \
    [MT_ROLE_MLP_NORM] = "model.layers.#.pre_feedforward_layernorm.weight", POST_NORMS

#define KEYS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define FIXED(...) ((const struct mt_family_fixed[]){__VA_ARGS__, {NULL, NULL}})
#define ALWAYS                                                                                               \
    {                                                                                                        \
        NULL, true                                                                                           \
    }

static const struct mt_family families[] = {
    {
        .model_type = "arcee",
        .architecture = "ArceeForCausalLM",
        .names = {EMBEDDING_AND_HEAD, FINAL_NORM, SPLIT_QKV, OUTPUT, PRE_NORMS, UP_DOWN},
        .rope_theta = 10000,
        .norm_eps = 1e-5,
        .activation = "relu2",
        .qkv_bias = {"attention_bias", false},
        .output_bias = {"attention_bias", false},
        .mlp_bias = {"mlp_bias", false},
        .keys = KEYS("attention_bias", "mlp_bias"),
    },
    {
        .model_type = "cohere",
        .architecture = "CohereForCausalLM",
        .names = {EMBEDDING_AND_HEAD, FINAL_NORM, SPLIT_QKV, OUTPUT, GATED_MLP,
                  QK_NORMS, [MT_ROLE_ATTENTION_NORM] = "model.layers.#.input_layernorm.weight"},
        .rope_theta = 500000,
        .norm_eps = 1e-5,
        .eps_key = "layer_norm_eps",
        .tied = true,
        .logit_scale = 0.0625,
        .qkv_bias = {"attention_bias", false},
        .output_bias = {"attention_bias", false},
        .layer_norm = true,
        .parallel = ALWAYS,
        .qk_norm = MT_QK_NORM_PER_HEAD,
        .qk_norm_key = "use_qk_norm",
        .interleaved = true,
        .keys = KEYS("attention_bias", "use_qk_norm", "logit_scale", "layer_norm_eps"),
    },
    {
        .model_type = "cohere2",
        .architecture = "Cohere2ForCausalLM",
        .names = {EMBEDDING_AND_HEAD, FINAL_NORM, SPLIT_QKV, OUTPUT,
                  GATED_MLP, [MT_ROLE_ATTENTION_NORM] = "model.layers.#.input_layernorm.weight"},
        .rope_theta = 10000,
        .norm_eps = 1e-5,
        .eps_key = "layer_norm_eps",
        .tied = true,
        .logit_scale = 0.0625,
        .window = 4096,
        .window_pattern = 4,
        .qkv_bias = {"attention_bias", false},
        .output_bias = {"attention_bias", false},
        .layer_norm = true,
        .parallel = ALWAYS,
        .interleaved = true,
        .windows = MT_WINDOW_PATTERN,
        .ropes = MT_ROPE_WINDOWED,
        .keys = KEYS("attention_bias", "logit_scale", "layer_norm_eps", "sliding_window", "layer_types",
                     "sliding_window_pattern", "_sliding_window_pattern"),
    },
    {
        .model_type = "cwm",
        .architecture = "CwmForCausalLM",
        .names = {LLAMA_NAMES},
        .rope_theta = 1e6,
        .norm_eps = 1e-5,
        .head_dim = 128,
        .window = 8192,
        .windows = MT_WINDOW_LAYER_TYPES,
        .mlp_bias = {"mlp_bias", false},
        .keys = KEYS("mlp_bias", "sliding_window", "layer_types", "pretraining_tp"),
        .fixed = FIXED({"attention_bias", "false"}),
    },
    {
        .model_type = "ernie4_5",
        .architecture = "Ernie4_5ForCausalLM",
        .names = {LLAMA_NAMES},
        .rope_theta = 500000,
        .norm_eps = 1e-5,
        .tied = true,
        .head_dim = 128,
        .qkv_bias = {"use_bias", false},
        .output_bias = {"use_bias", false},
        .mlp_bias = {"use_bias", false},
        .interleaved = true,
        .keys = KEYS("use_bias"),
    },
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
        .model_type = "gemma",
        .architecture = "GemmaForCausalLM",
        .names = {LLAMA_NAMES},
        .rope_theta = 10000,
        .tied = true,
        .activation = "gelu_pytorch_tanh",
        .head_dim = 256,
        .qkv_bias = {"attention_bias", false},
        .output_bias = {"attention_bias", false},
        .norm_weight_offset = 1,
        .scales_embeddings = true,
        .keys = KEYS("attention_bias", "hidden_activation"),
        .fixed =
            FIXED({"use_bidirectional_attention", "false"}, {"hidden_activation", "\"gelu_pytorch_tanh\""}),
    },
    {
        .model_type = "gemma2",
        .architecture = "Gemma2ForCausalLM",
        .names = {EMBEDDING_AND_HEAD, FINAL_NORM, SPLIT_QKV, OUTPUT, SANDWICH_NORMS, GATED_MLP},
        .rope_theta = 10000,
        .tied = true,
        .activation = "gelu_pytorch_tanh",
        .activation_key = "hidden_activation",
        .head_dim = 256,
        .window = 4096,
        .attention_softcap = 50,
        .logit_softcap = 30,
        .query_scalar = 256,
        .qkv_bias = {"attention_bias", false},
        .output_bias = {"attention_bias", false},
        .norm_weight_offset = 1,
        .scales_embeddings = true,
        .windows = MT_WINDOW_EVEN,
        .keys =
            KEYS("attention_bias", "hidden_activation", "attn_logit_softcapping", "final_logit_softcapping",
                 "query_pre_attn_scalar", "sliding_window", "layer_types", "cache_implementation"),
        .fixed = FIXED({"use_bidirectional_attention", "false"}),
    },
    {
        .model_type = "gemma3_text",
        .architecture = "Gemma3ForCausalLM",
        .names = {EMBEDDING_AND_HEAD, FINAL_NORM, SPLIT_QKV, OUTPUT, QK_NORMS, SANDWICH_NORMS, GATED_MLP},
        .rope_theta = 1e6,
        .local_rope_theta = 10000,
        .tied = true,
        .activation = "gelu_pytorch_tanh",
        .activation_key = "hidden_activation",
        .head_dim = 256,
        .window = 4096,
        .window_pattern = 6,
        .query_scalar = 256,
        .qkv_bias = {"attention_bias", false},
        .output_bias = {"attention_bias", false},
        .norm_weight_offset = 1,
        .qk_norm = MT_QK_NORM_HEAD,
        .scales_embeddings = true,
        .windows = MT_WINDOW_PATTERN,
        .ropes = MT_ROPE_BY_LAYER_TYPE,
        .keys =
            KEYS("attention_bias", "hidden_activation", "attn_logit_softcapping", "final_logit_softcapping",
                 "query_pre_attn_scalar", "sliding_window", "layer_types", "sliding_window_pattern",
                 "_sliding_window_pattern", "rope_local_base_freq", "cache_implementation"),
        .fixed = FIXED({"use_bidirectional_attention", "false"}),
    },
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
        .model_type = "granite",
        .architecture = "GraniteForCausalLM",
        .names = {LLAMA_NAMES},
        .rope_theta = 10000,
        .qkv_bias = {"attention_bias", false},
        .output_bias = {"attention_bias", false},
        .mlp_bias = {"mlp_bias", false},
        .keys = KEYS("attention_bias", "mlp_bias", "attention_multiplier", "embedding_multiplier",
                     "residual_multiplier", "logits_scaling"),
    },
    {
        .model_type = "helium",
        .architecture = "HeliumForCausalLM",
        .names = {EMBEDDING_AND_HEAD, FINAL_NORM,
                  SPLIT_QKV, [MT_ROLE_O] = "model.layers.#.self_attn.o_proj.weight", PRE_NORMS, GATED_MLP},
        .rope_theta = 100000,
        .norm_eps = 1e-8,
        .head_dim = 128,
        .qkv_bias = {"attention_bias", false},
        .mlp_bias = {"mlp_bias", false},
        .interleaved = true,
        .keys = KEYS("attention_bias", "mlp_bias"),
    },
    {
        .model_type = "hunyuan_v1_dense",
        .architecture = "HunYuanDenseV1ForCausalLM",
        .names = {LLAMA_NAMES, [MT_ROLE_Q_NORM] = "model.layers.#.self_attn.query_layernorm.weight",
                  [MT_ROLE_K_NORM] = "model.layers.#.self_attn.key_layernorm.weight"},
        .rope_theta = 10000,
        .norm_eps = 1e-5,
        .qkv_bias = {"attention_bias", false},
        .output_bias = {"attention_bias", false},
        .qk_norm = MT_QK_NORM_HEAD,
        .qk_norm_after_rope = true,
        .keys = KEYS("attention_bias", "eod_token_id", "pretraining_tp"),
    },
    {
        .model_type = "llama",
        .architecture = "LlamaForCausalLM",
        .names = {LLAMA_NAMES},
        .rope_theta = 10000,
        .qkv_bias = {"attention_bias", false},
        .output_bias = {"attention_bias", false},
        .mlp_bias = {"mlp_bias", false},
        .keys = KEYS("attention_bias", "mlp_bias", "pretraining_tp"),
        .fixed = FIXED({"rope_interleaved", "false"}),
    },
    {
        .model_type = "ministral",
        .architecture = "MinistralForCausalLM",
        .names = {LLAMA_NAMES},
        .rope_theta = 10000,
        .window = 4096,
        .windows = MT_WINDOW_LAYER_TYPES,
        .keys = KEYS("sliding_window", "layer_types"),
    },
    {
        .model_type = "ministral3",
        .architecture = "Ministral3ForCausalLM",
        .names = {LLAMA_NAMES},
        .rope_theta = 1e6,
        .norm_eps = 1e-5,
        .head_dim = 128,
        .scales_queries = true,
        .windows = MT_WINDOW_ALL,
        .keys = KEYS("sliding_window"),
    },
    {
        .model_type = "mistral",
        .architecture = "MistralForCausalLM",
        .names = {LLAMA_NAMES},
        .rope_theta = 10000,
        .window = 4096,
        .windows = MT_WINDOW_ALL,
        .keys = KEYS("sliding_window", "layer_types"),
    },
    {
        .model_type = "nemotron",
        .architecture = "NemotronForCausalLM",
        .names = {EMBEDDING_AND_HEAD, FINAL_NORM, FINAL_NORM_BIAS, SPLIT_QKV, OUTPUT, PRE_NORMS,
                  PRE_NORM_BIASES, UP_DOWN},
        .rope_theta = 10000,
        .partial_rotary_factor = 0.5,
        .norm_eps = 1e-5,
        .eps_key = "norm_eps",
        .activation = "relu2",
        .qkv_bias = {"attention_bias", false},
        .output_bias = {"attention_bias", false},
        .mlp_bias = {"mlp_bias", false},
        .norm_bias = ALWAYS,
        .layer_norm = true,
        .norm_weight_offset = 1,
        .keys = KEYS("attention_bias", "mlp_bias", "norm_eps", "partial_rotary_factor"),
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
    {
        .model_type = "qwen2",
        .architecture = "Qwen2ForCausalLM",
        .names = {LLAMA_NAMES},
        .rope_theta = 10000,
        .window = 4096,
        .qkv_bias = ALWAYS,
        .windows = MT_WINDOW_FROM,
        .keys = KEYS("use_sliding_window", "sliding_window", "max_window_layers", "layer_types"),
    },
    {
        .model_type = "qwen3",
        .architecture = "Qwen3ForCausalLM",
        .names = {LLAMA_NAMES, QK_NORMS},
        .rope_theta = 10000,
        .head_dim = 128,
        .window = 4096,
        .qkv_bias = {"attention_bias", false},
        .output_bias = {"attention_bias", false},
        .qk_norm = MT_QK_NORM_HEAD,
        .windows = MT_WINDOW_FROM,
        .keys = KEYS("attention_bias", "use_sliding_window", "sliding_window", "max_window_layers",
                     "layer_types"),
    },
    {
        .model_type = "seed_oss",
        .architecture = "SeedOssForCausalLM",
        .names = {LLAMA_NAMES},
        .rope_theta = 10000,
        .head_dim = 128,
        .qkv_bias = {"attention_bias", true},
        .output_bias = {"attention_out_bias", false},
        .mlp_bias = {"mlp_bias", false},
        .keys = KEYS("attention_bias", "attention_out_bias", "mlp_bias", "pretraining_tp"),
    },
    {
        .model_type = "smollm3",
        .architecture = "SmolLM3ForCausalLM",
        .names = {LLAMA_NAMES},
        .rope_theta = 2e6,
        .tied = true,
        .qkv_bias = {"attention_bias", false},
        .output_bias = {"attention_bias", false},
        .mlp_bias = {"mlp_bias", false},
        .windows = MT_WINDOW_NO_ROPE,
        .ropes = MT_ROPE_LISTED,
        .keys = KEYS("attention_bias", "mlp_bias", "use_sliding_window", "sliding_window", "layer_types",
                     "no_rope_layers", "no_rope_layer_interval", "max_window_layers", "pretraining_tp"),
    },
    {
        .model_type = "stablelm",
        .architecture = "StableLmForCausalLM",
        .names = {LLAMA_NAMES, PRE_NORM_BIASES, FINAL_NORM_BIAS},
        .rope_theta = 10000,
        .partial_rotary_factor = 0.25,
        .norm_eps = 1e-5,
        .eps_key = "layer_norm_eps",
        .qkv_bias = {"use_qkv_bias", false},
        .norm_bias = ALWAYS,
        .layer_norm = true,
        .parallel = {"use_parallel_residual", false},
        .keys = KEYS("use_qkv_bias", "use_parallel_residual", "layer_norm_eps", "partial_rotary_factor"),
        .fixed = FIXED({"qk_layernorm", "false"}),
    },
    {
        .model_type = "starcoder2",
        .architecture = "Starcoder2ForCausalLM",
        .names = {EMBEDDING_AND_HEAD, FINAL_NORM, FINAL_NORM_BIAS, SPLIT_QKV, OUTPUT, PRE_NORMS,
                  PRE_NORM_BIASES, [MT_ROLE_UP] = "model.layers.#.mlp.c_fc.weight",
                  [MT_ROLE_UP_BIAS] = "model.layers.#.mlp.c_fc.bias",
                  [MT_ROLE_DOWN] = "model.layers.#.mlp.c_proj.weight",
                  [MT_ROLE_DOWN_BIAS] = "model.layers.#.mlp.c_proj.bias"},
        .rope_theta = 10000,
        .norm_eps = 1e-5,
        .eps_key = "norm_epsilon",
        .tied = true,
        .activation = "gelu_pytorch_tanh",
        .qkv_bias = {"use_bias", true},
        .output_bias = {"use_bias", true},
        .mlp_bias = {"use_bias", true},
        .norm_bias = ALWAYS,
        .layer_norm = true,
        .windows = MT_WINDOW_ALL,
        .keys = KEYS("use_bias", "norm_epsilon", "sliding_window"),
        .fixed = FIXED({"mlp_type", "\"default\""}, {"norm_type", "\"layer_norm\""}),
    },
    {
        .model_type = "vaultgemma",
        .architecture = "VaultGemmaForCausalLM",
        .names = {EMBEDDING_AND_HEAD, FINAL_NORM, SPLIT_QKV, OUTPUT,
                  GATED_MLP, [MT_ROLE_ATTENTION_NORM] = "model.layers.#.input_layernorm.weight",
                  [MT_ROLE_MLP_NORM] = "model.layers.#.pre_feedforward_layernorm.weight"},
        .rope_theta = 10000,
        .tied = true,
        .activation = "gelu_pytorch_tanh",
        .activation_key = "hidden_activation",
        .head_dim = 256,
        .window = 4096,
        .attention_softcap = 50,
        .logit_softcap = 30,
        .query_scalar = 256,
        .qkv_bias = {"attention_bias", false},
        .output_bias = {"attention_bias", false},
        .norm_weight_offset = 1,
        .scales_embeddings = true,
        .windows = MT_WINDOW_EVEN,
        .keys = KEYS("attention_bias", "hidden_activation", "attn_logit_softcapping",
                     "final_logit_softcapping", "query_pre_attn_scalar", "sliding_window", "layer_types"),
    },
};

#define NUM_FAMILIES (sizeof families / sizeof *families)

const struct mt_family *mt_family_find(const char *model_type)
{
    for (size_t i = 0; i < NUM_FAMILIES; i++)
        if (strcmp(families[i].model_type, model_type) == 0)
            return &families[i];
    return NULL;
}

const struct mt_family *mt_family_table(size_t *count)
{
    *count = NUM_FAMILIES;
    return families;
}

const char *mt_family_list(char *buffer, size_t bytes)
{
    size_t used = 0;
    if (bytes)
        buffer[0] = 0;
    for (size_t i = 0; i < NUM_FAMILIES && used < bytes; i++) {
        int written = snprintf(buffer + used, bytes - used, "%s%s", i ? ", " : "", families[i].model_type);
        used += written > 0 ? (size_t)written : 0;
    }
    return buffer;
}
