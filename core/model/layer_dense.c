/* The dense attention template: attention and an MLP on one residual stream, with what families differ in.
 *
 *   n1  = norm(x)                       (or x itself, where only results are normed)
 *   b1  = O(attention(rope(norm(Q n1)), rope(norm(K n1)), V n1))
 *   mid = x + scale * norm(b1)
 *   n2  = norm(mid)                     (parallel: norm(x), or n1)
 *   b2  = Down(activation(Gate n2) * (Up n2)), or Down(activation(Up n2))
 *   y   = mid + scale * norm(b2)
 *
 * Each norm is there or not. Q, K and V read the same input and are neighbours in the slab, so one product
 * makes all three; Gate and Up too. */
#include "core/base/size.h"
#include "core/model/layer_parts.h"

#define TRY MT_LAYER_TRY

/* Where everything lies in the two workspaces, in bytes. */
struct places {
    size_t normed1, numbers1, qkv, qk, q_numbers, k_numbers, lse, attended, branch1, post1, mid, normed2,
        numbers2, gate_up, product, branch2, post2, activation_bytes;
    size_t dbranch, dnormed, dnormed2, dproduct, dattended, dqkv, workspace, scratch_bytes;
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
static size_t mlp_size(const struct mt_layer *layer)
{
    return (layer->gated ? 2 : 1) * layer->intermediate_size;
}

/* Where keys and values lie in a row of the product of all three, after the queries. */
static size_t k_place(const struct mt_layer *layer)
{
    return layer->qkv_by_head ? q_size(layer) / layer->num_kv_heads : q_size(layer);
}
static size_t v_place(const struct mt_layer *layer)
{
    return k_place(layer) + (layer->qkv_by_head ? layer->head_dim : kv_size(layer));
}

static bool take(size_t *total, bool wanted, size_t rows, size_t cols, size_t element, size_t *place)
{
    size_t bytes;
    *place = *total;
    return !wanted || (mt_size_mul(rows, cols, &bytes) && mt_size_mul(bytes, element, &bytes) &&
                       mt_size_add(*total, bytes, &bytes) && mt_size_align(bytes, 256, total));
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
    const size_t data = mt_dtype_bytes(context->dtype), hidden = layer->hidden_size;
    const size_t numbers = mt_layer_norm_numbers(layer) * sizeof(float), heads = layer->num_heads;
    const bool qk = layer->qk_norm != MT_QK_NORM_NONE;
    size_t used = 0;
    bool fits = take(&used, layer->attention_norm, tokens, hidden, data, &p->normed1);
    fits = fits && take(&used, layer->attention_norm, tokens, 1, numbers, &p->numbers1);
    fits = fits && take(&used, true, tokens, qkv_size(layer), data, &p->qkv);
    fits = fits && take(&used, qk, tokens, q_size(layer) + kv_size(layer), data, &p->qk);
    fits = fits && take(&used, qk, tokens, heads, numbers, &p->q_numbers);
    fits = fits && take(&used, qk, tokens, layer->num_kv_heads, numbers, &p->k_numbers);
    fits = fits && take(&used, true, tokens, heads, sizeof(float), &p->lse);
    fits = fits && take(&used, true, tokens, q_size(layer), data, &p->attended);
    fits = fits && take(&used, layer->post_attention_norm, tokens, hidden, data, &p->branch1);
    fits = fits && take(&used, layer->post_attention_norm, tokens, 1, numbers, &p->post1);
    fits = fits && take(&used, true, tokens, hidden, data, &p->mid);
    fits = fits && take(&used, layer->mlp_norm, tokens, hidden, data, &p->normed2);
    fits = fits && take(&used, layer->mlp_norm, tokens, 1, numbers, &p->numbers2);
    fits = fits && take(&used, true, tokens, mlp_size(layer), data, &p->gate_up);
    fits = fits && take(&used, true, tokens, layer->intermediate_size, data, &p->product);
    fits = fits && take(&used, layer->post_mlp_norm, tokens, hidden, data, &p->branch2);
    fits = fits && take(&used, layer->post_mlp_norm, tokens, 1, numbers, &p->post2);
    p->activation_bytes = used;

    /* Backward through the MLP is over before that through attention begins: their scratch is shared. */
    if (!fits || tokens > INT32_MAX)
        return -EOVERFLOW;
    const int32_t whole[2] = {0, (int32_t)tokens};
    struct mt_attention_args args = attention_args(context, layer, whole, 1);
    const struct mt_device_api *api = context->device->api;
    const size_t forward = api->attention_workspace_bytes(context->device, &args, false);
    const size_t backward = api->attention_workspace_bytes(context->device, &args, true);
    const bool branch = layer->post_attention_norm || layer->post_mlp_norm || layer->residual_scale != 1.0f;
    used = 0;
    fits = take(&used, branch, tokens, hidden, data, &p->dbranch);
    fits = fits && take(&used, true, tokens, hidden, data, &p->dnormed);
    fits = fits && take(&used, layer->parallel, tokens, hidden, data, &p->dnormed2);
    size_t mlp = used, attention = used;
    fits = fits && take(&mlp, true, tokens, layer->intermediate_size, data, &p->dproduct);
    fits = fits && take(&attention, true, tokens, q_size(layer), data, &p->dattended);
    fits = fits && take(&attention, true, tokens, qkv_size(layer), data, &p->dqkv);
    fits = fits && take(&attention, true, 1, mt_size_max(forward, backward), 1, &p->workspace);
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

/* One pass through the layer: everything that its pieces need. */
struct visit {
    const struct mt_layer_context *context;
    const struct mt_layer *layer;
    struct mt_layer_slabs slabs;
    struct places p;
    size_t tokens;
    char *a, *s; /* the two workspaces */
    const char *x;
};

static int open_visit(struct visit *v, const struct mt_layer_context *context, const struct mt_layer *layer,
                      const void *weights, size_t tokens, const void *x, void *activations, void *scratch)
{
    *v = (struct visit){.context = context,
                        .layer = layer,
                        .slabs = {.weights = weights},
                        .tokens = tokens,
                        .a = activations,
                        .s = scratch,
                        .x = x};
    return place(context, layer, tokens, &v->p);
}

static float *numbers_at(const struct visit *v, size_t where)
{
    return (float *)(void *)(v->a + where);
}

/* What attention reads. */
static const char *attention_input(const struct visit *v)
{
    return v->layer->attention_norm ? v->a + v->p.normed1 : v->x;
}

/* What the MLP's norm reads; and the MLP. */
static const char *mlp_source(const struct visit *v)
{
    return v->layer->parallel ? v->x : v->a + v->p.mid;
}
static const char *mlp_input(const struct visit *v)
{
    if (v->layer->mlp_norm)
        return v->a + v->p.normed2;
    return v->layer->parallel ? attention_input(v) : v->a + v->p.mid;
}

static int hidden_norm(const struct visit *v, enum mt_role role, enum mt_role bias, const void *x, void *y,
                       size_t numbers)
{
    const struct mt_layer_norm norm = mt_layer_hidden_norm(v->layer, role, bias);
    return mt_layer_norm(v->context, v->layer, &v->slabs, &norm, v->tokens, x, y, numbers_at(v, numbers));
}

static int hidden_norm_backward(const struct visit *v, enum mt_role role, enum mt_role bias, const void *x,
                                size_t numbers, const void *dy, void *dx, bool accumulate_dx)
{
    const struct mt_layer_norm norm = mt_layer_hidden_norm(v->layer, role, bias);
    return mt_layer_norm_backward(v->context, v->layer, &v->slabs, &norm, v->tokens, x,
                                  numbers_at(v, numbers), dy, dx, 0, accumulate_dx);
}

static int linear(const struct visit *v, const struct mt_products *products, const void *x, void *y,
                  size_t y_stride, bool accumulate)
{
    return mt_layer_linear(v->context, v->layer, &v->slabs, products, v->tokens, x, y, y_stride, accumulate);
}

static int linear_backward(const struct visit *v, const struct mt_products *products, const void *x,
                           const void *dy, size_t dy_stride, void *dx, bool accumulate_dx)
{
    return mt_layer_linear_backward(v->context, v->layer, &v->slabs, products, v->tokens, x, dy, dy_stride,
                                    dx, accumulate_dx);
}

static int rope(const struct visit *v, size_t index, const int32_t *positions, size_t tokens, void *x,
                size_t heads, size_t stride, size_t run, bool inverse)
{
    if (index == MT_ROPE_NONE)
        return 0;
    const struct mt_rope *kind = &v->context->model->ropes[index];
    const struct mt_rope_table *table = &v->context->ropes[index];
    return v->context->device->api->rope(v->context->stream,
                                         &(struct mt_rope_args){
                                             .x = x,
                                             .positions = positions,
                                             .cos = table->cos,
                                             .sin = table->sin,
                                             .tokens = tokens,
                                             .heads = heads,
                                             .head_dim = v->layer->head_dim,
                                             .rotary_dim = kind->rotary_dim,
                                             .x_stride = stride,
                                             .num_positions = table->num_positions,
                                             .run = run,
                                             .run_stride = run ? stride / v->layer->num_kv_heads : 0,
                                             .interleaved = kind->interleaved,
                                             .inverse = inverse,
                                             .dtype = v->context->dtype,
                                         });
}

/* Queries and keys are neighbours in a row: one call where they turn alike. */
static int rope_qk(const struct visit *v, const struct mt_rows *rows, void *qk, size_t stride, bool inverse)
{
    const struct mt_layer *layer = v->layer;
    const size_t run = layer->qkv_by_head ? layer->num_heads / layer->num_kv_heads + 1 : 0;
    if (layer->query_rope == layer->rope)
        return rope(v, layer->rope, rows->positions, v->tokens, qk, layer->num_heads + layer->num_kv_heads,
                    stride, run, inverse);
    TRY(rope(v, layer->query_rope, rows->positions, v->tokens, qk, layer->num_heads, stride, 0, inverse));
    return rope(v, layer->rope, rows->positions, v->tokens, mt_layer_at(v->context, qk, q_size(layer)),
                layer->num_kv_heads, stride, 0, inverse);
}

/* Queries and keys, normed and turned, to where attention reads them. */
static int finish_qk(const struct visit *v, const struct mt_rows *rows)
{
    const struct mt_layer *layer = v->layer;
    const size_t stride = qkv_size(layer), q = q_size(layer), narrow = q + kv_size(layer);
    char *qkv = v->a + v->p.qkv, *qk = v->a + v->p.qk;
    if (layer->qk_norm == MT_QK_NORM_NONE)
        return rope_qk(v, rows, qkv, stride, false);
    if (layer->qk_norm_after_rope)
        TRY(rope_qk(v, rows, qkv, stride, false));
    struct mt_layer_norm norm = mt_layer_head_norm(layer, MT_ROLE_Q_NORM);
    norm.x_stride = stride;
    norm.y_stride = narrow;
    TRY(mt_layer_norm(v->context, layer, &v->slabs, &norm, v->tokens, qkv, qk,
                      numbers_at(v, v->p.q_numbers)));
    norm = mt_layer_head_norm(layer, MT_ROLE_K_NORM);
    norm.x_stride = stride;
    norm.y_stride = narrow;
    TRY(mt_layer_norm(v->context, layer, &v->slabs, &norm, v->tokens, mt_layer_at(v->context, qkv, q),
                      mt_layer_at(v->context, qk, q), numbers_at(v, v->p.k_numbers)));
    return layer->qk_norm_after_rope ? 0 : rope_qk(v, rows, qk, narrow, false);
}

/* dqkv, the gradient of what attention read, becomes that of the products. */
static int finish_qk_backward(const struct visit *v, const struct mt_rows *rows)
{
    const struct mt_layer *layer = v->layer;
    const size_t stride = qkv_size(layer), q = q_size(layer);
    char *qkv = v->a + v->p.qkv, *dqkv = v->s + v->p.dqkv, *dk = mt_layer_at(v->context, dqkv, q);
    if (layer->qk_norm == MT_QK_NORM_NONE || !layer->qk_norm_after_rope)
        TRY(rope_qk(v, rows, dqkv, stride, true));
    if (layer->qk_norm == MT_QK_NORM_NONE)
        return 0;
    struct mt_layer_norm norm = mt_layer_head_norm(layer, MT_ROLE_Q_NORM);
    norm.x_stride = stride;
    TRY(mt_layer_norm_backward(v->context, layer, &v->slabs, &norm, v->tokens, qkv,
                               numbers_at(v, v->p.q_numbers), dqkv, dqkv, stride, false));
    norm = mt_layer_head_norm(layer, MT_ROLE_K_NORM);
    norm.x_stride = stride;
    TRY(mt_layer_norm_backward(v->context, layer, &v->slabs, &norm, v->tokens,
                               mt_layer_at(v->context, qkv, q), numbers_at(v, v->p.k_numbers), dk, dk, stride,
                               false));
    return layer->qk_norm_after_rope ? rope_qk(v, rows, dqkv, stride, true) : 0;
}

static struct mt_attention_args bind_attention(const struct visit *v, const struct mt_rows *rows)
{
    const struct mt_layer *layer = v->layer;
    const size_t q = q_size(layer), kv = kv_size(layer);
    const bool normed = layer->qk_norm != MT_QK_NORM_NONE;
    char *qk = v->a + (normed ? v->p.qk : v->p.qkv);
    struct mt_attention_args args =
        attention_args(v->context, layer, rows->document_starts, rows->num_documents);
    args.q = qk;
    args.k = mt_layer_at(v->context, qk, q);
    args.v = mt_layer_at(v->context, v->a + v->p.qkv, v_place(layer));
    if (layer->qkv_by_head) {
        args.k = mt_layer_at(v->context, qk, k_place(layer));
        args.q_group_stride = args.kv_head_stride = qkv_size(layer) / layer->num_kv_heads;
    }
    args.q_stride = args.k_stride = normed ? q + kv : qkv_size(layer);
    args.v_stride = qkv_size(layer);
    args.out = v->a + v->p.attended;
    args.lse = numbers_at(v, v->p.lse);
    args.workspace = v->s + v->p.workspace;
    return args;
}

/* out = residual + scale * norm(product of input): the end of either half. `branch`: where the product waits
 * to be normed. */
static int end_branch(const struct visit *v, const struct mt_products *product, const void *input,
                      bool normed, enum mt_role role, size_t branch, size_t numbers, const void *residual,
                      void *out)
{
    const struct mt_layer *layer = v->layer;
    const size_t hidden = layer->hidden_size;
    if (!normed && layer->residual_scale == 1.0f) {
        TRY(v->context->device->api->copy(v->context->stream, out, residual,
                                          v->tokens * hidden * mt_dtype_bytes(v->context->dtype)));
        return linear(v, product, input, out, hidden, true);
    }
    void *raw = normed ? v->a + branch : out;
    TRY(linear(v, product, input, raw, hidden, false));
    if (normed)
        TRY(hidden_norm(v, role, MT_NUM_ROLES, raw, out, numbers));
    return mt_layer_add(v->context, layer, v->tokens, residual, out, layer->residual_scale, out);
}

/* From dy, the gradient of end_branch's out, that of the product. */
static int end_branch_backward(const struct visit *v, bool normed, enum mt_role role, size_t branch,
                               size_t numbers, const void *dy, const void **dbranch)
{
    const struct mt_layer *layer = v->layer;
    char *room = v->s + v->p.dbranch;
    *dbranch = dy;
    if (layer->residual_scale != 1.0f) {
        TRY(mt_layer_add(v->context, layer, v->tokens, NULL, dy, layer->residual_scale, room));
        *dbranch = room;
    }
    if (!normed)
        return 0;
    TRY(hidden_norm_backward(v, role, MT_NUM_ROLES, v->a + branch, numbers, *dbranch, room, false));
    *dbranch = room;
    return 0;
}

/* From mid to out; out NULL: up to the activation's product only, or the branch that is to be normed. */
static int mlp_forward(const struct visit *v, void *out)
{
    const struct mt_layer *layer = v->layer;
    const struct mt_products products = mt_layer_mlp_products(layer);
    const size_t wide = layer->intermediate_size, stride = mlp_size(layer);
    char *gate_up = v->a + v->p.gate_up, *product = v->a + v->p.product;
    if (layer->mlp_norm)
        TRY(hidden_norm(v, MT_ROLE_MLP_NORM, MT_ROLE_MLP_NORM_BIAS, mlp_source(v), v->a + v->p.normed2,
                        v->p.numbers2));
    TRY(linear(v, &products, mlp_input(v), gate_up, stride, false));
    TRY(v->context->device->api->gated_activation(
        v->context->stream, &(struct mt_gated_activation_args){
                                .gate = gate_up,
                                .up = layer->gated ? mt_layer_at(v->context, gate_up, wide) : NULL,
                                .out = product,
                                .rows = v->tokens,
                                .cols = wide,
                                .gate_stride = stride,
                                .up_stride = stride,
                                .activation = layer->activation,
                                .dtype = v->context->dtype,
                            }));
    if (!out && !layer->post_mlp_norm)
        return 0;
    if (!out) /* its norm is differentiated, so the product and its numbers are needed; the sum is not */
        out = v->s + v->p.dnormed;
    return end_branch(v, &mt_layer_down_product, product, layer->post_mlp_norm, MT_ROLE_POST_MLP_NORM,
                      v->p.branch2, v->p.post2, v->a + v->p.mid, out);
}

static int dense_forward(const struct mt_layer_context *context, const struct mt_layer *layer,
                         const void *weights, const struct mt_rows *rows, const void *x, void *y,
                         void *activations, void *scratch)
{
    const struct mt_products products = mt_layer_qkv_products(layer);
    struct visit v;
    TRY(open_visit(&v, context, layer, weights, rows->tokens, x, activations, scratch));
    if (layer->attention_norm)
        TRY(hidden_norm(&v, MT_ROLE_ATTENTION_NORM, MT_ROLE_ATTENTION_NORM_BIAS, x, v.a + v.p.normed1,
                        v.p.numbers1));
    TRY(linear(&v, &products, attention_input(&v), v.a + v.p.qkv, qkv_size(layer), false));
    TRY(finish_qk(&v, rows));
    struct mt_attention_args args = bind_attention(&v, rows);
    TRY(context->device->api->attention(context->stream, &args));
    TRY(end_branch(&v, &mt_layer_o_product, v.a + v.p.attended, layer->post_attention_norm,
                   MT_ROLE_POST_ATTENTION_NORM, v.p.branch1, v.p.post1, x, v.a + v.p.mid));
    return mlp_forward(&v, y);
}

/* dy becomes the gradient of mid; in parallel blocks, where mid is not read, only the gradient of the MLP's
 * input is left in `dinput`. */
static int mlp_backward(const struct visit *v, void *dy, void *dinput)
{
    const struct mt_layer *layer = v->layer;
    const struct mt_products products = mt_layer_mlp_products(layer);
    const size_t wide = layer->intermediate_size, stride = mlp_size(layer);
    char *gate_up = v->a + v->p.gate_up, *dproduct = v->s + v->p.dproduct;
    void *up = layer->gated ? mt_layer_at(v->context, gate_up, wide) : NULL;
    const void *dbranch;
    TRY(end_branch_backward(v, layer->post_mlp_norm, MT_ROLE_POST_MLP_NORM, v->p.branch2, v->p.post2, dy,
                            &dbranch));
    TRY(linear_backward(v, &mt_layer_down_product, v->a + v->p.product, dbranch, layer->hidden_size, dproduct,
                        false));
    TRY(v->context->device->api->gated_activation_backward(v->context->stream,
                                                           &(struct mt_gated_activation_backward_args){
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
                                                           }));
    if (layer->parallel)
        return linear_backward(v, &products, mlp_input(v), gate_up, stride, dinput, false);
    if (!layer->mlp_norm)
        return linear_backward(v, &products, mlp_input(v), gate_up, stride, dy, true);
    char *dnormed = v->s + v->p.dnormed;
    TRY(linear_backward(v, &products, mlp_input(v), gate_up, stride, dnormed, false));
    return hidden_norm_backward(v, MT_ROLE_MLP_NORM, MT_ROLE_MLP_NORM_BIAS, v->a + v->p.mid, v->p.numbers2,
                                dnormed, dy, true);
}

static int dense_backward(const struct mt_layer_context *context, const struct mt_layer *layer,
                          const void *weights, float *gradients, bool accumulate, const struct mt_rows *rows,
                          const void *x, void *dy, void *activations, void *scratch)
{
    const struct mt_products products = mt_layer_qkv_products(layer);
    const size_t stride = qkv_size(layer);
    struct visit v;
    TRY(open_visit(&v, context, layer, weights, rows->tokens, x, activations, scratch));
    v.slabs.gradients = gradients;
    v.slabs.accumulate = accumulate;
    /* In parallel blocks the MLP's input is n1 or has a norm of its own; n1's two gradients are summed. */
    const bool shared = layer->parallel && !layer->mlp_norm;
    char *dnormed = v.s + v.p.dnormed, *dinput = shared ? dnormed : v.s + v.p.dnormed2;
    TRY(mlp_backward(&v, dy, dinput));

    const void *dbranch;
    TRY(end_branch_backward(&v, layer->post_attention_norm, MT_ROLE_POST_ATTENTION_NORM, v.p.branch1,
                            v.p.post1, dy, &dbranch));
    TRY(linear_backward(&v, &mt_layer_o_product, v.a + v.p.attended, dbranch, layer->hidden_size,
                        v.s + v.p.dattended, false));
    struct mt_attention_backward_args args = {
        .forward = bind_attention(&v, rows),
        .dout = v.s + v.p.dattended,
        .dq = v.s + v.p.dqkv,
        .dk = mt_layer_at(context, v.s + v.p.dqkv, k_place(layer)),
        .dv = mt_layer_at(context, v.s + v.p.dqkv, v_place(layer)),
        .dq_stride = stride,
        .dk_stride = stride,
        .dv_stride = stride,
    };
    TRY(context->device->api->attention_backward(context->stream, &args));
    TRY(finish_qk_backward(&v, rows));
    const char *dqkv = v.s + v.p.dqkv;
    if (layer->parallel && layer->mlp_norm)
        TRY(hidden_norm_backward(&v, MT_ROLE_MLP_NORM, MT_ROLE_MLP_NORM_BIAS, x, v.p.numbers2, dinput, dy,
                                 true));
    if (!layer->attention_norm) {
        if (shared)
            TRY(mt_layer_add(context, layer, v.tokens, dy, dnormed, 1, dy));
        return linear_backward(&v, &products, x, dqkv, stride, dy, true);
    }
    TRY(linear_backward(&v, &products, attention_input(&v), dqkv, stride, dnormed, shared));
    return hidden_norm_backward(&v, MT_ROLE_ATTENTION_NORM, MT_ROLE_ATTENTION_NORM_BIAS, x, v.p.numbers1,
                                dnormed, dy, true);
}

/* In decoding, the queries or keys that a product made: normed and turned in place. */
static int finish_in_place(const struct visit *v, enum mt_role role, size_t rope_index,
                           const int32_t *positions, size_t tokens, void *x, size_t heads)
{
    const struct mt_layer *layer = v->layer;
    const size_t stride = heads * layer->head_dim;
    if (layer->qk_norm == MT_QK_NORM_NONE || layer->qk_norm_after_rope)
        TRY(rope(v, rope_index, positions, tokens, x, heads, stride, 0, false));
    if (layer->qk_norm == MT_QK_NORM_NONE)
        return 0;
    const struct mt_layer_norm norm = mt_layer_head_norm(layer, role);
    TRY(mt_layer_norm(v->context, layer, &v->slabs, &norm, tokens, x, x, NULL));
    return layer->qk_norm_after_rope ? 0 : rope(v, rope_index, positions, tokens, x, heads, stride, 0, false);
}

/* In decoding, the queries (0), keys (1) or values (2) alone, dense. */
static int linear_one(const struct visit *v, size_t which, size_t tokens, const void *input, void *out)
{
    const struct mt_layer *layer = v->layer;
    struct mt_products product = mt_layer_one_of_qkv(layer, which);
    const size_t cols = which ? kv_size(layer) : q_size(layer), own = cols / layer->num_kv_heads;
    if (!layer->qkv_by_head)
        return mt_layer_linear(v->context, layer, &v->slabs, &product, tokens, input, out, cols, false);
    product.part[0].rows = own;
    for (size_t head = 0; head < layer->num_kv_heads; head++) {
        product.part[0].first =
            head * qkv_size(layer) / layer->num_kv_heads + (which == 0   ? 0
                                                            : which == 1 ? k_place(layer)
                                                                         : v_place(layer));
        TRY(mt_layer_linear(v->context, layer, &v->slabs, &product, tokens, input,
                            mt_layer_at(v->context, out, head * own), cols, false));
    }
    return 0;
}

/* One sequence's new keys and values, straight into its cache; then its attention. */
static int decode_attention(const struct visit *v, const struct mt_decode_rows *rows,
                            const struct mt_decode_sequence *sequence, const struct mt_layer_cache *cache)
{
    const struct mt_layer_context *context = v->context;
    const struct mt_layer *layer = v->layer;
    const size_t kv = kv_size(layer), hidden = layer->hidden_size, tokens = sequence->tokens;
    char *k = mt_layer_at(context, cache->k, sequence->slot * cache->capacity * kv);
    char *values = mt_layer_at(context, cache->v, sequence->slot * cache->capacity * kv);
    char *new_k = mt_layer_at(context, k, sequence->past * kv);
    char *new_v = mt_layer_at(context, values, sequence->past * kv);
    const char *input = attention_input(v) + sequence->first * hidden * mt_dtype_bytes(context->dtype);

    TRY(linear_one(v, 1, tokens, input, new_k));
    TRY(linear_one(v, 2, tokens, input, new_v));
    TRY(finish_in_place(v, MT_ROLE_K_NORM, layer->rope, rows->positions + sequence->first, tokens, new_k,
                        layer->num_kv_heads));
    struct mt_attention_args args = attention_args(context, layer, sequence->starts, 1);
    args.q = mt_layer_at(context, v->a + v->p.qkv, sequence->first * q_size(layer));
    args.k = k;
    args.v = values;
    args.out = mt_layer_at(context, v->a + v->p.attended, sequence->first * q_size(layer));
    args.key_starts = sequence->key_starts;
    args.workspace = v->s + v->p.workspace;
    return context->device->api->attention(context->stream, &args);
}

static int dense_decode(const struct mt_layer_context *context, const struct mt_layer *layer,
                        const void *weights, const struct mt_decode_rows *rows,
                        const struct mt_layer_cache *cache, const void *x, void *y, void *activations,
                        void *scratch)
{
    struct visit v;
    TRY(open_visit(&v, context, layer, weights, rows->tokens, x, activations, scratch));
    if (layer->attention_norm)
        TRY(hidden_norm(&v, MT_ROLE_ATTENTION_NORM, MT_ROLE_ATTENTION_NORM_BIAS, x, v.a + v.p.normed1,
                        v.p.numbers1));
    TRY(linear_one(&v, 0, v.tokens, attention_input(&v), v.a + v.p.qkv));
    TRY(finish_in_place(&v, MT_ROLE_Q_NORM, layer->query_rope, rows->positions, v.tokens, v.a + v.p.qkv,
                        layer->num_heads));
    for (size_t i = 0; i < rows->num_sequences; i++)
        TRY(decode_attention(&v, rows, &rows->sequences[i], cache));
    TRY(end_branch(&v, &mt_layer_o_product, v.a + v.p.attended, layer->post_attention_norm,
                   MT_ROLE_POST_ATTENTION_NORM, v.p.branch1, v.p.post1, x, v.a + v.p.mid));
    return mlp_forward(&v, y);
}

const struct mt_layer_template mt_layer_dense_attention = {
    .name = "dense_attention",
    .layout = dense_layout,
    .forward = dense_forward,
    .backward = dense_backward,
    .decode = dense_decode,
};
