#include "core/model/layer_parts.h"

const struct mt_products mt_layer_o_product = {.count = 1, .part = {{MT_ROLE_O, MT_ROLE_O_BIAS, 0, 0}}};
const struct mt_products mt_layer_down_product = {.count = 1,
                                                  .part = {{MT_ROLE_DOWN, MT_ROLE_DOWN_BIAS, 0, 0}}};

/* QKV in parts, each with its share of queries, values and keys: queries (0), keys (1) or values (2) of all.
 */
static void add_parts(const struct mt_layer *layer, size_t which, struct mt_products *products)
{
    static const size_t places[3] = {0, 2, 1};
    const size_t share = layer->num_heads * layer->head_dim / layer->qkv_parts;
    for (size_t i = 0; i < layer->qkv_parts; i++)
        products->part[products->count++] =
            (struct mt_product_part){MT_ROLE_QKV, MT_ROLE_QKV_BIAS, (3 * i + places[which]) * share, share};
}

struct mt_products mt_layer_qkv_products(const struct mt_layer *layer)
{
    if (layer->qkv_parts) {
        struct mt_products products = {0};
        for (size_t which = 0; which < 3; which++)
            add_parts(layer, which, &products);
        return products;
    }
    if (layer->group->by_role[MT_ROLE_QKV])
        return (struct mt_products){.count = 1, .part = {{MT_ROLE_QKV, MT_ROLE_QKV_BIAS, 0, 0}}};
    return (struct mt_products){.count = layer->shares_kv      ? 1
                                         : layer->value_is_key ? 2
                                                               : 3,
                                .part = {{MT_ROLE_Q, MT_ROLE_Q_BIAS, 0, 0},
                                         {MT_ROLE_K, MT_ROLE_K_BIAS, 0, 0},
                                         {MT_ROLE_V, MT_ROLE_V_BIAS, 0, 0}}};
}

