/* A model as the engine sees it: a list of groups (the embedding, each layer, the head), each with its
 * parameters and, for a layer, the template that computes it. Made from a config.json or from a job's keys;
 * holds no numbers of parameters itself (core/store does). Immutable after mt_model_freeze. */
#ifndef MT_MODEL_MODEL_H
#define MT_MODEL_MODEL_H

#include "core/base/dtype.h"
#include "core/base/error.h"
#include "core/device/device.h"
#include "core/model/role.h"
#include "core/model/rope.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mt_arena;
struct mt_family;
struct mt_layer_template;

#define MT_MODEL_MAX_RANK 4
/* Each parameter starts at a multiple of so many elements in its slab: 256 bytes in fp32, 128 in bf16. */
#define MT_MODEL_ALIGNMENT 64

struct mt_parameter {
    const char *name; /* "model.layers.0.mlp.up_proj.weight": the name in the family's checkpoints */
    size_t rank;
    size_t shape[MT_MODEL_MAX_RANK];
    size_t count; /* elements */
    size_t index; /* in mt_model.parameters */
    size_t group; /* in mt_model.groups */
    enum mt_role role;
    size_t offset;       /* elements from the start of the group's slab of weights */
    size_t train_offset; /* elements from the start of the group's slabs of moments and gradients; no meaning
                            when frozen */
    bool decay;          /* weight decay applies: not to one-dimensional ones */
    bool frozen;         /* not trained: no optimizer state, no gradient */
    bool buffer;         /* saved and used, but never trained, and no parameter by transformers' count */
    bool input_first;    /* a matrix stored [in, out] */
    bool continues; /* a head's part of a role: lies right behind the one before, whatever the alignment */
};

/* What lies in one slab and travels as one. Group 0 is the embedding, 1 to num_layers the layers, the last
 * the head (final norm, and the output matrix when it is not tied to the embedding). */
struct mt_group {
    size_t index;
    size_t first_parameter, num_parameters;
    size_t count;       /* elements of the slab of weights, gaps included (gaps are zero and stay zero) */
    size_t train_count; /* elements of the slabs of moments and gradients; 0 when all is frozen */
    const struct mt_parameter *by_role[MT_NUM_ROLES]; /* NULL where there is none; of several, the first */
};

/* Norms of queries and keys. */
enum mt_qk_norm {
    MT_QK_NORM_NONE,
    MT_QK_NORM_HEAD,     /* each head by itself, one weight [head_dim] for all */
    MT_QK_NORM_PER_HEAD, /* each head by itself with a weight of its own */
    MT_QK_NORM_WHOLE,    /* all heads of a token together */
};

/* What one decoder layer computes; core/model/layer_dense.c has the formula. */
struct mt_layer {
    const struct mt_layer_template *layer_template;
    const struct mt_group *group;
    size_t hidden_size;
    size_t num_heads, num_kv_heads, head_dim;
    size_t rope;       /* of keys, in mt_model.ropes; MT_ROPE_NONE for a layer without rotary positions */
    size_t query_rope; /* of queries: the same but where queries are scaled by position */
    size_t window;     /* > 0: a token sees so many keys, itself included */
    float attention_scale, attention_softcap;
    bool alibi;       /* linear biases: mt_model.alibi */
    bool qkv_by_head; /* rows of QKV: for each key-value head its queries, its key, its value */
    size_t qkv_parts; /* > 0: rows of QKV in so many parts, each with its share of queries, values, keys */
    float qkv_clip;   /* > 0: queries, keys and values are clipped to it */
    bool value_norm;  /* values are RMS-normed by head, without weights */
    bool stores_kv;   /* its keys and values go on to the layers that follow, at kv_place */
    bool shares_kv;   /* it has none and reads those of layer kv_source */
    size_t kv_source, kv_place;
    size_t side_size, side_place; /* what it reads beside the stream, at side_place; 0: nothing */
    bool value_is_key;            /* there is no V: values are made of K's result too, before its norm */
    enum mt_qk_norm qk_norm;
    bool qk_norm_after_rope;
    size_t intermediate_size;
    bool gated;
    enum mt_activation activation;
    bool xielu;                              /* instead of it, with curvatures of its own */
    bool entry;                              /* the first one, where something stands before it */
    bool attention_norm, mlp_norm;           /* of what a half reads */
    bool attention_sub_norm, mlp_sub_norm;   /* of what its last product reads */
    bool post_attention_norm, post_mlp_norm; /* of what it adds to the residual stream */
    bool norm_after_sum;                     /* those two: of the sum instead */
    bool residual_normed;                    /* a half's result is added to its norm's, not to the stream */
    bool parallel;                           /* both halves read the layer's input */
    float residual_scale;                    /* on what is added */
    bool norm_centered;                      /* layer norm instead of RMS norm */
    float norm_eps, norm_weight_offset;
};
#define MT_ROPE_NONE SIZE_MAX
#define MT_MODEL_MAX_ROPES 3

/* What is added to the embedding's rows by position. */
enum mt_positions {
    MT_POSITIONS_NONE,         /* rotary positions or linear biases are elsewhere */
    MT_POSITIONS_LEARNED,      /* MT_ROLE_POSITIONS */
    MT_POSITIONS_SINES,        /* sines, then cosines, of position / 10000^(2 i / hidden_size) */
    MT_POSITIONS_SINES_TO_END, /* the same with i / (hidden_size / 2 - 1): the last is 1 / 10000 */
};

