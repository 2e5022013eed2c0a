/* The dense attention template: pre-norm grouped-query attention and a gated MLP on one residual stream.
 *
 *   mid = x + O(attention(rope(Q n1), rope(K n1), V n1)),  n1 = norm(x)
 *   y   = mid + Down(activation(Gate n2) * (Up n2)),       n2 = norm(mid)
 *
 * Q, K and V read the same input and are neighbours in the slab, so one product makes all three; Gate and Up
 * too. */
#include "core/base/size.h"
#include "core/model/layer.h"

#define TRY(call)                                                                                            \
    do {                                                                                                     \
        int try_result = (call);                                                                             \
        if (try_result)                                                                                      \
            return try_result;                                                                               \
    } while (0)

/* Where everything lies in the two workspaces, in bytes. */
struct places {
    size_t normed1, rstd1, qkv, lse, attended, mid, normed2, rstd2, gate_up, product, activation_bytes;
    size_t dnormed, dproduct, dattended, dqkv, workspace, scratch_bytes;
};

/* Sizes in elements. */
static size_t q_size(const struct mt_layer *layer)
{
    return layer->num_heads * layer->head_dim;
}
static size_t kv_size(const struct mt_layer *layer)
{
    return layer->num_kv_heads * layer->head_dim;
}
static size_t qkv_size(const struct mt_layer *layer)
{
    return q_size(layer) + 2 * kv_size(layer);
}

static bool take(size_t *total, size_t rows, size_t cols, size_t element, size_t *place)
{
    size_t bytes;
    *place = *total;
    return mt_size_mul(rows, cols, &bytes) && mt_size_mul(bytes, element, &bytes) &&
           mt_size_add(*total, bytes, &bytes) && mt_size_align(bytes, 256, total);
}

static struct mt_attention_args attention_args(const struct mt_layer_context *context,
                                               const struct mt_layer *layer, const int32_t *document_starts,
                                               size_t num_documents)
{
    return (struct mt_attention_args){
        .document_starts = document_starts,
        .num_documents = num_documents,
        .num_heads = layer->num_heads,
        .num_kv_heads = layer->num_kv_heads,
        .head_dim = layer->head_dim,
        .window = layer->window,
        .scale = layer->attention_scale,
        .softcap = layer->attention_softcap,
        .dtype = context->dtype,
    };
}

static int place(const struct mt_layer_context *context, const struct mt_layer *layer, size_t tokens,
                 struct places *p)
{
    const size_t data = mt_dtype_bytes(context->dtype), hidden = layer->hidden_size,
                 wide = layer->intermediate_size;
    size_t used = 0;
    bool fits = take(&used, tokens, hidden, data, &p->normed1);
    fits = fits && take(&used, tokens, 1, sizeof(float), &p->rstd1);
    fits = fits && take(&used, tokens, qkv_size(layer), data, &p->qkv);
    fits = fits && take(&used, tokens, layer->num_heads, sizeof(float), &p->lse);
    fits = fits && take(&used, tokens, q_size(layer), data, &p->attended);
    fits = fits && take(&used, tokens, hidden, data, &p->mid);
    fits = fits && take(&used, tokens, hidden, data, &p->normed2);
    fits = fits && take(&used, tokens, 1, sizeof(float), &p->rstd2);
    fits = fits && take(&used, tokens, 2 * wide, data, &p->gate_up);
    fits = fits && take(&used, tokens, wide, data, &p->product);
    p->activation_bytes = used;

