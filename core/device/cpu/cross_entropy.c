/* Cross entropy in tiles of the vocabulary, so that full logits never exist.
 *
 *   statistics  a tile's share of max and sum of exp(logit - max), a row at a time (online: Milakov and
 *               Gimelshein, 2018), and the label's logit where this tile has it
 *   finish      lse = max + log(sum); loss = lse - target, 0 where ignored; *loss_sum (=|+=) their sum in row
 *               order, in fp64
 *   backward    logits become grad_scale * (exp(logit - lse) - onehot), 0 where ignored
 *
 * A row is read twice, for its maximum and for its sum: it is in the second-level cache by then.
 */
#include "core/base/size.h"
#include "core/device/cpu/cpu.h"
#include "core/device/cpu/math.h"

#include <math.h>

#define ROWS 4u /* a task */

MT_INLINE float data_at(const void *data, size_t index, bool narrow)
{
    return mt_data_load(data, index, 1, narrow)[0];
}

/* The largest of a row; NaN does not count here, it shows in the sum. */
MT_INLINE float row_max(const void *row, size_t cols, bool narrow)
{
    mt_vf largest[2] = {mt_vf_set(-INFINITY), mt_vf_set(-INFINITY)};
    size_t i = 0;
    for (; i + 2 * MT_LANES <= cols; i += 2 * MT_LANES) {
        largest[0] = mt_vf_max(mt_data_load(row, i, MT_LANES, narrow), largest[0]);
        largest[1] = mt_vf_max(mt_data_load(row, i + MT_LANES, MT_LANES, narrow), largest[1]);
    }
    float last = mt_vf_largest(mt_vf_max(largest[0], largest[1]));
    for (; i < cols; i++)
        last = fmaxf(last, data_at(row, i, narrow));
    return last;
}

MT_INLINE float row_sum(const void *row, size_t cols, float max, bool narrow)
{
    mt_vf sums[2] = {mt_vf_set(0), mt_vf_set(0)};
    size_t i = 0;
    for (; i + 2 * MT_LANES <= cols; i += 2 * MT_LANES) {
        sums[0] += mt_vf_exp(mt_data_load(row, i, MT_LANES, narrow) - max);
        sums[1] += mt_vf_exp(mt_data_load(row, i + MT_LANES, MT_LANES, narrow) - max);
    }
    for (; i < cols; i += MT_LANES) {
        const mt_vf e = mt_vf_exp(mt_data_load(row, i, cols - i, narrow) - max);
        sums[0] += mt_vf_select(mt_vi_below(cols - i), e, mt_vf_set(0));
    }
    return mt_vf_sum(sums[0] + sums[1]);
}

MT_INLINE void statistics_rows(const struct mt_cross_entropy_statistics_args *a, size_t first, size_t last,
                               const bool narrow)
{
    for (size_t row = first; row < last; row++) {
        const void *logits = mt_data_at(a->logits, row * a->cols, narrow);
        const float before = a->first ? -INFINITY : a->max[row];
        const float max = fmaxf(before, row_max(logits, a->cols, narrow));
        float sum = row_sum(logits, a->cols, max, narrow);
        if (!a->first)
            sum += a->sum[row] * mt_vf_exp(mt_vf_set(before - max))[0];
        a->max[row] = max;
        a->sum[row] = sum;
        const int64_t label = (int64_t)a->labels[row] - (int64_t)a->vocab_offset;
        if (a->labels[row] >= 0 && label >= 0 && label < (int64_t)a->cols)
            a->target[row] = data_at(logits, (size_t)label, narrow);
        else if (a->first)
            a->target[row] = 0;
    }
}

MT_INLINE void statistics_task_body(void *context, size_t task)
{
    const struct mt_cross_entropy_statistics_args *a = context;
    const size_t first = task * ROWS, last = mt_size_min(a->rows, first + ROWS);
    if (a->dtype == MT_BF16)
        statistics_rows(a, first, last, true);
    else
        statistics_rows(a, first, last, false);
}
MT_CPU_KERNEL(statistics_task);

static void run_statistics(struct mt_stream *stream, const void *args)
{
    struct mt_cross_entropy_statistics_args a = *(const struct mt_cross_entropy_statistics_args *)args;
    for (size_t row = 0; row < a.rows; row++)
        if (a.labels[row] != MT_LABEL_IGNORED &&
            (a.labels[row] < 0 || (size_t)a.labels[row] >= a.vocab_size)) {
            mt_cpu_fail(mt_cpu_stream_device(stream),
                        "cross_entropy: row %zu has the label %d, which is neither in the vocabulary of %zu "
                        "nor %d (ignored)",
                        row, (int)a.labels[row], a.vocab_size, MT_LABEL_IGNORED);
            return;
        }
    mt_cpu_parallel(stream, mt_size_ceil_div(a.rows, ROWS), statistics_task[mt_cpu_level()], &a);
}

