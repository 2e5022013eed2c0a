/* Figures of single operations on layers of real models' shapes: TFLOP/s of products beside the best product
 * that the device makes, GB/s of what only moves memory. */
#include "tests/gpu/figures.h"

#include <stdio.h>

#define CALL(operation)                                                                                      \
    static int operation##_call(struct figures *f, const void *args)                                         \
    {                                                                                                        \
        return f->api->operation(f->stream, args);                                                           \
    }
CALL(linear)
CALL(linear_backward_input)
CALL(linear_backward_weight)
CALL(attention)
CALL(attention_backward)
CALL(rms_norm)
CALL(rms_norm_backward)
CALL(rope)
CALL(gated_activation)
CALL(gated_activation_backward)
CALL(add)
CALL(cross_entropy_statistics)
CALL(cross_entropy_backward)
CALL(sum_squares)
CALL(cast)

static void line(struct figures *f, const struct shape *shape, const char *what, double seconds, double flops,
                 double bytes)
{
    printf("| %s | %s | %.3f |", shape->name, what, seconds * 1e3);
    if (flops > 0)
        printf(" %.1f TFLOP/s | %.0f%% of the best product |\n", flops / seconds * 1e-12,
               100 * flops / seconds / f->peak);
    else
        printf(" %.0f GB/s | |\n", bytes / seconds * 1e-9);
    fflush(stdout);
}

static void products(struct figures *f, const struct shape *s)
{
    const size_t t = s->tokens, in = s->hidden, out = 2 * s->intermediate;
    const double flops = 2.0 * (double)t * (double)in * (double)out;
    void *x = figures_data(f, t * in, MT_BF16), *weight = figures_data(f, out * in, MT_BF16);
    void *y = figures_data(f, t * out, MT_BF16), *dweight = figures_memory(f, out * in * sizeof(float));
    const struct mt_linear_args forward = {.x = x,
                                           .weight = weight,
                                           .y = y,
                                           .tokens = t,
                                           .in_features = in,
                                           .out_features = out,
                                           .dtype = MT_BF16};
    line(f, s, "linear", figures_time(f, "linear", linear_call, &forward), flops, 0);
    const struct mt_linear_backward_input_args input = {.dy = y,
                                                        .weight = weight,
                                                        .dx = x,
                                                        .tokens = t,
                                                        .in_features = in,
                                                        .out_features = out,
                                                        .dtype = MT_BF16};
    line(f, s, "linear, gradient of the input",
         figures_time(f, "linear_backward_input", linear_backward_input_call, &input), flops, 0);
    const struct mt_linear_backward_weight_args by_weight = {.dy = y,
                                                             .x = x,
                                                             .dweight = dweight,
                                                             .tokens = t,
                                                             .in_features = in,
                                                             .out_features = out,
                                                             .accumulate = true,
                                                             .dtype = MT_BF16};
    line(f, s, "linear, gradient of the weight",
         figures_time(f, "linear_backward_weight", linear_backward_weight_call, &by_weight), flops, 0);
    figures_release(f, x);
    figures_release(f, weight);
    figures_release(f, y);
    figures_release(f, dweight);
}

static void attention_lines(struct figures *f, const struct shape *s)
{
    const size_t t = s->tokens, q = s->heads * s->dim, kv = s->kv_heads * s->dim;
    const int32_t starts[] = {0, (int32_t)(t / 2), (int32_t)t};
    struct mt_attention_args a = {.document_starts = starts,
                                  .num_documents = 2,
                                  .num_heads = s->heads,
                                  .num_kv_heads = s->kv_heads,
                                  .head_dim = s->dim,
                                  .scale = 0.1f,
                                  .dtype = MT_BF16};
    const size_t workspace = f->api->attention_workspace_bytes(f->device, &a, true);
    void *memory[] = {figures_data(f, t * q, MT_BF16),
                      figures_data(f, t * kv, MT_BF16),
                      figures_data(f, t * kv, MT_BF16),
                      figures_memory(f, t * q * 2),
                      figures_memory(f, t * s->heads * sizeof(float)),
                      figures_memory(f, workspace),
                      figures_data(f, t * q, MT_BF16),
                      figures_memory(f, t * q * 2),
                      figures_memory(f, t * kv * 2),
                      figures_memory(f, t * kv * 2)};
    a.q = memory[0];
    a.k = memory[1];
    a.v = memory[2];
    a.out = memory[3];
    a.lse = memory[4];
    a.workspace = memory[5];
    /* Half of the square of each document. */
    const size_t half = t / 2;
    const double flops = 2 * 2.0 * (double)q * (double)half * (double)half;
    line(f, s, "attention, 2 documents", figures_time(f, "attention", attention_call, &a), flops, 0);
    const struct mt_attention_backward_args b = {
        .forward = a, .dout = memory[6], .dq = memory[7], .dk = memory[8], .dv = memory[9]};
    line(f, s, "attention, backward", figures_time(f, "attention_backward", attention_backward_call, &b),
         2.5 * flops, 0);
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        figures_release(f, memory[i]);
}

