/* GGUF tensors as the parameters of a model: names by role, rows of queries and keys back in their order,
 * norms without the 1 that was added to them. */
#include "core/base/arena.h"
#include "core/base/size.h"
#include "core/model/gguf_architecture.h"
#include "core/model/gguf_rope.h"
#include "core/model/parameters.h"
#include "core/model/tensors_internal.h"

#include <ctype.h>
#include <string.h>

/* Here all queries, all keys, all values; there for each key-value head its queries, its key, its value. */
static size_t file_row_of_qkv(size_t row, size_t rows, size_t heads, size_t kv_heads)
{
    const size_t width = rows / (heads + 2 * kv_heads), queries = heads / kv_heads;
    const size_t group = row / width / (queries + 2), part = row / width % (queries + 2);
    const size_t head = part < queries ? group * queries + part : heads + (part - queries) * kv_heads + group;
    return head * width + row % width;
}

/* The row of the file that is row `row` of the family's order: pair i of a head has its rows beside each
 * other here, half a head apart there. */
static size_t file_row(const struct mt_tensor *tensor, size_t row)
{
    const size_t rows = tensor->shape[0], heads = tensor->heads;
    if (tensor->kv_heads)
        return file_row_of_qkv(row, rows, heads, tensor->kv_heads);
    const size_t width = rows / heads, half = width / 2, within = row % width;
    return row - within + within % half * 2 + within / half;
}

static int read_rows(const struct mt_tensor *tensor, size_t first, size_t count, float *out)
{
    const size_t columns = tensor->elements / tensor->shape[0];
    if (first > tensor->elements || count > tensor->elements - first)
        return -ERANGE;
    while (count) {
        const size_t row = first / columns, column = first % columns;
        const size_t part = mt_size_min(columns - column, count);
        int r = mt_gguf_read_f32(tensor->tensor, file_row(tensor, row) * columns + column, part, out);
        if (r < 0)
            return r;
        first += part;
        out += part;
        count -= part;
    }
    return 0;
}

/* A block of some rows and columns of the family's at a time: whole stretches are read of the file's rows,
 * and written of the family's. */
static int read_transposed(const struct mt_tensor *tensor, size_t first, size_t count, float *out)
{
    const size_t rows = tensor->shape[0], columns = tensor->shape[1]; /* the family's */
    float block[16][256];
    const size_t most_columns = sizeof block / sizeof *block, most_rows = sizeof *block / sizeof **block;
    if (first > tensor->elements || count > tensor->elements - first)
        return -ERANGE;
    const size_t end = first + count, end_row = count ? mt_size_ceil_div(end, columns) : 0;
    for (size_t row = first / columns; row < end_row; row += most_rows) {
        const size_t num_rows = mt_size_min(most_rows, end_row - row);
        for (size_t column = 0; column < columns; column += most_columns) {
            const size_t num_columns = mt_size_min(most_columns, columns - column);
            for (size_t k = 0; k < num_columns; k++) {
                int r = mt_gguf_read_f32(tensor->tensor, (column + k) * rows + row, num_rows, block[k]);
                if (r < 0)
                    return r;
            }
            for (size_t i = 0; i < num_rows; i++)
                for (size_t k = 0; k < num_columns; k++) {
                    const size_t at = (row + i) * columns + column + k;
                    if (at >= first && at < end)
                        out[at - first] = block[k][i];
                }
        }
    }
    return 0;
}

static int read_gguf(const struct mt_tensor *tensor, size_t first, size_t count, float *out)
{
    int r = tensor->transposed ? read_transposed(tensor, first, count, out)
            : tensor->heads    ? read_rows(tensor, first, count, out)
                               : mt_gguf_read_f32(tensor->tensor, first, count, out);
    for (size_t i = 0; r == 0 && tensor->shift != 0 && i < count; i++)
        out[i] += tensor->shift;
    return r;
}

static void describe(const struct mt_gguf_tensor *found, struct mt_tensor *tensor)
{
    *tensor = (struct mt_tensor){
        .name = found->name,
        .file = found->file,
        .type = mt_gguf_type_name(found->type),
        .readable = mt_gguf_type_is_read(found->type),
        .rank = found->rank,
        .elements = found->elements,
        .bytes = found->bytes,
        .tensor = found,
        .fd = found->fd,
        .offset = found->offset,
        .read = read_gguf,
    };
    memcpy(tensor->shape, found->shape, sizeof found->shape);
}

static bool is_norm(enum mt_role role)
{
    return role == MT_ROLE_ATTENTION_NORM || role == MT_ROLE_MLP_NORM || role == MT_ROLE_FINAL_NORM ||
           role == MT_ROLE_POST_ATTENTION_NORM || role == MT_ROLE_POST_MLP_NORM || role == MT_ROLE_Q_NORM ||
           role == MT_ROLE_K_NORM;
}

