/* The dense template: attention (layer_attention.c) and an MLP (layer_mlp.c) on one residual stream, with
 * what families differ in; before the first layer, what stands between it and the embedding (layer_entry.c).
 *
 *   n1  = norm(x)                       (or x itself, where only results are normed)
 *   b1  = O(attention(rope(norm(Q n1)), rope(norm(K n1)), V n1))
 *   mid = x + scale * norm(b1)          (or norm(x + b1); n1 + b1)
 *   n2  = norm(mid)                     (parallel: norm(x), or n1)
 *   b2  = Down(activation(Gate n2) * (Up n2)), or Down(activation(Up n2))
 *   y   = mid + scale * norm(b2)        (or norm(mid + b2); n2 + b2)
 *
 * Each norm is there or not; layer_side.c has what gemma4 adds. */
#include "core/model/layer_visit.h"

static int dense_layout(const struct mt_layer_context *context, const struct mt_layer *layer, size_t tokens,
                        struct mt_layer_layout *layout)
{
    struct mt_layer_places places;
    TRY(mt_layer_places(context, layer, tokens, &places));
    layout->activation_bytes = places.activation_bytes;
    layout->scratch_bytes = places.scratch_bytes;
    return 0;
}

static int dense_forward(const struct mt_layer_context *context, const struct mt_layer *layer,
                         const void *weights, const struct mt_rows *rows, const void *x, void *y,
                         void *activations, void *scratch)
{
    struct mt_layer_visit v;
    TRY(mt_layer_visit_open(&v, context, layer, weights, rows->tokens, x, activations, scratch));
    TRY(mt_layer_entry(&v, rows->positions));
    v.beside = rows->beside;
    v.recomputed = rows->recomputed;
    TRY(mt_layer_side_make(&v));
    TRY(mt_layer_attention_forward(&v, rows));
    TRY(mt_layer_side_hand_on_keys(&v));
    return mt_layer_mlp_forward(&v, y);
}

/* What the entry left in the activations. */
static void find_entry(struct mt_layer_visit *v)
{
    const struct mt_model *model = v->context->model;
    if (!v->layer->entry)
        return;
    if (model->entry_norm)
        v->x = v->a + v->p.entry;
    else
        v->x = v->a + v->p.entry_sum;
}

static int dense_backward(const struct mt_layer_context *context, const struct mt_layer *layer,
                          const void *weights, float *gradients, bool accumulate, const struct mt_rows *rows,
                          const void *x, void *dy, void *activations, void *scratch)
{
    struct mt_layer_visit v;
    TRY(mt_layer_visit_open(&v, context, layer, weights, rows->tokens, x, activations, scratch));
    v.slabs.gradients = gradients;
    v.slabs.accumulate = accumulate;
    v.beside = rows->beside;
    v.beside_gradient = rows->beside_gradient;
    find_entry(&v);
    /* In parallel blocks the MLP's input is n1 or has a norm of its own; n1's two gradients are summed. */
    const bool shared = layer->parallel && !layer->mlp_norm;
    TRY(mt_layer_mlp_backward(&v, dy, v.s + (shared ? v.p.dnormed : v.p.dnormed2)));
    TRY(mt_layer_attention_backward(&v, rows, dy));
    TRY(mt_layer_side_make_backward(&v, dy));
    return mt_layer_entry_backward(&v, rows->positions, x, dy);
}

static int dense_decode(const struct mt_layer_context *context, const struct mt_layer *layer,
                        const void *weights, const struct mt_decode_rows *rows,
                        const struct mt_layer_cache *cache, const void *x, void *y, void *activations,
                        void *scratch)
{
    struct mt_layer_visit v;
    TRY(mt_layer_visit_open(&v, context, layer, weights, rows->tokens, x, activations, scratch));
    TRY(mt_layer_entry(&v, rows->positions));
    v.beside = rows->beside;
    TRY(mt_layer_side_make(&v));
    TRY(mt_layer_attention_decode(&v, rows, cache)); /* keys and values that others read are in the caches */
    return mt_layer_mlp_forward(&v, y);
}

const struct mt_layer_template mt_layer_dense_attention = {
    .name = "dense_attention",
    .layout = dense_layout,
    .forward = dense_forward,
    .backward = dense_backward,
    .decode = dense_decode,
};
