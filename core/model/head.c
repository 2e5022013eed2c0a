#include "core/model/head.h"

#define NORM_ROWS_EPS 1e-30f /* of rows that are normed to length 1: none, but for rows of zeros */

static const struct mt_group *group_of(const struct mt_layer_context *context)
{
    return &context->model->groups[mt_model_head_group(context->model)];
}

/* A weight of the head group's slab; NULL where there is none. */
static const void *weight(const struct mt_layer_context *context, const void *weights, enum mt_role role)
{
    const struct mt_parameter *p = group_of(context)->by_role[role];
    return p ? (const char *)weights + p->offset * mt_dtype_bytes(context->dtype) : NULL;
}

static float *gradient(const struct mt_layer_context *context, float *gradients, enum mt_role role)
{
    const struct mt_parameter *p = group_of(context)->by_role[role];
    return p && !p->frozen && gradients ? gradients + p->train_offset : NULL;
}

static int scale(const struct mt_layer_context *context, void *rows, size_t tokens)
{
    if (context->model->logit_scale == 1.0f)
        return 0;
    return context->device->api->add(context->stream, &(struct mt_add_args){
                                                          .b = rows,
                                                          .y = rows,
                                                          .count = tokens * context->model->hidden_size,
                                                          .scale = context->model->logit_scale,
                                                          .dtype = context->dtype,
                                                      });
}

void mt_head_bind_bias(const struct mt_layer_context *context, const void *weights, float *gradients,
                       struct mt_head_tile *tile)
{
    const char *bias = weight(context, weights, MT_ROLE_HEAD_BIAS);
    float *bias_gradient = gradient(context, gradients, MT_ROLE_HEAD_BIAS);
    tile->bias = bias ? bias + tile->first * mt_dtype_bytes(context->dtype) : NULL;
    tile->bias_gradient = bias_gradient ? bias_gradient + tile->first : NULL;
}

int mt_head_norm_rows(const struct mt_layer_context *context, struct mt_head_tile *tile, void *room,
                      float *rstd)
{
    if (!context->model->norm_head)
        return 0;
    tile->raw = tile->table;
    tile->rstd = rstd;
    int r = context->device->api->rms_norm(context->stream, &(struct mt_rms_norm_args){
                                                                .x = tile->raw,
                                                                .y = room,
                                                                .rstd = rstd,
                                                                .rows = tile->rows,
                                                                .cols = context->model->embedding_size,
                                                                .eps = NORM_ROWS_EPS,
                                                                .dtype = context->dtype,
                                                            });
    tile->table = room;
    return r;
}

int mt_head_norm_rows_backward(const struct mt_layer_context *context, const struct mt_head_tile *tile,
                               float *wide)
{
    const size_t cols = context->model->embedding_size;
    if (!tile->rstd || !tile->gradient)
        return 0;
    const void *raw = tile->raw;
    if (context->dtype != MT_F32) {
        int r =
            context->device->api->cast(context->stream, &(struct mt_cast_args){.src = raw,
                                                                               .dst = wide,
                                                                               .count = tile->rows * cols,
                                                                               .src_dtype = context->dtype,
                                                                               .dst_dtype = MT_F32});
        if (r)
            return r;
        raw = wide;
    }
    return context->device->api->rms_norm_backward(context->stream, &(struct mt_rms_norm_backward_args){
                                                                        .x = raw,
                                                                        .dy = tile->gradient,
                                                                        .rstd = tile->rstd,
                                                                        .dx = tile->gradient,
                                                                        .rows = tile->rows,
                                                                        .cols = cols,
                                                                        .dtype = MT_F32,
                                                                    });
}

/* The projection, or NULL. */
static const struct mt_parameter *projection(const struct mt_layer_context *context)
{
    return group_of(context)->by_role[MT_ROLE_PROJECT_OUT];
}

static int norm(const struct mt_layer_context *context, const void *weights,
                const struct mt_head_chunk *chunk)
{
    if (!context->model->final_norm) {
        const size_t bytes = chunk->tokens * context->model->hidden_size * mt_dtype_bytes(context->dtype);
        int r = chunk->normed == chunk->x
                    ? 0
                    : context->device->api->copy(context->stream, chunk->normed, chunk->x, bytes);
        return r ? r : scale(context, chunk->normed, chunk->tokens);
    }
    int r = context->device->api->rms_norm(context->stream,
                                           &(struct mt_rms_norm_args){
                                               .x = chunk->x,
                                               .weight = weight(context, weights, MT_ROLE_FINAL_NORM),
                                               .bias = weight(context, weights, MT_ROLE_FINAL_NORM_BIAS),
                                               .y = chunk->normed,
                                               .rstd = chunk->rstd,
                                               .mean = context->model->norm_centered ? chunk->mean : NULL,
                                               .rows = chunk->tokens,
                                               .cols = context->model->hidden_size,
                                               .eps = context->model->norm_eps,
                                               .weight_offset = context->model->norm_weight_offset,
                                               .centered = context->model->norm_centered,
                                               .dtype = context->dtype,
                                           });
    return r ? r : scale(context, chunk->normed, chunk->tokens);
}

