/* Root mean square norm (Zhang and Sennrich, 2019).
 *
 *   forward   rstd = 1 / sqrt(mean(x^2) + eps); y = x * rstd * (offset + weight)
 *   backward  g = dy * (offset + weight); dx (=|+=) rstd * (g - x * rstd^2 * mean(g * x));
 *             dweight (=|+=) sum over rows of dy * x * rstd
 *
 * dweight: each block of rows sums its own part in row order, then the parts are added in the order of the
 * blocks; blocks are cut by the number of rows alone.
 */
#include "core/base/size.h"
#include "core/device/cpu/cpu.h"

#include <math.h>

#define ROWS 32u /* a task */
#define BACKWARD_ROWS 64u
#define COLS 64u /* a task of the sum over blocks */

/* The factor of column i on: offset + weight. */
MT_INLINE mt_vf factor(const void *weight, float offset, size_t i, size_t count, bool narrow)
{
    return weight ? mt_data_load(weight, i, count, narrow) + offset : mt_vf_set(1);
}

MT_INLINE void forward_rows(const struct mt_rms_norm_args *a, size_t first, size_t last, const bool narrow)
{
    const size_t cols = a->cols;
    for (size_t row = first; row < last; row++) {
        const void *x = mt_data_at(a->x, row * cols, narrow);
        void *y = mt_data_at_mutable(a->y, row * cols, narrow);
        mt_vf sum = mt_vf_set(0);
        for (size_t i = 0; i < cols; i += MT_LANES) {
            const mt_vf v = mt_data_load(x, i, cols - i, narrow);
            sum += v * v;
        }
        const float rstd = 1.0f / sqrtf(mt_vf_sum(sum) / (float)cols + a->eps);
        for (size_t i = 0; i < cols; i += MT_LANES) {
            const mt_vf v = mt_data_load(x, i, cols - i, narrow) * rstd *
                            factor(a->weight, a->weight_offset, i, cols - i, narrow);
            mt_data_store(y, i, v, cols - i, narrow);
        }
        if (a->rstd)
            a->rstd[row] = rstd;
    }
}

MT_INLINE void forward_task_body(void *context, size_t task)
{
    const struct mt_rms_norm_args *a = context;
    const size_t first = task * ROWS, last = mt_size_min(a->rows, first + ROWS);
    if (a->dtype == MT_BF16)
        forward_rows(a, first, last, true);
    else
        forward_rows(a, first, last, false);
}
MT_CPU_KERNEL(forward_task);

static void run_forward(struct mt_stream *stream, const void *args)
{
    struct mt_rms_norm_args a = *(const struct mt_rms_norm_args *)args;
    mt_cpu_parallel(stream, mt_size_ceil_div(a.rows, ROWS), forward_task[mt_cpu_level()], &a);
}

int mt_cpu_rms_norm(struct mt_stream *stream, const struct mt_rms_norm_args *a)
{
    if (!mt_cpu_data_dtype(a->dtype))
        return -EINVAL;
    if (!a->rows || !a->cols)
        return 0;
    const size_t bytes = mt_dtype_bytes(a->dtype);
    const struct mt_cpu_operand operands[] = {
        {.name = "x", .address = a->x, .bytes = a->rows * a->cols * bytes},
        {.name = "weight", .address = a->weight, .bytes = a->cols * bytes, .optional = true},
        {.name = "y", .address = a->y, .bytes = a->rows * a->cols * bytes},
        {.name = "rstd", .address = a->rstd, .bytes = a->rows * sizeof(float), .optional = true},
    };
    return mt_cpu_submit(stream, "rms_norm", run_forward, a, sizeof *a, operands, 4);
}

struct backward_context {
    struct mt_rms_norm_backward_args args;
    float *parts; /* [blocks, cols] */
    size_t blocks;
};

