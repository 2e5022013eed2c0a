/* Inside core/model: one pass through a dense layer, and what its pieces (layer_entry.c, layer_attention.c,
 * layer_mlp.c) share: where everything lies in the two workspaces, and the end of either half. */
#ifndef MT_MODEL_LAYER_VISIT_H
#define MT_MODEL_LAYER_VISIT_H

#include "core/model/layer_parts.h"

#define TRY MT_LAYER_TRY

/* In bytes from the start of the activations ... */
struct mt_layer_places {
    size_t entry_sum, entry, entry_numbers;
    size_t inputs_raw, inputs_numbers; /* what all layers read beside the stream, made by the first */
    size_t normed1, numbers1, qkv, qk, q_numbers, k_numbers, key, value, v_numbers, lse, attended, sub1,
        sub1_numbers, branch1, post1, mid;
    size_t normed2, numbers2, gate_up, product, sub2, sub2_numbers, branch2, post2;
    size_t side_x, side_gate, side_product, side_branch, side_numbers;
    size_t activation_bytes;
    /* ... and from the start of the scratch. */
    size_t dbranch, dnormed, dnormed2, dproduct, dattended, dqkv, dkey, dvalue, dinputs, workspace,
        scratch_bytes;
};

struct mt_layer_visit {
    const struct mt_layer_context *context;
    const struct mt_layer *layer;
    struct mt_layer_slabs slabs;
    struct mt_layer_places p;
    size_t tokens;
    char *a, *s;   /* the two workspaces */
    const char *x; /* what the first half reads: the layer's input, or what the entry made of it */
    char *beside, *beside_gradient; /* mt_rows' */
    bool recomputed;
};

int mt_layer_places(const struct mt_layer_context *context, const struct mt_layer *layer, size_t tokens,
                    struct mt_layer_places *places);
int mt_layer_visit_open(struct mt_layer_visit *v, const struct mt_layer_context *context,
                        const struct mt_layer *layer, const void *weights, size_t tokens, const void *x,
                        void *activations, void *scratch);

/* ---- sizes of a token's row, in elements ---- */

static inline size_t mt_layer_q_size(const struct mt_layer *layer)
{
    return layer->num_heads * layer->head_dim;
}
static inline size_t mt_layer_kv_size(const struct mt_layer *layer)
{
    return layer->num_kv_heads * layer->head_dim;
}
/* What the products give: queries, keys and, where they have a product of their own, values. */
static inline size_t mt_layer_qkv_size(const struct mt_layer *layer)
{
    if (layer->shares_kv)
        return mt_layer_q_size(layer);
    return mt_layer_q_size(layer) + (layer->value_is_key ? 1 : 2) * mt_layer_kv_size(layer);
}
static inline size_t mt_layer_mlp_size(const struct mt_layer *layer)
{
    return (layer->gated ? 2 : 1) * layer->intermediate_size;
}

/* ---- the same calls, shorter ---- */

static inline float *mt_layer_numbers(const struct mt_layer_visit *v, size_t where)
{
    return (float *)(void *)(v->a + where);
}

static inline int mt_visit_norm(const struct mt_layer_visit *v, enum mt_role role, enum mt_role bias,
                                size_t cols, const void *x, void *y, size_t numbers)
{
    const struct mt_layer_norm norm = {.weight = role, .bias = bias, .groups = 1, .cols = cols};
    return mt_layer_norm(v->context, v->layer, &v->slabs, &norm, v->tokens, x, y,
                         mt_layer_numbers(v, numbers));
}

static inline int mt_visit_norm_backward(const struct mt_layer_visit *v, enum mt_role role, enum mt_role bias,
                                         size_t cols, const void *x, size_t numbers, const void *dy, void *dx,
                                         bool accumulate_dx)
{
    const struct mt_layer_norm norm = {.weight = role, .bias = bias, .groups = 1, .cols = cols};
    return mt_layer_norm_backward(v->context, v->layer, &v->slabs, &norm, v->tokens, x,
                                  mt_layer_numbers(v, numbers), dy, dx, 0, accumulate_dx);
}

