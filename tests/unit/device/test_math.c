/* The vector functions against the C library in fp64, over dense samples of their range. */
#include "core/device/cpu/math.h"
#include "tests/unit/device/device_support.h"

struct samples {
    float first, last;
    double worst_ulp, worst_absolute;
    int function;
};

enum { EXP, TANH, ERF, SIGMOID };

/* Distance of the fp32 values next to `value`. */
static double ulp_of(double value)
{
    const float near = (float)fabs(value);
    return near < 1.18e-38f ? 1.4e-45 : (double)nextafterf(near, INFINITY) - (double)near;
}

MT_INLINE void sample_body(void *context, size_t task)
{
    struct samples *s = context;
    const size_t steps = 400000;
    (void)task;
    for (size_t i = 0; i < steps; i += MT_LANES) {
        mt_vf x = mt_vf_set(0);
        for (size_t lane = 0; lane < MT_LANES; lane++)
            x[lane] = s->first + (s->last - s->first) * ((float)(i + lane) / (float)steps);
        const mt_vf got = s->function == EXP    ? mt_vf_exp(x)
                          : s->function == TANH ? mt_vf_tanh(x)
                          : s->function == ERF  ? mt_vf_erf(x)
                                                : mt_vf_sigmoid(x);
        for (size_t lane = 0; lane < MT_LANES; lane++) {
            const double v = (double)x[lane];
            const double want = s->function == EXP    ? exp(v)
                                : s->function == TANH ? tanh(v)
                                : s->function == ERF  ? erf(v)
                                                      : 1 / (1 + exp(-v));
            const double off = fabs((double)got[lane] - want);
            s->worst_absolute = fmax(s->worst_absolute, off);
            s->worst_ulp = fmax(s->worst_ulp, off / ulp_of(want));
        }
    }
}
MT_CPU_KERNEL(sample);

static struct samples run(int function, float first, float last)
{
    struct samples worst = {0};
    for (int level = MT_CPU_BASELINE; level < MT_CPU_LEVELS && level <= (int)mt_cpu_level(); level++) {
        struct samples s = {first, last, 0, 0, function};
        sample[level](&s, 0);
        worst.worst_ulp = fmax(worst.worst_ulp, s.worst_ulp);
        worst.worst_absolute = fmax(worst.worst_absolute, s.worst_absolute);
    }
    return worst;
}

static void functions_keep_their_error_bounds(void **state)
{
    (void)state;
    const double exp_ulp = fmax(run(EXP, -87.3f, 88.3f).worst_ulp, run(EXP, -1, 1).worst_ulp);
    const double tanh_ulp = fmax(run(TANH, -12, 12).worst_ulp, run(TANH, -0.7f, 0.7f).worst_ulp);
    const double erf_absolute = run(ERF, -6, 6).worst_absolute;
    const double sigmoid_ulp = run(SIGMOID, -80, 80).worst_ulp;
    print_message("worst: exp %.2f ulp, tanh %.2f ulp, erf %.2g absolute, sigmoid %.2f ulp\n", exp_ulp,
                  tanh_ulp, erf_absolute, sigmoid_ulp);
    assert_true(exp_ulp < 2);
    assert_true(tanh_ulp < 3);
    assert_true(erf_absolute < 4e-7);
    assert_true(sigmoid_ulp < 4);
}

MT_INLINE void ends_body(void *context, size_t task)
{
    (void)task;
    mt_vf *v = context;
    v[0] = mt_vf_exp((mt_vf){-INFINITY, -1000, -87.4f, 0, 88.4f, 1000, INFINITY, NAN});
    v[1] = mt_vf_tanh((mt_vf){-INFINITY, -1000, -0.0f, 0, 1e-30f, 1000, INFINITY, NAN});
    v[2] = mt_vf_erf((mt_vf){-INFINITY, -1000, -10, 0, 10, 1000, INFINITY, NAN});
}
MT_CPU_KERNEL(ends);

static void functions_are_right_at_the_ends(void **state)
{
    (void)state;
    const float want[3][MT_LANES] = {
        {0, 0, 0, 1, INFINITY, INFINITY, INFINITY, NAN},
        {-1, -1, -0.0f, 0, 1e-30f, 1, 1, NAN},
        {-1, -1, -1, 0, 1, 1, 1, NAN},
    };
    for (int level = MT_CPU_BASELINE; level < MT_CPU_LEVELS && level <= (int)mt_cpu_level(); level++) {
        mt_vf got[3];
        ends[level](got, 0);
        for (size_t row = 0; row < 3; row++)
            for (size_t lane = 0; lane < MT_LANES - 1; lane++)
                assert_true(got[row][lane] == want[row][lane] ||
                            (row == 2 && lane == 3 && fabsf(got[row][lane]) < 4e-7f));
        for (size_t row = 0; row < 3; row++)
            assert_true(isnan(got[row][MT_LANES - 1]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions_keep_their_error_bounds),
        cmocka_unit_test(functions_are_right_at_the_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
