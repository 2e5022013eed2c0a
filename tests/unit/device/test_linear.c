/* Linear layers against a naive product in fp64 and its finite differences. */
#include "tests/unit/device/device_support.h"

struct problem {
    size_t tokens, in, out, x_stride, y_stride;
    double *x, *w, *bias, *before, *dy; /* before: what y held, or NULL */
    double *y;
};

UNSEEN static void reference(struct problem *p)
{
    for (size_t t = 0; t < p->tokens; t++)
        for (size_t o = 0; o < p->out; o++) {
            double sum = (p->bias ? p->bias[o] : 0) + (p->before ? p->before[t * p->y_stride + o] : 0);
            for (size_t i = 0; i < p->in; i++)
                sum += p->x[t * p->x_stride + i] * p->w[o * p->in + i];
            p->y[t * p->y_stride + o] = sum;
        }
}

static double loss(void *context)
{
    struct problem *p = context;
    reference(p);
    double sum = 0;
    for (size_t t = 0; t < p->tokens; t++)
        for (size_t o = 0; o < p->out; o++)
            sum += p->y[t * p->y_stride + o] * p->dy[t * p->y_stride + o];
    return sum;
}

/* Rows of `cols` in a tensor whose rows are `stride` apart: what lies between them must not change. */
static void keep_gaps(double *want, const double *before, size_t rows, size_t cols, size_t stride)
{
    for (size_t row = 0; row < rows; row++)
        for (size_t i = cols; i < stride; i++)
            want[row * stride + i] = before[row * stride + i];
}

static void check(struct rig *rig, enum mt_dtype dtype, size_t tokens, size_t in, size_t out, size_t gap,
                  bool with_bias, bool accumulate)
{
    const size_t x_stride = in + gap, y_stride = out + gap;
    struct tensor x = tensor_random(rig, dtype, tokens * x_stride, 1, 1);
    struct tensor w = tensor_random(rig, dtype, out * in, 1 / sqrt((double)in), 2);
    struct tensor bias = tensor_random(rig, dtype, out, 1, 3);
    struct tensor y = tensor_random(rig, dtype, tokens * y_stride, 1, 4);
    struct tensor dy = tensor_random(rig, dtype, tokens * y_stride, 1, 5);
    struct tensor dx = tensor_random(rig, dtype, tokens * x_stride, 1, 6);
    struct tensor dw = tensor_random(rig, MT_F32, out * in, 1, 7);
    struct tensor dbias = tensor_random(rig, MT_F32, out, 1, 8);
    double *before = malloc(y.count * sizeof *before), *want = calloc(y.count, sizeof *want);
    memcpy(before, y.v, y.count * sizeof *before);
    struct problem p = {
        tokens, in,  out, x_stride, y_stride, x.v, w.v, with_bias ? bias.v : NULL, accumulate ? before : NULL,
        dy.v,   want};
    assert_int_equal(
        rig->api->linear(rig->stream, &(struct mt_linear_args){.x = x.at,
                                                               .weight = w.at,
                                                               .bias = with_bias ? bias.at : NULL,
                                                               .y = y.at,
                                                               .tokens = tokens,
                                                               .in_features = in,
                                                               .out_features = out,
                                                               .x_stride = gap ? x_stride : 0,
                                                               .y_stride = gap ? y_stride : 0,
                                                               .accumulate = accumulate,
                                                               .dtype = dtype}),
        0);
    assert_int_equal(rig->api->linear_backward_input(
                         rig->stream, &(struct mt_linear_backward_input_args){.dy = dy.at,
                                                                              .weight = w.at,
                                                                              .dx = dx.at,
                                                                              .tokens = tokens,
                                                                              .in_features = in,
                                                                              .out_features = out,
                                                                              .dy_stride = gap ? y_stride : 0,
                                                                              .dx_stride = gap ? x_stride : 0,
                                                                              .accumulate = accumulate,
                                                                              .dtype = dtype}),
                     0);
    assert_int_equal(
        rig->api->linear_backward_weight(
            rig->stream, &(struct mt_linear_backward_weight_args){.dy = dy.at,
                                                                  .x = x.at,
                                                                  .dweight = dw.at,
                                                                  .dbias = with_bias ? dbias.at : NULL,
                                                                  .tokens = tokens,
                                                                  .in_features = in,
                                                                  .out_features = out,
                                                                  .dy_stride = gap ? y_stride : 0,
                                                                  .x_stride = gap ? x_stride : 0,
                                                                  .accumulate = accumulate,
                                                                  .dtype = dtype}),
        0);
    reference(&p);
    keep_gaps(want, before, tokens, out, y_stride);
    expect_close(&y, want, tolerance_of(dtype));
    double *gradient = finite_differences(loss, &p, x.v, x.count);
    for (size_t i = 0; accumulate && i < x.count; i++)
        gradient[i] += dx.v[i];
    keep_gaps(gradient, dx.v, tokens, in, x_stride);
    expect_close(&dx, gradient, tolerance_of(dtype));
    free(gradient);
    /* fp32 sums of bf16 products: weight gradients have no rounding to bf16. */
    gradient = finite_differences(loss, &p, w.v, w.count);
    for (size_t i = 0; accumulate && i < w.count; i++)
        gradient[i] += dw.v[i];
    expect_close(&dw, gradient, 5e-6);
    free(gradient);
    if (with_bias) {
        gradient = finite_differences(loss, &p, bias.v, bias.count);
        for (size_t i = 0; accumulate && i < bias.count; i++)
            gradient[i] += dbias.v[i];
        expect_close(&dbias, gradient, 5e-6);
        free(gradient);
    }
    free(before);
    free(want);
    struct tensor *all[] = {&x, &w, &bias, &y, &dy, &dx, &dw, &dbias};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        tensor_free(all[i]);
}

