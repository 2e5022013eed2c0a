/* Rotary position embedding (Su et al., 2021): frequencies and their scalings as Hugging Face's
 * modeling_rope_utils has them; tables of cosines and sines for the device. */
#ifndef MT_MODEL_ROPE_H
#define MT_MODEL_ROPE_H

#include "core/base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct mt_arena;

enum mt_rope_type {
    MT_ROPE_DEFAULT,
    MT_ROPE_LINEAR,       /* positions divided by factor */
    MT_ROPE_DYNAMIC,      /* theta grows with the longest sequence of the batch */
    MT_ROPE_ALPHA,        /* theta times alpha^(d / (d - 2)), whatever the length (hunyuan's `dynamic`) */
    MT_ROPE_LLAMA3,       /* low frequencies divided by factor, a ramp between (Llama 3.1) */
    MT_ROPE_YARN,         /* a ramp between divided and undivided frequencies (Peng et al., 2023) */
    MT_ROPE_LONGROPE,     /* a divisor a frequency; other ones once the batch is long (Ding et al., 2024) */
    MT_ROPE_PROPORTIONAL, /* all dimensions make pairs, but only a part of the pairs turn (gemma4) */
};

struct mt_rope {
    enum mt_rope_type type;
    double theta;
    size_t rotary_dim; /* dimensions of a head that rotate, even */
    bool interleaved;  /* pairs (2i, 2i + 1) instead of (i, i + rotary_dim / 2) */
    bool reversed;     /* turns the other way */
    size_t turning;    /* proportional: so many pairs turn */
    double factor;
    double original_max_position_embeddings;  /* not for default, linear */
    double low_freq_factor, high_freq_factor; /* llama3 */
    double attention_factor;                  /* on cosines and sines; 1 where there is none */
    double beta_fast, beta_slow;              /* yarn */
    bool truncate;
    double alpha;
    const double *short_factors, *long_factors; /* longrope: [rotary_dim / 2] each */
    double query_beta; /* > 0: times 1 + beta * ln(1 + floor(position / original)): queries of ministral3 */
};

/* What a family says where config.json does not. */
struct mt_rope_source {
    const json_t *config;
    const char *layer_type; /* "sliding_attention": `rope_parameters` has an object a layer type; or NULL */
    bool unscaled;          /* an older `rope_scaling` is for other layers */
    double theta;
    double partial_rotary_factor;
    size_t rotary_dim; /* of families that say it in dimensions: where `rotary_dim` is absent; 0: not so */
    size_t head_dim;
    bool interleaved, reversed;
    bool proportional;      /* the family knows that type */
    bool longrope_only;     /* and no other scaling than that */
    const char *model_type; /* the family, for messages */
    struct mt_arena *arena; /* owns what the rope points to */
};

/* Reads `rope_parameters`, or the older `rope_theta` and `rope_scaling` (with `rope_type` or `type`; when not
 * null it wins, as in transformers). What is not supported is refused by name. */
int mt_rope_read(const struct mt_rope_source *source, struct mt_rope *rope, struct mt_error *error);

/* Tables depend on the longest sequence of a batch through this number alone: equal numbers, equal tables. 0:
 * as short batches have them. */
size_t mt_rope_length_class(const struct mt_rope *rope, size_t longest);
/* How many tables there are in all for batches up to `longest`; SIZE_MAX: one for each length. */
size_t mt_rope_num_classes(const struct mt_rope *rope, size_t longest);

/* cos and sin, [count, rotary_dim / 2] row-major, of the positions from `first` on, computed in fp64, for
 * batches whose longest sequence has `longest` tokens. */
void mt_rope_tables(const struct mt_rope *rope, size_t first, size_t count, size_t longest, float *cos_table,
                    float *sin_table);

#endif
