/* Another device agrees with the CPU, operation by operation: the CUDA device where MEGATRAIN_CUDA_MODULE
 * names a module, else the discrete CPU device. Sizes are those at which kernels take another way: one token,
 * 17 heads' worth of rows, rows that fit vectors of 16 bytes and rows that do not, rows longer than a block
 * of threads, strides with gaps (which must stay as they were), addresses in the middle of a row.
 */
#include "tests/unit/device/device_support.h"

static struct rig rigs[2]; /* the CPU, and the other */

/* A tensor on both. */
struct pair {
    struct tensor t[2];
};

static struct pair pair_random(enum mt_dtype dtype, size_t count, double scale, uint64_t seed)
{
    return (struct pair){{tensor_random(&rigs[0], dtype, count, scale, seed),
                          tensor_random(&rigs[1], dtype, count, scale, seed)}};
}

static struct pair pair_ints(size_t count, int32_t below, uint64_t seed)
{
    int32_t *values = malloc((count + 1) * sizeof *values);
    assert_non_null(values);
    for (size_t i = 0; i < count; i++)
        values[i] = (int32_t)((i * 2654435761u + seed * 40503u) % (uint64_t)below);
    const struct pair pair = {{tensor_ints(&rigs[0], values, count), tensor_ints(&rigs[1], values, count)}};
    free(values);
    return pair;
}

static void pairs_free(struct pair *pairs, size_t count)
{
    rig_wait(&rigs[0]);
    rig_wait(&rigs[1]);
    for (size_t i = 0; i < 2 * count; i++)
        tensor_free(&pairs[i / 2].t[i % 2]);
}

/* Both are pulled; every element counts, those between rows too. */
static void agree_at(struct pair *pair, double tolerance, const char *what, const char *shape, int line)
{
    char text[256];
    tensor_pull(&pair->t[0]);
    snprintf(text, sizeof text, "%s of %s", what, shape);
    expect_close_at(&pair->t[1], pair->t[0].v, tolerance, text, __FILE__, line);
}
#define agree(pair, tolerance, shape) agree_at(&(pair), tolerance, #pair, shape, __LINE__)

#define ON_BOTH for (int d = 0; d < 2; d++)
#define RUN(operation, ...) assert_int_equal(rigs[d].api->operation(rigs[d].stream, &(__VA_ARGS__)), 0)

static const enum mt_dtype dtypes[] = {MT_F32, MT_BF16};

/* Two roundings of one value each: twice what one may be off by. */
static double twice(enum mt_dtype dtype)
{
    return 2 * tolerance_of(dtype);
}

static char shape_text[256];
static const char *shape(const char *format, ...) __attribute__((format(printf, 1, 2)));
static const char *shape(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(shape_text, sizeof shape_text, format, arguments);
    va_end(arguments);
    return shape_text;
}

/* An address some elements into a tensor: vectors no longer fit. */
static void *into(const struct tensor *tensor, size_t elements)
{
    return (char *)tensor->at + elements * mt_dtype_bytes(tensor->dtype);
}

/* ---- rows ---- */

