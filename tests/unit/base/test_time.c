/* core/base/time.h */
#include "core/base/time.h"
#include "tests/unit/support.h"

#include <math.h>

static void times_are_written_as_rfc_3339(void **state)
{
    (void)state;
    static const struct {
        int64_t microseconds;
        const char *text;
    } cases[] = {
        {0, "1970-01-01T00:00:00.000Z"},
        {1769860800123999, "2026-01-31T12:00:00.123Z"},
        {951782399999999, "2000-02-28T23:59:59.999Z"},
        {951782400000000, "2000-02-29T00:00:00.000Z"}, /* a leap day */
        {-1, "1969-12-31T23:59:59.999Z"},
        {253402300799000000, "9999-12-31T23:59:59.000Z"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[MT_TIME_TEXT_BYTES];
        assert_string_equal(mt_time_format(cases[i].microseconds, text), cases[i].text);
    }
}

static void durations_read_as_people_say_them(void **state)
{
    static const struct {
        double seconds;
        const char *text;
    } cases[] = {{0, "0 s"},          {59.9, "59 s"},       {60, "1 min 00 s"},
                 {200, "3 min 20 s"}, {7500, "2 h 05 min"}, {273600, "3 d 4 h"},
                 {-1, "?"},           {NAN, "?"},           {INFINITY, "?"}};
    char text[MT_TIME_TEXT_BYTES];
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_string_equal(mt_time_duration(cases[i].seconds, text), cases[i].text);
}

static void clocks_run_forwards(void **state)
{
    (void)state;
    double start = mt_time_monotonic();
    int64_t wall = mt_time_unix_microseconds();
    assert_true(wall > 1600000000000000); /* after September 2020 */
    usleep(20000);
    assert_true(mt_time_monotonic() - start >= 0.02);
    assert_true(mt_time_unix_microseconds() > wall);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_are_written_as_rfc_3339),
        cmocka_unit_test(durations_read_as_people_say_them),
        cmocka_unit_test(clocks_run_forwards),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
