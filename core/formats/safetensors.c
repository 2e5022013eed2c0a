/* Reading safetensors. A header is hostile until proven: its length against the file, every shape against
 * overflow, every range against its shape, and all ranges together against the rule of the format that they
 * lie one after another and fill the file exactly. What passes can be read without further checks. */
#include "core/formats/safetensors.h"

#include "core/base/arena.h"
#include "core/base/bytes.h"
#include "core/base/cleanup.h"
#include "core/base/document.h"
#include "core/base/file.h"
#include "core/base/size.h"
#include "core/formats/dequantise.h"
#include "core/formats/head.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdbool.h>
#include <sys/stat.h>

#define MAX_HEADER_BYTES ((size_t)100 << 20) /* bound of the reference implementation, rounded up */
#define MAX_INDEX_BYTES ((size_t)256 << 20)
#define MAX_COMMAS ((size_t)1 << 21)   /* in one header or index; a tensor has 6 or 7 */
#define BUFFER_BYTES ((size_t)1 << 16) /* stays in a core's cache */

struct shard {
    struct mt_head head;
    json_t *metadata; /* NULL when the file has none */
};

struct mt_safetensors {
    struct mt_arena *arena; /* names and paths */
    struct shard *files;
    size_t num_files;
    struct mt_safetensors_tensor *tensors;
    size_t num_tensors, capacity;
    struct mt_safetensors_tensor **by_name; /* sorted */
};

static const char *const dtype_names[] = {
    [MT_F32] = "F32", [MT_BF16] = "BF16", [MT_F16] = "F16", [MT_F64] = "F64", [MT_I8] = "I8",
    [MT_U8] = "U8",   [MT_I16] = "I16",   [MT_I32] = "I32", [MT_I64] = "I64", [MT_BOOL] = "BOOL",
};

/* Types of the format that nothing here computes with. */
static const char *const other_dtype_names[] = {
    "U16",         "U32",         "U64", "F8_E4M3", "F8_E5M2", "F8_E8M0",
    "F8_E4M3FNUZ", "F8_E5M2FNUZ", "F4",  "F6_E2M3", "F6_E3M2", "C64",
};

const char *mt_safetensors_dtype_name(enum mt_dtype dtype)
{
    return dtype_names[dtype];
}

static bool find_dtype(const char *name, enum mt_dtype *dtype)
{
    for (size_t i = 0; i < sizeof dtype_names / sizeof *dtype_names; i++)
        if (strcmp(dtype_names[i], name) == 0) {
            *dtype = (enum mt_dtype)i;
            return true;
        }
    return false;
}

static bool is_other_dtype(const char *name)
{
    for (size_t i = 0; i < sizeof other_dtype_names / sizeof *other_dtype_names; i++)
        if (strcmp(other_dtype_names[i], name) == 0)
            return true;
    return false;
}

static bool has_suffix(const char *text, const char *suffix)
{
    const size_t length = strlen(text), suffix_length = strlen(suffix);
    return length >= suffix_length && strcmp(text + length - suffix_length, suffix) == 0;
}

#define bad_model(error, ...) mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL, __VA_ARGS__)

static int no_memory(struct mt_error *error, const char *path)
{
    return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "%s: out of memory while reading the header",
                        path);
}

/* A non-negative integer that fits a size_t. */
static bool json_size(const json_t *value, size_t *size)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return false;
    *size = (size_t)json_integer_value(value);
    return true;
}

/* Fills dtype, shape, elements, bytes and offset of one tensor; the data begins at byte `data` of the file.
 */