static void embedding_agrees(void **state)
{
    (void)state;
    static const size_t shapes[][2] = {{1, 1}, {1, 64}, {17, 7}, {130, 64}, {33, 1027}, {300, 128}};
    for (size_t i = 0; i < 2 * sizeof shapes / sizeof *shapes; i++) {
        const size_t tokens = shapes[i / 2][0], hidden = shapes[i / 2][1], vocab = 29;
        const enum mt_dtype dtype = dtypes[i % 2];
        struct pair p[] = {pair_ints(tokens, (int32_t)vocab, i), pair_random(MT_F32, vocab * hidden, 1, 1),
                           pair_random(MT_BF16, vocab * hidden, 1, 2),
                           pair_random(dtype, tokens * hidden, 1, 3),
                           pair_random(MT_F32, vocab * hidden, 1, 4)};
        for (int wide = 0; wide < 2; wide++) {
            ON_BOTH RUN(embedding, (struct mt_embedding_args){.ids = p[0].t[d].at,
                                                              .table = p[wide ? 1 : 2].t[d].at,
                                                              .out = p[3].t[d].at,
                                                              .tokens = tokens,
                                                              .hidden = hidden,
                                                              .vocab_size = vocab,
                                                              .table_dtype = wide ? MT_F32 : MT_BF16,
                                                              .dtype = dtype});
            struct pair out = p[3];
            agree(out, 0, shape("%zu tokens of %zu", tokens, hidden));
        }
        ON_BOTH RUN(embedding_backward, (struct mt_embedding_backward_args){.ids = p[0].t[d].at,
                                                                            .dout = p[3].t[d].at,
                                                                            .dtable = p[4].t[d].at,
                                                                            .tokens = tokens,
                                                                            .hidden = hidden,
                                                                            .vocab_size = vocab,
                                                                            .dtype = dtype});
        struct pair dtable = p[4];
        agree(dtable, 1e-6, shape("%zu tokens of %zu", tokens, hidden));
        pairs_free(p, 5);
    }
}

static void norm(enum mt_dtype dtype, size_t rows, size_t groups, size_t cols, size_t gap, int flags)
{
    const bool centered = flags & 1, own = flags & 2, accumulate = flags & 4, plain = flags & 8;
    const size_t width = groups * cols, parameters = (own ? groups : 1) * cols, stride = width + gap;
    struct pair p[] = {
        pair_random(dtype, rows * stride, 2, 1),       pair_random(dtype, parameters, 1, 2),
        pair_random(dtype, parameters, 1, 3),          pair_random(dtype, rows * stride, 1, 4),
        pair_random(dtype, rows * (stride + 8), 1, 5), pair_random(dtype, rows * stride, 1, 6),
        pair_random(MT_F32, parameters, 1, 7),         pair_random(MT_F32, parameters, 1, 8),
        pair_random(MT_F32, rows * groups, 1, 9),      pair_random(MT_F32, rows * groups, 1, 10),
    };
    ON_BOTH RUN(rms_norm, (struct mt_rms_norm_args){.x = p[0].t[d].at,
                                                    .weight = plain ? NULL : p[1].t[d].at,
                                                    .bias = plain ? NULL : p[2].t[d].at,
                                                    .y = p[3].t[d].at,
                                                    .rstd = p[8].t[d].at,
                                                    .mean = centered ? p[9].t[d].at : NULL,
                                                    .rows = rows,
                                                    .cols = cols,
                                                    .groups = groups,
                                                    .x_stride = stride,
                                                    .y_stride = stride,
                                                    .eps = 1e-3f,
                                                    .weight_offset = own ? 1.0f : 0.0f,
                                                    .centered = centered,
                                                    .weight_per_group = own,
                                                    .dtype = dtype});
    struct pair y = p[3], rstd = p[8], mean = p[9];
    const char *what =
        shape("norm, %zu rows, %zu groups, %zu columns, gap %zu, flags %d, %zu bytes an element", rows,
              groups, cols, gap, flags, mt_dtype_bytes(dtype));
    agree(y, twice(dtype), what);
    agree(rstd, 1e-5, what);
    agree(mean, 1e-5, what);
    ON_BOTH RUN(rms_norm_backward, (struct mt_rms_norm_backward_args){.x = p[0].t[d].at,
                                                                      .weight = plain ? NULL : p[1].t[d].at,
                                                                      .dy = p[4].t[d].at,
                                                                      .rstd = p[8].t[d].at,
                                                                      .mean = centered ? p[9].t[d].at : NULL,
                                                                      .dx = p[5].t[d].at,
                                                                      .dweight = plain ? NULL : p[6].t[d].at,
                                                                      .dbias = plain ? NULL : p[7].t[d].at,
                                                                      .rows = rows,
                                                                      .cols = cols,
                                                                      .groups = groups,
                                                                      .x_stride = stride,
                                                                      .dy_stride = stride + 8,
                                                                      .dx_stride = stride,
                                                                      .weight_offset = own ? 1.0f : 0.0f,
                                                                      .centered = centered,
                                                                      .weight_per_group = own,
                                                                      .accumulate_dx = accumulate,
                                                                      .accumulate_dweight = accumulate,
                                                                      .dtype = dtype});
    struct pair dx = p[5], dweight = p[6], dbias = p[7];
    agree(dx, twice(dtype), what);
    agree(dweight, 2e-5, what);
    agree(dbias, 2e-5, what);
    pairs_free(p, sizeof p / sizeof *p);
}

