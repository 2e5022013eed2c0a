/* Operations that work row by row: embedding, RMSNorm, RoPE, gated activations, add, cast, sum of squares. */
#include "core/base/random.h"
#include "tests/unit/device/device_support.h"

/* ---- embedding ---- */

static void embedding(struct rig *rig, enum mt_dtype dtype)
{
    enum { TOKENS = 131, HIDDEN = 75, VOCAB = 19 };
    int32_t ids[TOKENS];
    for (size_t t = 0; t < TOKENS; t++)
        ids[t] = (int32_t)(t * t % VOCAB);
    struct tensor id = tensor_ints(rig, ids, TOKENS);
    struct tensor table = tensor_random(rig, dtype, VOCAB * HIDDEN, 1, 1);
    struct tensor out = tensor_empty(rig, dtype, TOKENS * HIDDEN);
    struct tensor wide = tensor_empty(rig, MT_F32, TOKENS * HIDDEN);
    struct tensor dout = tensor_random(rig, dtype, TOKENS * HIDDEN, 1, 2);
    struct tensor dtable = tensor_random(rig, MT_F32, VOCAB * HIDDEN, 1, 3);
    struct mt_embedding_args args = {.ids = id.at,
                                     .table = table.at,
                                     .out = out.at,
                                     .tokens = TOKENS,
                                     .hidden = HIDDEN,
                                     .vocab_size = VOCAB,
                                     .table_dtype = dtype,
                                     .dtype = dtype};
    assert_int_equal(rig->api->embedding(rig->stream, &args), 0);
    args.out = wide.at;
    args.dtype = MT_F32;
    assert_int_equal(rig->api->embedding(rig->stream, &args), 0);
    const struct mt_embedding_backward_args backward = {.ids = id.at,
                                                        .dout = dout.at,
                                                        .dtable = dtable.at,
                                                        .tokens = TOKENS,
                                                        .hidden = HIDDEN,
                                                        .vocab_size = VOCAB,
                                                        .dtype = dtype};
    assert_int_equal(rig->api->embedding_backward(rig->stream, &backward), 0);
    double *want = calloc(out.count, sizeof *want);
    /* In token order in fp32: the very bits. */
    float *sums = calloc(dtable.count, sizeof *sums);
    for (size_t i = 0; i < dtable.count; i++)
        sums[i] = (float)dtable.v[i];
    for (size_t t = 0; t < TOKENS; t++)
        for (size_t i = 0; i < HIDDEN; i++) {
            want[t * HIDDEN + i] = table.v[(size_t)ids[t] * HIDDEN + i];
            sums[(size_t)ids[t] * HIDDEN + i] += (float)dout.v[t * HIDDEN + i];
        }
    expect_close(&out, want, 0);
    expect_close(&wide, want, 0);
    unsigned char *raw = tensor_bytes(&dtable);
    assert_memory_equal(raw, sums, dtable.count * sizeof(float));
    free(raw);
    free(want);
    free(sums);
    struct tensor *all[] = {&id, &table, &out, &wide, &dout, &dtable};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        tensor_free(all[i]);
}

static void embedding_gathers_and_scatters_in_token_order(void **state)
{
    (void)state;
    on_every_device(embedding);
}

static void an_id_outside_the_table_fails_the_device(void **state)
{
    (void)state;
    static const int32_t wrong[] = {5, -1, INT32_MIN};
    for (size_t i = 0; i < 2 * sizeof wrong / sizeof *wrong; i++) {
        struct rig rig = rig_of_test(1);
        struct tensor ids = tensor_ints(&rig, (int32_t[]){0, wrong[i / 2]}, 2);
        struct tensor table = tensor_random(&rig, MT_F32, 20, 1, 1),
                      out = tensor_random(&rig, MT_F32, 8, 1, 2);
        const struct mt_embedding_args forward = {
            .ids = ids.at, .table = table.at, .out = out.at, .tokens = 2, .hidden = 4, .vocab_size = 5};
        const struct mt_embedding_backward_args backward = {
            .ids = ids.at, .dout = out.at, .dtable = table.at, .tokens = 2, .hidden = 4, .vocab_size = 5};
        assert_int_equal(i % 2 ? rig.api->embedding_backward(rig.stream, &backward)
                               : rig.api->embedding(rig.stream, &forward),
                         0);
        struct mt_error error;
        char told[64];
        snprintf(told, sizeof told, "token 1 has the id %d", (int)wrong[i / 2]);
        assert_int_equal(rig.api->stream_synchronize(rig.stream, &error), -EIO);
        assert_int_equal(error.reason, MT_REASON_DEVICE);
        mt_assert_mentions(error.message, told);
        mt_assert_mentions(rig.api->last_error(rig.device), "vocabulary");
        assert_int_equal(rig.api->fill_zero(rig.stream, out.at, 4), -EIO); /* for good */
        assert_int_equal(rig.api->embedding(rig.stream, &forward), -EIO);
        tensor_free(&ids);
        tensor_free(&table);
        tensor_free(&out);
        rig_close(&rig);
    }
}

