#include "core/model/layer_visit.h"

#include "core/base/size.h"

static bool take(size_t *total, bool wanted, size_t rows, size_t cols, size_t element, size_t *place)
{
    size_t bytes;
    *place = *total;
    return !wanted || (mt_size_mul(rows, cols, &bytes) && mt_size_mul(bytes, element, &bytes) &&
                       mt_size_add(*total, bytes, &bytes) && mt_size_align(bytes, 256, total));
}

int mt_layer_places(const struct mt_layer_context *context, const struct mt_layer *layer, size_t tokens,
                    struct mt_layer_places *p)
{
    const struct mt_model *model = context->model;
    const size_t data = mt_dtype_bytes(context->dtype), hidden = layer->hidden_size;
    const size_t numbers = mt_layer_norm_numbers(layer) * sizeof(float), heads = layer->num_heads;
    const size_t q = mt_layer_q_size(layer), kv = mt_layer_kv_size(layer), wide = layer->intermediate_size;
    const bool qk = layer->qk_norm != MT_QK_NORM_NONE;
    const bool sum = layer->entry && (model->positions || layer->group->by_role[MT_ROLE_PROJECT_IN]);
    size_t used = 0;
    bool fits = take(&used, sum, tokens, hidden, data, &p->entry_sum);
    fits = fits && take(&used, layer->entry && model->entry_norm, tokens, hidden, data, &p->entry);
    fits = fits && take(&used, layer->entry && model->entry_norm, tokens, 1, numbers, &p->entry_numbers);
    const size_t inputs =
        layer->side_size && layer == model->layers ? model->num_layers * layer->side_size : 0;
    fits = fits && take(&used, true, tokens, inputs, data, &p->inputs_raw);
    fits = fits && take(&used, inputs > 0, tokens, model->num_layers, numbers, &p->inputs_numbers);
    fits = fits && take(&used, layer->attention_norm, tokens, hidden, data, &p->normed1);
    fits = fits && take(&used, layer->attention_norm, tokens, 1, numbers, &p->numbers1);
    fits = fits && take(&used, true, tokens, mt_layer_qkv_size(layer), data, &p->qkv);
    fits = fits && take(&used, true, tokens, mt_layer_qk_cols(layer), data, &p->qk);
    fits = fits && take(&used, qk, tokens, heads, numbers, &p->q_numbers);
    fits = fits && take(&used, qk, tokens, layer->num_kv_heads, numbers, &p->k_numbers);
    fits = fits && take(&used, layer->stores_kv, tokens, kv, data, &p->key);
    fits = fits && take(&used, layer->value_norm, tokens, kv, data, &p->value);
    fits = fits && take(&used, layer->value_norm, tokens, layer->num_kv_heads, numbers, &p->v_numbers);
    fits = fits && take(&used, true, tokens, heads, sizeof(float), &p->lse);
    fits = fits && take(&used, true, tokens, q, data, &p->attended);
    fits = fits && take(&used, layer->attention_sub_norm, tokens, q, data, &p->sub1);
    fits = fits && take(&used, layer->attention_sub_norm, tokens, 1, numbers, &p->sub1_numbers);
    fits = fits && take(&used, layer->post_attention_norm, tokens, hidden, data, &p->branch1);
    fits = fits && take(&used, layer->post_attention_norm, tokens, 1, numbers, &p->post1);
    fits = fits && take(&used, true, tokens, hidden, data, &p->mid);
    fits = fits && take(&used, layer->mlp_norm, tokens, hidden, data, &p->normed2);
    fits = fits && take(&used, layer->mlp_norm, tokens, 1, numbers, &p->numbers2);
    fits = fits && take(&used, true, tokens, mt_layer_mlp_size(layer), data, &p->gate_up);
    fits = fits && take(&used, true, tokens, wide, data, &p->product);
    fits = fits && take(&used, layer->mlp_sub_norm, tokens, wide, data, &p->sub2);
    fits = fits && take(&used, layer->mlp_sub_norm, tokens, 1, numbers, &p->sub2_numbers);
    fits = fits && take(&used, layer->post_mlp_norm, tokens, hidden, data, &p->branch2);
    fits = fits && take(&used, layer->post_mlp_norm, tokens, 1, numbers, &p->post2);
    const size_t side = layer->side_size;
    fits = fits && take(&used, side > 0, tokens, hidden, data, &p->side_x);
    fits = fits && take(&used, true, tokens, side, data, &p->side_gate);
    fits = fits && take(&used, true, tokens, side, data, &p->side_product);
    fits = fits && take(&used, side > 0, tokens, hidden, data, &p->side_branch);
    fits = fits && take(&used, side > 0, tokens, 1, numbers, &p->side_numbers);
    p->activation_bytes = used;

