/* Rows of a table.
 *
 *   forward   out[t] = table[ids[t]]
 *   backward  dtable[ids[t]] += dout[t], in token order: a task takes a strip of columns of all tokens, so
 *             that a token which comes twice is always added first come first
 *
 * An id outside the table fails the device: it is seen when the stream gets there, not before.
 */
#include "core/base/size.h"
#include "core/device/cpu/cpu.h"

#define TOKENS 64u /* a task of the forward pass */
#define COLS 64u   /* a task of the backward pass */

static bool ids_are_good(struct mt_stream *stream, const char *operation, const int32_t *ids, size_t tokens,
                         size_t vocab_size)
{
    for (size_t t = 0; t < tokens; t++)
        if (ids[t] < 0 || (size_t)ids[t] >= vocab_size) {
            mt_cpu_fail(
                mt_cpu_stream_device(stream),
                "%s: token %zu has the id %d, which is not in the vocabulary of %zu; the tokenizer and "
                "the model do not fit together",
                operation, t, (int)ids[t], vocab_size);
            return false;
        }
    return true;
}

MT_INLINE void gather_task_body(void *context, size_t task)
{
    const struct mt_embedding_args *a = context;
    const size_t first = task * TOKENS, last = mt_size_min(a->tokens, first + TOKENS);
    const bool narrow_table = a->table_dtype == MT_BF16, narrow = a->dtype == MT_BF16;
    for (size_t t = first; t < last; t++) {
        const void *row = mt_data_at(a->table, (size_t)a->ids[t] * a->hidden, narrow_table);
        void *out = mt_data_at_mutable(a->out, t * a->hidden, narrow);
        for (size_t i = 0; i < a->hidden; i += MT_LANES)
            mt_data_store(out, i, mt_data_load(row, i, a->hidden - i, narrow_table), a->hidden - i, narrow);
    }
}
MT_CPU_KERNEL(gather_task);

static void run_embedding(struct mt_stream *stream, const void *args)
{
    struct mt_embedding_args a = *(const struct mt_embedding_args *)args;
    if (ids_are_good(stream, "embedding", a.ids, a.tokens, a.vocab_size))
        mt_cpu_parallel(stream, mt_size_ceil_div(a.tokens, TOKENS), gather_task[mt_cpu_level()], &a);
}

int mt_cpu_embedding(struct mt_stream *stream, const struct mt_embedding_args *a)
{
    if (!mt_cpu_data_dtype(a->dtype) || !mt_cpu_data_dtype(a->table_dtype))
        return -EINVAL;
    if (!a->tokens || !a->hidden)
        return 0;
    const struct mt_cpu_operand operands[] = {
        {.name = "ids", .address = a->ids, .bytes = a->tokens * sizeof(int32_t)},
        {.name = "table",
         .address = a->table,
         .bytes = a->vocab_size * a->hidden * mt_dtype_bytes(a->table_dtype)},
        {.name = "out", .address = a->out, .bytes = a->tokens * a->hidden * mt_dtype_bytes(a->dtype)},
    };
    return mt_cpu_submit(stream, "embedding", run_embedding, a, sizeof *a, operands, 3);
}

MT_INLINE void scatter_task_body(void *context, size_t task)
{
    const struct mt_embedding_backward_args *a = context;
    const size_t first = task * COLS, last = mt_size_min(a->hidden, first + COLS);
    const bool narrow = a->dtype == MT_BF16;
    for (size_t t = 0; t < a->tokens; t++) {
        float *row = a->dtable + (size_t)a->ids[t] * a->hidden;
        for (size_t i = first; i < last; i += MT_LANES) {
            const mt_vf sum = mt_vf_load_part(row + i, last - i) +
                              mt_data_load(a->dout, t * a->hidden + i, last - i, narrow);
            mt_vf_store_part(row + i, sum, last - i);
        }
    }
}
MT_CPU_KERNEL(scatter_task);

static void run_backward(struct mt_stream *stream, const void *args)
{
    struct mt_embedding_backward_args a = *(const struct mt_embedding_backward_args *)args;
    if (ids_are_good(stream, "embedding_backward", a.ids, a.tokens, a.vocab_size))
        mt_cpu_parallel(stream, mt_size_ceil_div(a.hidden, COLS), scatter_task[mt_cpu_level()], &a);
}

int mt_cpu_embedding_backward(struct mt_stream *stream, const struct mt_embedding_backward_args *a)
{
    if (!mt_cpu_data_dtype(a->dtype))
        return -EINVAL;
    if (!a->tokens || !a->hidden)
        return 0;
    const struct mt_cpu_operand operands[] = {
        {.name = "ids", .address = a->ids, .bytes = a->tokens * sizeof(int32_t)},
        {.name = "dout", .address = a->dout, .bytes = a->tokens * a->hidden * mt_dtype_bytes(a->dtype)},
        {.name = "dtable", .address = a->dtable, .bytes = a->vocab_size * a->hidden * sizeof(float)},
    };
    return mt_cpu_submit(stream, "embedding_backward", run_backward, a, sizeof *a, operands, 3);
}
