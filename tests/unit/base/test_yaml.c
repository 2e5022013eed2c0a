/* The YAML half of core/base/document.h: the 1.2 core schema, what is refused, and lines. */
#include "core/base/cleanup.h"
#include "core/base/document.h"
#include "tests/unit/support.h"

static json_t *parse(const char *text, struct mt_lines **lines)
{
    struct mt_error error;
    json_t *value = NULL;
    mt_assert_ok(mt_yaml_parse(text, strlen(text), "text", &value, lines, &error), &error);
    return value;
}

/* What text means, as compact JSON. */
static void expect(const char *text, const char *json)
{
    mt_autojson json_t *value = parse(text, NULL);
    mt_autofree char *dump = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    if (strcmp(dump, json) != 0)
        fail_msg("%s means %s, not %s", text, dump, json);
}

static void scalars_follow_the_core_schema(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"null", "null"},
        {"Null", "null"},
        {"NULL", "null"},
        {"~", "null"},
        {"nULL", "\"nULL\""},
        {"true", "true"},
        {"True", "true"},
        {"TRUE", "true"},
        {"false", "false"},
        {"False", "false"},
        {"FALSE", "false"},
        {"tRUE", "\"tRUE\""},
        /* YAML 1.1's booleans are words. */
        {"on", "\"on\""},
        {"off", "\"off\""},
        {"yes", "\"yes\""},
        {"No", "\"No\""},
        {"y", "\"y\""},
        {"0", "0"},
        {"-0", "0"},
        {"+12", "12"},
        {"-19", "-19"},
        {"007", "7"},
        {"0o17", "15"},
        {"0o8", "\"0o8\""},
        {"0x1F", "31"},
        {"0xdeadBEEF", "3735928559"},
        {"0xg", "\"0xg\""},
        {"-0x1F", "\"-0x1F\""},
        {"0x", "\"0x\""},
        {"9223372036854775807", "9223372036854775807"},
        {"-9223372036854775808", "-9223372036854775808"},
        /* YAML 1.1's forms with underscores, colons and 0b are words. */
        {"1_000", "\"1_000\""},
        {"190:20:30", "\"190:20:30\""},
        {"0b101", "\"0b101\""},
        {".5", "0.5"},
        {"-.5", "-0.5"},
        {"+.5", "0.5"},
        {"0.", "0.0"},
        {"1.", "1.0"},
        {"-0.0", "-0.0"},
        {"12e03", "12000.0"},
        {"1e3", "1000.0"},
        {"-2E+05", "-200000.0"},
        {"1.5e2", "150.0"},
        {"00.25", "0.25"},
        {"1.e2", "100.0"},
        {".5e1", "5.0"},
        {".", "\".\""},
        {"+", "\"+\""},
        {"-e5", "\"-e5\""},
        {"1e", "\"1e\""},
        {"1e+", "\"1e+\""},
        {"1.2.3", "\"1.2.3\""},
        {"1e-400", "0.0"},
        {".nan", "\".nan\""},
        {".NaN", "\".nan\""},
        {".inf", "\".inf\""},
        {"+.Inf", "\".inf\""},
        {"-.INF", "\"-.inf\""},
        {"nan", "\"nan\""},
        {"inf", "\"inf\""},
        {"'3'", "\"3\""},
        {"\"true\"", "\"true\""},
        {"'null'", "\"null\""},
        {"''", "\"\""},
        {"\"\\x41\\u00e4\"", "\"A\xc3\xa4\""},
        {"'it''s'", "\"it's\""},
        {"a b c", "\"a b c\""},
        {"2026-01-31", "\"2026-01-31\""},
        {"=", "\"=\""},
        {"!!str 3", "\"3\""},
        {"! 3", "\"3\""},
        {"!!float 3", "3.0"},
        {"!!int '3'", "3"},
        {"!!bool 'true'", "true"},
        {"!!null ''", "null"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect(cases[i][0], cases[i][1]);
}

static void numbers_are_exact(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double value;
    } cases[] = {{"3e-4", 3e-4}, {"1.0e-5", 1e-5},   {"0.999", 0.999},
                 {"1e-8", 1e-8}, {"5e-324", 5e-324}, {"1.7976931348623157e308", 1.7976931348623157e308},
                 {"0.1", 0.1},   {"000.1", 0.1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mt_autojson json_t *value = parse(cases[i].text, NULL);
        assert_true(json_is_real(value));
        assert_true(json_real_value(value) == cases[i].value);
    }
}

