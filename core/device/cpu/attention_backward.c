/* Causal grouped-query attention, backward.
 *
 *   D = sum over dims of dout * out; P = e^(S - lse); dv = P^T dout; dP = dout v^T; dS = P * (dP - D), times
 *   1 - (S / softcap)^2 where scores are capped; dq = scale * dS k; dk = scale * dS^T q
 *
 * A task is a slice of the key blocks of one document and key-value head (every fourth block, so that slices
 * see about as many queries): it walks the blocks of queries in order and adds up dk and dv of its keys in
 * scratch space, the query heads of the group within one product. dq gets a part from each slice: they lie in
 * the workspace, [slices, T, heads, head_dim] in fp32, and are added in the order of the slices at the end.
 * So every order is fixed by shape, each score is computed once, and the work of one long document is shared.
 * A document whose keys are one block has one slice, which writes its dq where it belongs.
 */
#include "core/device/cpu/attention.h"
#include "core/device/cpu/blas.h"
#include "core/device/cpu/math.h"

#define TOKENS 16u /* a task of the sum over slices */

struct backward_context {
    const struct mt_attention_backward_args *args;
    struct mt_stream *stream;
    float *parts; /* NULL: one slice, dq is written directly */
    size_t tokens, slices;
};

/* Scratch space of a task. R = rows of a block of queries, K = keys of a block, dim = head_dim. */
struct scratch {
    float *q, *dout, *dq;    /* [R, dim]; q times scale */
    float *scores, *dscores; /* [R, K] */
    float *lse, *d;          /* [R] */
    float *k_room, *v_room;  /* [K, dim] where they are widened */
    float *dk, *dv;          /* [blocks of the slice, K, dim] */
};

static bool cut_scratch(struct scratch *s, const struct mt_attention_args *a, size_t blocks)
{
    const size_t rows = mt_attention_queries(a) * mt_attention_group(a), keys = MT_ATTENTION_KEYS;
    const size_t dim = a->head_dim;
    const struct {
        float **place;
        size_t count;
    } cuts[] = {
        {&s->q, rows * dim},
        {&s->dout, rows * dim},
        {&s->dq, rows * dim},
        {&s->scores, rows * keys},
        {&s->dscores, rows * keys},
        {&s->lse, rows},
        {&s->d, rows},
        {&s->k_room, a->dtype == MT_BF16 ? keys * dim : 0},
        {&s->v_room, a->dtype == MT_BF16 ? keys * dim : 0},
        {&s->dk, blocks * keys * dim},
        {&s->dv, blocks * keys * dim},
    };
    size_t total = 0;
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++)
        total += cuts[i].count;
    float *memory = mt_cpu_thread_scratch(total * sizeof(float));
    for (size_t i = 0; memory && i < sizeof cuts / sizeof *cuts; i++) {
        *cuts[i].place = memory;
        memory += cuts[i].count;
    }
    return memory;
}

/* q, dout, lse and D of a block of queries. */
MT_INLINE void load_queries(const struct scratch *s, const struct mt_attention_backward_args *b,
                            const struct mt_attention_block *block, size_t kv_head, const bool narrow)
{
    const struct mt_attention_args *a = &b->forward;
    const size_t group = mt_attention_group(a), dim = a->head_dim, col = kv_head * group * dim;
    mt_attention_gather(s->q, a->q, a->q_stride, block->query, block->queries, kv_head * a->q_group_stride,
                        group * dim, a->scale, narrow);
    mt_attention_gather(s->dout, b->dout, a->num_heads * dim, block->query, block->queries, col, group * dim,
                        1, narrow);
    for (size_t row = 0; row < block->queries * group; row++) {
        const size_t head = (block->query + row / group) * a->num_heads + kv_head * group + row % group;
        mt_vf sum = mt_vf_set(0);
        for (size_t i = 0; i < dim; i += MT_LANES)
            sum += mt_vf_load_part(s->dout + row * dim + i, dim - i) *
                   mt_data_load(a->out, head * dim + i, dim - i, narrow);
        s->d[row] = mt_vf_sum(sum);
        s->lse[row] = a->lse[head];
    }
}

/* P and dS of some lanes. */
MT_INLINE void lanes_gradient(float *p, float *ds, size_t count, float lse, float d, float softcap)
{
    mt_vf score = mt_vf_load_part(p, count), slope = mt_vf_set(1);
    if (softcap > 0) {
        const mt_vf bent = mt_vf_tanh(score * (1.0f / softcap));
        score = softcap * bent;
        slope = 1.0f - bent * bent;
    }
    const mt_vf probability = mt_vf_exp(score - lse);
    mt_vf_store_part(p, probability, count);
    mt_vf_store_part(ds, probability * (mt_vf_load_part(ds, count) - d) * slope, count);
}

