/* Reading GGUF. The file is hostile until proven: a cursor that can't leave the file reads it from front to
 * back once; every count is held against the bytes that are left before memory is taken for it, every
 * shape against overflow, every range of data against the file and against the others. */
#include "core/base/bytes.h"
#include "core/base/cleanup.h"
#include "core/base/size.h"
#include "core/formats/gguf_internal.h"
#include "core/formats/gguf_types.h"

#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#define DEFAULT_ALIGNMENT ((size_t)32)
#define MAX_ALIGNMENT ((size_t)1 << 20)
#define MAX_COUNT ((size_t)1 << 20)    /* of tensors, and of values */
#define MAX_NAME_BYTES ((size_t)65535) /* the format's bound on keys */
#define LEAST_VALUE_BYTES ((size_t)8 + 4 + 1)
#define LEAST_TENSOR_BYTES ((size_t)8 + 4 + 8 + 4 + 8)

/* What is left to read. */
struct cursor {
    const char *path;
    const unsigned char *data;
    size_t left;
    struct mt_head *head; /* whose data it is; NULL: all of it is in memory */
    int failed;           /* why it could not be read: what was said of the file then does not hold */
};

#define bad_model(error, ...) mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL, __VA_ARGS__)

int mt_gguf_no_memory(struct mt_error *error, const char *path)
{
    return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "%s: out of memory while reading the header",
                        path);
}

static int cut_off(const struct cursor *cursor, const char *where, struct mt_error *error)
{
    return bad_model(error, "%s ends inside of %s: it was cut off, or is damaged", cursor->path, where);
}

/* NULL when fewer bytes are left, or can't be read. */
static const unsigned char *take(struct cursor *cursor, size_t bytes)
{
    if (bytes > cursor->left)
        return NULL;
    if (cursor->head)
        cursor->failed = mt_head_fill(cursor->head, cursor->head->bytes - cursor->left + bytes);
    if (cursor->failed)
        return NULL;
    const unsigned char *data = cursor->data;
    cursor->data += bytes;
    cursor->left -= bytes;
    return data;
}

static bool take_u32(struct cursor *cursor, uint32_t *value)
{
    const unsigned char *data = take(cursor, 4);
    if (!data)
        return false;
    *value = (uint32_t)mt_little_endian(data, 4);
    return true;
}

static bool take_u64(struct cursor *cursor, uint64_t *value)
{
    uint32_t low, high;
    if (!take_u32(cursor, &low) || !take_u32(cursor, &high))
        return false;
    *value = (uint64_t)high << 32 | low;
    return true;
}

static bool take_text(struct cursor *cursor, struct mt_gguf_text *text)
{
    uint64_t bytes;
    if (!take_u64(cursor, &bytes) || bytes > cursor->left)
        return false;
    text->bytes = (size_t)bytes;
    text->data = (const char *)take(cursor, text->bytes);
    return text->data;
}

/* --- metadata ------------------------------------------------------------------------------------------ */

static const struct {
    const char *name;
    uint8_t bytes; /* 0: of no fixed size */
} kinds[MT_GGUF_NUM_KINDS] = {
    [MT_GGUF_U8] = {"uint8", 1},    [MT_GGUF_I8] = {"int8", 1},    [MT_GGUF_U16] = {"uint16", 2},
    [MT_GGUF_I16] = {"int16", 2},   [MT_GGUF_U32] = {"uint32", 4}, [MT_GGUF_I32] = {"int32", 4},
    [MT_GGUF_F32] = {"float32", 4}, [MT_GGUF_BOOL] = {"bool", 1},  [MT_GGUF_STRING] = {"string", 0},
    [MT_GGUF_ARRAY] = {"array", 0}, [MT_GGUF_U64] = {"uint64", 8}, [MT_GGUF_I64] = {"int64", 8},
    [MT_GGUF_F64] = {"float64", 8},
};

const char *mt_gguf_kind_name(enum mt_gguf_kind kind)
{
    return kinds[kind].name;
}

