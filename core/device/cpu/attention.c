/* Causal grouped-query attention, forward.
 *
 *   S = scale * q k^T, perhaps softcap * tanh(S / softcap) or S + alibi * (key - query); P = softmax of S
 * over the keys that a query sees; out = P v; lse = log of the sum of e^S
 *
 * A task is a block of queries of one document with all query heads that share a key-value head: their rows
 * (query, head) make one matrix, so that a product has some 192 rows against 128 keys. It walks the blocks of
 * keys that it sees, in order, with an online softmax (Milakov and Gimelshein, 2018; Dao et al., 2022): the
 * running maximum m and sum l of a row, and what has been added up so far is scaled by e^(m before - m now).
 * Nothing that a task does depends on another document. bf16 operands are widened; P stays fp32.
 */
#include "core/device/cpu/attention.h"

#include "core/device/cpu/blas.h"
#include "core/device/cpu/math.h"

#include <limits.h>
#include <math.h>

struct mt_attention_block mt_attention_block(const struct mt_attention_args *a, size_t document, size_t index)
{
    const int32_t *queries = a->document_starts + document, *keys = a->key_starts + document;
    const size_t num_queries = (size_t)(queries[1] - queries[0]), first = index * mt_attention_queries(a);
    struct mt_attention_block block = {
        .query = (size_t)queries[0] + first,
        .queries = mt_size_min(mt_attention_queries(a), num_queries - first),
        .key = (size_t)keys[0],
        .keys = (size_t)(keys[1] - keys[0]),
    };
    block.position = block.keys - num_queries + first;
    block.visible = mt_attention_sees(a, block.position).first;
    block.visible_end = block.position + block.queries;
    return block;
}

int mt_attention_check(struct mt_stream *stream, const char *operation, struct mt_attention_args *a)
{
    const size_t starts_bytes = (a->num_documents + 1) * sizeof(int32_t);
    const struct mt_cpu_operand starts[] = {
        {.name = "document_starts", .address = a->document_starts, .bytes = starts_bytes, .host = true},
        {.name = "key_starts",
         .address = a->key_starts,
         .bytes = starts_bytes,
         .host = true,
         .optional = true},
    };
    const int code = mt_cpu_check_operands(stream, operation, starts, 2);
    if (code)
        return code;
    if (!mt_cpu_data_dtype(a->dtype) || !a->head_dim || !a->num_kv_heads || !a->num_heads ||
        a->num_heads % a->num_kv_heads || a->document_starts[0] != 0 || (a->alibi && a->softcap > 0) ||
        (a->alibi_bf16 && (!a->alibi || a->window > 0)))
        return -EINVAL;
    if (!a->key_starts)
        a->key_starts = a->document_starts;
    const size_t group = mt_attention_group(a) * a->head_dim;
    a->q_group_stride = a->q_group_stride ? a->q_group_stride : group;
    a->kv_head_stride = a->kv_head_stride ? a->kv_head_stride : a->head_dim;
    if (a->q_group_stride < group || a->kv_head_stride < a->head_dim)
        return -EINVAL;
    const size_t q_cols = mt_attention_q_cols(a), k_cols = mt_attention_k_cols(a);
    a->q_stride = a->q_stride ? a->q_stride : q_cols;
    a->k_stride = a->k_stride ? a->k_stride : k_cols;
    a->v_stride = a->v_stride ? a->v_stride : k_cols;
    if (a->q_stride < q_cols || a->k_stride < k_cols || a->v_stride < k_cols || a->q_stride > INT_MAX ||
        a->k_stride > INT_MAX || a->v_stride > INT_MAX || a->key_starts[0] < 0)
        return -EINVAL;
    for (size_t d = 0; d < a->num_documents; d++) {
        const int32_t queries = a->document_starts[d + 1] - a->document_starts[d];
        if (queries < 0 || a->key_starts[d + 1] - a->key_starts[d] < queries)
            return -EINVAL;
    }
    return 0;
}

struct forward_context {
    const struct mt_attention_args *args;
    struct mt_stream *stream;
    const size_t *first_block; /* [num_documents + 1], in blocks of queries */
};

/* One row's share of a block of scores: turns s[0, keys) into probabilities (0 where not seen) relative to
 * the running maximum, and returns the factor for what was summed before. */
