/* What the CUDA backend (gpu/) takes of a device's memory beside the blocks that its callers ask for, and how
 * it lays out attention's workspace. It stands here and not in gpu/ so that plans count with the same numbers
 * on machines that have neither a GPU nor the module.
 */
#ifndef MT_DEVICE_CUDA_MEMORY_H
#define MT_DEVICE_CUDA_MEMORY_H

#include "core/base/dtype.h"
#include "core/base/size.h"
#include "core/device/device.h"

/* ---- what a computing stream takes: parts of sums, cuBLAS's workspace, the libraries' handles ---- */

/* Partial sums of reductions: their number is cut by shape so that they fit. */
#define MT_CUDA_PARTS_BYTES ((size_t)8 << 20)

/* 32 MiB is what NVIDIA advises for its large devices; a small one, or a small limit (0: none), gets a small
 * share. */
static inline size_t mt_cuda_blas_bytes(size_t total_bytes, size_t limit_bytes)
{
    const size_t room = limit_bytes ? mt_size_min(limit_bytes, total_bytes) : total_bytes;
    return mt_size_min((size_t)32 << 20, room / 64 & ~(size_t)0xffff);
}

/* Set aside for what the handles of cuBLAS and cuBLASLt take on the device by themselves. It depends on the
 * library and the card; where they are found to take more, as much is counted. */
static inline size_t mt_cuda_handle_bytes(size_t total_bytes, size_t limit_bytes)
{
    return 2 * mt_cuda_blas_bytes(total_bytes, limit_bytes);
}

static inline size_t mt_cuda_scratch_bytes(size_t total_bytes, size_t limit_bytes)
{
    return MT_CUDA_PARTS_BYTES + mt_cuda_blas_bytes(total_bytes, limit_bytes) +
           mt_cuda_handle_bytes(total_bytes, limit_bytes);
}

/* Left free beside all that, and outside of any limit: the driver brings the code of kernels to the device
 * when they are launched first, and room for what their threads' registers do not hold. A few hundred
 * kernels, most of them of the libraries, of at most some hundred KiB each; a small device, which gets small
 * products, needs fewer. */
static inline size_t mt_cuda_code_bytes(size_t total_bytes)
{
    return mt_size_min((size_t)192 << 20, total_bytes / 32);
}

/* ---- attention's workspace ---- */

#define MT_CUDA_ATTENTION_QUERIES 256u /* a block */
#define MT_CUDA_ATTENTION_KEYS 512u

/* Where its parts begin, in bytes; those that are not wanted lie where they would. */
struct mt_cuda_attention_layout {
    size_t first, last; /* [tokens] int32 */
    size_t q;           /* [rows, head_dim] data; rows = heads * min(tokens, MT_CUDA_ATTENTION_QUERIES) */
    size_t scores;      /* [rows, MT_CUDA_ATTENTION_KEYS] fp32 */
    size_t p;           /* likewise bf16; not in fp32 */
    size_t out;         /* [rows, head_dim] fp32 */
    size_t max, sum;    /* [rows] fp32 */
    size_t dout;        /* as q; the rest for the backward pass */
    size_t dscores;     /* as scores */
    size_t ds;          /* as p */
    size_t lse, d;      /* [rows] fp32 */
    size_t dk, dv;      /* [kv_heads, tokens, head_dim] fp32 */
    size_t bytes;
};

/* A part of count elements behind those before it; false on overflow. */
static inline bool mt_cuda_attention_cut(size_t *used, bool wanted, size_t count, size_t element,
                                         size_t *start)
{
    size_t bytes;
    return mt_size_align(*used, 256, start) && mt_size_mul(wanted ? count : 0, element, &bytes) &&
           (!wanted || mt_size_add(*start, bytes, used));
}

/* Depends on the number of tokens and on the heads alone: a plan made for one batch holds for every other.
 * False on overflow. */
static inline bool mt_cuda_attention_lay_out(const struct mt_attention_args *a, size_t tokens, bool backward,
                                             struct mt_cuda_attention_layout *at)
{
    const bool narrow = a->dtype == MT_BF16;
    const size_t data = mt_dtype_bytes(a->dtype);
    size_t rows, scores, values, kv, used = 0;
    const bool fits = mt_size_mul(mt_size_min(tokens, MT_CUDA_ATTENTION_QUERIES), a->num_heads, &rows) &&
                      mt_size_mul(rows, MT_CUDA_ATTENTION_KEYS, &scores) &&
                      mt_size_mul(rows, a->head_dim, &values) && mt_size_mul(tokens, a->num_kv_heads, &kv) &&
                      mt_size_mul(kv, a->head_dim, &kv) &&
                      mt_cuda_attention_cut(&used, true, tokens, sizeof(int32_t), &at->first) &&
                      mt_cuda_attention_cut(&used, true, tokens, sizeof(int32_t), &at->last) &&
                      mt_cuda_attention_cut(&used, true, values, data, &at->q) &&
                      mt_cuda_attention_cut(&used, true, scores, sizeof(float), &at->scores) &&
                      mt_cuda_attention_cut(&used, narrow, scores, data, &at->p) &&
                      mt_cuda_attention_cut(&used, true, values, sizeof(float), &at->out) &&
                      mt_cuda_attention_cut(&used, true, rows, sizeof(float), &at->max) &&
                      mt_cuda_attention_cut(&used, true, rows, sizeof(float), &at->sum) &&
                      mt_cuda_attention_cut(&used, backward, values, data, &at->dout) &&
                      mt_cuda_attention_cut(&used, backward, scores, sizeof(float), &at->dscores) &&
                      mt_cuda_attention_cut(&used, backward && narrow, scores, data, &at->ds) &&
                      mt_cuda_attention_cut(&used, backward, rows, sizeof(float), &at->lse) &&
                      mt_cuda_attention_cut(&used, backward, rows, sizeof(float), &at->d) &&
                      mt_cuda_attention_cut(&used, backward, kv, sizeof(float), &at->dk) &&
                      mt_cuda_attention_cut(&used, backward, kv, sizeof(float), &at->dv);
    at->bytes = used;
    return fits;
}

/* struct mt_device_api's attention_workspace_bytes. SIZE_MAX on overflow. */
static inline size_t mt_cuda_attention_workspace(const struct mt_attention_args *args, bool backward)
{
    struct mt_cuda_attention_layout layout;
    const size_t tokens = args->num_documents ? (size_t)args->document_starts[args->num_documents] : 0;
    if (!tokens)
        return 0;
    return mt_cuda_attention_lay_out(args, tokens, backward, &layout) ? layout.bytes : SIZE_MAX;
}

#endif