/* A name as a terminated text; NULL after an error. */
static const char *read_name(struct mt_gguf *file, struct cursor *cursor, const char *what, size_t number,
                             struct mt_error *error)
{
    struct mt_gguf_text text;
    if (!take_text(cursor, &text)) {
        bad_model(error,
                  "%s: the name of %s %zu runs past the end of the file: it was cut off, or is damaged",
                  file->path, what, number);
        return NULL;
    }
    if (text.bytes > MAX_NAME_BYTES || memchr(text.data, '\0', text.bytes)) {
        bad_model(error, "%s: the name of %s %zu has %zu bytes, or a zero byte in it: the file is damaged",
                  file->path, what, number, text.bytes);
        return NULL;
    }
    const char *name = mt_arena_strndup(file->arena, text.data, text.bytes);
    if (!name)
        mt_gguf_no_memory(error, file->path);
    return name;
}

/* Passes over the items of a value whose kind and count are known. */
static int skip_items(struct cursor *cursor, struct mt_gguf_value *value, struct mt_error *error)
{
    value->data = cursor->data;
    if (value->kind != MT_GGUF_STRING) {
        size_t bytes;
        if (!mt_size_mul(value->count, kinds[value->kind].bytes, &bytes) || !take(cursor, bytes))
            return bad_model(error, "%s: the value of \"%s\" runs past the end of the file", cursor->path,
                             value->key);
        return 0;
    }
    if (value->count > mt_size_min(cursor->left, MT_HEAD_MAX_BYTES) / 8)
        return bad_model(error, "%s: \"%s\" is said to have %zu strings, more than the file has room for",
                         cursor->path, value->key, value->count);
    struct mt_gguf_text text;
    for (size_t i = 0; i < value->count; i++)
        if (!take_text(cursor, &text))
            return bad_model(error, "%s: string %zu of \"%s\" runs past the end of the file", cursor->path, i,
                             value->key);
    return 0;
}

static int read_value(struct mt_gguf *file, struct cursor *cursor, size_t number, struct mt_error *error)
{
    struct mt_gguf_value *value = &file->values[number];
    uint32_t kind;
    uint64_t count = 1;
    value->key = read_name(file, cursor, "metadata value", number, error);
    if (!value->key)
        return error ? error->code : -EINVAL;
    if (!take_u32(cursor, &kind))
        return cut_off(cursor, "its metadata", error);
    if (kind == MT_GGUF_ARRAY) {
        value->is_array = true;
        if (!take_u32(cursor, &kind) || !take_u64(cursor, &count))
            return cut_off(cursor, "its metadata", error);
        if (kind == MT_GGUF_ARRAY)
            return mt_error_set(error, -ENOTSUP, MT_REASON_BAD_MODEL,
                                "%s: \"%s\" is an array of arrays, which is not supported", file->path,
                                value->key);
        if (count > cursor->left)
            return bad_model(
                error, "%s: \"%s\" is said to have %" PRIu64 " items, more than the file has bytes left",
                file->path, value->key, count);
    }
    if (kind >= MT_GGUF_NUM_KINDS)
        return bad_model(error, "%s: \"%s\" has the unknown type %" PRIu32, file->path, value->key, kind);
    value->kind = (enum mt_gguf_kind)kind;
    value->count = (size_t)count;
    return skip_items(cursor, value, error);
}

static const unsigned char *item_at(const struct mt_gguf_value *value, size_t i, uint64_t *bits)
{
    const size_t bytes = kinds[value->kind].bytes;
    const unsigned char *data = value->data + i * bytes;
    *bits = mt_little_endian(data, bytes);
    return data;
}

bool mt_gguf_integer(const struct mt_gguf_value *value, size_t i, int64_t *integer)
{
    uint64_t bits;
    double number;
    if (i >= value->count)
        return false;
    switch (value->kind) {
    case MT_GGUF_U8:
    case MT_GGUF_U16:
    case MT_GGUF_U32:
    case MT_GGUF_U64:
    case MT_GGUF_BOOL:
        item_at(value, i, &bits);
        *integer = (int64_t)bits;
        return bits <= INT64_MAX;
    case MT_GGUF_I8:
        item_at(value, i, &bits);
        *integer = bits < 0x80 ? (int64_t)bits : (int64_t)bits - 0x100;
        return true;
    case MT_GGUF_I16:
        item_at(value, i, &bits);
        *integer = (int16_t)bits;
        return true;
    case MT_GGUF_I32:
        item_at(value, i, &bits);
        *integer = (int32_t)bits;
        return true;
    case MT_GGUF_I64:
        item_at(value, i, &bits);
        *integer = (int64_t)bits;
        return true;
    case MT_GGUF_F32:
    case MT_GGUF_F64:
        if (!mt_gguf_number(value, i, &number) || fabs(number) > 0x1p53 || number != floor(number))
            return false;
        *integer = (int64_t)number;
        return true;
    case MT_GGUF_STRING:
    case MT_GGUF_ARRAY:
    case MT_GGUF_NUM_KINDS:
        break;
    }
    return false;
}