/* ---- RMSNorm ---- */

struct norm {
    size_t rows, cols;
    double *x, *w, offset, eps, *dy, *y, *rstd;
};

static void norm_reference(struct norm *p)
{
    for (size_t row = 0; row < p->rows; row++) {
        double sum = 0;
        for (size_t i = 0; i < p->cols; i++)
            sum += p->x[row * p->cols + i] * p->x[row * p->cols + i];
        p->rstd[row] = 1 / sqrt(sum / (double)p->cols + p->eps);
        for (size_t i = 0; i < p->cols; i++)
            p->y[row * p->cols + i] =
                p->x[row * p->cols + i] * p->rstd[row] * (p->w ? p->offset + p->w[i] : 1);
    }
}

static double norm_loss(void *context)
{
    struct norm *p = context;
    norm_reference(p);
    double sum = 0;
    for (size_t i = 0; i < p->rows * p->cols; i++)
        sum += p->y[i] * p->dy[i];
    return sum;
}

static void norm_shape(struct rig *rig, enum mt_dtype dtype, size_t rows, size_t cols, bool weighted,
                       bool accumulate, float offset)
{
    struct tensor x = tensor_random(rig, dtype, rows * cols, 1.5, 1);
    struct tensor w = tensor_random(rig, dtype, cols, 1, 2);
    struct tensor y = tensor_empty(rig, dtype, rows * cols);
    struct tensor rstd = tensor_empty(rig, MT_F32, rows);
    struct tensor dy = tensor_random(rig, dtype, rows * cols, 1, 3);
    struct tensor dx = tensor_random(rig, dtype, rows * cols, 1, 4);
    struct tensor dw = tensor_random(rig, MT_F32, cols, 1, 5);
    double *want = calloc(x.count, sizeof *want), *want_rstd = calloc(rows, sizeof *want_rstd);
    struct norm p = {rows, cols, x.v, weighted ? w.v : NULL, (double)offset, 1e-5, dy.v, want, want_rstd};
    assert_int_equal(
        rig->api->rms_norm(rig->stream, &(struct mt_rms_norm_args){.x = x.at,
                                                                   .weight = weighted ? w.at : NULL,
                                                                   .y = y.at,
                                                                   .rstd = rstd.at,
                                                                   .rows = rows,
                                                                   .cols = cols,
                                                                   .eps = 1e-5f,
                                                                   .weight_offset = offset,
                                                                   .dtype = dtype}),
        0);
    assert_int_equal(rig->api->rms_norm_backward(
                         rig->stream, &(struct mt_rms_norm_backward_args){.x = x.at,
                                                                          .weight = weighted ? w.at : NULL,
                                                                          .dy = dy.at,
                                                                          .rstd = rstd.at,
                                                                          .dx = dx.at,
                                                                          .dweight = weighted ? dw.at : NULL,
                                                                          .rows = rows,
                                                                          .cols = cols,
                                                                          .weight_offset = offset,
                                                                          .accumulate_dx = accumulate,
                                                                          .accumulate_dweight = accumulate,
                                                                          .dtype = dtype}),
                     0);
    norm_reference(&p);
    expect_close(&y, want, tolerance_of(dtype));
    expect_close(&rstd, want_rstd, 2e-6);
    double *gradient = finite_differences(norm_loss, &p, x.v, x.count);
    for (size_t i = 0; accumulate && i < x.count; i++)
        gradient[i] += dx.v[i];
    expect_close(&dx, gradient, tolerance_of(dtype));
    free(gradient);
    if (weighted) {
        gradient = finite_differences(norm_loss, &p, w.v, cols);
        for (size_t i = 0; accumulate && i < cols; i++)
            gradient[i] += dw.v[i];
        expect_close(&dw, gradient, 5e-6);
        free(gradient);
    }
    free(want);
    free(want_rstd);
    struct tensor *all[] = {&x, &w, &y, &rstd, &dy, &dx, &dw};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        tensor_free(all[i]);
}