int mt_cpu_cross_entropy_statistics(struct mt_stream *stream,
                                    const struct mt_cross_entropy_statistics_args *a)
{
    if (!mt_cpu_data_dtype(a->dtype) || !a->cols || a->vocab_offset > a->vocab_size ||
        a->cols > a->vocab_size - a->vocab_offset)
        return -EINVAL;
    if (!a->rows)
        return 0;
    const size_t bytes = a->rows * sizeof(float);
    const struct mt_cpu_operand operands[] = {
        {.name = "logits", .address = a->logits, .bytes = a->rows * a->cols * mt_dtype_bytes(a->dtype)},
        {.name = "labels", .address = a->labels, .bytes = a->rows * sizeof(int32_t)},
        {.name = "max", .address = a->max, .bytes = bytes},
        {.name = "sum", .address = a->sum, .bytes = bytes},
        {.name = "target", .address = a->target, .bytes = bytes},
    };
    return mt_cpu_submit(stream, "cross_entropy_statistics", run_statistics, a, sizeof *a, operands, 5);
}

/* A few numbers a row: not worth the pool. */
static void run_finish(struct mt_stream *stream, const void *args)
{
    (void)stream;
    const struct mt_cross_entropy_finish_args *a = args;
    double total = a->accumulate ? *a->loss_sum : 0;
    for (size_t row = 0; row < a->rows; row++) {
        a->lse[row] = a->max[row] + logf(a->sum[row]);
        a->losses[row] = a->labels[row] == MT_LABEL_IGNORED ? 0 : a->lse[row] - a->target[row];
        total += (double)a->losses[row];
    }
    *a->loss_sum = total;
}

int mt_cpu_cross_entropy_finish(struct mt_stream *stream, const struct mt_cross_entropy_finish_args *a)
{
    const size_t bytes = a->rows * sizeof(float);
    const struct mt_cpu_operand operands[] = {
        {.name = "max", .address = a->max, .bytes = bytes},
        {.name = "sum", .address = a->sum, .bytes = bytes},
        {.name = "target", .address = a->target, .bytes = bytes},
        {.name = "labels", .address = a->labels, .bytes = a->rows * sizeof(int32_t)},
        {.name = "lse", .address = a->lse, .bytes = bytes},
        {.name = "losses", .address = a->losses, .bytes = bytes},
        {.name = "loss_sum", .address = a->loss_sum, .bytes = sizeof(double)},
    };
    return mt_cpu_submit(stream, "cross_entropy_finish", run_finish, a, sizeof *a, operands, 7);
}

MT_INLINE void backward_rows(const struct mt_cross_entropy_backward_args *a, size_t first, size_t last,
                             const bool narrow)
{
    for (size_t row = first; row < last; row++) {
        void *logits = mt_data_at_mutable(a->logits, row * a->cols, narrow);
        if (a->labels[row] == MT_LABEL_IGNORED) {
            memset(logits, 0, a->cols * mt_dtype_bytes(a->dtype));
            continue;
        }
        const int64_t label = (int64_t)a->labels[row] - (int64_t)a->vocab_offset;
        const bool here = label >= 0 && label < (int64_t)a->cols;
        const float lse = a->lse[row];
        const float inverse_square = a->softcap > 0 ? 1.0f / (a->softcap * a->softcap) : 0;
        const float hit = here ? data_at(logits, (size_t)label, narrow) : 0;
        for (size_t i = 0; i < a->cols; i += MT_LANES) {
            const mt_vf logit = mt_data_load(logits, i, a->cols - i, narrow);
            mt_vf p = mt_vf_exp(logit - lse);
            if (a->softcap > 0)
                p *= 1.0f - logit * logit * inverse_square;
            mt_data_store(logits, i, a->grad_scale * p, a->cols - i, narrow);
        }
        if (here) /* from the probability itself: subtracting after a rounding to bf16 would lose it */
            mt_data_store(logits, (size_t)label,
                          a->grad_scale * (1.0f - hit * hit * inverse_square) *
                              (mt_vf_exp(mt_vf_set(hit - lse)) - 1.0f),
                          1, narrow);
    }
}

MT_INLINE void backward_task_body(void *context, size_t task)
{
    const struct mt_cross_entropy_backward_args *a = context;
    const size_t first = task * ROWS, last = mt_size_min(a->rows, first + ROWS);
    if (a->dtype == MT_BF16)
        backward_rows(a, first, last, true);
    else
        backward_rows(a, first, last, false);
}
MT_CPU_KERNEL(backward_task);

static void run_backward(struct mt_stream *stream, const void *args)
{
    struct mt_cross_entropy_backward_args a = *(const struct mt_cross_entropy_backward_args *)args;
    mt_cpu_parallel(stream, mt_size_ceil_div(a.rows, ROWS), backward_task[mt_cpu_level()], &a);
}

int mt_cpu_cross_entropy_backward(struct mt_stream *stream, const struct mt_cross_entropy_backward_args *a)
{
    if (!mt_cpu_data_dtype(a->dtype) || !a->cols)
        return -EINVAL;
    if (!a->rows)
        return 0;
    const struct mt_cpu_operand operands[] = {
        {.name = "logits", .address = a->logits, .bytes = a->rows * a->cols * mt_dtype_bytes(a->dtype)},
        {.name = "labels", .address = a->labels, .bytes = a->rows * sizeof(int32_t)},
        {.name = "lse", .address = a->lse, .bytes = a->rows * sizeof(float)},
    };
    return mt_cpu_submit(stream, "cross_entropy_backward", run_backward, a, sizeof *a, operands, 3);
}