static void norms_agree(void **state)
{
    (void)state;
    static const size_t shapes[][4] = {{1, 1, 1, 0},    {1, 1, 64, 0},    {17, 1, 7, 0},   {5, 17, 64, 0},
                                       {3, 4, 128, 16}, {130, 1, 200, 0}, {9, 1, 1024, 8}, {2, 1, 1027, 3},
                                       {4, 1, 4096, 0}, {3, 2, 2056, 5},  {257, 1, 72, 0}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int flags = 0; flags < 10; flags++)
            norm(dtypes[flags % 2], shapes[i][0], shapes[i][1], shapes[i][2], shapes[i][3],
                 (flags / 2) | (flags > 7 ? 8 : 0));
}

static void rope_agrees(void **state)
{
    (void)state;
    /* tokens, heads, head_dim, rotary_dim, gap */
    static const size_t shapes[][5] = {{1, 1, 2, 2, 0},       {1, 17, 64, 64, 0}, {17, 3, 80, 20, 0},
                                       {130, 2, 128, 128, 8}, {33, 5, 34, 6, 3},  {7, 2, 256, 64, 0}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int flags = 0; flags < 8; flags++) {
            const size_t tokens = shapes[i][0], heads = shapes[i][1], dim = shapes[i][2],
                         rotary = shapes[i][3];
            const size_t stride = heads * dim + shapes[i][4], positions = 50;
            const enum mt_dtype dtype = dtypes[flags & 1];
            struct pair p[] = {pair_random(dtype, tokens * stride, 1, i),
                               pair_ints(tokens, (int32_t)positions, i),
                               pair_random(MT_F32, positions * (rotary / 2), 1, 2),
                               pair_random(MT_F32, positions * (rotary / 2), 1, 3)};
            ON_BOTH RUN(rope, (struct mt_rope_args){.x = p[0].t[d].at,
                                                    .positions = p[1].t[d].at,
                                                    .cos = p[2].t[d].at,
                                                    .sin = p[3].t[d].at,
                                                    .tokens = tokens,
                                                    .heads = heads,
                                                    .head_dim = dim,
                                                    .rotary_dim = rotary,
                                                    .x_stride = shapes[i][4] ? stride : 0,
                                                    .num_positions = positions,
                                                    .interleaved = flags & 2,
                                                    .inverse = flags & 4,
                                                    .dtype = dtype});
            struct pair x = p[0];
            agree(x, twice(dtype),
                  shape("rope, %zu tokens, %zu heads of %zu, %zu turned, flags %d", tokens, heads, dim,
                        rotary, flags));
            pairs_free(p, 4);
        }
}

/* ---- element by element ---- */

