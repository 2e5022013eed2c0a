/* What layers read beside the stream (gemma4): a small vector a layer and token, made before the first layer
 * of the token's own embedding for that purpose, e, and of the stream's beginning, h.
 *
 *   p = (norm(P h / sqrt(hidden)) + sqrt(size) e) / sqrt(2)         for each layer its part
 *   after the MLP: out = out + norm(Up (activation(Gate out) * p))
 *
 * Each layer's part has a place of its own beside the stream, and so do keys and values that one layer makes
 * and later ones read too. Each is written once in a pass, so one copy serves all layers, and no layer's kept
 * input holds any of it. Of keys and values the readers' gradients are added in place. */
#include "core/model/layer_visit.h"

#include <math.h>

static const struct mt_products side_gate = {.count = 1, .part = {{MT_ROLE_SIDE_GATE, MT_NUM_ROLES, 0, 0}}};
static const struct mt_products side_up = {.count = 1, .part = {{MT_ROLE_SIDE_UP, MT_NUM_ROLES, 0, 0}}};

static bool makes(const struct mt_layer_visit *v)
{
    return v->layer->side_size > 0 && v->layer == v->context->model->layers;
}

/* Elements of what all layers read. */
static size_t all_inputs(const struct mt_layer_visit *v)
{
    return v->tokens * v->context->model->num_layers * v->layer->side_size;
}

static int add(const struct mt_layer_visit *v, const void *a, const void *b, double scale, void *y,
               size_t count)
{
    return v->context->device->api->add(
        v->context->stream,
        &(struct mt_add_args){
            .a = a, .b = b, .y = y, .count = count, .scale = (float)scale, .dtype = v->context->dtype});
}

/* Layer `index`'s part of the product of all. */
static struct mt_products part_of(const struct mt_layer_visit *v, size_t index)
{
    const size_t size = v->layer->side_size;
    return (struct mt_products){.count = 1,
                                .part = {{MT_ROLE_LAYER_INPUTS, MT_NUM_ROLES, index * size, size}}};
}

static struct mt_layer_norm inputs_norm(const struct mt_layer_visit *v)
{
    return (struct mt_layer_norm){.weight = MT_ROLE_LAYER_INPUTS_NORM,
                                  .bias = MT_NUM_ROLES,
                                  .rows_a_token = v->context->model->num_layers,
                                  .groups = 1,
                                  .cols = v->layer->side_size};
}

static double input_scale(const struct mt_layer_visit *v)
{
    return 1 / sqrt((double)v->layer->hidden_size);
}

int mt_layer_side_make(const struct mt_layer_visit *v)
{
    if (!makes(v))
        return 0;
    const size_t size = v->layer->side_size, count = all_inputs(v);
    const struct mt_layer_norm norm = inputs_norm(v);
    char *raw = v->a + v->p.inputs_raw, *normed = v->s + v->p.dinputs;
    char *inputs = mt_layer_plane(v, v->beside, v->layer->side_place);
    for (size_t i = 0; i < v->context->model->num_layers; i++) {
        const struct mt_products part = part_of(v, i);
        TRY(mt_visit_linear(v, &part, v->x, mt_layer_at(v->context, raw, i * size * v->tokens), size, false));
    }
    TRY(add(v, NULL, raw, input_scale(v), raw, count));
    TRY(mt_layer_norm(v->context, v->layer, &v->slabs, &norm, v->tokens, raw, normed,
                      mt_layer_numbers(v, v->p.inputs_numbers)));
    if (v->recomputed) /* backward needs what went into the norm, and its numbers */
        return 0;
    TRY(add(v, normed, inputs, 1, inputs, count));
    return add(v, NULL, inputs, M_SQRT1_2, inputs, count);
}