static int parse_tensor(const char *path, const char *name, const json_t *entry, size_t data,
                        size_t data_bytes, struct mt_safetensors_tensor *tensor, struct mt_error *error)
{
    if (!json_is_object(entry))
        return bad_model(error, "%s: the header's entry \"%s\" is not an object", path, name);

    const char *dtype = json_string_value(json_object_get(entry, "dtype"));
    if (!dtype)
        return bad_model(error, "%s: tensor \"%s\" has no dtype", path, name);
    if (!find_dtype(dtype, &tensor->dtype)) {
        if (is_other_dtype(dtype))
            return mt_error_set(error, -ENOTSUP, MT_REASON_BAD_MODEL,
                                "%s: tensor \"%s\" has dtype %s, which is not supported yet", path, name,
                                dtype);
        return bad_model(error, "%s: tensor \"%s\" has the unknown dtype \"%s\"", path, name, dtype);
    }

    const json_t *shape = json_object_get(entry, "shape");
    if (!json_is_array(shape))
        return bad_model(error, "%s: tensor \"%s\" has no shape", path, name);
    tensor->rank = json_array_size(shape);
    if (tensor->rank > MT_SAFETENSORS_MAX_RANK)
        return bad_model(error, "%s: tensor \"%s\" has %zu dimensions; at most %d are supported", path, name,
                         tensor->rank, MT_SAFETENSORS_MAX_RANK);
    tensor->elements = 1;
    for (size_t i = 0; i < tensor->rank; i++) {
        if (!json_size(json_array_get(shape, i), &tensor->shape[i]))
            return bad_model(error, "%s: tensor \"%s\": dimension %zu of its shape is not a size", path, name,
                             i);
        if (!mt_size_mul(tensor->elements, tensor->shape[i], &tensor->elements))
            return bad_model(error, "%s: tensor \"%s\": its shape overflows", path, name);
    }
    if (!mt_size_mul(tensor->elements, mt_dtype_bytes(tensor->dtype), &tensor->bytes))
        return bad_model(error, "%s: tensor \"%s\": its shape overflows", path, name);

    const json_t *offsets = json_object_get(entry, "data_offsets");
    size_t begin, end;
    if (json_array_size(offsets) != 2 || !json_size(json_array_get(offsets, 0), &begin) ||
        !json_size(json_array_get(offsets, 1), &end) || begin > end)
        return bad_model(error, "%s: tensor \"%s\": its data_offsets are not a range", path, name);
    if (end > data_bytes)
        return bad_model(
            error,
            "%s: tensor \"%s\" ends at byte %zu of the data, but the file holds only %zu: it was "
            "cut off, or is damaged",
            path, name, end, data_bytes);
    if (end - begin != tensor->bytes)
        return bad_model(error, "%s: tensor \"%s\" needs %zu bytes by its shape, its data_offsets give %zu",
                         path, name, tensor->bytes, end - begin);
    tensor->offset = data + begin;
    return 0;
}

static int compare_data(const void *a, const void *b)
{
    const struct mt_safetensors_tensor *left = a, *right = b;
    if (left->offset != right->offset)
        return left->offset < right->offset ? -1 : 1;
    /* Empty tensors come before the one that begins where they stand. */
    return (left->bytes > right->bytes) - (left->bytes < right->bytes);
}

/* The tensors of one file, sorted: each must begin where the one before it ends. */
static int check_layout(const char *path, const struct mt_safetensors_tensor *tensors, size_t count,
                        size_t data, size_t data_bytes, struct mt_error *error)
{
    uint64_t expected = data;
    for (size_t i = 0; i < count; i++) {
        const uint64_t begin = tensors[i].offset;
        if (begin < expected)
            return bad_model(error, "%s: the data of tensor \"%s\" overlaps that of \"%s\"", path,
                             tensors[i].name, tensors[i - 1].name);
        if (begin > expected)
            return bad_model(error, "%s: %" PRIu64 " bytes before tensor \"%s\" belong to no tensor", path,
                             begin - expected, tensors[i].name);
        expected = begin + tensors[i].bytes;
    }
    if (expected != data + data_bytes)
        return bad_model(error, "%s: %" PRIu64 " bytes at the end belong to no tensor", path,
                         data + data_bytes - expected);
    return 0;
}