static void gated_activations_agree(void **state)
{
    (void)state;
    static const size_t shapes[][3] = {{1, 1, 0},  {1, 64, 0},   {17, 7, 0},  {130, 128, 0},
                                       {5, 64, 8}, {3, 1027, 1}, {9, 200, 3}, {2, 4096, 0}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int kind = 0; kind < 20; kind++) {
            const size_t rows = shapes[i][0], cols = shapes[i][1], stride = cols + shapes[i][2];
            const enum mt_dtype dtype = dtypes[kind & 1];
            const bool gated = kind & 2;
            const enum mt_activation activation = (enum mt_activation)(kind / 4);
            struct pair p[] = {
                pair_random(dtype, rows * stride, 2, 1), pair_random(dtype, rows * stride, 1, 2),
                pair_random(dtype, rows * cols, 1, 3),   pair_random(dtype, rows * cols, 1, 4),
                pair_random(dtype, rows * stride, 1, 5), pair_random(dtype, rows * stride, 1, 6)};
            ON_BOTH RUN(gated_activation, (struct mt_gated_activation_args){.gate = p[0].t[d].at,
                                                                            .up = gated ? p[1].t[d].at : NULL,
                                                                            .out = p[2].t[d].at,
                                                                            .rows = rows,
                                                                            .cols = cols,
                                                                            .gate_stride = stride,
                                                                            .up_stride = stride,
                                                                            .activation = activation,
                                                                            .dtype = dtype});
            ON_BOTH RUN(gated_activation_backward,
                        (struct mt_gated_activation_backward_args){.gate = p[0].t[d].at,
                                                                   .up = gated ? p[1].t[d].at : NULL,
                                                                   .dout = p[3].t[d].at,
                                                                   .dgate = p[4].t[d].at,
                                                                   .dup = gated ? p[5].t[d].at : NULL,
                                                                   .rows = rows,
                                                                   .cols = cols,
                                                                   .gate_stride = stride,
                                                                   .up_stride = stride,
                                                                   .activation = activation,
                                                                   .dtype = dtype});
            struct pair out = p[2], dgate = p[4], dup = p[5];
            const char *what = shape("activation %d, %zu rows of %zu, %s", activation, rows, cols,
                                     gated ? "gated" : "plain");
            agree(out, twice(dtype), what);
            agree(dgate, twice(dtype), what);
            agree(dup, twice(dtype), what);
            pairs_free(p, 6);
        }
}

static void sums_casts_and_clips_agree(void **state)
{
    (void)state;
    static const size_t counts[] = {1, 7, 8, 64, 1000, 1027, 70001};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        for (size_t shift = 0; shift < 4; shift++) {
            const enum mt_dtype dtype = dtypes[shift & 1];
            const size_t count = counts[i], from = shift / 2; /* from 1: an odd address */
            struct pair p[] = {pair_random(dtype, count + 1, 1, 1),
                               pair_random(dtype, count + 1, 1, 2),
                               pair_random(dtype, count + 1, 1, 3),
                               pair_random(MT_F32, count + 1, 1, 4),
                               pair_random(MT_BF16, count + 1, 1, 5),
                               pair_random(MT_F64, 1, 1, 6),
                               pair_random(dtype, 1, 1, 7)};
            struct pair y = p[2], wide = p[3], narrow = p[4], sum = p[5];
            const char *what =
                shape("%zu elements from %zu, %zu bytes each", count, from, mt_dtype_bytes(dtype));
            ON_BOTH RUN(add, (struct mt_add_args){.a = into(&p[0].t[d], from),
                                                  .b = into(&p[1].t[d], from),
                                                  .y = into(&p[2].t[d], from),
                                                  .count = count,
                                                  .scale = -0.75f,
                                                  .factor = shift ? p[6].t[d].at : NULL,
                                                  .dtype = dtype});
            agree(y, twice(dtype), what);
            ON_BOTH RUN(add, (struct mt_add_args){.b = into(&p[1].t[d], from),
                                                  .y = into(&p[1].t[d], from),
                                                  .count = count,
                                                  .scale = 0.3f,
                                                  .dtype = dtype});
            struct pair scaled = p[1];
            agree(scaled, twice(dtype), what);
            ON_BOTH RUN(sum_squares, (struct mt_sum_squares_args){.x = into(&p[3].t[d], from),
                                                                  .sum = p[5].t[d].at,
                                                                  .count = count,
                                                                  .accumulate = shift & 1});
            agree(sum, 1e-6, what);
            ON_BOTH RUN(cast, (struct mt_cast_args){.src = into(&p[3].t[d], from),
                                                    .dst = into(&p[4].t[d], from),
                                                    .count = count,
                                                    .src_dtype = MT_F32,
                                                    .dst_dtype = MT_BF16});
            agree(narrow, 0, what);
            ON_BOTH RUN(cast, (struct mt_cast_args){.src = p[4].t[d].at,
                                                    .dst = into(&p[3].t[d], from),
                                                    .count = count,
                                                    .src_dtype = MT_BF16,
                                                    .dst_dtype = MT_F32});
            agree(wide, 0, what);
            ON_BOTH RUN(clip, (struct mt_clip_args){.x = into(&p[0].t[d], from),
                                                    .by = shift & 1 ? into(&p[2].t[d], from) : NULL,
                                                    .rows = 1,
                                                    .cols = count,
                                                    .limit = 0.5f,
                                                    .dtype = dtype});
            struct pair clipped = p[0];
            if (dtype == MT_F32) /* in bf16 a rounding more or less decides whether a gradient is cut */
                agree(clipped, shift & 1 ? 1e-6 : 0, what);
            pairs_free(p, sizeof p / sizeof *p);
        }
}

