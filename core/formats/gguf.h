/* GGUF files, versions 2 and 3, little-endian (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md):
 * what stands before the tensors' data is read into memory. A file is a header, metadata (named values of
 * simple types, and arrays of them), descriptions of tensors, and after a gap up to the alignment the
 * tensors' data.
 *
 * Everything that the file says is checked when it is opened; what is handed out lies inside of the file as
 * it was then. A file that is cut off later is an error of whoever reads. */
#ifndef MT_FORMATS_GGUF_H
#define MT_FORMATS_GGUF_H

#include "core/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MT_GGUF_MAX_RANK 4

/* Types of metadata, by their numbers in the file. */
enum mt_gguf_kind {
    MT_GGUF_U8,
    MT_GGUF_I8,
    MT_GGUF_U16,
    MT_GGUF_I16,
    MT_GGUF_U32,
    MT_GGUF_I32,
    MT_GGUF_F32,
    MT_GGUF_BOOL,
    MT_GGUF_STRING,
    MT_GGUF_ARRAY,
    MT_GGUF_U64,
    MT_GGUF_I64,
    MT_GGUF_F64,
    MT_GGUF_NUM_KINDS
};

/* A text of the file: not terminated, may hold any byte. */
struct mt_gguf_text {
    const char *data;
    size_t bytes;
};

struct mt_gguf_value {
    const char *key;
    enum mt_gguf_kind kind; /* of the items where it is an array */
    bool is_array;
    size_t count;              /* items; 1 where it is no array */
    const unsigned char *data; /* as in the file; not aligned */
};

/* How the numbers of a tensor are written. The formulas of the block types are in dequantise.h. */
enum mt_gguf_type {
    MT_GGUF_TYPE_F32 = 0,
    MT_GGUF_TYPE_F16 = 1,
    MT_GGUF_TYPE_Q4_0 = 2,
    MT_GGUF_TYPE_Q4_1 = 3,
    MT_GGUF_TYPE_Q5_0 = 6,
    MT_GGUF_TYPE_Q5_1 = 7,
    MT_GGUF_TYPE_Q8_0 = 8,
    MT_GGUF_TYPE_Q2_K = 10,
    MT_GGUF_TYPE_Q3_K = 11,
    MT_GGUF_TYPE_Q4_K = 12,
    MT_GGUF_TYPE_Q5_K = 13,
    MT_GGUF_TYPE_Q6_K = 14,
    MT_GGUF_TYPE_BF16 = 30,
};

struct mt_gguf_tensor {
    const char *name;
    uint32_t type; /* an mt_gguf_type, or another number that the format knows and nothing here reads */
    size_t rank;   /* 1 to MT_GGUF_MAX_RANK */
    size_t shape[MT_GGUF_MAX_RANK]; /* row-major, as everywhere here: the file has it the other way round */
    size_t elements;
    size_t bytes;
    const char *file; /* path of the file that holds it, */
    int fd;           /* open for reading, */
    uint64_t offset;  /* and where in it its data begins */
};

struct mt_gguf;

/* A path that is one part of several (NAME-00002-of-00003.gguf; its metadata say so, too) opens all of them:
 * the metadata are the first part's, the tensors everybody's. A part that is missing is named.
 *
 * Errors: MT_REASON_BAD_MODEL with what is wrong and where, MT_REASON_IO. Tensors of types that are not read
 * here are no error (inspection shows them): mt_gguf_read_f32 refuses them. */
int mt_gguf_open(const char *path, struct mt_gguf **file, struct mt_error *error);
void mt_gguf_close(struct mt_gguf *file); /* NULL is fine */

/* Is `path` a regular file that begins as a GGUF file does? */
bool mt_gguf_is(const char *path);

const char *mt_gguf_path(const struct mt_gguf *file); /* of the first part */
size_t mt_gguf_num_parts(const struct mt_gguf *file); /* 1 when it is not split */
const char *mt_gguf_part_path(const struct mt_gguf *file, size_t i);
uint32_t mt_gguf_version(const struct mt_gguf *file);

/* Metadata in the order of the file. Keys are unique, and free of zero bytes. */
size_t mt_gguf_num_values(const struct mt_gguf *file);
const struct mt_gguf_value *mt_gguf_value_at(const struct mt_gguf *file, size_t i);
const struct mt_gguf_value *mt_gguf_find(const struct mt_gguf *file, const char *key); /* or NULL */

/* Item `i` (below count) of a value that is a number or a bool: as a double, and as an integer, which fails
 * (false) for a number that is none or does not fit. Strings: false. */
bool mt_gguf_number(const struct mt_gguf_value *value, size_t i, double *number);
bool mt_gguf_integer(const struct mt_gguf_value *value, size_t i, int64_t *integer);
/* The text of a string that is no array; false for anything else. */
bool mt_gguf_string(const struct mt_gguf_value *value, struct mt_gguf_text *text);

/* What a key's value must be where the key is there: -EINVAL, MT_REASON_BAD_MODEL with file and key where it
 * is anything else. None of these is an array. */
enum mt_gguf_expected {
    MT_GGUF_A_TEXT,
    MT_GGUF_A_NUMBER,       /* finite */
    MT_GGUF_A_WHOLE_NUMBER, /* without a fraction, within int64 */
    MT_GGUF_A_SWITCH,       /* a bool, or a whole number that is 0 or 1 */
};
int mt_gguf_expect(const struct mt_gguf *file, const char *key, enum mt_gguf_expected expected,
                   struct mt_error *error);

/* The items of an array of strings, one after another. Starts as {value}. */
struct mt_gguf_strings {
    const struct mt_gguf_value *value;
    size_t next;   /* item */
    size_t offset; /* into value->data */
};
bool mt_gguf_next_string(struct mt_gguf_strings *strings, struct mt_gguf_text *text); /* false at the end */

/* Tensors in the order of the file. Names are unique. */
size_t mt_gguf_num_tensors(const struct mt_gguf *file);
const struct mt_gguf_tensor *mt_gguf_tensor_at(const struct mt_gguf *file, size_t i);
const struct mt_gguf_tensor *mt_gguf_find_tensor(const struct mt_gguf *file, const char *name); /* or NULL */

/* "Q4_K"; NULL for a number that the format does not have. */
const char *mt_gguf_type_name(uint32_t type);
bool mt_gguf_type_is_read(uint32_t type);
/* "uint32" and so on. */
const char *mt_gguf_kind_name(enum mt_gguf_kind kind);

/* Elements [first, first + count) as fp32, to the bit what the package `gguf` makes of them. -ENOTSUP for a
 * type that is not read, -ERANGE when the range leaves the tensor, -ENODATA when the file has become shorter,
 * other errors of pread. It is read straight into `out`, or through a small buffer. Thread-safe. */
int mt_gguf_read_f32(const struct mt_gguf_tensor *tensor, size_t first, size_t count, float *out);

#endif
