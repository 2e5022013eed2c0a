/* The first half of a dense layer.
 *
 *   n1  = norm(x)                       (or x itself, where only results are normed)
 *   b1  = O(norm(attention(rope(norm(Q n1)), rope(norm(K n1)), norm(V n1))))
 *   mid = x + scale * norm(b1)
 *
 * Q, K and V read the same input and are neighbours in the slab, so one product makes all three, side by side
 * in a row. Queries and keys are turned where they stand; where their norm, or the clipping, must find them
 * again unturned, they are turned in a place of their own (qk). */
#include "core/model/family.h"
#include "core/model/layer_visit.h"

/* Where keys and values lie in a row of the products, after the queries. */
static size_t k_place(const struct mt_layer *layer)
{
    const size_t q = mt_layer_q_size(layer);
    return layer->qkv_by_head ? q / layer->num_kv_heads : q;
}
static size_t v_place(const struct mt_layer *layer)
{
    if (layer->value_is_key)
        return k_place(layer);
    return k_place(layer) + (layer->qkv_by_head ? layer->head_dim : mt_layer_kv_size(layer));
}
/* Rows that are made of groups, one a key-value head. */
static size_t group_size(const struct mt_layer *layer)
{
    return mt_layer_qkv_size(layer) / layer->num_kv_heads;
}

static bool has_rope(const struct mt_layer *layer)
{
    return layer->rope != MT_ROPE_NONE || layer->query_rope != MT_ROPE_NONE;
}

size_t mt_layer_qk_cols(const struct mt_layer *layer)
{
    if (layer->stores_kv || layer->shares_kv)
        return mt_layer_q_size(layer);
    if (layer->qk_norm == MT_QK_NORM_NONE && !(layer->qkv_clip > 0 && has_rope(layer)))
        return 0;
    if (layer->qkv_by_head || layer->qk_norm == MT_QK_NORM_NONE)
        return mt_layer_qkv_size(layer);
    return mt_layer_q_size(layer) + mt_layer_kv_size(layer);
}

struct mt_attention_args mt_layer_attention_args(const struct mt_layer_context *context,
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
        .alibi = layer->alibi ? context->alibi : NULL,
        .alibi_bf16 = layer->alibi && context->model->family->alibi_bf16,
        .dtype = context->dtype,
    };
}

static int rope(const struct mt_layer_visit *v, size_t index, const int32_t *positions, size_t tokens,
                void *x, size_t heads, size_t stride, size_t run, bool inverse)
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
static int rope_qk(const struct mt_layer_visit *v, const struct mt_rows *rows, void *qk, size_t stride,
                   bool inverse)
{
    const struct mt_layer *layer = v->layer;
    const size_t run = layer->qkv_by_head ? layer->num_heads / layer->num_kv_heads + 1 : 0;
    if (layer->stores_kv || layer->shares_kv)
        return rope(v, layer->query_rope, rows->positions, v->tokens, qk, layer->num_heads, stride, 0,
                    inverse);
    if (layer->query_rope == layer->rope)
        return rope(v, layer->rope, rows->positions, v->tokens, qk, layer->num_heads + layer->num_kv_heads,
                    stride, run, inverse);
    TRY(rope(v, layer->query_rope, rows->positions, v->tokens, qk, layer->num_heads, stride, 0, inverse));
    return rope(v, layer->rope, rows->positions, v->tokens,
                mt_layer_at(v->context, qk, mt_layer_q_size(layer)), layer->num_kv_heads, stride, 0, inverse);
}

/* The norm of the queries, or of the keys, as they stand among the products (x) and in qk (y). */
static struct mt_layer_norm norm_of(const struct mt_layer *layer, enum mt_role role)
{
    struct mt_layer_norm norm = mt_layer_head_norm(layer, role);
    norm.x_stride = mt_layer_qkv_size(layer);
    norm.y_stride = mt_layer_qk_cols(layer);
    if (layer->qkv_by_head) {
        norm.rows_a_token = layer->num_kv_heads;
        norm.groups /= layer->num_kv_heads;
        norm.x_stride = norm.y_stride = group_size(layer);
    }
    return norm;
}

