/* *sum (=|+=) sum of x[i]^2 in fp64: blocks of a fixed size, eight lanes each, then the blocks in order. */
#include "core/base/size.h"
#include "core/device/cpu/cpu.h"

#define ELEMENTS 32768u /* a block, a task */

struct context {
    struct mt_sum_squares_args args;
    double *parts;
};

MT_INLINE void block_task_body(void *context, size_t task)
{
    const struct context *ctx = context;
    const size_t first = task * ELEMENTS, last = mt_size_min(ctx->args.count, first + ELEMENTS);
    double lanes[MT_LANES] = {0};
    for (size_t i = first; i < last; i += MT_LANES) {
        const mt_vf v = mt_vf_load_part(ctx->args.x + i, last - i);
        for (size_t lane = 0; lane < MT_LANES; lane++)
            lanes[lane] += (double)v[lane] * (double)v[lane];
    }
    ctx->parts[task] =
        ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) + ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7]));
}
MT_CPU_KERNEL(block_task);

static void run_sum_squares(struct mt_stream *stream, const void *args)
{
    struct context ctx = {.args = *(const struct mt_sum_squares_args *)args};
    const size_t blocks = mt_size_ceil_div(ctx.args.count, ELEMENTS);
    double sum = ctx.args.accumulate ? *ctx.args.sum : 0;
    if (blocks) {
        ctx.parts = mt_cpu_stream_scratch(stream, blocks * sizeof(double));
        if (!ctx.parts)
            return;
        mt_cpu_parallel(stream, blocks, block_task[mt_cpu_level()], &ctx);
    }
    for (size_t block = 0; block < blocks; block++)
        sum += ctx.parts[block];
    *ctx.args.sum = sum;
}

int mt_cpu_sum_squares(struct mt_stream *stream, const struct mt_sum_squares_args *a)
{
    const struct mt_cpu_operand operands[] = {
        {.name = "x", .address = a->x, .bytes = a->count * sizeof(float)},
        {.name = "sum", .address = a->sum, .bytes = sizeof(double)},
    };
    return mt_cpu_submit(stream, "sum_squares", run_sum_squares, a, sizeof *a, operands, 2);
}