static int check_metadata(const char *path, json_t *metadata, struct mt_error *error)
{
    const char *key;
    json_t *value;
    if (!json_is_object(metadata))
        return bad_model(error, "%s: __metadata__ is not an object", path);
    json_object_foreach(metadata, key, value) if (!json_is_string(value)) return bad_model(
        error, "%s: the value of \"%s\" in __metadata__ is not a string", path, key);
    return 0;
}

static int reserve_tensors(struct mt_safetensors *file, size_t more)
{
    size_t needed, bytes;
    if (!mt_size_add(file->num_tensors, mt_size_max(more, 1), &needed))
        return -ENOMEM;
    if (file->tensors && needed <= file->capacity)
        return 0;
    needed = mt_size_max(needed, file->capacity * 2);
    if (!mt_size_mul(needed, sizeof *file->tensors, &bytes))
        return -ENOMEM;
    void *tensors = realloc(file->tensors, bytes);
    if (!tensors)
        return -ENOMEM;
    file->tensors = tensors;
    file->capacity = needed;
    return 0;
}

/* The header's JSON: the file's bytes from 8 on. */
static int read_header(struct mt_head *head, size_t *length, struct mt_error *error)
{
    int r = mt_head_fill(head, 8);
    if (r < 0)
        return mt_head_error(head, r, error);
    const uint64_t said = mt_little_endian(head->data, 8);
    if (said > MAX_HEADER_BYTES)
        return bad_model(error,
                         "%s is no safetensors file: it begins with no length of a header (or one beyond the "
                         "bound of %zu bytes)",
                         head->path, MAX_HEADER_BYTES);
    if (said > head->bytes - 8)
        return bad_model(error,
                         "%s: the header is said to have %" PRIu64
                         " bytes, but the file has only %zu: it was "
                         "cut off, or is no safetensors file",
                         head->path, said, head->bytes);
    *length = (size_t)said;
    r = mt_head_fill(head, 8 + *length);
    if (r < 0)
        return mt_head_error(head, r, error);
    if (!*length || head->data[8] != '{')
        return bad_model(error, "%s: the header does not begin with \"{\": this is no safetensors file",
                         head->path);
    return 0;
}

/* JSON takes a hundred times its bytes in memory, and most of the time of reading: what holds far more values
 * than the tensors of any model is refused before that. */
static int parse_bounded(const char *text, size_t bytes, const char *source, json_t **value,
                         struct mt_error *error)
{
    size_t commas = 0;
    for (size_t i = 0; i < bytes; i++)
        commas += text[i] == ',';
    if (commas > MAX_COMMAS)
        return bad_model(error, "%s holds %zu values, beyond the bound of %zu: it is damaged", source,
                         commas + 1, MAX_COMMAS);
    int r = mt_json_parse(text, bytes, source, value, error);
    if (r < 0 && error)
        error->reason = r == -ENOMEM ? MT_REASON_OUT_OF_MEMORY : MT_REASON_BAD_MODEL;
    return r;
}

static int parse_header(struct mt_safetensors *file, struct shard *shard, struct mt_error *error)
{
    const char *path = shard->head.path;
    size_t length = 0;
    int r = read_header(&shard->head, &length, error);
    if (r < 0)
        return r;
    mt_autojson json_t *header = NULL;
    r = parse_bounded((const char *)shard->head.data + 8, length, "the header", &header, error);
    mt_head_drop(&shard->head);
    if (r < 0)
        return mt_error_prefix(error, "%s", path), r;
    if (!json_is_object(header))
        return bad_model(error, "%s: the header is not an object", path);

    const size_t data = 8 + length, data_bytes = shard->head.bytes - data;
    const size_t first = file->num_tensors;
    if (reserve_tensors(file, json_object_size(header)) < 0)
        return no_memory(error, path);

    const char *name;
    json_t *entry;
    json_object_foreach(header, name, entry)
    {
        if (strcmp(name, "__metadata__") == 0) {
            r = check_metadata(path, entry, error);
            if (r < 0)
                return r;
            shard->metadata = json_incref(entry);
            continue;
        }
        struct mt_safetensors_tensor tensor = {.file = path, .fd = shard->head.fd};
        r = parse_tensor(path, name, entry, data, data_bytes, &tensor, error);
        if (r < 0)
            return r;
        tensor.name = mt_arena_strdup(file->arena, name);
        if (!tensor.name)
            return no_memory(error, path);
        file->tensors[file->num_tensors++] = tensor;
    }
    const size_t count = file->num_tensors - first;
    if (count)
        qsort(file->tensors + first, count, sizeof *file->tensors, compare_data);
    return check_layout(path, file->tensors + first, count, data, data_bytes, error);
}