/* Of the values: by head, without weights. */
static struct mt_layer_norm value_norm(const struct mt_layer *layer)
{
    return (struct mt_layer_norm){.weight = MT_NUM_ROLES,
                                  .bias = MT_NUM_ROLES,
                                  .groups = layer->num_kv_heads,
                                  .cols = layer->head_dim,
                                  .x_stride = mt_layer_qkv_size(layer)};
}

/* Queries, keys and values, clipped, normed and turned, to where attention reads them. */
static int finish_qkv(const struct mt_layer_visit *v, const struct mt_rows *rows)
{
    const struct mt_layer *layer = v->layer;
    const struct mt_layer_context *context = v->context;
    const size_t stride = mt_layer_qkv_size(layer), narrow = mt_layer_qk_cols(layer);
    char *qkv = v->a + v->p.qkv, *qk = v->a + v->p.qk;
    if (layer->qkv_clip > 0)
        TRY(context->device->api->clip(context->stream, &(struct mt_clip_args){.x = qkv,
                                                                               .rows = v->tokens,
                                                                               .cols = stride,
                                                                               .limit = layer->qkv_clip,
                                                                               .dtype = context->dtype}));
    if (layer->value_norm && !layer->shares_kv) {
        const struct mt_layer_norm norm = value_norm(layer);
        TRY(mt_layer_norm(context, layer, &v->slabs, &norm, v->tokens,
                          mt_layer_at(context, qkv, v_place(layer)), v->a + v->p.value,
                          mt_layer_numbers(v, v->p.v_numbers)));
    }
    if (layer->qk_norm == MT_QK_NORM_NONE) {
        if (narrow)
            TRY(context->device->api->copy(context->stream, qk, qkv,
                                           v->tokens * stride * mt_dtype_bytes(context->dtype)));
        return rope_qk(v, rows, narrow ? qk : qkv, stride, false);
    }
    if (layer->qk_norm_after_rope)
        TRY(rope_qk(v, rows, qkv, stride, false));
    struct mt_layer_norm norm = norm_of(layer, MT_ROLE_Q_NORM);
    TRY(mt_layer_norm(context, layer, &v->slabs, &norm, v->tokens, qkv, qk,
                      mt_layer_numbers(v, v->p.q_numbers)));
    if (layer->shares_kv)
        return rope_qk(v, rows, qk, narrow, false);
    norm = norm_of(layer, MT_ROLE_K_NORM);
    char *key = mt_layer_at(context, qk, k_place(layer));
    if (layer->stores_kv) {
        key = v->a + v->p.key;
        norm.y_stride = 0;
    }
    TRY(mt_layer_norm(context, layer, &v->slabs, &norm, v->tokens, mt_layer_at(context, qkv, k_place(layer)),
                      key, mt_layer_numbers(v, v->p.k_numbers)));
    if (layer->stores_kv)
        TRY(rope(v, layer->rope, rows->positions, v->tokens, key, layer->num_kv_heads,
                 mt_layer_kv_size(layer), 0, false));
    return layer->qk_norm_after_rope ? 0 : rope_qk(v, rows, qk, narrow, false);
}

/* `dk`, among the gradients of the products, from the gradient of keys that stand apart. */
static int stored_keys_backward(const struct mt_layer_visit *v, const struct mt_rows *rows, void *dk)
{
    const struct mt_layer *layer = v->layer;
    const struct mt_layer_context *context = v->context;
    const size_t stride = mt_layer_qkv_size(layer);
    char *dkey = v->s + v->p.dkey;
    TRY(rope(v, layer->rope, rows->positions, v->tokens, dkey, layer->num_kv_heads, mt_layer_kv_size(layer),
             0, true));
    return context->device->api->rms_norm_backward(
        context->stream, &(struct mt_rms_norm_backward_args){
                             .x = mt_layer_at(context, v->a + v->p.qkv, k_place(layer)),
                             .weight = mt_layer_weight(context, layer, &v->slabs, MT_ROLE_K_NORM),
                             .dy = dkey,
                             .rstd = mt_layer_numbers(v, v->p.k_numbers),
                             .dx = dk,
                             .dweight = mt_layer_gradient(layer, &v->slabs, MT_ROLE_K_NORM),
                             .rows = v->tokens,
                             .groups = layer->num_kv_heads,
                             .cols = layer->head_dim,
                             .x_stride = stride,
                             .dx_stride = stride,
                             .weight_offset = layer->norm_weight_offset,
                             .accumulate_dweight = v->slabs.accumulate,
                             .dtype = context->dtype,
                         });
}

