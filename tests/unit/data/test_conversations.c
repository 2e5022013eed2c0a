/* Rows of every formatting as one neutral conversation, and what of it is refused or passed over. */
#include "core/base/cleanup.h"
#include "core/data/conversation.h"
#include "core/data/source.h"
#include "tests/unit/data/data_support.h"

/* Reads rows of JSON text; the first decides what all of them are. */
struct reading {
    struct mt_arena *arena;
    struct mt_columns columns;
    struct mt_layout layout;
    struct mt_conversation conversation;
    struct mt_error error;
};

static int read_next(struct reading *reading, const char *text)
{
    struct mt_value *value;
    size_t used;
    if (!reading->arena) {
        reading->arena = mt_arena_new();
        if (!reading->columns.prompt) { /* as mt_source_from_paths fills them in */
            reading->columns.prompt = "instruction";
            reading->columns.query = "input";
        }
        if (!reading->columns.response)
            reading->columns.response = "output";
        if (!reading->columns.system)
            reading->columns.system = "system";
        if (!reading->columns.history)
            reading->columns.history = "history";
    }
    mt_assert_ok(mt_value_parse(text, strlen(text), reading->arena, &value, &used, &reading->error),
                 &reading->error);
    const struct mt_row row = {.object = value, .number = 1, .line = 1};
    mt_conversation_free(&reading->conversation);
    if (reading->layout.kind == MT_ROW_UNDECIDED) {
        int r = mt_layout_decide(&reading->columns, &row, &reading->layout, &reading->error);
        if (r < 0)
            return r;
    }
    return mt_conversation_read(&reading->columns, &reading->layout, &row, &reading->conversation,
                                &reading->error);
}

static void finish(struct reading *reading)
{
    mt_conversation_free(&reading->conversation);
    mt_arena_free(reading->arena);
}

static void assert_json(const json_t *found, const char *expected)
{
    json_error_t error;
    mt_autojson json_t *wanted = json_loads(expected, JSON_DECODE_ANY, &error);
    mt_autofree char *text = json_dumps(found, JSON_COMPACT | JSON_ENCODE_ANY);
    if (!wanted)
        fail_msg("%s: %s", error.text, expected);
    if (!json_equal(found, wanted))
        fail_msg("found %s, wanted %s", text, expected);
}

/* A row alone becomes this conversation. */
static void assert_read(struct mt_columns columns, const char *row, const char *chat)
{
    struct reading reading = {.columns = columns};
    mt_assert_ok(read_next(&reading, row), &reading.error);
    assert_json(reading.conversation.chat, chat);
    finish(&reading);
}

static void assert_code(struct mt_columns columns, const char *row, int code, const char *why)
{
    struct reading reading = {.columns = columns};
    const int r = read_next(&reading, row);
    if (r != code)
        fail_msg("%s: %d (%s), expected %d", row, r, reading.error.message, code);
    assert_int_equal(reading.error.reason, MT_REASON_BAD_DATA);
    mt_assert_mentions(reading.error.message, why);
    finish(&reading);
}

static const struct mt_columns usual = {0};

static void alpaca_rows_have_system_history_and_input(void **state)
{
    (void)state;
    assert_read(
        usual,
        "{\"instruction\":\"I\",\"input\":\"N\",\"output\":\"O\",\"system\":\"S\",\"history\":[[\"q\","
        "\"a\"]]}",
        "{\"messages\":[{\"role\":\"system\",\"content\":\"S\"},{\"role\":\"user\",\"content\":\"q\"},"
        "{\"role\":\"assistant\",\"content\":\"a\"},{\"role\":\"user\",\"content\":\"I\",\"input\":"
        "\"N\"},{\"role\":\"assistant\",\"content\":\"O\"}]}");
    assert_read(usual,
                "{\"instruction\":\"I\",\"input\":null,\"output\":\"O\",\"system\":\"\",\"history\":null}",
                "{\"messages\":[{\"role\":\"user\",\"content\":\"I\"},{\"role\":\"assistant\",\"content\":"
                "\"O\"}]}");
}

