/* The family table. */
#include "core/model/family.h"

#include <stdio.h>
#include <string.h>

static const char *const llama_keys[] = {"attention_bias", "mlp_bias", "pretraining_tp", NULL};
static const struct mt_family_fixed llama_fixed[] = {{"rope_interleaved", "false"}, {NULL, NULL}};

static const struct mt_family families[] = {
    {
        .model_type = "llama",
        .architecture = "LlamaForCausalLM",
        .names =
            {
                [MT_ROLE_EMBEDDING] = "model.embed_tokens.weight",
                [MT_ROLE_ATTENTION_NORM] = "model.layers.#.input_layernorm.weight",
                [MT_ROLE_Q] = "model.layers.#.self_attn.q_proj.weight",
                [MT_ROLE_K] = "model.layers.#.self_attn.k_proj.weight",
                [MT_ROLE_V] = "model.layers.#.self_attn.v_proj.weight",
                [MT_ROLE_Q_BIAS] = "model.layers.#.self_attn.q_proj.bias",
                [MT_ROLE_K_BIAS] = "model.layers.#.self_attn.k_proj.bias",
                [MT_ROLE_V_BIAS] = "model.layers.#.self_attn.v_proj.bias",
                [MT_ROLE_O] = "model.layers.#.self_attn.o_proj.weight",
                [MT_ROLE_O_BIAS] = "model.layers.#.self_attn.o_proj.bias",
                [MT_ROLE_MLP_NORM] = "model.layers.#.post_attention_layernorm.weight",
                [MT_ROLE_GATE] = "model.layers.#.mlp.gate_proj.weight",
                [MT_ROLE_UP] = "model.layers.#.mlp.up_proj.weight",
                [MT_ROLE_GATE_BIAS] = "model.layers.#.mlp.gate_proj.bias",
                [MT_ROLE_UP_BIAS] = "model.layers.#.mlp.up_proj.bias",
                [MT_ROLE_DOWN] = "model.layers.#.mlp.down_proj.weight",
                [MT_ROLE_DOWN_BIAS] = "model.layers.#.mlp.down_proj.bias",
                [MT_ROLE_FINAL_NORM] = "model.norm.weight",
                [MT_ROLE_HEAD] = "lm_head.weight",
            },
        .rope_theta = 10000.0,
        .norm_eps = 1e-6,
        .tied = false,
        .activation = "silu",
        .keys = llama_keys,
        .fixed = llama_fixed,
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