/* scores become P, dscores become dS; both 0 where a key is not seen. */
MT_INLINE void row_gradient(const struct scratch *s, size_t row, size_t first, size_t last, size_t keys,
                            float softcap)
{
    float *p = s->scores + row * keys, *ds = s->dscores + row * keys;
    const size_t whole = first + (last - first) / MT_LANES * MT_LANES;
    const float lse = s->lse[row], d = s->d[row];
    memset(p, 0, first * sizeof *p);
    memset(ds, 0, first * sizeof *ds);
    if (softcap > 0)
        for (size_t i = first; i < whole; i += MT_LANES)
            lanes_gradient(p + i, ds + i, MT_LANES, lse, d, softcap);
    else
        for (size_t i = first; i < whole; i += MT_LANES)
            lanes_gradient(p + i, ds + i, MT_LANES, lse, d, 0);
    if (whole < last)
        lanes_gradient(p + whole, ds + whole, last - whole, lse, d, softcap);
    memset(p + last, 0, (keys - last) * sizeof *p);
    memset(ds + last, 0, (keys - last) * sizeof *ds);
}

MT_INLINE void block_pair(const struct scratch *s, const struct mt_attention_args *a,
                          const struct mt_attention_block *block, size_t kv_head, size_t key, size_t keys,
                          float *dk, float *dv, bool first_key_block, const bool narrow)
{
    const size_t group = mt_attention_group(a), rows = block->queries * group, dim = a->head_dim;
    const size_t col = kv_head * a->kv_head_stride;
    size_t k_stride, v_stride;
    const float *k =
        mt_attention_keys(s->k_room, a->k, a->k_stride, block->key + key, keys, col, dim, narrow, &k_stride);
    const float *v =
        mt_attention_keys(s->v_room, a->v, a->v_stride, block->key + key, keys, col, dim, narrow, &v_stride);
    mt_blas_sgemm(false, true, rows, keys, dim, 1, s->q, dim, k, k_stride, 0, s->scores, keys);
    mt_blas_sgemm(false, true, rows, keys, dim, 1, s->dout, dim, v, v_stride, 0, s->dscores, keys);
    if (a->alibi)
        mt_attention_add_alibi(a, s->scores, block, kv_head, key, keys);
    for (size_t row = 0; row < rows; row++) {
        const struct mt_attention_range seen = mt_attention_sees(a, block->position + row / group);
        const size_t last = seen.last > key ? mt_size_min(keys, seen.last - key) : 0;
        const size_t first = seen.first > key ? mt_size_min(last, seen.first - key) : 0;
        row_gradient(s, row, first, last, keys, a->softcap);
    }
    mt_blas_sgemm(true, false, keys, dim, rows, 1, s->scores, keys, s->dout, dim, 1, dv, dim);
    mt_blas_sgemm(true, false, keys, dim, rows, 1, s->dscores, keys, s->q, dim, 1, dk, dim);
    mt_blas_sgemm(false, false, rows, dim, keys, a->scale, s->dscores, keys, k, k_stride,
                  first_key_block ? 0 : 1, s->dq, dim);
}

/* This slice's dq of a block of queries: into its part of the workspace, or to where it belongs. */
MT_INLINE void store_dq(const struct backward_context *ctx, const struct scratch *s,
                        const struct mt_attention_block *block, size_t kv_head, size_t slice, bool empty,
                        const bool narrow)
{
    const struct mt_attention_args *a = &ctx->args->forward;
    const size_t cols = mt_attention_group(a) * a->head_dim, row_cols = a->num_heads * a->head_dim;
    for (size_t t = 0; t < block->queries; t++) {
        const size_t token = block->query + t;
        for (size_t i = 0; i < cols; i += MT_LANES) {
            const mt_vf v = empty ? mt_vf_set(0) : mt_vf_load_part(s->dq + t * cols + i, cols - i);
            if (ctx->parts)
                mt_vf_store_part(ctx->parts + (slice * ctx->tokens + token) * row_cols + kv_head * cols + i,
                                 v, cols - i);
            else
                mt_data_store(ctx->args->dq, token * ctx->args->dq_stride + kv_head * a->q_group_stride + i,
                              v, cols - i, narrow);
        }
    }
}

MT_INLINE void store_keys(void *to, size_t stride, const float *from, size_t key, size_t keys, size_t col,
                          size_t dim, const bool narrow)
{
    for (size_t t = 0; t < keys; t++)
        for (size_t i = 0; i < dim; i += MT_LANES)
            mt_data_store(to, (key + t) * stride + col + i, mt_vf_load_part(from + t * dim + i, dim - i),
                          dim - i, narrow);
}

