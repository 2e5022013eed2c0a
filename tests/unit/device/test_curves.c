/* xIELU with its trained curvatures, and clipping: against fp64 and its finite differences. */
#include "tests/unit/device/device_support.h"

struct curve {
    size_t count;
    double *x, *alpha_p, *alpha_n, *beta, *eps, *dy, *y;
};

static double softplus(double x)
{
    return log1p(exp(x));
}

static double curve_loss(void *context)
{
    struct curve *c = context;
    const double p = softplus(*c->alpha_p), n = *c->beta + softplus(*c->alpha_n);
    double sum = 0;
    for (size_t i = 0; i < c->count; i++) {
        const double x = c->x[i], m = fmin(x, *c->eps);
        c->y[i] = x > 0 ? p * x * x + *c->beta * x : n * (expm1(m) - x) + *c->beta * x;
        sum += c->y[i] * c->dy[i];
    }
    return sum;
}

static void xielu_shape(struct rig *rig, enum mt_dtype dtype, size_t count, double scale, double cut,
                        bool accumulate)
{
    struct tensor x = tensor_random(rig, dtype, count, scale, 1), dy = tensor_random(rig, dtype, count, 1, 2);
    struct tensor y = tensor_empty(rig, dtype, count), dx = tensor_empty(rig, dtype, count);
    struct tensor alphas = tensor_random(rig, dtype, 2, 1, 3), beta = tensor_random(rig, dtype, 1, 1, 4);
    struct tensor eps = tensor_empty(rig, dtype, 1), dp = tensor_random(rig, MT_F32, 1, 1, 5),
                  dn = tensor_random(rig, MT_F32, 1, 1, 6);
    eps.v[0] = cut;
    tensor_push(&eps);
    double *want = calloc(count, sizeof *want);
    struct curve c = {count, x.v, alphas.v, alphas.v + 1, beta.v, eps.v, dy.v, want};
    char *alpha_n = (char *)alphas.at + mt_dtype_bytes(dtype);
    assert_int_equal(rig->api->xielu(rig->stream, &(struct mt_xielu_args){.x = x.at,
                                                                          .y = y.at,
                                                                          .alpha_p = alphas.at,
                                                                          .alpha_n = alpha_n,
                                                                          .beta = beta.at,
                                                                          .eps = eps.at,
                                                                          .count = count,
                                                                          .dtype = dtype}),
                     0);
    curve_loss(&c);
    expect_close(&y, want, tolerance_of(dtype));
    assert_int_equal(
        rig->api->xielu_backward(rig->stream, &(struct mt_xielu_backward_args){.x = x.at,
                                                                               .dy = dy.at,
                                                                               .dx = dx.at,
                                                                               .alpha_p = alphas.at,
                                                                               .alpha_n = alpha_n,
                                                                               .beta = beta.at,
                                                                               .eps = eps.at,
                                                                               .dalpha_p = dp.at,
                                                                               .dalpha_n = dn.at,
                                                                               .count = count,
                                                                               .accumulate = accumulate,
                                                                               .dtype = dtype}),
        0);
    const double before[2] = {accumulate ? dp.v[0] : 0, accumulate ? dn.v[0] : 0};
    double *gradient = finite_differences(curve_loss, &c, x.v, count < 300 ? count : 300);
    for (size_t i = 0; i < (count < 300 ? count : 300); i++)
        want[i] = gradient[i];
    free(gradient);
    const double p = softplus(alphas.v[0]), n = beta.v[0] + softplus(alphas.v[1]);
    for (size_t i = 300; i < count; i++)
        want[i] = dy.v[i] *
                  (beta.v[0] + (x.v[i] > 0 ? 2 * p * x.v[i] : n * ((x.v[i] < cut ? exp(x.v[i]) : 0) - 1)));
    expect_close(&dx, want, tolerance_of(dtype));
    double *slopes = finite_differences(curve_loss, &c, alphas.v, 2);
    slopes[0] += before[0];
    slopes[1] += before[1];
    expect_close(&dp, slopes, 5e-6);
    expect_close(&dn, slopes + 1, 5e-6);
    free(slopes);
    free(want);
    struct tensor *all[] = {&x, &dy, &y, &dx, &alphas, &beta, &eps, &dp, &dn};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        tensor_free(all[i]);
}

static void xielu(struct rig *rig, enum mt_dtype dtype)
{
    static const size_t counts[] = {1, 9, 250, 33001};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        for (int accumulate = 0; accumulate < 2; accumulate++) {
            xielu_shape(rig, dtype, counts[i], 2, -1e-6, accumulate);
            xielu_shape(rig, dtype, counts[i], 2, -0.296875, accumulate);
        }
}

static void xielu_and_its_gradients_agree_with_fp64(void **state)
{
    (void)state;
    on_every_device(xielu);
}