static void norm(struct rig *rig, enum mt_dtype dtype)
{
    static const size_t shapes[][2] = {{1, 1}, {1, 64}, {17, 13}, {130, 9}, {65, 8}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int flags = 0; flags < 4; flags++)
            norm_shape(rig, dtype, shapes[i][0], shapes[i][1], flags & 1, flags & 2, flags == 3 ? 1 : 0);
}

static void rms_norm_and_its_gradients_agree_with_fp64(void **state)
{
    (void)state;
    on_every_device(norm);
}

/* ---- RoPE ---- */

static void rope_shape(struct rig *rig, enum mt_dtype dtype, size_t dim, size_t rotary, bool interleaved,
                       size_t gap, size_t run)
{
    enum { TOKENS = 19, HEADS = 6, POSITIONS = 40 };
    const size_t half = rotary / 2, run_stride = run ? (run + 2) * dim : 0; /* a key and a value between */
    const size_t stride = (run ? HEADS / run * run_stride : HEADS * dim) + gap;
    int32_t positions[TOKENS];
    for (size_t t = 0; t < TOKENS; t++)
        positions[t] = (int32_t)(t * 7 % POSITIONS);
    struct tensor position = tensor_ints(rig, positions, TOKENS);
    struct tensor cosines = tensor_empty(rig, MT_F32, POSITIONS * half);
    struct tensor sines = tensor_empty(rig, MT_F32, POSITIONS * half);
    for (size_t i = 0; i < POSITIONS * half; i++) {
        const size_t at = i / half;
        const double angle = (double)at * pow(10000, -(double)(i % half) / (double)half);
        cosines.v[i] = (double)(float)cos(angle);
        sines.v[i] = (double)(float)sin(angle);
    }
    tensor_push(&cosines);
    tensor_push(&sines);
    struct tensor x = tensor_random(rig, dtype, TOKENS * stride, 1, 1);
    double *want = malloc(x.count * sizeof *want), *before = malloc(x.count * sizeof *before);
    memcpy(want, x.v, x.count * sizeof *want);
    memcpy(before, x.v, x.count * sizeof *before);
    struct mt_rope_args args = {.x = x.at,
                                .positions = position.at,
                                .cos = cosines.at,
                                .sin = sines.at,
                                .tokens = TOKENS,
                                .heads = HEADS,
                                .head_dim = dim,
                                .rotary_dim = rotary,
                                .x_stride = gap || run ? stride : 0,
                                .num_positions = POSITIONS,
                                .run = run,
                                .run_stride = run_stride,
                                .interleaved = interleaved,
                                .dtype = dtype};
    assert_int_equal(rig->api->rope(rig->stream, &args), 0);
    for (size_t t = 0; t < TOKENS; t++)
        for (size_t h = 0; h < HEADS; h++)
            for (size_t i = 0; i < half; i++) {
                double *head = want + t * stride + (run ? h / run * run_stride + h % run * dim : h * dim);
                const double c = cosines.v[(size_t)positions[t] * half + i];
                const double s = sines.v[(size_t)positions[t] * half + i];
                double *a = interleaved ? head + 2 * i : head + i;
                double *b = interleaved ? head + 2 * i + 1 : head + half + i;
                const double turned = *a * c - *b * s;
                *b = *b * c + *a * s;
                *a = turned;
            }
    expect_close(&x, want, tolerance_of(dtype));
    args.inverse = true; /* its transpose: the rotation is orthogonal, so this is where it came from */
    assert_int_equal(rig->api->rope(rig->stream, &args), 0);
    expect_close(&x, before, 2 * tolerance_of(dtype));
    free(want);
    free(before);
    struct tensor *all[] = {&position, &cosines, &sines, &x};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        tensor_free(all[i]);
}