int mt_head_norm(const struct mt_layer_context *context, const void *weights,
                 const struct mt_head_chunk *chunk)
{
    int r = norm(context, weights, chunk);
    if (r || !projection(context))
        return r;
    return context->device->api->linear(context->stream,
                                        &(struct mt_linear_args){
                                            .x = chunk->normed,
                                            .weight = weight(context, weights, MT_ROLE_PROJECT_OUT),
                                            .y = chunk->projected,
                                            .tokens = chunk->tokens,
                                            .in_features = context->model->hidden_size,
                                            .out_features = context->model->embedding_size,
                                            .dtype = context->dtype,
                                        });
}

/* What the output matrix reads, dense. */
static const void *output_input(const struct mt_layer_context *context, const struct mt_head_chunk *chunk)
{
    return projection(context) ? chunk->projected : chunk->normed;
}

int mt_head_logits(const struct mt_layer_context *context, const struct mt_head_chunk *chunk,
                   const struct mt_head_tile *tile)
{
    return context->device->api->linear(context->stream, &(struct mt_linear_args){
                                                             .x = output_input(context, chunk),
                                                             .weight = tile->table,
                                                             .bias = tile->bias,
                                                             .y = chunk->logits,
                                                             .tokens = chunk->tokens,
                                                             .in_features = context->model->embedding_size,
                                                             .out_features = tile->rows,
                                                             .softcap = context->model->logit_softcap,
                                                             .dtype = context->dtype,
                                                         });
}

int mt_head_statistics(const struct mt_layer_context *context, const struct mt_head_chunk *chunk,
                       const struct mt_head_tile *tile)
{
    return context->device->api->cross_entropy_statistics(context->stream,
                                                          &(struct mt_cross_entropy_statistics_args){
                                                              .logits = chunk->logits,
                                                              .labels = chunk->labels,
                                                              .max = chunk->max,
                                                              .sum = chunk->sum,
                                                              .target = chunk->target,
                                                              .rows = chunk->tokens,
                                                              .cols = tile->rows,
                                                              .vocab_offset = tile->first,
                                                              .vocab_size = context->model->vocab_size,
                                                              .first = tile->first == 0,
                                                              .dtype = context->dtype,
                                                          });
}

int mt_head_finish(const struct mt_layer_context *context, const struct mt_head_chunk *chunk,
                   double *loss_sum, bool accumulate)
{
    return context->device->api->cross_entropy_finish(context->stream, &(struct mt_cross_entropy_finish_args){
                                                                           .max = chunk->max,
                                                                           .sum = chunk->sum,
                                                                           .target = chunk->target,
                                                                           .labels = chunk->labels,
                                                                           .lse = chunk->lse,
                                                                           .losses = chunk->losses,
                                                                           .loss_sum = loss_sum,
                                                                           .rows = chunk->tokens,
                                                                           .accumulate = accumulate,
                                                                       });
}

int mt_head_backward(const struct mt_layer_context *context, const struct mt_head_chunk *chunk,
                     const struct mt_head_tile *tile, float grad_scale, bool accumulate)
{
    const struct mt_device_api *api = context->device->api;
    const size_t width = context->model->embedding_size;
    int r = api->cross_entropy_backward(context->stream, &(struct mt_cross_entropy_backward_args){
                                                             .logits = chunk->logits,
                                                             .labels = chunk->labels,
                                                             .lse = chunk->lse,
                                                             .rows = chunk->tokens,
                                                             .cols = tile->rows,
                                                             .vocab_offset = tile->first,
                                                             .grad_scale = grad_scale,
                                                             .softcap = context->model->logit_softcap,
                                                             .dtype = context->dtype,
                                                         });
    r = r ? r
          : api->linear_backward_input(context->stream, &(struct mt_linear_backward_input_args){
                                                            .dy = chunk->logits,
                                                            .weight = tile->table,
                                                            .dx = chunk->wide ? chunk->wide : chunk->dx,
                                                            .tokens = chunk->tokens,
                                                            .in_features = width,
                                                            .out_features = tile->rows,
                                                            .accumulate = tile->first > 0,
                                                            .wide_dx = chunk->wide != NULL,
                                                            .dtype = context->dtype,
                                                        });
    if (r || (!tile->gradient && !tile->bias_gradient))
        return r;
    return api->linear_backward_weight(context->stream, &(struct mt_linear_backward_weight_args){
                                                            .dy = chunk->logits,
                                                            .x = output_input(context, chunk),
                                                            .dweight = tile->gradient,
                                                            .dbias = tile->bias_gradient,
                                                            .tokens = chunk->tokens,
                                                            .in_features = width,
                                                            .out_features = tile->rows,
                                                            .accumulate = accumulate,
                                                            .dtype = context->dtype,
                                                        });
}

