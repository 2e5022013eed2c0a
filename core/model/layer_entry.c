/* What stands between the embedding and the first layer, and is computed with it: a projection where the
 * tables are narrower than the stream, what is added by position, a norm.
 *
 *   h = norm(W_in e + positions)
 *
 * The embedding's rows `e` have the stream's stride; of narrow ones only the first columns count. */
#include "core/base/size.h"
#include "core/model/layer_visit.h"

static const struct mt_parameter *projection(const struct mt_layer_visit *v)
{
    return v->layer->group->by_role[MT_ROLE_PROJECT_IN];
}

/* Rows of the table of positions: learned in the layer's slab, or sines of the device's own. */
static int add_positions(const struct mt_layer_visit *v, const int32_t *positions, const char *x, char *sum)
{
    const struct mt_model *model = v->context->model;
    const struct mt_device_api *api = v->context->device->api;
    const size_t hidden = v->layer->hidden_size;
    const bool learned = model->positions == MT_POSITIONS_LEARNED;
    const char *table = learned ? mt_layer_weight(v->context, v->layer, &v->slabs, MT_ROLE_POSITIONS)
                                : (const char *)v->context->sines;
    const size_t rows = learned ? model->max_position_embeddings : v->context->num_positions;
    /* The rows of positions go where the sum will stand; x is elsewhere. */
    char *room = x == sum ? v->s + v->p.dnormed : sum;
    TRY(api->embedding(
        v->context->stream,
        &(struct mt_embedding_args){
            .ids = positions,
            .table =
                learned ? table + model->position_offset * hidden * mt_dtype_bytes(v->context->dtype) : table,
            .out = room,
            .tokens = v->tokens,
            .hidden = hidden,
            .vocab_size = rows,
            .table_dtype = learned ? v->context->dtype : MT_F32,
            .dtype = v->context->dtype,
        }));
    return mt_layer_add(v->context, v->layer, v->tokens, x, room, 1, sum);
}

int mt_layer_entry(struct mt_layer_visit *v, const int32_t *positions)
{
    if (!v->layer->entry)
        return 0;
    const struct mt_model *model = v->context->model;
    const size_t hidden = v->layer->hidden_size;
    char *sum = v->a + v->p.entry_sum, *normed = v->a + v->p.entry;
    if (projection(v)) {
        const struct mt_parameter *matrix = projection(v);
        TRY(v->context->device->api->linear(
            v->context->stream, &(struct mt_linear_args){
                                    .x = v->x,
                                    .weight = mt_layer_weight(v->context, v->layer, &v->slabs, matrix->role),
                                    .y = sum,
                                    .tokens = v->tokens,
                                    .in_features = matrix->shape[1],
                                    .out_features = hidden,
                                    .x_stride = hidden,
                                    .dtype = v->context->dtype,
                                }));
        v->x = sum;
    }
    if (model->positions) {
        TRY(add_positions(v, positions, v->x, sum));
        v->x = sum;
    }
    if (model->entry_norm) {
        TRY(mt_visit_norm(v, MT_ROLE_EMBEDDING_NORM, MT_ROLE_EMBEDDING_NORM_BIAS, hidden, v->x, normed,
                          v->p.entry_numbers));
        v->x = normed;
    }
    return 0;
}

static int positions_backward(const struct mt_layer_visit *v, const int32_t *positions, const void *dy)
{
    const struct mt_model *model = v->context->model;
    const struct mt_device_api *api = v->context->device->api;
    const struct mt_parameter *table = v->layer->group->by_role[MT_ROLE_POSITIONS];
    float *gradient = mt_layer_gradient(v->layer, &v->slabs, MT_ROLE_POSITIONS);
    if (!gradient)
        return 0;
    if (!v->slabs.accumulate)
        TRY(api->fill_zero(v->context->stream, gradient, table->count * sizeof(float)));
    return api->embedding_backward(v->context->stream,
                                   &(struct mt_embedding_backward_args){
                                       .ids = positions,
                                       .dout = dy,
                                       .dtable = gradient + model->position_offset * v->layer->hidden_size,
                                       .tokens = v->tokens,
                                       .hidden = v->layer->hidden_size,
                                       .vocab_size = model->max_position_embeddings,
                                       .dtype = v->context->dtype,
                                   });
}

/* dy, of the projection's result, becomes that of the narrow rows: the first columns, the others 0. */
static int projection_backward(const struct mt_layer_visit *v, const void *x, void *dy)
{
    const struct mt_parameter *matrix = projection(v);
    const struct mt_device_api *api = v->context->device->api;
    const size_t hidden = v->layer->hidden_size,
                 bytes = v->tokens * hidden * mt_dtype_bytes(v->context->dtype);
    char *room = v->s + v->p.dnormed;
    float *gradient = mt_layer_gradient(v->layer, &v->slabs, MT_ROLE_PROJECT_IN);
    if (gradient)
        TRY(api->linear_backward_weight(v->context->stream, &(struct mt_linear_backward_weight_args){
                                                                .dy = dy,
                                                                .x = x,
                                                                .dweight = gradient,
                                                                .tokens = v->tokens,
                                                                .in_features = matrix->shape[1],
                                                                .out_features = hidden,
                                                                .x_stride = hidden,
                                                                .accumulate = v->slabs.accumulate,
                                                                .dtype = v->context->dtype,
                                                            }));
    TRY(api->fill_zero(v->context->stream, room, bytes));
    TRY(api->linear_backward_input(
        v->context->stream, &(struct mt_linear_backward_input_args){
                                .dy = dy,
                                .weight = mt_layer_weight(v->context, v->layer, &v->slabs, matrix->role),
                                .dx = room,
                                .tokens = v->tokens,
                                .in_features = matrix->shape[1],
                                .out_features = hidden,
                                .dx_stride = hidden,
                                .dtype = v->context->dtype,
                            }));
    return api->copy(v->context->stream, dy, room, bytes);
}

int mt_layer_entry_backward(const struct mt_layer_visit *v, const int32_t *positions, const void *x, void *dy)
{
    if (!v->layer->entry)
        return 0;
    const struct mt_model *model = v->context->model;
    const bool sum = model->positions || projection(v);
    if (model->entry_norm)
        TRY(mt_visit_norm_backward(v, MT_ROLE_EMBEDDING_NORM, MT_ROLE_EMBEDDING_NORM_BIAS,
                                   v->layer->hidden_size, sum ? v->a + v->p.entry_sum : x, v->p.entry_numbers,
                                   dy, dy, false));
    if (model->positions == MT_POSITIONS_LEARNED)
        TRY(positions_backward(v, positions, dy));
    return projection(v) ? projection_backward(v, x, dy) : 0;
}
