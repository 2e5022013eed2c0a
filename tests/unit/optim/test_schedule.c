/* Learning rates against those of transformers 5.24 (get_*_schedule_with_warmup, get_wsd_schedule), 25
 * updates with a warm-up of 4. */
#include "core/optim/schedule.h"
#include "tests/unit/support.h"

#include <math.h>

static void check(enum mt_schedule_kind kind, const double *wanted, size_t count)
{
    const struct mt_schedule schedule = {
        .kind = kind, .learning_rate = 2e-4, .total_updates = 25, .warmup_updates = 4};
    for (size_t i = 0; i < count; i++) {
        const double rate = mt_schedule_rate(&schedule, i);
        if (fabs(rate - 2e-4 * wanted[i]) > 1e-18)
            fail_msg("update %zu: rate %.17g, must be %.17g", i, rate, 2e-4 * wanted[i]);
    }
}

static void constant_follows_a_linear_warm_up(void **state)
{
    (void)state;
    const double wanted[] = {0, 0.25, 0.5, 0.75, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                             1, 1,    1,   1,    1, 1, 1, 1, 1, 1, 1, 1};
    check(MT_SCHEDULE_CONSTANT, wanted, 25);
}

static void linear_ends_at_zero(void **state)
{
    (void)state;
    const double wanted[] = {0,
                             0.25,
                             0.5,
                             0.75,
                             1,
                             0.95238095238095233,
                             0.90476190476190477,
                             0.8571428571428571,
                             0.80952380952380953,
                             0.76190476190476186,
                             0.7142857142857143,
                             0.66666666666666663,
                             0.61904761904761907,
                             0.5714285714285714,
                             0.52380952380952384,
                             0.47619047619047616,
                             0.42857142857142855,
                             0.38095238095238093,
                             0.33333333333333331,
                             0.2857142857142857,
                             0.23809523809523808,
                             0.19047619047619047,
                             0.14285714285714285,
                             0.095238095238095233,
                             0.047619047619047616,
                             0,
                             0};
    check(MT_SCHEDULE_LINEAR, wanted, 27);
}

static void cosine_ends_at_zero(void **state)
{
    (void)state;
    const double wanted[] = {0,
                             0.25,
                             0.5,
                             0.75,
                             1,
                             0.99441541311256421,
                             0.97778640289307039,
                             0.95048443395120952,
                             0.91311938715799745,
                             0.86652593591491311,
                             0.8117449009293668,
                             0.75,
                             0.68267051218319763,
                             0.61126046697815717,
                             0.53736504679321218,
                             0.46263495320678788,
                             0.38873953302184283,
                             0.31732948781680248,
                             0.25000000000000011,
                             0.18825509907063326,
                             0.13347406408508694,
                             0.086880612842002658,
                             0.049515566048790483,
                             0.022213597106929606,
                             0.0055845868874357385,
                             0};
    check(MT_SCHEDULE_COSINE, wanted, 26);
}

static void wsd_decays_over_the_last_tenth(void **state)
{
    (void)state;
    const double wanted[] = {0, 0.25, 0.5, 0.75, 1,
                             1, 1,    1,   1,    1,
                             1, 1,    1,   1,    1,
                             1, 1,    1,   1,    1,
                             1, 1,    1,   0.75, 0.25000000000000011,
                             0, 0};
    check(MT_SCHEDULE_WSD, wanted, 27);
}

static void warm_up_is_rounded_up_and_counted_in_updates(void **state)
{
    (void)state;
    assert_int_equal(mt_schedule_warmup(0.03, 100), 3);
    assert_int_equal(mt_schedule_warmup(0.03, 101), 4);
    assert_int_equal(mt_schedule_warmup(0, 100), 0);
    assert_int_equal(mt_schedule_warmup(1, 7), 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(constant_follows_a_linear_warm_up),
        cmocka_unit_test(linear_ends_at_zero),
        cmocka_unit_test(cosine_ends_at_zero),
        cmocka_unit_test(wsd_decays_over_the_last_tenth),
        cmocka_unit_test(warm_up_is_rounded_up_and_counted_in_updates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