bool mt_gguf_number(const struct mt_gguf_value *value, size_t i, double *number)
{
    uint64_t bits;
    int64_t integer;
    if (i >= value->count)
        return false;
    if (value->kind == MT_GGUF_F32) {
        float single;
        item_at(value, i, &bits);
        const uint32_t low = (uint32_t)bits;
        memcpy(&single, &low, sizeof single);
        *number = (double)single;
        return true;
    }
    if (value->kind == MT_GGUF_F64) {
        item_at(value, i, &bits);
        memcpy(number, &bits, sizeof bits);
        return true;
    }
    if (value->kind == MT_GGUF_U64) {
        item_at(value, i, &bits);
        *number = (double)bits;
        return true;
    }
    if (!mt_gguf_integer(value, i, &integer))
        return false;
    *number = (double)integer;
    return true;
}

bool mt_gguf_next_string(struct mt_gguf_strings *strings, struct mt_gguf_text *text)
{
    if (strings->value->kind != MT_GGUF_STRING || strings->next >= strings->value->count)
        return false;
    struct cursor cursor = {.data = strings->value->data + strings->offset,
                            .left = SIZE_MAX}; /* checked when opened */
    if (!take_text(&cursor, text))
        return false;
    strings->offset += 8 + text->bytes;
    strings->next++;
    return true;
}

bool mt_gguf_string(const struct mt_gguf_value *value, struct mt_gguf_text *text)
{
    struct mt_gguf_strings strings = {.value = value};
    return !value->is_array && mt_gguf_next_string(&strings, text);
}

/* --- tensors ------------------------------------------------------------------------------------------- */

/* Fills all but its place in the file, which waits for where the data begins: `offset` is from there. */
static int read_tensor(struct mt_gguf *file, struct cursor *cursor, size_t number, uint64_t *offset,
                       struct mt_error *error)
{
    struct mt_gguf_tensor *tensor = &file->tensors[number];
    uint32_t rank;
    uint64_t sizes[MT_GGUF_MAX_RANK];
    tensor->name = read_name(file, cursor, "tensor", number, error);
    if (!tensor->name)
        return error ? error->code : -EINVAL;
    if (!take_u32(cursor, &rank))
        return cut_off(cursor, "its list of tensors", error);
    if (rank < 1 || rank > MT_GGUF_MAX_RANK)
        return bad_model(error, "%s: tensor \"%s\" has %" PRIu32 " dimensions; 1 to %d are supported",
                         file->path, tensor->name, rank, MT_GGUF_MAX_RANK);
    for (uint32_t i = 0; i < rank; i++)
        if (!take_u64(cursor, &sizes[i]))
            return cut_off(cursor, "its list of tensors", error);
    if (!take_u32(cursor, &tensor->type) || !take_u64(cursor, offset))
        return cut_off(cursor, "its list of tensors", error);
    const struct mt_gguf_type_info *type = mt_gguf_type_find(tensor->type);
    if (!type)
        return mt_error_set(error, -ENOTSUP, MT_REASON_BAD_MODEL,
                            "%s: tensor \"%s\" has the unknown type %" PRIu32, file->path, tensor->name,
                            tensor->type);