    /* Backward through the MLP is over before that through attention begins: their scratch is shared. */
    if (!fits || tokens > INT32_MAX)
        return -EOVERFLOW;
    const int32_t whole[2] = {0, (int32_t)tokens};
    struct mt_attention_args args = attention_args(context, layer, whole, 1);
    const struct mt_device_api *api = context->device->api;
    const size_t forward = api->attention_workspace_bytes(context->device, &args, false);
    const size_t backward = api->attention_workspace_bytes(context->device, &args, true);
    used = 0;
    fits = take(&used, tokens, hidden, data, &p->dnormed);
    size_t mlp = used, attention = used;
    fits = fits && take(&mlp, tokens, wide, data, &p->dproduct);
    fits = fits && take(&attention, tokens, q_size(layer), data, &p->dattended);
    fits = fits && take(&attention, tokens, qkv_size(layer), data, &p->dqkv);
    fits = fits && take(&attention, 1, mt_size_max(forward, backward), 1, &p->workspace);
    p->scratch_bytes = mt_size_max(mlp, attention);
    return fits ? 0 : -EOVERFLOW;
}

static int dense_layout(const struct mt_layer_context *context, const struct mt_layer *layer, size_t tokens,
                        struct mt_layer_layout *layout)
{
    struct places p;
    TRY(place(context, layer, tokens, &p));
    layout->activation_bytes = p.activation_bytes;
    layout->scratch_bytes = p.scratch_bytes;
    return 0;
}

/* A weight, or its gradient, in a slab; NULL where the layer has none. */
static const void *weight(const struct mt_layer_context *context, const struct mt_layer *layer,
                          const void *weights, enum mt_role role)
{
    const struct mt_parameter *p = layer->group->by_role[role];
    return p ? (const char *)weights + p->offset * mt_dtype_bytes(context->dtype) : NULL;
}

static float *gradient(const struct mt_layer *layer, float *gradients, enum mt_role role)
{
    const struct mt_parameter *p = layer->group->by_role[role];
    return p && !p->frozen && gradients ? gradients + p->train_offset : NULL;
}

/* Products that read the same input: Q, K, V; or Gate, Up; or one alone. */
struct products {
    size_t count;
    struct {
        enum mt_role role, bias;
    } part[3];
};

static const struct products qkv_products = {
    .count = 3,
    .part = {{MT_ROLE_Q, MT_ROLE_Q_BIAS}, {MT_ROLE_K, MT_ROLE_K_BIAS}, {MT_ROLE_V, MT_ROLE_V_BIAS}}};
static const struct products gate_up_products = {
    .count = 2, .part = {{MT_ROLE_GATE, MT_ROLE_GATE_BIAS}, {MT_ROLE_UP, MT_ROLE_UP_BIAS}}};
static const struct products o_products = {.count = 1, .part = {{MT_ROLE_O, MT_ROLE_O_BIAS}}};
static const struct products down_products = {.count = 1, .part = {{MT_ROLE_DOWN, MT_ROLE_DOWN_BIAS}}};

static bool adjoin(const struct mt_parameter *a, const struct mt_parameter *b)
{
    if (!a || !b)
        return !a && !b;
    return b->offset == a->offset + a->count && !a->frozen == !b->frozen &&
           (a->frozen || b->train_offset == a->train_offset + a->count);
}

/* Parts from `first` on that lie one behind the other and can be one product; their output features together.
 */
static size_t run_of(const struct mt_layer *layer, const struct products *products, size_t first,
                     size_t *features)
{
    const struct mt_group *group = layer->group;
    size_t end = first + 1;
    *features = group->by_role[products->part[first].role]->shape[0];
    for (; end < products->count; end++) {
        const enum mt_role before = products->part[end - 1].role, before_bias = products->part[end - 1].bias;
        if (!adjoin(group->by_role[before], group->by_role[products->part[end].role]) ||
            !adjoin(group->by_role[before_bias], group->by_role[products->part[end].bias]))
            break;
        *features += group->by_role[products->part[end].role]->shape[0];
    }
    return end;
}

static void *at(const struct mt_layer_context *context, void *base, size_t elements)
{
    return (char *)base + elements * mt_dtype_bytes(context->dtype);
}