MT_INLINE float softmax_row(float *s, size_t first, size_t last, size_t keys, float softcap, float *max,
                            float *sum)
{
    if (first >= last) { /* nothing seen here */
        memset(s, 0, keys * sizeof *s);
        return 1;
    }
    const size_t whole = first + (last - first) / MT_LANES * MT_LANES, rest = last - whole;
    if (softcap > 0)
        for (size_t i = first; i < last; i += MT_LANES)
            mt_vf_store_part(s + i, softcap * mt_vf_tanh(mt_vf_load_part(s + i, last - i) * (1.0f / softcap)),
                             last - i);
    mt_vf lanes = mt_vf_set(*max);
    for (size_t i = first; i < whole; i += MT_LANES)
        lanes = mt_vf_max(mt_vf_load(s + i), lanes);
    const mt_vf end = mt_vf_load_part(s + whole, rest);
    lanes = mt_vf_max(mt_vf_select(mt_vi_below(rest), end, lanes), lanes);
    const float largest = mt_vf_largest(lanes);
    mt_vf total = mt_vf_set(0);
    for (size_t i = first; i < whole; i += MT_LANES) {
        const mt_vf e = mt_vf_exp(mt_vf_load(s + i) - largest);
        total += e;
        mt_vf_store(s + i, e);
    }
    if (rest) {
        const mt_vf e = mt_vf_select(mt_vi_below(rest), mt_vf_exp(end - largest), mt_vf_set(0));
        total += e;
        mt_vf_store_part(s + whole, e, rest);
    }
    memset(s, 0, first * sizeof *s);
    memset(s + last, 0, (keys - last) * sizeof *s);
    const float factor = *max == largest ? 1 : mt_vf_exp(mt_vf_set(*max - largest))[0];
    *sum = *sum * factor + mt_vf_sum(total);
    *max = largest;
    return factor;
}

MT_INLINE void scale_row(float *row, size_t cols, float factor)
{
    for (size_t i = 0; i < cols; i += MT_LANES)
        mt_vf_store_part(row + i, factor * mt_vf_load_part(row + i, cols - i), cols - i);
}

MT_INLINE void forward_block(const struct forward_context *ctx, const struct mt_attention_block *block,
                             size_t kv_head, const bool narrow)
{
    const struct mt_attention_args *a = ctx->args;
    const size_t group = mt_attention_group(a), rows = block->queries * group, dim = a->head_dim;
    const size_t q_col = kv_head * a->q_group_stride, k_col = kv_head * a->kv_head_stride;
    float *q = mt_cpu_thread_scratch(
        (rows * (2 * dim + MT_ATTENTION_KEYS + 2) + (narrow ? 2 * MT_ATTENTION_KEYS * dim : 0)) *
        sizeof(float));
    if (!q) {
        mt_cpu_fail(mt_cpu_stream_device(ctx->stream), "attention: no host memory for a block of scores");
        return;
    }
    float *out = q + rows * dim, *scores = out + rows * dim, *max = scores + rows * MT_ATTENTION_KEYS;
    float *sum = max + rows, *k_room = sum + rows, *v_room = k_room + MT_ATTENTION_KEYS * dim;
    mt_attention_gather(q, a->q, a->q_stride, block->query, block->queries, q_col, group * dim, a->scale,
                        narrow);
    for (size_t row = 0; row < rows; row++) {
        max[row] = -INFINITY;
        sum[row] = 0;
    }
    for (size_t key = block->visible; key < block->visible_end; key += MT_ATTENTION_KEYS) {
        const size_t keys = mt_size_min(MT_ATTENTION_KEYS, block->visible_end - key);
        size_t k_stride, v_stride;
        const float *k = mt_attention_keys(k_room, a->k, a->k_stride, block->key + key, keys, k_col, dim,
                                           narrow, &k_stride);
        const float *v = mt_attention_keys(v_room, a->v, a->v_stride, block->key + key, keys, k_col, dim,
                                           narrow, &v_stride);
        mt_blas_sgemm(false, true, rows, keys, dim, 1, q, dim, k, k_stride, 0, scores, keys);
        const bool first = key == block->visible;
        if (a->alibi)
            mt_attention_add_alibi(a, scores, block, kv_head, key, keys);
        for (size_t row = 0; row < rows; row++) {
            const struct mt_attention_range seen = mt_attention_sees(a, block->position + row / group);
            const size_t from = seen.first > key ? mt_size_min(keys, seen.first - key) : 0;
            const size_t to = seen.last > key ? mt_size_min(keys, seen.last - key) : 0;
            const float factor =
                softmax_row(scores + row * keys, from, to, keys, a->softcap, &max[row], &sum[row]);
            if (factor != 1 && !first)
                scale_row(out + row * dim, dim, factor);
        }
        mt_blas_sgemm(false, false, rows, dim, keys, 1, scores, keys, v, v_stride, first ? 0 : 1, out, dim);
    }
    for (size_t row = 0; row < rows; row++) {
        const size_t head = (block->query + row / group) * a->num_heads + kv_head * group + row % group;
        const float inverse = 1.0f / sum[row];
        for (size_t i = 0; i < dim; i += MT_LANES)
            mt_data_store(a->out, head * dim + i, inverse * mt_vf_load_part(out + row * dim + i, dim - i),
                          dim - i, narrow);
        if (a->lse)
            a->lse[head] = max[row] + logf(sum[row]);
    }
}

