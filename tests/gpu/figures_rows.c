/* Figures of what only moves memory, on layers of real models' shapes: bytes are those that must be read and
 * written once. */
#include "tests/gpu/figures.h"

FIGURES_CALL(embedding)
FIGURES_CALL(embedding_backward)
FIGURES_CALL(rms_norm)
FIGURES_CALL(rms_norm_backward)
FIGURES_CALL(rope)
FIGURES_CALL(gated_activation)
FIGURES_CALL(gated_activation_backward)
FIGURES_CALL(add)
FIGURES_CALL(xielu)
FIGURES_CALL(xielu_backward)
FIGURES_CALL(clip)
FIGURES_CALL(sum_squares)
FIGURES_CALL(cast)

static void release(struct figures *f, void *const *memory, size_t count)
{
    for (size_t i = 0; i < count; i++)
        figures_release(f, memory[i]);
}
#define RELEASE(f, ...)                                                                                      \
    release(f, (void *const[]){__VA_ARGS__}, sizeof((void *[]){__VA_ARGS__}) / sizeof(void *))

static void tables(struct figures *f, const struct shape *s)
{
    const size_t t = s->tokens, h = s->hidden, vocab = s->step_vocab;
    const double bytes = 2.0 * (double)(t * h);
    void *ids = figures_ints(f, t, (int32_t)vocab), *one = figures_ints(f, t, 1);
    void *table = figures_data(f, vocab * h, MT_BF16), *wide = figures_data(f, vocab * h, MT_F32);
    void *rows = figures_data(f, t * h, MT_BF16);
#define TABLE .out = rows, .tokens = t, .hidden = h, .vocab_size = vocab, .dtype = MT_BF16
    LINE(f, s, "embedding", embedding, 0, 2 * bytes, TABLE, .ids = ids, .table = table,
         .table_dtype = MT_BF16);
    LINE(f, s, "embedding, fp32 table", embedding, 0, 3 * bytes, TABLE, .ids = ids, .table = wide,
         .table_dtype = MT_F32);
#define ROWS .dout = rows, .dtable = wide, .tokens = t, .hidden = h, .vocab_size = vocab, .dtype = MT_BF16
    LINE(f, s, "embedding, backward", embedding_backward, 0, 5 * bytes, ROWS, .ids = ids);
    LINE(f, s, "embedding, backward, one token only", embedding_backward, 0, bytes, ROWS, .ids = one);
    RELEASE(f, ids, one, table, wide, rows);
}

static void norms(struct figures *f, const struct shape *s)
{
    const size_t t = s->tokens, h = s->hidden, heads = s->heads, dim = s->dim;
    const double bytes = 2.0 * (double)(t * h), head_bytes = 2.0 * (double)(t * heads * dim);
    void *x = figures_data(f, t * h, MT_BF16), *y = figures_data(f, t * h, MT_BF16);
    void *dx = figures_data(f, t * h, MT_BF16), *weight = figures_data(f, h, MT_BF16);
    void *rstd = figures_data(f, t * heads, MT_F32), *mean = figures_data(f, t, MT_F32);
    void *dweight = figures_memory(f, h * sizeof(float)), *dbias = figures_memory(f, h * sizeof(float));
    void *q = figures_data(f, t * heads * dim, MT_BF16);
#define NORM                                                                                                 \
    .x = x, .weight = weight, .y = y, .rstd = rstd, .rows = t, .cols = h, .eps = 1e-5f, .dtype = MT_BF16
    LINE(f, s, "RMSNorm", rms_norm, 0, 2 * bytes, NORM);
    LINE(f, s, "LayerNorm", rms_norm, 0, 2 * bytes, NORM, .bias = weight, .mean = mean, .centered = true);
    LINE(f, s, "RMSNorm of heads", rms_norm, 0, 2 * head_bytes, .x = q, .weight = weight, .y = q,
         .rstd = rstd, .rows = t, .groups = heads, .cols = dim, .eps = 1e-5f, .dtype = MT_BF16);
    /* x and dy are read twice, for the weight's gradient and for dx: counted once. */
#define NORM_BACK                                                                                            \
    .x = x, .weight = weight, .dy = y, .rstd = rstd, .dx = dx, .dweight = dweight, .rows = t, .cols = h,     \
    .dtype = MT_BF16
    LINE(f, s, "RMSNorm, backward", rms_norm_backward, 0, 3 * bytes, NORM_BACK);
    LINE(f, s, "LayerNorm, backward", rms_norm_backward, 0, 3 * bytes, NORM_BACK, .mean = mean,
         .dbias = dbias, .centered = true);
    LINE(f, s, "RMSNorm, backward, added", rms_norm_backward, 0, 4 * bytes, NORM_BACK, .accumulate_dx = true,
         .accumulate_dweight = true);
    RELEASE(f, x, y, dx, weight, rstd, mean, dweight, dbias, q);
}

