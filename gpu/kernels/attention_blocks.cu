/* Attention's bookkeeping: argument checks, the workspace, blocks of queries, ranges of keys, packed rows. */
#include "gpu/kernels/attention.h"

#include <limits.h>

/* Documents a launch of the ranges' kernel: they travel in its arguments. */
#define DOCUMENTS 128

/* ---- the workspace ---- */

template <typename T> static void place(T **part, char *base, size_t start)
{
    *part = reinterpret_cast<T *>(base + start);
}

static void lay_out(struct mt_attention_plan *plan, char *base, const struct mt_cuda_attention_layout *at,
                    bool backward)
{
    const bool narrow = plan->args.dtype == MT_BF16;
    place(&plan->first, base, at->first);
    place(&plan->last, base, at->last);
    plan->q = base + at->q;
    place(&plan->scores, base, at->scores);
    plan->p = narrow ? static_cast<void *>(base + at->p) : plan->scores;
    place(&plan->out, base, at->out);
    place(&plan->max, base, at->max);
    place(&plan->sum, base, at->sum);
    if (!backward)
        return;
    plan->dout = base + at->dout;
    place(&plan->dscores, base, at->dscores);
    plan->ds = narrow ? static_cast<void *>(base + at->ds) : plan->dscores;
    place(&plan->lse, base, at->lse);
    place(&plan->d, base, at->d);
    place(&plan->dk, base, at->dk);
    place(&plan->dv, base, at->dv);
}

size_t mt_cuda_attention_workspace_bytes(struct mt_device *device, const struct mt_attention_args *args,
                                         bool backward)
{
    (void)device;
    return mt_cuda_attention_workspace(args, backward);
}

/* ---- arguments ---- */

static bool bad_documents(const struct mt_attention_args *a)
{
    if (a->document_starts[0] != 0 || a->key_starts[0] < 0)
        return true;
    for (size_t d = 0; d < a->num_documents; d++) {
        const int32_t queries = a->document_starts[d + 1] - a->document_starts[d];
        if (queries < 0 || a->key_starts[d + 1] - a->key_starts[d] < queries)
            return true;
    }
    return false;
}

int mt_cuda_attention_plan(struct mt_attention_plan *plan, const struct mt_attention_args *args,
                           bool backward)
{
    struct mt_attention_args *a = &plan->args;
    *a = *args;
    if (!a->document_starts || !mt_cuda_data_dtype(a->dtype) || !a->head_dim || !a->num_kv_heads ||
        !a->num_heads || a->num_heads % a->num_kv_heads || a->num_heads > 65535 ||
        (a->alibi && a->softcap > 0) || (a->alibi_bf16 && (!a->alibi || a->window > 0)))
        return -EINVAL;
    if (!a->key_starts)
        a->key_starts = a->document_starts;
    plan->group = a->num_heads / a->num_kv_heads;
    const size_t group = plan->group * a->head_dim;
    a->q_group_stride = a->q_group_stride ? a->q_group_stride : group;
    a->kv_head_stride = a->kv_head_stride ? a->kv_head_stride : a->head_dim;
    if (a->q_group_stride < group || a->kv_head_stride < a->head_dim || bad_documents(a))
        return -EINVAL;
    const size_t q_cols = (a->num_kv_heads - 1) * a->q_group_stride + group;
    const size_t k_cols = (a->num_kv_heads - 1) * a->kv_head_stride + a->head_dim;
    a->q_stride = a->q_stride ? a->q_stride : q_cols;
    a->k_stride = a->k_stride ? a->k_stride : k_cols;
    a->v_stride = a->v_stride ? a->v_stride : k_cols;
    if (a->q_stride < q_cols || a->k_stride < k_cols || a->v_stride < k_cols || a->q_stride > INT_MAX ||
        a->k_stride > INT_MAX || a->v_stride > INT_MAX)
        return -EINVAL;
    plan->tokens = static_cast<size_t>(a->document_starts[a->num_documents]);
    plan->keys = static_cast<size_t>(a->key_starts[a->num_documents]);
    for (size_t d = 0; d <= a->num_documents; d++)
        plan->cut_at_documents |= a->key_starts[d] != a->document_starts[d];
    if (plan->tokens && (!a->q || !a->k || !a->v || !a->out || !a->workspace))
        return -EINVAL;
    struct mt_cuda_attention_layout layout;
    if (!mt_cuda_attention_lay_out(a, plan->tokens, backward, &layout))
        return -EINVAL;
    if (plan->tokens)
        lay_out(plan, static_cast<char *>(a->workspace), &layout, backward);
    return 0;
}

/* ---- blocks ---- */