static void sharegpt_rows_have_their_usual_tags(void **state)
{
    (void)state;
    assert_read(
        usual,
        "{\"conversations\":[{\"from\":\"system\",\"value\":\"S\"},{\"from\":\"human\",\"value\":\"h\"},"
        "{\"from\":\"gpt\",\"value\":\"g\"}]}",
        "{\"messages\":[{\"role\":\"system\",\"content\":\"S\"},{\"role\":\"user\",\"content\":\"h\"},"
        "{\"role\":\"assistant\",\"content\":\"g\"}]}");
    /* the system prompt as a column, and not beside one of the turns */
    assert_read(
        usual,
        "{\"conversations\":[{\"from\":\"human\",\"value\":\"h\"},{\"from\":\"gpt\",\"value\":\"g\"}],"
        "\"system\":\"C\"}",
        "{\"messages\":[{\"role\":\"system\",\"content\":\"C\"},{\"role\":\"user\",\"content\":\"h\"},"
        "{\"role\":\"assistant\",\"content\":\"g\"}]}");
    assert_read(
        usual,
        "{\"conversations\":[{\"from\":\"system\",\"value\":\"S\"},{\"from\":\"human\",\"value\":\"h\"},"
        "{\"from\":\"gpt\",\"value\":\"g\"}],\"system\":\"C\"}",
        "{\"messages\":[{\"role\":\"system\",\"content\":\"S\"},{\"role\":\"user\",\"content\":\"h\"},"
        "{\"role\":\"assistant\",\"content\":\"g\"}]}");
}

static void tags_and_columns_may_have_any_name(void **state)
{
    (void)state;
    const struct mt_columns columns = {.formatting = MT_JOB_FORMATTING_SHAREGPT,
                                       .messages = "dialog",
                                       .tags = {.role = "who",
                                                .content = "said",
                                                .user = "U",
                                                .assistant = "A",
                                                .observation = "O",
                                                .function = "F",
                                                .system = "S"}};
    assert_read(
        columns,
        "{\"dialog\":[{\"who\":\"S\",\"said\":\"s\"},{\"who\":\"U\",\"said\":\"u\"},{\"who\":\"F\","
        "\"said\":\"{\\\"name\\\":\\\"f\\\",\\\"arguments\\\":{\\\"x\\\":1}}\"},{\"who\":\"O\",\"said\":"
        "\"o\"},{\"who\":\"A\",\"said\":\"a\"}]}",
        "{\"messages\":[{\"role\":\"system\",\"content\":\"s\"},{\"role\":\"user\",\"content\":\"u\"},"
        "{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"id\":\"call00000\",\"type\":"
        "\"function\",\"function\":{\"name\":\"f\",\"arguments\":{\"x\":1}}}]},{\"role\":\"tool\","
        "\"content\":\"o\",\"tool_call_id\":\"call00000\",\"name\":\"f\"},{\"role\":\"assistant\","
        "\"content\":\"a\"}]}");
    /* a named tag takes the place of the usual ones */
    assert_code(columns, "{\"dialog\":[{\"who\":\"human\",\"said\":\"u\"},{\"who\":\"A\",\"said\":\"a\"}]}",
                -EPROTO, "the column \"dialog\": turn 1: its role \"human\" is not known");
    assert_code(columns, "{\"dialog\":[{\"who\":\"U\",\"text\":\"u\"}]}", -EINVAL, "it has no \"said\"");
    assert_code(columns, "{\"messages\":[]}", -EINVAL, "expected is \"dialog\"");
}

