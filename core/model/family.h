/* The family table: one entry a `model_type`. What families share stands in the templates; what differs
 * stands in the entry. Adding a family that differs only in this is an entry and a golden file
 * (docs/add-a-model.md). */
#ifndef MT_MODEL_FAMILY_H
#define MT_MODEL_FAMILY_H

#include "core/base/error.h"
#include "core/model/model.h"
#include "core/model/role.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* "" names no key of any config.json. */
#define MT_NO_KEY ""

/* A switch: a key of config.json and what holds where it is silent; without a key that always holds. */
struct mt_family_switch {
    const char *key;
    bool otherwise;
};

/* Which layers have a sliding window. Where `layer_types` is there and a rule but ALL holds, it decides. */
enum mt_window_rule {
    MT_WINDOW_NONE,
    MT_WINDOW_ALL,         /* all layers, when `sliding_window` is a number */
    MT_WINDOW_LAYER_TYPES, /* by `layer_types` alone; without it none */
    MT_WINDOW_FROM,        /* layers from `max_window_layers` on, when `use_sliding_window` */
    MT_WINDOW_EVEN,        /* every second one from layer 0 on */
    MT_WINDOW_PATTERN,     /* layer i unless (i + 1) is a multiple of `sliding_window_pattern` */
    MT_WINDOW_NO_ROPE,     /* layers without rope, when `use_sliding_window` */
};

/* Which layers turn queries and keys. */
enum mt_rope_rule {
    MT_ROPE_EVERYWHERE,
    MT_ROPE_LISTED,          /* `no_rope_layers`: 1 where there is rope */
    MT_ROPE_WINDOWED,        /* layers with a window only */
    MT_ROPE_WINDOWED_IF_ANY, /* the same when there is a `sliding_window`, else everywhere */
    MT_ROPE_BY_LAYER_TYPE,   /* settings of their own for full and for sliding layers */
    MT_ROPE_NOWHERE,
};

/* A key and a value as JSON text. */
struct mt_family_fixed {
    const char *key, *value;
};

/* Settings that most families have and transformers does not read for this one: another value than the one
 * that follows would train a model that nothing else loads. */
enum mt_family_lacks {
    MT_LACKS_HEAD_DIM = 1,       /* heads are hidden_size / num_attention_heads wide */
    MT_LACKS_KV_HEADS = 2,       /* as many key-value heads as query heads */
    MT_LACKS_ROPE_SCALING = 4,   /* positions are not rotary, or turn without scaling */
    MT_LACKS_OTHER_SCALINGS = 8, /* of rotary positions than longrope */
};

struct mt_family {
    const char *model_type; /* "llama" */
    /* A model_type may have several entries: one is taken where all these hold, and the first such one.
     * Absent keys count as null. NULL: always. */
    const struct mt_family_fixed *when;
    const char *architecture; /* "LlamaForCausalLM" */
    /* Checkpoint names by role; # stands for the number of the layer, @ for that of the head where each
     * head's part is a tensor by itself. NULL: the family has no such parameter. The names of norms say which
     * norms there are; GATE or GATE_UP, that the MLP is gated. */
    const char *names[MT_NUM_ROLES];

    /* Where config.json is silent, transformers' own defaults. 0: none. */
    double rope_theta, local_rope_theta; /* local: of sliding layers, where they have their own */
    double partial_rotary_factor;        /* 0: whole heads */
    double norm_eps;                     /* 0: 1e-6 */
    double layer_norm_eps;               /* of the layers' norms, whatever the config says; 0: the same */
    bool tied;
    const char *activation;   /* NULL: silu */
    size_t head_dim;          /* 0: hidden_size / num_attention_heads */
    size_t max_positions;     /* 0: 2048 */
    const char *rope_default; /* JSON of `rope_parameters` where neither it nor `rope_scaling` is there */
    bool gelu_is_tanh;        /* what `gelu` means */
    size_t window, window_pattern;
    double attention_softcap, logit_softcap, query_scalar, logit_scale;
    struct mt_family_switch qkv_bias, output_bias, mlp_bias, norm_bias, head_bias;
    bool output_bias_last; /* in the last layer only */

