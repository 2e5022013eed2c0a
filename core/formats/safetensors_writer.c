/* Writing safetensors as a stream. All headers follow from the specs alone, so they are written first and
 * each byte of data goes straight to its place. In a file the tensors are laid out widest element first, as
 * the reference implementation does, so that everything is aligned; the caller's order decides only when a
 * byte is written. One file is open at a time. */
#include "core/base/arena.h"
#include "core/base/cleanup.h"
#include "core/base/file.h"
#include "core/base/size.h"
#include "core/formats/safetensors.h"

#include <fcntl.h>
#include <stdbool.h>

#define CONVERT_BYTES ((size_t)64 << 10)

struct placed_tensor {
    struct mt_safetensors_spec spec;
    size_t bytes;
    size_t shard;
    size_t file_offset;
};

struct shard {
    char *path;
    const char *name;
    size_t first, count; /* its tensors, in the caller's order */
    size_t file_bytes;
    bool begun; /* the file is there, and ours */
};

struct mt_safetensors_writer {
    struct mt_arena *arena;
    char *folder;
    const char *stem;
    json_t *metadata;
    struct placed_tensor *tensors;
    size_t num_tensors;
    struct shard *shards;
    size_t num_shards;
    size_t current;    /* tensor at hand */
    size_t written;    /* bytes of it */
    size_t open_shard; /* SIZE_MAX: none */
    int fd;
    bool finished;
    unsigned char *convert;
};

static int no_memory(struct mt_error *error)
{
    return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory while saving tensors");
}

static int measure(struct placed_tensor *tensor, struct mt_error *error)
{
    const struct mt_safetensors_spec *spec = &tensor->spec;
    size_t bytes = mt_dtype_bytes(spec->dtype);
    if (spec->rank > MT_SAFETENSORS_MAX_RANK)
        return mt_error_set(error, -EINVAL, MT_REASON_INTERNAL, "tensor \"%s\" has %zu dimensions",
                            spec->name, spec->rank);
    for (size_t i = 0; i < spec->rank; i++)
        if (!mt_size_mul(bytes, spec->shape[i], &bytes))
            return mt_error_set(error, -EINVAL, MT_REASON_INTERNAL, "the shape of tensor \"%s\" overflows",
                                spec->name);
    tensor->bytes = bytes;
    return 0;
}

/* Cuts the tensors, in order, into shards. */
static int plan_shards(struct mt_safetensors_writer *writer, size_t max_shard_bytes, struct mt_error *error)
{
    size_t shards = 1, bytes = 0;
    for (size_t i = 0; i < writer->num_tensors; i++) {
        struct placed_tensor *tensor = &writer->tensors[i];
        size_t sum;
        if (!mt_size_add(bytes, tensor->bytes, &sum))
            return mt_error_set(error, -EINVAL, MT_REASON_INTERNAL, "the sizes of the tensors overflow");
        if (max_shard_bytes && bytes && sum > max_shard_bytes) {
            shards++;
            sum = tensor->bytes;
        }
        bytes = sum;
        tensor->shard = shards - 1;
    }
    writer->shards = mt_arena_alloc(writer->arena, shards, sizeof *writer->shards);
    if (!writer->shards)
        return no_memory(error);
    writer->num_shards = shards;
    for (size_t i = writer->num_tensors; i-- > 0;) {
        writer->shards[writer->tensors[i].shard].first = i;
        writer->shards[writer->tensors[i].shard].count++;
    }
    for (size_t i = 0; i < shards; i++) {
        struct shard *shard = &writer->shards[i];
        shard->name = shards == 1 ? mt_arena_printf(writer->arena, "%s.safetensors", writer->stem)
                                  : mt_arena_printf(writer->arena, "%s-%05zu-of-%05zu.safetensors",
                                                    writer->stem, i + 1, shards);
        if (!shard->name ||
            !(shard->path = mt_arena_printf(writer->arena, "%s/%s", writer->folder, shard->name)))
            return no_memory(error);
    }
    return 0;
}

/* Offsets within the data of one shard: widest elements first, else the caller's order. */
static size_t place_tensors(struct placed_tensor *tensors, size_t count)
{
    size_t offset = 0;
    for (size_t width = 8; width; width /= 2)
        for (size_t i = 0; i < count; i++)
            if (mt_dtype_bytes(tensors[i].spec.dtype) == width) {
                tensors[i].file_offset = offset;
                offset += tensors[i].bytes;
            }
    return offset;
}