static void collections_nest(void **state)
{
    (void)state;
    expect("a:\n  b: [1, {c: x}]\n  d:\n  - e\n  -\n  - f: 1\n    g:\nh: {}\ni: []\n",
           "{\"a\":{\"b\":[1,{\"c\":\"x\"}],\"d\":[\"e\",null,{\"f\":1,\"g\":null}]},\"h\":{},\"i\":[]}");
    expect("---\n# only\nx: |\n  two\n  lines\ny: >-\n  one\n  line\n...\n",
           "{\"x\":\"two\\nlines\\n\",\"y\":\"one line\"}");
    expect("{\"json\": [1, 2.5, null, true, \"s\"]}", "{\"json\":[1,2.5,null,true,\"s\"]}");
    expect("%YAML 1.2\n---\n!!map {a: !!seq [1]}\n", "{\"a\":[1]}");
    /* Keys are their text, whatever they would be as values. */
    expect("1: a\ntrue: b\n'null': c\n", "{\"1\":\"a\",\"true\":\"b\",\"null\":\"c\"}");
}

static void anchors_stand_for_values_and_are_copied(void **state)
{
    (void)state;
    expect("a: &x {k: [1]}\nb: *x\nc: &x 2\nd: *x\n",
           "{\"a\":{\"k\":[1]},\"b\":{\"k\":[1]},\"c\":2,\"d\":2}");
    mt_autojson json_t *value = parse("a: &x {k: 1}\nb: *x\n", NULL);
    json_object_set_new(json_object_get(value, "a"), "k", json_integer(5));
    assert_int_equal(json_integer_value(mt_pointer_get(value, "/b/k")), 1);
}