/* y[tokens, y_stride] from dense x; the parts' columns side by side. */
static int linear(const struct mt_layer_context *context, const struct mt_layer *layer, const void *weights,
                  const struct products *products, size_t tokens, const void *x, void *y, size_t y_stride,
                  bool accumulate)
{
    size_t column = 0, features;
    for (size_t i = 0, end; i < products->count; i = end, column += features) {
        end = run_of(layer, products, i, &features);
        TRY(context->device->api->linear(
            context->stream, &(struct mt_linear_args){
                                 .x = x,
                                 .weight = weight(context, layer, weights, products->part[i].role),
                                 .bias = weight(context, layer, weights, products->part[i].bias),
                                 .y = at(context, y, column),
                                 .tokens = tokens,
                                 .in_features = layer->group->by_role[products->part[i].role]->shape[1],
                                 .out_features = features,
                                 .y_stride = y_stride,
                                 .accumulate = accumulate,
                                 .dtype = context->dtype,
                             }));
    }
    return 0;
}

/* dx[tokens, in] of the same, and the weights' and biases' gradients. */
static int linear_backward(const struct mt_layer_context *context, const struct mt_layer *layer,
                           const void *weights, float *gradients, bool accumulate,
                           const struct products *products, size_t tokens, const void *x, const void *dy,
                           size_t dy_stride, void *dx)
{
    const struct mt_device_api *api = context->device->api;
    size_t column = 0, features;
    for (size_t i = 0, end; i < products->count; i = end, column += features) {
        end = run_of(layer, products, i, &features);
        const enum mt_role role = products->part[i].role, bias = products->part[i].bias;
        const size_t in_features = layer->group->by_role[role]->shape[1];
        const void *dy_part = (const char *)dy + column * mt_dtype_bytes(context->dtype);
        TRY(api->linear_backward_input(context->stream, &(struct mt_linear_backward_input_args){
                                                            .dy = dy_part,
                                                            .weight = weight(context, layer, weights, role),
                                                            .dx = dx,
                                                            .tokens = tokens,
                                                            .in_features = in_features,
                                                            .out_features = features,
                                                            .dy_stride = dy_stride,
                                                            .accumulate = i > 0,
                                                            .dtype = context->dtype,
                                                        }));
        float *dweight = gradient(layer, gradients, role);
        if (!dweight)
            continue;
        TRY(api->linear_backward_weight(context->stream, &(struct mt_linear_backward_weight_args){
                                                             .dy = dy_part,
                                                             .x = x,
                                                             .dweight = dweight,
                                                             .dbias = gradient(layer, gradients, bias),
                                                             .tokens = tokens,
                                                             .in_features = in_features,
                                                             .out_features = features,
                                                             .dy_stride = dy_stride,
                                                             .accumulate = accumulate,
                                                             .dtype = context->dtype,
                                                         }));
    }
    return 0;
}

static int norm(const struct mt_layer_context *context, const struct mt_layer *layer, const void *weights,
                enum mt_role role, size_t tokens, const void *x, void *y, float *rstd)
{
    return context->device->api->rms_norm(context->stream,
                                          &(struct mt_rms_norm_args){
                                              .x = x,
                                              .weight = weight(context, layer, weights, role),
                                              .y = y,
                                              .rstd = rstd,
                                              .rows = tokens,
                                              .cols = layer->hidden_size,
                                              .eps = layer->norm_eps,
                                              .weight_offset = layer->norm_weight_offset,
                                              .dtype = context->dtype,
                                          });
}

/* dx += the gradient through the norm. */
static int norm_backward(const struct mt_layer_context *context, const struct mt_layer *layer,
                         const void *weights, float *gradients, bool accumulate, enum mt_role role,
                         size_t tokens, const void *x, const float *rstd, const void *dy, void *dx)
{
    return context->device->api->rms_norm_backward(context->stream,
                                                   &(struct mt_rms_norm_backward_args){
                                                       .x = x,
                                                       .weight = weight(context, layer, weights, role),
                                                       .dy = dy,
                                                       .rstd = rstd,
                                                       .dx = dx,
                                                       .dweight = gradient(layer, gradients, role),
                                                       .rows = tokens,
                                                       .cols = layer->hidden_size,
                                                       .weight_offset = layer->norm_weight_offset,
                                                       .accumulate_dx = true,
                                                       .accumulate_dweight = accumulate,
                                                       .dtype = context->dtype,
                                                   });
}