static void activations(struct figures *f, const struct shape *s)
{
    static const struct {
        const char *forward, *backward;
        enum mt_activation kind;
    } kinds[] = {{"SwiGLU", "SwiGLU, backward", MT_ACTIVATION_SILU},
                 {"GeGLU", "GeGLU, backward", MT_ACTIVATION_GELU},
                 {"GeGLU by tanh", "GeGLU by tanh, backward", MT_ACTIVATION_GELU_TANH}};
    const size_t t = s->tokens, n = s->intermediate;
    const double bytes = 2.0 * (double)(t * n);
    void *gate = figures_data(f, t * n, MT_BF16), *up = figures_data(f, t * n, MT_BF16);
    void *out = figures_data(f, t * n, MT_BF16), *number = figures_data(f, 1, MT_BF16);
    void *dalpha = figures_memory(f, 2 * sizeof(float));
    float *to = dalpha;
#define GATED .gate = gate, .up = up, .rows = t, .cols = n, .dtype = MT_BF16
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        LINE(f, s, kinds[i].forward, gated_activation, 0, 3 * bytes, GATED, .out = out,
             .activation = kinds[i].kind);
        LINE(f, s, kinds[i].backward, gated_activation_backward, 0, 5 * bytes, GATED, .dout = out,
             .dgate = gate, .dup = up, .activation = kinds[i].kind);
    }
#define SQUARED .gate = gate, .rows = t, .cols = n, .activation = MT_ACTIVATION_RELU2, .dtype = MT_BF16
    LINE(f, s, "squared ReLU", gated_activation, 0, 2 * bytes, SQUARED, .out = out);
    LINE(f, s, "squared ReLU, backward", gated_activation_backward, 0, 3 * bytes, SQUARED, .dout = out,
         .dgate = gate);
#define CURVES                                                                                               \
    .x = gate, .alpha_p = number, .alpha_n = number, .beta = number, .eps = number, .count = t * n,          \
    .dtype = MT_BF16
    LINE(f, s, "xIELU", xielu, 0, 2 * bytes, CURVES, .y = out);
    LINE(f, s, "xIELU, backward", xielu_backward, 0, 3 * bytes, CURVES, .dy = up, .dx = out, .dalpha_p = to,
         .dalpha_n = to + 1);
    LINE(f, s, "clip", clip, 0, 2 * bytes, .x = gate, .rows = t, .cols = n, .limit = 1, .dtype = MT_BF16);
    LINE(f, s, "clip, gradient", clip, 0, 3 * bytes, .x = gate, .by = up, .rows = t, .cols = n, .limit = 1,
         .dtype = MT_BF16);
    RELEASE(f, gate, up, out, number, dalpha);
}

static void stream(struct figures *f, const struct shape *s)
{
    const size_t t = s->tokens, h = s->hidden, q = s->heads * s->dim;
    const double bytes = 2.0 * (double)(t * h), head_bytes = 2.0 * (double)(t * q);
    void *a = figures_data(f, t * h, MT_BF16), *b = figures_data(f, t * h, MT_BF16);
    void *heads = figures_data(f, t * q, MT_BF16), *positions = figures_ints(f, t, (int32_t)t);
    void *angles = figures_data(f, t * s->dim, MT_F32);
    LINE(f, s, "residual sum", add, 0, 3 * bytes, .a = a, .b = b, .y = a, .count = t * h, .scale = 1e-3f,
         .dtype = MT_BF16);
    LINE(f, s, "scaling", add, 0, 2 * bytes, .b = b, .y = b, .count = t * h, .scale = 1, .dtype = MT_BF16);
#define ROPE                                                                                                 \
    .x = heads, .positions = positions, .cos = angles, .sin = angles, .tokens = t, .heads = s->heads,        \
    .head_dim = s->dim, .num_positions = t, .dtype = MT_BF16
    LINE(f, s, "RoPE", rope, 0, 2 * head_bytes, ROPE, .rotary_dim = s->dim);
    LINE(f, s, "RoPE, neighbours", rope, 0, 2 * head_bytes, ROPE, .rotary_dim = s->dim, .interleaved = true);
    LINE(f, s, "RoPE, half of a head", rope, 0, head_bytes, ROPE, .rotary_dim = s->dim / 2);
    RELEASE(f, a, b, heads, positions, angles);
}

/* As large as a layer's largest gradient. */
static void slabs(struct figures *f, const struct shape *s)
{
    const size_t count = 3 * s->hidden * s->intermediate;
    void *wide = figures_data(f, count, MT_F32), *narrow = figures_data(f, count, MT_BF16);
    void *sum = figures_memory(f, sizeof(double));
    LINE(f, s, "norm of a gradient", sum_squares, 0, 4.0 * (double)count, .x = wide, .sum = sum,
         .count = count);
    LINE(f, s, "fp32 to bf16", cast, 0, 6.0 * (double)count, .src = wide, .dst = narrow, .count = count,
         .src_dtype = MT_F32, .dst_dtype = MT_BF16);
    LINE(f, s, "bf16 to fp32", cast, 0, 6.0 * (double)count, .src = narrow, .dst = wide, .count = count,
         .src_dtype = MT_BF16, .dst_dtype = MT_F32);
    RELEASE(f, wide, narrow, sum);
}

void figures_of_rows(struct figures *f, const struct shape *shape)
{
    tables(f, shape);
    norms(f, shape);
    activations(f, shape);
    stream(f, shape);
    slabs(f, shape);
}
