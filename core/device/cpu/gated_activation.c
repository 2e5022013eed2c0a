/* out = f(gate) * up, the gated units of Shazeer (2020); without `up`, out = f(gate).
 *
 *   backward  dgate = dout * up * f'(gate); dup = dout * f(gate); both overwritten, in place if wished
 *
 * With s = sigmoid(x): silu f = x s, f' = s (1 + x (1 - s)). gelu: f = x Phi(x), f' = Phi(x) + x phi(x). Its
 * tanh form is x sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x^3), since (1 + tanh u) / 2 = sigmoid(2u).
 */
#include "core/base/size.h"
#include "core/device/cpu/cpu.h"
#include "core/device/cpu/math.h"

#define ELEMENTS 16384u /* about what a task takes: whole rows, at least one */

/* f(x) and, in *slope, f'(x). */
MT_INLINE mt_vf activate(mt_vf x, const enum mt_activation kind, mt_vf *slope)
{
    switch (kind) {
    case MT_ACTIVATION_SILU: {
        const mt_vf s = mt_vf_sigmoid(x);
        *slope = s * (1.0f + x * (1.0f - s));
        return x * s;
    }
    case MT_ACTIVATION_GELU: {
        const mt_vf phi = 0.5f + 0.5f * mt_vf_erf(x * 0.70710678f);
        *slope = phi + x * 0.39894228f * mt_vf_exp(x * x * -0.5f);
        return x * phi;
    }
    case MT_ACTIVATION_GELU_TANH: {
        const mt_vf square = x * x;
        const mt_vf s = mt_vf_sigmoid(x * 1.59576912f * (1.0f + 0.044715f * square));
        *slope = s + x * s * (1.0f - s) * 1.59576912f * (1.0f + 0.134145f * square);
        return x * s;
    }
    case MT_ACTIVATION_RELU:
    case MT_ACTIVATION_RELU2:
        break;
    }
    /* NaN is neither below nor above: it stays. */
    const mt_vi off = (mt_vi)(x <= 0.0f);
    const mt_vf positive = mt_vf_select(off, mt_vf_set(0), x);
    if (kind == MT_ACTIVATION_RELU2) {
        *slope = 2.0f * positive;
        return positive * positive;
    }
    *slope = mt_vf_select(off, mt_vf_set(0), mt_vf_set(1));
    return positive;
}

struct context {
    struct mt_gated_activation_backward_args args; /* forward: `out` in dgate's place */
    void *out;
    size_t rows_a_task;
};

MT_INLINE void forward_rows(const struct context *ctx, size_t first, size_t last,
                            const enum mt_activation kind, const bool narrow)
{
    const struct mt_gated_activation_backward_args *a = &ctx->args;
    for (size_t row = first; row < last; row++) {
        const void *gate = mt_data_at(a->gate, row * a->gate_stride, narrow);
        const void *up = a->up ? mt_data_at(a->up, row * a->up_stride, narrow) : NULL;
        void *out = mt_data_at_mutable(ctx->out, row * a->cols, narrow);
        for (size_t i = 0; i < a->cols; i += MT_LANES) {
            mt_vf slope;
            mt_vf v = activate(mt_data_load(gate, i, a->cols - i, narrow), kind, &slope);
            if (up)
                v *= mt_data_load(up, i, a->cols - i, narrow);
            mt_data_store(out, i, v, a->cols - i, narrow);
        }
    }
}

MT_INLINE void backward_rows(const struct context *ctx, size_t first, size_t last,
                             const enum mt_activation kind, const bool narrow)
{
    const struct mt_gated_activation_backward_args *a = &ctx->args;
    for (size_t row = first; row < last; row++) {
        const size_t gate_at = row * a->gate_stride, up_at = row * a->up_stride;
        for (size_t i = 0; i < a->cols; i += MT_LANES) {
            const size_t count = a->cols - i;
            const mt_vf dout = mt_data_load(a->dout, row * a->cols + i, count, narrow);
            mt_vf slope;
            const mt_vf f = activate(mt_data_load(a->gate, gate_at + i, count, narrow), kind, &slope);
            mt_vf dgate = dout * slope;
            if (a->up) {
                dgate *= mt_data_load(a->up, up_at + i, count, narrow);
                mt_data_store(a->dup, up_at + i, dout * f, count, narrow);
            }
            mt_data_store(a->dgate, gate_at + i, dgate, count, narrow);
        }
    }
}

MT_INLINE void forward_or_backward(const struct context *ctx, size_t task, const enum mt_activation kind,
                                   const bool narrow)
{
    const size_t first = task * ctx->rows_a_task,
                 last = mt_size_min(ctx->args.rows, first + ctx->rows_a_task);
    if (ctx->out)
        forward_rows(ctx, first, last, kind, narrow);
    else
        backward_rows(ctx, first, last, kind, narrow);
}