static void openai_rows_have_calls_results_reasoning_and_names(void **state)
{
    (void)state;
    assert_read(
        usual,
        "{\"messages\":[{\"role\":\"developer\",\"content\":\"d\"},{\"role\":\"user\",\"content\":[{\"type\":"
        "\"text\",\"text\":\"a\"},{\"type\":\"text\",\"text\":\"b\"}],\"name\":\"Ann\"},{\"role\":"
        "\"assistant\","
        "\"content\":null,\"reasoning_content\":\"r\",\"tool_calls\":[{\"id\":\"1\",\"type\":\"function\","
        "\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}},{\"id\":\"2\",\"type\":\"function\","
        "\"function\":"
        "{\"name\":\"g\",\"arguments\":\"{}\"}}]},{\"role\":\"tool\",\"tool_call_id\":\"2\",\"content\":"
        "\"y\"},"
        "{\"role\":\"tool\",\"tool_call_id\":\"1\",\"content\":\"x\"},{\"role\":\"assistant\",\"content\":"
        "\"z\"}],"
        "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}],\"chat_template_kwargs\":"
        "{\"enable_thinking\":false},\"unused\":{\"a\":[1]}}",
        "{\"messages\":[{\"role\":\"developer\",\"content\":\"d\"},{\"role\":\"user\",\"content\":\"ab\","
        "\"name\":"
        "\"Ann\"},{\"role\":\"assistant\",\"content\":\"\",\"reasoning_content\":\"r\",\"tool_calls\":[{"
        "\"id\":"
        "\"1\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}},{\"id\":\"2\","
        "\"type\":"
        "\"function\",\"function\":{\"name\":\"g\",\"arguments\":\"{}\"}}]},{\"role\":\"tool\",\"tool_call_"
        "id\":"
        "\"2\",\"content\":\"y\",\"name\":\"g\"},{\"role\":\"tool\",\"tool_call_id\":\"1\",\"content\":\"x\","
        "\"name\":"
        "\"f\"},{\"role\":\"assistant\",\"content\":\"z\"}],\"tools\":[{\"type\":\"function\",\"function\":{"
        "\"name\":"
        "\"f\"}}],\"enable_thinking\":false}");
    /* the older form of a call */
    assert_read(
        usual,
        "{\"messages\":[{\"role\":\"user\",\"content\":\"u\"},{\"role\":\"assistant\",\"content\":null,"
        "\"function_call\":{\"name\":\"f\",\"arguments\":\"{}\"}}]}",
        "{\"messages\":[{\"role\":\"user\",\"content\":\"u\"},{\"role\":\"assistant\",\"content\":\"\","
        "\"tool_calls\":[{\"id\":\"call00000\",\"type\":\"function\",\"function\":{\"name\":\"f\","
        "\"arguments\":\"{}\"}}]}]}");
}

static void tools_are_a_list_or_its_text(void **state)
{
    (void)state;
    static const char *const forms[] = {"[{\"name\":\"f\",\"parameters\":{}}]",
                                        "{\"name\":\"f\",\"parameters\":{}}",
                                        "\"[{\\\"name\\\":\\\"f\\\",\\\"parameters\\\":{}}]\"",
                                        "\" "
                                        "[{\\\"type\\\":\\\"function\\\",\\\"function\\\":{\\\"name\\\":"
                                        "\\\"f\\\",\\\"parameters\\\":{}}}]\""};
    char row[600];
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        snprintf(row, sizeof row,
                 "{\"messages\":[{\"role\":\"user\",\"content\":\"u\"},{\"role\":\"assistant\",\"content\":"
                 "\"a\"}],"
                 "\"tools\":%s}",
                 forms[i]);
        assert_read(usual, row,
                    "{\"messages\":[{\"role\":\"user\",\"content\":\"u\"},{\"role\":\"assistant\","
                    "\"content\":\"a\"}],"
                    "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"parameters\":{}}}]}");
    }
    static const char *const none[] = {"null", "\"\"", "\"[]\"", "[]", "\" \""};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        snprintf(row, sizeof row,
                 "{\"messages\":[{\"role\":\"user\",\"content\":\"u\"},{\"role\":\"assistant\",\"content\":"
                 "\"a\"}],"
                 "\"tools\":%s}",
                 none[i]);
        assert_read(
            usual, row,
            "{\"messages\":[{\"role\":\"user\",\"content\":\"u\"},{\"role\":\"assistant\",\"content\":\"a\"}]"
            "}");
    }
    assert_code(usual, "{\"messages\":[{\"role\":\"user\",\"content\":\"u\"}],\"tools\":\"none\"}", -EINVAL,
                "the column \"tools\": holds a text where tools are expected");
    assert_code(usual, "{\"messages\":[{\"role\":\"user\",\"content\":\"u\"}],\"tools\":[3]}", -EINVAL,
                "tool 1 is not an object");
}