static void small_shapes(struct rig *rig, enum mt_dtype dtype)
{
    static const size_t shapes[][3] = {{1, 1, 1}, {1, 19, 7}, {3, 33, 17},
                                       {4, 8, 5}, {5, 16, 9}, {17, 13, 11}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int flags = 0; flags < 8; flags++)
            check(rig, dtype, shapes[i][0], shapes[i][1], shapes[i][2], flags & 1 ? 3 : 0, flags & 2,
                  flags & 4);
}

static void linear_and_its_gradients_agree_with_fp64(void **state)
{
    (void)state;
    on_every_device(small_shapes);
}

/* Several tiles in both directions, none of them whole, and more terms than are widened at a time. */
static void large_shape(struct rig *rig, enum mt_dtype dtype)
{
    const size_t tokens = 301, in = 1301, out = 723;
    struct tensor x = tensor_random(rig, dtype, tokens * in, 1, 1);
    struct tensor w = tensor_random(rig, dtype, out * in, 1 / sqrt((double)in), 2);
    struct tensor y = tensor_empty(rig, dtype, tokens * out);
    struct tensor dx = tensor_empty(rig, dtype, tokens * in);
    struct tensor dw = tensor_empty(rig, MT_F32, out * in);
    double *want = calloc(tokens * out, sizeof *want);
    struct problem p = {tokens, in, out, in, out, x.v, w.v, NULL, NULL, NULL, want};
    reference(&p);
    rig->api->linear(rig->stream, &(struct mt_linear_args){.x = x.at,
                                                           .weight = w.at,
                                                           .y = y.at,
                                                           .tokens = tokens,
                                                           .in_features = in,
                                                           .out_features = out,
                                                           .dtype = dtype});
    expect_close(&y, want, tolerance_of(dtype));
    /* dx = y w and dw = y^T x, with y as it was rounded. */
    rig->api->linear_backward_input(rig->stream, &(struct mt_linear_backward_input_args){.dy = y.at,
                                                                                         .weight = w.at,
                                                                                         .dx = dx.at,
                                                                                         .tokens = tokens,
                                                                                         .in_features = in,
                                                                                         .out_features = out,
                                                                                         .dtype = dtype});
    rig->api->linear_backward_weight(rig->stream,
                                     &(struct mt_linear_backward_weight_args){.dy = y.at,
                                                                              .x = x.at,
                                                                              .dweight = dw.at,
                                                                              .tokens = tokens,
                                                                              .in_features = in,
                                                                              .out_features = out,
                                                                              .dtype = dtype});
    double *want_dx = calloc(tokens * in, sizeof *want_dx), *want_dw = calloc(out * in, sizeof *want_dw);
    for (size_t t = 0; t < tokens; t++)
        for (size_t o = 0; o < out; o++)
            for (size_t i = 0; i < in; i++) {
                want_dx[t * in + i] += y.v[t * out + o] * w.v[o * in + i];
                want_dw[o * in + i] += y.v[t * out + o] * x.v[t * in + i];
            }
    expect_close(&dx, want_dx, tolerance_of(dtype));
    expect_close(&dw, want_dw, 5e-6);
    free(want);
    free(want_dx);
    free(want_dw);
    struct tensor *all[] = {&x, &w, &y, &dx, &dw};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        tensor_free(all[i]);
}

