/* dst = src in another type: fp32 to bf16 to nearest even, bf16 to fp32 exactly. */
#include "core/base/size.h"
#include "core/device/cpu/cpu.h"

#define ELEMENTS 32768u /* a task */

MT_INLINE void cast_task_body(void *context, size_t task)
{
    const struct mt_cast_args *a = context;
    const size_t first = task * ELEMENTS, last = mt_size_min(a->count, first + ELEMENTS);
    const bool from = a->src_dtype == MT_BF16, to = a->dst_dtype == MT_BF16;
    for (size_t i = first; i < last; i += MT_LANES)
        mt_data_store(a->dst, i, mt_data_load(a->src, i, last - i, from), last - i, to);
}
MT_CPU_KERNEL(cast_task);

static void run_cast(struct mt_stream *stream, const void *args)
{
    struct mt_cast_args a = *(const struct mt_cast_args *)args;
    mt_cpu_parallel(stream, mt_size_ceil_div(a.count, ELEMENTS), cast_task[mt_cpu_level()], &a);
}

int mt_cpu_cast(struct mt_stream *stream, const struct mt_cast_args *a)
{
    if (!mt_cpu_data_dtype(a->src_dtype) || !mt_cpu_data_dtype(a->dst_dtype))
        return -EINVAL;
    if (!a->count)
        return 0;
    const struct mt_cpu_operand operands[] = {
        {.name = "src", .address = a->src, .bytes = a->count * mt_dtype_bytes(a->src_dtype)},
        {.name = "dst", .address = a->dst, .bytes = a->count * mt_dtype_bytes(a->dst_dtype)},
    };
    return mt_cpu_submit(stream, "cast", run_cast, a, sizeof *a, operands, 2);
}
