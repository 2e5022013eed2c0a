/* y = x W^T + bias and its backward pass: three products over the same three matrices.
 *
 *   forward          y[T, out]        (=|+=) x[T, in] * W[out, in]^T + bias, or x * W[in, out] + bias
 *   backward input   dx[T, in]        (=|+=) dy[T, out] * W[out, in]
 *   backward weight  dW[out, in] fp32 (=|+=) dy[T, out]^T * x[T, in];  dbias[out] (=|+=) sum over T of dy
 *
 * Operands are data, sums fp32. dbias is summed in token order, a strip of columns a task.
 */
#include "core/base/size.h"
#include "core/device/cpu/blas.h"
#include "core/device/cpu/cpu.h"
#include "core/device/cpu/math.h"

#include <limits.h>

static bool bad_shape(size_t tokens, size_t in, size_t out, size_t stride_a, size_t stride_b)
{
    return tokens > INT_MAX || in > INT_MAX || out > INT_MAX || stride_a > INT_MAX || stride_b > INT_MAX;
}

#define CAP_ROWS 8u

MT_INLINE void cap_task_body(void *context, size_t task)
{
    const struct mt_linear_args *a = context;
    const size_t first = task * CAP_ROWS, last = mt_size_min(a->tokens, first + CAP_ROWS);
    const bool narrow = a->dtype == MT_BF16;
    for (size_t t = first; t < last; t++)
        for (size_t i = 0; i < a->out_features; i += MT_LANES) {
            const size_t at = t * a->y_stride + i, count = a->out_features - i;
            const mt_vf bent = mt_vf_tanh(mt_data_load(a->y, at, count, narrow) * (1.0f / a->softcap));
            mt_data_store(a->y, at, a->softcap * bent, count, narrow);
        }
}
MT_CPU_KERNEL(cap_task);

static void run_linear(struct mt_stream *stream, const void *args)
{
    struct mt_linear_args copy = *(const struct mt_linear_args *)args, *a = &copy;
    const struct mt_cpu_product product = {
        .a = a->x,
        .b = a->weight,
        .bias = a->bias,
        .c = a->y,
        .m = a->tokens,
        .n = a->out_features,
        .k = a->in_features,
        .lda = a->x_stride,
        .ldb = a->weight_stride,
        .ldc = a->y_stride,
        .transpose_b = !a->weight_transposed,
        .accumulate = a->accumulate,
        .operands = a->dtype,
        .result = a->dtype,
    };
    mt_cpu_product(stream, &product);
    if (a->softcap > 0)
        mt_cpu_parallel(stream, mt_size_ceil_div(a->tokens, CAP_ROWS), cap_task[mt_cpu_level()], a);
}

int mt_cpu_linear(struct mt_stream *stream, const struct mt_linear_args *args)
{
    struct mt_linear_args a = *args;
    a.x_stride = a.x_stride ? a.x_stride : a.in_features;
    a.y_stride = a.y_stride ? a.y_stride : a.out_features;
    const size_t rows = a.weight_transposed ? a.in_features : a.out_features;
    const size_t cols = a.weight_transposed ? a.out_features : a.in_features;
    a.weight_stride = a.weight_stride ? a.weight_stride : cols;
    if (!mt_cpu_data_dtype(a.dtype) || a.x_stride < a.in_features || a.y_stride < a.out_features ||
        a.weight_stride < cols || a.weight_stride > INT_MAX || !a.in_features ||
        bad_shape(a.tokens, a.in_features, a.out_features, a.x_stride, a.y_stride))
        return -EINVAL;
    if (!a.tokens || !a.out_features)
        return 0;
    const size_t element = mt_dtype_bytes(a.dtype);
    const struct mt_cpu_operand operands[] = {
        {.name = "x", .address = a.x, .bytes = mt_cpu_span(a.tokens, a.in_features, a.x_stride, a.dtype)},
        {.name = "weight", .address = a.weight, .bytes = mt_cpu_span(rows, cols, a.weight_stride, a.dtype)},
        {.name = "bias", .address = a.bias, .bytes = a.out_features * element, .optional = true},
        {.name = "y", .address = a.y, .bytes = mt_cpu_span(a.tokens, a.out_features, a.y_stride, a.dtype)},
    };
    return mt_cpu_submit(stream, "linear", run_linear, &a, sizeof a, operands, 4);
}

static void run_backward_input(struct mt_stream *stream, const void *args)
{
    const struct mt_linear_backward_input_args *a = args;
    const struct mt_cpu_product product = {
        .a = a->dy,
        .b = a->weight,
        .c = a->dx,
        .m = a->tokens,
        .n = a->in_features,
        .k = a->out_features,
        .lda = a->dy_stride,
        .ldb = a->in_features,
        .ldc = a->dx_stride,
        .accumulate = a->accumulate,
        .operands = a->dtype,
        .result = a->wide_dx ? MT_F32 : a->dtype,
    };
    mt_cpu_product(stream, &product);
}

