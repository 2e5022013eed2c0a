/* Inside core/model: what layer templates are made of: products and norms of weights found by role. */
#ifndef MT_MODEL_LAYER_PARTS_H
#define MT_MODEL_LAYER_PARTS_H

#include "core/model/layer.h"

#define MT_LAYER_TRY(call)                                                                                   \
    do {                                                                                                     \
        int try_result = (call);                                                                             \
        if (try_result)                                                                                      \
            return try_result;                                                                               \
    } while (0)

/* The slabs of a layer and what happens to gradients. */
struct mt_layer_slabs {
    const void *weights;
    float *gradients; /* NULL: none are wanted */
    bool accumulate;
};

#define MT_PRODUCTS_MAX 12

/* Products that read the same input, their results side by side: Q, K, V; or Gate, Up; or one alone. */
struct mt_products {
    size_t count;
    struct mt_product_part {
        enum mt_role role, bias;
        size_t first, rows; /* rows of a larger matrix; rows 0: all of it */
    } part[MT_PRODUCTS_MAX];
};

/* Q, K and V (or the one matrix of all three, or its parts in that order); Gate and Up (or theirs, or Up
 * alone). */
struct mt_products mt_layer_qkv_products(const struct mt_layer *layer);
struct mt_products mt_layer_mlp_products(const struct mt_layer *layer);
/* Of mt_layer_qkv_products' result one alone: 0 the queries, 1 the keys, 2 the values. */
struct mt_products mt_layer_one_of_qkv(const struct mt_layer *layer, size_t which);
extern const struct mt_products mt_layer_o_product, mt_layer_down_product;

/* y[tokens, y_stride] from dense x. */
int mt_layer_linear(const struct mt_layer_context *context, const struct mt_layer *layer,
                    const struct mt_layer_slabs *slabs, const struct mt_products *products, size_t tokens,
                    const void *x, void *y, size_t y_stride, bool accumulate);
/* dx[tokens, in] (=, or += when `accumulate_dx`) of the same, and the weights' and biases' gradients. Of a
 * matrix in parts all must be there. */
int mt_layer_linear_backward(const struct mt_layer_context *context, const struct mt_layer *layer,
                             const struct mt_layer_slabs *slabs, const struct mt_products *products,
                             size_t tokens, const void *x, const void *dy, size_t dy_stride, void *dx,
                             bool accumulate_dx);

/* A norm's numbers kept from forward to backward: rstd, and means behind them when centered. */
static inline size_t mt_layer_norm_numbers(const struct mt_layer *layer)
{
    return layer->norm_centered ? 2 : 1;
}

struct mt_layer_norm {
    enum mt_role weight, bias;
    size_t rows_a_token; /* 0: one */
    size_t groups, cols;
    bool weight_per_group;
    size_t x_stride, y_stride; /* forward; 0: dense */
};
/* Of the queries (MT_ROLE_Q_NORM) or of the keys (MT_ROLE_K_NORM), dense. */
struct mt_layer_norm mt_layer_head_norm(const struct mt_layer *layer, enum mt_role weight);

/* numbers: [tokens * groups * mt_layer_norm_numbers] or NULL where no backward follows. */
int mt_layer_norm(const struct mt_layer_context *context, const struct mt_layer *layer,
                  const struct mt_layer_slabs *slabs, const struct mt_layer_norm *norm, size_t tokens,
                  const void *x, void *y, float *numbers);
/* dx (=|+=); dy and dx have the stride d_stride (0: dense). */
int mt_layer_norm_backward(const struct mt_layer_context *context, const struct mt_layer *layer,
                           const struct mt_layer_slabs *slabs, const struct mt_layer_norm *norm,
                           size_t tokens, const void *x, const float *numbers, const void *dy, void *dx,
                           size_t d_stride, bool accumulate_dx);

/* A weight of the layer in its slab, or its gradient; NULL where there is none. */
const void *mt_layer_weight(const struct mt_layer_context *context, const struct mt_layer *layer,
                            const struct mt_layer_slabs *slabs, enum mt_role role);
float *mt_layer_gradient(const struct mt_layer *layer, const struct mt_layer_slabs *slabs, enum mt_role role);

static inline void *mt_layer_at(const struct mt_layer_context *context, void *base, size_t elements)
{
    return (char *)base + elements * mt_dtype_bytes(context->dtype);
}

/* y = a + scale * b over tokens * hidden_size elements; a NULL: scale * b. */
int mt_layer_add(const struct mt_layer_context *context, const struct mt_layer *layer, size_t tokens,
                 const void *a, const void *b, float scale, void *y);

#endif
