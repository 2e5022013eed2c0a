#include "core/stream/embedding.h"

#include "core/base/size.h"

#include <math.h>
#include <string.h>

/* Columns of a task: every element of the table is added to by one task, in token order. */
#define COLUMNS 64u

static void scale(float factor, enum mt_dtype dtype, size_t count, void *values)
{
    for (size_t i = 0; i < count; i++)
        if (dtype == MT_BF16) {
            uint16_t *value = (uint16_t *)values + i;
            *value = mt_bf16_from_float(factor * mt_bf16_to_float(*value));
        } else {
            ((float *)values)[i] *= factor;
        }
}

/* What layers read beside the stream, layer by layer [tokens, size], times the root of its size. */
static void gather_beside(const struct mt_store *store, const int32_t *ids, size_t tokens, char *out)
{
    const struct mt_model *model = mt_store_model(store);
    const struct mt_parameter *table = model->groups[MT_GROUP_EMBEDDING].by_role[MT_ROLE_LAYER_EMBEDDING];
    const enum mt_dtype dtype = mt_store_compute_dtype(store);
    const size_t element = mt_dtype_bytes(dtype), size = model->layer_input_size * element;
    const size_t row = model->num_layers * size;
    size_t bytes;
    const char *rows =
        (const char *)mt_store_transfer_source(store, MT_GROUP_EMBEDDING, &bytes) + table->offset * element;
    for (size_t i = 0; i < model->num_layers; i++)
        for (size_t t = 0; t < tokens; t++)
            memcpy(out + (i * tokens + t) * size, rows + (size_t)ids[t] * row + i * size, size);
    scale(sqrtf((float)model->layer_input_size), dtype, tokens * model->num_layers * model->layer_input_size,
          out);
}

void mt_embedding_gather(const struct mt_store *store, const int32_t *ids, size_t tokens, void *out,
                         void *beside)
{
    const struct mt_model *model = mt_store_model(store);
    const struct mt_parameter *table = model->groups[MT_GROUP_EMBEDDING].by_role[MT_ROLE_EMBEDDING];
    const size_t element = mt_dtype_bytes(mt_store_compute_dtype(store)), row = model->hidden_size * element;
    const size_t own = model->embedding_size * element; /* the rest of a row is not used */
    size_t bytes;
    const char *rows =
        (const char *)mt_store_transfer_source(store, MT_GROUP_EMBEDDING, &bytes) + table->offset * element;
    for (size_t t = 0; t < tokens; t++) {
        memcpy((char *)out + t * row, rows + (size_t)ids[t] * own, own);
        memset((char *)out + t * row + own, 0, row - own);
    }
    if (model->embedding_scale != 1.0f)
        scale(model->embedding_scale, mt_store_compute_dtype(store), tokens * model->hidden_size, out);
    if (model->layer_input_size)
        gather_beside(store, ids, tokens, beside);
}

struct scatter {
    const int32_t *ids;
    size_t tokens;
    int64_t padding_id;
    const void *dx; /* [tokens, width] */
    enum mt_dtype dtype;
    size_t width, cols; /* of dx; of it that count */
    float factor;
    float *gradient; /* rows `stride` apart */
    size_t stride;
};

static void scatter_columns(void *context, size_t task)
{
    const struct scatter *work = context;
    const size_t first = task * COLUMNS, count = mt_size_min(COLUMNS, work->cols - first);
    for (size_t t = 0; t < work->tokens; t++) {
        if (work->ids[t] == work->padding_id)
            continue;
        float *to = work->gradient + (size_t)work->ids[t] * work->stride + first;
        if (work->dtype == MT_BF16) {
            const uint16_t *from = (const uint16_t *)work->dx + t * work->width + first;
            for (size_t i = 0; i < count; i++)
                to[i] += work->factor * mt_bf16_to_float(from[i]);
        } else {
            const float *from = (const float *)work->dx + t * work->width + first;
            for (size_t i = 0; i < count; i++)
                to[i] += work->factor * from[i];
        }
    }
}

void mt_embedding_scatter(const struct mt_model *model, const int32_t *ids, size_t tokens, const void *dx,
                          const void *dbeside, enum mt_dtype dtype, float *gradient, struct mt_pool *pool)
{
    const struct mt_group *group = &model->groups[MT_GROUP_EMBEDDING];
    const struct mt_parameter *table = group->by_role[MT_ROLE_EMBEDDING];
    const struct mt_parameter *side = group->by_role[MT_ROLE_LAYER_EMBEDDING];
    struct scatter work = {
        .ids = ids,
        .tokens = tokens,
        .padding_id = model->padding_id,
        .dx = dx,
        .dtype = dtype,
        .width = model->hidden_size,
        .cols = model->embedding_size,
        .factor = model->embedding_scale,
        .gradient = gradient + table->train_offset,
        .stride = model->embedding_size,
    };
    if (!table->frozen)
        mt_pool_run(pool, mt_size_ceil_div(work.cols, COLUMNS), scatter_columns, &work);
    const size_t size = model->layer_input_size, element = mt_dtype_bytes(dtype);
    for (size_t i = 0; side && !side->frozen && i < model->num_layers; i++) {
        work.dx = (const char *)dbeside + tokens * i * size * element;
        work.width = work.cols = size;
        work.factor = sqrtf((float)size);
        work.gradient = gradient + side->train_offset + i * size;
        work.stride = model->num_layers * size;
        mt_pool_run(pool, mt_size_ceil_div(size, COLUMNS), scatter_columns, &work);
    }
}