/* dqkv, the gradient of queries and keys as attention read them, becomes that of the products. */
static int finish_qk_backward(const struct mt_layer_visit *v, const struct mt_rows *rows)
{
    const struct mt_layer *layer = v->layer;
    const size_t stride = mt_layer_qkv_size(layer);
    char *qkv = v->a + v->p.qkv, *dqkv = v->s + v->p.dqkv;
    if (layer->qk_norm == MT_QK_NORM_NONE || !layer->qk_norm_after_rope)
        TRY(rope_qk(v, rows, dqkv, stride, true));
    if (layer->qk_norm == MT_QK_NORM_NONE)
        return 0;
    char *dk = mt_layer_at(v->context, dqkv, k_place(layer));
    struct mt_layer_norm norm = norm_of(layer, MT_ROLE_Q_NORM);
    TRY(mt_layer_norm_backward(v->context, layer, &v->slabs, &norm, v->tokens, qkv,
                               mt_layer_numbers(v, v->p.q_numbers), dqkv, dqkv, norm.x_stride, false));
    if (layer->shares_kv)
        return 0;
    if (layer->stores_kv)
        return stored_keys_backward(v, rows, dk);
    norm = norm_of(layer, MT_ROLE_K_NORM);
    TRY(mt_layer_norm_backward(v->context, layer, &v->slabs, &norm, v->tokens,
                               mt_layer_at(v->context, qkv, k_place(layer)),
                               mt_layer_numbers(v, v->p.k_numbers), dk, dk, norm.x_stride, false));
    return layer->qk_norm_after_rope ? rope_qk(v, rows, dqkv, stride, true) : 0;
}

/* And the values' part. `dvalue`: the gradient of normed values, dense. */
static int finish_values_backward(const struct mt_layer_visit *v, const void *dvalue)
{
    const struct mt_layer *layer = v->layer;
    const struct mt_layer_context *context = v->context;
    const size_t stride = mt_layer_qkv_size(layer);
    char *qkv = v->a + v->p.qkv, *dqkv = v->s + v->p.dqkv;
    if (layer->value_norm && !layer->shares_kv)
        TRY(context->device->api->rms_norm_backward(context->stream,
                                                    &(struct mt_rms_norm_backward_args){
                                                        .x = mt_layer_at(context, qkv, v_place(layer)),
                                                        .dy = dvalue,
                                                        .rstd = mt_layer_numbers(v, v->p.v_numbers),
                                                        .dx = mt_layer_at(context, dqkv, v_place(layer)),
                                                        .rows = v->tokens,
                                                        .groups = layer->num_kv_heads,
                                                        .cols = layer->head_dim,
                                                        .x_stride = stride,
                                                        .dx_stride = stride,
                                                        .accumulate_dx = layer->value_is_key,
                                                        .dtype = context->dtype,
                                                    }));
    if (layer->qkv_clip > 0)
        TRY(context->device->api->clip(context->stream, &(struct mt_clip_args){.x = dqkv,
                                                                               .by = qkv,
                                                                               .rows = v->tokens,
                                                                               .cols = stride,
                                                                               .limit = layer->qkv_clip,
                                                                               .dtype = context->dtype}));
    return 0;
}