static int rope(const struct mt_layer_context *context, const struct mt_layer *layer,
                const int32_t *positions, size_t tokens, void *x, size_t heads, size_t stride, bool inverse)
{
    if (layer->rope == MT_ROPE_NONE)
        return 0;
    const struct mt_rope *kind = &context->model->ropes[layer->rope];
    const struct mt_rope_table *table = &context->ropes[layer->rope];
    return context->device->api->rope(context->stream, &(struct mt_rope_args){
                                                           .x = x,
                                                           .positions = positions,
                                                           .cos = table->cos,
                                                           .sin = table->sin,
                                                           .tokens = tokens,
                                                           .heads = heads,
                                                           .head_dim = layer->head_dim,
                                                           .rotary_dim = kind->rotary_dim,
                                                           .x_stride = stride,
                                                           .num_positions = table->num_positions,
                                                           .interleaved = kind->interleaved,
                                                           .inverse = inverse,
                                                           .dtype = context->dtype,
                                                       });
}

/* Queries and keys are neighbours in a row and turn alike: one call for both. */
static int rope_qk(const struct mt_layer_context *context, const struct mt_layer *layer,
                   const struct mt_rows *rows, void *qkv, bool inverse)
{
    return rope(context, layer, rows->positions, rows->tokens, qkv, layer->num_heads + layer->num_kv_heads,
                qkv_size(layer), inverse);
}

static struct mt_attention_args bind_attention(const struct mt_layer_context *context,
                                               const struct mt_layer *layer, const struct mt_rows *rows,
                                               const struct places *p, char *activations, char *scratch)
{
    struct mt_attention_args args =
        attention_args(context, layer, rows->document_starts, rows->num_documents);
    args.q = activations + p->qkv;
    args.k = at(context, activations + p->qkv, q_size(layer));
    args.v = at(context, activations + p->qkv, q_size(layer) + kv_size(layer));
    args.q_stride = args.k_stride = args.v_stride = qkv_size(layer);
    args.out = activations + p->attended;
    args.lse = (float *)(void *)(activations + p->lse);
    args.workspace = scratch + p->workspace;
    return args;
}

/* The second half: out = mid + MLP(norm(mid)). out NULL: up to the activation's product only. */
static int mlp_forward(const struct mt_layer_context *context, const struct mt_layer *layer,
                       const void *weights, size_t tokens, const void *mid, void *normed, float *rstd,
                       void *gate_up, void *product, void *out)
{
    const struct mt_device_api *api = context->device->api;
    const size_t wide = layer->intermediate_size;
    TRY(norm(context, layer, weights, MT_ROLE_MLP_NORM, tokens, mid, normed, rstd));
    TRY(linear(context, layer, weights, &gate_up_products, tokens, normed, gate_up, 2 * wide, false));
    TRY(api->gated_activation(context->stream, &(struct mt_gated_activation_args){
                                                   .gate = gate_up,
                                                   .up = at(context, gate_up, wide),
                                                   .out = product,
                                                   .rows = tokens,
                                                   .cols = wide,
                                                   .gate_stride = 2 * wide,
                                                   .up_stride = 2 * wide,
                                                   .activation = layer->activation,
                                                   .dtype = context->dtype,
                                               }));
    if (!out)
        return 0;
    TRY(api->copy(context->stream, out, mid, tokens * layer->hidden_size * mt_dtype_bytes(context->dtype)));
    return linear(context, layer, weights, &down_products, tokens, product, out, layer->hidden_size, true);
}

