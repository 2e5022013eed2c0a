/* One list of tensors over either format. */
#include "core/model/tensors.h"

#include "core/base/arena.h"
#include "core/base/cleanup.h"
#include "core/base/file.h"
#include "core/base/size.h"
#include "core/model/family.h"
#include "core/model/tensors_internal.h"

#include <stdlib.h>
#include <string.h>

#define TRANSPOSED_ELEMENTS ((size_t)1 << 22)

static int out_of_memory(struct mt_error *error)
{
    return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory for the list of tensors");
}

int mt_tensors_new(size_t count, struct mt_tensors **tensors, struct mt_error *error)
{
    struct mt_arena *arena = mt_arena_new();
    *tensors = arena ? mt_arena_alloc(arena, 1, sizeof **tensors) : NULL;
    if (!*tensors) {
        mt_arena_free(arena);
        return out_of_memory(error);
    }
    (*tensors)->arena = arena;
    (*tensors)->items = mt_arena_alloc(arena, count + 1, sizeof *(*tensors)->items);
    (*tensors)->by_name = mt_arena_alloc(arena, count + 1, sizeof *(*tensors)->by_name);
    if ((*tensors)->items && (*tensors)->by_name)
        return 0;
    mt_tensors_close(*tensors);
    *tensors = NULL;
    return out_of_memory(error);
}

static int compare_names(const void *a, const void *b)
{
    const struct mt_tensor *const *left = a, *const *right = b;
    return strcmp((*left)->name, (*right)->name);
}

void mt_tensors_sort(struct mt_tensors *tensors)
{
    for (size_t i = 0; i < tensors->count; i++)
        tensors->by_name[i] = &tensors->items[i];
    if (tensors->count)
        qsort(tensors->by_name, tensors->count, sizeof *tensors->by_name, compare_names);
}

/* --- safetensors --------------------------------------------------------------------------------------- */

static int read_safetensors(const struct mt_tensor *tensor, size_t first, size_t count, float *out)
{
    return mt_safetensors_read_f32(tensor->tensor, first, count, out);
}

static bool is_number(enum mt_dtype dtype)
{
    return dtype == MT_F32 || dtype == MT_F16 || dtype == MT_BF16 || dtype == MT_F64;
}

static int of_safetensors(const struct mt_safetensors *file, struct mt_tensors **result,
                          struct mt_error *error)
{
    const size_t count = mt_safetensors_count(file);
    struct mt_tensors *tensors;
    int r = mt_tensors_new(count, &tensors, error);
    *result = r == 0 ? tensors : NULL;
    if (r < 0)
        return r;
    for (size_t i = 0; i < count; i++) {
        const struct mt_safetensors_tensor *tensor = mt_safetensors_at(file, i);
        tensors->items[i] = (struct mt_tensor){
            .name = tensor->name,
            .file = tensor->file,
            .type = mt_safetensors_dtype_name(tensor->dtype),
            .readable = is_number(tensor->dtype),
            .rank = tensor->rank,
            .elements = tensor->elements,
            .bytes = tensor->bytes,
            .tensor = tensor,
            .fd = tensor->fd,
            .offset = tensor->offset,
            .read = read_safetensors,
        };
        memcpy(tensors->items[i].shape, tensor->shape, sizeof tensor->shape);
    }
    tensors->count = count;
    mt_tensors_sort(tensors);
    return 0;
}

/* Files of a bare model leave the family's prefix out (the hub's gpt2): their tensors get the whole names. */
static int complete_names(struct mt_tensors *tensors, const struct mt_model *model, struct mt_error *error)
{
    const char *prefix = model && model->num_parameters ? model->family->prefix : NULL;
    const char *first = prefix ? model->parameters[0].name : NULL;
    if (!first || mt_tensors_find(tensors, first) || strncmp(first, prefix, strlen(prefix)) != 0 ||
        !mt_tensors_find(tensors, first + strlen(prefix)))
        return 0;
    for (size_t i = 0; i < tensors->count; i++) {
        const char *name = mt_arena_printf(tensors->arena, "%s%s", prefix, tensors->items[i].name);
        if (!name)
            return out_of_memory(error);
        if (mt_model_find(model, name))
            tensors->items[i].name = name;
    }
    mt_tensors_sort(tensors);
    return 0;
}

/* --- both ---------------------------------------------------------------------------------------------- */

int mt_tensors_open(const char *path, const struct mt_model *model, struct mt_tensors **tensors,
                    struct mt_error *error)
{
    *tensors = NULL;
    if (mt_gguf_is(path))
        return mt_tensors_open_gguf(path, model, tensors, error);
    struct mt_safetensors *file;
    int r = mt_safetensors_open(path, &file, error);
    struct mt_tensors *opened = NULL;
    if (r == 0)
        r = of_safetensors(file, &opened, error);
    if (!opened) {
        mt_safetensors_close(file);
        return r;
    }
    opened->safetensors = file;
    r = complete_names(opened, model, error);
    if (r < 0)
        mt_tensors_close(opened);
    else
        *tensors = opened;
    return r;
}

void mt_tensors_close(struct mt_tensors *tensors)
{
    if (!tensors)
        return;
    mt_safetensors_close(tensors->safetensors);
    mt_gguf_close(tensors->gguf);
    mt_arena_free(tensors->arena); /* the list itself lies in it */
}

size_t mt_tensors_count(const struct mt_tensors *tensors)
{
    return tensors->count;
}

const struct mt_tensor *mt_tensors_at(const struct mt_tensors *tensors, size_t i)
{
    return &tensors->items[i];
}

const struct mt_tensor *mt_tensors_find(const struct mt_tensors *tensors, const char *name)
{
    const struct mt_tensor wanted = {.name = name}, *pointer = &wanted;
    const struct mt_tensor **found =
        bsearch(&pointer, tensors->by_name, tensors->count, sizeof *tensors->by_name, compare_names);
    return found ? *found : NULL;
}

int mt_tensor_read(const struct mt_tensor *tensor, size_t first, size_t count, float *out)
{
    return tensor->read(tensor, first, count, out);
}

size_t mt_tensor_range(const struct mt_tensor *tensor, size_t usual)
{
    return tensor->transposed ? mt_size_max(usual, TRANSPOSED_ELEMENTS) : usual;
}

static int read_bytes(const struct mt_tensor *tensor, size_t first, void *data, size_t bytes,
                      struct mt_error *error)
{
    const int r = mt_fd_pread_all(tensor->fd, data, bytes, (off_t)(tensor->offset + first));
    if (r == 0)
        return 0;
    errno = -r;
    return mt_error_set_errno(error, MT_REASON_IO, "cannot read the tensor '%s' of '%s'", tensor->name,
                              tensor->file);
}

int mt_tensor_same(const struct mt_tensor *a, const struct mt_tensor *b, bool *same, struct mt_error *error)
{
    *same = strcmp(a->type, b->type) == 0 && a->bytes == b->bytes && a->heads == b->heads &&
            a->kv_heads == b->kv_heads && a->transposed == b->transposed && a->shift == b->shift;
    const size_t step = (size_t)1 << 17;
    mt_autofree char *parts = malloc(2 * step);
    if (!parts)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory to compare weights");
    int r = 0;
    for (size_t first = 0; r == 0 && *same && first < a->bytes; first += step) {
        const size_t bytes = mt_size_min(step, a->bytes - first);
        r = read_bytes(a, first, parts, bytes, error);
        r = r ? r : read_bytes(b, first, parts + step, bytes, error);
        *same = r == 0 && memcmp(parts, parts + step, bytes) == 0;
    }
    return r;
}