static void xielu_agrees(void **state)
{
    (void)state;
    static const size_t counts[] = {1, 7, 64, 1027, 9000};
    for (size_t i = 0; i < 2 * sizeof counts / sizeof *counts; i++) {
        const size_t count = counts[i / 2];
        const enum mt_dtype dtype = dtypes[i % 2];
        struct pair p[] = {pair_random(dtype, count, 1, 1), pair_random(dtype, count, 1, 2),
                           pair_random(dtype, count, 1, 3), pair_random(dtype, count, 1, 4),
                           pair_random(dtype, 1, 1, 5),     pair_random(dtype, 1, 1, 6),
                           pair_random(dtype, 1, 1, 7),     pair_random(dtype, 1, 1e-3, 8),
                           pair_random(MT_F32, 1, 1, 9),    pair_random(MT_F32, 1, 1, 10)};
        ON_BOTH RUN(xielu, (struct mt_xielu_args){.x = p[0].t[d].at,
                                                  .y = p[1].t[d].at,
                                                  .alpha_p = p[4].t[d].at,
                                                  .alpha_n = p[5].t[d].at,
                                                  .beta = p[6].t[d].at,
                                                  .eps = p[7].t[d].at,
                                                  .count = count,
                                                  .dtype = dtype});
        ON_BOTH RUN(xielu_backward, (struct mt_xielu_backward_args){.x = p[0].t[d].at,
                                                                    .dy = p[2].t[d].at,
                                                                    .dx = p[3].t[d].at,
                                                                    .alpha_p = p[4].t[d].at,
                                                                    .alpha_n = p[5].t[d].at,
                                                                    .beta = p[6].t[d].at,
                                                                    .eps = p[7].t[d].at,
                                                                    .dalpha_p = p[8].t[d].at,
                                                                    .dalpha_n = p[9].t[d].at,
                                                                    .count = count,
                                                                    .accumulate = i % 3 == 0,
                                                                    .dtype = dtype});
        struct pair y = p[1], dx = p[3], dalpha_p = p[8], dalpha_n = p[9];
        const char *what = shape("xielu of %zu", count);
        agree(y, twice(dtype), what);
        agree(dx, twice(dtype), what);
        agree(dalpha_p, 2e-5, what);
        agree(dalpha_n, 2e-5, what);
        pairs_free(p, sizeof p / sizeof *p);
    }
}

/* ---- products ---- */

