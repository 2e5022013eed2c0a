/* What each operation of the device interface costs: its multiplications and additions where it is a product,
 * and the bytes that it must read and write at least. */
#include "core/plan/device_internal.h"

static double element(enum mt_dtype dtype)
{
    return (double)mt_dtype_bytes(dtype);
}

static int embedding(struct mt_stream *stream, const struct mt_embedding_args *a)
{
    return mt_plan_operate(
        stream, 0, (double)a->tokens * (double)a->hidden * (element(a->table_dtype) + element(a->dtype)));
}

static int embedding_backward(struct mt_stream *stream, const struct mt_embedding_backward_args *a)
{
    return mt_plan_operate(stream, 0, (double)a->tokens * (double)a->hidden * (element(a->dtype) + 8));
}

static int rms_norm(struct mt_stream *stream, const struct mt_rms_norm_args *a)
{
    return mt_plan_operate(stream, 0, 2 * (double)a->rows * (double)a->cols * element(a->dtype));
}

static int rms_norm_backward(struct mt_stream *stream, const struct mt_rms_norm_backward_args *a)
{
    return mt_plan_operate(
        stream, 0, (a->accumulate_dx ? 4 : 3) * (double)a->rows * (double)a->cols * element(a->dtype));
}

/* out[rows, cols] from a product over `inner`. */
static int product(struct mt_stream *stream, size_t rows, size_t inner, size_t cols, double bytes)
{
    return mt_plan_operate(stream, 2 * (double)rows * (double)inner * (double)cols, bytes);
}

static int linear(struct mt_stream *stream, const struct mt_linear_args *a)
{
    const double t = (double)a->tokens, in = (double)a->in_features, out = (double)a->out_features;
    return product(stream, a->tokens, a->in_features, a->out_features,
                   (t * in + in * out + t * out * (a->accumulate ? 2 : 1)) * element(a->dtype));
}

static int linear_backward_input(struct mt_stream *stream, const struct mt_linear_backward_input_args *a)
{
    const double t = (double)a->tokens, in = (double)a->in_features, out = (double)a->out_features;
    return product(stream, a->tokens, a->out_features, a->in_features,
                   (t * out + in * out) * element(a->dtype) +
                       t * in * (a->accumulate ? 2 : 1) * element(a->wide_dx ? MT_F32 : a->dtype));
}

static int linear_backward_weight(struct mt_stream *stream, const struct mt_linear_backward_weight_args *a)
{
    const double t = (double)a->tokens, in = (double)a->in_features, out = (double)a->out_features;
    return product(stream, a->out_features, a->tokens, a->in_features,
                   (t * out + t * in) * element(a->dtype) + in * out * (a->accumulate ? 8 : 4));
}

static int rope(struct mt_stream *stream, const struct mt_rope_args *a)
{
    return mt_plan_operate(
        stream, 0, 2 * (double)a->tokens * (double)a->heads * (double)a->rotary_dim * element(a->dtype));
}

/* Pairs of a query and a key that it sees. */
static double pairs(const struct mt_attention_args *a)
{
    const int32_t *keys = a->key_starts ? a->key_starts : a->document_starts;
    double sum = 0;
    for (size_t d = 0; d < a->num_documents; d++) {
        const double queries = (double)(a->document_starts[d + 1] - a->document_starts[d]);
        const double longest = (double)(keys[d + 1] - keys[d]);
        double seen = queries * (longest - queries) + queries * (queries + 1) / 2;
        if (a->window && longest > (double)a->window)
            seen = queries * (double)a->window;
        sum += seen;
    }
    return sum;
}

static double attention_bytes(const struct mt_attention_args *a)
{
    const double tokens = (double)a->document_starts[a->num_documents];
    return tokens * (double)(2 * a->num_heads + 2 * a->num_kv_heads) * (double)a->head_dim *
           element(a->dtype);
}