static void a_call_of_tools_may_have_reasoning_before_it_and_be_several(void **state)
{
    (void)state;
    assert_read(
        usual,
        "{\"conversations\":[{\"from\":\"human\",\"value\":\"h\"},{\"from\":\"function_call\",\"value\":"
        "\"<think>t</think>\\n[{\\\"name\\\":\\\"f\\\",\\\"arguments\\\":{}},{\\\"name\\\":\\\"g\\\"}]\"},"
        "{\"from\":\"observation\",\"value\":\"x\"},{\"from\":\"gpt\",\"value\":\"g\"}]}",
        "{\"messages\":[{\"role\":\"user\",\"content\":\"h\"},{\"role\":\"assistant\",\"content\":"
        "\"<think>t</think>\",\"tool_calls\":[{\"id\":\"call00000\",\"type\":\"function\",\"function\":"
        "{\"name\":\"f\",\"arguments\":{}}},{\"id\":\"call00001\",\"type\":\"function\",\"function\":"
        "{\"name\":\"g\",\"arguments\":{}}}]},{\"role\":\"tool\",\"content\":\"x\",\"tool_call_id\":"
        "\"call00000\",\"name\":\"f\"},{\"role\":\"assistant\",\"content\":\"g\"}]}");
    assert_code(
        usual,
        "{\"conversations\":[{\"from\":\"human\",\"value\":\"h\"},{\"from\":\"function_call\",\"value\":"
        "\"call me\"}]}",
        -EINVAL, "turn 2: a call of a tool is not JSON: \"call me\"");
    assert_code(
        usual,
        "{\"conversations\":[{\"from\":\"human\",\"value\":\"h\"},{\"from\":\"function_call\",\"value\":"
        "\"{\\\"arguments\\\":{}}\"}]}",
        -EINVAL, "is an object with \"name\" and \"arguments\"");
}

static void a_loss_weight_is_0_or_1_and_others_are_refused_by_name(void **state)
{
    (void)state;
    const char *row =
        "{\"messages\":[{\"role\":\"user\",\"content\":\"u\",\"loss_weight\":0.0},{\"role\":"
        "\"assistant\",\"content\":\"a\",\"loss_weight\":0.0},{\"role\":\"user\",\"content\":\"v\","
        "\"weight\":0},{\"role\":\"assistant\",\"content\":\"b\",\"loss_weight\":1.0}]}";
    assert_read(
        usual, row,
        "{\"messages\":[{\"role\":\"user\",\"content\":\"u\"},{\"role\":\"assistant\",\"content\":\"a\","
        "\"loss_weight\":0},{\"role\":\"user\",\"content\":\"v\"},{\"role\":\"assistant\",\"content\":\"b\"}]"
        "}");
    assert_code(usual, "{\"messages\":[{\"role\":\"user\",\"content\":\"u\",\"loss_weight\":1}]}", -EINVAL,
                "only answers are learned");
    assert_code(usual, "{\"messages\":[{\"role\":\"assistant\",\"content\":\"u\",\"loss_weight\":0.5}]}",
                -EINVAL, "loss_weight 0.5 is not supported yet");
    assert_code(usual, "{\"messages\":[{\"role\":\"assistant\",\"content\":\"u\",\"loss_weight\":\"x\"}]}",
                -EINVAL, "loss_weight is not a number");
}

