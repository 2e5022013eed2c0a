/* What jinja2 can't tell: the places of errors, the bounds, the generation spans, and what is refused. */
#include "core/base/cleanup.h"
#include "core/text/jinja/jinja.h"
#include "tests/unit/support.h"

static int render_with(const char *source, const char *json, const struct mt_jinja_options *options,
                       struct mt_jinja_output *output, struct mt_error *error)
{
    mt_autojson json_t *variables = json_loads(json, 0, NULL);
    struct mt_jinja_template *template = NULL;
    assert_non_null(variables);
    int r = mt_jinja_parse(source, strlen(source), "t", &template, error);
    if (r == 0)
        r = mt_jinja_render(template, variables, options, output, error);
    mt_jinja_free(template);
    return r;
}

static void expect_text(const char *source, const char *json, const char *text)
{
    struct mt_jinja_output output = {0};
    struct mt_error error = {0};
    mt_assert_ok(render_with(source, json, NULL, &output, &error), &error);
    assert_string_equal(output.text.data, text);
    mt_jinja_output_free(&output);
}

static void expect_error(const char *source, int code, enum mt_reason reason, const char *place,
                         const char *word)
{
    struct mt_jinja_output output = {0};
    struct mt_error error = {0};
    const int r =
        render_with(source, "{\"l\": [1, 2], \"d\": {\"a\": 1}, \"s\": \"text\"}", NULL, &output, &error);
    if (r != code || error.reason != reason || strncmp(error.message, place, strlen(place)) != 0)
        fail_msg("%s: %d %d \"%s\" instead of %d at %s", source, r, (int)error.reason, error.message, code,
                 place);
    mt_assert_mentions(error.message, word);
    mt_jinja_output_free(&output);
}

static void names_the_place_of_an_error(void **state)
{
    (void)state;
    expect_error("a\n  {{ s }} {% if %}", -EINVAL, MT_REASON_BAD_MODEL, "t:2:17:", "`%}`");
    expect_error("{% for x in l %}\n{{ x }}", -EINVAL, MT_REASON_BAD_MODEL, "t:1:4:", "endfor");
    expect_error("é日{{ s | nothing }}", -EINVAL, MT_REASON_BAD_MODEL, "t:1:10:", "nothing");
    expect_error("{{ s\n.x.y }}", -EDOM, MT_REASON_BAD_DATA, "t:2:3:", "'x'");
    expect_error("{% macro m() %}{{ 1 + s }}{% endmacro %}\n{{ m() }}", -EDOM, MT_REASON_BAD_DATA,
                 "t:1:21:", "int");
    expect_error("{{ 'abc }}", -EINVAL, MT_REASON_BAD_MODEL, "t:1:4:", "quote");
    expect_error("\n\n{# never ends", -EINVAL, MT_REASON_BAD_MODEL, "t:3:1:", "comment");
    expect_error("{{ missing.x }}", -EDOM, MT_REASON_BAD_DATA, "t:1:11:", "'missing' is undefined");
    expect_error("\xff{{ s }}", -EINVAL, MT_REASON_BAD_MODEL, "t:", "UTF-8");
}

static void tells_the_words_of_raise_exception(void **state)
{
    (void)state;
    expect_error("{% if true %}\n{{ raise_exception('Roles must ' ~ 'alternate') }}{% endif %}", -EINVAL,
                 MT_REASON_BAD_DATA, "t:2:19:", "Roles must alternate");
}

static void refuses_what_it_does_not_support_by_name(void **state)
{
    (void)state;
    expect_error("{% block x %}{% endblock %}", -ENOTSUP, MT_REASON_BAD_MODEL, "t:1:4:", "block");
    expect_error("x{% include 'y' %}", -ENOTSUP, MT_REASON_BAD_MODEL, "t:1:5:", "include");
    expect_error("{{ l|pprint }}", -ENOTSUP, MT_REASON_BAD_MODEL, "t:1:6:", "pprint");
    expect_error("{{ s.encode() }}", -ENOTSUP, MT_REASON_BAD_MODEL, "t:1:5:", "encode");
    expect_error("{{ 9223372036854775807 + 1 }}", -ENOTSUP, MT_REASON_BAD_MODEL, "t:1:24:", "64 bits");
    expect_error("{{ 9223372036854775808 }}", -ENOTSUP, MT_REASON_BAD_MODEL, "t:1:4:", "64 bits");
    expect_error("{{ l|select('odd') }}", -ENOTSUP, MT_REASON_BAD_MODEL, "t:1:1:", "generator");
    expect_error("{% unheard %}", -EINVAL, MT_REASON_BAD_MODEL, "t:1:4:", "unheard");
}

