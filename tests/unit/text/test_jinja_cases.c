/* Several hundred small templates render as jinja2 rendered them (tests/fuzz/jinja_differential.py made the
 * file). */
#include "core/base/cleanup.h"
#include "core/base/document.h"
#include "core/text/jinja/jinja.h"
#include "tests/unit/support.h"

#define CASES "tests/golden/jinja/cases.json"

static json_t *load_cases(void)
{
    json_error_t why = {0};
    struct mt_error error = {0};
    mt_autofree char *text = NULL;
    size_t bytes;
    mt_assert_ok(mt_file_read(CASES, (size_t)16 << 20, &text, &bytes, &error), &error);
    json_t *cases = mt_json_load(text, bytes, JSON_ALLOW_NUL, &why);
    if (!cases)
        fail_msg("%s: %s", CASES, why.text);
    return cases;
}

/* The case's text, or NULL with the error's sentence. */
static const char *render_case(const json_t *source, const json_t *variables, struct mt_jinja_output *output,
                               struct mt_error *error)
{
    struct mt_jinja_template *template = NULL;
    int r = mt_jinja_parse(json_string_value(source), json_string_length(source), "case", &template, error);
    if (r == 0)
        r = mt_jinja_render(template, variables, NULL, output, error);
    mt_jinja_free(template);
    return r == 0 ? output->text.data : NULL;
}

static void renders_as_jinja2(void **state)
{
    (void)state;
    mt_autojson json_t *file = load_cases();
    const json_t *variables = json_object_get(file, "variables"), *cases = json_object_get(file, "cases");
    struct mt_jinja_output output = {0};
    size_t index, rendered = 0, failed = 0, wrong = 0;
    json_t *one;
    json_array_foreach(cases, index, one)
    {
        struct mt_error error = {0};
        const json_t *source = json_object_get(one, "template"), *text = json_object_get(one, "text");
        const char *got = render_case(source, variables, &output, &error);
        if (!text) {
            failed += !got;
            wrong += got != NULL;
            if (got)
                print_error("must fail: %s\n", json_string_value(source));
            continue;
        }
        rendered++;
        if (!got || output.text.bytes != json_string_length(text) ||
            memcmp(got, json_string_value(text), output.text.bytes) != 0) {
            wrong++;
            print_error("%s\n  gives %s\n  not   %s\n", json_string_value(source), got ? got : error.message,
                        json_string_value(text));
        }
    }
    mt_jinja_output_free(&output);
    assert_int_equal(wrong, 0);
    assert_true(rendered > 500);
    assert_true(failed > 40);
}

/* Damaged templates end in an answer or in an error with its place, never in anything else (under the
 * sanitizers of `make asan` too). */
static void survives_damaged_templates(void **state)
{
    (void)state;
    mt_autojson json_t *file = load_cases();
    const json_t *variables = json_object_get(file, "variables"), *cases = json_object_get(file, "cases");
    static const char *const pieces[] = {"{{",    "}}",   "{%", "%}", "{#", "#}",   "-", "|",    "(",
                                         ")",     "[",    "]",  "'",  "\\", "\xff", "*", "for ", "endif",
                                         "loop.", " is ", "~",  "{",  "}",  "%",    "\n"};
    const struct mt_jinja_limits limits = {
        .steps = 20000, .memory_bytes = (size_t)4 << 20, .output_bytes = (size_t)1 << 20, .depth = 200};
    const struct mt_jinja_options options = {.limits = &limits};
    struct mt_jinja_output output = {0};
    unsigned random = 12345;
    for (size_t round = 0; round < 6000; round++) {
        const json_t *source =
            json_object_get(json_array_get(cases, round % json_array_size(cases)), "template");
        mt_autofree char *text = strndup(json_string_value(source), json_string_length(source));
        assert_non_null(text);
        size_t length = strlen(text);
        for (int change = 0; change < 3 && length > 2; change++) {
            random = random * 1103515245 + 12345;
            const size_t at = random / 65536 % length;
            const char *piece = pieces[random / 7 % (sizeof pieces / sizeof *pieces)];
            const size_t bytes = strlen(piece) < length - at ? strlen(piece) : length - at;
            if (random / 3 % 3 == 0)
                memmove(text + at, text + at + 1, length-- - at);
            else
                memcpy(text + at, piece, bytes);
        }
        struct mt_error error = {0};
        struct mt_jinja_template *template = NULL;
        int r = mt_jinja_parse(text, length, "damaged", &template, &error);
        if (r == 0)
            r = mt_jinja_render(template, variables, &options, &output, &error);
        mt_jinja_free(template);
        if (r < 0)
            mt_assert_mentions(error.message, "damaged:");
    }
    mt_jinja_output_free(&output);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(renders_as_jinja2),
        cmocka_unit_test(survives_damaged_templates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
