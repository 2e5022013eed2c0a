/* x = min(max(x, -limit), limit) in place; or, for the gradient of that, x = 0 where |by| >= limit. NaN
 * stays.
 */
#include "core/base/size.h"
#include "core/device/cpu/cpu.h"

#define ELEMENTS 32768u /* about what a task takes: whole rows, at least one */

struct context {
    struct mt_clip_args args;
    size_t rows_a_task;
};

MT_INLINE void clip_rows(const struct mt_clip_args *a, size_t first, size_t last, const bool narrow)
{
    const mt_vf high = mt_vf_set(a->limit), low = mt_vf_set(-a->limit);
    for (size_t row = first; row < last; row++)
        for (size_t i = 0; i < a->cols; i += MT_LANES) {
            const size_t at = row * a->x_stride + i, count = a->cols - i;
            mt_vf x = mt_data_load(a->x, at, count, narrow);
            if (a->by) {
                const mt_vf by = mt_data_load(a->by, row * a->by_stride + i, count, narrow);
                x = mt_vf_select((mt_vi)(by >= high) | (mt_vi)(by <= low), mt_vf_set(0), x);
            } else {
                x = mt_vf_select((mt_vi)(x > high), high, x);
                x = mt_vf_select((mt_vi)(x < low), low, x);
            }
            mt_data_store(a->x, at, x, count, narrow);
        }
}

MT_INLINE void clip_task_body(void *context, size_t task)
{
    const struct context *ctx = context;
    const size_t first = task * ctx->rows_a_task,
                 last = mt_size_min(ctx->args.rows, first + ctx->rows_a_task);
    if (ctx->args.dtype == MT_BF16)
        clip_rows(&ctx->args, first, last, true);
    else
        clip_rows(&ctx->args, first, last, false);
}
MT_CPU_KERNEL(clip_task);

static void run_clip(struct mt_stream *stream, const void *args)
{
    struct context ctx = {.args = *(const struct mt_clip_args *)args};
    /* The limit as its type holds it: what was clipped equals it. */
    if (ctx.args.dtype == MT_BF16)
        ctx.args.limit = mt_bf16_to_float(mt_bf16_from_float(ctx.args.limit));
    ctx.rows_a_task = mt_size_max(1, ELEMENTS / ctx.args.cols);
    mt_cpu_parallel(stream, mt_size_ceil_div(ctx.args.rows, ctx.rows_a_task), clip_task[mt_cpu_level()],
                    &ctx);
}

int mt_cpu_clip(struct mt_stream *stream, const struct mt_clip_args *args)
{
    struct mt_clip_args a = *args;
    a.x_stride = a.x_stride ? a.x_stride : a.cols;
    a.by_stride = a.by_stride ? a.by_stride : a.cols;
    if (!mt_cpu_data_dtype(a.dtype) || a.x_stride < a.cols || a.by_stride < a.cols || !(a.limit > 0))
        return -EINVAL;
    if (!a.rows || !a.cols)
        return 0;
    const struct mt_cpu_operand operands[] = {
        {.name = "x", .address = a.x, .bytes = mt_cpu_span(a.rows, a.cols, a.x_stride, a.dtype)},
        {.name = "by",
         .address = a.by,
         .bytes = mt_cpu_span(a.rows, a.cols, a.by_stride, a.dtype),
         .optional = true},
    };
    return mt_cpu_submit(stream, "clip", run_clip, &a, sizeof a, operands, 2);
}
