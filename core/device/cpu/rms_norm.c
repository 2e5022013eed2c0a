/* Root mean square norm (Zhang and Sennrich, 2019) and, centered, layer norm (Ba, Kiros and Hinton, 2016).
 *
 *   forward   rstd = 1 / sqrt(mean(x^2) + eps); y = x * rstd * (offset + weight) + bias
 *   backward  g = dy * (offset + weight); dx (=|+=) rstd * (g - x * rstd^2 * mean(g * x));
 *             dweight (=|+=) sum over rows of dy * x * rstd; dbias (=|+=) sum over rows of dy
 *   centered  x less its mean in x's place; dx from g less its mean
 *
 * A vector is one group of one row. dweight: each block of vectors sums its own part in their order, then the
 * parts are added in the order of the blocks; blocks are cut by the number of vectors alone.
 */
#include "core/base/size.h"
#include "core/device/cpu/cpu.h"

#include <math.h>
#include <string.h>

#define VECTORS 32u /* a task */
#define BACKWARD_VECTORS 64u
#define COLS 64u /* a task of the sum over blocks */

static size_t at_least_one(size_t groups)
{
    return groups ? groups : 1;
}

/* The factor of column i on: offset + weight. */
MT_INLINE mt_vf factor(const void *weight, float offset, size_t i, size_t count, bool narrow)
{
    return weight ? mt_data_load(weight, i, count, narrow) + offset : mt_vf_set(1);
}

MT_INLINE const void *at_or_null(const void *data, size_t index, bool narrow)
{
    return data ? mt_data_at(data, index, narrow) : NULL;
}

MT_INLINE float mean_of(const void *x, size_t cols, bool narrow)
{
    mt_vf sum = mt_vf_set(0);
    for (size_t i = 0; i < cols; i += MT_LANES)
        sum += mt_data_load(x, i, cols - i, narrow);
    return mt_vf_sum(sum) / (float)cols;
}

MT_INLINE void forward_vectors(const struct mt_rms_norm_args *a, size_t first, size_t last, const bool narrow)
{
    const size_t cols = a->cols;
    for (size_t n = first; n < last; n++) {
        const size_t row = n / a->groups, group = n % a->groups, own = a->weight_per_group ? group * cols : 0;
        const void *x = mt_data_at(a->x, row * a->x_stride + group * cols, narrow);
        const void *weight = at_or_null(a->weight, own, narrow), *bias = at_or_null(a->bias, own, narrow);
        void *y = mt_data_at_mutable(a->y, row * a->y_stride + group * cols, narrow);
        const float mean = a->centered ? mean_of(x, cols, narrow) : 0;
        mt_vf sum = mt_vf_set(0);
        for (size_t i = 0; i < cols; i += MT_LANES) {
            const mt_vf v = mt_data_load(x, i, cols - i, narrow) - mean;
            sum += mt_vf_select(mt_vi_below(cols - i), v * v, mt_vf_set(0));
        }
        const float rstd = 1.0f / sqrtf(mt_vf_sum(sum) / (float)cols + a->eps);
        for (size_t i = 0; i < cols; i += MT_LANES) {
            mt_vf v = (mt_data_load(x, i, cols - i, narrow) - mean) * rstd *
                      factor(weight, a->weight_offset, i, cols - i, narrow);
            if (bias)
                v += mt_data_load(bias, i, cols - i, narrow);
            mt_data_store(y, i, v, cols - i, narrow);
        }
        if (a->rstd)
            a->rstd[n] = rstd;
        if (a->mean)
            a->mean[n] = mean;
    }
}

MT_INLINE void forward_task_body(void *context, size_t task)
{
    const struct mt_rms_norm_args *a = context;
    const size_t first = task * VECTORS, last = mt_size_min(a->rows * a->groups, first + VECTORS);
    if (a->dtype == MT_BF16)
        forward_vectors(a, first, last, true);
    else
        forward_vectors(a, first, last, false);
}
MT_CPU_KERNEL(forward_task);

static void run_forward(struct mt_stream *stream, const void *args)
{
    struct mt_rms_norm_args a = *(const struct mt_rms_norm_args *)args;
    mt_cpu_parallel(stream, mt_size_ceil_div(a.rows * a.groups, VECTORS), forward_task[mt_cpu_level()], &a);
}