static int dense_forward(const struct mt_layer_context *context, const struct mt_layer *layer,
                         const void *weights, const struct mt_rows *rows, const void *x, void *y,
                         void *activations, void *scratch)
{
    const struct mt_device_api *api = context->device->api;
    const size_t tokens = rows->tokens, hidden = layer->hidden_size;
    char *a = activations;
    struct places p;
    TRY(place(context, layer, tokens, &p));

    TRY(norm(context, layer, weights, MT_ROLE_ATTENTION_NORM, tokens, x, a + p.normed1,
             (float *)(void *)(a + p.rstd1)));
    TRY(linear(context, layer, weights, &qkv_products, tokens, a + p.normed1, a + p.qkv, qkv_size(layer),
               false));
    TRY(rope_qk(context, layer, rows, a + p.qkv, false));
    struct mt_attention_args args = bind_attention(context, layer, rows, &p, a, scratch);
    TRY(api->attention(context->stream, &args));
    TRY(api->copy(context->stream, a + p.mid, x, tokens * hidden * mt_dtype_bytes(context->dtype)));
    TRY(linear(context, layer, weights, &o_products, tokens, a + p.attended, a + p.mid, hidden, true));
    return mlp_forward(context, layer, weights, tokens, a + p.mid, a + p.normed2,
                       (float *)(void *)(a + p.rstd2), a + p.gate_up, a + p.product, y);
}

/* dy, the gradient of the layer's output, becomes that of mid. */
static int mlp_backward(const struct mt_layer_context *context, const struct mt_layer *layer,
                        const void *weights, float *gradients, bool accumulate, size_t tokens,
                        const struct places *p, char *a, char *s, void *dy)
{
    const struct mt_device_api *api = context->device->api;
    const size_t wide = layer->intermediate_size;
    TRY(linear_backward(context, layer, weights, gradients, accumulate, &down_products, tokens,
                        a + p->product, dy, layer->hidden_size, s + p->dproduct));
    TRY(api->gated_activation_backward(context->stream, &(struct mt_gated_activation_backward_args){
                                                            .gate = a + p->gate_up,
                                                            .up = at(context, a + p->gate_up, wide),
                                                            .dout = s + p->dproduct,
                                                            .dgate = a + p->gate_up,
                                                            .dup = at(context, a + p->gate_up, wide),
                                                            .rows = tokens,
                                                            .cols = wide,
                                                            .gate_stride = 2 * wide,
                                                            .up_stride = 2 * wide,
                                                            .activation = layer->activation,
                                                            .dtype = context->dtype,
                                                        }));
    TRY(linear_backward(context, layer, weights, gradients, accumulate, &gate_up_products, tokens,
                        a + p->normed2, a + p->gate_up, 2 * wide, s + p->dnormed));
    return norm_backward(context, layer, weights, gradients, accumulate, MT_ROLE_MLP_NORM, tokens, a + p->mid,
                         (const float *)(const void *)(a + p->rstd2), s + p->dnormed, dy);
}

static int dense_backward(const struct mt_layer_context *context, const struct mt_layer *layer,
                          const void *weights, float *gradients, bool accumulate, const struct mt_rows *rows,
                          const void *x, void *dy, void *activations, void *scratch)
{
    const size_t tokens = rows->tokens, stride = qkv_size(layer);
    char *a = activations, *s = scratch;
    struct places p;
    TRY(place(context, layer, tokens, &p));

    TRY(mlp_backward(context, layer, weights, gradients, accumulate, tokens, &p, a, s, dy));
    TRY(linear_backward(context, layer, weights, gradients, accumulate, &o_products, tokens, a + p.attended,
                        dy, layer->hidden_size, s + p.dattended));
    struct mt_attention_backward_args args = {
        .forward = bind_attention(context, layer, rows, &p, a, s),
        .dout = s + p.dattended,
        .dq = s + p.dqkv,
        .dk = at(context, s + p.dqkv, q_size(layer)),
        .dv = at(context, s + p.dqkv, q_size(layer) + kv_size(layer)),
        .dq_stride = stride,
        .dk_stride = stride,
        .dv_stride = stride,
    };
    TRY(context->device->api->attention_backward(context->stream, &args));
    TRY(rope_qk(context, layer, rows, s + p.dqkv, true));
    TRY(linear_backward(context, layer, weights, gradients, accumulate, &qkv_products, tokens, a + p.normed1,
                        s + p.dqkv, stride, s + p.dnormed));
    return norm_backward(context, layer, weights, gradients, accumulate, MT_ROLE_ATTENTION_NORM, tokens, x,
                         (const float *)(const void *)(a + p.rstd1), s + p.dnormed, dy);
}