    tensor->rank = rank;
    tensor->elements = 1;
    for (size_t i = 0; i < rank; i++) {
        const uint64_t size = sizes[rank - 1 - i];
        if (size == 0 || size > SIZE_MAX || !mt_size_mul(tensor->elements, (size_t)size, &tensor->elements))
            return bad_model(error, "%s: the shape of tensor \"%s\" is empty or overflows", file->path,
                             tensor->name);
        tensor->shape[i] = (size_t)size;
    }
    if (sizes[0] % type->elements)
        return bad_model(error,
                         "%s: rows of tensor \"%s\" have %" PRIu64 " elements, not a multiple of the %d of "
                         "a block of type %s",
                         file->path, tensor->name, sizes[0], type->elements, type->name);
    if (!mt_size_mul(tensor->elements / type->elements, type->bytes, &tensor->bytes))
        return bad_model(error, "%s: the shape of tensor \"%s\" overflows", file->path, tensor->name);
    return 0;
}

/* The data of all begins at byte `begin` of the file. */
static int place_tensor(const struct mt_gguf *file, size_t begin, struct mt_gguf_tensor *tensor,
                        uint64_t offset, struct mt_error *error)
{
    const size_t left = file->head.bytes - begin;
    if (offset % file->alignment)
        return bad_model(error, "%s: the data of tensor \"%s\" is not aligned to %zu bytes", file->path,
                         tensor->name, file->alignment);
    if (offset > left || tensor->bytes > left - (size_t)offset)
        return bad_model(error,
                         "%s: the data of tensor \"%s\" runs past the end of the file: it was cut off, or is "
                         "damaged",
                         file->path, tensor->name);
    tensor->file = file->path;
    tensor->fd = file->head.fd;
    tensor->offset = begin + offset;
    return 0;
}

static int compare_keys(const void *a, const void *b)
{
    const struct mt_gguf_value *const *left = a, *const *right = b;
    return strcmp((*left)->key, (*right)->key);
}

static int compare_names(const void *a, const void *b)
{
    const struct mt_gguf_tensor *const *left = a, *const *right = b;
    return strcmp((*left)->name, (*right)->name);
}

static int compare_data(const void *a, const void *b)
{
    const struct mt_gguf_tensor *const *left = a, *const *right = b;
    return ((*left)->offset > (*right)->offset) - ((*left)->offset < (*right)->offset);
}

int mt_gguf_sort_tensors(struct mt_gguf *file, struct mt_error *error)
{
    const struct mt_gguf_tensor **sorted = file->tensors_by_name;
    for (size_t i = 0; i < file->num_tensors; i++)
        sorted[i] = &file->tensors[i];
    if (file->num_tensors)
        qsort(sorted, file->num_tensors, sizeof *sorted, compare_names);
    for (size_t i = 1; i < file->num_tensors; i++) {
        const struct mt_gguf_tensor *a = sorted[i - 1], *b = sorted[i];
        if (strcmp(a->name, b->name) != 0)
            continue;
        if (a->file == b->file)
            return bad_model(error, "%s has two tensors of the name \"%s\"", a->file, a->name);
        return bad_model(error,
                         "the tensor \"%s\" is in both %s and %s: they are not parts of the same model",
                         a->name, a->file, b->file);
    }
    return 0;
}

/* No name twice, and no byte in two tensors. Leaves them sorted by name. */
static int check_tensors(struct mt_gguf *file, struct mt_error *error)
{
    const struct mt_gguf_tensor **sorted = file->tensors_by_name;
    for (size_t i = 0; i < file->num_tensors; i++)
        sorted[i] = &file->tensors[i];
    if (file->num_tensors)
        qsort(sorted, file->num_tensors, sizeof *sorted, compare_data);
    for (size_t i = 1; i < file->num_tensors; i++)
        if (sorted[i]->offset < sorted[i - 1]->offset + sorted[i - 1]->bytes)
            return bad_model(error, "%s: the data of tensor \"%s\" overlaps that of \"%s\"", file->path,
                             sorted[i]->name, sorted[i - 1]->name);
    return mt_gguf_sort_tensors(file, error);
}

static int sort_values(struct mt_gguf *file, struct mt_error *error)
{
    const struct mt_gguf_value **sorted = file->values_by_key;
    for (size_t i = 0; i < file->num_values; i++)
        sorted[i] = &file->values[i];
    if (file->num_values)
        qsort(sorted, file->num_values, sizeof *sorted, compare_keys);
    for (size_t i = 1; i < file->num_values; i++)
        if (strcmp(sorted[i]->key, sorted[i - 1]->key) == 0)
            return bad_model(error, "%s has two metadata values of the name \"%s\"", file->path,
                             sorted[i]->key);
    return 0;
}

