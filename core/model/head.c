#include "core/model/head.h"

static const struct mt_group *group_of(const struct mt_layer_context *context)
{
    return &context->model->groups[mt_model_head_group(context->model)];
}

static const void *norm_weight(const struct mt_layer_context *context, const void *weights)
{
    const struct mt_parameter *p = group_of(context)->by_role[MT_ROLE_FINAL_NORM];
    return (const char *)weights + p->offset * mt_dtype_bytes(context->dtype);
}

int mt_head_norm(const struct mt_layer_context *context, const void *weights,
                 const struct mt_head_chunk *chunk)
{
    return context->device->api->rms_norm(context->stream,
                                          &(struct mt_rms_norm_args){
                                              .x = chunk->x,
                                              .weight = norm_weight(context, weights),
                                              .y = chunk->normed,
                                              .rstd = chunk->rstd,
                                              .rows = chunk->tokens,
                                              .cols = context->model->hidden_size,
                                              .eps = context->model->norm_eps,
                                              .weight_offset = context->model->norm_weight_offset,
                                              .dtype = context->dtype,
                                          });
}

int mt_head_logits(const struct mt_layer_context *context, const struct mt_head_chunk *chunk,
                   const struct mt_head_tile *tile)
{
    return context->device->api->linear(context->stream, &(struct mt_linear_args){
                                                             .x = chunk->normed,
                                                             .weight = tile->table,
                                                             .y = chunk->logits,
                                                             .tokens = chunk->tokens,
                                                             .in_features = context->model->hidden_size,
                                                             .out_features = tile->rows,
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
    const size_t hidden = context->model->hidden_size;
    int r = api->cross_entropy_backward(context->stream, &(struct mt_cross_entropy_backward_args){
                                                             .logits = chunk->logits,
                                                             .labels = chunk->labels,
                                                             .lse = chunk->lse,
                                                             .rows = chunk->tokens,
                                                             .cols = tile->rows,
                                                             .vocab_offset = tile->first,
                                                             .grad_scale = grad_scale,
                                                             .dtype = context->dtype,
                                                         });
    r = r ? r
          : api->linear_backward_input(context->stream, &(struct mt_linear_backward_input_args){
                                                            .dy = chunk->logits,
                                                            .weight = tile->table,
                                                            .dx = chunk->dx,
                                                            .tokens = chunk->tokens,
                                                            .in_features = hidden,
                                                            .out_features = tile->rows,
                                                            .accumulate = tile->first > 0,
                                                            .dtype = context->dtype,
                                                        });
    if (r || !tile->gradient)
        return r;
    return api->linear_backward_weight(context->stream, &(struct mt_linear_backward_weight_args){
                                                            .dy = chunk->logits,
                                                            .x = chunk->normed,
                                                            .dweight = tile->gradient,
                                                            .tokens = chunk->tokens,
                                                            .in_features = hidden,
                                                            .out_features = tile->rows,
                                                            .accumulate = accumulate,
                                                            .dtype = context->dtype,
                                                        });
}

int mt_head_norm_backward(const struct mt_layer_context *context, const void *weights, float *gradients,
                          const struct mt_head_chunk *chunk, bool accumulate)
{
    const struct mt_parameter *p = group_of(context)->by_role[MT_ROLE_FINAL_NORM];
    return context->device->api->rms_norm_backward(
        context->stream, &(struct mt_rms_norm_backward_args){
                             .x = chunk->x,
                             .weight = norm_weight(context, weights),
                             .dy = chunk->dx,
                             .rstd = chunk->rstd,
                             .dx = chunk->dx,
                             .dweight = gradients && !p->frozen ? gradients + p->train_offset : NULL,
                             .rows = chunk->tokens,
                             .cols = context->model->hidden_size,
                             .weight_offset = context->model->norm_weight_offset,
                             .accumulate_dweight = accumulate,
                             .dtype = context->dtype,
                         });
}
