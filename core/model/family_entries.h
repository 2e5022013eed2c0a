/* Inside core/model: the tables of families, a file a group, and what their entries are written with: names
 * that many families share. */
#ifndef MT_MODEL_FAMILY_ENTRIES_H
#define MT_MODEL_FAMILY_ENTRIES_H

#include "core/model/family.h"

struct mt_family_group {
    const struct mt_family *families;
    size_t count;
};
extern const struct mt_family_group mt_families_llama;
extern const struct mt_family_group mt_families_gemma;
extern const struct mt_family_group mt_families_post_norm;
extern const struct mt_family_group mt_families_fused;
extern const struct mt_family_group mt_families_layer_norm;
extern const struct mt_family_group mt_families_gpt;
extern const struct mt_family_group mt_families_opt;

/* Ends a file: its table by its name. */
#define MT_FAMILY_GROUP(name)                                                                                \
    const struct mt_family_group mt_families_##name = {families, sizeof families / sizeof *families}

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
#define RENAMED(...) ((const struct mt_family_renamed[]){__VA_ARGS__, {NULL, NULL}})
#define ALWAYS                                                                                               \
    {                                                                                                        \
        NULL, true                                                                                           \
    }

#endif
