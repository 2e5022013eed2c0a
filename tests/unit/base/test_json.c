/* The JSON half of core/base/document.h, pointers, and word distance. */
#include "core/base/cleanup.h"
#include "core/base/document.h"
#include "tests/unit/support.h"

static void values_are_read_as_they_are(void **state)
{
    (void)state;
    static const char *const texts[] = {"{\"a\":[1,-2,0.5,1e3,true,false,null,\"\\u00e4\\n\"]}", "[]", "3",
                                        " \"x\" "};
    static const char *const expected[] = {"{\"a\":[1,-2,0.5,1000.0,true,false,null,\"\xc3\xa4\\n\"]}", "[]",
                                           "3", "\"x\""};
    for (size_t i = 0; i < 4; i++) {
        struct mt_error error;
        mt_autojson json_t *value = NULL;
        mt_assert_ok(mt_json_parse(texts[i], strlen(texts[i]), "text", &value, &error), &error);
        mt_autofree char *dump = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
        assert_string_equal(dump, expected[i]);
    }
}

/* Python writes whole numbers of any size: model_max_length of most tokenizers on the hub. */
static void whole_numbers_beyond_64_bits_are_read_as_fractions(void **state)
{
    (void)state;
    static const char text[] =
        "{\"model_max_length\": 1000000000000000019884624838656, \"9999999999999999999999\": "
        "[-99999999999999999999, 12345678901234567890.5e-3, 0.99999999999999999999, 7, "
        "\"\\\"88888888888888888888\"]}";
    struct mt_error error = {0};
    mt_autojson json_t *value = NULL;
    mt_assert_ok(mt_json_parse(text, strlen(text), "text", &value, &error), &error);
    assert_true(json_real_value(json_object_get(value, "model_max_length")) == 1e30);
    const json_t *list = json_object_get(value, "9999999999999999999999");
    assert_true(json_real_value(json_array_get(list, 0)) == -1e20);
    assert_true(json_real_value(json_array_get(list, 1)) == 12345678901234567890.5e-3);
    assert_true(json_real_value(json_array_get(list, 2)) == 1.0);
    assert_true(json_is_integer(json_array_get(list, 3)));
    assert_string_equal(json_string_value(json_array_get(list, 4)), "\"88888888888888888888");
}

/* Only those that need it: an identifier of 19 digits beside them stays what it is. */
static void whole_numbers_keep_their_digits_where_that_is_asked_for(void **state)
{
    (void)state;
    static const char text[] =
        "[9223372036854775807, -9223372036854775808, 9223372036854775808, -9223372036854775809, "
        "1234567890123456789012345678901234567890, 1e5, {\"\\u0001whole\": \"5\"}, "
        "\"99999999999999999999\"]";
    struct mt_error error = {0};
    for (int exact = 0; exact < 2; exact++) {
        mt_autojson json_t *value = NULL;
        mt_assert_ok(
            (exact ? mt_json_parse_exact : mt_json_parse)(text, strlen(text), "text", &value, &error),
            &error);
        assert_true(json_integer_value(json_array_get(value, 0)) == INT64_MAX);
        assert_true(json_integer_value(json_array_get(value, 1)) == INT64_MIN);
        const char *digits = mt_json_digits(json_array_get(value, 2));
        if (!exact) {
            assert_true(json_real_value(json_array_get(value, 2)) == 0x1p63);
            continue;
        }
        assert_non_null(digits);
        assert_string_equal(digits, "9223372036854775808");
        assert_string_equal(mt_json_digits(json_array_get(value, 3)), "-9223372036854775809");
        assert_string_equal(mt_json_digits(json_array_get(value, 4)),
                            "1234567890123456789012345678901234567890");
        for (size_t i = 5; i < 8; i++)
            assert_null(mt_json_digits(json_array_get(value, i)));
        assert_true(json_is_real(json_array_get(value, 5)));
    }
}

/* What such numbers are replaced by must not make JSON of what is none. */
static void digits_that_are_no_number_stay_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "[99999999999999999999, 00000000000000000000001]",
        "[99999999999999999999, -00000000000000000000001]",
        "[99999999999999999999 99999999999999999999]",
        "[99999999999999999999, 1-99999999999999999999]",
        "[99999999999999999999, --99999999999999999999]",
        "[99999999999999999999, +99999999999999999999]",
        "{99999999999999999999: 1}",
    };
    for (size_t i = 0; i < 2 * sizeof texts / sizeof *texts; i++) {
        const char *text = texts[i / 2];
        struct mt_error error = {0};
        json_t *value = NULL;
        if ((i % 2 ? mt_json_parse_exact : mt_json_parse)(text, strlen(text), "text", &value, &error) !=
            -EINVAL)
            fail_msg("%s was read", text);
    }
}

