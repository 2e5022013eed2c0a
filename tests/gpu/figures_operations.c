/* Figures of products, attention and the loss on layers of real models' shapes. */
#include "tests/gpu/figures.h"

FIGURES_CALL(linear)
FIGURES_CALL(linear_backward_input)
FIGURES_CALL(linear_backward_weight)
FIGURES_CALL(attention)
FIGURES_CALL(attention_backward)
FIGURES_CALL(cross_entropy_statistics)
FIGURES_CALL(cross_entropy_finish)
FIGURES_CALL(cross_entropy_backward)

/* The first half of a gated layer, with and without what rides on the products. */
static void products(struct figures *f, const struct shape *s)
{
    const size_t t = s->tokens, in = s->hidden, out = 2 * s->intermediate;
    const double flops = 2.0 * (double)t * (double)in * (double)out;
    void *x = figures_data(f, t * in, MT_BF16), *weight = figures_data(f, out * in, MT_BF16);
    void *y = figures_data(f, t * out, MT_BF16), *dweight = figures_memory(f, out * in * sizeof(float));
    void *bias = figures_data(f, out, MT_BF16), *dbias = figures_memory(f, out * sizeof(float));
    void *wide = figures_memory(f, t * in * sizeof(float));
#define FORWARD                                                                                              \
    .x = x, .weight = weight, .y = y, .tokens = t, .in_features = in, .out_features = out, .dtype = MT_BF16
    LINE(f, s, "linear", linear, flops, 0, FORWARD);
    LINE(f, s, "linear, with a bias", linear, flops, 0, FORWARD, .bias = bias);
    LINE(f, s, "linear, added to a sum", linear, flops, 0, FORWARD, .accumulate = true);
    LINE(f, s, "linear, capped", linear, flops, 0, FORWARD, .softcap = 30);
#define BACKWARD .dy = y, .tokens = t, .in_features = in, .out_features = out, .dtype = MT_BF16
    LINE(f, s, "linear, gradient of the input", linear_backward_input, flops, 0, BACKWARD, .weight = weight,
         .dx = x);
    LINE(f, s, "linear, gradient of the input, added in fp32", linear_backward_input, flops, 0, BACKWARD,
         .weight = weight, .dx = wide, .wide_dx = true, .accumulate = true);
    LINE(f, s, "linear, gradient of the weight", linear_backward_weight, flops, 0, BACKWARD, .x = x,
         .dweight = dweight, .accumulate = true);
    LINE(f, s, "linear, gradients of weight and bias", linear_backward_weight, flops, 0, BACKWARD, .x = x,
         .dweight = dweight, .dbias = dbias);
    LINE(f, s, "linear, gradients of weight and bias, added", linear_backward_weight, flops, 0, BACKWARD,
         .x = x, .dweight = dweight, .dbias = dbias, .accumulate = true);
    LINE(f, s, "linear, gradient of the bias alone", linear_backward_weight, 0, 2.0 * (double)(t * out),
         BACKWARD, .x = x, .dbias = dbias);
    void *const all[] = {x, weight, y, dweight, bias, dbias, wide};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        figures_release(f, all[i]);
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
                      figures_memory(f, t * kv * 2),
                      figures_data(f, s->heads, MT_F32)};
    a.q = memory[0];
    a.k = memory[1];
    a.v = memory[2];
    a.out = memory[3];
    a.lse = memory[4];
    a.workspace = memory[5];
    /* Half of the square of each document; with a window, that much of each row. */
    const size_t half = t / 2, window = t / 16;
    const double flops = 2 * 2.0 * (double)q * (double)half * (double)half;
    const double windowed = 2 * 2 * 2.0 * (double)q * (double)half * (double)window;
    struct mt_attention_args capped = a, biased = a, narrow = a;
    capped.softcap = 30;
    biased.alibi = memory[10];
    narrow.window = window;
    const struct {
        const char *forward, *backward;
        const struct mt_attention_args *args;
        double flops;
    } kinds[] = {{"attention, 2 documents", "attention, backward", &a, flops},
                 {"attention, capped", "attention, capped, backward", &capped, flops},
                 {"attention, linear biases", "attention, linear biases, backward", &biased, flops},
                 {"attention, a window", "attention, a window, backward", &narrow, windowed}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        figures_line(f, s, kinds[i].forward, attention_call, kinds[i].args, kinds[i].flops, 0);
        LINE(f, s, kinds[i].backward, attention_backward, 2.5 * kinds[i].flops, 0, .forward = *kinds[i].args,
             .dout = memory[6], .dq = memory[7], .dk = memory[8], .dv = memory[9]);
    }
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++)
        figures_release(f, memory[i]);
}

static void loss(struct figures *f, const struct shape *s)
{
    const size_t chunk = s->tokens / 8;
    const double bytes = 2.0 * (double)(chunk * s->vocab);
    void *logits = figures_data(f, chunk * s->vocab, MT_BF16);
    void *labels = figures_ints(f, chunk, (int32_t)s->vocab);
    void *numbers = figures_data(f, 5 * chunk, MT_F32), *loss_sum = figures_memory(f, sizeof(double));
    float *n = numbers;
    LINE(f, s, "cross entropy, statistics", cross_entropy_statistics, 0, bytes, .logits = logits,
         .labels = labels, .max = n, .sum = n + chunk, .target = n + 2 * chunk, .rows = chunk,
         .cols = s->vocab, .vocab_size = s->vocab, .first = true, .dtype = MT_BF16);
    LINE(f, s, "cross entropy, finish", cross_entropy_finish, 0, 24.0 * (double)chunk, .max = n,
         .sum = n + chunk, .target = n + 2 * chunk, .labels = labels, .lse = n + 3 * chunk,
         .losses = n + 4 * chunk, .loss_sum = loss_sum, .rows = chunk);
    LINE(f, s, "cross entropy, backward", cross_entropy_backward, 0, 2 * bytes, .logits = logits,
         .labels = labels, .lse = n + 3 * chunk, .rows = chunk, .cols = s->vocab, .grad_scale = 1e-3f,
         .dtype = MT_BF16);
    void *const all[] = {logits, labels, numbers, loss_sum};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        figures_release(f, all[i]);
}

void figures_of_operations(struct figures *f, const struct shape *shape)
{
    products(f, shape);
    attention_lines(f, shape);
    loss(f, shape);
}
