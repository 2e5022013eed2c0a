/* Another device agrees with the CPU, operation by operation: those on rows and on single elements. */
#include "tests/unit/device/agreement.h"

/* ---- embedding ---- */

enum { TABLE_BF16 = 1, EMBEDDING_BF16 = 2, EMBEDDING_APART = 4, EMBEDDING_BITS = 3 };

/* The gradient has the very bits of the CPU: both add in token order. */
static void embed(size_t tokens, size_t hidden, size_t vocab, unsigned choices)
{
    const enum mt_dtype table_dtype = choices & TABLE_BF16 ? MT_BF16 : MT_F32;
    const enum mt_dtype dtype = choices & EMBEDDING_BF16 ? MT_BF16 : MT_F32;
    const size_t from = choices & EMBEDDING_APART ? 1 : 0;
    struct pair p[] = {
        pair_ints(tokens, (int32_t)vocab, tokens), pair_random(table_dtype, vocab * hidden + 1, 1, 1),
        pair_random(dtype, tokens * hidden + 1, 1, 3), pair_random(MT_F32, vocab * hidden + 1, 1, 4)};
    const char *what =
        shape("%zu tokens of %zu, %zu in the vocabulary, choices %x", tokens, hidden, vocab, choices);
    ON_BOTH RUN(embedding, (struct mt_embedding_args){.ids = p[0].t[d].at,
                                                      .table = into(&p[1].t[d], from),
                                                      .out = into(&p[2].t[d], from),
                                                      .tokens = tokens,
                                                      .hidden = hidden,
                                                      .vocab_size = vocab,
                                                      .table_dtype = table_dtype,
                                                      .dtype = dtype});
    AGREE(p[2], 0, "out", what);
    ON_BOTH RUN(embedding_backward, (struct mt_embedding_backward_args){.ids = p[0].t[d].at,
                                                                        .dout = into(&p[2].t[d], from),
                                                                        .dtable = into(&p[3].t[d], from),
                                                                        .tokens = tokens,
                                                                        .hidden = hidden,
                                                                        .vocab_size = vocab,
                                                                        .dtype = dtype});
    AGREE(p[3], 0, "dtable", what);
    PAIRS_FREE(p);
}

static void embedding_agrees(void **state)
{
    (void)state;
    /* tokens, hidden, vocabulary: of one id, of as many as there are, and more than one sort and one merge
     * take */
    static const size_t shapes[][3] = {{1, 1, 29},    {1, 64, 1},       {17, 7, 29},
                                       {130, 64, 29}, {33, 1027, 29},   {300, 128, 29},
                                       {257, 8, 1},   {2049, 24, 4000}, {4600, 9, 300}};
    struct met met = {0};
    for (size_t i = 0; i < 4 * sizeof shapes / sizeof *shapes; i++) {
        const unsigned choices = choices_of(i, EMBEDDING_BITS);
        meet(&met, choices);
        embed(shapes[i / 4][0], shapes[i / 4][1], shapes[i / 4][2], choices);
    }
    ASSERT_ALL_MET(met, EMBEDDING_BITS);
}

/* More tokens than the sorted keys have room for at a time. Each is a thread, and too many to be watched. */
static void embedding_of_many_tokens_agrees(void **state)
{
    (void)state;
#ifdef __SANITIZE_THREAD__
    skip();
#endif
    embed(((size_t)1 << 19) + 300, 1, 70000, TABLE_BF16);
}

/* ---- norms ---- */

enum {
    NORM_BF16 = 1,
    NORM_CENTERED = 2,
    NORM_PER_GROUP = 4,
    NORM_WEIGHT = 8,
    NORM_BIAS = 16,
    NORM_OFFSET = 32,
    NORM_KEEPS_RSTD = 64,
    NORM_KEEPS_MEAN = 128,
    NORM_IN_PLACE = 256,
    NORM_ADDS_DX = 512,
    NORM_ADDS_DWEIGHT = 1024,
    NORM_DX_IN_DY = 2048,
    NORM_DWEIGHT = 4096,
    NORM_DBIAS = 8192,
    NORM_GAPS = 16384,
    NORM_BITS = 15,
};