static void expect_refusal(const char *text, size_t bytes, const char *mention)
{
    struct mt_error error = {0};
    json_t *value = NULL;
    /* A copy of just these bytes: reading past them would be found. */
    mt_autofree char *exact = malloc(bytes > 0 ? bytes : 1);
    memcpy(exact, text, bytes);
    assert_int_equal(mt_json_parse(exact, bytes, "job.json", &value, &error), -EINVAL);
    assert_int_equal(error.reason, MT_REASON_BAD_JOB);
    assert_null(value);
    mt_assert_mentions(error.message, "job.json");
    mt_assert_mentions(error.message, mention);
}

static void what_is_not_json_is_refused_with_line_and_column(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"{\n  \"a\": 1,\n  b: 2\n}", "line 3, column 3"},
        {"{\"a\": 1,\n \"a\": 2}", "line 2, column 4: duplicate"},
        {"{} {}", "line 1, column 4"},
        {"[1,]", "line 1"},
        {"[NaN]", "line 1"},
        {"[Infinity]", "line 1"},
        {"[1e999]", "line 1"},
        {"[99999999999999999999, 1e999]", "line 1"},
        {"[99999999999999999999 x", "line 1"},
        {"[01]", "line 1"},
        {"'x'", "line 1"},
        {"{\"a\": 1", "line 1"},
        {"[\"\xff\"]", "decode byte 0xff"},
        {"[\"\xed\xa0\x80\"]", "decode byte 0xed"},
        {"[\"\\ud800\"]", "line 1"},
        {"[\"\\u0000\"]", "line 1"},
        {"// comment\n1", "line 1"},
        {"\xef\xbb\xbf{}", "line 1"},
        {"", "is empty"},
        {" \n\t ", "is empty"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_refusal(cases[i][0], strlen(cases[i][0]), cases[i][1]);
    expect_refusal("[1]\0", 4, "line 1");
    expect_refusal("{\"a\0b\":1}", 9, "line 1");
}

static void depth_is_bounded(void **state)
{
    (void)state;
    enum { DEEPEST = 256, FAR = 200000 };
    static char text[FAR];
    struct mt_error error;
    memset(text, '[', DEEPEST);
    memset(text + DEEPEST, ']', DEEPEST);
    mt_autojson json_t *value = NULL;
    mt_assert_ok(mt_json_parse(text, (size_t)2 * DEEPEST, "text", &value, &error), &error);
    memset(text, '[', DEEPEST + 1);
    memset(text + DEEPEST + 1, ']', DEEPEST + 1);
    expect_refusal(text, (size_t)2 * (DEEPEST + 1), "line 1, column 257: nested more than 256 deep");
    memset(text, '[', FAR);
    expect_refusal(text, FAR, "256 deep");
    for (size_t i = 0; i + 5 <= FAR; i += 5)
        memcpy(text + i, "{\"a\":", 5);
    expect_refusal(text, FAR, "256 deep");
    /* Brackets in strings do not count, escaped quotes do not end one. */
    text[0] = text[1] = '"';
    text[1] = '\\';
    text[2] = '"';
    memset(text + 3, '[', 1000);
    text[1003] = '"';
    mt_autojson json_t *string = NULL;
    mt_assert_ok(mt_json_parse(text, 1004, "text", &string, &error), &error);
}

static void pointers_are_built_and_followed(void **state)
{
    (void)state;
    const char *text = "{\"a/b\": {\"~\": [10, {\"\": 7}]}, \"0\": 1, \"~1\": 2}";
    mt_autojson json_t *value = NULL;
    assert_int_equal(mt_json_parse(text, strlen(text), "text", &value, NULL), 0);
    char pointer[64] = "";
    assert_true(mt_pointer_append(pointer, sizeof pointer, "a/b"));
    assert_true(mt_pointer_append(pointer, sizeof pointer, "~"));
    assert_string_equal(pointer, "/a~1b/~0");
    assert_true(mt_pointer_append(pointer, sizeof pointer, "1"));
    assert_true(mt_pointer_append(pointer, sizeof pointer, ""));
    assert_string_equal(pointer, "/a~1b/~0/1/");
    assert_int_equal(json_integer_value(mt_pointer_get(value, pointer)), 7);
    assert_ptr_equal(mt_pointer_get(value, ""), value);
    assert_int_equal(json_integer_value(mt_pointer_get(value, "/0")), 1);
    assert_int_equal(json_integer_value(mt_pointer_get(value, "/~01")), 2);
    static const char *const absent[] = {
        "/a",          "a~1b",         "/a~1b/~0/2",  "/a~1b/~0/-",
        "/a~1b/~0/01", "/a~1b/~0/0/x", "/a~1b/~0/+0", "/a~1b/~0/18446744073709551616"};
    for (size_t i = 0; i < sizeof absent / sizeof *absent; i++)
        assert_null(mt_pointer_get(value, absent[i]));
}

