/* The family table: one entry a `model_type`. What families share stands in the templates; what differs
 * stands in the entry. Adding a family that differs only in this is an entry and a golden file. */
#ifndef MT_MODEL_FAMILY_H
#define MT_MODEL_FAMILY_H

#include "core/base/error.h"
#include "core/model/role.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct mt_model;

struct mt_family {
    const char *model_type;   /* "llama" */
    const char *architecture; /* "LlamaForCausalLM" */
    /* Checkpoint names by role; # stands for the number of the layer. NULL: the family has no such parameter.
     */
    const char *names[MT_NUM_ROLES];
    /* Where config.json is silent, transformers' own defaults. */
    double rope_theta;
    double norm_eps;
    bool tied;
    const char *activation;
    float norm_weight_offset; /* 1: norms multiply by 1 + weight */
    /* Keys of config.json that this family understands beside the common ones; NULL-terminated. */
    const char *const *keys;
    /* Settings that must have one value, or the mathematics is another: refused by name otherwise. */
    const struct mt_family_fixed {
        const char *key;
        const char *value; /* JSON text; absent and null are always fine */
    } * fixed;             /* ends with a NULL key */
};

/* NULL when unknown. */
const struct mt_family *mt_family_find(const char *model_type);
/* All entries, by name. */
const struct mt_family *mt_family_table(size_t *count);
/* "llama, mistral, ...": for messages; written to `buffer`, cut when too long. */
const char *mt_family_list(char *buffer, size_t bytes);

#endif