/* One sequence's new keys and values, straight into its cache; then its attention. */
static int decode_attention(const struct mt_layer_context *context, const struct mt_layer *layer,
                            const void *weights, const struct mt_decode_rows *rows,
                            const struct mt_decode_sequence *sequence, const struct mt_layer_cache *cache,
                            const struct places *p, char *a, char *s)
{
    static const struct products k_product = {.count = 1, .part = {{MT_ROLE_K, MT_ROLE_K_BIAS}}};
    static const struct products v_product = {.count = 1, .part = {{MT_ROLE_V, MT_ROLE_V_BIAS}}};
    const size_t kv = kv_size(layer), hidden = layer->hidden_size;
    const int32_t *positions = rows->positions + sequence->first;
    char *k = at(context, cache->k, sequence->slot * cache->capacity * kv);
    char *v = at(context, cache->v, sequence->slot * cache->capacity * kv);
    char *new_k = at(context, k, sequence->past * kv), *new_v = at(context, v, sequence->past * kv);
    const void *normed = at(context, a + p->normed1, sequence->first * hidden);

    TRY(linear(context, layer, weights, &k_product, sequence->tokens, normed, new_k, kv, false));
    TRY(linear(context, layer, weights, &v_product, sequence->tokens, normed, new_v, kv, false));
    TRY(rope(context, layer, positions, sequence->tokens, new_k, layer->num_kv_heads, kv, false));
    struct mt_attention_args args = attention_args(context, layer, sequence->starts, 1);
    args.q = at(context, a + p->qkv, sequence->first * q_size(layer));
    args.k = k;
    args.v = v;
    args.out = at(context, a + p->attended, sequence->first * q_size(layer));
    args.key_starts = sequence->key_starts;
    args.workspace = s + p->workspace;
    return context->device->api->attention(context->stream, &args);
}

static int dense_decode(const struct mt_layer_context *context, const struct mt_layer *layer,
                        const void *weights, const struct mt_decode_rows *rows,
                        const struct mt_layer_cache *cache, const void *x, void *y, void *activations,
                        void *scratch)
{
    static const struct products q_product = {.count = 1, .part = {{MT_ROLE_Q, MT_ROLE_Q_BIAS}}};
    const struct mt_device_api *api = context->device->api;
    const size_t tokens = rows->tokens, hidden = layer->hidden_size;
    char *a = activations, *s = scratch;
    struct places p;
    TRY(place(context, layer, tokens, &p));

    TRY(norm(context, layer, weights, MT_ROLE_ATTENTION_NORM, tokens, x, a + p.normed1, NULL));
    TRY(linear(context, layer, weights, &q_product, tokens, a + p.normed1, a + p.qkv, q_size(layer), false));
    TRY(rope(context, layer, rows->positions, tokens, a + p.qkv, layer->num_heads, q_size(layer), false));
    for (size_t i = 0; i < rows->num_sequences; i++)
        TRY(decode_attention(context, layer, weights, rows, &rows->sequences[i], cache, &p, a, s));
    TRY(api->copy(context->stream, a + p.mid, x, tokens * hidden * mt_dtype_bytes(context->dtype)));
    TRY(linear(context, layer, weights, &o_products, tokens, a + p.attended, a + p.mid, hidden, true));
    return mlp_forward(context, layer, weights, tokens, a + p.mid, a + p.normed2, NULL, a + p.gate_up,
                       a + p.product, y);
}

const struct mt_layer_template mt_layer_dense_attention = {
    .name = "dense_attention",
    .layout = dense_layout,
    .forward = dense_forward,
    .backward = dense_backward,
    .decode = dense_decode,
};