/* --- the whole file ------------------------------------------------------------------------------------ */

static int read_head(struct mt_gguf *file, struct cursor *cursor, struct mt_error *error)
{
    uint64_t num_tensors, num_values;
    if (!take(cursor, 4) || memcmp(file->head.data, "GGUF", 4) != 0)
        return bad_model(error, "%s does not begin as a GGUF file does", file->path);
    if (!take_u32(cursor, &file->version))
        return cut_off(cursor, "its header", error);
    if (file->version == 1 || file->version > 3) {
        if (file->version >> 16)
            return mt_error_set(error, -ENOTSUP, MT_REASON_BAD_MODEL,
                                "%s: a GGUF file in big-endian order, which is not supported", file->path);
        return mt_error_set(error, -ENOTSUP, MT_REASON_BAD_MODEL,
                            "%s: GGUF version %" PRIu32 " is not supported; 2 and 3 are", file->path,
                            file->version);
    }
    if (!take_u64(cursor, &num_tensors) || !take_u64(cursor, &num_values))
        return cut_off(cursor, "its header", error);
    const size_t room = mt_size_min(cursor->left, MT_HEAD_MAX_BYTES); /* sparse files have any size */
    if (num_tensors > room / LEAST_TENSOR_BYTES || num_values > room / LEAST_VALUE_BYTES)
        return bad_model(error,
                         "%s is said to have %" PRIu64 " tensors and %" PRIu64
                         " metadata values, more than its %zu bytes have room for",
                         file->path, num_tensors, num_values, file->head.bytes);
    if (num_tensors > MAX_COUNT || num_values > MAX_COUNT)
        return bad_model(error,
                         "%s is said to have %" PRIu64 " tensors and %" PRIu64
                         " metadata values, beyond the bound of %zu: the file is damaged",
                         file->path, num_tensors, num_values, MAX_COUNT);
    file->num_tensors = (size_t)num_tensors;
    file->num_values = (size_t)num_values;
    file->values = mt_arena_alloc(file->arena, file->num_values + 1, sizeof *file->values);
    file->tensors = mt_arena_alloc(file->arena, file->num_tensors + 1, sizeof *file->tensors);
    file->values_by_key = mt_arena_alloc(file->arena, file->num_values + 1, sizeof *file->values_by_key);
    file->tensors_by_name = mt_arena_alloc(file->arena, file->num_tensors + 1, sizeof *file->tensors_by_name);
    return file->values && file->tensors && file->values_by_key && file->tensors_by_name
               ? 0
               : mt_gguf_no_memory(error, file->path);
}

static int read_alignment(struct mt_gguf *file, struct mt_error *error)
{
    const struct mt_gguf_value *value = mt_gguf_find(file, "general.alignment");
    int64_t alignment = (int64_t)DEFAULT_ALIGNMENT;
    if (value && (value->is_array || !mt_gguf_integer(value, 0, &alignment) || alignment < 8 ||
                  alignment > (int64_t)MAX_ALIGNMENT || (alignment & (alignment - 1))))
        return bad_model(error, "%s: general.alignment is no power of two from 8 to %zu", file->path,
                         MAX_ALIGNMENT);
    file->alignment = (size_t)alignment;
    return 0;
}

static int read_lists(struct mt_gguf *file, struct cursor *cursor, struct mt_error *error)
{
    int r = read_head(file, cursor, error);
    for (size_t i = 0; r == 0 && i < file->num_values; i++)
        r = read_value(file, cursor, i, error);
    if (r == 0)
        r = sort_values(file, error);
    if (r == 0)
        r = read_alignment(file, error);
    if (r < 0)
        return r;

    mt_autofree uint64_t *offsets = calloc(file->num_tensors + 1, sizeof *offsets);
    if (!offsets)
        return mt_gguf_no_memory(error, file->path);
    for (size_t i = 0; r == 0 && i < file->num_tensors; i++)
        r = read_tensor(file, cursor, i, &offsets[i], error);
    if (r < 0)
        return r;
    size_t begin;
    if (!mt_size_align(file->head.bytes - cursor->left, file->alignment, &begin))
        return cut_off(cursor, "its list of tensors", error);
    begin = mt_size_min(begin, file->head.bytes); /* a vocabulary alone may end where its last value does */
    for (size_t i = 0; r == 0 && i < file->num_tensors; i++)
        r = place_tensor(file, begin, &file->tensors[i], offsets[i], error);
    return r == 0 ? check_tensors(file, error) : r;
}

