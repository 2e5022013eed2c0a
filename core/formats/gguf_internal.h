/* Inside core/formats: a GGUF file that is open, and the parts of one that is split. */
#ifndef MT_FORMATS_GGUF_INTERNAL_H
#define MT_FORMATS_GGUF_INTERNAL_H

#include "core/base/arena.h"
#include "core/formats/gguf.h"
#include "core/formats/head.h"

struct mt_gguf {
    struct mt_arena *arena; /* names */
    char *path;
    struct mt_head head; /* values lie in it */
    uint32_t version;
    size_t alignment;
    size_t num_values, num_tensors;
    struct mt_gguf_value *values;
    struct mt_gguf_tensor *tensors;             /* of all parts */
    const struct mt_gguf_value **values_by_key; /* sorted */
    const struct mt_gguf_tensor **tensors_by_name;
    struct mt_gguf **others; /* the parts behind the first, which this one is; NULL in them */
    size_t num_others;
};

/* One file as it is, whether or not it is a part of several. */
int mt_gguf_open_one(const char *path, struct mt_gguf **file, struct mt_error *error);

/* When `*file` is one part of several: opens the others, checks that they belong together, and makes of them
 * all the first part with everybody's tensors. After an error `*file` is still to be closed. */
int mt_gguf_join_parts(struct mt_gguf **file, struct mt_error *error);

int mt_gguf_no_memory(struct mt_error *error, const char *path);

/* Sorts tensors_by_name; a name that stands twice is an error. */
int mt_gguf_sort_tensors(struct mt_gguf *file, struct mt_error *error);

#endif
