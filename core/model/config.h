/* Inside core/model: reading config.json's keys, where null is the same as absent. */
#ifndef MT_MODEL_CONFIG_H
#define MT_MODEL_CONFIG_H

#include "core/base/error.h"
#include "core/model/family.h"
#include "core/model/model.h"

#include <jansson.h>

/* A whole number from 1 to `most`. `required`: absent is an error, else *value stays as it is. */
int mt_config_size(const json_t *config, const char *key, size_t most, bool required, size_t *value,
                   struct mt_error *error);
/* From 0 on; absent: *value stays as it is. */
int mt_config_count(const json_t *config, const char *key, size_t most, size_t *value,
                    struct mt_error *error);
int mt_config_bool(const json_t *config, const char *key, bool *value, struct mt_error *error);
int mt_config_number(const json_t *config, const char *key, double *value, struct mt_error *error);
/* `xielu` (may be NULL: not supported) is set for that name; it has numbers of its own. */
int mt_config_activation(const json_t *config, const char *key, const char *otherwise, bool *xielu,
                         enum mt_activation *value, struct mt_error *error);
/* Borrowed; "a.b" is key b of the object a. NULL: absent. */
json_t *mt_config_at(const json_t *config, const char *path);
/* `dtype` or `torch_dtype`; float32 where neither is there. */
int mt_config_dtype(const json_t *config, enum mt_dtype *dtype, struct mt_error *error);

/* Refuses by name what would change the mathematics and is not known (strict: whatever is not known); notes
 * what is not applied. */
int mt_config_check_keys(const struct mt_family *family, const json_t *config, bool strict, json_t *notes,
                         struct mt_error *error);

/* model.c's: a model from a config.json, `strict` when its keys are a job's. */
int mt_model_make(const json_t *config, bool strict, struct mt_model **model, struct mt_error *error);
/* What a config.json can say of widths at most. */
#define MT_CONFIG_MAX_WIDTH ((size_t)1 << 24)

#endif