struct mt_products mt_layer_one_of_qkv(const struct mt_layer *layer, size_t which)
{
    const size_t q = layer->num_heads * layer->head_dim, kv = layer->num_kv_heads * layer->head_dim;
    if (layer->qkv_parts) {
        struct mt_products parts = {0};
        add_parts(layer, which, &parts);
        return parts;
    }
    const struct mt_products all = mt_layer_qkv_products(layer);
    struct mt_products one = {.count = 1, .part = {all.part[0]}};
    if (all.count > 1)
        one.part[0] = all.part[which == 2 && layer->value_is_key ? 1 : which];
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

const void *mt_layer_weight(const struct mt_layer_context *context, const struct mt_layer *layer,
                            const struct mt_layer_slabs *slabs, enum mt_role role)
{
    const struct mt_parameter *p = parameter(layer, role);
    return p ? (const char *)slabs->weights + p->offset * mt_dtype_bytes(context->dtype) : NULL;
}

float *mt_layer_gradient(const struct mt_layer *layer, const struct mt_layer_slabs *slabs, enum mt_role role)
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

/* A product, or several whose matrices lie one behind the other: what one call of the device computes. */
struct run {
    size_t end; /* parts from the one on up to this are in it */
    const struct mt_parameter *matrix;
    size_t first, in_features, out_features; /* first: of the output features */
};

static struct run run_of(const struct mt_layer *layer, const struct mt_products *products, size_t first)
{
    const struct mt_product_part *start = &products->part[first];
    const struct mt_parameter *matrix = parameter(layer, start->role);
    const size_t out = matrix->input_first ? 1 : 0;
    struct run run = {.end = first + 1,
                      .matrix = matrix,
                      .first = start->first,
                      .in_features = matrix->shape[1 - out],
                      .out_features = start->rows ? start->rows : matrix->shape[out]};
    for (; !start->rows && !matrix->input_first && run.end < products->count; run.end++) {
        const struct mt_product_part *before = &products->part[run.end - 1], *part = &products->part[run.end];
        if (!adjoin(parameter(layer, before->role), parameter(layer, part->role)) ||
            !adjoin(parameter(layer, before->bias), parameter(layer, part->bias)))
            break;
        run.out_features += parameter(layer, part->role)->shape[0];
    }
    return run;
}

/* Elements before the run's part of its matrix. */
static size_t place_of(const struct run *run)
{
    return run->matrix->input_first ? run->first : run->first * run->in_features;
}

static const void *from(const struct mt_layer_context *context, const void *base, size_t elements)
{
    return base ? (const char *)base + elements * mt_dtype_bytes(context->dtype) : NULL;
}

int mt_layer_linear(const struct mt_layer_context *context, const struct mt_layer *layer,
                    const struct mt_layer_slabs *slabs, const struct mt_products *products, size_t tokens,
                    const void *x, void *y, size_t y_stride, bool accumulate)
{
    size_t column = 0;
    for (size_t i = 0; i < products->count;) {
        const struct mt_product_part *part = &products->part[i];
        const struct run run = run_of(layer, products, i);
        MT_LAYER_TRY(context->device->api->linear(
            context->stream,
            &(struct mt_linear_args){
                .x = x,
                .weight = from(context, mt_layer_weight(context, layer, slabs, part->role), place_of(&run)),
                .bias = from(context, mt_layer_weight(context, layer, slabs, part->bias), run.first),
                .y = mt_layer_at(context, y, column),
                .tokens = tokens,
                .in_features = run.in_features,
                .out_features = run.out_features,
                .y_stride = y_stride,
                .accumulate = accumulate,
                .weight_transposed = run.matrix->input_first,
                .weight_stride = run.matrix->shape[1],
                .dtype = context->dtype,
            }));
        i = run.end;
        column += run.out_features;
    }
    return 0;
}

/* The gradients of a matrix that is stored input first, and of its bias: its dweight is x^T dy. */
static int input_first_weight(const struct mt_layer_context *context, const struct mt_layer_slabs *slabs,
                              const struct mt_linear_backward_weight_args *usual)
{
    const struct mt_device_api *api = context->device->api;
    struct mt_linear_backward_weight_args bias = *usual;
    bias.dweight = NULL;
    if (bias.dbias)
        MT_LAYER_TRY(api->linear_backward_weight(context->stream, &bias));
    if (!usual->dweight)
        return 0;
    return api->linear_backward_weight(context->stream, &(struct mt_linear_backward_weight_args){
                                                            .dy = usual->x,
                                                            .x = usual->dy,
                                                            .dweight = usual->dweight,
                                                            .tokens = usual->tokens,
                                                            .in_features = usual->out_features,
                                                            .out_features = usual->in_features,
                                                            .dy_stride = usual->x_stride,
                                                            .x_stride = usual->dy_stride,
                                                            .accumulate = slabs->accumulate,
                                                            .dtype = context->dtype,
                                                        });
}

/* And dx = dy * weight^T. */
static int input_first_input(const struct mt_layer_context *context,
                             const struct mt_linear_backward_input_args *usual)
{
    return context->device->api->linear(context->stream, &(struct mt_linear_args){
                                                             .x = usual->dy,
                                                             .weight = usual->weight,
                                                             .y = usual->dx,
                                                             .tokens = usual->tokens,
                                                             .in_features = usual->out_features,
                                                             .out_features = usual->in_features,
                                                             .x_stride = usual->dy_stride,
                                                             .y_stride = usual->dx_stride,
                                                             .accumulate = usual->accumulate,
                                                             .dtype = context->dtype,
                                                         });
}

int mt_layer_linear_backward(const struct mt_layer_context *context, const struct mt_layer *layer,
                             const struct mt_layer_slabs *slabs, const struct mt_products *products,
                             size_t tokens, const void *x, const void *dy, size_t dy_stride, void *dx,
                             bool accumulate_dx)
{
    const struct mt_device_api *api = context->device->api;
    size_t column = 0;
    for (size_t i = 0; i < products->count;) {
        const enum mt_role role = products->part[i].role, bias = products->part[i].bias;
        const struct run run = run_of(layer, products, i);
        const void *dy_part = from(context, dy, column),
                   *matrix = mt_layer_weight(context, layer, slabs, role);
        float *dweight = mt_layer_gradient(layer, slabs, role),
              *dbias = mt_layer_gradient(layer, slabs, bias);
        const struct mt_linear_backward_weight_args weight = {
            .dy = dy_part,
            .x = x,
            .dweight = dweight ? dweight + place_of(&run) : NULL,
            .dbias = dbias ? dbias + run.first : NULL,
            .tokens = tokens,
            .in_features = run.in_features,
            .out_features = run.out_features,
            .dy_stride = dy_stride,
            .accumulate = slabs->accumulate,
            .dtype = context->dtype,
        };
        const struct mt_linear_backward_input_args input = {
            .dy = dy_part,
            .weight = from(context, matrix, place_of(&run)),
            .dx = dx,
            .tokens = tokens,
            .in_features = run.in_features,
            .out_features = run.out_features,
            .dy_stride = dy_stride,
            .accumulate = i > 0 || accumulate_dx,
            .dtype = context->dtype,
        };
        /* The weights' gradients first: dx may lie where x does not, but dy may be dx's own. */
        if (run.matrix->input_first)
            MT_LAYER_TRY(input_first_weight(context, slabs, &weight));
        else if (dweight || dbias)
            MT_LAYER_TRY(api->linear_backward_weight(context->stream, &weight));
        if (!dx)
            ;
        else if (run.matrix->input_first)
            MT_LAYER_TRY(input_first_input(context, &input));
        else
            MT_LAYER_TRY(api->linear_backward_input(context->stream, &input));
        i = run.end;
        column += run.out_features;
    }
    return 0;
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
    const size_t rows = tokens * (norm->rows_a_token ? norm->rows_a_token : 1);
    return context->device->api->rms_norm(
        context->stream, &(struct mt_rms_norm_args){
                             .x = x,
                             .weight = mt_layer_weight(context, layer, slabs, norm->weight),
                             .bias = mt_layer_weight(context, layer, slabs, norm->bias),
                             .y = y,
                             .rstd = numbers,
                             .mean = numbers && layer->norm_centered ? numbers + rows * norm->groups : NULL,
                             .rows = rows,
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
    const size_t rows = tokens * (norm->rows_a_token ? norm->rows_a_token : 1);
    return context->device->api->rms_norm_backward(
        context->stream, &(struct mt_rms_norm_backward_args){
                             .x = x,
                             .weight = mt_layer_weight(context, layer, slabs, norm->weight),
                             .dy = dy,
                             .rstd = numbers,
                             .mean = layer->norm_centered ? numbers + rows * norm->groups : NULL,
                             .dx = dx,
                             .dweight = mt_layer_gradient(layer, slabs, norm->weight),
                             .dbias = mt_layer_gradient(layer, slabs, norm->bias),
                             .rows = rows,
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