static int attention(struct mt_stream *stream, const struct mt_attention_args *a)
{
    /* Scores, and the values' weighted sum. */
    return mt_plan_operate(stream, 4 * pairs(a) * (double)a->num_heads * (double)a->head_dim,
                           attention_bytes(a));
}

static int attention_backward(struct mt_stream *stream, const struct mt_attention_backward_args *a)
{
    /* Scores again, then the gradients of probabilities, queries, keys and values. */
    const struct mt_attention_args *forward = &a->forward;
    return mt_plan_operate(stream,
                           10 * pairs(forward) * (double)forward->num_heads * (double)forward->head_dim,
                           2 * attention_bytes(forward));
}

static int gated_activation(struct mt_stream *stream, const struct mt_gated_activation_args *a)
{
    return mt_plan_operate(stream, 0,
                           (a->up ? 3 : 2) * (double)a->rows * (double)a->cols * element(a->dtype));
}

static int gated_activation_backward(struct mt_stream *stream,
                                     const struct mt_gated_activation_backward_args *a)
{
    return mt_plan_operate(stream, 0,
                           (a->up ? 5 : 3) * (double)a->rows * (double)a->cols * element(a->dtype));
}

static int add(struct mt_stream *stream, const struct mt_add_args *a)
{
    return mt_plan_operate(stream, 0, 3 * (double)a->count * element(a->dtype));
}

static int xielu(struct mt_stream *stream, const struct mt_xielu_args *a)
{
    return mt_plan_operate(stream, 0, 2 * (double)a->count * element(a->dtype));
}

static int xielu_backward(struct mt_stream *stream, const struct mt_xielu_backward_args *a)
{
    return mt_plan_operate(stream, 0, 3 * (double)a->count * element(a->dtype));
}

static int clip(struct mt_stream *stream, const struct mt_clip_args *a)
{
    return mt_plan_operate(stream, 0,
                           (a->by ? 3 : 2) * (double)a->rows * (double)a->cols * element(a->dtype));
}

static int cross_entropy_statistics(struct mt_stream *stream,
                                    const struct mt_cross_entropy_statistics_args *a)
{
    return mt_plan_operate(stream, 0, (double)a->rows * (double)a->cols * element(a->dtype));
}

static int cross_entropy_finish(struct mt_stream *stream, const struct mt_cross_entropy_finish_args *a)
{
    return mt_plan_operate(stream, 0, 24 * (double)a->rows);
}

static int cross_entropy_backward(struct mt_stream *stream, const struct mt_cross_entropy_backward_args *a)
{
    return mt_plan_operate(stream, 0, 2 * (double)a->rows * (double)a->cols * element(a->dtype));
}

static int sum_squares(struct mt_stream *stream, const struct mt_sum_squares_args *a)
{
    return mt_plan_operate(stream, 0, 4 * (double)a->count);
}

static int cast(struct mt_stream *stream, const struct mt_cast_args *a)
{
    return mt_plan_operate(stream, 0, (double)a->count * (element(a->src_dtype) + element(a->dst_dtype)));
}

void mt_plan_operations(struct mt_device_api *api)
{
    api->embedding = embedding;
    api->embedding_backward = embedding_backward;
    api->rms_norm = rms_norm;
    api->rms_norm_backward = rms_norm_backward;
    api->linear = linear;
    api->linear_backward_input = linear_backward_input;
    api->linear_backward_weight = linear_backward_weight;
    api->rope = rope;
    api->attention = attention;
    api->attention_backward = attention_backward;
    api->gated_activation = gated_activation;
    api->gated_activation_backward = gated_activation_backward;
    api->add = add;
    api->xielu = xielu;
    api->xielu_backward = xielu_backward;
    api->clip = clip;
    api->cross_entropy_statistics = cross_entropy_statistics;
    api->cross_entropy_finish = cross_entropy_finish;
    api->cross_entropy_backward = cross_entropy_backward;
    api->sum_squares = sum_squares;
    api->cast = cast;
}
