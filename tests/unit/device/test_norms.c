/* Norms beyond the plain one: centered ones with biases, several vectors a row, strides; and what bends
 * logits.
 */
#include "tests/unit/device/device_support.h"

struct norm {
    size_t rows, groups, cols, x_stride, y_stride;
    bool centered, own;
    double *x, *w, *b, *dy, *y, offset, eps;
};

UNSEEN static void reference(struct norm *p)
{
    for (size_t n = 0; n < p->rows * p->groups; n++) {
        const size_t row = n / p->groups, group = n % p->groups, own = p->own ? group * p->cols : 0;
        const double *x = p->x + row * p->x_stride + group * p->cols;
        double mean = 0, square = 0;
        for (size_t i = 0; p->centered && i < p->cols; i++)
            mean += x[i] / (double)p->cols;
        for (size_t i = 0; i < p->cols; i++)
            square += (x[i] - mean) * (x[i] - mean);
        const double rstd = 1 / sqrt(square / (double)p->cols + p->eps);
        for (size_t i = 0; i < p->cols; i++)
            p->y[row * p->y_stride + group * p->cols + i] =
                (x[i] - mean) * rstd * (p->offset + p->w[own + i]) + p->b[own + i];
    }
}

UNSEEN static double loss(void *context)
{
    struct norm *p = context;
    reference(p);
    double sum = 0;
    for (size_t row = 0; row < p->rows; row++)
        for (size_t i = 0; i < p->groups * p->cols; i++)
            sum += p->y[row * p->y_stride + i] * p->dy[row * p->y_stride + i];
    return sum;
}

static void check(struct rig *rig, enum mt_dtype dtype, struct norm p, bool accumulate)
{
    const size_t parameters = (p.own ? p.groups : 1) * p.cols;
    struct tensor x = tensor_random(rig, dtype, p.rows * p.x_stride, 1.5, 1);
    struct tensor w = tensor_random(rig, dtype, parameters, 1, 2);
    struct tensor b = tensor_random(rig, dtype, parameters, 1, 3);
    struct tensor y = tensor_random(rig, dtype, p.rows * p.y_stride, 1, 4); /* the gaps must stay */
    struct tensor dy = tensor_random(rig, dtype, p.rows * p.y_stride, 1, 5);
    struct tensor dx = tensor_random(rig, dtype, p.rows * p.y_stride, 1, 6);
    struct tensor dw = tensor_random(rig, MT_F32, parameters, 1, 7);
    struct tensor db = tensor_random(rig, MT_F32, parameters, 1, 8);
    struct tensor rstd = tensor_empty(rig, MT_F32, p.rows * p.groups);
    struct tensor mean = tensor_empty(rig, MT_F32, p.rows * p.groups);
    double *want = malloc(y.count * sizeof *want);
    memcpy(want, y.v, y.count * sizeof *want);
    p.x = x.v;
    p.w = w.v;
    p.b = b.v;
    p.dy = dy.v;
    p.y = want;
    p.eps = 1e-2;
    assert_int_equal(
        rig->api->rms_norm(rig->stream, &(struct mt_rms_norm_args){.x = x.at,
                                                                   .weight = w.at,
                                                                   .bias = b.at,
                                                                   .y = y.at,
                                                                   .rstd = rstd.at,
                                                                   .mean = p.centered ? mean.at : NULL,
                                                                   .rows = p.rows,
                                                                   .cols = p.cols,
                                                                   .groups = p.groups,
                                                                   .x_stride = p.x_stride,
                                                                   .y_stride = p.y_stride,
                                                                   .eps = 1e-2f,
                                                                   .weight_offset = (float)p.offset,
                                                                   .centered = p.centered,
                                                                   .weight_per_group = p.own,
                                                                   .dtype = dtype}),
        0);
    reference(&p);
    expect_close(&y, want, tolerance_of(dtype));
    assert_int_equal(rig->api->rms_norm_backward(
                         rig->stream, &(struct mt_rms_norm_backward_args){.x = x.at,
                                                                          .weight = w.at,
                                                                          .dy = dy.at,
                                                                          .rstd = rstd.at,
                                                                          .mean = p.centered ? mean.at : NULL,
                                                                          .dx = dx.at,
                                                                          .dweight = dw.at,
                                                                          .dbias = db.at,
                                                                          .rows = p.rows,
                                                                          .cols = p.cols,
                                                                          .groups = p.groups,
                                                                          .x_stride = p.x_stride,
                                                                          .dy_stride = p.y_stride,
                                                                          .dx_stride = p.y_stride,
                                                                          .weight_offset = (float)p.offset,
                                                                          .centered = p.centered,
                                                                          .weight_per_group = p.own,
                                                                          .accumulate_dx = accumulate,
                                                                          .accumulate_dweight = accumulate,
                                                                          .dtype = dtype}),
                     0);
    double *slope = finite_differences(loss, &p, x.v, x.count), *want_dx = malloc(dx.count * sizeof *want_dx);
    memcpy(want_dx, dx.v, dx.count * sizeof *want_dx);
    for (size_t row = 0; row < p.rows; row++)
        for (size_t i = 0; i < p.groups * p.cols; i++)
            want_dx[row * p.y_stride + i] =
                slope[row * p.x_stride + i] + (accumulate ? dx.v[row * p.y_stride + i] : 0);
    expect_close(&dx, want_dx, tolerance_of(dtype));
    double *want_dw = finite_differences(loss, &p, w.v, parameters);
    double *want_db = finite_differences(loss, &p, b.v, parameters);
    for (size_t i = 0; accumulate && i < parameters; i++) {
        want_dw[i] += dw.v[i];
        want_db[i] += db.v[i];
    }
    expect_close(&dw, want_dw, 5e-6);
    expect_close(&db, want_db, 5e-6);
    free(slope);
    free(want);
    free(want_dx);
    free(want_dw);
    free(want_db);
    struct tensor *all[] = {&x, &w, &b, &y, &dy, &dx, &dw, &db, &rstd, &mean};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        tensor_free(all[i]);
}

