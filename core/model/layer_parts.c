#include "core/model/layer_parts.h"

const struct mt_products mt_layer_o_product = {.count = 1, .part = {{MT_ROLE_O, MT_ROLE_O_BIAS, 0, 0}}};
const struct mt_products mt_layer_down_product = {.count = 1,
                                                  .part = {{MT_ROLE_DOWN, MT_ROLE_DOWN_BIAS, 0, 0}}};

struct mt_products mt_layer_qkv_products(const struct mt_layer *layer)
{
    if (layer->group->by_role[MT_ROLE_QKV])
        return (struct mt_products){.count = 1, .part = {{MT_ROLE_QKV, MT_ROLE_QKV_BIAS, 0, 0}}};
    return (struct mt_products){.count = 3,
                                .part = {{MT_ROLE_Q, MT_ROLE_Q_BIAS, 0, 0},
                                         {MT_ROLE_K, MT_ROLE_K_BIAS, 0, 0},
                                         {MT_ROLE_V, MT_ROLE_V_BIAS, 0, 0}}};
}

struct mt_products mt_layer_one_of_qkv(const struct mt_layer *layer, size_t which)
{
    const size_t q = layer->num_heads * layer->head_dim, kv = layer->num_kv_heads * layer->head_dim;
    const struct mt_products all = mt_layer_qkv_products(layer);
    struct mt_products one = {.count = 1, .part = {all.part[0]}};
    if (all.count == 3)
        one.part[0] = all.part[which];
    else {
        one.part[0].first = which == 0 ? 0 : q + (which - 1) * kv;
        one.part[0].rows = which == 0 ? q : kv;
    }
    return one;
}

struct mt_products mt_layer_mlp_products(const struct mt_layer *layer)
{
    if (layer->group->by_role[MT_ROLE_GATE_UP])
        return (struct mt_products){.count = 1, .part = {{MT_ROLE_GATE_UP, MT_NUM_ROLES, 0, 0}}};
    if (!layer->gated)
        return (struct mt_products){.count = 1, .part = {{MT_ROLE_UP, MT_ROLE_UP_BIAS, 0, 0}}};
    return (struct mt_products){
        .count = 2, .part = {{MT_ROLE_GATE, MT_ROLE_GATE_BIAS, 0, 0}, {MT_ROLE_UP, MT_ROLE_UP_BIAS, 0, 0}}};
}

/* NULL for MT_NUM_ROLES, which stands for none. */
static const struct mt_parameter *parameter(const struct mt_layer *layer, enum mt_role role)
{
    return role < MT_NUM_ROLES ? layer->group->by_role[role] : NULL;
}

/* A weight, or its gradient, in a slab, from its element `first` on; NULL where the layer has none. */
static const void *weight(const struct mt_layer_context *context, const struct mt_layer *layer,
                          const struct mt_layer_slabs *slabs, enum mt_role role, size_t first)
{
    const struct mt_parameter *p = parameter(layer, role);
    return p ? (const char *)slabs->weights + (p->offset + first) * mt_dtype_bytes(context->dtype) : NULL;
}

static float *gradient(const struct mt_layer *layer, const struct mt_layer_slabs *slabs, enum mt_role role)
{
    const struct mt_parameter *p = parameter(layer, role);
    return p && !p->frozen && slabs->gradients ? slabs->gradients + p->train_offset : NULL;
}

static bool adjoin(const struct mt_parameter *a, const struct mt_parameter *b)
{
    if (!a || !b)
        return !a && !b;
    return b->offset == a->offset + a->count && !a->frozen == !b->frozen &&
           (a->frozen || b->train_offset == a->train_offset + a->count);
}

/* Parts from `first` on that lie one behind the other and can be one product; their output features together.
 */
static size_t run_of(const struct mt_layer *layer, const struct mt_products *products, size_t first,
                     size_t *features)
{
    size_t end = first + 1;
    const size_t rows = products->part[first].rows;
    *features = rows ? rows : parameter(layer, products->part[first].role)->shape[0];
    for (; !rows && end < products->count; end++) {
        const struct mt_product_part *before = &products->part[end - 1], *part = &products->part[end];
        if (!adjoin(parameter(layer, before->role), parameter(layer, part->role)) ||
            !adjoin(parameter(layer, before->bias), parameter(layer, part->bias)))
            break;
        *features += parameter(layer, part->role)->shape[0];
    }
    return end;
}

int mt_layer_linear(const struct mt_layer_context *context, const struct mt_layer *layer,
                    const struct mt_layer_slabs *slabs, const struct mt_products *products, size_t tokens,
                    const void *x, void *y, size_t y_stride, bool accumulate)
{
    size_t column = 0, features;
    for (size_t i = 0, end; i < products->count; i = end, column += features) {
        const struct mt_product_part *part = &products->part[i];
        end = run_of(layer, products, i, &features);
        const size_t in_features = parameter(layer, part->role)->shape[1];
        MT_LAYER_TRY(context->device->api->linear(
            context->stream,
            &(struct mt_linear_args){
                .x = x,
                .weight = weight(context, layer, slabs, part->role, part->first * in_features),
                .bias = weight(context, layer, slabs, part->bias, part->first),
                .y = mt_layer_at(context, y, column),
                .tokens = tokens,
                .in_features = in_features,
                .out_features = features,
                .y_stride = y_stride,
                .accumulate = accumulate,
                .dtype = context->dtype,
            }));
    }
    return 0;
}

