/* y = x W^T + bias and its backward pass: three products over the same three matrices.
 *
 *   forward          y[T, out]        (=|+=) x[T, in] * W[out, in]^T + bias, or x * W[in, out] + bias
 *   backward input   dx[T, in]        (=|+=) dy[T, out] * W[out, in]
 *   backward weight  dW[out, in] fp32 (=|+=) dy[T, out]^T * x[T, in];  dbias[out] (=|+=) sum over T of dy
 *
 * The bias rides on the product where the library takes it along. dbias: parts of tokens, each in token
 * order, then the parts in order.
 */
#include "gpu/kernels/kernel.h"

#include <limits.h>

#define THREADS 128
/* Parts of tokens at most, and tokens a part at least. */
#define PARTS 64u
#define LEAST 32u

static bool bad_shape(size_t tokens, size_t in, size_t out, size_t stride_a, size_t stride_b)
{
    return tokens > INT_MAX || in > INT_MAX || out > INT_MAX || stride_a > INT_MAX || stride_b > INT_MAX;
}

template <typename T>
static __global__ void bias_rows(T *c, const T *bias, size_t rows, size_t cols, size_t stride)
{
    const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= cols)
        return;
    const float own = mt_widen(bias[i]);
    for (size_t row = blockIdx.y; row < rows; row += gridDim.y)
        c[row * stride + i] = mt_narrow<T>(mt_widen(c[row * stride + i]) + own);
}

/* A bias has its product's type on both sides. */
template <typename T> static void launch_bias(struct mt_stream *stream, const struct mt_cuda_product *p)
{
    const dim3 grid(static_cast<unsigned>(mt_cuda_ceil_div(p->n, THREADS)), mt_cuda_blocks(p->m, 65535));
    MT_LAUNCH((bias_rows<T>), grid, dim3(THREADS), 0, stream->handle, static_cast<T *>(p->c),
              static_cast<const T *>(p->bias), p->m, p->n, p->ldc);
}

int mt_cuda_add_bias(struct mt_stream *stream, const struct mt_cuda_product *product, const char *operation)
{
    if (product->result == MT_BF16)
        launch_bias<mt_bf16>(stream, product);
    else
        launch_bias<float>(stream, product);
    return mt_cuda_end(stream, operation);
}

template <typename T>
static __global__ void cap(T *y, size_t tokens, size_t cols, size_t stride, float softcap)
{
    const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= cols)
        return;
    for (size_t t = blockIdx.y; t < tokens; t += gridDim.y)
        y[t * stride + i] = mt_narrow<T>(softcap * tanhf(mt_widen(y[t * stride + i]) / softcap));
}

template <typename T> static void launch_cap(struct mt_stream *stream, const struct mt_linear_args *a)
{
    const dim3 grid(static_cast<unsigned>(mt_cuda_ceil_div(a->out_features, THREADS)),
                    mt_cuda_blocks(a->tokens, 65535));
    MT_LAUNCH((cap<T>), grid, dim3(THREADS), 0, stream->handle, static_cast<T *>(a->y), a->tokens,
              a->out_features, a->y_stride, a->softcap);
}

int mt_cuda_linear(struct mt_stream *stream, const struct mt_linear_args *args)
{
    struct mt_linear_args a = *args;
    a.x_stride = a.x_stride ? a.x_stride : a.in_features;
    a.y_stride = a.y_stride ? a.y_stride : a.out_features;
    const size_t cols = a.weight_transposed ? a.out_features : a.in_features;
    a.weight_stride = a.weight_stride ? a.weight_stride : cols;
    if (!mt_cuda_data_dtype(a.dtype) || a.x_stride < a.in_features || a.y_stride < a.out_features ||
        a.weight_stride < cols || a.weight_stride > INT_MAX || !a.in_features ||
        bad_shape(a.tokens, a.in_features, a.out_features, a.x_stride, a.y_stride))
        return -EINVAL;
    if (!a.tokens || !a.out_features)
        return 0;
    if (!a.x || !a.weight || !a.y)
        return -EINVAL;
    int code = mt_cuda_begin(stream);
    if (code)
        return code;
    struct mt_cuda_product product = {};
    product.a = a.x;
    product.b = a.weight;
    product.bias = a.bias;
    product.c = a.y;
    product.m = a.tokens;
    product.n = a.out_features;
    product.k = a.in_features;
    product.lda = a.x_stride;
    product.ldb = a.weight_stride;
    product.ldc = a.y_stride;
    product.transpose_b = !a.weight_transposed;
    product.alpha = 1;
    product.beta = a.accumulate ? 1.0f : 0.0f;
    product.operands = a.dtype;
    product.result = a.dtype;
    code = mt_cuda_multiply(stream, &product, "linear");
    if (code || !(a.softcap > 0))
        return code;
    if (a.dtype == MT_BF16)
        launch_cap<mt_bf16>(stream, &a);
    else
        launch_cap<float>(stream, &a);
    return mt_cuda_end(stream, "linear");
}