static int open_file(struct mt_safetensors *file, const char *path, struct mt_error *error)
{
    struct shard *files = realloc(file->files, (file->num_files + 1) * sizeof *files);
    if (!files)
        return no_memory(error, path);
    file->files = files;
    const char *kept = mt_arena_strdup(file->arena, path);
    if (!kept)
        return no_memory(error, path);
    struct shard *shard = &files[file->num_files++]; /* closed with the others */
    shard->metadata = NULL;
    int r = mt_head_open(kept, 8, "safetensors", &shard->head, error);
    return r < 0 ? r : parse_header(file, shard, error);
}

static int compare_name(const void *a, const void *b)
{
    const struct mt_safetensors_tensor *const *left = a, *const *right = b;
    return strcmp((*left)->name, (*right)->name);
}

static int sort_names(struct mt_safetensors *file)
{
    free(file->by_name);
    file->by_name = malloc((file->num_tensors + 1) * sizeof *file->by_name);
    if (!file->by_name)
        return -ENOMEM;
    for (size_t i = 0; i < file->num_tensors; i++)
        file->by_name[i] = &file->tensors[i];
    if (file->num_tensors)
        qsort(file->by_name, file->num_tensors, sizeof *file->by_name, compare_name);
    return 0;
}

/* Is this the shard that the index names for the tensor? */
static bool placed_here(const struct mt_safetensors_tensor *tensor, const json_t *weight_map)
{
    const char *shard = json_string_value(json_object_get(weight_map, tensor->name));
    const char *slash = strrchr(tensor->file, '/');
    return shard && strcmp(slash ? slash + 1 : tensor->file, shard) == 0;
}

/* Of tensors that several shards hold, the one that the index places stays. */
static int drop_doubles(struct mt_safetensors *file, const json_t *weight_map, const char *path,
                        struct mt_error *error)
{
    if (sort_names(file) < 0)
        return no_memory(error, path);
    bool found = false;
    for (size_t i = 1; i < file->num_tensors; i++)
        found = found || strcmp(file->by_name[i - 1]->name, file->by_name[i]->name) == 0;
    if (!found)
        return 0;

    for (size_t i = 0, end; i < file->num_tensors; i = end) {
        size_t here = 0;
        for (end = i;
             end < file->num_tensors && strcmp(file->by_name[end]->name, file->by_name[i]->name) == 0; end++)
            here += placed_here(file->by_name[end], weight_map);
        if (end - i == 1)
            continue;
        if (here != 1)
            return bad_model(error, "%s: several shards hold tensor \"%s\", and the index names none of them",
                             path, file->by_name[i]->name);
        for (size_t k = i; k < end; k++)
            if (!placed_here(file->by_name[k], weight_map))
                file->by_name[k]->file = NULL; /* marked */
    }
    size_t kept = 0;
    for (size_t i = 0; i < file->num_tensors; i++)
        if (file->tensors[i].file)
            file->tensors[kept++] = file->tensors[i];
    file->num_tensors = kept;
    return sort_names(file) < 0 ? no_memory(error, path) : 0;
}

