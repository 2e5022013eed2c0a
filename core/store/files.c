/* files.c: moving the store's arrays through one buffer a thread. The store hides whether a master is split,
 * so files are the same whatever the device computed in. */
#include "core/store/files.h"

#include "core/base/cleanup.h"
#include "core/base/size.h"
#include "core/model/family.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK ((size_t)1 << 18) /* elements saved at a time */
#define SOME ((size_t)1 << 15)  /* elements loaded at a time: they are checked while a cache has them */
#define PIECE ((size_t)1 << 22) /* elements that one thread loads: tables are shared between threads */

/* --- loading ------------------------------------------------------------------------------------------- */

struct load_item {
    const struct mt_parameter *parameter;
    const struct mt_tensor *tensor;
    enum mt_store_part part;
    size_t first, end; /* elements */
};

struct load {
    struct mt_store *store;
    struct load_item *items;
    pthread_mutex_t lock; /* of result and error */
    int result;
    struct mt_error *error;
};

static int check_tensor(const struct mt_parameter *parameter, const struct mt_tensor *tensor,
                        const char *name, struct mt_error *error)
{
    if (!tensor)
        return mt_error_set(error, -ENOENT, MT_REASON_BAD_MODEL,
                            "the tensor '%s' is missing: the files do not hold this model", name);
    bool same = tensor->rank == parameter->rank &&
                memcmp(tensor->shape, parameter->shape, parameter->rank * sizeof *parameter->shape) == 0;
    if (!same)
        return mt_error_set(
            error, -EINVAL, MT_REASON_BAD_MODEL,
            "'%s' in '%s' has %zu dimensions and %zu elements where config.json asks for %zu dimensions "
            "and %zu elements in another shape",
            name, tensor->file, tensor->rank, tensor->elements, parameter->rank, parameter->count);
    if (!tensor->readable)
        return mt_error_set(
            error, -ENOTSUP, MT_REASON_BAD_MODEL,
            "'%s' in '%s' has the type %s, which is not supported: F64, F32, F16 and BF16 are, and of GGUF's "
            "types Q4_0 to Q8_0 and Q2_K to Q6_K",
            name, tensor->file, tensor->type);
    return 0;
}

static int read_some(const struct load_item *item, size_t first, size_t count, float *values,
                     struct mt_error *error)
{
    int result = mt_tensor_read(item->tensor, first, count, values);
    if (result == 0)
        return 0;
    errno = -result;
    return result == -ENODATA
               ? mt_error_set(error, result, MT_REASON_BAD_MODEL,
                              "'%s' became shorter while it was read: start again when nothing writes to it "
                              "any more",
                              item->tensor->file)
               : mt_error_set_errno(error, MT_REASON_IO, "cannot read '%s' from '%s'", item->tensor->name,
                                    item->tensor->file);
}

/* Masters that are plain are made where they stand; `values` is for all else. */
static int load_some(struct load *load, const struct load_item *item, size_t first, size_t count,
                     float *values, struct mt_error *error)
{
    float *place = NULL;
    int result = item->part == MT_STORE_MASTER
                     ? mt_store_begin_write(load->store, item->parameter, first, count, &place, error)
                     : 0;
    if (result == 0)
        result = read_some(item, first, count, place ? place : values, error);
    if (result < 0)
        return result;
    return place ? mt_store_check_write(load->store, item->parameter, first, count, error)
                 : mt_store_write(load->store, item->parameter, item->part, first, count, values, error);
}

static void load_one(void *context, size_t task)
{
    struct load *load = context;
    const struct load_item *item = &load->items[task];
    const size_t some = mt_tensor_range(item->tensor, SOME);
    mt_autofree float *values = malloc(mt_size_min(some, item->end - item->first) * sizeof *values);
    struct mt_error error = {0};
    int result =
        values ? 0 : mt_error_set(&error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory to load weights");
    for (size_t first = item->first; result == 0 && first < item->end; first += some)
        result = load_some(load, item, first, mt_size_min(some, item->end - first), values, &error);
    if (result < 0) {
        if (error.reason != MT_REASON_OUT_OF_MEMORY && error.reason != MT_REASON_IO)
            error.reason = MT_REASON_BAD_MODEL;
        pthread_mutex_lock(&load->lock);
        if (load->result == 0) {
            load->result = result;
            if (load->error)
                *load->error = error;
        }
        pthread_mutex_unlock(&load->lock);
    }
}

/* Cuts whole tensors into pieces, and loads them all. */
static int load_all(struct mt_store *store, const struct load_item *tensors, size_t count,
                    struct mt_pool *pool, struct mt_error *error)
{
    size_t num_pieces = 0, next = 0;
    for (size_t i = 0; i < count; i++)
        num_pieces += mt_size_ceil_div(tensors[i].parameter->count, PIECE);
    mt_autofree struct load_item *pieces = calloc(num_pieces + 1, sizeof *pieces);
    if (!pieces)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory to load weights");
    for (size_t i = 0; i < count; i++)
        for (size_t first = 0; first < tensors[i].parameter->count; first += PIECE) {
            pieces[next] = tensors[i];
            pieces[next].first = first;
            pieces[next++].end = mt_size_min(tensors[i].parameter->count, first + PIECE);
        }
    struct load load = {.store = store, .items = pieces, .lock = PTHREAD_MUTEX_INITIALIZER, .error = error};
    mt_pool_run(pool, num_pieces, load_one, &load);
    return load.result;
}

/* A tied output matrix may be written out: then it must be the embedding, bit for bit. */
static int find_tied_copy(const struct mt_model *model, const struct mt_tensors *file,
                          const struct mt_tensor *tensor, bool *found, struct mt_error *error)
{
    const struct mt_tensor *table =
        model->tied && strcmp(tensor->name, model->family->names[MT_ROLE_HEAD]) == 0
            ? mt_tensors_find(file, mt_model_output_table(model)->name)
            : NULL;
    *found = false;
    return table ? mt_tensor_same(table, tensor, found, error) : 0;
}

static bool is_determined(const struct mt_tensor *tensor)
{
    /* Tables and masks of old files that config.json determines. */
    static const char *const suffixes[] = {".rotary_emb.inv_freq", ".rotary_pos_emb.inv_freq",
                                           ".attn.bias",           ".attention.bias",
                                           ".masked_bias",         ".causal_mask"};
    const size_t length = strlen(tensor->name);
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        const size_t end = strlen(suffixes[i]);
        if (length > end && strcmp(tensor->name + length - end, suffixes[i]) == 0)
            return true;
    }
    return false;
}

