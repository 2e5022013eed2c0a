/* The tensors of a model's files under the names that its family's checkpoints have, whatever format the
 * files have: safetensors as they are, GGUF with its names, orders and offsets undone. Values are read
 * where they shall stand: nothing of the files stays in memory, and reading is thread-safe. */
#ifndef MT_MODEL_TENSORS_H
#define MT_MODEL_TENSORS_H

#include "core/base/error.h"
#include "core/formats/gguf.h"
#include "core/formats/safetensors.h"
#include "core/model/model.h"

#include <stdbool.h>
#include <stddef.h>

struct mt_tensor {
    const char *name; /* in the family's checkpoints; in the file, where the family has nothing of the kind */
    const char *file; /* path of the file that holds it */
    const char *type; /* "BF16", "Q4_K" */
    bool readable;    /* a type that is read as numbers */
    size_t rank;
    size_t shape[MT_SAFETENSORS_MAX_RANK];
    size_t elements;
    size_t bytes; /* in the file */

    /* For the functions below alone. */
    const void *tensor;
    int fd;          /* of the file that holds it, */
    uint64_t offset; /* and where in it its bytes are */
    int (*read)(const struct mt_tensor *tensor, size_t first, size_t count, float *out);
    size_t heads;    /* rows of so many heads are in GGUF's order; 0: as they are */
    size_t kv_heads; /* not 0: rows are of QKV, whose parts are one after another there */
    bool transposed; /* rows are columns there */
    float shift;     /* added to each value */
};

struct mt_tensors;

/* Opens what `path` names: a folder, a .safetensors file or an index (as mt_safetensors_open), or a GGUF
 * file, whose tensors are named by the roles of `model`'s parameters (NULL: by their own names; not needed
 * for safetensors, whose names it completes where files of a bare model leave the family's prefix out).
 * Errors: MT_REASON_BAD_MODEL, MT_REASON_IO. */
int mt_tensors_open(const char *path, const struct mt_model *model, struct mt_tensors **tensors,
                    struct mt_error *error);
/* Of a GGUF file that is open already and stays the caller's, with the names that mt_tensors_open gives. */
int mt_tensors_of_gguf(const struct mt_gguf *file, const struct mt_model *model, struct mt_tensors **tensors,
                       struct mt_error *error);
void mt_tensors_close(struct mt_tensors *tensors); /* NULL is fine */

size_t mt_tensors_count(const struct mt_tensors *tensors);
const struct mt_tensor *mt_tensors_at(const struct mt_tensors *tensors, size_t i);
const struct mt_tensor *mt_tensors_find(const struct mt_tensors *tensors, const char *name); /* or NULL */

/* Elements [first, first + count) as fp32. -EINVAL or -ENOTSUP for a type that is not readable, -ERANGE when
 * the range leaves the tensor, -ENODATA when the file has become shorter, other errors of pread. */
int mt_tensor_read(const struct mt_tensor *tensor, size_t first, size_t count, float *out);
/* How many elements are best read at a time where `usual` are of other tensors: of those whose rows are
 * columns in the file a short range is a number here and a number there. */
size_t mt_tensor_range(const struct mt_tensor *tensor, size_t usual);

/* Whether two tensors have the same bytes in their files. MT_REASON_IO, naming the file, where these cannot
 * be read; -ENOMEM. */
int mt_tensor_same(const struct mt_tensor *a, const struct mt_tensor *b, bool *same, struct mt_error *error);

#endif
