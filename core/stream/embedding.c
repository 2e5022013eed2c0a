#include "core/stream/embedding.h"

#include "core/base/size.h"

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

void mt_embedding_gather(const struct mt_store *store, const int32_t *ids, size_t tokens, void *out)
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
}

struct scatter {
    const struct mt_model *model;
    const int32_t *ids;
    size_t tokens;
    const void *dx;
    enum mt_dtype dtype;
    float *gradient;
};

static void scatter_columns(void *context, size_t task)
{
    const struct scatter *work = context;
    const float factor = work->model->embedding_scale;
    const size_t hidden = work->model->hidden_size, own = work->model->embedding_size;
    const size_t first = task * COLUMNS, count = mt_size_min(COLUMNS, own - first);
    for (size_t t = 0; t < work->tokens; t++) {
        if (work->ids[t] == work->model->padding_id)
            continue;
        float *to = work->gradient + (size_t)work->ids[t] * own + first;
        if (work->dtype == MT_BF16) {
            const uint16_t *from = (const uint16_t *)work->dx + t * hidden + first;
            for (size_t i = 0; i < count; i++)
                to[i] += factor * mt_bf16_to_float(from[i]);
        } else {
            const float *from = (const float *)work->dx + t * hidden + first;
            for (size_t i = 0; i < count; i++)
                to[i] += factor * from[i];
        }
    }
}

void mt_embedding_scatter(const struct mt_model *model, const int32_t *ids, size_t tokens, const void *dx,
                          enum mt_dtype dtype, float *gradient, struct mt_pool *pool)
{
    struct scatter work = {model, ids, tokens, dx, dtype, gradient};
    mt_pool_run(pool, mt_size_ceil_div(model->embedding_size, COLUMNS), scatter_columns, &work);
}