static void norm(size_t rows, size_t groups, size_t cols, size_t gap, unsigned choices)
{
    const enum mt_dtype dtype = choices & NORM_BF16 ? MT_BF16 : MT_F32;
    const bool centered = choices & NORM_CENTERED, own = choices & NORM_PER_GROUP;
    const bool in_place = choices & NORM_IN_PLACE, adds_dx = choices & NORM_ADDS_DX;
    const bool in_dy = !adds_dx && (choices & NORM_DX_IN_DY);
    const size_t width = groups * cols, parameters = (own ? groups : 1) * cols;
    const size_t stride = width + (choices & NORM_GAPS ? gap : 0), dense = stride == width ? 0 : stride;
    const size_t dy_stride = in_dy ? stride : stride + 8;
    struct pair p[] = {
        pair_random(dtype, rows * stride, 2, 1),    pair_random(dtype, parameters, 1, 2),
        pair_random(dtype, parameters, 1, 3),       pair_random(dtype, rows * (stride + 16), 1, 4),
        pair_random(dtype, rows * dy_stride, 1, 5), pair_random(dtype, rows * stride, 1, 6),
        pair_random(MT_F32, parameters, 1, 7),      pair_random(MT_F32, parameters, 1, 8),
        pair_random(MT_F32, rows * groups, 1, 9),   pair_random(MT_F32, rows * groups, 1, 10),
        pair_random(dtype, rows * stride, 2, 1),
    };
    const char *what = shape("norm, %zu rows, %zu groups, %zu columns, gap %zu, choices %x", rows, groups,
                             cols, gap, choices);
    for (int keeps = 0; keeps < 2; keeps++) { /* the second time for what the backward pass wants */
        const bool rstd = keeps || choices & NORM_KEEPS_RSTD;
        const bool mean = centered && (keeps || choices & NORM_KEEPS_MEAN);
        ON_BOTH
        {
            RUN(rms_norm, (struct mt_rms_norm_args){.x = in_place && !keeps ? p[10].t[d].at : p[0].t[d].at,
                                                    .weight = choices & NORM_WEIGHT ? p[1].t[d].at : NULL,
                                                    .bias = choices & NORM_BIAS ? p[2].t[d].at : NULL,
                                                    .y = in_place && !keeps ? p[10].t[d].at : p[3].t[d].at,
                                                    .rstd = rstd ? p[8].t[d].at : NULL,
                                                    .mean = mean ? p[9].t[d].at : NULL,
                                                    .rows = rows,
                                                    .cols = cols,
                                                    .groups = groups == 1 ? 0 : groups,
                                                    .x_stride = dense,
                                                    .y_stride = in_place && !keeps ? dense : stride + 16,
                                                    .eps = 1e-3f,
                                                    .weight_offset = choices & NORM_OFFSET ? 1.0f : 0.0f,
                                                    .centered = centered,
                                                    .weight_per_group = own,
                                                    .dtype = dtype});
        }
        AGREE(p[in_place && !keeps ? 10 : 3], twice(dtype), "y", what);
        AGREE(p[8], 1e-5, "rstd", what);
        AGREE(p[9], 1e-5, "mean", what);
    }
    ON_BOTH
    {
        RUN(rms_norm_backward,
            (struct mt_rms_norm_backward_args){.x = p[0].t[d].at,
                                               .weight = choices & NORM_WEIGHT ? p[1].t[d].at : NULL,
                                               .dy = p[4].t[d].at,
                                               .rstd = p[8].t[d].at,
                                               .mean = centered ? p[9].t[d].at : NULL,
                                               .dx = in_dy ? p[4].t[d].at : p[5].t[d].at,
                                               .dweight = choices & NORM_DWEIGHT ? p[6].t[d].at : NULL,
                                               .dbias = choices & NORM_DBIAS ? p[7].t[d].at : NULL,
                                               .rows = rows,
                                               .cols = cols,
                                               .groups = groups,
                                               .x_stride = dense,
                                               .dy_stride = in_dy ? dense : dy_stride,
                                               .dx_stride = dense,
                                               .weight_offset = choices & NORM_OFFSET ? 1.0f : 0.0f,
                                               .centered = centered,
                                               .weight_per_group = own,
                                               .accumulate_dx = adds_dx,
                                               .accumulate_dweight = choices & NORM_ADDS_DWEIGHT,
                                               .dtype = dtype});
    }
    AGREE(p[in_dy ? 4 : 5], twice(dtype), "dx", what);
    AGREE(p[6], 2e-5, "dweight", what);
    AGREE(p[7], 2e-5, "dbias", what);
    PAIRS_FREE(p);
}