/* What was summed in fp32 becomes dx, rounded for the first time. */
static int narrow_sums(const struct mt_layer_context *context, const struct mt_head_chunk *chunk)
{
    return context->device->api->cast(
        context->stream, &(struct mt_cast_args){.src = chunk->wide,
                                                .dst = chunk->dx,
                                                .count = chunk->tokens * context->model->embedding_size,
                                                .src_dtype = MT_F32,
                                                .dst_dtype = context->dtype});
}

/* dx, the gradient of what was projected, becomes that of what was normed. */
static int projection_backward(const struct mt_layer_context *context, const void *weights, float *gradients,
                               const struct mt_head_chunk *chunk, bool accumulate)
{
    const struct mt_device_api *api = context->device->api;
    const size_t hidden = context->model->hidden_size, narrow = context->model->embedding_size;
    float *dweight = gradient(context, gradients, MT_ROLE_PROJECT_OUT);
    int r = 0;
    if (dweight) { /* with tiles, another chunk's rows may stand there by now */
        r = norm(context, weights, chunk);
        r = r ? r
              : api->linear_backward_weight(context->stream, &(struct mt_linear_backward_weight_args){
                                                                 .dy = chunk->dx,
                                                                 .x = chunk->normed,
                                                                 .dweight = dweight,
                                                                 .tokens = chunk->tokens,
                                                                 .in_features = hidden,
                                                                 .out_features = narrow,
                                                                 .accumulate = accumulate,
                                                                 .dtype = context->dtype,
                                                             });
    }
    r = r ? r
          : api->linear_backward_input(context->stream,
                                       &(struct mt_linear_backward_input_args){
                                           .dy = chunk->dx,
                                           .weight = weight(context, weights, MT_ROLE_PROJECT_OUT),
                                           .dx = chunk->projected,
                                           .tokens = chunk->tokens,
                                           .in_features = hidden,
                                           .out_features = narrow,
                                           .dtype = context->dtype,
                                       });
    const size_t bytes = chunk->tokens * hidden * mt_dtype_bytes(context->dtype);
    return r ? r : api->copy(context->stream, chunk->dx, chunk->projected, bytes);
}

int mt_head_norm_backward(const struct mt_layer_context *context, const void *weights, float *gradients,
                          const struct mt_head_chunk *chunk, bool accumulate)
{
    int r = chunk->wide ? narrow_sums(context, chunk) : 0;
    if (!r && projection(context))
        r = projection_backward(context, weights, gradients, chunk, accumulate);
    r = r ? r : scale(context, chunk->dx, chunk->tokens);
    if (!context->model->final_norm)
        return r;
    return r ? r
             : context->device->api->rms_norm_backward(
                   context->stream, &(struct mt_rms_norm_backward_args){
                                        .x = chunk->x,
                                        .weight = weight(context, weights, MT_ROLE_FINAL_NORM),
                                        .dy = chunk->dx,
                                        .rstd = chunk->rstd,
                                        .mean = context->model->norm_centered ? chunk->mean : NULL,
                                        .dx = chunk->dx,
                                        .dweight = gradient(context, gradients, MT_ROLE_FINAL_NORM),
                                        .dbias = gradient(context, gradients, MT_ROLE_FINAL_NORM_BIAS),
                                        .rows = chunk->tokens,
                                        .cols = context->model->hidden_size,
                                        .weight_offset = context->model->norm_weight_offset,
                                        .centered = context->model->norm_centered,
                                        .accumulate_dweight = accumulate,
                                        .dtype = context->dtype,
                                    });
}