static void rope(struct rig *rig, enum mt_dtype dtype)
{
    static const size_t shapes[][2] = {{2, 2}, {64, 64}, {20, 12}, {7, 6}, {48, 46}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (unsigned flags = 0; flags < 12; flags++) /* heads all together, one by one, in threes */
            rope_shape(rig, dtype, shapes[i][0], shapes[i][1], flags & 1, flags & 2 ? 5 : 0,
                       (size_t[]){0, 1, 3}[flags / 4]);
}

static void rope_turns_pairs_and_turns_them_back(void **state)
{
    (void)state;
    on_every_device(rope);
}

static void a_position_outside_the_table_fails_the_device(void **state)
{
    (void)state;
    static const int32_t wrong[] = {3, -1};
    for (size_t i = 0; i < 2; i++) {
        struct rig rig = rig_of_test(1);
        struct tensor positions = tensor_ints(&rig, (int32_t[]){2, wrong[i]}, 2);
        struct tensor x = tensor_random(&rig, MT_F32, 4, 1, 1), table = tensor_random(&rig, MT_F32, 3, 1, 2);
        rig.api->rope(rig.stream, &(struct mt_rope_args){.x = x.at,
                                                         .positions = positions.at,
                                                         .cos = table.at,
                                                         .sin = table.at,
                                                         .tokens = 2,
                                                         .heads = 1,
                                                         .head_dim = 2,
                                                         .rotary_dim = 2,
                                                         .num_positions = 3});
        struct mt_error error;
        char told[64];
        snprintf(told, sizeof told, "token 1 has the position %d", (int)wrong[i]);
        assert_int_equal(rig.api->stream_synchronize(rig.stream, &error), -EIO);
        mt_assert_mentions(error.message, told);
        tensor_free(&positions);
        tensor_free(&x);
        tensor_free(&table);
        rig_close(&rig);
    }
}

/* ---- gated activations ---- */

struct gated {
    size_t rows, cols, stride;
    enum mt_activation kind;
    double *gate, *up, *dout, *out;
};

static double activate(double x, enum mt_activation kind)
{
    switch (kind) {
    case MT_ACTIVATION_SILU:
        return x / (1 + exp(-x));
    case MT_ACTIVATION_GELU:
        return x * 0.5 * erfc(-x / sqrt(2));
    case MT_ACTIVATION_GELU_TANH:
        return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case MT_ACTIVATION_RELU:
        return x > 0 ? x : 0;
    case MT_ACTIVATION_RELU2:
        return x > 0 ? x * x : 0;
    }
    return NAN;
}

static double gated_loss(void *context)
{
    struct gated *p = context;
    double sum = 0;
    for (size_t row = 0; row < p->rows; row++)
        for (size_t i = 0; i < p->cols; i++) {
            const size_t at = row * p->stride + i;
            p->out[row * p->cols + i] = activate(p->gate[at], p->kind) * (p->up ? p->up[at] : 1);
            sum += p->out[row * p->cols + i] * p->dout[row * p->cols + i];
        }
    return sum;
}

static void gated_shape(struct rig *rig, enum mt_dtype dtype, enum mt_activation kind, size_t rows,
                        size_t cols, bool with_up, bool in_place)
{
    const size_t stride = 2 * cols; /* gate and up side by side, as one product leaves them */
    struct tensor both = tensor_random(rig, dtype, rows * stride, 2, 1);
    struct tensor out = tensor_empty(rig, dtype, rows * cols);
    struct tensor dout = tensor_random(rig, dtype, rows * cols, 1, 2);
    struct tensor dboth = tensor_random(rig, dtype, rows * stride, 1, 3);
    double *want = calloc(out.count, sizeof *want);
    struct gated p = {rows, cols, stride, kind, both.v, with_up ? both.v + cols : NULL, dout.v, want};
    const size_t element = mt_dtype_bytes(dtype);
    char *gate = both.at, *up = with_up ? gate + cols * element : NULL;
    assert_int_equal(
        rig->api->gated_activation(rig->stream, &(struct mt_gated_activation_args){.gate = gate,
                                                                                   .up = up,
                                                                                   .out = out.at,
                                                                                   .rows = rows,
                                                                                   .cols = cols,
                                                                                   .gate_stride = stride,
                                                                                   .up_stride = stride,
                                                                                   .activation = kind,
                                                                                   .dtype = dtype}),
        0);
    gated_loss(&p);
    expect_close(&out, want, tolerance_of(dtype));
    char *to = in_place ? both.at : dboth.at;
    assert_int_equal(rig->api->gated_activation_backward(rig->stream,
                                                         &(struct mt_gated_activation_backward_args){
                                                             .gate = gate,
                                                             .up = up,
                                                             .dout = dout.at,
                                                             .dgate = to,
                                                             .dup = with_up ? to + cols * element : NULL,
                                                             .rows = rows,
                                                             .cols = cols,
                                                             .gate_stride = stride,
                                                             .up_stride = stride,
                                                             .activation = kind,
                                                             .dtype = dtype}),
                     0);
    double *gradient = finite_differences(gated_loss, &p, both.v, both.count);
    struct tensor *result = in_place ? &both : &dboth;
    for (size_t row = 0; !with_up && row < rows; row++)
        memcpy(gradient + row * stride + cols, result->v + row * stride + cols, cols * sizeof *gradient);
    expect_close(result, gradient, tolerance_of(dtype));
    free(gradient);
    free(want);
    struct tensor *all[] = {&both, &out, &dout, &dboth};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        tensor_free(all[i]);
}

static void gated(struct rig *rig, enum mt_dtype dtype)
{
    for (enum mt_activation kind = MT_ACTIVATION_SILU; kind <= MT_ACTIVATION_RELU2; kind++)
        for (int flags = 0; flags < 4; flags++) {
            gated_shape(rig, dtype, kind, 1, 1, flags & 1, flags & 2);
            gated_shape(rig, dtype, kind, 17, 13, flags & 1, flags & 2);
        }
}

static void gated_activations_and_their_gradients_agree_with_fp64(void **state)
{
    (void)state;
    on_every_device(gated);
}

static void activations_keep_their_ends(void **state)
{
    (void)state;
    struct rig rig = rig_of_test(1);
    const double ends[] = {-3e38, -200, -90, -30, 0, 30, 90, 200, 3e38, NAN};
    enum { COUNT = sizeof ends / sizeof *ends };
    struct tensor gate = tensor_of(&rig, MT_F32, ends, COUNT), out = tensor_empty(&rig, MT_F32, COUNT);
    for (enum mt_activation kind = MT_ACTIVATION_SILU; kind <= MT_ACTIVATION_RELU; kind++) {
        rig.api->gated_activation(
            rig.stream, &(struct mt_gated_activation_args){
                            .gate = gate.at, .out = out.at, .rows = 1, .cols = COUNT, .activation = kind});
        tensor_pull(&out);
        for (size_t i = 0; i < COUNT - 1; i++) {
            const double end = (double)(float)ends[i];
            assert_true(fabs(out.v[i] - (end > 0 ? end : 0)) <= 1e-9 * fabs(end));
        }
        assert_true(isnan(out.v[COUNT - 1]));
    }
    tensor_free(&gate);
    tensor_free(&out);
    rig_close(&rig);
}

/* ---- add, cast, sum of squares ---- */

static void add(struct rig *rig, enum mt_dtype dtype)
{
    static const size_t counts[] = {1, 7, 8, 1001, 70003};
    for (size_t n = 0; n < 5; n++) {
        struct tensor a = tensor_random(rig, dtype, counts[n], 1, 1),
                      b = tensor_random(rig, dtype, counts[n], 1, 2);
        struct tensor y = tensor_empty(rig, dtype, counts[n]);
        double *want = calloc(counts[n], sizeof *want);
        for (size_t i = 0; i < counts[n]; i++)
            want[i] = a.v[i] + 0.75 * b.v[i];
        struct mt_add_args args = {
            .a = a.at, .b = b.at, .y = y.at, .count = counts[n], .scale = 0.75f, .dtype = dtype};
        assert_int_equal(rig->api->add(rig->stream, &args), 0);
        expect_close(&y, want, tolerance_of(dtype));
        args.y = b.at;
        assert_int_equal(rig->api->add(rig->stream, &args), 0);
        expect_close(&b, want, tolerance_of(dtype));
        struct tensor factor = tensor_random(rig, dtype, 1, 1, 3);
        args.b = args.a;
        args.a = NULL;
        args.y = y.at;
        args.factor = factor.at;
        for (size_t i = 0; i < counts[n]; i++)
            want[i] = 0.75 * factor.v[0] * a.v[i];
        assert_int_equal(rig->api->add(rig->stream, &args), 0);
        expect_close(&y, want, tolerance_of(dtype));
        tensor_free(&factor);
        free(want);
        tensor_free(&a);
        tensor_free(&b);
        tensor_free(&y);
    }
}

static void add_scales_and_works_in_place(void **state)
{
    (void)state;
    on_every_device(add);
}

static void cast(struct rig *rig, enum mt_dtype dtype)
{
    const size_t count = 40001;
    struct tensor src = tensor_random(rig, dtype, count, 100, 1), narrow = tensor_empty(rig, MT_BF16, count);
    struct tensor wide = tensor_empty(rig, MT_F32, count);
    rig->api->cast(rig->stream, &(struct mt_cast_args){src.at, narrow.at, count, dtype, MT_BF16});
    rig->api->cast(rig->stream, &(struct mt_cast_args){src.at, wide.at, count, dtype, MT_F32});
    double *want = calloc(count, sizeof *want);
    for (size_t i = 0; i < count; i++)
        want[i] = (double)mt_bf16_to_float(mt_bf16_from_float((float)src.v[i]));
    expect_close(&narrow, want, 0);
    expect_close(&wide, src.v, 0);
    free(want);
    tensor_free(&src);
    tensor_free(&narrow);
    tensor_free(&wide);
}

static void cast_rounds_to_nearest_even(void **state)
{
    (void)state;
    on_every_device(cast);
    struct rig rig = rig_of_test(1);
    const uint32_t from[] = {0x3f808000, 0x3f818000, 0x3f808001, 0x3f807fff, 0x7f7fffff, 0x7f800000,
                             0xff800000, 0x7fc00001, 0xffffffff, 0x80000000, 1};
    enum { COUNT = sizeof from / sizeof *from };
    double values[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        float value;
        memcpy(&value, &from[i], sizeof value);
        values[i] = (double)value;
    }
    struct tensor wide = tensor_of(&rig, MT_F32, values, COUNT), to = tensor_empty(&rig, MT_BF16, COUNT);
    assert_int_equal(
        rig.api->cast(rig.stream, &(struct mt_cast_args){wide.at, to.at, COUNT, MT_F32, MT_BF16}), 0);
    uint16_t *bits_of = (uint16_t *)(void *)tensor_bytes(&to);
    for (size_t i = 0; i < COUNT; i++) {
        if (isnan(values[i])) /* which one is the device's own */
            assert_true(isnan(mt_bf16_to_float(bits_of[i])));
        else
            assert_int_equal(bits_of[i], mt_bf16_from_float((float)values[i]));
    }
    assert_int_equal(bits_of[0], 0x3f80); /* ties to even, both ways */
    assert_int_equal(bits_of[1], 0x3f82);
    free(bits_of);
    tensor_free(&wide);
    tensor_free(&to);
    rig_close(&rig);
}

static void sum_squares(struct rig *rig, enum mt_dtype dtype)
{
    if (dtype != MT_F32)
        return;
    static const size_t counts[] = {0, 1, 9, 32768, 100003};
    for (size_t n = 0; n < 5; n++)
        for (int accumulate = 0; accumulate < 2; accumulate++) {
            struct tensor x = tensor_random(rig, MT_F32, counts[n], 3, 1),
                          sum = tensor_random(rig, MT_F64, 1, 1, 2);
            double want = accumulate ? sum.v[0] : 0;
            for (size_t i = 0; i < counts[n]; i++)
                want += x.v[i] * x.v[i];
            assert_int_equal(
                rig->api->sum_squares(rig->stream,
                                      &(struct mt_sum_squares_args){x.at, sum.at, counts[n], accumulate}),
                0);
            expect_close(&sum, &want, 1e-13);
            if (counts[n]) { /* one that is not finite shows */
                x.v[counts[n] / 2] = n % 2 ? NAN : INFINITY;
                tensor_push(&x);
                rig->api->sum_squares(rig->stream,
                                      &(struct mt_sum_squares_args){x.at, sum.at, counts[n], false});
                tensor_pull(&sum);
                assert_true(isnan(sum.v[0]) || isinf(sum.v[0]));
            }
            tensor_free(&x);
            tensor_free(&sum);
        }
}

static void sum_of_squares_is_exact_in_fp64_and_shows_what_is_not_finite(void **state)
{
    (void)state;
    on_every_device(sum_squares);
}

/* ---- bits ---- */

/* Everything that reduces over rows or elements, in one heap of bytes. */
static unsigned char *bits(struct rig *rig, size_t *bytes)
{
    enum { ROWS = 500, COLS = 77, VOCAB = 50 };
    int32_t ids[ROWS];
    for (size_t i = 0; i < ROWS; i++)
        ids[i] = (int32_t)(i * 31 % VOCAB);
    struct tensor id = tensor_ints(rig, ids, ROWS);
    struct tensor x = tensor_random(rig, MT_F32, ROWS * COLS, 1, 1),
                  dy = tensor_random(rig, MT_F32, ROWS * COLS, 1, 2);
    struct tensor w = tensor_random(rig, MT_F32, COLS, 1, 3), rstd = tensor_random(rig, MT_F32, ROWS, 1, 4);
    struct tensor dx = tensor_empty(rig, MT_F32, ROWS * COLS), dw = tensor_empty(rig, MT_F32, COLS);
    struct tensor table = tensor_random(rig, MT_F32, VOCAB * COLS, 1, 5), sum = tensor_empty(rig, MT_F64, 1);
    rig->api->rms_norm_backward(rig->stream, &(struct mt_rms_norm_backward_args){.x = x.at,
                                                                                 .weight = w.at,
                                                                                 .dy = dy.at,
                                                                                 .rstd = rstd.at,
                                                                                 .dx = dx.at,
                                                                                 .dweight = dw.at,
                                                                                 .rows = ROWS,
                                                                                 .cols = COLS});
    rig->api->embedding_backward(rig->stream, &(struct mt_embedding_backward_args){.ids = id.at,
                                                                                   .dout = dy.at,
                                                                                   .dtable = table.at,
                                                                                   .tokens = ROWS,
                                                                                   .hidden = COLS,
                                                                                   .vocab_size = VOCAB});
    rig->api->sum_squares(rig->stream, &(struct mt_sum_squares_args){x.at, sum.at, x.count, false});
    struct tensor *const results[] = {&dx, &dw, &table, &sum};
    unsigned char *all = calloc(dx.count + dw.count + table.count + 2 * sum.count, 4);
    *bytes = 0;
    for (size_t i = 0; i < 4; i++) {
        const size_t some = results[i]->count * mt_dtype_bytes(results[i]->dtype);
        unsigned char *raw = tensor_bytes(results[i]);
        memcpy(all + *bytes, raw, some);
        *bytes += some;
        free(raw);
    }
    struct tensor *every[] = {&id, &x, &dy, &w, &rstd, &dx, &dw, &table, &sum};
    for (size_t i = 0; i < sizeof every / sizeof *every; i++)
        tensor_free(every[i]);
    return all;
}

static void bits_do_not_depend_on_threads(void **state)
{
    (void)state;
    same_bits_for_any_threads(bits);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(embedding_gathers_and_scatters_in_token_order),
        cmocka_unit_test(an_id_outside_the_table_fails_the_device),
        cmocka_unit_test(rms_norm_and_its_gradients_agree_with_fp64),
        cmocka_unit_test(rope_turns_pairs_and_turns_them_back),
        cmocka_unit_test(a_position_outside_the_table_fails_the_device),
        cmocka_unit_test(gated_activations_and_their_gradients_agree_with_fp64),
        cmocka_unit_test(activations_keep_their_ends),
        cmocka_unit_test(add_scales_and_works_in_place),
        cmocka_unit_test(cast_rounds_to_nearest_even),
        cmocka_unit_test(sum_of_squares_is_exact_in_fp64_and_shows_what_is_not_finite),
        cmocka_unit_test(bits_do_not_depend_on_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
