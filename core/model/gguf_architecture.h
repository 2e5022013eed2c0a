/* Inside core/model: which architectures of GGUF files stand for which families, and what differs. */
#ifndef MT_MODEL_GGUF_ARCHITECTURE_H
#define MT_MODEL_GGUF_ARCHITECTURE_H

#include "core/base/error.h"
#include "core/formats/gguf.h"
#include "core/model/family.h"
#include "core/model/role.h"

#include <jansson.h>

struct mt_gguf_config;

/* A number or bool of the metadata that becomes a key of config.json as it is. */
struct mt_gguf_copied {
    const char *suffix; /* behind "<architecture>." */
    const char *key;    /* of config.json */
};

struct mt_gguf_architecture {
    const char *name;       /* general.architecture */
    const char *model_type; /* in the family table */
    /* Rows of queries and keys have the halves of a rotary pair beside each other (2i, 2i + 1); config.json's
     * families keep them half a head apart. */
    bool neighbours;
    /* Rows of QKV are all queries, all keys, all values; families have them head by head (qkv_by_head). */
    bool qkv_in_turn;
    const char *mlp_norm;                /* where it is not blk.#.ffn_norm */
    const struct mt_gguf_copied *copied; /* ends with a NULL; may be NULL */
    const char *const *understood;       /* suffixes that `adjust` reads; NULL-terminated; may be NULL */
    /* What no table says. NULL: nothing. */
    int (*adjust)(struct mt_gguf_config *reading, struct mt_error *error);
};

/* What is read, and what it becomes. */
struct mt_gguf_config {
    const struct mt_gguf *file;
    const struct mt_gguf_architecture *architecture;
    const struct mt_family *family;
    json_t *config;
    size_t hidden_size, num_layers, num_heads, head_dim;
};

/* NULL when unknown. */
const struct mt_gguf_architecture *mt_gguf_architecture_find(const struct mt_gguf *file);
/* "llama, qwen2, ...": for messages. */
const char *mt_gguf_architecture_list(char *buffer, size_t bytes);

/* Of the value "<architecture>.<suffix>"; NULL when absent. */
const struct mt_gguf_value *mt_gguf_config_value(const struct mt_gguf_config *reading, const char *suffix);
/* A number that the value holds, as short as its type allows (0.1, not 0.10000000149); NULL: absent or no
 * number. */
json_t *mt_gguf_config_number(const struct mt_gguf_config *reading, const char *suffix);
/* Whole; `otherwise` where it is absent or none. */
int64_t mt_gguf_config_integer(const struct mt_gguf_config *reading, const char *suffix, int64_t otherwise);

/* The checkpoint's name (with # for the layer's number) of what a role is for; NULL: GGUF has no such thing.
 */
const char *mt_gguf_role_name(const struct mt_gguf_architecture *architecture, const struct mt_gguf *file,
                              enum mt_role role);

#endif