static struct mt_attention_args bind_attention(const struct mt_layer_visit *v, const struct mt_rows *rows)
{
    const struct mt_layer *layer = v->layer;
    const size_t apart = mt_layer_qk_cols(layer), stride = mt_layer_qkv_size(layer);
    char *qk = v->a + (apart ? v->p.qk : v->p.qkv);
    struct mt_attention_args args =
        mt_layer_attention_args(v->context, layer, rows->document_starts, rows->num_documents);
    args.q = qk;
    args.k = mt_layer_at(v->context, qk, k_place(layer));
    args.v = layer->value_norm ? v->a + v->p.value : mt_layer_at(v->context, v->a + v->p.qkv, v_place(layer));
    if (layer->qkv_by_head)
        args.q_group_stride = args.kv_head_stride = group_size(layer);
    args.q_stride = args.k_stride = apart ? apart : stride;
    args.v_stride = layer->value_norm ? 0 : stride;
    if (layer->stores_kv) {
        args.k = v->a + v->p.key;
        args.k_stride = 0;
    }
    if (layer->shares_kv) {
        args.k = mt_layer_plane(v, v->beside, layer->kv_place);
        args.v = mt_layer_plane(v, v->beside, layer->kv_place + mt_layer_kv_size(layer));
        args.k_stride = args.v_stride = 0;
    }
    args.out = v->a + v->p.attended;
    args.lse = mt_layer_numbers(v, v->p.lse);
    args.workspace = v->s + v->p.workspace;
    return args;
}

/* From what attention gave to mid. */
static int finish(const struct mt_layer_visit *v)
{
    const struct mt_layer *layer = v->layer;
    const struct mt_layer_end end = mt_layer_attention_end(v);
    char *attended = v->a + v->p.attended, *sub = v->a + v->p.sub1;
    if (layer->attention_sub_norm)
        TRY(mt_visit_norm(v, MT_ROLE_ATTENTION_SUB_NORM, MT_NUM_ROLES, mt_layer_q_size(layer), attended, sub,
                          v->p.sub1_numbers));
    return mt_layer_end(v, &end, layer->attention_sub_norm ? sub : attended,
                        layer->residual_normed ? mt_layer_attention_input(v) : v->x, v->a + v->p.mid);
}

static int norm_input(const struct mt_layer_visit *v)
{
    if (!v->layer->attention_norm)
        return 0;
    return mt_visit_norm(v, MT_ROLE_ATTENTION_NORM, MT_ROLE_ATTENTION_NORM_BIAS, v->layer->hidden_size, v->x,
                         v->a + v->p.normed1, v->p.numbers1);
}

int mt_layer_attention_forward(const struct mt_layer_visit *v, const struct mt_rows *rows)
{
    const struct mt_products products = mt_layer_qkv_products(v->layer);
    TRY(norm_input(v));
    TRY(mt_visit_linear(v, &products, mt_layer_attention_input(v), v->a + v->p.qkv,
                        mt_layer_qkv_size(v->layer), false));
    TRY(finish_qkv(v, rows));
    struct mt_attention_args args = bind_attention(v, rows);
    TRY(v->context->device->api->attention(v->context->stream, &args));
    return finish(v);
}

/* Keys and values that several layers read: a reader adds their gradient to what stands at their place
 * beside the stream's; the layer that made them takes it from there. */
static int share_gradients(const struct mt_layer_visit *v)
{
    const size_t kv = mt_layer_kv_size(v->layer);
    char *own[2] = {v->s + v->p.dkey, v->s + v->p.dvalue};
    for (size_t i = 0; i < 2; i++) {
        char *handed = mt_layer_plane(v, v->beside_gradient, v->layer->kv_place + i * kv);
        TRY(v->context->device->api->add(v->context->stream,
                                         &(struct mt_add_args){.a = handed,
                                                               .b = own[i],
                                                               .y = v->layer->shares_kv ? handed : own[i],
                                                               .count = v->tokens * kv,
                                                               .scale = 1,
                                                               .dtype = v->context->dtype}));
    }
    return 0;
}

