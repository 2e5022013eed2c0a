/* The tests that stand after `is`. */
#include "core/text/jinja/methods.h"

#define TEST(name)                                                                                           \
    static bool test_##name(struct mt_jrun *run, struct mt_jvalue *value, const struct mt_jargs *args,       \
                            bool *holds)

static bool no_arguments(struct mt_jrun *run, const struct mt_jargs *args)
{
    return mt_jbind(run, "the test", args, NULL, 0, 0, NULL);
}

/* A test that looks at the value alone. */
#define SIMPLE_TEST(name, condition)                                                                         \
    TEST(name)                                                                                               \
    {                                                                                                        \
        *holds = condition;                                                                                  \
        return no_arguments(run, args);                                                                      \
    }

SIMPLE_TEST(defined, !mt_jis(value, MT_J_UNDEFINED))
SIMPLE_TEST(undefined, mt_jis(value, MT_J_UNDEFINED))
SIMPLE_TEST(none, mt_jis(value, MT_J_NONE))
SIMPLE_TEST(boolean, mt_jis(value, MT_J_BOOL))
SIMPLE_TEST(is_false, mt_jis(value, MT_J_BOOL) && !value->truth)
SIMPLE_TEST(is_true, mt_jis(value, MT_J_BOOL) && value->truth)
SIMPLE_TEST(integer, mt_jis(value, MT_J_INT) || mt_jis(value, MT_J_WIDE))
SIMPLE_TEST(float, mt_jis(value, MT_J_FLOAT))
SIMPLE_TEST(number, mt_jis_number(value) || mt_jis(value, MT_J_WIDE))
SIMPLE_TEST(string, mt_jis_text(value))
SIMPLE_TEST(mapping, mt_jis(value, MT_J_DICT))
SIMPLE_TEST(iterable, mt_jiterable(value) || mt_jis(value, MT_J_LOOP))
SIMPLE_TEST(escaped, mt_jis_text(value) && value->markup)
SIMPLE_TEST(callable, mt_jis(value, MT_J_MACRO) || mt_jis(value, MT_J_FUNCTION) ||
                          mt_jis(value, MT_J_METHOD) || mt_jis(value, MT_J_JOINER) ||
                          mt_jis(value, MT_J_LOOP) || mt_jis(value, MT_J_UNDEFINED)) /* whose call fails */

/* What has a length and items; an undefined value has both. */
SIMPLE_TEST(sequence, mt_jis(value, MT_J_TEXT) || mt_jis(value, MT_J_LIST) || mt_jis(value, MT_J_TUPLE) ||
                          mt_jis(value, MT_J_DICT) || mt_jis(value, MT_J_RANGE) ||
                          mt_jis(value, MT_J_UNDEFINED))

static bool test_cased(struct mt_jrun *run, struct mt_jvalue *value, const struct mt_jargs *args, bool upper,
                       bool *holds)
{
    const struct mt_jvalue *text = no_arguments(run, args) ? mt_jstr(run, value) : NULL;
    if (text && !mt_jwork_characters(run, text->text.bytes))
        return false;
    if (text)
        *holds = mt_jall_cased(text->text, upper);
    return text;
}

TEST(lower)
{
    return test_cased(run, value, args, false, holds);
}

TEST(upper)
{
    return test_cased(run, value, args, true, holds);
}

/* value % number == rest */
static bool test_rest(struct mt_jrun *run, struct mt_jvalue *value, struct mt_jvalue *number, int64_t rest,
                      bool *holds)
{
    struct mt_jvalue *modulo = mt_joperate(run, MT_J_MODULO, value, number);
    *holds = modulo && mt_jis_number(modulo) && mt_jnumber(modulo) == (double)rest;
    return modulo;
}

TEST(odd)
{
    struct mt_jvalue *two = mt_jint(run, 2);
    return two && no_arguments(run, args) && test_rest(run, value, two, 1, holds);
}

TEST(even)
{
    struct mt_jvalue *two = mt_jint(run, 2);
    return two && no_arguments(run, args) && test_rest(run, value, two, 0, holds);
}

TEST(divisibleby)
{
    static const char *const names[] = {"num"};
    struct mt_jvalue *number;
    return mt_jbind(run, "divisibleby", args, names, 1, 1, &number) &&
           test_rest(run, value, number, 0, holds);
}

TEST(filter)
{
    bool refused = false;
    if (!no_arguments(run, args))
        return false;
    *holds = mt_jis_text(value) && (mt_jfilter_find(value->text, &refused) || refused);
    return true;
}

TEST(test)
{
    *holds = mt_jis_text(value) && mt_jtest_find(value->text);
    return no_arguments(run, args);
}

TEST(sameas)
{
    static const char *const names[] = {"other"};
    struct mt_jvalue *other;
    if (!mt_jbind(run, "sameas", args, names, 1, 1, &other))
        return false;
    *holds = mt_jsame(value, other);
    return true;
}

static bool relation(struct mt_jrun *run, struct mt_jvalue *value, const struct mt_jargs *args,
                     enum mt_joperator operator, bool * holds)
{
    static const char *const names[] = {"other"};
    struct mt_jvalue *other;
    return mt_jbind(run, "the test", args, names, 1, 1, &other) &&
           mt_jrelate(run, operator, value, other, holds);
}

#define RELATION(name, operator)                                                                             \
    TEST(name)                                                                                               \
    {                                                                                                        \
        return relation(run, value, args, operator, holds);                                                  \
    }
RELATION(eq, MT_J_EQUAL)
RELATION(ne, MT_J_NOT_EQUAL)
RELATION(gt, MT_J_GREATER)
RELATION(ge, MT_J_GREATER_EQUAL)
RELATION(lt, MT_J_LESS)
RELATION(le, MT_J_LESS_EQUAL)
RELATION(in, MT_J_IN)

mt_jtest mt_jtest_find(struct mt_jslice name)
{
    static const struct {
        const char *name;
        mt_jtest test;
    } tests[] = {
        {"defined", test_defined},
        {"undefined", test_undefined},
        {"none", test_none},
        {"string", test_string},
        {"mapping", test_mapping},
        {"iterable", test_iterable},
        {"sequence", test_sequence},
        {"number", test_number},
        {"integer", test_integer},
        {"float", test_float},
        {"boolean", test_boolean},
        {"true", test_is_true},
        {"false", test_is_false},
        {"callable", test_callable},
        {"escaped", test_escaped},
        {"odd", test_odd},
        {"even", test_even},
        {"divisibleby", test_divisibleby},
        {"lower", test_lower},
        {"upper", test_upper},
        {"filter", test_filter},
        {"test", test_test},
        {"sameas", test_sameas},
        {"in", test_in},
        {"eq", test_eq},
        {"equalto", test_eq},
        {"==", test_eq},
        {"ne", test_ne},
        {"!=", test_ne},
        {"gt", test_gt},
        {"greaterthan", test_gt},
        {">", test_gt},
        {"ge", test_ge},
        {">=", test_ge},
        {"lt", test_lt},
        {"lessthan", test_lt},
        {"<", test_lt},
        {"le", test_le},
        {"<=", test_le},
    };
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
        if (mt_jslice_is(name, tests[i].name))
            return tests[i].test;
    return NULL;
}