static void norms_agree(void **state)
{
    (void)state;
    static const size_t shapes[][4] = {{1, 1, 1, 1},    {1, 1, 64, 8},    {17, 1, 7, 1},   {5, 17, 64, 8},
                                       {3, 4, 128, 16}, {130, 1, 200, 8}, {9, 1, 1024, 8}, {2, 1, 1027, 3},
                                       {4, 1, 4096, 8}, {3, 2, 2056, 5},  {257, 1, 72, 8}, {1, 17, 64, 3}};
    struct met met = {0};
    for (size_t i = 0; i < 10 * sizeof shapes / sizeof *shapes; i++) {
        const unsigned choices = choices_of(i, NORM_BITS);
        meet(&met, choices);
        norm(shapes[i / 10][0], shapes[i / 10][1], shapes[i / 10][2], shapes[i / 10][3], choices);
    }
    ASSERT_ALL_MET(met, NORM_BITS);
}

/* ---- positions ---- */

enum { ROPE_BF16 = 1, ROPE_INTERLEAVED = 2, ROPE_INVERSE = 4, ROPE_GAPS = 8, ROPE_RUNS = 16, ROPE_BITS = 5 };

static void rope(size_t tokens, size_t heads, size_t dim, size_t rotary, size_t gap, size_t run,
                 unsigned choices)
{
    const enum mt_dtype dtype = choices & ROPE_BF16 ? MT_BF16 : MT_F32;
    const bool runs = choices & ROPE_RUNS;
    const size_t run_stride = runs ? run * dim + gap + dim : 0, positions = 50;
    const size_t width = runs ? (heads / run - 1) * run_stride + run * dim : heads * dim;
    const size_t stride = width + (choices & ROPE_GAPS ? gap : 0);
    struct pair p[] = {pair_random(dtype, tokens * stride, 1, tokens),
                       pair_ints(tokens, (int32_t)positions, tokens),
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
                                            .x_stride = stride == width ? 0 : stride,
                                            .num_positions = positions,
                                            .run = runs ? run : 0,
                                            .run_stride = run_stride,
                                            .interleaved = choices & ROPE_INTERLEAVED,
                                            .inverse = choices & ROPE_INVERSE,
                                            .dtype = dtype});
    AGREE(p[0], twice(dtype), "x",
          shape("rope, %zu tokens, %zu heads of %zu in runs of %zu, %zu turned, gap %zu, choices %x", tokens,
                heads, dim, run, rotary, gap, choices));
    PAIRS_FREE(p);
}

static void rope_agrees(void **state)
{
    (void)state;
    /* tokens, heads, head_dim, rotary_dim (all, or a part), gap, run */
    static const size_t shapes[][6] = {
        {1, 1, 2, 2, 1, 1},   {1, 17, 64, 64, 8, 17}, {17, 3, 80, 20, 8, 1},  {130, 2, 128, 128, 8, 1},
        {33, 6, 34, 6, 3, 2}, {7, 2, 256, 64, 16, 2}, {5, 34, 64, 32, 8, 17}, {9, 8, 128, 128, 0, 4}};
    struct met met = {0};
    for (size_t i = 0; i < 12 * sizeof shapes / sizeof *shapes; i++) {
        const size_t *s = shapes[i / 12];
        const unsigned choices = choices_of(i, ROPE_BITS);
        meet(&met, choices);
        rope(s[0], s[1], s[2], s[3], s[4], s[5], choices);
    }
    ASSERT_ALL_MET(met, ROPE_BITS);
}

/* ---- element by element ---- */

