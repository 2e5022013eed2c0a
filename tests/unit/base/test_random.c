/* core/base/random.h */
#include "core/base/random.h"
#include "tests/unit/support.h"

#include <math.h>

static void philox_agrees_with_its_authors(void **state)
{
    (void)state;
    /* kat_vectors of the Random123 distribution, philox4x32 with 10 rounds. */
    static const struct {
        uint32_t counter[4], key[2], out[4];
    } vectors[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
        uint32_t out[4];
        mt_random_philox(vectors[i].counter, vectors[i].key, out);
        assert_memory_equal(out, vectors[i].out, sizeof out);
    }
}

static void a_saved_stream_goes_on_where_it_was(void **state)
{
    (void)state;
    struct mt_random random = {.key = mt_random_key(42, "shuffle")};
    uint64_t draws[50];
    for (size_t i = 0; i < 50; i++)
        draws[i] = mt_random_u64(&random);
    for (size_t i = 0; i < 50; i++) {
        struct mt_random resumed = {.key = random.key, .counter = i};
        assert_true(mt_random_u64(&resumed) == draws[i]);
        assert_true(resumed.counter == i + 1);
        for (size_t j = 0; j < i; j++)
            assert_true(draws[j] != draws[i]);
    }
}

static void keys_differ_by_seed_and_by_name(void **state)
{
    (void)state;
    assert_true(mt_random_key(1, "a") == mt_random_key(1, "a"));
    assert_true(mt_random_key(1, "a") != mt_random_key(2, "a"));
    assert_true(mt_random_key(1, "a") != mt_random_key(1, "b"));
    assert_true(mt_random_key(0, "") != 0);
}

static void keys_stay_what_saved_jobs_were_made_with(void **state)
{
    (void)state;
    /* Computed independently by a Python transcription of the definition in random.h. */
    assert_true(mt_random_key(42, "model.layers.0.mlp.up_proj.weight") == 0xff8491fa91f3a26bu);
    struct mt_random random = {.key = mt_random_key(42, "shuffle"), .counter = 3};
    assert_true(mt_random_u64(&random) == 0xe362532c21d32635u);
}

static void below_is_uniform_at_a_bound_that_does_not_divide(void **state)
{
    (void)state;
    struct mt_random random = {.key = 7};
    unsigned counts[6] = {0};
    const unsigned draws = 60000;
    for (unsigned i = 0; i < draws; i++) {
        uint64_t value = mt_random_below(&random, 6);
        assert_true(value < 6);
        counts[value]++;
    }
    double chi_squared = 0;
    for (size_t i = 0; i < 6; i++)
        chi_squared += ((double)counts[i] - draws / 6.0) * ((double)counts[i] - draws / 6.0) / (draws / 6.0);
    assert_true(chi_squared < 20.5); /* 0.999 of chi squared with 5 degrees of freedom */
    for (size_t i = 0; i < 100; i++)
        assert_int_equal(mt_random_below(&random, 1), 0);
    /* Three quarters of 2^64: an unchecked modulo would give the lower third twice as often. */
    const uint64_t large = (uint64_t)3 << 62;
    unsigned low = 0;
    for (unsigned i = 0; i < draws; i++)
        low += mt_random_below(&random, large) < (uint64_t)1 << 62;
    assert_true(fabs(low - draws / 3.0) < 4 * sqrt(draws * 2 / 9.0));
}

static void uniform_fills_the_unit_interval(void **state)
{
    (void)state;
    struct mt_random random = {.key = 9};
    double sum = 0;
    for (int i = 0; i < 100000; i++) {
        double value = mt_random_uniform(&random);
        assert_true(value >= 0 && value < 1);
        sum += value;
    }
    assert_true(fabs(sum / 100000 - 0.5) < 4 / sqrt(12.0 * 100000));
}

static void normal_numbers_are_normal(void **state)
{
    (void)state;
    const size_t count = 400000;
    float *values = malloc(count * sizeof *values);
    mt_random_normal_fill(mt_random_key(1, "embedding"), 0, 0, 1, values, count);
    double moments[4] = {0}, lag = 0;
    size_t beyond_two = 0, beyond_four = 0;
    for (size_t i = 0; i < count; i++) {
        double x = (double)values[i];
        for (int power = 0; power < 4; power++)
            moments[power] += pow(x, power + 1) / (double)count;
        beyond_two += fabs(x) > 2;
        beyond_four += fabs(x) > 4;
        if (i > 0)
            lag += x * (double)values[i - 1] / (double)count;
    }
    free(values);
    double sigma = 1 / sqrt((double)count);
    assert_true(fabs(moments[0]) < 4 * sigma);
    assert_true(fabs(moments[1] - 1) < 4 * sqrt(2) * sigma);
    assert_true(fabs(moments[2]) < 4 * sqrt(15) * sigma);
    assert_true(fabs(moments[3] - 3) < 4 * sqrt(96) * sigma);
    assert_true(fabs(lag) < 4 * sigma);
    assert_true(fabs((double)beyond_two / (double)count - 0.0455) < 0.0015);
    assert_in_range(beyond_four, 5, 60); /* 25 expected */
}

static void normal_numbers_can_be_had_from_anywhere(void **state)
{
    (void)state;
    float whole[1000], part[100];
    mt_random_normal_fill(5, 0, 0, 1, whole, 1000);
    for (uint64_t i = 0; i < 1000; i++)
        assert_memory_equal(&whole[i], (&(float){mt_random_normal_at(5, i)}), sizeof(float));
    for (uint64_t first = 0; first < 900; first += 37) {
        mt_random_normal_fill(5, first, 0, 1, part, 100);
        assert_memory_equal(part, whole + first, sizeof part);
    }
    mt_random_normal_fill(5, 10, 2, 0.02f, part, 100);
    for (size_t i = 0; i < 100; i++)
        assert_true(part[i] == 2 + 0.02f * whole[10 + i]);
}

static void draws_and_normal_numbers_share_no_block(void **state)
{
    (void)state;
    /* The first draw of a key, used as Box-Muller would, is not its first normal number. */
    struct mt_random random = {.key = 5};
    double u = (double)((mt_random_u64(&random) >> 11) + 1) * 0x1p-53;
    double angle = mt_random_uniform(&random) * 2 * M_PI;
    assert_true(fabs(sqrt(-2 * log(u)) * cos(angle) - (double)mt_random_normal_at(5, 0)) > 1e-6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox_agrees_with_its_authors),
        cmocka_unit_test(a_saved_stream_goes_on_where_it_was),
        cmocka_unit_test(keys_differ_by_seed_and_by_name),
        cmocka_unit_test(keys_stay_what_saved_jobs_were_made_with),
        cmocka_unit_test(below_is_uniform_at_a_bound_that_does_not_divide),
        cmocka_unit_test(uniform_fills_the_unit_interval),
        cmocka_unit_test(normal_numbers_are_normal),
        cmocka_unit_test(normal_numbers_can_be_had_from_anywhere),
        cmocka_unit_test(draws_and_normal_numbers_share_no_block),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