int mt_cpu_rms_norm(struct mt_stream *stream, const struct mt_rms_norm_args *args)
{
    struct mt_rms_norm_args a = *args;
    a.groups = at_least_one(a.groups);
    const size_t width = a.groups * a.cols, own = a.weight_per_group ? width : a.cols;
    a.x_stride = a.x_stride ? a.x_stride : width;
    a.y_stride = a.y_stride ? a.y_stride : width;
    if (!mt_cpu_data_dtype(a.dtype) || a.x_stride < width || a.y_stride < width || (a.mean && !a.centered))
        return -EINVAL;
    if (!a.rows || !a.cols)
        return 0;
    const size_t element = mt_dtype_bytes(a.dtype), numbers = a.rows * a.groups * sizeof(float);
    const struct mt_cpu_operand operands[] = {
        {.name = "x", .address = a.x, .bytes = mt_cpu_span(a.rows, width, a.x_stride, a.dtype)},
        {.name = "weight", .address = a.weight, .bytes = own * element, .optional = true},
        {.name = "bias", .address = a.bias, .bytes = own * element, .optional = true},
        {.name = "y", .address = a.y, .bytes = mt_cpu_span(a.rows, width, a.y_stride, a.dtype)},
        {.name = "rstd", .address = a.rstd, .bytes = numbers, .optional = true},
        {.name = "mean", .address = a.mean, .bytes = numbers, .optional = true},
    };
    return mt_cpu_submit(stream, "rms_norm", run_forward, &a, sizeof a, operands, 6);
}

struct backward_context {
    struct mt_rms_norm_backward_args args;
    float *parts; /* [blocks, parameters]: dweight's columns, then dbias's */
    size_t blocks, own;
};

/* A vector's share of dweight and dbias, added to the block's. */
MT_INLINE void add_parts(float *dweight, float *dbias, const void *x, const void *dy, float mean, float rstd,
                         size_t cols, const bool narrow)
{
    for (size_t i = 0; i < cols; i += MT_LANES) {
        const mt_vf vx = mt_data_load(x, i, cols - i, narrow) - mean,
                    vy = mt_data_load(dy, i, cols - i, narrow);
        if (dweight)
            mt_vf_store_part(dweight + i, mt_vf_load_part(dweight + i, cols - i) + vy * vx * rstd, cols - i);
        if (dbias)
            mt_vf_store_part(dbias + i, mt_vf_load_part(dbias + i, cols - i) + vy, cols - i);
    }
}

MT_INLINE void backward_vectors(const struct backward_context *ctx, float *part, size_t first, size_t last,
                                const bool narrow)
{
    const struct mt_rms_norm_backward_args *a = &ctx->args;
    const size_t cols = a->cols;
    for (size_t n = first; n < last; n++) {
        const size_t row = n / a->groups, group = n % a->groups, own = a->weight_per_group ? group * cols : 0;
        const void *x = mt_data_at(a->x, row * a->x_stride + group * cols, narrow);
        const void *dy = mt_data_at(a->dy, row * a->dy_stride + group * cols, narrow);
        const void *weight = at_or_null(a->weight, own, narrow);
        void *dx = mt_data_at_mutable(a->dx, row * a->dx_stride + group * cols, narrow);
        const float rstd = a->rstd[n], mean = a->centered ? a->mean[n] : 0;
        if (part)
            add_parts(a->dweight ? part + own : NULL, a->dbias ? part + ctx->own + own : NULL, x, dy, mean,
                      rstd, cols, narrow);
        mt_vf along = mt_vf_set(0), whole = along;
        for (size_t i = 0; i < cols; i += MT_LANES) {
            const mt_vf g =
                mt_data_load(dy, i, cols - i, narrow) * factor(weight, a->weight_offset, i, cols - i, narrow);
            along += g * (mt_data_load(x, i, cols - i, narrow) - mean);
            whole += g;
        }
        const float pull = mt_vf_sum(along) / (float)cols * rstd * rstd;
        const float level = a->centered ? mt_vf_sum(whole) / (float)cols : 0;
        for (size_t i = 0; i < cols; i += MT_LANES) {
            const mt_vf g =
                mt_data_load(dy, i, cols - i, narrow) * factor(weight, a->weight_offset, i, cols - i, narrow);
            mt_vf v = rstd * (g - level - (mt_data_load(x, i, cols - i, narrow) - mean) * pull);
            if (a->accumulate_dx)
                v += mt_data_load(dx, i, cols - i, narrow);
            mt_data_store(dx, i, v, cols - i, narrow);
        }
    }
}