static void turns_out_of_order_are_told_apart_from_broken_rows(void **state)
{
    (void)state;
    static const struct {
        const char *roles, *why;
    } cases[] = {
        {"", "there are no turns"},
        {"s", "there are no turns"},
        {"u", "does not end with an answer"},
        {"uu", "turn 2 is the user's where an answer is expected"},
        {"a", "turn 1 is an answer to nothing"},
        {"sa", "turn 2 is an answer to nothing"},
        {"uaa", "turn 3 is an answer to nothing"},
        {"usa", "turn 2 is a system message"},
        {"uat", "does not end with an answer"},
        {"uatu", "turn 4 is the user's where an answer is expected"},
        {"ta", "turn 1 is the result of a tool that nothing called"},
        {"uta", "turn 2 is the result of a tool that nothing called"},
        {"uau", "does not end with an answer"},
        {"ux", "turn 2: its role \"x\" is not known"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char row[600] = "{\"messages\":[";
        for (const char *role = cases[i].roles; *role; role++) {
            const char *name = *role == 's'   ? "system"
                               : *role == 'u' ? "user"
                               : *role == 'a' ? "assistant"
                               : *role == 't' ? "tool"
                                              : "x";
            snprintf(row + strlen(row), sizeof row - strlen(row), "%s{\"role\":\"%s\",\"content\":\"c\"}",
                     role == cases[i].roles ? "" : ",", name);
        }
        strcat(row, "]}");
        assert_code(usual, row, -EPROTO, cases[i].why);
    }
    assert_code(usual, "{\"conversations\":[]}", -EPROTO, "there are no turns");
    assert_code((struct mt_columns){.messages = "m"}, "{\"m\":null}", -EPROTO, "there are no turns");
}

static void an_empty_answer_is_never_learned(void **state)
{
    (void)state;
    assert_code(usual, "{\"instruction\":\"I\",\"output\":\"\"}", -ENODATA, "the last answer is empty");
    assert_code(usual, "{\"instruction\":\"I\",\"output\":null}", -ENODATA, "the last answer is empty");
    assert_code(usual,
                "{\"messages\":[{\"role\":\"user\",\"content\":\"u\"},{\"role\":\"assistant\",\"content\":\" "
                "\\n\"}]}",
                -ENODATA, "the last answer is empty");
    assert_read(
        usual, "{\"instruction\":\"I\",\"output\":\"O\",\"history\":[[\"q\",\"\"]]}",
        "{\"messages\":[{\"role\":\"user\",\"content\":\"q\"},{\"role\":\"assistant\",\"content\":\"\","
        "\"loss_weight\":0},{\"role\":\"user\",\"content\":\"I\"},{\"role\":\"assistant\",\"content\":\"O\"}]"
        "}");
    /* an empty question is one */
    assert_read(
        usual, "{\"instruction\":\"\",\"output\":\"O\"}",
        "{\"messages\":[{\"role\":\"user\",\"content\":\"\"},{\"role\":\"assistant\",\"content\":\"O\"}]}");
}

static void cells_that_are_no_texts_are_refused_by_their_place(void **state)
{
    (void)state;
    assert_read(usual, "{\"instruction\":3.50,\"output\":7}",
                "{\"messages\":[{\"role\":\"user\",\"content\":\"3.50\"},{\"role\":\"assistant\",\"content\":"
                "\"7\"}]}");
    assert_code(usual, "{\"instruction\":{},\"output\":\"O\"}", -EINVAL,
                "the column \"instruction\": holds an object where a text is expected");
    assert_code(usual, "{\"messages\":[{\"role\":\"user\",\"content\":{}}]}", -EINVAL,
                "the column \"messages\": turn 1: its content: holds an object");
    assert_code(usual, "{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"image\"}]}]}", -EINVAL,
                "only text is supported yet");
    assert_code(usual, "{\"messages\":[7]}", -EINVAL, "turn 1: it is a number and no object");
    assert_code(usual, "{\"messages\":[{\"content\":\"c\"}]}", -EINVAL, "it has no \"role\" or \"from\"");
    assert_code((struct mt_columns){.messages = "m"}, "{\"m\":\"text\"}", -EINVAL,
                "the column \"m\": holds a text where a list of turns is expected");
    assert_code(usual, "{\"instruction\":\"I\",\"output\":\"O\",\"history\":[[\"q\"]]}", -EINVAL,
                "is not a pair [question, answer]");
}

/* What was there in the first row is looked for in the others. */
static void a_row_without_a_needed_column_is_an_error(void **state)
{
    (void)state;
    struct reading reading = {0};
    mt_assert_ok(read_next(&reading, "{\"instruction\":\"I\",\"input\":\"N\",\"output\":\"O\"}"),
                 &reading.error);
    mt_assert_ok(read_next(&reading, "{\"instruction\":\"I\",\"output\":\"O\"}"), &reading.error);
    mt_assert_ok(read_next(&reading, "{\"instruction\":\"I\",\"output\":\"O\",\"index\":\"x\"}"),
                 &reading.error);
    assert_int_equal(read_next(&reading, "{\"instrution\":\"I\",\"output\":\"O\"}"), -EINVAL);
    mt_assert_mentions(reading.error.message, "expected are \"instruction\" and \"output\"");
    assert_int_equal(read_next(&reading, "{\"instruction\":\"I\",\"outputs\":\"O\"}"), -EINVAL);
    assert_int_equal(read_next(&reading, "{\"instruction\":\"I\",\"output\":\"O\",\"inputs\":\"N\"}"),
                     -EINVAL);
    mt_assert_mentions(reading.error.message, "\"inputs\" where rows before have \"input\"");
    finish(&reading);
}

static void a_row_of_other_columns_says_what_to_do(void **state)
{
    (void)state;
    const struct mt_columns alpaca = {.formatting = MT_JOB_FORMATTING_ALPACA},
                            sharegpt = {.formatting = MT_JOB_FORMATTING_SHAREGPT},
                            dialog = {.messages = "dialog"},
                            mistyped = {.prompt = "question", .response = "anwser"};
    const char *const turns = "{\"conversations\":[{\"from\":\"human\",\"value\":\"q\"}]}";
    assert_code(alpaca, turns, -EINVAL, "It has a list of turns: leave dataset.formatting away");
    assert_code(sharegpt, "{\"instruction\":\"a\",\"output\":\"b\"}", -EINVAL,
                "It has the columns of formatting: alpaca: leave dataset.formatting away");
    assert_code(dialog, turns, -EINVAL, "leave dataset.columns.messages away");
    assert_code(
        mistyped, "{\"question\":\"a\",\"answer\":\"b\"}", -EINVAL,
        "expected are \"question\" and \"anwser\" (dataset.columns.prompt and .response give them other "
        "names), or \"messages\", or \"text\". Is \"answer\" what \"anwser\" stands for?");
    assert_code(usual, "{\"Instruction\":\"a\",\"Output\":\"b\"}", -EINVAL, "Is \"Instruction\" what");
    assert_code(usual, "{\"instruction;output\":\"a;b\"}", -EINVAL, "Are the cells parted by semicolons?");
    assert_code(usual, "{\"data\":[{\"instruction\":\"a\"}]}", -EINVAL,
                "If the rows are what stands in \"data\"");
    assert_code(usual, "{\"a\":\"b\"}", -EINVAL, "or \"messages\", or \"text\"");
    assert_code(usual, "{\"conversations\":[{\"speaker\":\"human\",\"text\":\"q\"}]}", -EINVAL,
                "dataset.tags.role_tag names another");
    assert_code(usual, "{\"conversations\":[{\"from\":\"Bot\",\"value\":\"q\"}]}", -EPROTO,
                "\"Bot\" is not known (dataset.tags gives roles other names)");
}

static void answers_to_compare_are_told_as_what_they_are(void **state)
{
    (void)state;
    const char *const hint = "for preference training, which is not supported yet";
    assert_code((struct mt_columns){0}, "{\"instruction\":\"I\",\"chosen\":\"good\",\"rejected\":\"bad\"}",
                -EINVAL, hint);
    assert_code((struct mt_columns){0}, "{\"prompt\":\"I\",\"chosen\":[],\"rejected\":[]}", -EINVAL, hint);
    assert_code((struct mt_columns){0},
                "{\"conversations\":[{\"from\":\"human\",\"value\":\"h\"}],\"chosen\":{},\"rejected\":{}}",
                -EPROTO, hint);
    struct reading reading = {0}; /* what has an answer besides is fine */
    mt_assert_ok(
        read_next(&reading,
                  "{\"instruction\":\"I\",\"output\":\"O\",\"chosen\":\"good\",\"rejected\":\"bad\"}"),
        &reading.error);
    finish(&reading);
}

static void assert_columns(struct mt_columns columns, enum mt_row_kind kind, const char *expected)
{
    const char *names[MT_LAYOUT_MAX_COLUMNS];
    const struct mt_layout layout = {.kind = kind};
    const size_t count = mt_layout_columns(&columns, &layout, names);
    char text[256] = "";
    for (size_t i = 0; i < count; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s", i ? " " : "", names[i]);
    assert_string_equal(text, expected);
}

static void only_the_columns_of_the_layout_are_read(void **state)
{
    (void)state;
    const struct mt_columns all = {.prompt = "instruction",
                                   .query = "input",
                                   .response = "output",
                                   .system = "system",
                                   .history = "history"};
    assert_columns(all, MT_ROW_UNDECIDED,
                   "instruction input output history system tools messages conversations "
                   "chat_template_kwargs text");
    assert_columns(all, MT_ROW_ALPACA, "instruction input output history system");
    assert_columns(all, MT_ROW_TURNS, "system tools messages conversations chat_template_kwargs");
    assert_columns(all, MT_ROW_DOCUMENT, "text");
    const struct mt_columns named = {
        .prompt = "q", .response = "a", .query = "", .tools = "t", .messages = "m", .text = "body"};
    assert_columns(named, MT_ROW_ALPACA, "q a t");
    assert_columns(named, MT_ROW_TURNS, "t m chat_template_kwargs");
    assert_columns(named, MT_ROW_DOCUMENT, "body");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alpaca_rows_have_system_history_and_input),
        cmocka_unit_test(sharegpt_rows_have_their_usual_tags),
        cmocka_unit_test(tags_and_columns_may_have_any_name),
        cmocka_unit_test(openai_rows_have_calls_results_reasoning_and_names),
        cmocka_unit_test(tools_are_a_list_or_its_text),
        cmocka_unit_test(a_call_of_tools_may_have_reasoning_before_it_and_be_several),
        cmocka_unit_test(a_loss_weight_is_0_or_1_and_others_are_refused_by_name),
        cmocka_unit_test(turns_out_of_order_are_told_apart_from_broken_rows),
        cmocka_unit_test(an_empty_answer_is_never_learned),
        cmocka_unit_test(cells_that_are_no_texts_are_refused_by_their_place),
        cmocka_unit_test(a_row_without_a_needed_column_is_an_error),
        cmocka_unit_test(a_row_of_other_columns_says_what_to_do),
        cmocka_unit_test(only_the_columns_of_the_layout_are_read),
        cmocka_unit_test(answers_to_compare_are_told_as_what_they_are),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
