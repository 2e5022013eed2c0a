/* xIELU (Huang and Schlag, 2024) with trained curvatures.
 *
 *   p = softplus(alpha_p), n = beta + softplus(alpha_n), m = min(x, eps), h(m) = e^m - 1 - m
 *   x > 0   y = p x^2 + beta x              y' = 2 p x + beta
 *   else    y = n (h(m) + m - x) + beta x   y' = n ((m is x ? e^x : 0) - 1) + beta
 *
 * h is small beside its terms near 0: there it is summed as a series. The two curvatures' gradients are
 * partial sums of tasks, added up in the order of the tasks.
 */
#include "core/base/size.h"
#include "core/device/cpu/cpu.h"
#include "core/device/cpu/math.h"

#include <math.h>

#define ELEMENTS 16384u /* a task */

/* e^x - 1 - x for x <= 0 (and a little above), to some ulp. */
MT_INLINE mt_vf excess(mt_vf x)
{
    mt_vf p = x * 2.75573192e-6f + 2.48015873e-5f; /* 1/9!, 1/8!, ... 1/2! */
    p = p * x + 1.98412698e-4f;
    p = p * x + 1.38888889e-3f;
    p = p * x + 8.33333333e-3f;
    p = p * x + 4.16666667e-2f;
    p = p * x + 1.66666667e-1f;
    p = p * x + 0.5f;
    return mt_vf_select((mt_vi)(x < -0.5f), mt_vf_exp(x) - 1.0f - x, x * x * p);
}

struct context {
    struct mt_xielu_backward_args args; /* forward: `y` in dx's place, no dy */
    float p, n, beta, eps;
    double *parts; /* [tasks][2] */
};

/* y, its slope, and what the curvatures are multiplied by: x^2 or h(m) + m - x. */
MT_INLINE mt_vf curve(const struct context *ctx, mt_vf x, mt_vf *slope, mt_vf *bend)
{
    const mt_vi positive = (mt_vi)(x > 0.0f), below = (mt_vi)(x < ctx->eps);
    const mt_vf m = mt_vf_select(below, x, mt_vf_set(ctx->eps)), h = excess(m);
    *bend = mt_vf_select(positive, x * x, h + (m - x));
    const mt_vf factor = mt_vf_select(positive, mt_vf_set(ctx->p), mt_vf_set(ctx->n));
    const mt_vf other = mt_vf_select(below, h + x, mt_vf_set(-1));
    *slope = factor * mt_vf_select(positive, 2.0f * x, other) + ctx->beta;
    return factor * *bend + ctx->beta * x;
}

MT_INLINE void forward_elements(const struct context *ctx, size_t first, size_t last, const bool narrow)
{
    const struct mt_xielu_backward_args *a = &ctx->args;
    for (size_t i = first; i < last; i += MT_LANES) {
        mt_vf slope, bend;
        const mt_vf y = curve(ctx, mt_data_load(a->x, i, last - i, narrow), &slope, &bend);
        mt_data_store(a->dx, i, y, last - i, narrow);
    }
}

MT_INLINE void backward_elements(const struct context *ctx, size_t first, size_t last, double parts[2],
                                 const bool narrow)
{
    const struct mt_xielu_backward_args *a = &ctx->args;
    double sums[2] = {0, 0};
    for (size_t i = first; i < last; i += MT_LANES) {
        const mt_vf x = mt_data_load(a->x, i, last - i, narrow),
                    dy = mt_data_load(a->dy, i, last - i, narrow);
        mt_vf slope, bend;
        curve(ctx, x, &slope, &bend);
        const mt_vf product = dy * bend; /* 0 in lanes that are not there: dy is 0 */
        const mt_vi positive = (mt_vi)(x > 0.0f);
        sums[0] += (double)mt_vf_sum(mt_vf_select(positive, product, mt_vf_set(0)));
        sums[1] += (double)mt_vf_sum(mt_vf_select(positive, mt_vf_set(0), product));
        mt_data_store(a->dx, i, dy * slope, last - i, narrow);
    }
    memcpy(parts, sums, sizeof sums);
}

MT_INLINE void xielu_task_body(void *context, size_t task)
{
    const struct context *ctx = context;
    const size_t first = task * ELEMENTS, last = mt_size_min(ctx->args.count, first + ELEMENTS);
    const bool narrow = ctx->args.dtype == MT_BF16;
    if (!ctx->args.dy)
        forward_elements(ctx, first, last, narrow);
    else
        backward_elements(ctx, first, last, ctx->parts + 2 * task, narrow);
}
MT_CPU_KERNEL(xielu_task);

