/* A model's description from where users have it. */
#ifndef MT_MODEL_OPEN_H
#define MT_MODEL_OPEN_H

#include "core/base/error.h"
#include "core/model/model.h"

#include <jansson.h>

/* The config.json of a model's folder, or what it would say of a GGUF file (gguf_config.h).
 * MT_REASON_BAD_MODEL. */
int mt_model_read_config(const char *path, json_t **config, struct mt_error *error);

/* The model that a config read from `path` describes: errors name the path. */
int mt_model_of_path(const char *path, const json_t *config, struct mt_model **model, struct mt_error *error);

/* The model that it describes. Only what says how large it is, is read. */
int mt_model_open(const char *path, struct mt_model **model, struct mt_error *error);

#endif