static void tiles_fit_together(void **state)
{
    (void)state;
    on_every_device(large_shape);
}

static unsigned char *bits(struct rig *rig, size_t *bytes)
{
    const size_t tokens = 517, in = 300, out = 1000;
    struct tensor x = tensor_random(rig, MT_F32, tokens * in, 1, 1);
    struct tensor w = tensor_random(rig, MT_F32, out * in, 1, 2);
    struct tensor y = tensor_empty(rig, MT_F32, tokens * out);
    rig->api->linear(
        rig->stream,
        &(struct mt_linear_args){
            .x = x.at, .weight = w.at, .y = y.at, .tokens = tokens, .in_features = in, .out_features = out});
    unsigned char *result = tensor_bytes(&y);
    *bytes = y.count * sizeof(float);
    tensor_free(&x);
    tensor_free(&w);
    tensor_free(&y);
    return result;
}

static void bits_do_not_depend_on_threads(void **state)
{
    (void)state;
    same_bits_for_any_threads(bits);
}

static void bad_arguments_are_refused(void **state)
{
    (void)state;
    struct rig rig = rig_of_test(1);
    struct tensor memory = tensor_random(&rig, MT_F32, 12, 1, 1);
    float *const some = memory.at;
    struct mt_linear_args a = {
        .x = some, .weight = some + 4, .y = some + 8, .tokens = 1, .in_features = 2, .out_features = 1};
    assert_int_equal(rig.api->linear(rig.stream, &a), 0);
    a.x_stride = 1;
    assert_int_equal(rig.api->linear(rig.stream, &a), -EINVAL);
    a.x_stride = 0;
    a.weight = NULL;
    assert_int_equal(rig.api->linear(rig.stream, &a), -EINVAL);
    a.weight = some;
    a.dtype = MT_F16;
    assert_int_equal(rig.api->linear(rig.stream, &a), -EINVAL);
    rig_wait(&rig);
    tensor_free(&memory);
    rig_close(&rig);
}