MT_INLINE void backward_slice(const struct backward_context *ctx, size_t document, size_t kv_head,
                              size_t slice, const bool narrow)
{
    const struct mt_attention_backward_args *b = ctx->args;
    const struct mt_attention_args *a = &b->forward;
    const size_t dim = a->head_dim, slices = ctx->slices;
    const size_t queries = (size_t)(a->document_starts[document + 1] - a->document_starts[document]);
    const size_t all_keys = (size_t)(a->key_starts[document + 1] - a->key_starts[document]);
    const size_t key_blocks = mt_size_ceil_div(all_keys, MT_ATTENTION_KEYS);
    const size_t own_blocks = key_blocks > slice ? mt_size_ceil_div(key_blocks - slice, slices) : 0;
    struct scratch s;
    if (!cut_scratch(&s, a, own_blocks)) {
        mt_cpu_fail(mt_cpu_stream_device(ctx->stream), "attention_backward: no host memory for a slice");
        return;
    }
    memset(s.dk, 0, own_blocks * MT_ATTENTION_KEYS * dim * sizeof(float));
    memset(s.dv, 0, own_blocks * MT_ATTENTION_KEYS * dim * sizeof(float));
    for (size_t i = 0; i * mt_attention_queries(a) < queries; i++) {
        const struct mt_attention_block block = mt_attention_block(a, document, i);
        bool empty = true;
        for (size_t own = 0; own < own_blocks; own++) {
            const size_t key = (own * slices + slice) * MT_ATTENTION_KEYS;
            if (key >= block.visible_end || key + MT_ATTENTION_KEYS <= block.visible)
                continue;
            const size_t keys = mt_size_min(MT_ATTENTION_KEYS, block.visible_end - key);
            if (empty)
                load_queries(&s, b, &block, kv_head, narrow);
            block_pair(&s, a, &block, kv_head, key, keys, s.dk + own * MT_ATTENTION_KEYS * dim,
                       s.dv + own * MT_ATTENTION_KEYS * dim, empty, narrow);
            empty = false;
        }
        store_dq(ctx, &s, &block, kv_head, slice, empty, narrow);
    }
    for (size_t own = 0; own < own_blocks; own++) {
        const size_t key = (own * slices + slice) * MT_ATTENTION_KEYS;
        const size_t keys = mt_size_min(MT_ATTENTION_KEYS, all_keys - key);
        const size_t first = (size_t)a->key_starts[document] + key;
        store_keys(b->dk, b->dk_stride, s.dk + own * MT_ATTENTION_KEYS * dim, first, keys,
                   kv_head * a->kv_head_stride, dim, narrow);
        store_keys(b->dv, b->dv_stride, s.dv + own * MT_ATTENTION_KEYS * dim, first, keys,
                   kv_head * a->kv_head_stride, dim, narrow);
    }
}

MT_INLINE void slice_task_body(void *context, size_t task)
{
    const struct backward_context *ctx = context;
    const size_t slice = task % ctx->slices, heads = ctx->args->forward.num_kv_heads;
    const size_t kv_head = task / ctx->slices % heads, document = task / ctx->slices / heads;
    if (ctx->args->forward.dtype == MT_BF16)
        backward_slice(ctx, document, kv_head, slice, true);
    else
        backward_slice(ctx, document, kv_head, slice, false);
}
MT_CPU_KERNEL(slice_task);

MT_INLINE void sum_task_body(void *context, size_t task)
{
    const struct backward_context *ctx = context;
    const struct mt_attention_args *a = &ctx->args->forward;
    const size_t cols = a->num_heads * a->head_dim, part = ctx->tokens * cols;
    const size_t first = task * TOKENS, last = mt_size_min(ctx->tokens, first + TOKENS);
    const bool narrow = a->dtype == MT_BF16;
    const size_t group = cols / a->num_kv_heads;
    for (size_t t = first; t < last; t++)
        for (size_t head = 0; head < a->num_kv_heads; head++)
            for (size_t i = 0; i < group; i += MT_LANES) {
                const float *from = ctx->parts + t * cols + head * group + i;
                mt_vf sum = mt_vf_load_part(from, group - i);
                for (size_t slice = 1; slice < ctx->slices; slice++)
                    sum += mt_vf_load_part(from + slice * part, group - i);
                mt_data_store(ctx->args->dq, t * ctx->args->dq_stride + head * a->q_group_stride + i, sum,
                              group - i, narrow);
            }
}
MT_CPU_KERNEL(sum_task);