static void linear(enum mt_dtype dtype, size_t tokens, size_t in, size_t out, size_t gap, int flags)
{
    const bool accumulate = flags & 1, bias = flags & 2, capped = flags & 4;
    const size_t x_stride = in + gap, y_stride = out + gap;
    struct pair p[] = {pair_random(dtype, tokens * x_stride, 1, 1),
                       pair_random(dtype, out * in, 0.5, 2),
                       pair_random(dtype, out, 1, 3),
                       pair_random(dtype, tokens * y_stride, 1, 4),
                       pair_random(dtype, tokens * y_stride, 1, 5),
                       pair_random(dtype, tokens * x_stride, 1, 6),
                       pair_random(MT_F32, out * in, 1, 7),
                       pair_random(MT_F32, out, 1, 8)};
    ON_BOTH RUN(linear, (struct mt_linear_args){.x = p[0].t[d].at,
                                                .weight = p[1].t[d].at,
                                                .bias = bias ? p[2].t[d].at : NULL,
                                                .y = p[3].t[d].at,
                                                .tokens = tokens,
                                                .in_features = in,
                                                .out_features = out,
                                                .x_stride = x_stride,
                                                .y_stride = y_stride,
                                                .accumulate = accumulate,
                                                .softcap = capped ? 5.0f : 0.0f,
                                                .dtype = dtype});
    struct pair y = p[3], dx = p[5], dweight = p[6], dbias = p[7];
    const char *what = shape("linear, %zu tokens, %zu to %zu, gap %zu, flags %d, %zu bytes an element",
                             tokens, in, out, gap, flags, mt_dtype_bytes(dtype));
    agree(y, twice(dtype), what);
    ON_BOTH RUN(linear_backward_input, (struct mt_linear_backward_input_args){.dy = p[4].t[d].at,
                                                                              .weight = p[1].t[d].at,
                                                                              .dx = p[5].t[d].at,
                                                                              .tokens = tokens,
                                                                              .in_features = in,
                                                                              .out_features = out,
                                                                              .dy_stride = y_stride,
                                                                              .dx_stride = x_stride,
                                                                              .accumulate = accumulate,
                                                                              .dtype = dtype});
    agree(dx, twice(dtype), what);
    ON_BOTH RUN(linear_backward_weight,
                (struct mt_linear_backward_weight_args){.dy = p[4].t[d].at,
                                                        .x = p[0].t[d].at,
                                                        .dweight = p[6].t[d].at,
                                                        .dbias = bias ? p[7].t[d].at : NULL,
                                                        .tokens = tokens,
                                                        .in_features = in,
                                                        .out_features = out,
                                                        .dy_stride = y_stride,
                                                        .x_stride = x_stride,
                                                        .accumulate = accumulate,
                                                        .dtype = dtype});
    agree(dweight, 2e-5, what);
    agree(dbias, 2e-5, what);
    pairs_free(p, sizeof p / sizeof *p);
}

static void products_agree(void **state)
{
    (void)state;
    static const size_t shapes[][4] = {{1, 1, 1, 0},      {1, 64, 128, 0},  {17, 7, 13, 0},
                                       {130, 64, 200, 0}, {33, 129, 65, 3}, {5, 128, 64, 8},
                                       {257, 40, 1027, 0}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int flags = 0; flags < 8; flags++)
            linear(dtypes[(flags ^ (int)i) & 1], shapes[i][0], shapes[i][1], shapes[i][2], shapes[i][3],
                   flags);
}

/* ---- attention ---- */

struct attention {
    size_t heads, kv_heads, dim, documents;
    int32_t starts[5];
    size_t window, gap;
    float softcap;
};

