/* core/base/error.h */
#include "core/base/cleanup.h"
#include "tests/unit/support.h"

static void set_fills_everything_and_returns_the_code(void **state)
{
    (void)state;
    struct mt_error error;
    assert_int_equal(mt_error_set(&error, -EINVAL, MT_REASON_BAD_DATA, "row %d of %s", 7, "a.jsonl"),
                     -EINVAL);
    assert_int_equal(error.code, -EINVAL);
    assert_int_equal(error.reason, MT_REASON_BAD_DATA);
    assert_string_equal(error.message, "row 7 of a.jsonl");
    assert_int_equal(mt_error_set(NULL, -EPERM, MT_REASON_IO, "nobody listens"), -EPERM);
}

static void an_argument_may_be_the_old_message(void **state)
{
    (void)state;
    struct mt_error error;
    mt_error_set(&error, -EINVAL, MT_REASON_BAD_JOB, "inner");
    mt_error_set(&error, -EIO, MT_REASON_IO, "outer (%s)", error.message);
    assert_string_equal(error.message, "outer (inner)");
    assert_int_equal(mt_error_prefix(&error, "%s of %s", "part", error.message), -EIO);
    assert_string_equal(error.message, "part of outer (inner): outer (inner)");
}

static void errno_is_told_and_mapped(void **state)
{
    (void)state;
    static const struct {
        int number;
        enum mt_reason reason;
    } cases[] = {{ENOSPC, MT_REASON_DISK_FULL},
                 {EDQUOT, MT_REASON_DISK_FULL},
                 {ENOMEM, MT_REASON_OUT_OF_MEMORY},
                 {EACCES, MT_REASON_BAD_MODEL}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mt_error error;
        errno = cases[i].number;
        assert_int_equal(mt_error_set_errno(&error, MT_REASON_BAD_MODEL, "cannot read %s", "x"),
                         -cases[i].number);
        assert_int_equal(error.code, -cases[i].number);
        assert_int_equal(error.reason, cases[i].reason);
        char expected[128];
        snprintf(expected, sizeof expected, "cannot read x: %s", strerror(cases[i].number));
        assert_string_equal(error.message, expected);
    }
}

static void a_long_message_is_cut_between_characters(void **state)
{
    (void)state;
    /* Two-byte characters from an odd offset on: the last byte that fits would be half a character. */
    static char text[2 * MT_ERROR_MESSAGE_BYTES];
    for (size_t shift = 0; shift < 2; shift++) {
        size_t used = 0;
        while (used < shift)
            text[used++] = 'x';
        while (used + 2 < sizeof text) {
            memcpy(text + used, "\xc3\xa4", 2);
            used += 2;
        }
        text[used] = '\0';
        struct mt_error error;
        mt_error_set(&error, -EINVAL, MT_REASON_BAD_JOB, "%s", text);
        size_t length = strlen(error.message);
        assert_true(length >= MT_ERROR_MESSAGE_BYTES - 2);
        assert_int_equal((length - shift) % 2, 0);
        mt_error_prefix(&error, "where");
        assert_memory_equal(error.message, "where: ", 7);
        assert_int_equal((strlen(error.message) - 7 - shift) % 2, 0);
    }
}

static void bytes_that_are_no_utf8_become_question_marks(void **state)
{
    (void)state;
    static const struct {
        const char *text, *repaired;
    } cases[] = {
        {"plain", "plain"},
        {"\xff\xfe.jsonl: line 7", "??.jsonl: line 7"},
        {"caf\xe9", "caf?"},
        {"\xc3\xa4\xe2\x82\xac\xf0\x9f\xa6\x99", "\xc3\xa4\xe2\x82\xac\xf0\x9f\xa6\x99"},
        {"\xf0\x9f\xa6", "???"},           /* cut off */
        {"\xe2\x82x", "??x"},              /* cut off by another character */
        {"\xc0\x80\xe0\x80\x80", "?????"}, /* longer than needed */
        {"\xed\xa0\x80", "???"},           /* a surrogate */
        {"\xf4\x90\x80\x80\xf5", "?????"}, /* above U+10FFFF */
        {"\xed\x9f\xbf\xf4\x8f\xbf\xbf", "\xed\x9f\xbf\xf4\x8f\xbf\xbf"},
        {"\x80\xbf", "??"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct mt_error error;
        mt_error_set(&error, -EINVAL, MT_REASON_BAD_DATA, "%s", cases[i].text);
        assert_string_equal(error.message, cases[i].repaired);
        mt_error_prefix(&error, "%s", cases[i].text);
        mt_autojson json_t *value = json_string(error.message);
        assert_non_null(value);
    }
}

/* A terminal would obey them. */
static void control_characters_become_question_marks(void **state)
{
    (void)state;
    struct mt_error error;
    mt_error_set(&error, -EINVAL, MT_REASON_BAD_MODEL, "'%s'\nis\tthere", "\x1b[2J\x7f");
    assert_string_equal(error.message, "'?[2J?'\nis\tthere");
}

static void every_reason_has_a_name_and_an_exit_code(void **state)
{
    (void)state;
    assert_null(mt_reason_name(MT_REASON_NONE));
    assert_int_equal(mt_reason_exit_code(MT_REASON_NONE), 0);
    for (enum mt_reason reason = MT_REASON_USAGE; reason <= MT_REASON_INTERNAL; reason++) {
        assert_non_null(mt_reason_name(reason));
        assert_in_range(mt_reason_exit_code(reason), 64, 78);
    }
    assert_string_equal(mt_reason_name(MT_REASON_DISK_FULL), "disk_full");
    assert_int_equal(mt_reason_exit_code(MT_REASON_BAD_JOB), 78);
    assert_int_equal(mt_reason_exit_code(MT_REASON_INTERRUPTED), 75);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(set_fills_everything_and_returns_the_code),
        cmocka_unit_test(an_argument_may_be_the_old_message),
        cmocka_unit_test(errno_is_told_and_mapped),
        cmocka_unit_test(a_long_message_is_cut_between_characters),
        cmocka_unit_test(bytes_that_are_no_utf8_become_question_marks),
        cmocka_unit_test(control_characters_become_question_marks),
        cmocka_unit_test(every_reason_has_a_name_and_an_exit_code),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
