/* Inside core/model: what differs from layer to layer: sliding windows and rotary positions. */
#ifndef MT_MODEL_LAYER_RULES_H
#define MT_MODEL_LAYER_RULES_H

#include "core/model/family.h"

struct mt_layer_rules {
    const struct mt_family *family;
    const json_t *types;   /* `layer_types`, or NULL */
    const json_t *no_rope; /* `no_rope_layers`, or NULL */
    size_t window;         /* 0: no layer has one */
    bool rotary;           /* any layer turns queries and keys */
    bool scaled_queries;   /* queries have a rope of their own */
    size_t window_from, window_pattern, no_rope_interval;
    size_t num_layers;
    size_t full_head_dim, full_kv_heads; /* of full layers among sliding ones; 0: as of all */
    bool full_value_is_key;              /* their values are made of their keys */
};

/* Reads the settings, and the model's ropes with them. The rules point into `config`. */
int mt_layer_rules_read(struct mt_model *model, const json_t *config, size_t head_dim,
                        struct mt_layer_rules *rules, struct mt_error *error);
/* Sets window, rope and query_rope of layer `index`, and of its heads what differs from layer to layer. */
int mt_layer_rules_apply(const struct mt_layer_rules *rules, size_t index, struct mt_layer *layer,
                         struct mt_error *error);

#endif
