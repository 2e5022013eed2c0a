/* Rotary position embedding in place (Su et al., 2021). A pair (a, b) at angle p becomes
 *
 *   (a cos p - b sin p, b cos p + a sin p);  inverse: the sign of sin p turns round
 *
 * The rotation is orthogonal up to the attention factor in cos and sin, so the backward pass is the inverse.
 */
#include "core/base/size.h"
#include "core/device/cpu/cpu.h"

#define TOKENS 16u /* a task */

MT_INLINE void rotate_halves(void *head, const float *cos, const float *sin, size_t half, float sign,
                             bool narrow)
{
    for (size_t i = 0; i < half; i += MT_LANES) {
        const size_t count = half - i;
        const mt_vf c = mt_vf_load_part(cos + i, count), s = sign * mt_vf_load_part(sin + i, count);
        const mt_vf a = mt_data_load(head, i, count, narrow), b = mt_data_load(head, half + i, count, narrow);
        mt_data_store(head, i, a * c - b * s, count, narrow);
        mt_data_store(head, half + i, b * c + a * s, count, narrow);
    }
}

/* Four pairs at a time: (a0, b0, a1, b1, ...). The last few alone. */
MT_INLINE void rotate_pairs(void *head, const float *cos, const float *sin, size_t half, float sign,
                            bool narrow)
{
    for (size_t i = 0; i < half; i += MT_LANES / 2) {
        const size_t count = 2 * (half - i);
        const mt_vf v = mt_data_load(head, 2 * i, count, narrow);
        mt_vf turned = mt_vf_set(0), c = turned, s = turned;
        for (size_t j = 0; j < MT_LANES / 2 && i + j < half; j++) {
            turned[2 * j] = v[2 * j + 1];
            turned[2 * j + 1] = v[2 * j];
            c[2 * j] = c[2 * j + 1] = cos[i + j];
            s[2 * j] = -sign * sin[i + j];
            s[2 * j + 1] = sign * sin[i + j];
        }
        mt_data_store(head, 2 * i, v * c + turned * s, count, narrow);
    }
}

MT_INLINE void rotate_tokens(const struct mt_rope_args *a, size_t first, size_t last, const bool narrow)
{
    const size_t half = a->rotary_dim / 2;
    const float sign = a->inverse ? -1.0f : 1.0f;
    for (size_t t = first; t < last; t++) {
        const float *cos = a->cos + (size_t)a->positions[t] * half;
        const float *sin = a->sin + (size_t)a->positions[t] * half;
        for (size_t head = 0; head < a->heads; head++) {
            void *x = mt_data_at_mutable(
                a->x, t * a->x_stride + head / a->run * a->run_stride + head % a->run * a->head_dim, narrow);
            if (a->interleaved)
                rotate_pairs(x, cos, sin, half, sign, narrow);
            else
                rotate_halves(x, cos, sin, half, sign, narrow);
        }
    }
}

MT_INLINE void rope_task_body(void *context, size_t task)
{
    const struct mt_rope_args *a = context;
    const size_t first = task * TOKENS, last = mt_size_min(a->tokens, first + TOKENS);
    if (a->dtype == MT_BF16)
        rotate_tokens(a, first, last, true);
    else
        rotate_tokens(a, first, last, false);
}
MT_CPU_KERNEL(rope_task);

static void run_rope(struct mt_stream *stream, const void *args)
{
    struct mt_rope_args a = *(const struct mt_rope_args *)args;
    for (size_t t = 0; t < a.tokens; t++)
        if (a.positions[t] < 0 || (size_t)a.positions[t] >= a.num_positions) {
            mt_cpu_fail(mt_cpu_stream_device(stream),
                        "rope: token %zu has the position %d, but the table of angles ends before %zu", t,
                        (int)a.positions[t], a.num_positions);
            return;
        }
    mt_cpu_parallel(stream, mt_size_ceil_div(a.tokens, TOKENS), rope_task[mt_cpu_level()], &a);
}

int mt_cpu_rope(struct mt_stream *stream, const struct mt_rope_args *args)
{
    struct mt_rope_args a = *args;
    a.run = a.run ? a.run : a.heads;
    a.run_stride = a.run_stride ? a.run_stride : a.run * a.head_dim;
    const size_t width = a.heads ? (a.heads / a.run - 1) * a.run_stride + a.run * a.head_dim : 0;
    a.x_stride = a.x_stride ? a.x_stride : width;
    if (!mt_cpu_data_dtype(a.dtype) || a.rotary_dim % 2 || a.rotary_dim > a.head_dim || a.x_stride < width ||
        (a.heads && a.heads % a.run) || a.run_stride < a.run * a.head_dim)
        return -EINVAL;
    if (!a.tokens || !a.heads || !a.rotary_dim)
        return 0;
    const size_t table = a.num_positions * (a.rotary_dim / 2) * sizeof(float);
    const struct mt_cpu_operand operands[] = {
        {.name = "x", .address = a.x, .bytes = mt_cpu_span(a.tokens, width, a.x_stride, a.dtype)},
        {.name = "positions", .address = a.positions, .bytes = a.tokens * sizeof(int32_t)},
        {.name = "cos", .address = a.cos, .bytes = table},
        {.name = "sin", .address = a.sin, .bytes = table},
    };
    return mt_cpu_submit(stream, "rope", run_rope, &a, sizeof a, operands, 4);
}
