/* Families whose query, key and value, or gate and up, are one matrix. */
#include "core/model/family_entries.h"

/* Baichuan says by the size of its vocabulary whether the output matrix's rows are normed (the second
 * generation: 125,696 entries, or a z_loss_weight), and by leaving out max_position_embeddings that positions
 * are linear biases (the 13B). */
#define BAICHUAN                                                                                             \
    .model_type = "baichuan", .architecture = "BaichuanForCausalLM",                                         \
    .names = {EMBEDDING_AND_HEAD,                                                                            \
              FINAL_NORM,                                                                                    \
              [MT_ROLE_QKV] = "model.layers.#.self_attn.W_pack.weight",                                      \
              [MT_ROLE_O] = "model.layers.#.self_attn.o_proj.weight",                                        \
              PRE_NORMS,                                                                                     \
              GATED_MLP},                                                                                    \
    .rope_theta = 10000, .max_positions = 4096,                                                              \
    .keys = KEYS("model_max_length", "gradient_checkpointing", "z_loss_weight"),                             \
    .fixed = FIXED({"z_loss_weight", "0"})

static const struct mt_family families[] = {
    {BAICHUAN, .when = FIXED({"vocab_size", "125696"}, {"max_position_embeddings", "null"}),
     .norm_head = ALWAYS, .alibi = ALWAYS},
    {BAICHUAN, .when = FIXED({"z_loss_weight", "0"}, {"max_position_embeddings", "null"}),
     .norm_head = ALWAYS, .alibi = ALWAYS},
    {BAICHUAN, .when = FIXED({"vocab_size", "125696"}), .norm_head = ALWAYS},
    {BAICHUAN, .when = FIXED({"z_loss_weight", "0"}), .norm_head = ALWAYS},
    {BAICHUAN, .when = FIXED({"max_position_embeddings", "null"}), .alibi = ALWAYS},
    {BAICHUAN},
    {
        .model_type = "chatglm",
        .architecture = "ChatGLMForConditionalGeneration",
        .names = {[MT_ROLE_EMBEDDING] = "transformer.embedding.word_embeddings.weight",
                  [MT_ROLE_ATTENTION_NORM] = "transformer.encoder.layers.#.input_layernorm.weight",
                  [MT_ROLE_QKV] = "transformer.encoder.layers.#.self_attention.query_key_value.weight",
                  [MT_ROLE_QKV_BIAS] = "transformer.encoder.layers.#.self_attention.query_key_value.bias",
                  [MT_ROLE_O] = "transformer.encoder.layers.#.self_attention.dense.weight",
                  [MT_ROLE_MLP_NORM] = "transformer.encoder.layers.#.post_attention_layernorm.weight",
                  [MT_ROLE_GATE_UP] = "transformer.encoder.layers.#.mlp.dense_h_to_4h.weight",
                  [MT_ROLE_DOWN] = "transformer.encoder.layers.#.mlp.dense_4h_to_h.weight",
                  [MT_ROLE_FINAL_NORM] = "transformer.encoder.final_layernorm.weight",
                  [MT_ROLE_HEAD] = "transformer.output_layer.weight"},
        .rope_theta = 10000,
        .partial_rotary_factor = 0.5,
        .norm_eps = 1e-5,
        .eps_key = "layernorm_epsilon",
        .activation_key = MT_NO_KEY,
        .qkv_bias = {"add_qkv_bias", false},
        .interleaved = true,
        .keeps_padding_row = true,
        .renamed = RENAMED({"num_layers", "num_hidden_layers"}, {"padded_vocab_size", "vocab_size"},
                           {"ffn_hidden_size", "intermediate_size"}, {"kv_channels", "head_dim"},
                           {"multi_query_group_num", "num_key_value_heads"},
                           {"seq_length", "max_position_embeddings"}),
        .keys = KEYS("add_qkv_bias", "rope_ratio", "apply_query_key_layer_scaling",
                     "attention_softmax_in_fp32", "bias_dropout_fusion", "fp32_residual_connection",
                     "pre_seq_len", "quantization_bit", "interleaved_qkv"),
        .fixed = FIXED({"add_bias_linear", "false"}, {"apply_residual_connection_post_layernorm", "false"},
                       {"multi_query_attention", "true"}, {"original_rope", "true"},
                       {"post_layer_norm", "true"}, {"rmsnorm", "true"}, {"prefix_projection", "false"},
                       {"quantization_bit", "0"}, {"interleaved_qkv", "false"}),
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
        .model_type = "internlm2",
        .architecture = "InternLM2ForCausalLM",
        .names = {[MT_ROLE_EMBEDDING] = "model.tok_embeddings.weight",
                  FINAL_NORM,
                  [MT_ROLE_ATTENTION_NORM] = "model.layers.#.attention_norm.weight",
                  [MT_ROLE_QKV] = "model.layers.#.attention.wqkv.weight",
                  [MT_ROLE_QKV_BIAS] = "model.layers.#.attention.wqkv.bias",
                  [MT_ROLE_O] = "model.layers.#.attention.wo.weight",
                  [MT_ROLE_O_BIAS] = "model.layers.#.attention.wo.bias",
                  [MT_ROLE_MLP_NORM] = "model.layers.#.ffn_norm.weight",
                  [MT_ROLE_GATE] = "model.layers.#.feed_forward.w1.weight",
                  [MT_ROLE_UP] = "model.layers.#.feed_forward.w3.weight",
                  [MT_ROLE_DOWN] = "model.layers.#.feed_forward.w2.weight",
                  [MT_ROLE_HEAD] = "output.weight"},
        .rope_theta = 10000,
        .qkv_bias = {"bias", true},
        .output_bias = {"bias", true},
        .qkv_by_head = true,
        .keys = KEYS("bias", "pretraining_tp"),
    },
    {
        .model_type = "phi3",
        .architecture = "Phi3ForCausalLM",
        .lacks = MT_LACKS_OTHER_SCALINGS,
        .names = {EMBEDDING_AND_HEAD, FINAL_NORM, [MT_ROLE_QKV] = "model.layers.#.self_attn.qkv_proj.weight",
                  [MT_ROLE_O] = "model.layers.#.self_attn.o_proj.weight", PRE_NORMS, FUSED_MLP},
        .rope_theta = 10000,
        .norm_eps = 1e-5,
        .windows = MT_WINDOW_ALL,
        .keys = KEYS("sliding_window", "partial_rotary_factor", "original_max_position_embeddings"),
        .fixed = FIXED({"attention_bias", "false"}, {"full_attn_mod", "1"}, {"interpolate_factor", "1"}),
    },
};

MT_FAMILY_GROUP(fused);
