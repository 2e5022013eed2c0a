/* The second half of a dense layer.
 *
 *   n2 = norm(mid)                     (parallel: norm(x), or n1)
 *   b2 = Down(norm(activation(Gate n2) * (Up n2))), or Down(norm(activation(Up n2)))
 *   y  = (mid + scale * norm(b2)) * scalar */
#include "core/model/layer_visit.h"

/* What the MLP's norm reads; and the MLP. */
static const char *mlp_source(const struct mt_layer_visit *v)
{
    return v->layer->parallel ? v->x : v->a + v->p.mid;
}
static const char *mlp_input(const struct mt_layer_visit *v)
{
    if (v->layer->mlp_norm)
        return v->a + v->p.normed2;
    return v->layer->parallel ? mt_layer_attention_input(v) : v->a + v->p.mid;
}

static struct mt_xielu_args xielu_args(const struct mt_layer_visit *v)
{
    const struct mt_layer_context *context = v->context;
    return (struct mt_xielu_args){
        .x = v->a + v->p.gate_up,
        .y = v->a + v->p.product,
        .alpha_p = mt_layer_weight(context, v->layer, &v->slabs, MT_ROLE_XIELU_ALPHA_P),
        .alpha_n = mt_layer_weight(context, v->layer, &v->slabs, MT_ROLE_XIELU_ALPHA_N),
        .beta = mt_layer_weight(context, v->layer, &v->slabs, MT_ROLE_XIELU_BETA),
        .eps = mt_layer_weight(context, v->layer, &v->slabs, MT_ROLE_XIELU_EPS),
        .count = v->tokens * v->layer->intermediate_size,
        .dtype = context->dtype,
    };
}

static int activate(const struct mt_layer_visit *v)
{
    const struct mt_layer *layer = v->layer;
    const struct mt_device_api *api = v->context->device->api;
    const size_t wide = layer->intermediate_size, stride = mt_layer_mlp_size(layer);
    char *gate_up = v->a + v->p.gate_up;
    if (layer->xielu) {
        const struct mt_xielu_args args = xielu_args(v);
        return api->xielu(v->context->stream, &args);
    }
    return api->gated_activation(v->context->stream,
                                 &(struct mt_gated_activation_args){
                                     .gate = gate_up,
                                     .up = layer->gated ? mt_layer_at(v->context, gate_up, wide) : NULL,
                                     .out = v->a + v->p.product,
                                     .rows = v->tokens,
                                     .cols = wide,
                                     .gate_stride = stride,
                                     .up_stride = stride,
                                     .activation = layer->activation,
                                     .dtype = v->context->dtype,
                                 });
}

/* What the products gave becomes its own gradient. */
static int activate_backward(const struct mt_layer_visit *v)
{
    const struct mt_layer *layer = v->layer;
    const struct mt_device_api *api = v->context->device->api;
    const size_t wide = layer->intermediate_size, stride = mt_layer_mlp_size(layer);
    char *gate_up = v->a + v->p.gate_up, *dproduct = v->s + v->p.dproduct;
    void *up = layer->gated ? mt_layer_at(v->context, gate_up, wide) : NULL;
    if (layer->xielu) {
        const struct mt_xielu_args forward = xielu_args(v);
        return api->xielu_backward(v->context->stream,
                                   &(struct mt_xielu_backward_args){
                                       .x = gate_up,
                                       .dy = dproduct,
                                       .dx = gate_up,
                                       .alpha_p = forward.alpha_p,
                                       .alpha_n = forward.alpha_n,
                                       .beta = forward.beta,
                                       .eps = forward.eps,
                                       .dalpha_p = mt_layer_gradient(layer, &v->slabs, MT_ROLE_XIELU_ALPHA_P),
                                       .dalpha_n = mt_layer_gradient(layer, &v->slabs, MT_ROLE_XIELU_ALPHA_N),
                                       .count = forward.count,
                                       .accumulate = v->slabs.accumulate,
                                       .dtype = forward.dtype,
                                   });
    }
    return api->gated_activation_backward(v->context->stream, &(struct mt_gated_activation_backward_args){
                                                                  .gate = gate_up,
                                                                  .up = up,
                                                                  .dout = dproduct,
                                                                  .dgate = gate_up,
                                                                  .dup = up,
                                                                  .rows = v->tokens,
                                                                  .cols = wide,
                                                                  .gate_stride = stride,
                                                                  .up_stride = stride,
                                                                  .activation = layer->activation,
                                                                  .dtype = v->context->dtype,
                                                              });
}