/* From dmid to dqkv, the gradient of the products. */
static int attention_backward(const struct mt_layer_visit *v, const struct mt_rows *rows, void *dmid)
{
    const struct mt_layer_context *context = v->context;
    const struct mt_layer *layer = v->layer;
    const struct mt_layer_end end = mt_layer_attention_end(v);
    const size_t stride = mt_layer_qkv_size(layer);
    char *dattended = v->s + v->p.dattended, *attended = v->a + v->p.attended, *dqkv = v->s + v->p.dqkv;
    const void *dbranch;
    TRY(mt_layer_end_backward(v, &end, dmid, &dbranch));
    TRY(mt_visit_linear_backward(v, end.product, layer->attention_sub_norm ? v->a + v->p.sub1 : attended,
                                 dbranch, layer->hidden_size, dattended, false));
    if (layer->attention_sub_norm)
        TRY(mt_visit_norm_backward(v, MT_ROLE_ATTENTION_SUB_NORM, MT_NUM_ROLES, mt_layer_q_size(layer),
                                   attended, v->p.sub1_numbers, dattended, dattended, false));
    const bool shared = layer->stores_kv || layer->shares_kv, dense = layer->value_norm || shared;
    char *dvalue = dense ? v->s + v->p.dvalue : mt_layer_at(context, dqkv, v_place(layer));
    struct mt_attention_backward_args args = {
        .forward = bind_attention(v, rows),
        .dout = dattended,
        .dq = dqkv,
        .dk = shared ? v->s + v->p.dkey : mt_layer_at(context, dqkv, k_place(layer)),
        .dv = dvalue,
        .dq_stride = stride,
        .dk_stride = shared ? 0 : stride,
        .dv_stride = dense ? 0 : stride,
    };
    TRY(context->device->api->attention_backward(context->stream, &args));
    if (shared)
        TRY(share_gradients(v));
    TRY(finish_qk_backward(v, rows));
    return finish_values_backward(v, dvalue);
}

int mt_layer_attention_backward(const struct mt_layer_visit *v, const struct mt_rows *rows, void *dmid)
{
    const struct mt_layer *layer = v->layer;
    const struct mt_products products = mt_layer_qkv_products(layer);
    const size_t stride = mt_layer_qkv_size(layer), hidden = layer->hidden_size;
    const bool shared = layer->parallel && !layer->mlp_norm;
    char *dnormed = v->s + v->p.dnormed, *dqkv = v->s + v->p.dqkv;
    TRY(attention_backward(v, rows, dmid));
    if (layer->parallel && layer->mlp_norm)
        TRY(mt_visit_norm_backward(v, MT_ROLE_MLP_NORM, MT_ROLE_MLP_NORM_BIAS, hidden, v->x, v->p.numbers2,
                                   v->s + v->p.dnormed2, dmid, true));
    if (!layer->attention_norm) {
        if (shared)
            TRY(mt_layer_add(v->context, layer, v->tokens, dmid, dnormed, 1, dmid));
        return mt_visit_linear_backward(v, &products, v->x, dqkv, stride, dmid, true);
    }
    TRY(mt_visit_linear_backward(v, &products, mt_layer_attention_input(v), dqkv, stride, dnormed, shared));
    if (layer->residual_normed)
        TRY(mt_layer_add(v->context, layer, v->tokens, dnormed, dmid, 1, dnormed));
    return mt_visit_norm_backward(v, MT_ROLE_ATTENTION_NORM, MT_ROLE_ATTENTION_NORM_BIAS, hidden, v->x,
                                  v->p.numbers1, dnormed, dmid, !layer->residual_normed);
}

/* ---- decoding ---- */

static int clip_in_place(const struct mt_layer_visit *v, size_t tokens, void *x, size_t cols)
{
    if (!(v->layer->qkv_clip > 0))
        return 0;
    return v->context->device->api->clip(
        v->context->stream,
        &(struct mt_clip_args){
            .x = x, .rows = tokens, .cols = cols, .limit = v->layer->qkv_clip, .dtype = v->context->dtype});
}