static void lines_are_those_of_the_keys(void **state)
{
    (void)state;
    struct mt_lines *lines = NULL;
    mt_autojson json_t *value = parse("# comment\n"
                                      "model:\n"
                                      "  path: x\n"
                                      "  'a/b': {c: 1,\n"
                                      "    d: 2}\n"
                                      "list:\n"
                                      "  - 1\n"
                                      "  - q: &anchor\n"
                                      "      r: 3\n"
                                      "again: *anchor\n",
                                      &lines);
    assert_non_null(value);
    static const struct {
        const char *pointer;
        int line;
    } cases[] = {{"/model", 2},        {"/model/path", 3}, {"/model/a~1b", 4}, {"/model/a~1b/c", 4},
                 {"/model/a~1b/d", 5}, {"/list/0", 7},     {"/list/1", 8},     {"/list/1/q/r", 9},
                 {"/again", 10},       {"/again/r", 9},    {"/model/x", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(mt_lines_find(lines, cases[i].pointer), cases[i].line);
    assert_int_equal(mt_lines_find(NULL, "/model"), 0);
    mt_lines_free(lines);
    mt_lines_free(NULL);
}

static void expect_refusal(const char *text, size_t bytes, const char *mention)
{
    struct mt_error error = {0};
    json_t *value = NULL;
    struct mt_lines *lines = NULL;
    mt_autofree char *exact = malloc(bytes > 0 ? bytes : 1);
    memcpy(exact, text, bytes);
    if (mt_yaml_parse(exact, bytes, "job.yaml", &value, &lines, &error) != -EINVAL)
        fail_msg("was not refused: %.200s", text);
    assert_int_equal(error.reason, MT_REASON_BAD_JOB);
    assert_null(value);
    assert_null(lines);
    mt_assert_mentions(error.message, "job.yaml");
    mt_assert_mentions(error.message, mention);
}

static void what_cannot_be_meant_is_refused_with_its_line(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"a: 1\nb: 2\na: 3\n", "line 3: duplicate key \"a\" (first on line 1)"},
        {"a: {b: 1,\n b: 2}", "line 2: duplicate key \"b\""},
        {"1: x\n'1': y\n", "line 2: duplicate key \"1\""},
        {"x: &x {a: 1}\ny:\n  <<: *x\n", "line 3: merge keys"},
        {"a: 1\n---\nb: 2\n", "line 2: a second document"},
        {"? [a]\n: 1\n", "line 1: a key must be a word"},
        {"a: &x k\n*x : 1\n", "line 2: a key must be a word"},
        {"a: *nowhere\n", "line 1: the alias *nowhere"},
        {"a: &x [*x]\n", "line 1: the alias *x"},
        {"a: !!python/object:os.system x\n", "line 1: the tag"},
        {"a: !mine x\n", "line 1: the tag !mine"},
        {"a: !!set {b}\n", "line 1: the tag"},
        {"a: !!int x\n", "line 1: \"x\" is not of the type int"},
        {"a: !!float nope\n", "line 1: \"nope\" is not of the type float"},
        {"a: 9223372036854775808\n", "line 1: the number 9223372036854775808 does not fit"},
        {"a: -9223372036854775809\n", "line 1: the number"},
        {"a: 0xFFFFFFFFFFFFFFFFF\n", "line 1: the number"},
        {"\na: 1e999\n", "line 2: the number 1e999 is too large"},
        {"a: \"\\0\"\n", "line 1: a zero byte"},
        {"a: [1, 2\nb: 3\n", "line 2"},
        {"a:\n\t- 1\n", "line 2, column 1"},
        {"a: b: c\n", "line 1, column 5"},
        {"a: 'x\n", "line 2"},
        {"a: \xff\n", "line 1"},
        {"a: 1\nb: x\x01y\n", "line 2: control characters"},
        {"- a\nb: 1\n", "line 2"},
        {"", "is empty"},
        {"# nothing but a comment\n", "is empty"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_refusal(cases[i][0], strlen(cases[i][0]), cases[i][1]);
}

static void alias_bombs_and_deep_nesting_are_refused(void **state)
{
    (void)state;
    /* Ten values, ten aliases of them, ten of those...: 10^9 values from 400 bytes. */
    char text[4096] = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
    for (int i = 1; i < 9; i++) {
        char line[200];
        int used = snprintf(line, sizeof line, "a%d: &a%d [", i, i);
        for (int j = 0; j < 10; j++)
            used += snprintf(line + used, sizeof line - (size_t)used, "%s*a%d", j ? ", " : "", i - 1);
        snprintf(line + used, sizeof line - (size_t)used, "]\n");
        strncat(text, line, sizeof text - strlen(text) - 1);
    }
    expect_refusal(text, strlen(text), "more than 100000 values");
    enum { FAR = 100000 };
    static char deep[FAR];
    memset(deep, '[', FAR);
    expect_refusal(deep, FAR, "256 deep");
    for (size_t i = 0; i + 2 <= FAR; i += 2)
        memcpy(deep + i, "- ", 2);
    expect_refusal(deep, FAR, "256 deep");
    /* Depth by aliases: each names the one before. */
    static char chain[FAR];
    size_t used = (size_t)snprintf(chain, sizeof chain, "a0: &a0 [1]\n");
    for (int i = 1; i < 300; i++)
        used += (size_t)snprintf(chain + used, sizeof chain - used, "a%d: &a%d [*a%d]\n", i, i, i - 1);
    expect_refusal(chain, used, "256 deep, aliases expanded");
}

static void many_keys_are_read_in_good_time(void **state)
{
    (void)state;
    enum { KEYS = 90000 };
    const size_t capacity = (size_t)KEYS * 18;
    char *text = malloc(capacity);
    size_t used = 0;
    for (int i = 0; i < KEYS; i++)
        used += (size_t)snprintf(text + used, capacity - used, "key%d: %d\n", i, i);
    mt_autojson json_t *value = NULL;
    struct mt_error error;
    mt_assert_ok(mt_yaml_parse(text, used, "text", &value, NULL, &error), &error);
    assert_int_equal(json_object_size(value), KEYS);
    free(text);
}

static void broken_inputs_never_crash(void **state)
{
    (void)state;
    /* Every prefix of a document, and every byte of it replaced: read or refused, nothing leaked. */
    static const char text[] =
        "%YAML 1.2\n---\na: &x {k: [1, 2.5e3, 'q']}\nb: *x\nc: !!str |\n  text\n\"d\\u00e4\": ~\n...\n";
    static const char replacements[] = {'\0', '\n', '"', '\'',   '{',  ']', ':',
                                        '&',  '*',  '!', '\xff', '\t', '-', '<'};
    char broken[sizeof text];
    for (size_t i = 0; i < sizeof text; i++) {
        for (size_t j = 0; j <= sizeof replacements; j++) {
            memcpy(broken, text, sizeof text);
            size_t bytes = j < sizeof replacements ? sizeof text - 1 : i;
            if (j < sizeof replacements)
                broken[i] = replacements[j];
            mt_autojson json_t *value = NULL;
            struct mt_lines *lines = NULL;
            struct mt_error error = {0};
            int result = mt_yaml_parse(broken, bytes, "text", &value, &lines, &error);
            assert_true((result == 0) == (value != NULL));
            assert_true((result == 0) == (lines != NULL));
            assert_true((result == 0) == (error.message[0] == '\0'));
            mt_lines_free(lines);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scalars_follow_the_core_schema),
        cmocka_unit_test(numbers_are_exact),
        cmocka_unit_test(collections_nest),
        cmocka_unit_test(anchors_stand_for_values_and_are_copied),
        cmocka_unit_test(lines_are_those_of_the_keys),
        cmocka_unit_test(what_cannot_be_meant_is_refused_with_its_line),
        cmocka_unit_test(alias_bombs_and_deep_nesting_are_refused),
        cmocka_unit_test(many_keys_are_read_in_good_time),
        cmocka_unit_test(broken_inputs_never_crash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