/* The keys that a query of a document sees, in the batch. */
static void sees(const struct mt_attention_args *a, size_t document, size_t query, size_t *first,
                 size_t *last)
{
    const size_t begin = static_cast<size_t>(a->document_starts[document]);
    const size_t end = static_cast<size_t>(a->document_starts[document + 1]);
    const size_t key = static_cast<size_t>(a->key_starts[document]);
    const size_t keys = static_cast<size_t>(a->key_starts[document + 1]) - key;
    const size_t position = keys - (end - begin) + (query - begin);
    *first = key + (a->window && position + 1 > a->window ? position + 1 - a->window : 0);
    *last = key + position + 1;
}

static size_t document_of(const struct mt_attention_args *a, size_t query, size_t document)
{
    while (static_cast<size_t>(a->document_starts[document + 1]) <= query)
        document++;
    return document;
}

/* Both ends of what a query sees grow along the batch, so a block's keys run from the first of its first
 * query to the last of its last. */
bool mt_cuda_attention_next(const struct mt_attention_plan *plan, size_t *query, size_t *document,
                            struct mt_attention_block *block)
{
    const struct mt_attention_args *a = &plan->args;
    size_t unused;
    if (*query >= plan->tokens)
        return false;
    *document = document_of(a, *query, *document);
    size_t end = mt_size_min(plan->tokens, *query + MT_CUDA_ATTENTION_QUERIES);
    if (plan->cut_at_documents)
        end = mt_size_min(end, static_cast<size_t>(a->document_starts[*document + 1]));
    block->query = *query;
    block->queries = end - *query;
    sees(a, *document, *query, &block->key, &unused);
    *document = document_of(a, end - 1, *document);
    sees(a, *document, end - 1, &unused, &block->key_end);
    *query = end;
    return true;
}

static struct mt_attention_rows rows_of(const struct mt_attention_plan *plan,
                                        const struct mt_attention_block *block)
{
    return {static_cast<unsigned>(block->query), static_cast<unsigned>(block->queries),
            static_cast<unsigned>(plan->group), static_cast<unsigned>(plan->args.num_kv_heads)};
}

struct mt_attention_tile mt_cuda_attention_tile(const struct mt_attention_plan *plan,
                                                const struct mt_attention_block *block)
{
    const struct mt_attention_args *a = &plan->args;
    struct mt_attention_tile tile = {};
    tile.rows = rows_of(plan, block);
    tile.first = plan->first;
    tile.last = plan->last;
    tile.scores = plan->scores;
    tile.dim = a->head_dim;
    tile.softcap = a->softcap;
    tile.alibi = a->alibi;
    tile.rounded_scale = a->alibi_bf16 ? a->scale : 0;
    return tile;
}

void mt_cuda_attention_meet(struct mt_attention_tile *tile, const struct mt_attention_block *block,
                            size_t key)
{
    tile->key = static_cast<int>(key);
    tile->keys = static_cast<int>(mt_size_min(MT_CUDA_ATTENTION_KEYS, block->key_end - key));
    tile->stride = (static_cast<unsigned>(tile->keys) + 7) / 8 * 8;
}

dim3 mt_cuda_attention_grid(const struct mt_attention_tile *tile)
{
    const unsigned rows = tile->rows.queries * tile->rows.group * tile->rows.kv_heads;
    return dim3(static_cast<unsigned>(mt_cuda_ceil_div(rows, MT_ATTENTION_THREADS / MT_WARP)));
}

/* ---- products ---- */

int mt_cuda_attention_score(struct mt_stream *stream, const struct mt_attention_plan *plan,
                            const struct mt_attention_tile *tile, const void *rows, const void *keys,
                            size_t key_stride, float alpha, float *to)
{
    struct mt_cuda_product product = mt_cuda_attention_product(plan);
    product.a = rows;
    product.b = static_cast<const char *>(keys) +
                static_cast<size_t>(tile->key) * key_stride * mt_dtype_bytes(plan->args.dtype);
    product.c = to;
    product.m = (size_t)tile->rows.queries * tile->rows.group;
    product.n = static_cast<size_t>(tile->keys);
    product.k = tile->dim;
    product.lda = tile->dim;
    product.ldb = key_stride;
    product.ldc = tile->stride;
    product.transpose_b = true;
    product.alpha = alpha;
    product.a_step = product.m * tile->dim;
    product.b_step = plan->args.kv_head_stride;
    product.c_step = product.m * tile->stride;
    return mt_cuda_multiply(stream, &product, "scores of attention");
}