int mt_store_check_weights(const struct mt_model *model, const struct mt_tensors *file,
                           struct mt_error *error)
{
    for (size_t i = 0; i < model->num_parameters; i++) {
        const struct mt_parameter *parameter = &model->parameters[i];
        int result = check_tensor(parameter, mt_tensors_find(file, parameter->name), parameter->name, error);
        if (result < 0)
            return result;
    }
    for (size_t i = 0; i < mt_tensors_count(file); i++) {
        const struct mt_tensor *tensor = mt_tensors_at(file, i);
        bool known = mt_model_find(model, tensor->name) || is_determined(tensor);
        int result = known ? 0 : find_tied_copy(model, file, tensor, &known, error);
        if (result < 0)
            return result;
        if (!known)
            return mt_error_set(
                error, -EINVAL, MT_REASON_BAD_MODEL,
                "'%s' holds the tensor '%s', which the model that config.json describes does not have",
                tensor->file, tensor->name);
    }
    return 0;
}

int mt_store_open_files(const struct mt_model *model, const char *path, struct mt_tensors **file,
                        struct mt_error *error)
{
    struct mt_tensors *opened;
    *file = NULL;
    int result = mt_tensors_open(path, model, &opened, error);
    if (result < 0)
        return result;
    result = mt_store_check_weights(model, opened, error);
    if (result < 0)
        mt_tensors_close(opened);
    else
        *file = opened;
    return result;
}

int mt_store_check_files(const struct mt_model *model, const char *path, struct mt_error *error)
{
    struct mt_tensors *file;
    int result = mt_store_open_files(model, path, &file, error);
    mt_tensors_close(file);
    return result;
}

int mt_store_load_weights(struct mt_store *store, const struct mt_tensors *file, struct mt_pool *pool,
                          struct mt_error *error)
{
    int result = mt_store_check_weights(mt_store_model(store), file, error);
    return result == 0 ? mt_store_load_opened(store, file, pool, error) : result;
}

int mt_store_load_opened(struct mt_store *store, const struct mt_tensors *file, struct mt_pool *pool,
                         struct mt_error *error)
{
    const struct mt_model *model = mt_store_model(store);
    mt_autofree struct load_item *items = calloc(model->num_parameters, sizeof *items);
    if (!items)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory to load weights");
    for (size_t i = 0; i < model->num_parameters; i++) {
        const struct mt_parameter *parameter = &model->parameters[i];
        items[i] = (struct load_item){
            .parameter = parameter,
            .tensor = mt_tensors_find(file, parameter->name),
            .part = MT_STORE_MASTER,
        };
    }
    return load_all(store, items, model->num_parameters, pool, error);
}

static char *moment_name(enum mt_store_part part, const char *parameter)
{
    char *name;
    return asprintf(&name, "%s.%s", part == MT_STORE_MOMENT1 ? "exp_avg" : "exp_avg_sq", parameter) < 0
               ? NULL
               : name;
}

