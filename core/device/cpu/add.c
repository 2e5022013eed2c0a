/* y = a + scale * b, element by element; in place where y is a or b. Without a: y = scale * b. The scale may
 * be multiplied by a number that lies on the device. */
#include "core/base/size.h"
#include "core/device/cpu/cpu.h"

#define ELEMENTS 32768u /* a task */

MT_INLINE void add_elements(const struct mt_add_args *a, size_t first, size_t last, const bool narrow)
{
    for (size_t i = first; i < last; i += MT_LANES) {
        const size_t count = last - i;
        mt_vf sum = a->scale * mt_data_load(a->b, i, count, narrow);
        if (a->a)
            sum += mt_data_load(a->a, i, count, narrow);
        mt_data_store(a->y, i, sum, count, narrow);
    }
}

MT_INLINE void add_task_body(void *context, size_t task)
{
    const struct mt_add_args *a = context;
    const size_t first = task * ELEMENTS, last = mt_size_min(a->count, first + ELEMENTS);
    if (a->dtype == MT_BF16)
        add_elements(a, first, last, true);
    else
        add_elements(a, first, last, false);
}
MT_CPU_KERNEL(add_task);

static void run_add(struct mt_stream *stream, const void *args)
{
    struct mt_add_args a = *(const struct mt_add_args *)args;
    if (a.factor)
        a.scale *= mt_data_load(a.factor, 0, 1, a.dtype == MT_BF16)[0];
    mt_cpu_parallel(stream, mt_size_ceil_div(a.count, ELEMENTS), add_task[mt_cpu_level()], &a);
}

int mt_cpu_add(struct mt_stream *stream, const struct mt_add_args *a)
{
    if (!mt_cpu_data_dtype(a->dtype))
        return -EINVAL;
    if (!a->count)
        return 0;
    const size_t bytes = a->count * mt_dtype_bytes(a->dtype);
    const struct mt_cpu_operand operands[] = {
        {.name = "a", .address = a->a, .bytes = bytes, .optional = true},
        {.name = "b", .address = a->b, .bytes = bytes},
        {.name = "y", .address = a->y, .bytes = bytes},
        {.name = "factor", .address = a->factor, .bytes = mt_dtype_bytes(a->dtype), .optional = true},
    };
    return mt_cpu_submit(stream, "add", run_add, a, sizeof *a, operands, 4);
}
