/* Choosing tokens: greedy is exact, cuts keep what they must, draws follow the distribution. */
#include "core/infer/sampling.h"
#include "tests/unit/support.h"

#include <math.h>

static const float logits[] = {0.5f, 2.0f, 2.0f, -1.0f, 1.0f, -INFINITY};
enum { VOCABULARY = sizeof logits / sizeof *logits };

static void draw(const struct mt_sampling *sampling, uint64_t seed, size_t draws, size_t counts[VOCABULARY])
{
    struct mt_sampling_entry scratch[VOCABULARY];
    struct mt_random random = {.key = mt_random_key(seed, "test")};
    memset(counts, 0, VOCABULARY * sizeof *counts);
    for (size_t i = 0; i < draws; i++) {
        int32_t id = mt_sampling_choose(sampling, logits, VOCABULARY, &random, scratch);
        assert_in_range(id, 0, VOCABULARY - 1);
        counts[id]++;
    }
}

static void greedy_takes_the_first_of_the_largest(void **state)
{
    (void)state;
    struct mt_sampling sampling = {.top_p = 1};
    size_t counts[VOCABULARY];
    draw(&sampling, 1, 10, counts);
    assert_int_equal(counts[1], 10);
}

static void draws_follow_the_softmax(void **state)
{
    (void)state;
    struct mt_sampling sampling = {.temperature = 0.7, .top_p = 1};
    enum { DRAWS = 200000 };
    size_t counts[VOCABULARY];
    draw(&sampling, 2, DRAWS, counts);
    double total = 0;
    for (size_t i = 0; i < VOCABULARY; i++)
        total += exp((double)logits[i] / 0.7);
    for (size_t i = 0; i < VOCABULARY; i++) {
        double expected = exp((double)logits[i] / 0.7) / total;
        assert_true(fabs((double)counts[i] / DRAWS - expected) < 5 * sqrt(expected / DRAWS) + 1e-9);
    }
}

static void top_k_and_top_p_cut_the_tail(void **state)
{
    (void)state;
    size_t counts[VOCABULARY];
    struct mt_sampling top_k = {.temperature = 1, .top_k = 2, .top_p = 1};
    draw(&top_k, 3, 1000, counts);
    assert_int_equal(counts[1] + counts[2], 1000);
    assert_true(counts[1] > 0 && counts[2] > 0);
    struct mt_sampling top_p = {.temperature = 1, .top_p = 0.3}; /* the first alone has 0.36 */
    draw(&top_p, 4, 1000, counts);
    assert_int_equal(counts[1], 1000);
    struct mt_sampling both = {.temperature = 1,
                               .top_p = 0.8}; /* the first two have 0.76: the third is needed */
    draw(&both, 5, 1000, counts);
    assert_int_equal(counts[1] + counts[2] + counts[4], 1000);
    assert_true(counts[4] > 0);
}

static void the_same_seed_gives_the_same_tokens(void **state)
{
    (void)state;
    struct mt_sampling sampling = {.temperature = 1, .top_p = 1};
    size_t first[VOCABULARY], second[VOCABULARY], other[VOCABULARY];
    draw(&sampling, 6, 100, first);
    draw(&sampling, 6, 100, second);
    draw(&sampling, 7, 100, other);
    assert_memory_equal(first, second, sizeof first);
    assert_memory_not_equal(first, other, sizeof first);
}

static void logits_that_are_not_finite_are_never_chosen(void **state)
{
    (void)state;
    const float broken[] = {NAN, INFINITY, -INFINITY};
    struct mt_sampling_entry scratch[3];
    struct mt_random random = {.key = 1};
    struct mt_sampling greedy = {.top_p = 1}, sampled = {.temperature = 1, .top_p = 1};
    assert_int_equal(mt_sampling_choose(&greedy, broken, 3, &random, scratch), -1);
    assert_int_equal(mt_sampling_choose(&sampled, broken, 3, &random, scratch), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(greedy_takes_the_first_of_the_largest),
        cmocka_unit_test(draws_follow_the_softmax),
        cmocka_unit_test(top_k_and_top_p_cut_the_tail),
        cmocka_unit_test(the_same_seed_gives_the_same_tokens),
        cmocka_unit_test(logits_that_are_not_finite_are_never_chosen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