static void keeps_the_sandbox_closed(void **state)
{
    (void)state;
    expect_error("{{ l.append(3) }}", -EDOM, MT_REASON_BAD_DATA, "t:1:12:", "unsafe");
    expect_error("{{ d.update({'b': 2}) }}", -EDOM, MT_REASON_BAD_DATA, "t:1:12:", "unsafe");
    expect_error("{{ s.__class__.__mro__ }}", -EDOM, MT_REASON_BAD_DATA, "t:1:15:", "unsafe");
    expect_error("{{ ''.format.__globals__.x }}", -EDOM, MT_REASON_BAD_DATA, "t:1:25:", "unsafe");
    expect_error("{% set d.a = 2 %}", -EDOM, MT_REASON_BAD_DATA, "t:1:8:", "namespace");
    expect_error("{{ range(100001) }}", -EDOM, MT_REASON_BAD_DATA, "t:1:9:", "100000");
}

#define TWICE(value)                                                                                         \
    "{% set n = namespace(a=1) %}{% for i in range(60) %}{% set n.a = " value " %}{% endfor %}"              \
    "{% set n.c = n.a %}{% set n.a = 1 %}{% for i in range(60) %}{% set n.a = " value " %}{% endfor %}"      \
    "{% set n.b = n.c %}"
#define LONG "{% set a = 'a' * 100000 %}"