int mt_layer_side_make_backward(const struct mt_layer_visit *v, void *dy)
{
    if (!makes(v))
        return 0;
    const size_t size = v->layer->side_size, count = all_inputs(v);
    const struct mt_layer_norm norm = inputs_norm(v);
    char *dinputs = mt_layer_plane(v, v->beside_gradient, v->layer->side_place), *draw = v->s + v->p.dinputs;
    TRY(add(v, NULL, dinputs, M_SQRT1_2, dinputs, count)); /* of e, times its scale, from here on */
    TRY(mt_layer_norm_backward(v->context, v->layer, &v->slabs, &norm, v->tokens, v->a + v->p.inputs_raw,
                               mt_layer_numbers(v, v->p.inputs_numbers), dinputs, draw, 0, false));
    TRY(add(v, NULL, draw, input_scale(v), draw, count));
    for (size_t i = 0; i < v->context->model->num_layers; i++) {
        const struct mt_products part = part_of(v, i);
        TRY(mt_visit_linear_backward(v, &part, v->x, mt_layer_at(v->context, draw, i * size * v->tokens),
                                     size, dy, true));
    }
    return 0;
}

int mt_layer_side_hand_on_keys(const struct mt_layer_visit *v)
{
    const struct mt_device_api *api = v->context->device->api;
    const size_t kv = mt_layer_kv_size(v->layer);
    const size_t bytes = kv * v->tokens * mt_dtype_bytes(v->context->dtype);
    if (!v->layer->stores_kv || v->recomputed)
        return 0;
    TRY(api->copy(v->context->stream, mt_layer_plane(v, v->beside, v->layer->kv_place), v->a + v->p.key,
                  bytes));
    return api->copy(v->context->stream, mt_layer_plane(v, v->beside, v->layer->kv_place + kv),
                     v->a + v->p.value, bytes);
}

/* The layer's own part of what is beside the stream. */
static const void *own_input(const struct mt_layer_visit *v)
{
    return mt_layer_plane(v, v->beside, v->layer->side_place);
}

static struct mt_layer_end side_end(const struct mt_layer_visit *v)
{
    return (struct mt_layer_end){&side_up,         true, MT_ROLE_SIDE_NORM, MT_NUM_ROLES, v->p.side_branch,
                                 v->p.side_numbers};
}

int mt_layer_side_forward(const struct mt_layer_visit *v, void *out)
{
    const struct mt_layer_end end = side_end(v);
    const char *x = v->a + v->p.side_x;
    const size_t size = v->layer->side_size;
    TRY(mt_visit_linear(v, &side_gate, x, v->a + v->p.side_gate, size, false));
    TRY(v->context->device->api->gated_activation(v->context->stream, &(struct mt_gated_activation_args){
                                                                          .gate = v->a + v->p.side_gate,
                                                                          .up = own_input(v),
                                                                          .out = v->a + v->p.side_product,
                                                                          .rows = v->tokens,
                                                                          .cols = size,
                                                                          .activation = v->layer->activation,
                                                                          .dtype = v->context->dtype,
                                                                      }));
    return mt_layer_end(v, &end, v->a + v->p.side_product, x, out);
}

int mt_layer_side_backward(const struct mt_layer_visit *v, void *dy)
{
    const struct mt_layer_end end = side_end(v);
    const size_t size = v->layer->side_size;
    char *gate = v->a + v->p.side_gate, *dproduct = v->s + v->p.dproduct;
    const void *dbranch;
    if (!size)
        return 0;
    TRY(mt_layer_end_backward(v, &end, dy, &dbranch));
    TRY(mt_visit_linear_backward(v, &side_up, v->a + v->p.side_product, dbranch, v->layer->hidden_size,
                                 dproduct, false));
    TRY(v->context->device->api->gated_activation_backward(
        v->context->stream, &(struct mt_gated_activation_backward_args){
                                .gate = gate,
                                .up = own_input(v),
                                .dout = dproduct,
                                .dgate = gate,
                                .dup = mt_layer_plane(v, v->beside_gradient, v->layer->side_place),
                                .rows = v->tokens,
                                .cols = size,
                                .activation = v->layer->activation,
                                .dtype = v->context->dtype,
                            }));
    return mt_visit_linear_backward(v, &side_gate, v->a + v->p.side_x, gate, size, dy, true);
}
