/* y = x W^T + bias and its backward pass: three products over the same three matrices.
 *
 *   forward          y[T, out]        (=|+=) x[T, in] * W[out, in]^T + bias, or x * W[in, out] + bias
 *   backward input   dx[T, in]        (=|+=) dy[T, out] * W[out, in]
 *   backward weight  dW[out, in] fp32 (=|+=) dy[T, out]^T * x[T, in];  dbias[out] (=|+=) sum over T of dy
 *
 * The bias rides on the product where the library takes it along, and so does dbias, which then costs no
 * second look at dy. Elsewhere dbias is made of parts of tokens, each summed in a fixed order, then the parts
 * in order.
 */
#include "gpu/kernels/parts.h"

#include <limits.h>

/* Parts of tokens at most, and tokens a part at least. */
#define PARTS 64u
#define LEAST 32u

static bool bad_shape(size_t tokens, size_t in, size_t out, size_t stride_a, size_t stride_b)
{
    return tokens > INT_MAX || in > INT_MAX || out > INT_MAX || stride_a > INT_MAX || stride_b > INT_MAX;
}

template <typename T, int V>
static __global__ void bias_rows(T *c, const T *bias, size_t rows, size_t cols, size_t stride)
{
    mt_each_of_rows<V>(rows, cols, [&](auto width, size_t row, size_t i) {
        constexpr int W = decltype(width)::count;
        float v[W], own[W];
        mt_load<T, W>(c + row * stride + i, v);
        mt_load<T, W>(bias + i, own);
        for (int j = 0; j < W; j++)
            v[j] += own[j];
        mt_store<T, W>(c + row * stride + i, v);
    });
}

/* A bias has its product's type on both sides. */
int mt_cuda_add_bias(struct mt_stream *stream, const struct mt_cuda_product *p, const char *operation)
{
    mt_cuda_dispatch(p->result, mt_cuda_packs(p->result, {{p->c, p->ldc}, {p->bias, 0}}), [&](auto kind) {
        typedef typename decltype(kind)::type T;
        constexpr int V = decltype(kind)::packs;
        MT_LAUNCH((bias_rows<T, V>), mt_rows_grid(p->m, p->n, V), mt_rows_block(p->n, V), 0, stream->handle,
                  static_cast<T *>(p->c), static_cast<const T *>(p->bias), p->m, p->n, p->ldc);
    });
    return mt_cuda_end(stream, operation);
}

template <typename T, int V>
static __global__ void cap(T *y, size_t tokens, size_t cols, size_t stride, float softcap, float inverse)
{
    mt_each_of_rows<V>(tokens, cols, [&](auto width, size_t row, size_t i) {
        constexpr int W = decltype(width)::count;
        float v[W];
        mt_load<T, W>(y + row * stride + i, v);
        for (int j = 0; j < W; j++)
            v[j] = softcap * tanhf(v[j] * inverse);
        mt_store<T, W>(y + row * stride + i, v);
    });
}

static int cap_rows(struct mt_stream *stream, const struct mt_linear_args *a)
{
    mt_cuda_dispatch(a->dtype, mt_cuda_packs(a->dtype, {{a->y, a->y_stride}}), [&](auto kind) {
        typedef typename decltype(kind)::type T;
        constexpr int V = decltype(kind)::packs;
        MT_LAUNCH((cap<T, V>), mt_rows_grid(a->tokens, a->out_features, V), mt_rows_block(a->out_features, V),
                  0, stream->handle, static_cast<T *>(a->y), a->tokens, a->out_features, a->y_stride,
                  a->softcap, 1.0f / a->softcap);
    });
    return mt_cuda_end(stream, "linear");
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
    return code || !(a.softcap > 0) ? code : cap_rows(stream, &a);
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

template <typename T, int V>
static __global__ void column_parts(const T *dy, float *parts, size_t tokens, struct mt_cut cut, size_t cols,
                                    size_t stride)
{
    const size_t i = ((size_t)blockIdx.x * blockDim.x + threadIdx.x) * V;
    mt_column_part<V, 1>(cut, tokens, i < cols, parts + blockIdx.y * cols + i, cols,
                         [&](size_t t, float(*sums)[V]) {
                             float v[V];
                             mt_load<T, V>(dy + t * stride + i, v);
                             for (int j = 0; j < V; j++)
                                 sums[0][j] += v[j];
                         });
}

static int bias_gradient(struct mt_stream *stream, const struct mt_linear_backward_weight_args *a)
{
    float *parts = mt_cuda_parts(stream);
    if (!parts)
        return mt_cuda_fault_code(stream->device);
    const struct mt_cut cut = mt_cuda_cut_columns(a->tokens, 1, a->out_features, PARTS, LEAST);
    if (!cut.parts) {
        mt_cuda_fail(stream->device, -EIO, "linear_backward_weight: a bias of %zu columns is too long",
                     a->out_features);
        return -EIO;
    }
    const bool packs = a->out_features % 8 == 0 && mt_cuda_packs(a->dtype, {{a->dy, a->dy_stride}});
    mt_cuda_dispatch(a->dtype, packs, [&](auto kind) {
        typedef typename decltype(kind)::type T;
        constexpr int V = decltype(kind)::packs;
        MT_LAUNCH((column_parts<T, V>), mt_parts_grid<V>(a->out_features, cut.parts, 1),
                  mt_parts_block<V>(a->out_features), 0, stream->handle, static_cast<const T *>(a->dy), parts,
                  a->tokens, cut, a->out_features, a->dy_stride);
    });
    mt_cuda_add_parts(stream, parts, cut.parts, a->out_features, a->out_features, a->dbias, NULL,
                      a->accumulate);
    return mt_cuda_end(stream, "linear_backward_weight");
}

/* Both gradients by one product where the library takes the sums along. It overwrites them, and wants them
 * aligned as the result is: gradients that are added to, or lie anywhere, take the way over the scratch. */
static int weight_gradient(struct mt_stream *stream, const struct mt_linear_backward_weight_args *a)
{
    struct mt_cuda_product product = {};
    product.a = a->dy;
    product.b = a->x;
    product.c = a->dweight;
    product.m = a->out_features;
    product.n = a->in_features;
    product.k = a->tokens;
    product.lda = a->dy_stride;
    product.ldb = a->x_stride;
    product.ldc = a->in_features;
    product.transpose_a = true;
    product.alpha = 1;
    product.beta = a->accumulate ? 1.0f : 0.0f;
    product.operands = a->dtype;
    product.result = MT_F32;
    if (!a->dbias)
        return mt_cuda_multiply(stream, &product, "linear_backward_weight");
    float *parts = mt_cuda_parts(stream);
    if (!parts)
        return mt_cuda_fault_code(stream->device);
    const bool direct = !a->accumulate && reinterpret_cast<uintptr_t>(a->dbias) % 16 == 0;
    const bool room = a->out_features <= MT_CUDA_PARTS_BYTES / sizeof(float);
    bool sums_left = true;
    product.a_sums = direct ? a->dbias : room ? parts : NULL;
    const int code = mt_cuda_multiply_and_sum(stream, &product, &sums_left, "linear_backward_weight");
    if (code)
        return code;
    if (sums_left || !product.a_sums)
        return bias_gradient(stream, a);
    if (direct)
        return 0;
    mt_cuda_add_parts(stream, parts, 1, a->out_features, a->out_features, a->dbias, NULL, a->accumulate);
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
    const int code = mt_cuda_begin(stream);
    if (code || !a.dweight)
        return code || !a.dbias ? code : bias_gradient(stream, &a);
    return weight_gradient(stream, &a);
}