static void attend(enum mt_dtype dtype, const struct attention *a)
{
    const size_t tokens = (size_t)a->starts[a->documents], q_width = a->heads * a->dim,
                 kv_width = a->kv_heads * a->dim;
    const size_t q_stride = q_width + a->gap, kv_stride = kv_width + a->gap;
    struct mt_attention_args args = {.document_starts = a->starts,
                                     .num_documents = a->documents,
                                     .num_heads = a->heads,
                                     .num_kv_heads = a->kv_heads,
                                     .head_dim = a->dim,
                                     .q_stride = q_stride,
                                     .k_stride = kv_stride,
                                     .v_stride = kv_stride,
                                     .window = a->window,
                                     .scale = 1 / sqrtf((float)a->dim),
                                     .softcap = a->softcap,
                                     .dtype = dtype};
    struct pair p[] = {
        pair_random(dtype, tokens * q_stride, 1.5, 1), pair_random(dtype, tokens * kv_stride, 1.5, 2),
        pair_random(dtype, tokens * kv_stride, 1, 3),  pair_random(dtype, tokens * q_width, 1, 4),
        pair_random(MT_F32, tokens * a->heads, 1, 5),  pair_random(dtype, tokens * q_width, 1, 6),
        pair_random(dtype, tokens * q_stride, 1, 7),   pair_random(dtype, tokens * kv_stride, 1, 8),
        pair_random(dtype, tokens * kv_stride, 1, 9)};
    ON_BOTH
    {
        const struct mt_device_api *api = rigs[d].api;
        size_t bytes = 0;
        args.q = p[0].t[d].at;
        args.k = p[1].t[d].at;
        args.v = p[2].t[d].at;
        args.out = p[3].t[d].at;
        args.lse = p[4].t[d].at;
        for (int backward = 0; backward < 2; backward++) {
            const size_t wanted = api->attention_workspace_bytes(rigs[d].device, &args, backward);
            bytes = wanted > bytes ? wanted : bytes;
        }
        assert_int_equal(api->allocate(rigs[d].device, bytes + 1, &args.workspace, NULL), 0);
        assert_int_equal(api->attention(rigs[d].stream, &args), 0);
        RUN(attention_backward, (struct mt_attention_backward_args){.forward = args,
                                                                    .dout = p[5].t[d].at,
                                                                    .dq = p[6].t[d].at,
                                                                    .dk = p[7].t[d].at,
                                                                    .dv = p[8].t[d].at,
                                                                    .dq_stride = q_stride,
                                                                    .dk_stride = kv_stride,
                                                                    .dv_stride = kv_stride});
        rig_wait(&rigs[d]);
        api->release(rigs[d].device, args.workspace);
    }
    struct pair out = p[3], lse = p[4], dq = p[6], dk = p[7], dv = p[8];
    const char *what =
        shape("attention, %zu tokens, %zu heads over %zu of %zu, window %zu, cap %g, %zu bytes an element",
              tokens, a->heads, a->kv_heads, a->dim, a->window, (double)a->softcap, mt_dtype_bytes(dtype));
    agree(out, 2 * twice(dtype), what);
    agree(lse, 1e-5, what);
    agree(dq, 2 * twice(dtype), what);
    agree(dk, 2 * twice(dtype), what);
    agree(dv, 2 * twice(dtype), what);
    pairs_free(p, sizeof p / sizeof *p);
}

static void attention_agrees(void **state)
{
    (void)state;
    static const struct attention shapes[] = {
        {1, 1, 64, 1, {0, 1}, 0, 0, 0},        {17, 1, 64, 1, {0, 17}, 0, 0, 0},
        {4, 2, 80, 1, {0, 131}, 0, 0, 0},      {2, 2, 128, 3, {0, 1, 70, 150}, 0, 8, 0},
        {3, 1, 96, 2, {0, 33, 133}, 20, 0, 0}, {2, 1, 256, 1, {0, 65}, 0, 0, 5},
        {6, 3, 7, 2, {0, 64, 129}, 0, 3, 0},   {8, 2, 32, 4, {0, 5, 5, 90, 260}, 70, 0, 2},
    };
    for (size_t i = 0; i < 2 * sizeof shapes / sizeof *shapes; i++)
        attend(dtypes[i % 2], &shapes[i / 2]);
}

/* ---- cross entropy ---- */