int mt_store_load_moments(struct mt_store *store, const struct mt_tensors *file, struct mt_pool *pool,
                          struct mt_error *error)
{
    const struct mt_model *model = mt_store_model(store);
    mt_autofree struct load_item *items = calloc(2 * model->num_parameters, sizeof *items);
    if (!items)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY,
                            "no memory to load the optimizer's state");
    size_t count = 0;
    for (size_t i = 0; i < model->num_parameters; i++) {
        const struct mt_parameter *parameter = &model->parameters[i];
        for (enum mt_store_part part = MT_STORE_MOMENT1; !parameter->frozen && part <= MT_STORE_MOMENT2;
             part++) {
            mt_autofree char *name = moment_name(part, parameter->name);
            if (!name)
                return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY,
                                    "no memory to load the optimizer's state");
            if (!mt_tensors_find(file, name))
                return mt_error_set(
                    error, -ENOENT, MT_REASON_BAD_MODEL,
                    "the optimizer's state of '%s' is missing: where training.freeze held that "
                    "parameter until now, start a new job from the checkpoint's weights",
                    parameter->name);
            items[count] = (struct load_item){
                .parameter = parameter, .tensor = mt_tensors_find(file, name), .part = part};
            int result = check_tensor(parameter, items[count++].tensor, name, error);
            if (result < 0)
                return result;
        }
    }
    return load_all(store, items, count, pool, error);
}

/* --- saving -------------------------------------------------------------------------------------------- */

static void fill_spec(struct mt_safetensors_spec *spec, const char *name,
                      const struct mt_parameter *parameter, enum mt_dtype dtype)
{
    *spec = (struct mt_safetensors_spec){.name = name, .dtype = dtype, .rank = parameter->rank};
    memcpy(spec->shape, parameter->shape, parameter->rank * sizeof *parameter->shape);
}

static int save_part(const struct mt_store *store, const struct mt_parameter *parameter,
                     enum mt_store_part part, struct mt_safetensors_writer *writer, float *values,
                     struct mt_error *error)
{
    int result = 0;
    for (size_t first = 0; result == 0 && first < parameter->count; first += CHUNK) {
        size_t count = mt_size_min(CHUNK, parameter->count - first);
        result = mt_store_read(store, parameter, part, first, count, values, error);
        if (result == 0)
            result = mt_safetensors_writer_write_f32(writer, values, count, error);
    }
    return result;
}

int mt_store_save_weights(const struct mt_store *store, const char *folder, const char *stem,
                          enum mt_dtype dtype, struct mt_error *error)
{
    const struct mt_model *model = mt_store_model(store);
    mt_autofree struct mt_safetensors_spec *specs = calloc(model->num_parameters, sizeof *specs);
    mt_autofree float *values = malloc(CHUNK * sizeof *values);
    if (!specs || !values)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory to save weights");
    for (size_t i = 0; i < model->num_parameters; i++)
        fill_spec(&specs[i], model->parameters[i].name, &model->parameters[i], dtype);
    struct mt_safetensors_writer *writer;
    int result = mt_safetensors_writer_open(folder, stem, specs, model->num_parameters, MT_STORE_SHARD_BYTES,
                                            NULL, &writer, error);
    if (result < 0)
        return result;
    for (size_t i = 0; i < model->num_parameters && result == 0; i++)
        result = save_part(store, &model->parameters[i], MT_STORE_MASTER, writer, values, error);
    if (result == 0)
        result = mt_safetensors_writer_finish(writer, error);
    mt_safetensors_writer_free(writer);
    return result;
}

int mt_store_save_moments(const struct mt_store *store, const char *folder, const char *stem,
                          struct mt_error *error)
{
    const struct mt_model *model = mt_store_model(store);
    size_t capacity = 2 * model->num_parameters, count = 0;
    mt_autofree struct mt_safetensors_spec *specs = calloc(capacity, sizeof *specs);
    mt_autofree char **names = calloc(capacity, sizeof *names);
    mt_autofree float *values = malloc(CHUNK * sizeof *values);
    int result = specs && names && values ? 0 : -ENOMEM;
    for (size_t i = 0; i < model->num_parameters && result == 0; i++) {
        for (enum mt_store_part part = MT_STORE_MOMENT1; part <= MT_STORE_MOMENT2 && result == 0; part++) {
            if (model->parameters[i].frozen)
                continue;
            names[count] = moment_name(part, model->parameters[i].name);
            if (!names[count])
                result = -ENOMEM;
            else
                fill_spec(&specs[count], names[count], &model->parameters[i], MT_F32);
            count++;
        }
    }
    struct mt_safetensors_writer *writer = NULL;
    if (result < 0)
        mt_error_set(error, result, MT_REASON_OUT_OF_MEMORY, "no memory to save the optimizer's state");
    else
        result = mt_safetensors_writer_open(folder, stem, specs, count, MT_STORE_SHARD_BYTES, NULL, &writer,
                                            error);
    for (size_t i = 0; i < model->num_parameters && result == 0; i++) {
        for (enum mt_store_part part = MT_STORE_MOMENT1; part <= MT_STORE_MOMENT2 && result == 0; part++) {
            if (!model->parameters[i].frozen)
                result = save_part(store, &model->parameters[i], part, writer, values, error);
        }
    }
    if (result == 0)
        result = mt_safetensors_writer_finish(writer, error);
    mt_safetensors_writer_free(writer);
    for (size_t i = 0; names && i < count; i++)
        free(names[i]);
    return result;
}

size_t mt_store_saved_bytes(const struct mt_model *model)
{
    const size_t weight = mt_dtype_bytes(model->source_dtype);
    return model->total_count * (weight + (weight < sizeof(float) ? sizeof(float) : 0)) +
           model->trainable_count * 2 * sizeof(float);
}