static int read_file(struct mt_gguf *file, const char *path, struct mt_error *error)
{
    file->path = mt_arena_strdup(file->arena, path);
    if (!file->path)
        return mt_gguf_no_memory(error, path);
    int r = mt_head_open(file->path, 24, "GGUF", &file->head, error);
    if (r < 0)
        return r;
    struct cursor cursor = {
        .path = file->path, .data = file->head.data, .left = file->head.bytes, .head = &file->head};
    r = read_lists(file, &cursor, error);
    return cursor.failed ? mt_head_error(&file->head, cursor.failed, error) : r;
}

int mt_gguf_open_one(const char *path, struct mt_gguf **result, struct mt_error *error)
{
    *result = NULL;
    struct mt_arena *arena = mt_arena_new();
    struct mt_gguf *file = arena ? mt_arena_alloc(arena, 1, sizeof *file) : NULL;
    if (!file) {
        mt_arena_free(arena);
        return mt_gguf_no_memory(error, path);
    }
    file->arena = arena;
    file->head.fd = -1;
    int r = read_file(file, path, error);
    if (r < 0) {
        mt_gguf_close(file);
        return r;
    }
    *result = file;
    return 0;
}

int mt_gguf_open(const char *path, struct mt_gguf **result, struct mt_error *error)
{
    struct mt_gguf *file;
    *result = NULL;
    int r = mt_gguf_open_one(path, &file, error);
    if (r == 0)
        r = mt_gguf_join_parts(&file, error);
    if (r < 0)
        mt_gguf_close(file);
    else
        *result = file;
    return r;
}

void mt_gguf_close(struct mt_gguf *file)
{
    if (!file)
        return;
    for (size_t i = 0; i < file->num_others; i++)
        mt_gguf_close(file->others[i]);
    mt_head_close(&file->head);
    mt_arena_free(file->arena); /* the file itself lies in it */
}

bool mt_gguf_is(const char *path)
{
    char magic[4];
    mt_autofd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat status;
    return fd >= 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
           pread(fd, magic, sizeof magic, 0) == sizeof magic && memcmp(magic, "GGUF", sizeof magic) == 0;
}

const char *mt_gguf_path(const struct mt_gguf *file)
{
    return file->path;
}

uint32_t mt_gguf_version(const struct mt_gguf *file)
{
    return file->version;
}

size_t mt_gguf_num_values(const struct mt_gguf *file)
{
    return file->num_values;
}

const struct mt_gguf_value *mt_gguf_value_at(const struct mt_gguf *file, size_t i)
{
    return &file->values[i];
}

size_t mt_gguf_num_tensors(const struct mt_gguf *file)
{
    return file->num_tensors;
}

const struct mt_gguf_tensor *mt_gguf_tensor_at(const struct mt_gguf *file, size_t i)
{
    return &file->tensors[i];
}

const struct mt_gguf_value *mt_gguf_find(const struct mt_gguf *file, const char *key)
{
    const struct mt_gguf_value wanted = {.key = key}, *pointer = &wanted;
    const struct mt_gguf_value **found =
        bsearch(&pointer, file->values_by_key, file->num_values, sizeof *file->values_by_key, compare_keys);
    return found ? *found : NULL;
}

const struct mt_gguf_tensor *mt_gguf_find_tensor(const struct mt_gguf *file, const char *name)
{
    const struct mt_gguf_tensor wanted = {.name = name}, *pointer = &wanted;
    const struct mt_gguf_tensor **found = bsearch(&pointer, file->tensors_by_name, file->num_tensors,
                                                  sizeof *file->tensors_by_name, compare_names);
    return found ? *found : NULL;
}