int mt_cuda_attention_gather(struct mt_stream *stream, const struct mt_attention_plan *plan,
                             const struct mt_attention_tile *tile, const void *weights, const void *values,
                             size_t value_stride, float alpha, bool first_keys)
{
    struct mt_cuda_product product = mt_cuda_attention_product(plan);
    product.a = weights;
    product.b = static_cast<const char *>(values) +
                static_cast<size_t>(tile->key) * value_stride * mt_dtype_bytes(plan->args.dtype);
    product.c = plan->out;
    product.m = (size_t)tile->rows.queries * tile->rows.group;
    product.n = tile->dim;
    product.k = static_cast<size_t>(tile->keys);
    product.lda = tile->stride;
    product.ldb = value_stride;
    product.ldc = tile->dim;
    product.alpha = alpha;
    product.beta = first_keys ? 0.0f : 1.0f;
    product.a_step = product.m * tile->stride;
    product.b_step = plan->args.kv_head_stride;
    product.c_step = product.m * tile->dim;
    return mt_cuda_multiply(stream, &product, "sums of attention");
}

/* ---- ranges ---- */

struct documents {
    int32_t queries[DOCUMENTS + 1], keys[DOCUMENTS + 1];
    int32_t count;
};

static __global__ void ranges(struct documents documents, int32_t *first, int32_t *last, int32_t window)
{
    for (int32_t d = (int32_t)blockIdx.x; d < documents.count; d += (int32_t)gridDim.x) {
        const int32_t begin = documents.queries[d], end = documents.queries[d + 1];
        const int32_t key = documents.keys[d], before = documents.keys[d + 1] - key - (end - begin);
        for (int32_t t = begin + (int32_t)threadIdx.x; t < end; t += (int32_t)blockDim.x) {
            const int32_t seen = before + t - begin + 1;
            first[t] = key + (window && seen > window ? seen - window : 0);
            last[t] = key + seen;
        }
    }
}

void mt_cuda_attention_ranges(struct mt_stream *stream, const struct mt_attention_plan *plan)
{
    const struct mt_attention_args *a = &plan->args;
    /* No document is longer than an int32_t counts. */
    const int32_t window = a->window < INT32_MAX ? static_cast<int32_t>(a->window) : 0;
    for (size_t d = 0; d < a->num_documents; d += DOCUMENTS) {
        struct documents documents = {};
        documents.count = static_cast<int32_t>(mt_size_min(DOCUMENTS, a->num_documents - d));
        for (int32_t i = 0; i <= documents.count; i++) {
            documents.queries[i] = a->document_starts[d + static_cast<size_t>(i)];
            documents.keys[i] = a->key_starts[d + static_cast<size_t>(i)];
        }
        MT_LAUNCH(ranges, dim3(static_cast<unsigned>(documents.count)), dim3(MT_ATTENTION_THREADS), 0,
                  stream->handle, documents, plan->first, plan->last, window);
    }
}

/* ---- packed rows ---- */

template <typename T, int V>
static __global__ void pack_rows(const T *from, T *to, struct mt_attention_rows rows, size_t dim,
                                 size_t stride, size_t group_stride)
{
    const unsigned row = blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= rows.kv_heads * rows.queries * rows.group)
        return;
    size_t query, kv_head, member;
    mt_attention_place(rows, row, &query, &kv_head, &member);
    from += query * stride + kv_head * group_stride + member * dim;
    to += row * dim;
    mt_each<V>(0, dim, threadIdx.x, blockDim.x, [&](auto width, size_t i) {
        constexpr int W = decltype(width)::count;
        float v[W];
        mt_load<T, W>(from + i, v);
        mt_store<T, W>(to + i, v);
    });
}

bool mt_cuda_attention_packs(const struct mt_attention_plan *plan, const void *address, size_t stride,
                             size_t group_stride)
{
    const size_t element = mt_dtype_bytes(plan->args.dtype);
    return mt_cuda_packs(plan->args.dtype, {{address, stride}}) && group_stride * element % 16 == 0 &&
           plan->args.head_dim * element % 16 == 0;
}

void mt_cuda_attention_pack(struct mt_stream *stream, const struct mt_attention_plan *plan,
                            const struct mt_attention_block *block, void *to, const void *from, size_t stride,
                            size_t group_stride)
{
    const struct mt_attention_args *a = &plan->args;
    const struct mt_attention_rows rows = rows_of(plan, block);
    const bool packs = mt_cuda_attention_packs(plan, from, stride, group_stride);
    const dim3 grid(static_cast<unsigned>(mt_cuda_ceil_div(block->queries * a->num_heads, 16))),
        across(16, 16);
    mt_cuda_dispatch(a->dtype, packs, [&](auto kind) {
        typedef typename decltype(kind)::type T;
        constexpr int V = decltype(kind)::packs;
        MT_LAUNCH((pack_rows<T, V>), grid, across, 0, stream->handle, static_cast<const T *>(from),
                  static_cast<T *>(to), rows, a->head_dim, stride, group_stride);
    });
}