enum { GATED_BF16 = 1, GATED_UP = 2, GATED_GAPS = 4, GATED_IN_PLACE = 8, GATED_BITS = 4 };

static void gated(size_t rows, size_t cols, size_t gap, enum mt_activation activation, unsigned choices)
{
    const enum mt_dtype dtype = choices & GATED_BF16 ? MT_BF16 : MT_F32;
    const bool up = choices & GATED_UP, gaps = choices & GATED_GAPS, in_place = choices & GATED_IN_PLACE;
    const size_t stride = cols + (gaps ? gap : 0), up_stride = cols + (gaps ? 2 * gap : 0);
    struct pair p[] = {pair_random(dtype, rows * stride, 2, 1), pair_random(dtype, rows * up_stride, 1, 2),
                       pair_random(dtype, rows * cols, 1, 3),   pair_random(dtype, rows * cols, 1, 4),
                       pair_random(dtype, rows * stride, 1, 5), pair_random(dtype, rows * up_stride, 1, 6)};
    const int dgate = in_place ? 0 : 4, dup = in_place ? 1 : 5;
    const char *what =
        shape("activation %d, %zu rows of %zu, gap %zu, choices %x", activation, rows, cols, gap, choices);
    ON_BOTH RUN(gated_activation, (struct mt_gated_activation_args){.gate = p[0].t[d].at,
                                                                    .up = up ? p[1].t[d].at : NULL,
                                                                    .out = p[2].t[d].at,
                                                                    .rows = rows,
                                                                    .cols = cols,
                                                                    .gate_stride = gaps ? stride : 0,
                                                                    .up_stride = gaps ? up_stride : 0,
                                                                    .activation = activation,
                                                                    .dtype = dtype});
    AGREE(p[2], twice(dtype), "out", what);
    ON_BOTH RUN(gated_activation_backward,
                (struct mt_gated_activation_backward_args){.gate = p[0].t[d].at,
                                                           .up = up ? p[1].t[d].at : NULL,
                                                           .dout = p[3].t[d].at,
                                                           .dgate = p[dgate].t[d].at,
                                                           .dup = up ? p[dup].t[d].at : NULL,
                                                           .rows = rows,
                                                           .cols = cols,
                                                           .gate_stride = gaps ? stride : 0,
                                                           .up_stride = gaps ? up_stride : 0,
                                                           .activation = activation,
                                                           .dtype = dtype});
    AGREE(p[dgate], twice(dtype), "dgate", what);
    AGREE(p[dup], twice(dtype), "dup", what);
    PAIRS_FREE(p);
}

static void gated_activations_agree(void **state)
{
    (void)state;
    static const size_t shapes[][3] = {{1, 1, 1},  {1, 64, 8},   {17, 7, 1},  {130, 128, 8},
                                       {5, 64, 8}, {3, 1027, 5}, {9, 200, 3}, {2, 4096, 8}};
    struct met met[MT_ACTIVATION_RELU2 + 1] = {0};
    for (size_t i = 0; i < 20 * sizeof shapes / sizeof *shapes; i++) {
        const enum mt_activation kind = (enum mt_activation)(i % (MT_ACTIVATION_RELU2 + 1));
        const unsigned choices = choices_of(i, GATED_BITS);
        meet(&met[kind], choices);
        gated(shapes[i / 20][0], shapes[i / 20][1], shapes[i / 20][2], kind, choices);
    }
    for (size_t kind = 0; kind <= MT_ACTIVATION_RELU2; kind++)
        ASSERT_ALL_MET(met[kind], GATED_BITS);
}