static json_t *describe(const struct placed_tensor *tensor)
{
    json_t *shape = json_array();
    for (size_t i = 0; i < tensor->spec.rank; i++)
        json_array_append_new(shape, json_integer((json_int_t)tensor->spec.shape[i]));
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", mt_safetensors_dtype_name(tensor->spec.dtype), "shape",
                     shape, "data_offsets", (json_int_t)tensor->file_offset,
                     (json_int_t)(tensor->file_offset + tensor->bytes));
}

/* The header of a shard as text, filled up with blanks so that the data begins at a multiple of 64, from
 * where it is copied fastest; NULL when out of memory or when a name is not UTF-8. Tensors are named in the
 * order of their data. */
static char *make_header(const struct mt_safetensors_writer *writer, const struct shard *shard, size_t *bytes)
{
    const struct placed_tensor *tensors = writer->tensors + shard->first;
    mt_autojson json_t *header = json_object();
    if (json_object_set(header, "__metadata__", writer->metadata) < 0)
        return NULL;
    for (size_t width = 8; width; width /= 2)
        for (size_t i = 0; i < shard->count; i++)
            if (mt_dtype_bytes(tensors[i].spec.dtype) == width &&
                json_object_set_new(header, tensors[i].spec.name, describe(&tensors[i])) < 0)
                return NULL;
    mt_autofree char *text = json_dumps(header, JSON_COMPACT);
    if (!text)
        return NULL;
    const size_t length = strlen(text);
    if (!mt_size_align(8 + length, 64, bytes))
        return NULL;
    *bytes -= 8; /* of the length before it */
    char *padded = malloc(*bytes);
    if (!padded)
        return NULL;
    memset(padded, ' ', *bytes);
    memcpy(padded, text, length);
    return padded;
}

