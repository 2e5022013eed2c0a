/* Safetensors files (https://huggingface.co/docs/safetensors): reading one file, a sharded model or a model
 * folder, and writing either as a stream. A file is 8 bytes of header length (little-endian), a JSON header,
 * and the tensors' bytes one after another without holes.
 *
 * Everything a header says is checked before it is used; what is handed out lies inside the file as it was
 * when it was opened. A file that is cut off later is an error of whoever reads. */
#ifndef MT_FORMATS_SAFETENSORS_H
#define MT_FORMATS_SAFETENSORS_H

#include "core/base/dtype.h"
#include "core/base/error.h"

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#define MT_SAFETENSORS_MAX_RANK 8

/* --- reading ------------------------------------------------------------------------------------------- */

struct mt_safetensors;

/* A tensor of a file; all pointers live until mt_safetensors_close. */
struct mt_safetensors_tensor {
    const char *name;
    enum mt_dtype dtype;
    size_t rank; /* 0 for a scalar */
    size_t shape[MT_SAFETENSORS_MAX_RANK];
    size_t elements; /* product of shape; 0 when a dimension is 0 */
    size_t bytes;
    const char *file; /* path of the file that holds it, */
    int fd;           /* open for reading, */
    uint64_t offset;  /* and where in it its data begins: row-major, little-endian, NOT aligned */
};

/* Opens `path`: a .safetensors file, an index (*.safetensors.index.json), or a folder with
 * `model.safetensors` or `model.safetensors.index.json`. A folder that has only pickle files (.bin, .pt,
 * .pth) is refused with a hint to convert them. A tensor that the index places in a shard which does not hold
 * it is an error; tensors of the shards that the index does not name are found as well. Shard names with a
 * slash are refused. Errors: MT_REASON_BAD_MODEL (with file, tensor and what is wrong), MT_REASON_IO. */
int mt_safetensors_open(const char *path, struct mt_safetensors **file, struct mt_error *error);
void mt_safetensors_close(struct mt_safetensors *file); /* NULL is fine */

size_t mt_safetensors_count(const struct mt_safetensors *file);
/* Tensors in the order of their files and, in each, of their data; i < count. */
const struct mt_safetensors_tensor *mt_safetensors_at(const struct mt_safetensors *file, size_t i);
/* NULL when there is no tensor of that name. */
const struct mt_safetensors_tensor *mt_safetensors_find(const struct mt_safetensors *file, const char *name);
/* A value of `__metadata__` of the first file that has the key; NULL when absent. */
const char *mt_safetensors_metadata(const struct mt_safetensors *file, const char *key);

/* Elements [first, first + count) as fp32: F32 copied, F16 and BF16 exact, F64 rounded to nearest even.
 * -EINVAL for another dtype, -ERANGE when the range leaves the tensor, -ENODATA when the file has become
 * shorter, other errors of pread. It is read straight into `out`, or through a small buffer. Thread-safe. */
int mt_safetensors_read_f32(const struct mt_safetensors_tensor *tensor, size_t first, size_t count,
                            float *out);

/* IEEE binary16 to and from fp32 (to nearest, ties to even, NaN stays NaN, too large becomes infinite). */
float mt_f16_to_float(uint16_t value);
uint16_t mt_f16_from_float(float value);

/* The name that a header uses ("F32", "BF16", ...). */
const char *mt_safetensors_dtype_name(enum mt_dtype dtype);

/* --- writing ------------------------------------------------------------------------------------------- */

struct mt_safetensors_spec {
    const char *name;
    enum mt_dtype dtype;
    size_t rank;
    size_t shape[MT_SAFETENSORS_MAX_RANK];
};

struct mt_safetensors_writer;

/* Starts `<folder>/<stem>.safetensors`, or `<stem>-00001-of-0000N.safetensors` and so on with
 * `<stem>.safetensors.index.json` when the tensors' bytes exceed `max_shard_bytes` (0: never split; a shard
 * holds at least one tensor). `specs` are copied and give the order in which the data is written. `metadata`
 * (NULL: none) is an object of strings for `__metadata__`; {"format": "pt"} is always there. Files are
 * created anew (an existing one of that name is an error) in a folder that is there already. The writer holds
 * the header and nothing of the data. Errors: MT_REASON_IO, MT_REASON_DISK_FULL; -EINVAL, MT_REASON_INTERNAL
 * for specs that cannot be written. */
int mt_safetensors_writer_open(const char *folder, const char *stem, const struct mt_safetensors_spec *specs,
                               size_t count, size_t max_shard_bytes, const json_t *metadata,
                               struct mt_safetensors_writer **writer, struct mt_error *error);

/* The next bytes of the data, in the order of the specs; may cross from one tensor into the next. */
int mt_safetensors_writer_write(struct mt_safetensors_writer *writer, const void *data, size_t bytes,
                                struct mt_error *error);
/* The next `count` elements, converted to the dtype of the tensor at hand (F32, BF16, F16 or F64); must not
 * cross into the next tensor. Holds 64 KiB for the conversion. */
int mt_safetensors_writer_write_f32(struct mt_safetensors_writer *writer, const float *values, size_t count,
                                    struct mt_error *error);

/* Checks that every byte was written, writes the index, and fsyncs files and folder. */
int mt_safetensors_writer_finish(struct mt_safetensors_writer *writer, struct mt_error *error);

/* Frees; without a successful finish the files begun are removed. NULL is fine. */
void mt_safetensors_writer_free(struct mt_safetensors_writer *writer);

#endif