/* e^x - 1 - x is x^2 / 2 near 0, which the difference of its terms would lose. */
static void xielu_is_exact_near_zero(void **state)
{
    (void)state;
    struct rig rig = rig_of_test(1);
    const double alpha = 0.3;
    struct tensor x =
        tensor_of(&rig, MT_F32, (double[]){-1e-3, -1e-2, -0.1, -0.49, -0.51, -3, -20, -1e-4}, 8);
    struct tensor shape = tensor_of(&rig, MT_F32, (double[]){alpha, 0, -1e-6}, 3);
    struct tensor y = tensor_empty(&rig, MT_F32, 8);
    const float *const at = shape.at;
    assert_int_equal(rig.api->xielu(rig.stream, &(struct mt_xielu_args){.x = x.at,
                                                                        .y = y.at,
                                                                        .alpha_p = at,
                                                                        .alpha_n = at,
                                                                        .beta = at + 1,
                                                                        .eps = at + 2,
                                                                        .count = 8}),
                     0);
    tensor_pull(&y);
    for (size_t i = 0; i < 8; i++) {
        const double of = (double)(float)x.v[i];
        const double want = softplus((double)(float)alpha) * (expm1(of) - of);
        assert_true(fabs(y.v[i] - want) <= 3e-6 * want);
    }
    tensor_free(&x);
    tensor_free(&shape);
    tensor_free(&y);
    rig_close(&rig);
}

static void clip(struct rig *rig, enum mt_dtype dtype)
{
    enum { ROWS = 37, COLS = 13, STRIDE = 17 };
    struct tensor x = tensor_random(rig, dtype, ROWS * STRIDE, 1, 1);
    struct tensor dx = tensor_random(rig, dtype, ROWS * COLS, 1, 2);
    const double limit = 0.75;
    double *want = calloc(x.count, sizeof *want), *want_d = calloc(dx.count, sizeof *want_d);
    size_t clipped = 0;
    for (size_t row = 0; row < ROWS; row++)
        for (size_t i = 0; i < STRIDE; i++) {
            const double v = x.v[row * STRIDE + i];
            want[row * STRIDE + i] = i < COLS ? fmin(fmax(v, -limit), limit) : v;
            clipped += i < COLS && fabs(v) > limit;
            if (i < COLS)
                want_d[row * COLS + i] = fabs(v) < limit ? dx.v[row * COLS + i] : 0;
        }
    assert_true(clipped > 50);
    struct mt_clip_args args = {
        .x = x.at, .rows = ROWS, .cols = COLS, .x_stride = STRIDE, .limit = (float)limit, .dtype = dtype};
    assert_int_equal(rig->api->clip(rig->stream, &args), 0);
    const struct mt_clip_args backward = {.x = dx.at,
                                          .by = x.at,
                                          .rows = ROWS,
                                          .cols = COLS,
                                          .by_stride = STRIDE,
                                          .limit = (float)limit,
                                          .dtype = dtype};
    assert_int_equal(rig->api->clip(rig->stream, &backward), 0);
    expect_close(&x, want, 0);
    expect_close(&dx, want_d, 0);
    args.limit = 0;
    assert_int_equal(rig->api->clip(rig->stream, &args), -EINVAL);
    free(want);
    free(want_d);
    tensor_free(&x);
    tensor_free(&dx);
}

static void clipping_stops_gradients_where_it_bit(void **state)
{
    (void)state;
    on_every_device(clip);
}

/* The curvatures' gradients are sums over all elements. */
static unsigned char *curvatures(struct rig *rig, size_t *bytes)
{
    const size_t count = 100003;
    struct tensor x = tensor_random(rig, MT_F32, count, 1, 1), dy = tensor_random(rig, MT_F32, count, 1, 2);
    struct tensor numbers = tensor_random(rig, MT_F32, 4, 1, 3), sums = tensor_empty(rig, MT_F32, 2);
    float *at = numbers.at, *sum = sums.at;
    rig->api->xielu_backward(rig->stream, &(struct mt_xielu_backward_args){.x = x.at,
                                                                           .dy = dy.at,
                                                                           .dx = dy.at,
                                                                           .alpha_p = at,
                                                                           .alpha_n = at + 1,
                                                                           .beta = at + 2,
                                                                           .eps = at + 3,
                                                                           .dalpha_p = sum,
                                                                           .dalpha_n = sum + 1,
                                                                           .count = count});
    *bytes = 2 * sizeof(float);
    unsigned char *raw = tensor_bytes(&sums);
    tensor_free(&x);
    tensor_free(&dy);
    tensor_free(&numbers);
    tensor_free(&sums);
    return raw;
}

static void bits_do_not_depend_on_threads(void **state)
{
    (void)state;
    same_bits_for_any_threads(curvatures);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(xielu_and_its_gradients_agree_with_fp64),
        cmocka_unit_test(xielu_is_exact_near_zero),
        cmocka_unit_test(clipping_stops_gradients_where_it_bit),
        cmocka_unit_test(bits_do_not_depend_on_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