static void rows(struct figures *f, const struct shape *s)
{
    const size_t t = s->tokens, h = s->hidden, n = s->intermediate, q = s->heads * s->dim;
    const double hidden_bytes = 2.0 * (double)(t * h), wide_bytes = 2.0 * (double)(t * n);
    void *x = figures_data(f, t * h, MT_BF16), *y = figures_data(f, t * h, MT_BF16);
    void *weight = figures_data(f, h, MT_BF16), *rstd = figures_memory(f, t * sizeof(float));
    void *dweight = figures_memory(f, h * sizeof(float));
    const struct mt_rms_norm_args norm = {
        .x = x, .weight = weight, .y = y, .rstd = rstd, .rows = t, .cols = h, .eps = 1e-5f, .dtype = MT_BF16};
    line(f, s, "RMSNorm", figures_time(f, "rms_norm", rms_norm_call, &norm), 0, 2 * hidden_bytes);
    const struct mt_rms_norm_backward_args back = {.x = x,
                                                   .weight = weight,
                                                   .dy = y,
                                                   .rstd = rstd,
                                                   .dx = y,
                                                   .dweight = dweight,
                                                   .rows = t,
                                                   .cols = h,
                                                   .dtype = MT_BF16};
    line(f, s, "RMSNorm, backward", figures_time(f, "rms_norm_backward", rms_norm_backward_call, &back), 0,
         5 * hidden_bytes);
    const struct mt_add_args sum = {.a = x, .b = y, .y = y, .count = t * h, .scale = 1e-3f, .dtype = MT_BF16};
    line(f, s, "residual sum", figures_time(f, "add", add_call, &sum), 0, 3 * hidden_bytes);
    void *gate = figures_data(f, t * n, MT_BF16), *up = figures_data(f, t * n, MT_BF16);
    void *out = figures_data(f, t * n, MT_BF16);
    const struct mt_gated_activation_args act = {
        .gate = gate, .up = up, .out = out, .rows = t, .cols = n, .dtype = MT_BF16};
    line(f, s, "SwiGLU", figures_time(f, "gated_activation", gated_activation_call, &act), 0, 3 * wide_bytes);
    const struct mt_gated_activation_backward_args act_back = {.gate = gate,
                                                               .up = up,
                                                               .dout = out,
                                                               .dgate = gate,
                                                               .dup = up,
                                                               .rows = t,
                                                               .cols = n,
                                                               .dtype = MT_BF16};
    line(f, s, "SwiGLU, backward",
         figures_time(f, "gated_activation_backward", gated_activation_backward_call, &act_back), 0,
         5 * wide_bytes);
    void *heads = figures_data(f, t * q, MT_BF16), *positions = figures_memory(f, t * sizeof(int32_t));
    void *angles = figures_data(f, t * s->dim, MT_F32);
    figures_check(f, f->api->fill_zero(f->stream, positions, t * sizeof(int32_t)), "fill_zero");
    const struct mt_rope_args rope = {.x = heads,
                                      .positions = positions,
                                      .cos = angles,
                                      .sin = angles,
                                      .tokens = t,
                                      .heads = s->heads,
                                      .head_dim = s->dim,
                                      .rotary_dim = s->dim,
                                      .num_positions = t,
                                      .dtype = MT_BF16};
    line(f, s, "RoPE", figures_time(f, "rope", rope_call, &rope), 0, 4.0 * (double)(t * q));
    void *const all[] = {x, y, weight, rstd, dweight, gate, up, out, heads, positions, angles};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        figures_release(f, all[i]);
}

static void head_and_slab(struct figures *f, const struct shape *s)
{
    const size_t chunk = s->tokens / 8, count = 3 * s->hidden * s->intermediate;
    const double bytes = 2.0 * (double)(chunk * s->vocab);
    void *logits = figures_data(f, chunk * s->vocab, MT_BF16),
         *labels = figures_memory(f, chunk * sizeof(int32_t));
    void *numbers = figures_data(f, 4 * chunk, MT_F32);
    float *n = numbers;
    figures_check(f, f->api->fill_zero(f->stream, labels, chunk * sizeof(int32_t)), "fill_zero");
    const struct mt_cross_entropy_statistics_args statistics = {.logits = logits,
                                                                .labels = labels,
                                                                .max = n,
                                                                .sum = n + chunk,
                                                                .target = n + 2 * chunk,
                                                                .rows = chunk,
                                                                .cols = s->vocab,
                                                                .first = true,
                                                                .dtype = MT_BF16};
    line(f, s, "cross entropy, statistics",
         figures_time(f, "cross_entropy_statistics", cross_entropy_statistics_call, &statistics), 0, bytes);
    const struct mt_cross_entropy_backward_args back = {.logits = logits,
                                                        .labels = labels,
                                                        .lse = n + 3 * chunk,
                                                        .rows = chunk,
                                                        .cols = s->vocab,
                                                        .grad_scale = 1e-3f,
                                                        .dtype = MT_BF16};
    line(f, s, "cross entropy, backward",
         figures_time(f, "cross_entropy_backward", cross_entropy_backward_call, &back), 0, 2 * bytes);
    figures_release(f, logits);
    void *slab = figures_data(f, count, MT_F32), *narrow = figures_memory(f, count * 2);
    const struct mt_sum_squares_args squares = {.x = slab, .sum = numbers, .count = count};
    line(f, s, "norm of a gradient", figures_time(f, "sum_squares", sum_squares_call, &squares), 0,
         4.0 * (double)count);
    const struct mt_cast_args cast = {
        .src = slab, .dst = narrow, .count = count, .src_dtype = MT_F32, .dst_dtype = MT_BF16};
    line(f, s, "fp32 to bf16", figures_time(f, "cast", cast_call, &cast), 0, 6.0 * (double)count);
    void *const all[] = {labels, numbers, slab, narrow};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        figures_release(f, all[i]);
}

void figures_of_operations(struct figures *f, const struct shape *shape)
{
    products(f, shape);
    attention_lines(f, shape);
    rows(f, shape);
    head_and_slab(f, shape);
}