/* Odd and even addresses, y apart and in either operand's place. */
static void sums_agree(void **state)
{
    (void)state;
    enum { BF16 = 1, ODD = 2, FACTOR = 4, IN_A = 8, IN_B = 16, NO_A = 32, BITS = 6 };
    static const size_t counts[] = {1, 7, 8, 64, 1000, 1027, 70001};
    struct met met = {0};
    for (size_t i = 0; i < 8 * sizeof counts / sizeof *counts; i++) {
        const unsigned choices = choices_of(i, BITS);
        const enum mt_dtype dtype = choices & BF16 ? MT_BF16 : MT_F32;
        const size_t count = counts[i / 8], from = choices & ODD ? 1 : 0;
        const int y = choices & IN_B ? 1 : choices & IN_A ? 0 : 2;
        struct pair p[] = {pair_random(dtype, count + 1, 1, 1), pair_random(dtype, count + 1, 1, 2),
                           pair_random(dtype, count + 1, 1, 3), pair_random(dtype, 1, 1, 7)};
        meet(&met, choices);
        ON_BOTH RUN(add, (struct mt_add_args){.a = choices & NO_A ? NULL : into(&p[0].t[d], from),
                                              .b = into(&p[1].t[d], from),
                                              .y = into(&p[y].t[d], from),
                                              .count = count,
                                              .scale = -0.75f,
                                              .factor = choices & FACTOR ? p[3].t[d].at : NULL,
                                              .dtype = dtype});
        AGREE(p[y], twice(dtype), "y", shape("sum of %zu elements, choices %x", count, choices));
        PAIRS_FREE(p);
    }
    ASSERT_ALL_MET(met, BITS);
}

static void squares_and_casts_agree(void **state)
{
    (void)state;
    enum { ODD = 1, ADDED = 2, FROM_BF16 = 4, TO_BF16 = 8, BITS = 4 };
    static const size_t counts[] = {1, 7, 8, 64, 1000, 1027, 70001};
    struct met met = {0};
    for (size_t i = 0; i < 8 * sizeof counts / sizeof *counts; i++) {
        const unsigned choices = choices_of(i, BITS);
        const size_t count = counts[i / 8], from = choices & ODD ? 1 : 0;
        const enum mt_dtype source = choices & FROM_BF16 ? MT_BF16 : MT_F32,
                            target = choices & TO_BF16 ? MT_BF16 : MT_F32;
        struct pair p[] = {pair_random(MT_F32, count + 1, 1, 4), pair_random(MT_F64, 1, 1, 6),
                           pair_random(source, count + 1, 1, 5), pair_random(target, count + 1, 1, 6)};
        const char *what = shape("%zu elements, choices %x", count, choices);
        meet(&met, choices);
        ON_BOTH RUN(sum_squares, (struct mt_sum_squares_args){.x = into(&p[0].t[d], from),
                                                              .sum = p[1].t[d].at,
                                                              .count = count,
                                                              .accumulate = choices & ADDED});
        AGREE(p[1], 1e-12, "sum", what);
        ON_BOTH RUN(cast, (struct mt_cast_args){.src = into(&p[2].t[d], from),
                                                .dst = into(&p[3].t[d], from),
                                                .count = count,
                                                .src_dtype = source,
                                                .dst_dtype = target});
        AGREE(p[3], 0, "cast", what);
        PAIRS_FREE(p);
    }
    ASSERT_ALL_MET(met, BITS);
}

/* Exactly: nothing is rounded. */
static void clips_agree(void **state)
{
    (void)state;
    enum { BF16 = 1, ODD = 2, BY = 4, GAPS = 8, BITS = 4 };
    static const size_t shapes[][3] = {{1, 1, 1},    {1, 7, 1},     {17, 64, 8},
                                       {3, 1027, 5}, {130, 200, 8}, {300, 9, 7}};
    struct met met = {0};
    for (size_t i = 0; i < 8 * sizeof shapes / sizeof *shapes; i++) {
        const unsigned choices = choices_of(i, BITS);
        const enum mt_dtype dtype = choices & BF16 ? MT_BF16 : MT_F32;
        const size_t rows = shapes[i / 8][0], cols = shapes[i / 8][1], gap = shapes[i / 8][2];
        const size_t from = choices & ODD ? 1 : 0, x_stride = choices & GAPS ? cols + gap : 0,
                     by_stride = choices & GAPS ? cols + 2 * gap : 0;
        struct pair p[] = {pair_random(dtype, rows * (cols + 2 * gap) + 1, 1, 1),
                           pair_random(dtype, rows * (cols + 2 * gap) + 1, 1, 3)};
        meet(&met, choices);
        ON_BOTH RUN(clip, (struct mt_clip_args){.x = into(&p[0].t[d], from),
                                                .by = choices & BY ? into(&p[1].t[d], from) : NULL,
                                                .rows = rows,
                                                .cols = cols,
                                                .x_stride = x_stride,
                                                .by_stride = by_stride,
                                                .limit = 0.5f,
                                                .dtype = dtype});
        AGREE(p[0], 0, "x", shape("clip, %zu rows of %zu, gap %zu, choices %x", rows, cols, gap, choices));
        PAIRS_FREE(p);
    }
    ASSERT_ALL_MET(met, BITS);
}