static void norms(struct rig *rig, enum mt_dtype dtype)
{
    static const size_t shapes[][3] = {{1, 1, 7}, {17, 1, 13}, {9, 3, 8}, {40, 2, 5}, {70, 1, 24}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int flags = 0; flags < 8; flags++) {
            const size_t width = shapes[i][1] * shapes[i][2], gap = flags & 4 ? 11 : 0;
            check(rig, dtype,
                  (struct norm){.rows = shapes[i][0],
                                .groups = shapes[i][1],
                                .cols = shapes[i][2],
                                .x_stride = width + gap,
                                .y_stride = width + 2 * gap,
                                .centered = flags & 1,
                                .own = flags & 2,
                                .offset = flags & 4 ? 1 : 0},
                  flags & 2);
        }
}

static void norms_and_their_gradients_agree_with_fp64(void **state)
{
    (void)state;
    on_every_device(norms);
}

/* y = cap * tanh(x W^T / cap), and the loss's gradient through the bend: from capped logits to raw ones. */
struct capped {
    size_t rows, cols;
    double *raw, cap;
    const int32_t *labels;
};

UNSEEN static double capped_loss(void *context)
{
    const struct capped *p = context;
    double total = 0;
    for (size_t row = 0; row < p->rows; row++) {
        double sum = 0;
        for (size_t i = 0; i < p->cols; i++)
            sum += exp(p->cap * tanh(p->raw[row * p->cols + i] / p->cap));
        total += log(sum) - p->cap * tanh(p->raw[row * p->cols + (size_t)p->labels[row]] / p->cap);
    }
    return total;
}

static void capped_logits(struct rig *rig, enum mt_dtype dtype)
{
    enum { ROWS = 9, IN = 21, COLS = 19 };
    int32_t labels[ROWS];
    for (size_t i = 0; i < ROWS; i++)
        labels[i] = (int32_t)(5 * i % COLS);
    struct tensor label = tensor_ints(rig, labels, ROWS);
    struct tensor x = tensor_random(rig, dtype, ROWS * IN, 1, 1),
                  w = tensor_random(rig, dtype, COLS * IN, 1, 2);
    struct tensor y = tensor_empty(rig, dtype, ROWS * COLS), lse = tensor_empty(rig, MT_F32, ROWS);
    assert_int_equal(rig->api->linear(rig->stream, &(struct mt_linear_args){.x = x.at,
                                                                            .weight = w.at,
                                                                            .y = y.at,
                                                                            .tokens = ROWS,
                                                                            .in_features = IN,
                                                                            .out_features = COLS,
                                                                            .softcap = 3,
                                                                            .dtype = dtype}),
                     0);
    double raw[ROWS * COLS], want[ROWS * COLS];
    for (size_t row = 0; row < ROWS; row++) {
        double sum = 0;
        for (size_t i = 0; i < COLS; i++) {
            double *at = &raw[row * COLS + i];
            *at = 0;
            for (size_t k = 0; k < IN; k++)
                *at += x.v[row * IN + k] * w.v[i * IN + k];
            want[row * COLS + i] = 3 * tanh(*at / 3);
            sum += exp(want[row * COLS + i]);
        }
        lse.v[row] = log(sum);
    }
    expect_close(&y, want, tolerance_of(dtype));
    tensor_push(&lse);
    assert_int_equal(rig->api->cross_entropy_backward(
                         rig->stream, &(struct mt_cross_entropy_backward_args){.logits = y.at,
                                                                               .labels = label.at,
                                                                               .lse = lse.at,
                                                                               .rows = ROWS,
                                                                               .cols = COLS,
                                                                               .grad_scale = 1,
                                                                               .softcap = 3,
                                                                               .dtype = dtype}),
                     0);
    struct capped p = {ROWS, COLS, raw, 3, labels};
    double *gradient = finite_differences(capped_loss, &p, raw, ROWS * COLS);
    expect_close(&y, gradient, dtype == MT_BF16 ? 4e-2 : 5e-6);
    free(gradient);
    struct tensor *all[] = {&label, &x, &w, &y, &lse};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        tensor_free(all[i]);
}

static void capped_logits_and_their_gradient_agree_with_fp64(void **state)
{
    (void)state;
    on_every_device(capped_logits);
}

static void scale_alone(struct rig *rig, enum mt_dtype dtype)
{
    struct tensor b = tensor_random(rig, dtype, 1001, 1, 1);
    double want[1001];
    for (size_t i = 0; i < 1001; i++)
        want[i] = 0.3 * b.v[i];
    const struct mt_add_args args = {.b = b.at, .y = b.at, .count = 1001, .scale = 0.3f, .dtype = dtype};
    assert_int_equal(rig->api->add(rig->stream, &args), 0);
    expect_close(&b, want, tolerance_of(dtype));
    tensor_free(&b);
}

static void add_without_a_scales(void **state)
{
    (void)state;
    on_every_device(scale_alone);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(norms_and_their_gradients_agree_with_fp64),
        cmocka_unit_test(capped_logits_and_their_gradient_agree_with_fp64),
        cmocka_unit_test(add_without_a_scales),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
