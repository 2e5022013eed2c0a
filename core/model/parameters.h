/* Inside core/model: the parameter table. */
#ifndef MT_MODEL_PARAMETERS_H
#define MT_MODEL_PARAMETERS_H

#include "core/model/model.h"

/* Which optional parameters a layer has. */
struct mt_layer_parts {
    bool attention_bias, output_bias, mlp_bias;
};

/* Fills groups and parameters from the model's sizes and layers. -EOVERFLOW, -ENOMEM. */
int mt_parameters_build(struct mt_model *model, const struct mt_layer_parts *parts, struct mt_error *error);
/* Places in the slabs of what is trained; again after freezing. */
void mt_parameters_place_trained(struct mt_model *model);

#endif