static int compare_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int open_index(struct mt_safetensors *file, const char *path, struct mt_error *error)
{
    mt_autofree char *text = NULL;
    size_t bytes;
    int r = mt_file_read(path, MAX_INDEX_BYTES, &text, &bytes, error);
    if (r < 0)
        return r;
    mt_autojson json_t *index = NULL;
    r = parse_bounded(text, bytes, path, &index, error);
    if (r < 0)
        return r;
    const json_t *weight_map = json_object_get(index, "weight_map");
    if (!json_is_object(weight_map) || !json_object_size(weight_map))
        return bad_model(error, "%s has no weight_map", path);

    const size_t count = json_object_size(weight_map);
    mt_autofree const char **shards = calloc(count, sizeof *shards);
    if (!shards)
        return no_memory(error, path);
    size_t num_shards = 0;
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)weight_map, name, value)
    {
        const char *shard = json_string_value(value);
        if (!shard || !*shard || strchr(shard, '/') || *shard == '.')
            return bad_model(error, "%s: the shard of tensor \"%s\" is not a plain file name", path, name);
        shards[num_shards++] = shard;
    }
    qsort(shards, num_shards, sizeof *shards, compare_text);

    const char *slash = strrchr(path, '/');
    mt_autofree char *folder = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
    if (!folder)
        return no_memory(error, path);
    for (size_t i = 0; i < num_shards; i++) {
        if (i && strcmp(shards[i], shards[i - 1]) == 0)
            continue;
        mt_autofree char *shard_path = mt_path_join(folder, shards[i]);
        if (!shard_path)
            return no_memory(error, path);
        r = open_file(file, shard_path, error);
        if (r == -ENOENT)
            return mt_error_set(error, r, MT_REASON_BAD_MODEL,
                                "%s names the shard %s, which is not there: copy the model again", path,
                                shards[i]);
        if (r < 0)
            return r;
    }

    r = drop_doubles(file, weight_map, path, error);
    if (r < 0)
        return r;
    json_object_foreach((json_t *)weight_map, name, value)
    {
        const struct mt_safetensors_tensor *tensor = mt_safetensors_find(file, name);
        if (!tensor || !placed_here(tensor, weight_map))
            return bad_model(error, "%s is stale: it places tensor \"%s\" in %s, which does not hold it",
                             path, name, json_string_value(value));
    }
    return 0;
}

static bool is_pickle(const char *name)
{
    return has_suffix(name, ".bin") || has_suffix(name, ".pt") || has_suffix(name, ".pth") ||
           has_suffix(name, ".ckpt") || has_suffix(name, ".pkl");
}

static int refuse_pickle(const char *path, struct mt_error *error)
{
    return mt_error_set(error, -ENOTSUP, MT_REASON_BAD_MODEL,
                        "%s is a pickle file, which can run code when it is read; convert the model to "
                        "safetensors first (in Python: model.save_pretrained(folder))",
                        path);
}

static int nothing_to_open(const char *folder, struct mt_error *error)
{
    DIR *entries = opendir(folder);
    if (!entries)
        return mt_error_set_errno(error, MT_REASON_IO, "cannot read the folder %s", folder);
    int r = 0;
    for (const struct dirent *entry; r == 0 && (entry = readdir(entries));)
        if (is_pickle(entry->d_name)) {
            mt_autofree char *path = mt_path_join(folder, entry->d_name);
            r = refuse_pickle(path ? path : folder, error);
        }
    closedir(entries);
    if (r == 0)
        r = mt_error_set(error, -ENOENT, MT_REASON_BAD_MODEL,
                         "%s holds neither model.safetensors nor model.safetensors.index.json", folder);
    return r;
}

static int open_folder(struct mt_safetensors *file, const char *folder, struct mt_error *error)
{
    mt_autofree char *single = mt_path_join(folder, "model.safetensors");
    mt_autofree char *index = mt_path_join(folder, "model.safetensors.index.json");
    if (!single || !index)
        return no_memory(error, folder);
    if (mt_path_exists(single))
        return open_file(file, single, error);
    if (mt_path_exists(index))
        return open_index(file, index, error);
    return nothing_to_open(folder, error);
}