MT_INLINE void backward_rows(const struct mt_rms_norm_backward_args *a, float *part, size_t first,
                             size_t last, const bool narrow)
{
    const size_t cols = a->cols;
    for (size_t row = first; row < last; row++) {
        const void *x = mt_data_at(a->x, row * cols, narrow), *dy = mt_data_at(a->dy, row * cols, narrow);
        void *dx = mt_data_at_mutable(a->dx, row * cols, narrow);
        const float rstd = a->rstd[row];
        mt_vf sum = mt_vf_set(0);
        for (size_t i = 0; i < cols; i += MT_LANES) {
            const mt_vf vx = mt_data_load(x, i, cols - i, narrow), vy = mt_data_load(dy, i, cols - i, narrow);
            sum += vy * factor(a->weight, a->weight_offset, i, cols - i, narrow) * vx;
            if (part) {
                const mt_vf before = row == first ? mt_vf_set(0) : mt_vf_load_part(part + i, cols - i);
                mt_vf_store_part(part + i, before + vy * vx * rstd, cols - i);
            }
        }
        const float pull = mt_vf_sum(sum) / (float)cols * rstd * rstd;
        for (size_t i = 0; i < cols; i += MT_LANES) {
            const mt_vf g = mt_data_load(dy, i, cols - i, narrow) *
                            factor(a->weight, a->weight_offset, i, cols - i, narrow);
            mt_vf v = rstd * (g - mt_data_load(x, i, cols - i, narrow) * pull);
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
    const size_t first = task * BACKWARD_ROWS, last = mt_size_min(a->rows, first + BACKWARD_ROWS);
    float *part = ctx->parts ? ctx->parts + task * a->cols : NULL;
    if (a->dtype == MT_BF16)
        backward_rows(a, part, first, last, true);
    else
        backward_rows(a, part, first, last, false);
}
MT_CPU_KERNEL(backward_task);

MT_INLINE void weight_task_body(void *context, size_t task)
{
    const struct backward_context *ctx = context;
    const size_t cols = ctx->args.cols, first = task * COLS, last = mt_size_min(cols, first + COLS);
    for (size_t i = first; i < last; i += MT_LANES) {
        mt_vf sum = mt_vf_set(0);
        for (size_t block = 0; block < ctx->blocks; block++)
            sum += mt_vf_load_part(ctx->parts + block * cols + i, last - i);
        if (ctx->args.accumulate_dweight)
            sum += mt_vf_load_part(ctx->args.dweight + i, last - i);
        mt_vf_store_part(ctx->args.dweight + i, sum, last - i);
    }
}
MT_CPU_KERNEL(weight_task);

static void run_backward(struct mt_stream *stream, const void *args)
{
    struct backward_context ctx = {.args = *(const struct mt_rms_norm_backward_args *)args};
    ctx.blocks = mt_size_ceil_div(ctx.args.rows, BACKWARD_ROWS);
    if (ctx.args.dweight) {
        ctx.parts = mt_cpu_stream_scratch(stream, ctx.blocks * ctx.args.cols * sizeof(float));
        if (!ctx.parts)
            return;
    }
    mt_cpu_parallel(stream, ctx.blocks, backward_task[mt_cpu_level()], &ctx);
    if (ctx.args.dweight)
        mt_cpu_parallel(stream, mt_size_ceil_div(ctx.args.cols, COLS), weight_task[mt_cpu_level()], &ctx);
}

int mt_cpu_rms_norm_backward(struct mt_stream *stream, const struct mt_rms_norm_backward_args *a)
{
    if (!mt_cpu_data_dtype(a->dtype))
        return -EINVAL;
    if (!a->rows || !a->cols)
        return 0;
    const size_t element = mt_dtype_bytes(a->dtype), bytes = a->rows * a->cols * element;
    const struct mt_cpu_operand operands[] = {
        {.name = "x", .address = a->x, .bytes = bytes},
        {.name = "weight", .address = a->weight, .bytes = a->cols * element, .optional = true},
        {.name = "dy", .address = a->dy, .bytes = bytes},
        {.name = "rstd", .address = a->rstd, .bytes = a->rows * sizeof(float)},
        {.name = "dx", .address = a->dx, .bytes = bytes},
        {.name = "dweight", .address = a->dweight, .bytes = a->cols * sizeof(float), .optional = true},
    };
    return mt_cpu_submit(stream, "rms_norm_backward", run_backward, a, sizeof *a, operands, 6);
}