MT_INLINE void forward_task_body(void *context, size_t task)
{
    const struct forward_context *ctx = context;
    const struct mt_attention_args *a = ctx->args;
    /* The last blocks of a document see most keys: the long tasks come first. */
    const size_t index = ctx->first_block[a->num_documents] - 1 - task / a->num_kv_heads;
    size_t low = 0, high = a->num_documents - 1;
    while (low < high) { /* the last document that starts at or before `index` */
        const size_t middle = (low + high + 1) / 2;
        if (ctx->first_block[middle] <= index)
            low = middle;
        else
            high = middle - 1;
    }
    const struct mt_attention_block block = mt_attention_block(a, low, index - ctx->first_block[low]);
    if (a->dtype == MT_BF16)
        forward_block(ctx, &block, task % a->num_kv_heads, true);
    else
        forward_block(ctx, &block, task % a->num_kv_heads, false);
}
MT_CPU_KERNEL(forward_task);

static void run_forward(struct mt_stream *stream, const void *args)
{
    const struct mt_attention_args *a = args;
    size_t *first_block = mt_cpu_stream_scratch(stream, (a->num_documents + 1) * sizeof *first_block);
    if (!first_block)
        return;
    first_block[0] = 0;
    for (size_t d = 0; d < a->num_documents; d++) {
        const size_t queries = (size_t)(a->document_starts[d + 1] - a->document_starts[d]);
        first_block[d + 1] = first_block[d] + mt_size_ceil_div(queries, mt_attention_queries(a));
    }
    struct forward_context ctx = {a, stream, first_block};
    mt_cpu_parallel(stream, first_block[a->num_documents] * a->num_kv_heads, forward_task[mt_cpu_level()],
                    &ctx);
}

int mt_cpu_attention(struct mt_stream *stream, const struct mt_attention_args *args)
{
    struct mt_attention_args a = *args;
    if (!a.num_documents)
        return 0;
    const int code = mt_attention_check(stream, "attention", &a);
    if (code)
        return code;
    const size_t tokens = (size_t)a.document_starts[a.num_documents];
    const size_t all_keys = (size_t)a.key_starts[a.num_documents];
    if (!tokens)
        return 0;
    const size_t q_cols = mt_attention_q_cols(&a), k_cols = mt_attention_k_cols(&a);
    const size_t out_cols = a.num_heads * a.head_dim;
    const struct mt_cpu_operand operands[] = {
        {.name = "q", .address = a.q, .bytes = mt_cpu_span(tokens, q_cols, a.q_stride, a.dtype)},
        {.name = "k", .address = a.k, .bytes = mt_cpu_span(all_keys, k_cols, a.k_stride, a.dtype)},
        {.name = "v", .address = a.v, .bytes = mt_cpu_span(all_keys, k_cols, a.v_stride, a.dtype)},
        {.name = "out", .address = a.out, .bytes = tokens * out_cols * mt_dtype_bytes(a.dtype)},
        {.name = "lse", .address = a.lse, .bytes = tokens * a.num_heads * sizeof(float), .optional = true},
        {.name = "alibi", .address = a.alibi, .bytes = a.num_heads * sizeof(float), .optional = true},
    };
    return mt_cpu_submit(stream, "attention", run_forward, &a, sizeof a, operands, 6);
}
