/* Inside core/model: the parameter table. */
#ifndef MT_MODEL_PARAMETERS_H
#define MT_MODEL_PARAMETERS_H

#include "core/model/model.h"

/* Which biases a model has, where its family has a name for them. */
struct mt_biases {
    bool qkv, output, mlp, norm, head;
    bool norm_weight; /* norms have weights at all */
};

/* A family's name of a parameter with `sign` (# or @) replaced by a number; NULL: out of memory. */
const char *mt_parameter_name(struct mt_arena *arena, const char *pattern, char sign, size_t number);
/* Fills groups and parameters from the model's sizes and layers. -EOVERFLOW, -ENOMEM. */
int mt_parameters_build(struct mt_model *model, const struct mt_biases *biases, struct mt_error *error);

#endif