int mt_cuda_linear_backward_input(struct mt_stream *stream, const struct mt_linear_backward_input_args *args)
{
    struct mt_linear_backward_input_args a = *args;
    a.dy_stride = a.dy_stride ? a.dy_stride : a.out_features;
    a.dx_stride = a.dx_stride ? a.dx_stride : a.in_features;
    if (!mt_cuda_data_dtype(a.dtype) || a.dy_stride < a.out_features || a.dx_stride < a.in_features ||
        !a.out_features || bad_shape(a.tokens, a.in_features, a.out_features, a.dy_stride, a.dx_stride))
        return -EINVAL;
    if (!a.tokens || !a.in_features)
        return 0;
    if (!a.dy || !a.weight || !a.dx)
        return -EINVAL;
    const int code = mt_cuda_begin(stream);
    if (code)
        return code;
    struct mt_cuda_product product = {};
    product.a = a.dy;
    product.b = a.weight;
    product.c = a.dx;
    product.m = a.tokens;
    product.n = a.in_features;
    product.k = a.out_features;
    product.lda = a.dy_stride;
    product.ldb = a.in_features;
    product.ldc = a.dx_stride;
    product.alpha = 1;
    product.beta = a.accumulate ? 1.0f : 0.0f;
    product.operands = a.dtype;
    product.result = a.wide_dx ? MT_F32 : a.dtype;
    return mt_cuda_multiply(stream, &product, "linear_backward_input");
}

template <typename T>
static __global__ void column_parts(const T *dy, float *parts, size_t tokens, size_t a_part, size_t cols,
                                    size_t stride)
{
    const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    const size_t first = (size_t)blockIdx.y * a_part,
                 last = first + a_part < tokens ? first + a_part : tokens;
    if (i >= cols)
        return;
    float sum = 0;
    for (size_t t = first; t < last; t++)
        sum += mt_widen(dy[t * stride + i]);
    parts[(size_t)blockIdx.y * cols + i] = sum;
}

static __global__ void sum_parts(const float *parts, float *to, size_t num_parts, size_t cols,
                                 bool accumulate)
{
    const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= cols)
        return;
    float sum = 0;
    for (size_t part = 0; part < num_parts; part++)
        sum += parts[part * cols + i];
    to[i] = accumulate ? to[i] + sum : sum;
}

static int bias_gradient(struct mt_stream *stream, const struct mt_linear_backward_weight_args *a)
{
    float *parts = mt_cuda_parts(stream);
    if (!parts)
        return -EIO;
    const size_t room = MT_CUDA_PARTS_BYTES / sizeof(float) / a->out_features;
    size_t num_parts = mt_size_min(mt_size_min(PARTS, room), mt_cuda_ceil_div(a->tokens, LEAST));
    if (!num_parts) {
        mt_cuda_fail(stream->device, "linear_backward_weight: a bias of %zu columns is too long",
                     a->out_features);
        return -EIO;
    }
    const size_t a_part = mt_cuda_ceil_div(a->tokens, num_parts);
    num_parts = mt_cuda_ceil_div(a->tokens, a_part);
    const unsigned columns = static_cast<unsigned>(mt_cuda_ceil_div(a->out_features, THREADS));
    const dim3 grid(columns, static_cast<unsigned>(num_parts)), block(THREADS);
    if (a->dtype == MT_BF16)
        MT_LAUNCH((column_parts<mt_bf16>), grid, block, 0, stream->handle,
                  static_cast<const mt_bf16 *>(a->dy), parts, a->tokens, a_part, a->out_features,
                  a->dy_stride);
    else
        MT_LAUNCH((column_parts<float>), grid, block, 0, stream->handle, static_cast<const float *>(a->dy),
                  parts, a->tokens, a_part, a->out_features, a->dy_stride);
    MT_LAUNCH(sum_parts, dim3(columns), block, 0, stream->handle, static_cast<const float *>(parts), a->dbias,
              num_parts, a->out_features, a->accumulate);
    return mt_cuda_end(stream, "linear_backward_weight");
}

int mt_cuda_linear_backward_weight(struct mt_stream *stream,
                                   const struct mt_linear_backward_weight_args *args)
{
    struct mt_linear_backward_weight_args a = *args;
    a.dy_stride = a.dy_stride ? a.dy_stride : a.out_features;
    a.x_stride = a.x_stride ? a.x_stride : a.in_features;
    if (!mt_cuda_data_dtype(a.dtype) || a.dy_stride < a.out_features || a.x_stride < a.in_features ||
        !a.tokens || bad_shape(a.tokens, a.in_features, a.out_features, a.dy_stride, a.x_stride))
        return -EINVAL;
    if (!a.in_features || !a.out_features)
        return 0;
    if (!a.dy || !a.x)
        return -EINVAL;
    int code = mt_cuda_begin(stream);
    struct mt_cuda_product product = {};
    product.a = a.dy;
    product.b = a.x;
    product.c = a.dweight;
    product.m = a.out_features;
    product.n = a.in_features;
    product.k = a.tokens;
    product.lda = a.dy_stride;
    product.ldb = a.x_stride;
    product.ldc = a.in_features;
    product.transpose_a = true;
    product.alpha = 1;
    product.beta = a.accumulate ? 1.0f : 0.0f;
    product.operands = a.dtype;
    product.result = MT_F32;
    if (!code && a.dweight)
        code = mt_cuda_multiply(stream, &product, "linear_backward_weight");
    return code || !a.dbias ? code : bias_gradient(stream, &a);
}