    /* The family's own names of keys; NULL: the usual ones. MT_NO_KEY: the default always holds. */
    const char *eps_key, *activation_key;
    const struct mt_family_renamed {
        const char *own, *usual;
    } * renamed;                /* ends with a NULL; "a.b" is key b of the object a */
    size_t mlp_factor;          /* intermediate_size in hidden sizes where it is not given; 0: it must be */
    const char *mlp_factor_key; /* a key that holds that factor */
    struct mt_family_switch multi_query; /* on: one key-value head */

    unsigned lacks; /* enum mt_family_lacks, together */

    /* The mathematics. */
    bool layer_norm;                         /* layer norms instead of RMS norms */
    float norm_weight_offset;                /* 1: norms multiply by 1 + weight */
    bool plain_norms;                        /* norms before each half and at the end, without weights */
    const char *norm_weight_key;             /* a switch that, off, leaves norms without weights and biases */
    bool plain_entry_norm;                   /* one on the embedding's rows, without weights */
    bool norm_after_sum;                     /* post norms are of the stream after the sum */
    struct mt_family_switch residual_normed; /* halves are added to what their norms gave */
    struct mt_family_switch parallel;
    bool parallel_shares_norm; /* then both halves read what the attention's norm gave, though MLP_NORM has a
                                  name */
    enum mt_qk_norm qk_norm;
    const char *qk_norm_key; /* the switch that turns it on; NULL: always on */
    bool qk_norm_otherwise;  /* where that key is absent */
    bool qk_norm_after_rope;
    bool qkv_by_head;        /* rows of QKV: for each key-value head its queries, its key, its value */
    size_t qkv_parts;        /* rows of QKV: so many parts, each with its share of queries, values, keys */
    bool input_first;        /* QKV, O, UP and DOWN are stored [in, out] */
    bool value_norm;         /* values are normed by head, without weights */
    bool unscaled_scores;    /* attention's scores are not divided by the root of the head size */
    bool interleaved;        /* rotary pairs are neighbours */
    bool reversed;           /* rotary pairs turn the other way */
    bool proportional_ropes; /* rope type `proportional` is known */
    size_t global_head_dim;  /* full layers among sliding ones have heads of another size, and number, by
                                `per_layer_config` or the hub's keys; 0: not so */
    enum mt_positions positions; /* beside rotary ones, or in their place */
    size_t position_offset;
    struct mt_family_switch alibi;             /* linear biases instead of rotary positions */
    bool alibi_bf16;                           /* of places, divided as the scores are, rounded to bfloat16 */
    struct mt_family_switch norm_head;         /* rows of the output matrix are normed to length 1 */
    bool logits_multiplied;                    /* by `logits_scaling`, not divided */
    bool scales_queries;                       /* by position: rope setting llama_4_scaling_beta */
    struct mt_family_switch scales_embeddings; /* by the square root of hidden_size */
    bool keeps_padding_row;                    /* the padding token's embedding is trained */
    enum mt_window_rule windows;
    enum mt_rope_rule ropes;

    bool ids_not_null;  /* transformers takes no null for bos_token_id */
    const char *prefix; /* of all names but the head's, which files of the bare model leave out; or NULL */

    /* Keys of config.json that this family understands beside the common ones; NULL-terminated. "a.b": key b
     * of the object a, whose other keys are checked likewise. */
    const char *const *keys;
    /* Keys that published files have and nothing reads: noted, not refused. A job from scratch may not say
     * them. NULL-terminated; NULL: none. */
    const char *const *unread;
    /* Settings that must have one value, or the mathematics is another: refused by name otherwise. Absent and
     * null are always fine. Ends with a NULL key, as `when` does. */
    const struct mt_family_fixed *fixed;
};

/* The entry for a config.json (or the first of the name, when it is NULL); NULL when unknown. */
const struct mt_family *mt_family_find(const char *model_type, const json_t *config);
/* All entries, by name. */
const struct mt_family *const *mt_family_table(size_t *count);
/* Whether `keys` lists it. */
bool mt_family_has_key(const struct mt_family *family, const char *key);
/* "llama, mistral, ...": for messages; written to `buffer`, cut when too long. */
const char *mt_family_list(char *buffer, size_t bytes);
/* The table in Markdown, as docs/models.md has it; to be freed. NULL: out of memory. */
char *mt_family_markdown(void);

#endif