MT_INLINE void any_kind(const struct context *ctx, size_t task, const bool narrow)
{
    switch (ctx->args.activation) {
    case MT_ACTIVATION_SILU:
        forward_or_backward(ctx, task, MT_ACTIVATION_SILU, narrow);
        break;
    case MT_ACTIVATION_GELU:
        forward_or_backward(ctx, task, MT_ACTIVATION_GELU, narrow);
        break;
    case MT_ACTIVATION_GELU_TANH:
        forward_or_backward(ctx, task, MT_ACTIVATION_GELU_TANH, narrow);
        break;
    case MT_ACTIVATION_RELU:
        forward_or_backward(ctx, task, MT_ACTIVATION_RELU, narrow);
        break;
    case MT_ACTIVATION_RELU2:
        forward_or_backward(ctx, task, MT_ACTIVATION_RELU2, narrow);
        break;
    }
}

MT_INLINE void activation_task_body(void *context, size_t task)
{
    const struct context *ctx = context;
    if (ctx->args.dtype == MT_BF16)
        any_kind(ctx, task, true);
    else
        any_kind(ctx, task, false);
}
MT_CPU_KERNEL(activation_task);

static void run(struct mt_stream *stream, struct context *ctx)
{
    ctx->rows_a_task = mt_size_max(1, ELEMENTS / ctx->args.cols);
    mt_cpu_parallel(stream, mt_size_ceil_div(ctx->args.rows, ctx->rows_a_task),
                    activation_task[mt_cpu_level()], ctx);
}

static void run_forward(struct mt_stream *stream, const void *args)
{
    const struct mt_gated_activation_args *a = args;
    struct context ctx = {
        .args = {.gate = a->gate,
                 .up = a->up,
                 .rows = a->rows,
                 .cols = a->cols,
                 .gate_stride = a->gate_stride,
                 .up_stride = a->up_stride,
                 .activation = a->activation,
                 .dtype = a->dtype},
        .out = a->out,
    };
    run(stream, &ctx);
}

static void run_backward(struct mt_stream *stream, const void *args)
{
    struct context ctx = {.args = *(const struct mt_gated_activation_backward_args *)args};
    run(stream, &ctx);
}

static bool bad(enum mt_dtype dtype, unsigned activation, size_t cols, size_t gate_stride, size_t up_stride)
{
    return !mt_cpu_data_dtype(dtype) || activation > MT_ACTIVATION_RELU2 || gate_stride < cols ||
           up_stride < cols;
}

int mt_cpu_gated_activation(struct mt_stream *stream, const struct mt_gated_activation_args *args)
{
    struct mt_gated_activation_args a = *args;
    a.gate_stride = a.gate_stride ? a.gate_stride : a.cols;
    a.up_stride = a.up_stride ? a.up_stride : a.cols;
    if (bad(a.dtype, a.activation, a.cols, a.gate_stride, a.up_stride))
        return -EINVAL;
    if (!a.rows || !a.cols)
        return 0;
    const struct mt_cpu_operand operands[] = {
        {.name = "gate", .address = a.gate, .bytes = mt_cpu_span(a.rows, a.cols, a.gate_stride, a.dtype)},
        {.name = "up",
         .address = a.up,
         .bytes = mt_cpu_span(a.rows, a.cols, a.up_stride, a.dtype),
         .optional = true},
        {.name = "out", .address = a.out, .bytes = a.rows * a.cols * mt_dtype_bytes(a.dtype)},
    };
    return mt_cpu_submit(stream, "gated_activation", run_forward, &a, sizeof a, operands, 3);
}

int mt_cpu_gated_activation_backward(struct mt_stream *stream,
                                     const struct mt_gated_activation_backward_args *args)
{
    struct mt_gated_activation_backward_args a = *args;
    a.gate_stride = a.gate_stride ? a.gate_stride : a.cols;
    a.up_stride = a.up_stride ? a.up_stride : a.cols;
    if (bad(a.dtype, a.activation, a.cols, a.gate_stride, a.up_stride))
        return -EINVAL;
    if (!a.rows || !a.cols)
        return 0;
    const size_t gate_bytes = mt_cpu_span(a.rows, a.cols, a.gate_stride, a.dtype);
    const size_t up_bytes = mt_cpu_span(a.rows, a.cols, a.up_stride, a.dtype);
    const struct mt_cpu_operand operands[] = {
        {.name = "gate", .address = a.gate, .bytes = gate_bytes},
        {.name = "up", .address = a.up, .bytes = up_bytes, .optional = true},
        {.name = "dout", .address = a.dout, .bytes = a.rows * a.cols * mt_dtype_bytes(a.dtype)},
        {.name = "dgate", .address = a.dgate, .bytes = gate_bytes},
        {.name = "dup", .address = a.dup, .bytes = up_bytes, .optional = !a.up},
    };
    return mt_cpu_submit(stream, "gated_activation_backward", run_backward, &a, sizeof a, operands, 5);
}