/* One slice where every document is a single block of keys. */
static size_t slices_of(const struct mt_attention_args *a)
{
    const int32_t *keys = a->key_starts ? a->key_starts : a->document_starts;
    for (size_t d = 0; d < a->num_documents; d++)
        if ((size_t)(keys[d + 1] - keys[d]) > MT_ATTENTION_KEYS)
            return MT_ATTENTION_SLICES;
    return 1;
}

/* A function of the number of tokens and of the heads alone, so that a plan made for one batch holds for
 * every other one. */
size_t mt_cpu_attention_workspace_bytes(struct mt_device *device, const struct mt_attention_args *a,
                                        bool backward)
{
    (void)device;
    const size_t tokens = a->num_documents ? (size_t)a->document_starts[a->num_documents] : 0;
    if (!backward || tokens <= MT_ATTENTION_KEYS)
        return 0;
    return MT_ATTENTION_SLICES * tokens * a->num_heads * a->head_dim * sizeof(float);
}

static void run_backward(struct mt_stream *stream, const void *args)
{
    const struct mt_attention_backward_args *b = args;
    const struct mt_attention_args *a = &b->forward;
    struct backward_context ctx = {
        .args = b,
        .stream = stream,
        .tokens = (size_t)a->document_starts[a->num_documents],
        .slices = slices_of(a),
    };
    ctx.parts = ctx.slices > 1 ? a->workspace : NULL;
    mt_cpu_parallel(stream, a->num_documents * a->num_kv_heads * ctx.slices, slice_task[mt_cpu_level()],
                    &ctx);
    if (ctx.parts)
        mt_cpu_parallel(stream, mt_size_ceil_div(ctx.tokens, TOKENS), sum_task[mt_cpu_level()], &ctx);
}

int mt_cpu_attention_backward(struct mt_stream *stream, const struct mt_attention_backward_args *args)
{
    struct mt_attention_backward_args b = *args;
    struct mt_attention_args *a = &b.forward;
    if (!a->num_documents)
        return 0;
    const int code = mt_attention_check(stream, "attention_backward", a);
    if (code)
        return code;
    const size_t q_cols = mt_attention_q_cols(a), k_cols = mt_attention_k_cols(a);
    const size_t out_cols = a->num_heads * a->head_dim;
    b.dq_stride = b.dq_stride ? b.dq_stride : q_cols;
    b.dk_stride = b.dk_stride ? b.dk_stride : k_cols;
    b.dv_stride = b.dv_stride ? b.dv_stride : k_cols;
    const size_t tokens = (size_t)a->document_starts[a->num_documents];
    const size_t keys = (size_t)a->key_starts[a->num_documents];
    /* Gradients of keys whose queries are not all there would be incomplete, and some never written. */
    for (size_t d = 0; d <= a->num_documents; d++)
        if (a->key_starts[d] != a->document_starts[d])
            return -EINVAL;
    if (b.dq_stride < q_cols || b.dk_stride < k_cols || b.dv_stride < k_cols)
        return -EINVAL;
    if (!tokens)
        return 0;
    const size_t element = mt_dtype_bytes(a->dtype);
    const struct mt_cpu_operand operands[] = {
        {.name = "q", .address = a->q, .bytes = mt_cpu_span(tokens, q_cols, a->q_stride, a->dtype)},
        {.name = "k", .address = a->k, .bytes = mt_cpu_span(keys, k_cols, a->k_stride, a->dtype)},
        {.name = "v", .address = a->v, .bytes = mt_cpu_span(keys, k_cols, a->v_stride, a->dtype)},
        {.name = "out", .address = a->out, .bytes = tokens * out_cols * element},
        {.name = "lse", .address = a->lse, .bytes = tokens * a->num_heads * sizeof(float)},
        {.name = "workspace",
         .address = a->workspace,
         .bytes = slices_of(a) > 1 ? mt_cpu_attention_workspace_bytes(NULL, a, true) : 0},
        {.name = "dout", .address = b.dout, .bytes = tokens * out_cols * element},
        {.name = "dq", .address = b.dq, .bytes = mt_cpu_span(tokens, q_cols, b.dq_stride, a->dtype)},
        {.name = "dk", .address = b.dk, .bytes = mt_cpu_span(keys, k_cols, b.dk_stride, a->dtype)},
        {.name = "dv", .address = b.dv, .bytes = mt_cpu_span(keys, k_cols, b.dv_stride, a->dtype)},
        {.name = "alibi", .address = a->alibi, .bytes = a->num_heads * sizeof(float), .optional = true},
    };
    return mt_cpu_submit(stream, "attention_backward", run_backward, &b, sizeof b, operands, 11);
}