static void stops_what_does_not_end(void **state)
{
    (void)state;
    static const char *const endless[] = {
        "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
        "{% for a in range(90000) %}{% for b in range(90000) %}{{ a * b }}{% endfor %}{% endfor %}",
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
        "{% macro m(f) %}{{ f(f) }}{% endmacro %}{{ m(m) }}",
        "{% for x in [l] recursive %}{{ loop([x]) }}{% endfor %}",
        "{{ 'x' * 9223372036854775807 }}",
        "{{ [1] * 9223372036854775807 }}",
        "{{ l * 4611686018427387904 }}",
        "{% set n = namespace(s='xxxxxxxxxxxxxxxx') %}{% for i in range(64) %}{% set n.s = n.s ~ n.s %}{% "
        "endfor %}",
        "{% set n = namespace(l=[1]) %}{% for i in range(64) %}{% set n.l = n.l + n.l %}{% endfor %}",
        "{% set n = namespace(l=[]) %}{% for i in range(5000) %}{% set n.l = [n.l] %}{% endfor %}{{ n.l }}",
        "{% set n = namespace(l=[]) %}{% for i in range(5000) %}{% set n.l = [n.l] %}{% endfor %}{{ "
        "n.l|tojson }}",
        "{% set n = namespace() %}{% set n.me = n %}{{ n }}",
        "{% for i in range(100000) %}{{ 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx' * 1000 }}{% "
        "endfor %}",
        "{% set n = namespace(l=l) %}{% for i in range(40) %}{% set n.l = [n.l, n.l] %}{% endfor %}{{ "
        "n.l|string|length }}",
        /* Few values, each of the one below twice: comparing them goes through all of the tree. */
        TWICE("[n.a, n.a]") "{{ n.a == n.b }}",
        TWICE("[n.a, n.a]") "{{ n.a < n.b }}",
        TWICE("[n.a, n.a]") "{{ n.a in [n.b] }}",
        TWICE("[n.a, n.a]") "{{ [n.a].count(n.b) }}",
        TWICE("[n.a, n.a]") "{{ [n.a, n.b]|groupby(0)|list }}",
        TWICE("{'k': n.a, 'l': n.a}") "{{ n.a == n.b }}",
        TWICE("(n.a, n.a)") "{{ {n.a: 1} }}",
        TWICE("(n.a, n.a)") "{{ [n.a, n.b]|unique|list }}",
        TWICE("(n.a, n.a)") "{{ n.a in {'x': 1} }}",
        /* Each step looks at a long text. */
        LONG "{{ a.rfind('b' ~ a) }}{{ a.rfind(a[1:] ~ 'b') }}{{ a.rfind(a[9000:] ~ 'b') }}",
        LONG "{{ a.rsplit(a[9000:] ~ 'b') }}",
        LONG "{{ a.rpartition(a[9000:] ~ 'b') }}",
        LONG "{{ a.strip('zyx' * 50000 ~ 'a') }}",
        LONG "{{ a|trim('zyx' * 50000 ~ 'a') }}",
        LONG "{% for i in range(99999) %}{% set x = a.partition('aab') %}{% endfor %}",
        LONG "{% for i in range(99999) %}{% set x = a.startswith(a) %}{% endfor %}",
        LONG "{% set d = {'y': 1} %}{% for i in range(99999) %}{% set x = d[a] %}{% endfor %}",
        LONG "{% set b = a ~ '' %}{% for i in range(99999) %}{% set x = [a] == [b] %}{% endfor %}",
        LONG "{% for i in range(99999) %}{% set x = a.removeprefix(a) %}{% endfor %}",
        LONG "{% for i in range(99999) %}{% set x = a is lower %}{% endfor %}",
        LONG "{% for i in range(99999) %}{% set x = a.isupper() %}{% endfor %}",
        "{% set a = ' ' * 100000 %}{% for i in range(99999) %}{% set x = a|int %}{% endfor %}",
        "{% set a = ' ' * 100000 %}{% for i in range(99999) %}{% set x = a|float %}{% endfor %}",
    };
    const struct mt_jinja_limits limits = {
        .steps = 2000000, .memory_bytes = (size_t)32 << 20, .output_bytes = (size_t)8 << 20, .depth = 1500};
    const struct mt_jinja_options options = {.limits = &limits};
    for (size_t i = 0; i < sizeof endless / sizeof *endless; i++) {
        struct mt_jinja_output output = {0};
        struct mt_error error = {0};
        const int r = render_with(endless[i], "{\"l\": [1, 2]}", &options, &output, &error);
        if (r != -EOVERFLOW)
            fail_msg("%s: %d %s", endless[i], r, error.message);
        assert_int_equal(error.reason, MT_REASON_BAD_MODEL);
        mt_assert_mentions(error.message, "stopped here");
        mt_jinja_output_free(&output);
    }
}

/* `count` times a piece, something, and `count` times another: parsed into an error or a template, but never
 * crashing. */
static int parse_repeated(const char *before, const char *middle, const char *after, size_t count)
{
    struct mt_text text = {0};
    struct mt_error error = {0};
    struct mt_jinja_template *template = NULL;
    for (size_t i = 0; i < count; i++)
        assert_int_equal(mt_text_append(&text, before, strlen(before)), 0);
    assert_int_equal(mt_text_append(&text, middle, strlen(middle)), 0);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(mt_text_append(&text, after, strlen(after)), 0);
    const int r = mt_jinja_parse(text.data, text.bytes, "t", &template, &error);
    mt_jinja_free(template);
    mt_text_free(&text);
    return r;
}