static double number(const void *at, enum mt_dtype dtype)
{
    return (double)mt_data_load(at, 0, 1, dtype == MT_BF16)[0];
}

static double softplus(double x)
{
    return x > 30 ? x : log1p(exp(x));
}

static void run(struct mt_stream *stream, struct context *ctx)
{
    const struct mt_xielu_backward_args *a = &ctx->args;
    const size_t tasks = mt_size_ceil_div(a->count, ELEMENTS);
    const double beta = number(a->beta, a->dtype), alpha_p = number(a->alpha_p, a->dtype),
                 alpha_n = number(a->alpha_n, a->dtype);
    ctx->p = (float)softplus(alpha_p);
    ctx->n = (float)(beta + softplus(alpha_n));
    ctx->beta = (float)beta;
    ctx->eps = (float)number(a->eps, a->dtype);
    if (a->dy) {
        ctx->parts = mt_cpu_stream_scratch(stream, 2 * tasks * sizeof *ctx->parts);
        if (!ctx->parts)
            return;
    }
    mt_cpu_parallel(stream, tasks, xielu_task[mt_cpu_level()], ctx);
    float *const gradients[2] = {a->dalpha_p, a->dalpha_n};
    const double alphas[2] = {alpha_p, alpha_n};
    for (size_t k = 0; k < 2 && a->dy; k++) {
        double sum = 0;
        for (size_t task = 0; task < tasks; task++)
            sum += ctx->parts[2 * task + k];
        sum /= 1 + exp(-alphas[k]);
        if (gradients[k])
            *gradients[k] = (float)((a->accumulate ? (double)*gradients[k] : 0) + sum);
    }
}

static void run_forward(struct mt_stream *stream, const void *args)
{
    const struct mt_xielu_args *a = args;
    struct context ctx = {.args = {.x = a->x,
                                   .dx = a->y,
                                   .alpha_p = a->alpha_p,
                                   .alpha_n = a->alpha_n,
                                   .beta = a->beta,
                                   .eps = a->eps,
                                   .count = a->count,
                                   .dtype = a->dtype}};
    run(stream, &ctx);
}

static void run_backward(struct mt_stream *stream, const void *args)
{
    struct context ctx = {.args = *(const struct mt_xielu_backward_args *)args};
    run(stream, &ctx);
}

int mt_cpu_xielu(struct mt_stream *stream, const struct mt_xielu_args *a)
{
    if (!mt_cpu_data_dtype(a->dtype))
        return -EINVAL;
    if (!a->count)
        return 0;
    const size_t element = mt_dtype_bytes(a->dtype);
    const struct mt_cpu_operand operands[] = {
        {.name = "x", .address = a->x, .bytes = a->count * element},
        {.name = "y", .address = a->y, .bytes = a->count * element},
        {.name = "alpha_p", .address = a->alpha_p, .bytes = element},
        {.name = "alpha_n", .address = a->alpha_n, .bytes = element},
        {.name = "beta", .address = a->beta, .bytes = element},
        {.name = "eps", .address = a->eps, .bytes = element},
    };
    return mt_cpu_submit(stream, "xielu", run_forward, a, sizeof *a, operands, 6);
}

int mt_cpu_xielu_backward(struct mt_stream *stream, const struct mt_xielu_backward_args *a)
{
    if (!mt_cpu_data_dtype(a->dtype))
        return -EINVAL;
    if (!a->count)
        return 0;
    const size_t element = mt_dtype_bytes(a->dtype);
    const struct mt_cpu_operand operands[] = {
        {.name = "x", .address = a->x, .bytes = a->count * element},
        {.name = "dy", .address = a->dy, .bytes = a->count * element},
        {.name = "dx", .address = a->dx, .bytes = a->count * element},
        {.name = "alpha_p", .address = a->alpha_p, .bytes = element},
        {.name = "alpha_n", .address = a->alpha_n, .bytes = element},
        {.name = "beta", .address = a->beta, .bytes = element},
        {.name = "eps", .address = a->eps, .bytes = element},
        {.name = "dalpha_p", .address = a->dalpha_p, .bytes = sizeof(float), .optional = true},
        {.name = "dalpha_n", .address = a->dalpha_n, .bytes = sizeof(float), .optional = true},
    };
    return mt_cpu_submit(stream, "xielu_backward", run_backward, a, sizeof *a, operands, 9);
}