/* Marks what `parameter` is made of in `tensor`. */
static void adapt(const struct mt_model *model, const struct mt_gguf_architecture *architecture,
                  const struct mt_parameter *parameter, struct mt_tensor *tensor)
{
    const struct mt_layer *layer =
        parameter->group > MT_GROUP_EMBEDDING && parameter->group <= model->num_layers
            ? &model->layers[parameter->group - 1]
            : NULL;
    tensor->name = parameter->name;
    if (is_norm(parameter->role))
        tensor->shift = -model->norm_weight_offset;
    const bool is_qkv = parameter->role == MT_ROLE_QKV || parameter->role == MT_ROLE_QKV_BIAS;
    if (layer && is_qkv && architecture->qkv_in_turn && model->family->qkv_by_head &&
        tensor->shape[0] == (layer->num_heads + 2 * layer->num_kv_heads) * layer->head_dim) {
        tensor->heads = layer->num_heads;
        tensor->kv_heads = layer->num_kv_heads;
    }
    const bool is_matrix = parameter->role == MT_ROLE_QKV || parameter->role == MT_ROLE_O ||
                           parameter->role == MT_ROLE_UP || parameter->role == MT_ROLE_DOWN;
    if (model->family->input_first && is_matrix && tensor->rank == 2) {
        const size_t columns = tensor->shape[0];
        tensor->shape[0] = tensor->shape[1];
        tensor->shape[1] = columns;
        tensor->transposed = true;
    }
    if (!architecture->neighbours || !layer)
        return;
    size_t heads = 0;
    if (parameter->role == MT_ROLE_Q || parameter->role == MT_ROLE_Q_BIAS)
        heads = layer->num_heads;
    if (parameter->role == MT_ROLE_K || parameter->role == MT_ROLE_K_BIAS)
        heads = layer->num_kv_heads;
    /* A file whose shapes are wrong is refused when they are compared, not here. */
    if (heads && tensor->shape[0] == heads * layer->head_dim)
        tensor->heads = heads;
}

static int map_parameter(struct mt_tensors *tensors, const struct mt_gguf *file, const struct mt_model *model,
                         const struct mt_gguf_architecture *architecture,
                         const struct mt_parameter *parameter, bool *taken, struct mt_error *error)
{
    const char *pattern = mt_gguf_role_name(architecture, file, parameter->role);
    const char *name = pattern ? mt_parameter_name(tensors->arena, pattern, '#', parameter->group - 1) : "";
    if (!name)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory for the list of tensors");
    const struct mt_gguf_tensor *found = mt_gguf_find_tensor(file, name);
    if (!found)
        return 0; /* missing: refused by whoever needs it, under the name that users know */
    struct mt_tensor *tensor = &tensors->items[tensors->count++];
    describe(found, tensor);
    adapt(model, architecture, parameter, tensor);
    taken[found - mt_gguf_tensor_at(file, 0)] = true;
    return 0;
}

int mt_tensors_open_gguf(const char *path, const struct mt_model *model, struct mt_tensors **result,
                         struct mt_error *error)
{
    struct mt_gguf *file;
    int r = mt_gguf_open(path, &file, error);
    if (r == 0)
        r = mt_tensors_of_gguf(file, model, result, error);
    if (r == 0)
        (*result)->gguf = file;
    else
        mt_gguf_close(file);
    return r;
}

int mt_tensors_of_gguf(const struct mt_gguf *file, const struct mt_model *model, struct mt_tensors **result,
                       struct mt_error *error)
{
    const size_t count = mt_gguf_num_tensors(file);
    struct mt_tensors *tensors;
    *result = NULL;
    int r = mt_tensors_new(count + (model ? model->num_parameters : 0), &tensors, error);
    if (r < 0)
        return r;
    bool *taken = mt_arena_alloc(tensors->arena, count + 1, sizeof *taken);
    const struct mt_gguf_architecture *architecture = model ? mt_gguf_architecture_find(file) : NULL;
    if (!taken)
        r = mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory for the list of tensors");
    for (size_t i = 0; r == 0 && architecture && i < model->num_parameters; i++)
        r = map_parameter(tensors, file, model, architecture, &model->parameters[i], taken, error);
    for (size_t i = 0; r == 0 && i < count; i++) {
        const struct mt_gguf_tensor *tensor = mt_gguf_tensor_at(file, i);
        if (!taken[i] && !(model && mt_gguf_rope_is_tensor(tensor->name)))
            describe(tensor, &tensors->items[tensors->count++]);
    }
    if (r < 0) {
        mt_tensors_close(tensors);
        return r;
    }
    mt_tensors_sort(tensors);
    *result = tensors;
    return 0;
}
