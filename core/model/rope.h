/* Rotary position embedding (Su et al., 2021): frequencies and their scalings as Hugging Face's
 * modeling_rope_utils has them; tables of cosines and sines for the device. */
#ifndef MT_MODEL_ROPE_H
#define MT_MODEL_ROPE_H

#include "core/base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum mt_rope_type {
    MT_ROPE_DEFAULT,
    MT_ROPE_LINEAR, /* positions divided by factor */
    MT_ROPE_LLAMA3, /* low frequencies divided by factor, a ramp between (Llama 3.1) */
};

struct mt_rope {
    enum mt_rope_type type;
    double theta;
    size_t rotary_dim; /* dimensions of a head that rotate, even */
    bool interleaved;  /* pairs (2i, 2i + 1) instead of (i, i + rotary_dim / 2) */
    double factor;
    double low_freq_factor, high_freq_factor, original_max_position_embeddings; /* llama3 */
};

/* Reads `rope_parameters`, or the older `rope_theta` and `rope_scaling` (with `rope_type` or `type`; when not
 * null it wins, as in transformers). What is not supported is refused by name. `rope` comes with rotary_dim
 * set. */
int mt_rope_from_config(const json_t *config, double default_theta, struct mt_rope *rope,
                        struct mt_error *error);

/* cos and sin: [num_positions, rotary_dim / 2] row-major, computed in fp64. */
void mt_rope_tables(const struct mt_rope *rope, size_t num_positions, float *cos_table, float *sin_table);

#endif