/* A number of the checkpoint multiplies the layer's output; and its gradient. */
static int scale_output(const struct mt_layer_visit *v, void *rows)
{
    const struct mt_layer *layer = v->layer;
    const void *factor = mt_layer_weight(v->context, layer, &v->slabs, MT_ROLE_LAYER_SCALAR);
    if (!factor)
        return 0;
    return v->context->device->api->add(v->context->stream, &(struct mt_add_args){
                                                                .b = rows,
                                                                .y = rows,
                                                                .count = v->tokens * layer->hidden_size,
                                                                .scale = 1,
                                                                .factor = factor,
                                                                .dtype = v->context->dtype,
                                                            });
}

int mt_layer_mlp_forward(const struct mt_layer_visit *v, void *out)
{
    const struct mt_layer *layer = v->layer;
    const struct mt_products products = mt_layer_mlp_products(layer);
    const struct mt_layer_end end = mt_layer_mlp_end(v);
    char *product = v->a + v->p.product, *sub = v->a + v->p.sub2;
    if (layer->mlp_norm)
        TRY(mt_visit_norm(v, MT_ROLE_MLP_NORM, MT_ROLE_MLP_NORM_BIAS, layer->hidden_size, mlp_source(v),
                          v->a + v->p.normed2, v->p.numbers2));
    TRY(mt_visit_linear(v, &products, mlp_input(v), v->a + v->p.gate_up, mt_layer_mlp_size(layer), false));
    TRY(activate(v));
    if (layer->mlp_sub_norm)
        TRY(mt_visit_norm(v, MT_ROLE_MLP_SUB_NORM, MT_NUM_ROLES, layer->intermediate_size, product, sub,
                          v->p.sub2_numbers));
    if (!out && !layer->post_mlp_norm && !layer->side_size)
        return 0;
    void *end_of_layer = out;
    if (layer->side_size) /* goes on from here */
        out = v->a + v->p.side_x;
    if (!out) /* its norm is differentiated, so the product and its numbers are needed; the sum is not */
        out = v->s + v->p.dnormed;
    const void *residual = v->a + (layer->residual_normed ? v->p.normed2 : v->p.mid);
    TRY(mt_layer_end(v, &end, layer->mlp_sub_norm ? sub : product, residual, out));
    if (!layer->side_size)
        return scale_output(v, out);
    out = end_of_layer ? end_of_layer : v->s + v->p.dnormed;
    TRY(mt_layer_side_forward(v, out));
    return scale_output(v, out);
}

int mt_layer_mlp_backward(const struct mt_layer_visit *v, void *dy, void *dinput)
{
    const struct mt_layer *layer = v->layer;
    const struct mt_products products = mt_layer_mlp_products(layer);
    const struct mt_layer_end end = mt_layer_mlp_end(v);
    const size_t hidden = layer->hidden_size, stride = mt_layer_mlp_size(layer);
    char *gate_up = v->a + v->p.gate_up, *dproduct = v->s + v->p.dproduct, *product = v->a + v->p.product;
    const void *dbranch;
    TRY(scale_output(v, dy));
    TRY(mt_layer_side_backward(v, dy));
    TRY(mt_layer_end_backward(v, &end, dy, &dbranch));
    TRY(mt_visit_linear_backward(v, end.product, layer->mlp_sub_norm ? v->a + v->p.sub2 : product, dbranch,
                                 hidden, dproduct, false));
    if (layer->mlp_sub_norm)
        TRY(mt_visit_norm_backward(v, MT_ROLE_MLP_SUB_NORM, MT_NUM_ROLES, layer->intermediate_size, product,
                                   v->p.sub2_numbers, dproduct, dproduct, false));
    TRY(activate_backward(v));
    if (layer->parallel)
        return mt_visit_linear_backward(v, &products, mlp_input(v), gate_up, stride, dinput, false);
    if (!layer->mlp_norm)
        return mt_visit_linear_backward(v, &products, mlp_input(v), gate_up, stride, dy, true);
    char *dnormed = v->s + v->p.dnormed;
    TRY(mt_visit_linear_backward(v, &products, mlp_input(v), gate_up, stride, dnormed, false));
    if (layer->residual_normed)
        TRY(mt_layer_add(v->context, layer, v->tokens, dnormed, dy, 1, dnormed));
    return mt_visit_norm_backward(v, MT_ROLE_MLP_NORM, MT_ROLE_MLP_NORM_BIAS, hidden, v->a + v->p.mid,
                                  v->p.numbers2, dnormed, dy, !layer->residual_normed);
}