/* A matrix stored [in, out], or a part of a wider one: the same product as of its transpose. */
static void stored_the_other_way(struct rig *rig, enum mt_dtype dtype)
{
    enum { TOKENS = 19, IN = 13, OUT = 21, WIDE = OUT + 5 };
    struct tensor x = tensor_random(rig, dtype, TOKENS * IN, 1, 1);
    struct tensor w = tensor_random(rig, dtype, IN * WIDE, 1 / sqrt((double)IN), 2);
    struct tensor bias = tensor_random(rig, dtype, OUT, 1, 3);
    struct tensor y = tensor_random(rig, dtype, TOKENS * OUT, 1, 4);
    struct tensor plain = tensor_empty(rig, dtype, TOKENS * OUT);
    double *turned = calloc(OUT * IN, sizeof *turned), *want = calloc(y.count, sizeof *want);
    for (size_t o = 0; o < OUT; o++)
        for (size_t i = 0; i < IN; i++)
            turned[o * IN + i] = w.v[i * WIDE + o];
    struct problem p = {TOKENS, IN, OUT, IN, OUT, x.v, turned, bias.v, NULL, NULL, want};
    reference(&p);
    struct mt_linear_args args = {.x = x.at,
                                  .weight = w.at,
                                  .bias = bias.at,
                                  .y = plain.at,
                                  .tokens = TOKENS,
                                  .in_features = IN,
                                  .out_features = OUT,
                                  .weight_transposed = true,
                                  .weight_stride = WIDE,
                                  .dtype = dtype};
    assert_int_equal(rig->api->linear(rig->stream, &args), 0);
    expect_close(&plain, want, tolerance_of(dtype));
    args.accumulate = true;
    args.y = y.at;
    for (size_t i = 0; i < y.count; i++)
        want[i] += y.v[i];
    assert_int_equal(rig->api->linear(rig->stream, &args), 0);
    expect_close(&y, want, tolerance_of(dtype));
    args.weight_stride = OUT - 1;
    assert_int_equal(rig->api->linear(rig->stream, &args), -EINVAL);
    free(turned);
    free(want);
    struct tensor *all[] = {&x, &w, &bias, &y, &plain};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        tensor_free(all[i]);
}

static void a_matrix_may_be_stored_input_first(void **state)
{
    (void)state;
    on_every_device(stored_the_other_way);
}

/* A library that chose its way for the first bias must not take it for the next one, which lies elsewhere. */
static void biases_of_one_shape(struct rig *rig, enum mt_dtype dtype)
{
    enum { TOKENS = 24, IN = 16, OUT = 8, SHIFT = 4 };
    struct tensor x = tensor_random(rig, dtype, (size_t)TOKENS * IN, 1, 1);
    struct tensor w = tensor_random(rig, dtype, (size_t)OUT * IN, 0.25, 2);
    struct tensor bias = tensor_random(rig, dtype, OUT + SHIFT, 1, 3);
    struct tensor y = tensor_random(rig, dtype, (size_t)TOKENS * OUT + SHIFT, 1, 4);
    double *want = malloc(y.count * sizeof *want);
    const size_t shift = SHIFT * mt_dtype_bytes(dtype);
    memcpy(want, y.v, y.count * sizeof *want);
    for (size_t round = 0; round < 2; round++) {
        const struct mt_linear_args args = {.x = x.at,
                                            .weight = w.at,
                                            .bias = (char *)bias.at + round * shift,
                                            .y = (char *)y.at + shift,
                                            .tokens = TOKENS,
                                            .in_features = IN,
                                            .out_features = OUT,
                                            .dtype = dtype};
        struct problem p = {TOKENS, IN,   OUT,         IN, OUT, x.v, w.v, bias.v + round * SHIFT,
                            NULL,   NULL, want + SHIFT};
        assert_int_equal(rig->api->linear(rig->stream, &args), 0);
        reference(&p);
        expect_close(&y, want, tolerance_of(dtype));
    }
    free(want);
    struct tensor *all[] = {&x, &w, &bias, &y};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        tensor_free(all[i]);
}

static void a_bias_may_lie_anywhere(void **state)
{
    (void)state;
    on_every_device(biases_of_one_shape);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_matrix_may_be_stored_input_first),
        cmocka_unit_test(a_bias_may_lie_anywhere),
        cmocka_unit_test(linear_and_its_gradients_agree_with_fp64),
        cmocka_unit_test(tiles_fit_together),
        cmocka_unit_test(bits_do_not_depend_on_threads),
        cmocka_unit_test(bad_arguments_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