struct mt_model {
    struct mt_arena *arena; /* owns all that this struct points to */
    const struct mt_family *family;
    json_t *config; /* as read, or the present form from scratch */

    size_t hidden_size, vocab_size, num_layers;
    /* What layers read beside the stream or hand on to later ones is, for a micro-batch of T tokens,
     * beside_size * T elements: for each place, which counts elements a token, [T, width] from place * T on.
     * What layers read comes first, num_layers * layer_input_size elements a token. Each place is written
     * once in a pass. */
    size_t beside_size;
    size_t layer_input_size; /* what each layer reads beside the stream (gemma4); 0: nothing */
    size_t embedding_size;   /* of the tables' rows: hidden_size, or less where projections stand between */
    size_t max_position_embeddings;
    enum mt_positions positions;
    size_t position_offset; /* position p has row p + this of its table */
    bool entry_norm;        /* of the embedding's rows */
    const float *alibi;     /* [num_heads] of the layers: slopes of linear biases, or NULL */
    size_t kv_size;         /* num_kv_heads * head_dim of the widest layer: a row of a key cache */
    int64_t
        padding_id; /* nn.Embedding's padding_idx: its row gets no gradient from the input side; -1: none */
    bool tied;      /* the output matrix is the embedding table */
    float norm_eps, norm_weight_offset; /* of the final norm */
    bool norm_centered;
    bool final_norm;       /* false: the head reads the last layer's output */
    bool norm_head;        /* rows of the output matrix are normed to length 1 */
    float embedding_scale; /* on the table's rows as they enter; the tied head reads the raw table */
    float logit_scale;     /* logits = softcap(logit_scale * head(norm(x))) */
    float logit_softcap;   /* 0: none */
    double initializer_range;
    enum mt_dtype source_dtype; /* `dtype` of config.json: what checkpoints are written in */

    size_t num_ropes;
    struct mt_rope ropes[MT_MODEL_MAX_ROPES];
    struct mt_layer *layers; /* [num_layers] */
    size_t num_groups;       /* num_layers + 2 */
    struct mt_group *groups;
    size_t num_parameters;               /* tensors */
    struct mt_parameter *parameters;     /* by group, by role */
    size_t total_count, trainable_count; /* elements, without gaps */
    size_t buffer_count;                 /* of total_count, those that are never trained */

    json_t *notes; /* array of strings for the user ("attention_dropout 0.1 is not applied") */
};

/* From the object of a config.json (borrowed; copied). Errors (-EINVAL, -ENOTSUP): MT_REASON_BAD_MODEL,
 * naming the key; an unknown model_type lists the known ones. */
int mt_model_from_config(const json_t *config, struct mt_model **model, struct mt_error *error);

/* From scratch: `architecture` is a model_type ("llama"; NULL: the key `architecture` of `keys`), `keys` an
 * object of the family's config.json keys under their own names, num_layers standing for num_hidden_layers.
 * vocab_size, hidden_size, num_layers and num_attention_heads are required; the other defaults are those of
 * DESIGN ("Details"). Keys of a job's model block that say nothing of the shape (path, name, tokenizer,
 * dtype, device, attn_implementation, trust_remote_code) are passed over; any other unknown key is refused.
 * Errors: MT_REASON_BAD_JOB. */
int mt_model_from_keys(const char *architecture, const json_t *keys, struct mt_model **model,
                       struct mt_error *error);

void mt_model_free(struct mt_model *model);

/* config.json to write beside the weights: as it was read, or in transformers' present form. A new reference;
 * NULL: out of memory. */
json_t *mt_model_to_config(const struct mt_model *model);

/* Freezes the parameters whose names match any of the globs (fnmatch). A glob that matches nothing, or
 * freezing everything, is an error (MT_REASON_BAD_JOB). Before any store is made of the model. */
int mt_model_freeze(struct mt_model *model, const char *const *globs, size_t num_globs,
                    struct mt_error *error);

/* NULL when there is none of that name. */
const struct mt_parameter *mt_model_find(const struct mt_model *model, const char *name);

/* Initial values `first` .. first + count - 1 of a parameter: normal(0, initializer_range) from a stream
 * keyed by seed and name, 1 for norm weights (less norm_weight_offset), 0 for biases. */
void mt_model_init_values(const struct mt_model *model, const struct mt_parameter *parameter, uint64_t seed,
                          size_t first, size_t count, float *values);

/* The groups' places. */
#define MT_GROUP_EMBEDDING 0u
static inline size_t mt_model_layer_group(size_t layer)
{
    return layer + 1;
}
static inline size_t mt_model_head_group(const struct mt_model *model)
{
    return model->num_layers + 1;
}
/* The matrix that makes logits: the head's own, or the embedding's when tied. */
static inline const struct mt_parameter *mt_model_output_table(const struct mt_model *model)
{
    return model->tied ? model->groups[MT_GROUP_EMBEDDING].by_role[MT_ROLE_EMBEDDING]
                       : model->groups[mt_model_head_group(model)].by_role[MT_ROLE_HEAD];
}

/* Elements of the head group's slab before the output matrix: the final norm, and the output's bias. */
static inline size_t mt_model_head_rest(const struct mt_model *model)
{
    const struct mt_group *head = &model->groups[mt_model_head_group(model)];
    return head->by_role[MT_ROLE_HEAD] ? head->by_role[MT_ROLE_HEAD]->offset : head->count;
}

#endif