static void refuses_deep_nesting(void **state)
{
    (void)state;
    assert_int_equal(parse_repeated("{% if x %}", "a", "{% endif %}", 20), 0);
    assert_int_equal(parse_repeated("{% if x %}", "a", "{% endif %}", 20000), -EOVERFLOW);
    assert_int_equal(parse_repeated("{% for x in y %}", "a", "{% endfor %}", 20000), -EOVERFLOW);
    assert_int_equal(parse_repeated("{% macro m() %}", "a", "{% endmacro %}", 20000), -EOVERFLOW);
    assert_true(parse_repeated("{{ (", "", "", 20000) < 0);
    static const char *const openings[] = {"(",    "[",    "-", "not ", "{'a':", "x[", "x(", "x if y else ",
                                           "x|f(", "x is "};
    for (size_t i = 0; i < sizeof openings / sizeof *openings; i++) {
        struct mt_text text = {0};
        struct mt_error error = {0};
        struct mt_jinja_template *template = NULL;
        assert_int_equal(mt_text_append(&text, "{{ ", 3), 0);
        for (int n = 0; n < 20000; n++)
            assert_int_equal(mt_text_append(&text, openings[i], strlen(openings[i])), 0);
        assert_true(mt_jinja_parse(text.data, text.bytes, "t", &template, &error) < 0);
        mt_text_free(&text);
    }
    static const char *const chains[] = {" + x", "|string", ".x",    "[0]",
                                         "()",   " and x",  " ** x", " is string"};
    for (size_t i = 0; i < sizeof chains / sizeof *chains; i++) {
        struct mt_text text = {0};
        struct mt_error error = {0};
        struct mt_jinja_template *template = NULL;
        assert_int_equal(mt_text_append(&text, "{{ x", 4), 0);
        for (int n = 0; n < 20000; n++)
            assert_int_equal(mt_text_append(&text, chains[i], strlen(chains[i])), 0);
        assert_int_equal(mt_text_append(&text, " }}", 3), 0);
        assert_true(mt_jinja_parse(text.data, text.bytes, "t", &template, &error) < 0);
        mt_text_free(&text);
    }
}

static void tells_where_generations_lie(void **state)
{
    (void)state;
    static const char source[] =
        "{% for m in l %}é<{% generation %}{{ m }}!\n{% endgeneration %}>{% endfor %}";
    struct mt_jinja_output output = {0};
    struct mt_error error = {0};
    mt_assert_ok(render_with(source, "{\"l\": [1, \"日\"]}", NULL, &output, &error), &error);
    assert_string_equal(output.text.data, "é<1!\n>é<日!\n>");
    assert_int_equal(output.num_spans, 2);
    if (!output.spans) {
        fail_msg("no spans");
        return;
    }
    assert_int_equal(output.spans[0].begin, 3);
    assert_int_equal(output.spans[0].end, 6);
    assert_int_equal(output.spans[1].begin, 10);
    assert_int_equal(output.spans[1].end, 15);
    assert_false(output.spans_lost);

    /* In a macro the place in the output is not known: said, not guessed. */
    mt_assert_ok(render_with("{% macro m() %}{% generation %}x{% endgeneration %}{% endmacro %}{{ m() }}",
                             "{}", NULL, &output, &error),
                 &error);
    assert_string_equal(output.text.data, "x");
    assert_int_equal(output.num_spans, 0);
    assert_true(output.spans_lost);
    mt_jinja_output_free(&output);
}

static void formats_the_time_it_is_given(void **state)
{
    (void)state;
    struct mt_jinja_output output = {0};
    struct mt_error error = {0};
    const time_t seconds = 1754000000;
    struct tm now;
    gmtime_r(&seconds, &now);
    mt_assert_ok(render_with("{{ strftime_now('%d %b %Y|%H:%M') }}{{ strftime_now('') }}", "{}",
                             &(struct mt_jinja_options){.now = &now}, &output, &error),
                 &error);
    assert_string_equal(output.text.data, "31 Jul 2025|22:13");
    mt_jinja_output_free(&output);
}

static void reads_json_arguments(void **state)
{
    (void)state;
    expect_text("{% set a = '{\"b\": [1, 2.0, \"\\u00e9\"]}'|from_json %}{{ a.b }}{{ a|tojson }}", "{}",
                "[1, 2.0, 'é']{\"b\": [1, 2.0, \"é\"]}");
    expect_error("{{ '{'|from_json }}", -EDOM, MT_REASON_BAD_DATA, "t:1:8:", "from_json");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_the_place_of_an_error),
        cmocka_unit_test(tells_the_words_of_raise_exception),
        cmocka_unit_test(refuses_what_it_does_not_support_by_name),
        cmocka_unit_test(keeps_the_sandbox_closed),
        cmocka_unit_test(stops_what_does_not_end),
        cmocka_unit_test(refuses_deep_nesting),
        cmocka_unit_test(tells_where_generations_lie),
        cmocka_unit_test(formats_the_time_it_is_given),
        cmocka_unit_test(reads_json_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