static void cross_entropy(enum mt_dtype dtype, size_t rows, size_t vocab, size_t tile, float softcap)
{
    const size_t tiles = (vocab + tile - 1) / tile;
    struct pair labels = pair_ints(rows, (int32_t)vocab, 3), max = pair_random(MT_F32, rows, 1, 1);
    struct pair sum = pair_random(MT_F32, rows, 1, 2), target = pair_random(MT_F32, rows, 1, 3);
    struct pair lse = pair_random(MT_F32, rows, 1, 4), losses = pair_random(MT_F32, rows, 1, 5);
    struct pair loss_sum = pair_random(MT_F64, 1, 1, 6), logits[4];
    ON_BOTH
    {
        if (rows > 2) {
            labels.t[d].v[1] = MT_LABEL_IGNORED;
            tensor_push(&labels.t[d]);
        }
    }
    assert_true(tiles <= 4);
    for (size_t i = 0; i < tiles; i++)
        logits[i] = pair_random(dtype, rows * (i + 1 < tiles ? tile : vocab - i * tile), 2, 10 + i);
    for (size_t i = 0; i < tiles; i++)
        ON_BOTH RUN(cross_entropy_statistics,
                    (struct mt_cross_entropy_statistics_args){.logits = logits[i].t[d].at,
                                                              .labels = labels.t[d].at,
                                                              .max = max.t[d].at,
                                                              .sum = sum.t[d].at,
                                                              .target = target.t[d].at,
                                                              .rows = rows,
                                                              .cols = logits[i].t[d].count / rows,
                                                              .vocab_offset = i * tile,
                                                              .first = i == 0,
                                                              .dtype = dtype});
    ON_BOTH RUN(cross_entropy_finish, (struct mt_cross_entropy_finish_args){.max = max.t[d].at,
                                                                            .sum = sum.t[d].at,
                                                                            .target = target.t[d].at,
                                                                            .labels = labels.t[d].at,
                                                                            .lse = lse.t[d].at,
                                                                            .losses = losses.t[d].at,
                                                                            .loss_sum = loss_sum.t[d].at,
                                                                            .rows = rows,
                                                                            .accumulate = tile % 2});
    const char *what = shape("cross entropy, %zu rows, %zu tokens in tiles of %zu, %zu bytes an element",
                             rows, vocab, tile, mt_dtype_bytes(dtype));
    agree(max, 1e-6, what);
    agree(lse, 1e-5, what);
    agree(losses, 1e-5, what);
    agree(loss_sum, 1e-5, what);
    for (size_t i = 0; i < tiles; i++) {
        ON_BOTH RUN(cross_entropy_backward,
                    (struct mt_cross_entropy_backward_args){.logits = logits[i].t[d].at,
                                                            .labels = labels.t[d].at,
                                                            .lse = lse.t[d].at,
                                                            .rows = rows,
                                                            .cols = logits[i].t[d].count / rows,
                                                            .vocab_offset = i * tile,
                                                            .grad_scale = 0.125f,
                                                            .softcap = softcap,
                                                            .dtype = dtype});
        struct pair dlogits = logits[i];
        agree(dlogits, twice(dtype), what);
        pairs_free(&logits[i], 1);
    }
    struct pair all[] = {labels, max, sum, target, lse, losses, loss_sum};
    pairs_free(all, sizeof all / sizeof *all);
}

static void cross_entropy_agrees(void **state)
{
    (void)state;
    static const size_t shapes[][3] = {{1, 1, 1},      {1, 64, 64},     {17, 7, 3},      {130, 256, 64},
                                       {9, 1027, 400}, {3, 5000, 5000}, {33, 2048, 1024}};
    for (size_t i = 0; i < 4 * sizeof shapes / sizeof *shapes; i++)
        cross_entropy(dtypes[i % 2], shapes[i / 4][0], shapes[i / 4][1], shapes[i / 4][2],
                      i & 2 ? 10.0f : 0.0f);
}

static int open_both(void **state)
{
    (void)state;
    rigs[0] = rig_open("cpu", 2);
    rigs[1] = rig_open(getenv("MEGATRAIN_CUDA_MODULE") ? "cuda" : "cpu-discrete", 2);
    return 0;
}

static int close_both(void **state)
{
    (void)state;
    rig_close(&rigs[0]);
    rig_close(&rigs[1]);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(embedding_agrees),
        cmocka_unit_test(norms_agree),
        cmocka_unit_test(rope_agrees),
        cmocka_unit_test(gated_activations_agree),
        cmocka_unit_test(sums_casts_and_clips_agree),
        cmocka_unit_test(xielu_agrees),
        cmocka_unit_test(products_agree),
        cmocka_unit_test(attention_agrees),
        cmocka_unit_test(cross_entropy_agrees),
    };
    return cmocka_run_group_tests(tests, open_both, close_both);
}