static inline int mt_visit_linear(const struct mt_layer_visit *v, const struct mt_products *products,
                                  const void *x, void *y, size_t y_stride, bool accumulate)
{
    return mt_layer_linear(v->context, v->layer, &v->slabs, products, v->tokens, x, y, y_stride, accumulate);
}

static inline int mt_visit_linear_backward(const struct mt_layer_visit *v, const struct mt_products *products,
                                           const void *x, const void *dy, size_t dy_stride, void *dx,
                                           bool accumulate_dx)
{
    return mt_layer_linear_backward(v->context, v->layer, &v->slabs, products, v->tokens, x, dy, dy_stride,
                                    dx, accumulate_dx);
}

/* ---- either half's end ---- */

struct mt_layer_end {
    const struct mt_products *product;
    bool normed; /* with the norm of these roles: of the product, or of the sum */
    enum mt_role role, bias;
    size_t branch, numbers; /* places: what waits to be normed, and the norm's numbers */
};
struct mt_layer_end mt_layer_attention_end(const struct mt_layer_visit *v);
struct mt_layer_end mt_layer_mlp_end(const struct mt_layer_visit *v);

/* out = residual + scale * norm(product of input), or norm(residual + scale * product of input). */
int mt_layer_end(const struct mt_layer_visit *v, const struct mt_layer_end *end, const void *input,
                 const void *residual, void *out);
/* dy, the gradient of out, becomes that of the residual as far as it comes by the sum; *dbranch is that of
 * the product (dy itself, or in the scratch). */
int mt_layer_end_backward(const struct mt_layer_visit *v, const struct mt_layer_end *end, void *dy,
                          const void **dbranch);

/* What stands at a place beside the stream, or in its gradient. */
static inline void *mt_layer_plane(const struct mt_layer_visit *v, char *beside, size_t place)
{
    return beside + place * v->tokens * mt_dtype_bytes(v->context->dtype);
}

/* ---- the pieces ---- */

/* What layers read beside the stream (layer_side.c): the first one makes it of the embeddings; each reads its
 * own part between out = the stream after the MLP and the layer's end; and some hand on keys and values. */
int mt_layer_side_make(const struct mt_layer_visit *v);
int mt_layer_side_make_backward(const struct mt_layer_visit *v, void *dy);
int mt_layer_side_hand_on_keys(const struct mt_layer_visit *v);
int mt_layer_side_forward(const struct mt_layer_visit *v, void *out);
int mt_layer_side_backward(const struct mt_layer_visit *v, void *dy);

/* From the embedding's rows, v->x, to what the first half reads: v->x then. */
int mt_layer_entry(struct mt_layer_visit *v, const int32_t *positions);
/* dy, the gradient of that, becomes the one of the embedding's rows `x`. */
int mt_layer_entry_backward(const struct mt_layer_visit *v, const int32_t *positions, const void *x,
                            void *dy);

/* What attention reads. */
static inline const char *mt_layer_attention_input(const struct mt_layer_visit *v)
{
    return v->layer->attention_norm ? v->a + v->p.normed1 : v->x;
}
struct mt_attention_args mt_layer_attention_args(const struct mt_layer_context *context,
                                                 const struct mt_layer *layer, const int32_t *document_starts,
                                                 size_t num_documents);
/* Elements of a row of queries and keys that lie apart from the products; 0: they are used in place. */
size_t mt_layer_qk_cols(const struct mt_layer *layer);
/* From v->x to mid. */
int mt_layer_attention_forward(const struct mt_layer_visit *v, const struct mt_rows *rows);
/* dmid, the gradient of mid, becomes that of v->x. In parallel blocks that share the norm `dnormed` holds the
 * MLP's part of the gradient of its result. */
int mt_layer_attention_backward(const struct mt_layer_visit *v, const struct mt_rows *rows, void *dmid);
int mt_layer_attention_decode(const struct mt_layer_visit *v, const struct mt_decode_rows *rows,
                              const struct mt_layer_cache *cache);

/* From mid to out; out NULL: only what backward needs. */
int mt_layer_mlp_forward(const struct mt_layer_visit *v, void *out);
/* dy becomes the gradient of mid; in parallel blocks, where mid is not read, only the gradient of the MLP's
 * input is left in `dinput`. */
int mt_layer_mlp_backward(const struct mt_layer_visit *v, void *dy, void *dinput);

#endif