MT_INLINE void backward_task_body(void *context, size_t task)
{
    const struct backward_context *ctx = context;
    const struct mt_rms_norm_backward_args *a = &ctx->args;
    const size_t first = task * BACKWARD_VECTORS;
    const size_t last = mt_size_min(a->rows * a->groups, first + BACKWARD_VECTORS);
    float *part = ctx->parts ? ctx->parts + task * 2 * ctx->own : NULL;
    if (part)
        memset(part, 0, 2 * ctx->own * sizeof *part);
    if (a->dtype == MT_BF16)
        backward_vectors(ctx, part, first, last, true);
    else
        backward_vectors(ctx, part, first, last, false);
}
MT_CPU_KERNEL(backward_task);

MT_INLINE void sum_blocks(const struct backward_context *ctx, size_t from, float *to, size_t first)
{
    const size_t last = mt_size_min(ctx->own, first + COLS);
    for (size_t i = first; i < last; i += MT_LANES) {
        mt_vf sum = mt_vf_set(0);
        for (size_t block = 0; block < ctx->blocks; block++)
            sum += mt_vf_load_part(ctx->parts + block * 2 * ctx->own + from + i, last - i);
        if (ctx->args.accumulate_dweight)
            sum += mt_vf_load_part(to + i, last - i);
        mt_vf_store_part(to + i, sum, last - i);
    }
}

MT_INLINE void weight_task_body(void *context, size_t task)
{
    const struct backward_context *ctx = context;
    if (ctx->args.dweight)
        sum_blocks(ctx, 0, ctx->args.dweight, task * COLS);
    if (ctx->args.dbias)
        sum_blocks(ctx, ctx->own, ctx->args.dbias, task * COLS);
}
MT_CPU_KERNEL(weight_task);

static void run_backward(struct mt_stream *stream, const void *args)
{
    struct backward_context ctx = {.args = *(const struct mt_rms_norm_backward_args *)args};
    const struct mt_rms_norm_backward_args *a = &ctx.args;
    ctx.blocks = mt_size_ceil_div(a->rows * a->groups, BACKWARD_VECTORS);
    ctx.own = a->weight_per_group ? a->groups * a->cols : a->cols;
    if (a->dweight || a->dbias) {
        ctx.parts = mt_cpu_stream_scratch(stream, ctx.blocks * 2 * ctx.own * sizeof(float));
        if (!ctx.parts)
            return;
    }
    mt_cpu_parallel(stream, ctx.blocks, backward_task[mt_cpu_level()], &ctx);
    if (ctx.parts)
        mt_cpu_parallel(stream, mt_size_ceil_div(ctx.own, COLS), weight_task[mt_cpu_level()], &ctx);
}

int mt_cpu_rms_norm_backward(struct mt_stream *stream, const struct mt_rms_norm_backward_args *args)
{
    struct mt_rms_norm_backward_args a = *args;
    a.groups = at_least_one(a.groups);
    const size_t width = a.groups * a.cols, own = a.weight_per_group ? width : a.cols;
    a.x_stride = a.x_stride ? a.x_stride : width;
    a.dy_stride = a.dy_stride ? a.dy_stride : width;
    a.dx_stride = a.dx_stride ? a.dx_stride : width;
    if (!mt_cpu_data_dtype(a.dtype) || a.x_stride < width || a.dy_stride < width || a.dx_stride < width ||
        a.centered != (a.mean != NULL))
        return -EINVAL;
    if (!a.rows || !a.cols)
        return 0;
    const size_t element = mt_dtype_bytes(a.dtype), numbers = a.rows * a.groups * sizeof(float);
    const struct mt_cpu_operand operands[] = {
        {.name = "x", .address = a.x, .bytes = mt_cpu_span(a.rows, width, a.x_stride, a.dtype)},
        {.name = "weight", .address = a.weight, .bytes = own * element, .optional = true},
        {.name = "dy", .address = a.dy, .bytes = mt_cpu_span(a.rows, width, a.dy_stride, a.dtype)},
        {.name = "rstd", .address = a.rstd, .bytes = numbers},
        {.name = "mean", .address = a.mean, .bytes = numbers, .optional = true},
        {.name = "dx", .address = a.dx, .bytes = mt_cpu_span(a.rows, width, a.dx_stride, a.dtype)},
        {.name = "dweight", .address = a.dweight, .bytes = own * sizeof(float), .optional = true},
        {.name = "dbias", .address = a.dbias, .bytes = own * sizeof(float), .optional = true},
    };
    return mt_cpu_submit(stream, "rms_norm_backward", run_backward, &a, sizeof a, operands, 8);
}
