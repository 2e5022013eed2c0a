/* core/base/nearest.h */
#include "core/base/nearest.h"
#include "tests/unit/support.h"

static void word_distance_counts_typing_slips(void **state)
{
    (void)state;
    static const struct {
        const char *a, *b;
        size_t limit, distance;
    } cases[] = {
        {"learning_rate", "learning_rate", 3, 0},
        {"learning_rat", "learning_rate", 3, 1},
        {"laerning_rate", "learning_rate", 3, 1}, /* a swap is one slip */
        {"learnign_raet", "learning_rate", 3, 2},
        {"batch", "batch_size", 3, 4}, /* limit + 1 */
        {"batch", "batch_size", 9, 5},
        {"", "abc", 5, 3},
        {"abc", "xyz", 5, 3},
        {"abc", "xyz", 2, 3},
        {"ca", "abc", 9, 3}, /* optimal string alignment, not Damerau-Levenshtein's 2 */
        {"kitten", "sitting", 9, 3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(mt_text_distance(cases[i].a, cases[i].b, cases[i].limit), cases[i].distance);
        assert_int_equal(mt_text_distance(cases[i].b, cases[i].a, cases[i].limit), cases[i].distance);
    }
    char long_word[3000];
    memset(long_word, 'x', sizeof long_word - 1);
    long_word[sizeof long_word - 1] = '\0';
    assert_int_equal(mt_text_distance(long_word, long_word, 3), 4);
}

static void the_first_of_the_nearest_is_taken_and_none_that_is_too_far(void **state)
{
    (void)state;
    struct mt_nearest nearest = {"stepz", 3};
    assert_false(mt_nearest_is(&nearest, "checkpoint"));
    assert_false(mt_nearest_is(&nearest, "ste_py_z"));
    assert_true(mt_nearest_is(&nearest, "step"));
    assert_false(mt_nearest_is(&nearest, "steps")); /* as near */
    assert_true(mt_nearest_is(&nearest, "stepz"));
    assert_false(mt_nearest_is(&nearest, "stepz"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(word_distance_counts_typing_slips),
        cmocka_unit_test(the_first_of_the_nearest_is_taken_and_none_that_is_too_far),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