int mt_safetensors_open(const char *path, struct mt_safetensors **result, struct mt_error *error)
{
    *result = NULL;
    struct stat status;
    if (stat(path, &status) < 0)
        return mt_error_set_errno(error, errno == ENOENT ? MT_REASON_BAD_MODEL : MT_REASON_IO,
                                  "cannot open %s", path);

    struct mt_safetensors *file = calloc(1, sizeof *file);
    if (!file || !(file->arena = mt_arena_new())) {
        free(file);
        return no_memory(error, path);
    }
    int r;
    if (S_ISDIR(status.st_mode))
        r = open_folder(file, path, error);
    else if (is_pickle(path))
        r = refuse_pickle(path, error);
    else if (has_suffix(path, ".index.json"))
        r = open_index(file, path, error);
    else
        r = open_file(file, path, error);
    if (r == 0 && !file->by_name && sort_names(file) < 0)
        r = no_memory(error, path);
    if (r < 0) {
        mt_safetensors_close(file);
        return r;
    }
    *result = file;
    return 0;
}

void mt_safetensors_close(struct mt_safetensors *file)
{
    if (!file)
        return;
    for (size_t i = 0; i < file->num_files; i++) {
        mt_head_close(&file->files[i].head);
        json_decref(file->files[i].metadata);
    }
    free(file->files);
    free(file->tensors);
    free(file->by_name);
    mt_arena_free(file->arena);
    free(file);
}

size_t mt_safetensors_count(const struct mt_safetensors *file)
{
    return file->num_tensors;
}

const struct mt_safetensors_tensor *mt_safetensors_at(const struct mt_safetensors *file, size_t i)
{
    return &file->tensors[i];
}

const struct mt_safetensors_tensor *mt_safetensors_find(const struct mt_safetensors *file, const char *name)
{
    size_t low = 0, high = file->num_tensors;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const int order = strcmp(file->by_name[middle]->name, name);
        if (order == 0)
            return file->by_name[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

const char *mt_safetensors_metadata(const struct mt_safetensors *file, const char *key)
{
    for (size_t i = 0; i < file->num_files; i++) {
        const char *value = json_string_value(json_object_get(file->files[i].metadata, key));
        if (value)
            return value;
    }
    return NULL;
}

/* `count` numbers of a type that is not F32. */
static void convert(enum mt_dtype dtype, const unsigned char *data, size_t count, float *out)
{
    if (dtype == MT_BF16)
        mt_dequantise_bf16(data, count, out);
    else if (dtype == MT_F16)
        mt_dequantise_f16(data, count, out);
    else
        for (size_t i = 0; i < count; i++) {
            double value;
            memcpy(&value, data + 8 * i, sizeof value);
            out[i] = (float)value;
        }
}

int mt_safetensors_read_f32(const struct mt_safetensors_tensor *tensor, size_t first, size_t count,
                            float *out)
{
    const enum mt_dtype dtype = tensor->dtype;
    if (dtype != MT_F32 && dtype != MT_BF16 && dtype != MT_F16 && dtype != MT_F64)
        return -EINVAL;
    if (first > tensor->elements || count > tensor->elements - first)
        return -ERANGE;
    const size_t width = mt_dtype_bytes(dtype);
    off_t at = (off_t)(tensor->offset + first * width);
    if (dtype == MT_F32)
        return mt_fd_pread_all(tensor->fd, out, count * width, at);
    unsigned char buffer[BUFFER_BYTES];
    while (count > 0) {
        const size_t part = mt_size_min(sizeof buffer / width, count);
        int r = mt_fd_pread_all(tensor->fd, buffer, part * width, at);
        if (r < 0)
            return r;
        convert(dtype, buffer, part, out);
        at += (off_t)(part * width);
        out += part;
        count -= part;
    }
    return 0;
}