/* The queries or keys that a product made: normed and turned in place. */
static int finish_in_place(const struct mt_layer_visit *v, enum mt_role role, size_t rope_index,
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

/* The queries (0), keys (1) or values (2) alone, dense. */
static int linear_one(const struct mt_layer_visit *v, size_t which, size_t tokens, const void *input,
                      void *out)
{
    const struct mt_layer *layer = v->layer;
    struct mt_products product = mt_layer_one_of_qkv(layer, which);
    const size_t cols = which ? mt_layer_kv_size(layer) : mt_layer_q_size(layer);
    const size_t own = cols / layer->num_kv_heads;
    if (!layer->qkv_by_head) {
        TRY(mt_layer_linear(v->context, layer, &v->slabs, &product, tokens, input, out, cols, false));
        return clip_in_place(v, tokens, out, cols);
    }
    product.part[0].rows = own;
    for (size_t head = 0; head < layer->num_kv_heads; head++) {
        product.part[0].first = head * group_size(layer) + (which == 0   ? 0
                                                            : which == 1 ? k_place(layer)
                                                                         : v_place(layer));
        TRY(mt_layer_linear(v->context, layer, &v->slabs, &product, tokens, input,
                            mt_layer_at(v->context, out, head * own), cols, false));
    }
    return clip_in_place(v, tokens, out, cols);
}

/* One sequence's new keys and values, straight into its cache; then its attention. */
static int decode_sequence(const struct mt_layer_visit *v, const struct mt_decode_rows *rows,
                           const struct mt_decode_sequence *sequence, const struct mt_layer_cache *cache)
{
    const struct mt_layer_context *context = v->context;
    const struct mt_layer *layer = v->layer;
    const size_t kv = mt_layer_kv_size(layer), hidden = layer->hidden_size, tokens = sequence->tokens;
    const size_t q = mt_layer_q_size(layer);
    char *k = mt_layer_at(context, cache->k, sequence->slot * cache->capacity * kv);
    char *values = mt_layer_at(context, cache->v, sequence->slot * cache->capacity * kv);
    char *new_k = mt_layer_at(context, k, sequence->past * kv);
    char *new_v = mt_layer_at(context, values, sequence->past * kv);
    const char *input =
        mt_layer_attention_input(v) + sequence->first * hidden * mt_dtype_bytes(context->dtype);

    if (!layer->shares_kv) {
        TRY(linear_one(v, 1, tokens, input, new_k));
        TRY(linear_one(v, 2, tokens, input, new_v));
        TRY(finish_in_place(v, MT_ROLE_K_NORM, layer->rope, rows->positions + sequence->first, tokens, new_k,
                            layer->num_kv_heads));
    }
    if (layer->value_norm && !layer->shares_kv) {
        struct mt_layer_norm norm = value_norm(layer);
        norm.x_stride = 0;
        TRY(mt_layer_norm(context, layer, &v->slabs, &norm, tokens, new_v, new_v, NULL));
    }
    struct mt_attention_args args = mt_layer_attention_args(context, layer, sequence->starts, 1);
    args.q = mt_layer_at(context, v->a + v->p.qkv, sequence->first * q);
    args.k = k;
    args.v = values;
    args.out = mt_layer_at(context, v->a + v->p.attended, sequence->first * q);
    args.key_starts = sequence->key_starts;
    args.workspace = v->s + v->p.workspace;
    return context->device->api->attention(context->stream, &args);
}

int mt_layer_attention_decode(const struct mt_layer_visit *v, const struct mt_decode_rows *rows,
                              const struct mt_layer_cache *cache)
{
    TRY(norm_input(v));
    TRY(linear_one(v, 0, v->tokens, mt_layer_attention_input(v), v->a + v->p.qkv));
    TRY(finish_in_place(v, MT_ROLE_Q_NORM, v->layer->query_rope, rows->positions, v->tokens, v->a + v->p.qkv,
                        v->layer->num_heads));
    for (size_t i = 0; i < rows->num_sequences; i++)
        TRY(decode_sequence(v, rows, &rows->sequences[i], cache));
    return finish(v);
}
