/* core/base/size.h */
#include "core/base/size.h"
#include "tests/unit/support.h"

static void arithmetic_reports_overflow(void **state)
{
    (void)state;
    size_t result;
    assert_true(mt_size_add(SIZE_MAX - 1, 1, &result));
    assert_true(result == SIZE_MAX);
    assert_false(mt_size_add(SIZE_MAX, 1, &result));
    assert_true(mt_size_mul(SIZE_MAX / 3, 3, &result));
    assert_false(mt_size_mul((size_t)1 << 32, (size_t)1 << 32, &result));
    assert_true(mt_size_align(4097, 4096, &result));
    assert_int_equal(result, 8192);
    assert_true(mt_size_align(0, 64, &result));
    assert_int_equal(result, 0);
    assert_false(mt_size_align(SIZE_MAX - 5, 64, &result));
    assert_int_equal(mt_size_ceil_div(7, 2), 4);
    assert_true(mt_size_ceil_div(SIZE_MAX, 2) == SIZE_MAX / 2 + 1);
}

static void sizes_are_read_as_people_write_them(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t bytes;
    } cases[] = {
        {"0", 0},
        {"1024", 1024},
        {"17B", 17},
        {"64MiB", 64ull << 20},
        {"24G", 24ull << 30},
        {"24g", 24ull << 30},
        {"1.5GiB", 3ull << 29},
        {"1.5 GiB", 3ull << 29},
        {"2kB", 2000},
        {"3MB", 3000000},
        {"1.25TB", 1250000000000ull},
        {"2T", 2ull << 40},
        {"0.5K", 512},
        {"18446744073709551615", SIZE_MAX},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t bytes = 1;
        if (mt_size_parse(cases[i].text, &bytes) != 0 || bytes != cases[i].bytes)
            fail_msg("%s was read as %zu", cases[i].text, bytes);
    }
}

static void what_is_no_size_is_refused(void **state)
{
    (void)state;
    static const char *const invalid[] = {"",     " ",  "G",    "-1",    "+1",   "1.",  ".5",
                                          "1..5", "1X", "1 G ", "1GiBs", "0x10", "1e3", "nan"};
    static const char *const large[] = {"18446744073709551616", "16777216T", "99999999999999999999999K"};
    size_t bytes = 77;
    for (size_t i = 0; i < sizeof invalid / sizeof *invalid; i++)
        assert_int_equal(mt_size_parse(invalid[i], &bytes), -EINVAL);
    for (size_t i = 0; i < sizeof large / sizeof *large; i++)
        assert_int_equal(mt_size_parse(large[i], &bytes), -ERANGE);
    assert_int_equal(bytes, 77);
}

static void sizes_are_written_with_one_decimal(void **state)
{
    (void)state;
    static const struct {
        size_t bytes;
        const char *text;
    } cases[] = {
        {0, "0 B"},
        {1023, "1023 B"},
        {1024, "1.0 KiB"},
        {1536, "1.5 KiB"},
        {1048575, "1.0 MiB"}, /* not "1024.0 KiB" */
        {24ull << 30, "24.0 GiB"},
        {SIZE_MAX, "16.0 EiB"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char buffer[32];
        assert_string_equal(mt_size_format(cases[i].bytes, buffer, sizeof buffer), cases[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arithmetic_reports_overflow),
        cmocka_unit_test(sizes_are_read_as_people_write_them),
        cmocka_unit_test(what_is_no_size_is_refused),
        cmocka_unit_test(sizes_are_written_with_one_decimal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