static void a_pointer_that_does_not_fit_stays_as_it_was(void **state)
{
    (void)state;
    char pointer[8] = "/ab";
    assert_false(mt_pointer_append(pointer, sizeof pointer, "cdef"));
    assert_string_equal(pointer, "/ab");
    assert_false(mt_pointer_append(pointer, sizeof pointer, "c/~"));
    assert_string_equal(pointer, "/ab");
    assert_true(mt_pointer_append(pointer, sizeof pointer, "c/"));
    assert_string_equal(pointer, "/ab/c~1");
    assert_false(mt_pointer_append(pointer, sizeof pointer, ""));
    assert_string_equal(pointer, "/ab/c~1");
}

static void a_file_is_read_by_its_name(void **state)
{
    struct mt_error error;
    static const struct {
        const char *name, *text;
    } files[] = {
        {"job.json", "{\n \"rate\": 3e-4,\n \"name\": \"x\"\n}"},
        {"marked.json", "\xef\xbb\xbf{\n \"rate\": 3e-4,\n \"name\": \"x\"\n}"},
        {"job.yaml", "# a comment\nrate: 3e-4\nname: x\n"},
        {"marked.yml", "\xef\xbb\xbf# a comment\nrate: 3e-4\nname: x\n"},
        {"windows.yaml", "# a comment\r\nrate: 3e-4\r\nname: x\r\n"},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        const char *path = mt_test_path(state, files[i].name);
        mt_assert_ok(mt_file_write_atomic(path, files[i].text, strlen(files[i].text), 0600, &error), &error);
        mt_autojson json_t *value = NULL;
        struct mt_lines *lines = NULL;
        mt_assert_ok(mt_document_read(path, &value, &lines, &error), &error);
        assert_true(json_real_value(json_object_get(value, "rate")) == 3e-4);
        assert_string_equal(json_string_value(json_object_get(value, "name")), "x");
        assert_int_equal(mt_lines_find(lines, "/name"), 3);
        assert_int_equal(mt_lines_find(lines, "/absent"), 0);
        mt_lines_free(lines);
    }
    json_t *value = NULL;
    assert_int_equal(mt_document_read(mt_test_path(state, "absent.yaml"), &value, NULL, &error), -ENOENT);
    assert_int_equal(error.reason, MT_REASON_BAD_JOB);
    mt_assert_mentions(error.message, "absent.yaml");
    /* .json is strict JSON, although YAML would read it. */
    const char *loose = mt_test_path(state, "loose.json");
    mt_assert_ok(mt_file_write_atomic(loose, "{a: 1}", 6, 0600, &error), &error);
    assert_int_equal(mt_document_read(loose, &value, NULL, &error), -EINVAL);
    mt_assert_mentions(error.message, "line 1, column 2");
}

static void a_byte_order_mark_before_a_file_is_passed_over(void **state)
{
    struct mt_error error = {0};
    const char *path = mt_test_path(state, "marked.json");
    mt_autojson json_t *value = NULL;
    mt_assert_ok(mt_file_write_atomic(path, "\xef\xbb\xbf[7]", 6, 0600, &error), &error);
    mt_assert_ok(mt_json_read(path, MT_REASON_BAD_DATA, &value, &error), &error);
    assert_int_equal(json_integer_value(json_array_get(value, 0)), 7);
    mt_assert_ok(mt_file_write_atomic(path, "\xef\xbb\xbf", 3, 0600, &error), &error);
    json_t *none = NULL;
    assert_int_equal(mt_json_read(path, MT_REASON_BAD_DATA, &none, &error), -EINVAL);
    mt_assert_mentions(error.message, "is empty");
    assert_int_equal(error.reason, MT_REASON_BAD_DATA);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_read_as_they_are),
        cmocka_unit_test(whole_numbers_beyond_64_bits_are_read_as_fractions),
        cmocka_unit_test(whole_numbers_keep_their_digits_where_that_is_asked_for),
        cmocka_unit_test(digits_that_are_no_number_stay_refused),
        cmocka_unit_test(what_is_not_json_is_refused_with_line_and_column),
        cmocka_unit_test(depth_is_bounded),
        cmocka_unit_test(pointers_are_built_and_followed),
        cmocka_unit_test(a_pointer_that_does_not_fit_stays_as_it_was),
        mt_test_in_folder(a_file_is_read_by_its_name),
        mt_test_in_folder(a_byte_order_mark_before_a_file_is_passed_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