/* Creates the file of a shard with its header and its full size, so that a full disk shows early. */
static int begin_shard(struct mt_safetensors_writer *writer, size_t i, struct mt_error *error)
{
    struct shard *shard = &writer->shards[i];
    struct placed_tensor *tensors = writer->tensors + shard->first;
    const size_t data_bytes = place_tensors(tensors, shard->count);
    size_t header_bytes;
    mt_autofree char *header = make_header(writer, shard, &header_bytes);
    if (!header)
        return no_memory(error);
    for (size_t k = 0; k < shard->count; k++)
        tensors[k].file_offset += 8 + header_bytes;
    shard->file_bytes = 8 + header_bytes + data_bytes;

    writer->fd = open(shard->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (writer->fd < 0)
        return mt_error_set_errno(error, MT_REASON_IO, "cannot create %s", shard->path);
    writer->open_shard = i;
    shard->begun = true;
    if (fallocate(writer->fd, 0, 0, (off_t)shard->file_bytes) < 0 && errno != EOPNOTSUPP && errno != ENOSYS)
        return mt_error_set_errno(error, MT_REASON_IO, "cannot write %zu bytes to %s", shard->file_bytes,
                                  shard->path);
    unsigned char length[8];
    for (size_t k = 0; k < 8; k++)
        length[k] = (unsigned char)((uint64_t)header_bytes >> (8 * k));
    int r = mt_fd_pwrite_all(writer->fd, length, sizeof length, 0);
    if (r == 0)
        r = mt_fd_pwrite_all(writer->fd, header, header_bytes, 8);
    if (r < 0) {
        errno = -r;
        return mt_error_set_errno(error, MT_REASON_IO, "cannot write %s", shard->path);
    }
    return 0;
}

static int end_shard(struct mt_safetensors_writer *writer, struct mt_error *error)
{
    if (writer->open_shard == SIZE_MAX)
        return 0;
    const struct shard *shard = &writer->shards[writer->open_shard];
    const int fd = writer->fd;
    writer->fd = -1;
    writer->open_shard = SIZE_MAX;
    int r = 0;
    if (fsync(fd) < 0)
        r = mt_error_set_errno(error, MT_REASON_IO, "cannot write %s to disk", shard->path);
    if (close(fd) < 0 && r == 0)
        r = mt_error_set_errno(error, MT_REASON_IO, "cannot write %s", shard->path);
    return r;
}

/* Makes the shard of the tensor at hand the open one. */
static int enter_shard(struct mt_safetensors_writer *writer, size_t shard, struct mt_error *error)
{
    if (writer->open_shard == shard)
        return 0;
    int r = end_shard(writer, error);
    return r < 0 ? r : begin_shard(writer, shard, error);
}

/* Past the tensors that are complete, so that `current` needs bytes or is the end. */
static void skip_complete(struct mt_safetensors_writer *writer)
{
    while (writer->current < writer->num_tensors &&
           writer->written == writer->tensors[writer->current].bytes) {
        writer->current++;
        writer->written = 0;
    }
}

int mt_safetensors_writer_write(struct mt_safetensors_writer *writer, const void *data, size_t bytes,
                                struct mt_error *error)
{
    const char *source = data;
    while (bytes) {
        skip_complete(writer);
        if (writer->current == writer->num_tensors)
            return mt_error_set(error, -EINVAL, MT_REASON_INTERNAL,
                                "%zu more bytes were written to %s than its tensors hold", bytes,
                                writer->stem);
        const struct placed_tensor *tensor = &writer->tensors[writer->current];
        int r = enter_shard(writer, tensor->shard, error);
        if (r < 0)
            return r;
        const size_t part = mt_size_min(bytes, tensor->bytes - writer->written);
        r = mt_fd_pwrite_all(writer->fd, source, part, (off_t)(tensor->file_offset + writer->written));
        if (r < 0) {
            errno = -r;
            return mt_error_set_errno(error, MT_REASON_IO, "cannot write tensor \"%s\" to %s",
                                      tensor->spec.name, writer->shards[tensor->shard].path);
        }
        writer->written += part;
        source += part;
        bytes -= part;
    }
    return 0;
}

static void convert(enum mt_dtype dtype, const float *values, size_t count, unsigned char *out)
{
    for (size_t i = 0; i < count; i++) {
        if (dtype == MT_F64) {
            const double value = (double)values[i];
            memcpy(out + 8 * i, &value, sizeof value);
        } else {
            const uint16_t value =
                dtype == MT_BF16 ? mt_bf16_from_float(values[i]) : mt_f16_from_float(values[i]);
            memcpy(out + 2 * i, &value, sizeof value);
        }
    }
}

int mt_safetensors_writer_write_f32(struct mt_safetensors_writer *writer, const float *values, size_t count,
                                    struct mt_error *error)
{
    if (!count)
        return 0;
    skip_complete(writer);
    const struct placed_tensor *tensor =
        writer->current < writer->num_tensors ? &writer->tensors[writer->current] : NULL;
    const enum mt_dtype dtype = tensor ? tensor->spec.dtype : MT_BOOL;
    const size_t width = mt_dtype_bytes(dtype);
    if (dtype != MT_F32 && dtype != MT_BF16 && dtype != MT_F16 && dtype != MT_F64)
        return mt_error_set(error, -EINVAL, MT_REASON_INTERNAL,
                            "floating-point values for tensor \"%s\", which is %s",
                            tensor ? tensor->spec.name : "(none)", mt_safetensors_dtype_name(dtype));
    if (count > (tensor->bytes - writer->written) / width)
        return mt_error_set(error, -EINVAL, MT_REASON_INTERNAL,
                            "more values were written to tensor \"%s\" than it holds", tensor->spec.name);
    if (dtype == MT_F32)
        return mt_safetensors_writer_write(writer, values, count * sizeof *values, error);

    if (!writer->convert && !(writer->convert = malloc(CONVERT_BYTES)))
        return no_memory(error);
    while (count) {
        const size_t part = mt_size_min(count, CONVERT_BYTES / width);
        convert(dtype, values, part, writer->convert);
        int r = mt_safetensors_writer_write(writer, writer->convert, part * width, error);
        if (r < 0)
            return r;
        values += part;
        count -= part;
    }
    return 0;
}

static int write_index(struct mt_safetensors_writer *writer, struct mt_error *error)
{
    mt_autojson json_t *weight_map = json_object();
    size_t total = 0;
    for (size_t i = 0; i < writer->num_tensors; i++) {
        const struct placed_tensor *tensor = &writer->tensors[i];
        total += tensor->bytes;
        if (json_object_set_new(weight_map, tensor->spec.name,
                                json_string(writer->shards[tensor->shard].name)) < 0)
            return no_memory(error);
    }
    mt_autojson json_t *index =
        json_pack("{s:{s:I}, s:O}", "metadata", "total_size", (json_int_t)total, "weight_map", weight_map);
    mt_autofree char *text = index ? json_dumps(index, JSON_INDENT(2) | JSON_SORT_KEYS) : NULL;
    mt_autofree char *path = NULL;
    if (!text || asprintf(&path, "%s/%s.safetensors.index.json", writer->folder, writer->stem) < 0) {
        path = NULL;
        return no_memory(error);
    }
    return mt_file_write_atomic(path, text, strlen(text), 0666, error);
}

int mt_safetensors_writer_finish(struct mt_safetensors_writer *writer, struct mt_error *error)
{
    skip_complete(writer);
    if (writer->current < writer->num_tensors)
        return mt_error_set(error, -EINVAL, MT_REASON_INTERNAL,
                            "tensor \"%s\" of %s was not written to its end",
                            writer->tensors[writer->current].spec.name, writer->stem);
    int r = end_shard(writer, error);
    if (r == 0 && writer->num_shards > 1)
        r = write_index(writer, error);
    if (r == 0)
        r = mt_folder_sync(writer->folder, error);
    writer->finished = r == 0;
    return r;
}

void mt_safetensors_writer_free(struct mt_safetensors_writer *writer)
{
    if (!writer)
        return;
    if (writer->fd >= 0)
        close(writer->fd);
    for (size_t i = 0; !writer->finished && i < writer->num_shards; i++)
        if (writer->shards[i].begun)
            unlink(writer->shards[i].path);
    free(writer->convert);
    json_decref(writer->metadata);
    mt_arena_free(writer->arena);
    free(writer);
}

static int copy_specs(struct mt_safetensors_writer *writer, const struct mt_safetensors_spec *specs,
                      size_t count, struct mt_error *error)
{
    mt_autojson json_t *seen = json_object();
    writer->tensors = mt_arena_alloc(writer->arena, mt_size_max(count, 1), sizeof *writer->tensors);
    if (!writer->tensors || !seen)
        return no_memory(error);
    writer->num_tensors = count;
    for (size_t i = 0; i < count; i++) {
        struct placed_tensor *tensor = &writer->tensors[i];
        tensor->spec = specs[i];
        tensor->spec.name = mt_arena_strdup(writer->arena, specs[i].name);
        if (!tensor->spec.name)
            return no_memory(error);
        if (json_object_get(seen, specs[i].name) || strcmp(specs[i].name, "__metadata__") == 0)
            return mt_error_set(error, -EINVAL, MT_REASON_INTERNAL, "two tensors are named \"%s\"",
                                specs[i].name);
        if (json_object_set_new(seen, specs[i].name, json_true()) < 0)
            return mt_error_set(error, -EINVAL, MT_REASON_INTERNAL, "tensor name %zu is not UTF-8", i);
        int r = measure(tensor, error);
        if (r < 0)
            return r;
    }
    return 0;
}

int mt_safetensors_writer_open(const char *folder, const char *stem, const struct mt_safetensors_spec *specs,
                               size_t count, size_t max_shard_bytes, const json_t *metadata,
                               struct mt_safetensors_writer **result, struct mt_error *error)
{
    *result = NULL;
    struct mt_safetensors_writer *writer = calloc(1, sizeof *writer);
    if (!writer)
        return no_memory(error);
    writer->fd = -1;
    writer->open_shard = SIZE_MAX;

    int r = 0;
    writer->arena = mt_arena_new();
    writer->metadata = metadata ? json_deep_copy(metadata) : json_object();
    if (!writer->arena || json_object_set_new(writer->metadata, "format", json_string("pt")) < 0 ||
        !(writer->folder = mt_arena_strdup(writer->arena, folder)) ||
        !(writer->stem = mt_arena_strdup(writer->arena, stem)))
        r = no_memory(error);
    if (r == 0)
        r = copy_specs(writer, specs, count, error);
    if (r == 0)
        r = plan_shards(writer, max_shard_bytes, error);
    if (r == 0)
        r = enter_shard(writer, 0, error);
    if (r < 0) {
        mt_safetensors_writer_free(writer);
        return r;
    }
    *result = writer;
    return 0;
}