int mt_layer_linear_backward(const struct mt_layer_context *context, const struct mt_layer *layer,
                             const struct mt_layer_slabs *slabs, const struct mt_products *products,
                             size_t tokens, const void *x, const void *dy, size_t dy_stride, void *dx,
                             bool accumulate_dx)
{
    const struct mt_device_api *api = context->device->api;
    size_t column = 0, features;
    for (size_t i = 0, end; i < products->count; i = end, column += features) {
        end = run_of(layer, products, i, &features);
        const enum mt_role role = products->part[i].role, bias = products->part[i].bias;
        const size_t in_features = parameter(layer, role)->shape[1];
        const void *dy_part = (const char *)dy + column * mt_dtype_bytes(context->dtype);
        float *dweight = gradient(layer, slabs, role), *dbias = gradient(layer, slabs, bias);
        /* The weights' gradients first: dx may lie where x does not, but dy may be dx's own. */
        if (dweight || dbias)
            MT_LAYER_TRY(
                api->linear_backward_weight(context->stream, &(struct mt_linear_backward_weight_args){
                                                                 .dy = dy_part,
                                                                 .x = x,
                                                                 .dweight = dweight,
                                                                 .dbias = dbias,
                                                                 .tokens = tokens,
                                                                 .in_features = in_features,
                                                                 .out_features = features,
                                                                 .dy_stride = dy_stride,
                                                                 .accumulate = slabs->accumulate,
                                                                 .dtype = context->dtype,
                                                             }));
        MT_LAYER_TRY(
            api->linear_backward_input(context->stream, &(struct mt_linear_backward_input_args){
                                                            .dy = dy_part,
                                                            .weight = weight(context, layer, slabs, role, 0),
                                                            .dx = dx,
                                                            .tokens = tokens,
                                                            .in_features = in_features,
                                                            .out_features = features,
                                                            .dy_stride = dy_stride,
                                                            .accumulate = i > 0 || accumulate_dx,
                                                            .dtype = context->dtype,
                                                        }));
    }
    return 0;
}

struct mt_layer_norm mt_layer_hidden_norm(const struct mt_layer *layer, enum mt_role weight_role,
                                          enum mt_role bias)
{
    return (struct mt_layer_norm){
        .weight = weight_role, .bias = bias, .groups = 1, .cols = layer->hidden_size};
}

struct mt_layer_norm mt_layer_head_norm(const struct mt_layer *layer, enum mt_role weight_role)
{
    const bool queries = weight_role == MT_ROLE_Q_NORM;
    const size_t heads = queries ? layer->num_heads : layer->num_kv_heads;
    struct mt_layer_norm norm = {
        .weight = weight_role,
        .bias = queries ? MT_ROLE_Q_NORM_BIAS : MT_ROLE_K_NORM_BIAS,
        .groups = heads,
        .cols = layer->head_dim,
        .weight_per_group = layer->qk_norm == MT_QK_NORM_PER_HEAD,
    };
    if (layer->qk_norm == MT_QK_NORM_WHOLE) {
        norm.groups = 1;
        norm.cols = heads * layer->head_dim;
    }
    return norm;
}

int mt_layer_norm(const struct mt_layer_context *context, const struct mt_layer *layer,
                  const struct mt_layer_slabs *slabs, const struct mt_layer_norm *norm, size_t tokens,
                  const void *x, void *y, float *numbers)
{
    return context->device->api->rms_norm(
        context->stream, &(struct mt_rms_norm_args){
                             .x = x,
                             .weight = weight(context, layer, slabs, norm->weight, 0),
                             .bias = weight(context, layer, slabs, norm->bias, 0),
                             .y = y,
                             .rstd = numbers,
                             .mean = numbers && layer->norm_centered ? numbers + tokens * norm->groups : NULL,
                             .rows = tokens,
                             .cols = norm->cols,
                             .groups = norm->groups,
                             .x_stride = norm->x_stride,
                             .y_stride = norm->y_stride,
                             .eps = layer->norm_eps,
                             .weight_offset = layer->norm_weight_offset,
                             .centered = layer->norm_centered,
                             .weight_per_group = norm->weight_per_group,
                             .dtype = context->dtype,
                         });
}

int mt_layer_norm_backward(const struct mt_layer_context *context, const struct mt_layer *layer,
                           const struct mt_layer_slabs *slabs, const struct mt_layer_norm *norm,
                           size_t tokens, const void *x, const float *numbers, const void *dy, void *dx,
                           size_t d_stride, bool accumulate_dx)
{
    return context->device->api->rms_norm_backward(
        context->stream, &(struct mt_rms_norm_backward_args){
                             .x = x,
                             .weight = weight(context, layer, slabs, norm->weight, 0),
                             .dy = dy,
                             .rstd = numbers,
                             .mean = layer->norm_centered ? numbers + tokens * norm->groups : NULL,
                             .dx = dx,
                             .dweight = gradient(layer, slabs, norm->weight),
                             .dbias = gradient(layer, slabs, norm->bias),
                             .rows = tokens,
                             .cols = norm->cols,
                             .groups = norm->groups,
                             .x_stride = norm->x_stride,
                             .dy_stride = d_stride,
                             .dx_stride = d_stride,
                             .weight_offset = layer->norm_weight_offset,
                             .centered = layer->norm_centered,
                             .weight_per_group = norm->weight_per_group,
                             .accumulate_dx = accumulate_dx,
                             .accumulate_dweight = slabs->accumulate,
                             .dtype = context->dtype,
                         });
}

int mt_layer_add(const struct mt_layer_context *context, const struct mt_layer *layer, size_t tokens,
                 const void *a, const void *b, float scale, void *y)
{
    return context->device->api->add(context->stream, &(struct mt_add_args){
                                                          .a = a,
                                                          .b = b,
                                                          .y = y,
                                                          .count = tokens * layer->hidden_size,
                                                          .scale = scale,
                                                          .dtype = context->dtype,
                                                      });
}