int mt_cpu_linear_backward_input(struct mt_stream *stream, const struct mt_linear_backward_input_args *args)
{
    struct mt_linear_backward_input_args a = *args;
    a.dy_stride = a.dy_stride ? a.dy_stride : a.out_features;
    a.dx_stride = a.dx_stride ? a.dx_stride : a.in_features;
    if (!mt_cpu_data_dtype(a.dtype) || a.dy_stride < a.out_features || a.dx_stride < a.in_features ||
        !a.out_features || bad_shape(a.tokens, a.in_features, a.out_features, a.dy_stride, a.dx_stride))
        return -EINVAL;
    if (!a.tokens || !a.in_features)
        return 0;
    const struct mt_cpu_operand operands[] = {
        {.name = "dy", .address = a.dy, .bytes = mt_cpu_span(a.tokens, a.out_features, a.dy_stride, a.dtype)},
        {.name = "weight",
         .address = a.weight,
         .bytes = a.out_features * a.in_features * mt_dtype_bytes(a.dtype)},
        {.name = "dx",
         .address = a.dx,
         .bytes = mt_cpu_span(a.tokens, a.in_features, a.dx_stride, a.wide_dx ? MT_F32 : a.dtype)},
    };
    return mt_cpu_submit(stream, "linear_backward_input", run_backward_input, &a, sizeof a, operands, 3);
}

#define BIAS_COLS 64u

MT_INLINE void bias_task_body(void *context, size_t task)
{
    const struct mt_linear_backward_weight_args *a = context;
    const size_t first = task * BIAS_COLS, last = mt_size_min(a->out_features, first + BIAS_COLS);
    const bool narrow = a->dtype == MT_BF16;
    for (size_t i = first; i < last; i += MT_LANES) {
        mt_vf sum = mt_vf_set(0);
        for (size_t t = 0; t < a->tokens; t++)
            sum += mt_data_load(a->dy, t * a->dy_stride + i, last - i, narrow);
        if (a->accumulate)
            sum += mt_vf_load_part(a->dbias + i, last - i);
        mt_vf_store_part(a->dbias + i, sum, last - i);
    }
}
MT_CPU_KERNEL(bias_task);

static void run_backward_weight(struct mt_stream *stream, const void *args)
{
    struct mt_linear_backward_weight_args a = *(const struct mt_linear_backward_weight_args *)args;
    const struct mt_cpu_product product = {
        .a = a.dy,
        .b = a.x,
        .c = a.dweight,
        .m = a.out_features,
        .n = a.in_features,
        .k = a.tokens,
        .lda = a.dy_stride,
        .ldb = a.x_stride,
        .ldc = a.in_features,
        .transpose_a = true,
        .accumulate = a.accumulate,
        .operands = a.dtype,
        .result = MT_F32,
    };
    if (a.dweight)
        mt_cpu_product(stream, &product);
    if (a.dbias)
        mt_cpu_parallel(stream, mt_size_ceil_div(a.out_features, BIAS_COLS), bias_task[mt_cpu_level()], &a);
}

int mt_cpu_linear_backward_weight(struct mt_stream *stream, const struct mt_linear_backward_weight_args *args)
{
    struct mt_linear_backward_weight_args a = *args;
    a.dy_stride = a.dy_stride ? a.dy_stride : a.out_features;
    a.x_stride = a.x_stride ? a.x_stride : a.in_features;
    if (!mt_cpu_data_dtype(a.dtype) || a.dy_stride < a.out_features || a.x_stride < a.in_features ||
        !a.tokens || bad_shape(a.tokens, a.in_features, a.out_features, a.dy_stride, a.x_stride))
        return -EINVAL;
    if (!a.in_features || !a.out_features)
        return 0;
    const struct mt_cpu_operand operands[] = {
        {.name = "dy", .address = a.dy, .bytes = mt_cpu_span(a.tokens, a.out_features, a.dy_stride, a.dtype)},
        {.name = "x", .address = a.x, .bytes = mt_cpu_span(a.tokens, a.in_features, a.x_stride, a.dtype)},
        {.name = "dweight",
         .address = a.dweight,
         .bytes = a.out_features * a.in_features * sizeof(float),
         .optional = true},
        {.name = "dbias", .address = a.dbias, .bytes = a.out_features * sizeof(float), .optional = true},
    };
    return mt_cpu_submit(stream, "linear_backward_weight", run_backward_weight, &a, sizeof a, operands, 4);
}