    /* Backward through the MLP is over before that through attention begins: their scratch is shared. */
    if (!fits || tokens > INT32_MAX)
        return -EOVERFLOW;
    const int32_t whole[2] = {0, (int32_t)tokens};
    struct mt_attention_args args = mt_layer_attention_args(context, layer, whole, 1);
    const struct mt_device_api *api = context->device->api;
    const size_t forward = api->attention_workspace_bytes(context->device, &args, false);
    const size_t backward = api->attention_workspace_bytes(context->device, &args, true);
    const bool apart = layer->value_norm || layer->stores_kv || layer->shares_kv;
    const bool branch = layer->post_attention_norm || layer->post_mlp_norm || layer->residual_scale != 1.0f;
    used = 0;
    fits = take(&used, branch, tokens, hidden, data, &p->dbranch);
    fits = fits && take(&used, true, tokens, hidden, data, &p->dnormed);
    fits = fits && take(&used, layer->parallel, tokens, hidden, data, &p->dnormed2);
    fits = fits && take(&used, true, tokens, inputs, data, &p->dinputs);
    size_t mlp = used, attention = used;
    fits = fits && take(&mlp, true, tokens, mt_size_max(wide, side), data, &p->dproduct);
    fits = fits && take(&attention, true, tokens, q, data, &p->dattended);
    fits = fits && take(&attention, true, tokens, mt_layer_qkv_size(layer), data, &p->dqkv);
    fits = fits && take(&attention, layer->stores_kv || layer->shares_kv, tokens, kv, data, &p->dkey);
    fits = fits && take(&attention, apart, tokens, kv, data, &p->dvalue);
    fits = fits && take(&attention, true, 1, mt_size_max(forward, backward), 1, &p->workspace);
    p->scratch_bytes = mt_size_max(mlp, attention);
    return fits ? 0 : -EOVERFLOW;
}

int mt_layer_visit_open(struct mt_layer_visit *v, const struct mt_layer_context *context,
                        const struct mt_layer *layer, const void *weights, size_t tokens, const void *x,
                        void *activations, void *scratch)
{
    *v = (struct mt_layer_visit){.context = context,
                                 .layer = layer,
                                 .slabs = {.weights = weights},
                                 .tokens = tokens,
                                 .a = activations,
                                 .s = scratch,
                                 .x = x};
    return mt_layer_places(context, layer, tokens, &v->p);
}

struct mt_layer_end mt_layer_attention_end(const struct mt_layer_visit *v)
{
    return (struct mt_layer_end){&mt_layer_o_product,
                                 v->layer->post_attention_norm,
                                 MT_ROLE_POST_ATTENTION_NORM,
                                 MT_ROLE_POST_ATTENTION_NORM_BIAS,
                                 v->p.branch1,
                                 v->p.post1};
}

struct mt_layer_end mt_layer_mlp_end(const struct mt_layer_visit *v)
{
    return (struct mt_layer_end){&mt_layer_down_product, v->layer->post_mlp_norm,
                                 MT_ROLE_POST_MLP_NORM,  MT_ROLE_POST_MLP_NORM_BIAS,
                                 v->p.branch2,           v->p.post2};
}

int mt_layer_end(const struct mt_layer_visit *v, const struct mt_layer_end *end, const void *input,
                 const void *residual, void *out)
{
    const struct mt_layer *layer = v->layer;
    const size_t hidden = layer->hidden_size;
    const bool after_sum = end->normed && layer->norm_after_sum;
    void *raw = end->normed ? v->a + end->branch : out;
    if ((!end->normed || after_sum) && layer->residual_scale == 1.0f) {
        TRY(v->context->device->api->copy(v->context->stream, raw, residual,
                                          v->tokens * hidden * mt_dtype_bytes(v->context->dtype)));
        TRY(mt_visit_linear(v, end->product, input, raw, hidden, true));
        return after_sum ? mt_visit_norm(v, end->role, end->bias, hidden, raw, out, end->numbers) : 0;
    }
    TRY(mt_visit_linear(v, end->product, input, raw, hidden, false));
    if (end->normed && !after_sum)
        TRY(mt_visit_norm(v, end->role, end->bias, hidden, raw, out, end->numbers));
    void *sum = after_sum ? raw : out;
    TRY(mt_layer_add(v->context, layer, v->tokens, residual, sum, layer->residual_scale, sum));
    return after_sum ? mt_visit_norm(v, end->role, end->bias, hidden, raw, out, end->numbers) : 0;
}

int mt_layer_end_backward(const struct mt_layer_visit *v, const struct mt_layer_end *end, void *dy,
                          const void **dbranch)
{
    const struct mt_layer *layer = v->layer;
    const size_t hidden = layer->hidden_size;
    char *room = v->s + v->p.dbranch;
    const bool after_sum = end->normed && layer->norm_after_sum;
    if (after_sum)
        TRY(mt_visit_norm_backward(v, end->role, end->bias, hidden, v->a + end->branch, end->numbers, dy, dy,
                                   false));
    *dbranch = dy;
    if (layer->residual_scale != 1.0f) {
        TRY(mt_layer_add(v->context, layer, v->tokens, NULL, dy, layer->residual_scale, room));
        *dbranch = room;
    }
    if (!end->normed || after_sum)
        return 0;
    TRY(mt_visit_norm_backward(v, end->role, end->bias, hidden, v->a + end->branch, end->numbers, *dbranch,
                               room, false));
    *dbranch = room;
    return 0;
}