static void xielu_agrees(void **state)
{
    (void)state;
    enum {
        BF16 = 1,
        ODD = 2,
        IN_PLACE = 4,
        DX_IN_DY = 8,
        DALPHA_P = 16,
        DALPHA_N = 32,
        ADDED = 64,
        BITS = 7
    };
    static const size_t counts[] = {1, 7, 64, 1027, 9000, 12800};
    struct met met = {0};
    for (size_t i = 0; i < 8 * sizeof counts / sizeof *counts; i++) {
        const unsigned choices = choices_of(i, BITS);
        const size_t count = counts[i / 8], from = choices & ODD ? 1 : 0;
        const enum mt_dtype dtype = choices & BF16 ? MT_BF16 : MT_F32;
        struct pair p[] = {pair_random(dtype, count + 1, 1, 1), pair_random(dtype, count + 1, 1, 2),
                           pair_random(dtype, count + 1, 1, 3), pair_random(dtype, count + 1, 1, 4),
                           pair_random(dtype, 1, 1, 5),         pair_random(dtype, 1, 1, 6),
                           pair_random(dtype, 1, 1, 7),         pair_random(dtype, 1, 1e-3, 8),
                           pair_random(MT_F32, 1, 1, 9),        pair_random(MT_F32, 1, 1, 10)};
        const int y = choices & IN_PLACE ? 1 : 2, dx = choices & DX_IN_DY ? 3 : 1;
        const char *what = shape("xielu of %zu, choices %x", count, choices);
        meet(&met, choices);
        ON_BOTH RUN(xielu, (struct mt_xielu_args){.x = into(&p[y == 1 ? 1 : 0].t[d], from),
                                                  .y = into(&p[y].t[d], from),
                                                  .alpha_p = p[4].t[d].at,
                                                  .alpha_n = p[5].t[d].at,
                                                  .beta = p[6].t[d].at,
                                                  .eps = p[7].t[d].at,
                                                  .count = count,
                                                  .dtype = dtype});
        AGREE(p[y], twice(dtype), "y", what);
        ON_BOTH
        {
            RUN(xielu_backward,
                (struct mt_xielu_backward_args){.x = into(&p[0].t[d], from),
                                                .dy = into(&p[3].t[d], from),
                                                .dx = into(&p[dx].t[d], from),
                                                .alpha_p = p[4].t[d].at,
                                                .alpha_n = p[5].t[d].at,
                                                .beta = p[6].t[d].at,
                                                .eps = p[7].t[d].at,
                                                .dalpha_p = choices & DALPHA_P ? p[8].t[d].at : NULL,
                                                .dalpha_n = choices & DALPHA_N ? p[9].t[d].at : NULL,
                                                .count = count,
                                                .accumulate = choices & ADDED,
                                                .dtype = dtype});
        }
        AGREE(p[dx], twice(dtype), "dx", what);
        AGREE(p[8], 2e-5, "dalpha_p", what);
        AGREE(p[9], 2e-5, "dalpha_n", what);
        PAIRS_FREE(p);
    }
    ASSERT_ALL_MET(met, BITS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(embedding_agrees),
        cmocka_unit_test(embedding_of_many_tokens_agrees),
        cmocka_unit_test(norms_agree),
        cmocka_unit_test(rope_agrees),
        cmocka_unit_test(gated_activations_agree),
        cmocka_unit_test(sums_agree),
        cmocka_unit_test(squares_and_casts_agree),
        cmocka_unit_test(clips_agree),
        cmocka_unit_test(xielu_agrees),
    };
    return cmocka_run_group_tests(tests, open_both, close_both);
}
