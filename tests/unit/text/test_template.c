/* Where a model's chat template is found, what it is given, and which parts of its text are the assistant's.
 */
#include "core/base/cleanup.h"
#include "core/base/document.h"
#include "core/text/template.h"
#include "tests/unit/support.h"

static void write_file(void **state, const char *name, const char *text)
{
    struct mt_error error = {0};
    mt_assert_ok(mt_file_write_atomic(mt_test_path(state, name), text, strlen(text), 0644, &error), &error);
}

static const char *folder_of(void **state)
{
    return ((struct mt_test_folder *)*state)->path;
}

static json_t *conversation(const char *json)
{
    json_error_t why;
    json_t *value = json_loads(json, 0, &why);
    if (!value)
        fail_msg("%s: %s", json, why.text);
    return value;
}

/* Renders and frees the template. */
static int render(struct mt_template *template, const char *json, bool generation_prompt,
                  struct mt_chat_rendering *rendering, struct mt_error *error)
{
    mt_autojson json_t *value = conversation(json);
    const int r = mt_template_render(template, value, generation_prompt, rendering, error);
    mt_template_free(template);
    return r;
}

static void expect_text(struct mt_template *template, const char *json, const char *text)
{
    mt_cleanup(mt_chat_rendering_free) struct mt_chat_rendering rendering = {0};
    struct mt_error error = {0};
    assert_non_null(template);
    mt_assert_ok(render(template, json, false, &rendering, &error), &error);
    assert_string_equal(rendering.text.data, text);
}

/* `parts`: the parts with "|" between, those that are learned in brackets, "$" where the end token follows.
 */
static void expect_parts(const char *source, const char *json, bool generation_prompt, const char *parts)
{
    mt_cleanup(mt_chat_rendering_free) struct mt_chat_rendering rendering = {0};
    mt_cleanup(mt_text_free) struct mt_text shown = {0};
    struct mt_template *template = NULL;
    struct mt_error error = {0};
    mt_assert_ok(mt_template_new(source, strlen(source), "t", NULL, &template, &error), &error);
    mt_assert_ok(render(template, json, generation_prompt, &rendering, &error), &error);
    for (size_t i = 0; i < rendering.num_parts; i++) {
        const struct mt_chat_part *part = &rendering.parts[i];
        assert_int_equal(mt_text_append(&shown, i ? "|" : "", i ? 1 : 0), 0);
        assert_int_equal(mt_text_append(&shown, part->answer ? "[" : "", part->answer), 0);
        assert_int_equal(mt_text_append(&shown, rendering.text.data + part->offset, part->bytes), 0);
        assert_int_equal(mt_text_append(&shown, part->end ? "$" : "", part->end), 0);
        assert_int_equal(mt_text_append(&shown, part->answer ? "]" : "", part->answer), 0);
    }
    assert_string_equal(shown.data, parts);
}

static struct mt_template *load(void **state)
{
    struct mt_template *template = NULL;
    struct mt_error error = {0};
    mt_assert_ok(mt_template_load(folder_of(state), &template, &error), &error);
    return template;
}

#define HELLO "[{\"role\": \"user\", \"content\": \"Hello\"}]"

static void finds_the_template_in_each_of_its_places(void **state)
{
    assert_null(load(state));
    write_file(state, "chat_template.json", "{\"chat_template\": \"3{{ bos_token }}\"}");
    expect_text(load(state), HELLO, "3");
    write_file(state, "special_tokens_map.json",
               "{\"bos_token\": \"<m>\", \"eos_token\": {\"content\": \"</m>\"}}");
    expect_text(load(state), HELLO, "3<m>");
    write_file(state, "tokenizer_config.json",
               "{\"bos_token\": {\"content\": \"<s>\", \"lstrip\": false}, \"add_bos_token\": true, "
               "\"pad_token\": null,"
               " \"chat_template\": \"2{{ bos_token }}{{ eos_token }}{{ pad_token is defined }}{{ "
               "add_bos_token }}\"}");
    expect_text(load(state), HELLO, "2<s></m>False");
    write_file(state, "chat_template.jinja", "1{{ bos_token }}\n");
    expect_text(load(state), HELLO, "1<s>");
}

static void takes_the_tool_template_where_there_are_tools(void **state)
{
    write_file(state, "tokenizer_config.json",
               "{\"chat_template\": [{\"name\": \"tool_use\", \"template\": \"tools {{ tools|length }}\"},"
               " {\"name\": \"default\", \"template\": \"plain {{ tools }}\"}, {\"name\": \"rag\", "
               "\"template\": \"\"}]}");
    expect_text(load(state), HELLO, "plain None");
    expect_text(load(state), "{\"messages\": " HELLO ", \"tools\": [1, 2]}", "tools 2");
}

static void refuses_broken_templates_with_their_place(void **state)
{
    struct mt_template *template = NULL;
    struct mt_error error = {0};
    write_file(state, "chat_template.jinja", "x\n{% for %}");
    assert_int_equal(mt_template_load(folder_of(state), &template, &error), -EINVAL);
    assert_int_equal(error.reason, MT_REASON_BAD_MODEL);
    mt_assert_mentions(error.message, "/chat_template.jinja:2:8:");
    assert_int_equal(unlink(mt_test_path(state, "chat_template.jinja")), 0);
    write_file(state, "tokenizer_config.json",
               "{\"chat_template\": [{\"name\": \"rag\", \"template\": \"\"}]}");
    assert_int_equal(mt_template_load(folder_of(state), &template, &error), -EINVAL);
    mt_assert_mentions(error.message, "default");
    write_file(state, "tokenizer_config.json", "{\"chat_template\": 5}");
    assert_int_equal(mt_template_load(folder_of(state), &template, &error), -EINVAL);
    write_file(state, "tokenizer_config.json", "{\"chat_template\": ");
    assert_int_equal(mt_template_load(folder_of(state), &template, &error), -EINVAL);
    assert_int_equal(error.reason, MT_REASON_BAD_MODEL);
}

static void hands_messages_on_as_transformers_does(void **state)
{
    (void)state;
    static const char source[] =
        "{% for m in messages %}{{ m|tojson }}{% endfor %}{{ documents }}{{ extra }}";
    struct mt_template *template = NULL;
    struct mt_error error = {0};
    mt_assert_ok(mt_template_new(source, strlen(source), "t", NULL, &template, &error), &error);
    expect_text(
        template,
        "{\"messages\": [{\"role\": \"user\", \"content\": null, \"reasoning\": \"r\"}], \"extra\": 5}",
        "{\"thinking\": \"r\", \"role\": \"user\", \"reasoning\": \"r\", \"reasoning_content\": "
        "\"r\"}None5");
}

static void whole_numbers_of_any_size_come_out_as_they_were(void **state)
{
    (void)state;
    static const char source[] =
        "{% for m in messages %}{% for c in m.tool_calls %}{% set a = c.function.arguments %}"
        "{{ a|tojson }} {{ a.id }} {{ a.id is number }} {{ a.id is mapping }} "
        "{{ a.id|int }} {{ a.id|string|length }}{% endfor %}{% endfor %}{{ limit }}";
    static const char wanted[] =
        "{\"id\": 12345678901234567890, \"low\": [-99999999999999999999, 9223372036854775807]} "
        "12345678901234567890 True False 12345678901234567890 20"
        "1000000000000000019884624838656";
    static const char *const given[] = {
        "{\"messages\": [{\"role\": \"assistant\", \"tool_calls\": [{\"function\": {\"arguments\": {\"id\": "
        "12345678901234567890, \"low\": [-99999999999999999999, 9223372036854775807]}}}]}], \"limit\": "
        "1000000000000000019884624838656}",
        "{\"messages\": [{\"role\": \"assistant\", \"tool_calls\": [{\"function\": {\"arguments\": "
        "\"{\\\"id\\\": "
        "12345678901234567890, \\\"low\\\": [-99999999999999999999, 9223372036854775807]}\"}}]}], \"limit\": "
        "1000000000000000019884624838656}",
    };
    for (size_t i = 0; i < 2; i++) {
        mt_cleanup(mt_chat_rendering_free) struct mt_chat_rendering rendering = {0};
        struct mt_template *template = NULL;
        struct mt_error error = {0};
        mt_autojson json_t *value = NULL;
        mt_assert_ok(mt_json_parse_exact(given[i], strlen(given[i]), "text", &value, &error), &error);
        mt_assert_ok(mt_template_new(source, strlen(source), "t", NULL, &template, &error), &error);
        mt_assert_ok(mt_template_render(template, value, true, &rendering, &error), &error);
        assert_string_equal(rendering.text.data, wanted);
        mt_template_free(template);
    }
}

#define CHATML                                                                                               \
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"               \
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
#define TWO_ANSWERS                                                                                          \
    "[{\"role\": \"user\", \"content\": \"Q\"}, {\"role\": \"assistant\", \"content\": \"A\"},"              \
    " {\"role\": \"user\", \"content\": \"A\"}, {\"role\": \"assistant\", \"content\": \"B\"}]"

static void finds_answers_turn_by_turn(void **state)
{
    (void)state;
    expect_parts(CHATML, TWO_ANSWERS, false,
                 "<|im_start|>user\nQ<|im_end|>\n<|im_start|>assistant\n|[A<|im_end|>]|\n<|im_start|>user\nA<"
                 "|im_end|>\n"
                 "<|im_start|>assistant\n|[B<|im_end|>]|\n");
    expect_parts(CHATML, "[{\"role\": \"user\", \"content\": \"Q\"}]", true,
                 "<|im_start|>user\nQ<|im_end|>\n<|im_start|>assistant\n");
    /* The parts are the same in a prompt with earlier answers. */
    expect_parts(CHATML,
                 "[{\"role\": \"user\", \"content\": \"Q\"}, {\"role\": \"assistant\", \"content\": \"A\"},"
                 " {\"role\": \"user\", \"content\": \"R\"}]",
                 true,
                 "<|im_start|>user\nQ<|im_end|>\n<|im_start|>assistant\n|[A<|im_end|>]|\n<|im_start|>user\nR<"
                 "|im_end|>\n"
                 "<|im_start|>assistant\n");
}

static void finds_answers_by_marks(void **state)
{
    (void)state;
    static const char source[] =
        "{% for m in messages %}{% if m.role == 'assistant' %}<a>{% generation %}{{ m.content }}!"
        "{% endgeneration %}{% else %}<u>{{ m.content }}{% endif %}{% endfor %}";
    expect_parts(source, TWO_ANSWERS, false, "<u>Q<a>|[A!]|<u>A<a>|[B!]");
    /* What the generation prompt writes is not learned, though it is marked. */
    static const char with_header[] =
        "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}<a>\n{{ m.content }}!{% "
        "endgeneration %}"
        "{% else %}<u>{{ m.content }}{% endif %}{% endfor %}{% if add_generation_prompt %}<a>\n{% endif %}";
    expect_parts(with_header, TWO_ANSWERS, false, "<u>Q<a>\n|[A!]|<u>A<a>\n|[B!]");
}

static void learns_no_empty_reasoning(void **state)
{
    (void)state;
    static const char source[] =
        "{% for m in messages %}<{{ m.role }}>{% if m.role == 'assistant' %}<think>{{ m.reasoning_content "
        "}}</think>\n"
        "{% endif %}{{ m.content }}<end>{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}";
    expect_parts(source,
                 "[{\"role\": \"user\", \"content\": \"Q\"}, {\"role\": \"assistant\", \"content\": \"A\"},"
                 " {\"role\": \"user\", \"content\": \"R\"},"
                 " {\"role\": \"assistant\", \"content\": \"B\", \"reasoning_content\": \"why\"}]",
                 false,
                 "<user>Q<end><assistant><think></think>\n|[A<end>]|<user>R<end><assistant>|[<think>why</"
                 "think>\nB<end>]");
}

#define CALL_AND_ANSWER                                                                                      \
    "[{\"role\": \"user\", \"content\": \"Q\"}, {\"role\": \"assistant\", \"content\": \"\", "               \
    "\"tool_calls\": [{}]},"                                                                                 \
    " {\"role\": \"tool\", \"content\": \"4\"}, {\"role\": \"assistant\", \"content\": \"B\"}]"

static void learns_no_answer_of_which_nothing_is_written(void **state)
{
    (void)state;
    static const char silent[] = "{% for m in messages %}<{{ m.role }}>{{ m.content }}<end>{% endfor %}"
                                 "{% if add_generation_prompt %}<assistant>{% endif %}";
    expect_parts(silent, CALL_AND_ANSWER, false,
                 "<user>Q<end><assistant>|<end>|<tool>4<end><assistant>|[B<end>]");
    static const char writing[] =
        "{% for m in messages %}<{{ m.role }}>{{ m.content }}{{ 'call' if m.tool_calls "
        "}}<end>{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}";
    expect_parts(writing, CALL_AND_ANSWER, false,
                 "<user>Q<end><assistant>|[call<end>]|<tool>4<end><assistant>|[B<end>]");
    static const char marked[] =
        "{% for m in messages %}<{{ m.role }}>{% if m.role == 'assistant' %}{% generation %}"
        "{{ m.content }}<end>{% endgeneration %}{% else %}{{ m.content }}<end>{% endif %}"
        "{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}";
    expect_parts(marked, CALL_AND_ANSWER, false,
                 "<user>Q<end><assistant>|<end>|<tool>4<end><assistant>|[B<end>]");
}

static void finds_answers_that_are_written_anew(void **state)
{
    (void)state;
    /* Reasoning of earlier turns is dropped (as Qwen3 does). */
    static const char dropping[] = "{% for m in messages %}<{{ m.role }}>\n{% if m.reasoning_content and "
                                   "loop.last %}<think>{{ m.reasoning_content }}"
                                   "</think>{% endif %}{{ m.content }}<end>\n{% endfor %}{% if "
                                   "add_generation_prompt %}<assistant>\n{% endif %}";
    static const char reasoning[] = "[{\"role\": \"user\", \"content\": \"Q\"}, {\"role\": \"assistant\", "
                                    "\"content\": \"A\", \"thinking\": \"x\"},"
                                    " {\"role\": \"user\", \"content\": \"R\"}, {\"role\": \"assistant\", "
                                    "\"content\": \"B\", \"thinking\": \"y\"}]";
    expect_parts(
        dropping, reasoning, false,
        "<user>\nQ<end>\n<assistant>\n|[A<end>]|\n<user>\nR<end>\n<assistant>\n|[<think>y</think>B<end>]|\n");
    /* The last answer ends otherwise (as gpt-oss does). */
    static const char returning[] =
        "{% for m in messages %}<start>{{ m.role }}<text>{{ m.content }}{{ '<return>' if loop.last and "
        "m.role == "
        "'assistant' and not add_generation_prompt else '<end>' }}{% endfor %}{% if add_generation_prompt %}"
        "<start>assistant{% endif %}";
    expect_parts(
        returning, TWO_ANSWERS, false,
        "<start>user<text>Q<end><start>assistant|[<text>A<end>]|<start>user<text>A<end><start>assistant|"
        "[<text>B<return>]");
}

static void ends_answers_that_the_template_leaves_open(void **state)
{
    (void)state;
    /* The end of a turn is written before the next one only: it is learned there, and the last answer gets
     * the tokenizer's end token. */
    static const char late[] =
        "{% for m in messages %}{% if m.role == 'user' %}{{ '<a_end>' if not loop.first }}<u>{{ m.content "
        "}}<u_end>"
        "{% else %}<a>{{ m.content }}{% endif %}{% endfor %}{% if add_generation_prompt %}<a>{% endif %}";
    expect_parts(late, TWO_ANSWERS, false, "<u>Q<u_end><a>|[A<a_end>]|<u>A<u_end><a>|[B$]");
}

static void refuses_answers_that_cant_be_told(void **state)
{
    (void)state;
    static const char source[] = "{% for m in messages|reverse %}{{ m.content }};{% endfor %}";
    mt_cleanup(mt_chat_rendering_free) struct mt_chat_rendering rendering = {0};
    struct mt_template *template = NULL;
    struct mt_error error = {0};
    mt_assert_ok(mt_template_new(source, strlen(source), "t", NULL, &template, &error), &error);
    assert_int_equal(render(template, TWO_ANSWERS, false, &rendering, &error), -EINVAL);
    assert_int_equal(error.reason, MT_REASON_BAD_DATA);
    mt_assert_mentions(error.message, "message 2");
    assert_int_equal(rendering.num_parts, 0);
}

static void passes_on_the_words_of_a_refusal(void **state)
{
    (void)state;
    static const char source[] = "{{ raise_exception('System role not supported') }}";
    mt_cleanup(mt_chat_rendering_free) struct mt_chat_rendering rendering = {0};
    struct mt_template *template = NULL;
    struct mt_error error = {0};
    mt_assert_ok(mt_template_new(source, strlen(source), "t", NULL, &template, &error), &error);
    assert_int_equal(render(template, HELLO, false, &rendering, &error), -EINVAL);
    assert_int_equal(error.reason, MT_REASON_BAD_DATA);
    mt_assert_mentions(error.message, "System role not supported");
}

static void refuses_what_is_no_conversation(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "[]", "{}", "{\"messages\": []}", "[5]", "[{\"content\": \"x\"}]", "{\"messages\": \"x\"}", "[null]"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        mt_cleanup(mt_chat_rendering_free) struct mt_chat_rendering rendering = {0};
        struct mt_template *template = NULL;
        struct mt_error error = {0};
        mt_assert_ok(mt_template_new("x", 1, "t", NULL, &template, &error), &error);
        assert_int_equal(render(template, wrong[i], false, &rendering, &error), -EINVAL);
        assert_int_equal(error.reason, MT_REASON_BAD_DATA);
    }
}

static void gives_tool_arguments_as_they_are_wanted(void **state)
{
    (void)state;
    static const char *const sources[] = {
        "{% for m in messages %}{% for c in m.tool_calls %}{{ c.function.arguments|tojson }}{% endfor %}{% "
        "endfor %}",
        "{% for m in messages %}{% for c in m.tool_calls %}{{ '' + c.function.arguments }}{% endfor %}{% "
        "endfor %}",
        "{% for m in messages %}{% for c in m.tool_calls %}{{ c.function.arguments }}{% endfor %}{% endfor "
        "%}",
    };
    static const char *const given[] = {
        "[{\"role\": \"assistant\", \"tool_calls\": [{\"function\": {\"arguments\": {\"a\": \"\\u00e9\\\"\", "
        "\"b\": 0.1}}}]}]",
        "[{\"role\": \"assistant\", \"tool_calls\": [{\"function\": {\"arguments\":"
        " \"{\\\"a\\\": \\\"\\u00e9\\\\\\\"\\\", \\\"b\\\": 0.1}\"}}]}]",
    };
    for (size_t i = 0; i < 3; i++)
        for (size_t j = 0; j < 2; j++) {
            mt_cleanup(mt_chat_rendering_free) struct mt_chat_rendering rendering = {0};
            struct mt_template *template = NULL;
            struct mt_error error = {0};
            mt_assert_ok(mt_template_new(sources[i], strlen(sources[i]), "t", NULL, &template, &error),
                         &error);
            mt_assert_ok(render(template, given[j], true, &rendering, &error), &error);
            assert_string_equal(rendering.text.data, "{\"a\": \"é\\\"\", \"b\": 0.1}");
        }
}

static void named_templates_learn_the_answers_alone(void **state)
{
    (void)state;
    for (const char *const *name = mt_template_names(); *name; name++) {
        mt_cleanup(mt_chat_rendering_free) struct mt_chat_rendering rendering = {0};
        struct mt_template *template = NULL;
        struct mt_error error = {0};
        mt_assert_ok(mt_template_named(*name, NULL, &template, &error), &error);
        assert_non_null(template);
        mt_assert_ok(
            render(
                template,
                "[{\"role\": \"system\", \"content\": \"S\"}, {\"role\": \"user\", \"content\": [{\"type\":"
                " \"text\", \"text\": \"Q1\"}]}, {\"role\": \"assistant\", \"content\": \"A1\"},"
                " {\"role\": \"user\", \"content\": \"Q2\"}, {\"role\": \"assistant\", \"content\": \"A2\"}]",
                false, &rendering, &error),
            &error);
        size_t answers = 0;
        for (size_t i = 0; i < rendering.num_parts; i++) {
            const struct mt_chat_part *part = &rendering.parts[i];
            mt_autofree char *text = strndup(rendering.text.data + part->offset, part->bytes);
            assert_non_null(text);
            if (!part->answer) {
                assert_null(strstr(text, "A1"));
                continue;
            }
            mt_assert_mentions(text, answers++ ? "A2" : "A1");
            assert_null(strstr(text, "Q2"));
            assert_true(part->bytes > 2); /* the answer and what ends it */
        }
        assert_int_equal(answers, 2);

        mt_assert_ok(mt_template_named(*name, NULL, &template, &error), &error);
        assert_int_equal(
            render(template, "{\"messages\": " HELLO ", \"tools\": [{}]}", true, &rendering, &error),
            -EINVAL);
        mt_assert_mentions(error.message, "tools");
    }
    struct mt_template *none = NULL;
    struct mt_error error = {0};
    mt_assert_ok(mt_template_named("no such", NULL, &none, &error), &error);
    assert_null(none);
}

static void fingerprints_tell_templates_apart(void **state)
{
    (void)state;
    struct mt_template *templates[3];
    struct mt_error error = {0};
    mt_autojson json_t *tokens = json_pack("{s:s}", "bos_token", "<s>");
    mt_assert_ok(mt_template_new("x", 1, "t", NULL, &templates[0], &error), &error);
    mt_assert_ok(mt_template_new("y", 1, "t", NULL, &templates[1], &error), &error);
    mt_assert_ok(mt_template_new("x", 1, "t", tokens, &templates[2], &error), &error);
    for (size_t i = 0; i < 3; i++)
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(mt_template_fingerprint(templates[i]),
                                    mt_template_fingerprint(templates[j]));
    for (size_t i = 0; i < 3; i++)
        mt_template_free(templates[i]);
}

/* So many messages: a question, a call, its result, and an answer each, in turn; and a tool for each call. */
static json_t *long_conversation(size_t count)
{
    json_t *messages = json_array(), *tools = json_array();
    for (size_t i = 0; i < count / 4; i++) {
        char name[32];
        snprintf(name, sizeof name, "tool_%zu", i);
        assert_int_equal(
            json_array_append_new(messages, json_pack("{s:s, s:s}", "role", "user", "content", name)), 0);
        assert_int_equal(json_array_append_new(messages, json_pack("{s:s, s:s, s:[{s:{s:s, s:{}}}]}", "role",
                                                                   "assistant", "content", "", "tool_calls",
                                                                   "function", "name", name, "arguments")),
                         0);
        assert_int_equal(
            json_array_append_new(messages, json_pack("{s:s, s:s}", "role", "tool", "content", "R")), 0);
        assert_int_equal(
            json_array_append_new(messages, json_pack("{s:s, s:s}", "role", "assistant", "content", "A")), 0);
        assert_int_equal(json_array_append_new(tools, json_pack("{s:{s:s}}", "function", "name", name)), 0);
    }
    return json_pack("{s:o, s:o}", "messages", messages, "tools", tools);
}

/* Renders 5,000 messages and 1,250 tools. */
static int render_long(const char *source, struct mt_chat_rendering *rendering, struct mt_error *error)
{
    mt_autojson json_t *messages = long_conversation(5000);
    struct mt_template *template = NULL;
    mt_assert_ok(mt_template_new(source, strlen(source), "t", NULL, &template, error), error);
    const int r = mt_template_render(template, messages, false, rendering, error);
    mt_template_free(template);
    return r;
}

#define WITH_TOOLS "{% for t in tools %}{{ t|tojson }}{% endfor %}"
#define LONG_PROMPT "{% if add_generation_prompt %}<assistant>{% endif %}"

/* All renderings of a conversation have one bound on their work, which thousands that are each as long as the
 * conversation would reach. */
static void finds_thousands_of_answers_in_a_few_renderings(void **state)
{
    (void)state;
    static const struct {
        const char *source;
        size_t call; /* bytes of a call's answer; 0: not learned */
    } cases[] = {
        {WITH_TOOLS "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% for c in m.tool_calls %}{{ "
                    "c.function.name }}{% endfor %}<end>{% endfor %}" LONG_PROMPT,
         sizeof "tool_0<end>" - 1},
        {WITH_TOOLS "{% for m in messages %}<{{ m.role }}>{{ m.content }}<end>{% endfor %}" LONG_PROMPT, 0},
        {"{% for m in messages %}<{{ m.role }}>{% if m.role == 'assistant' %}{% generation %}{{ m.content }}"
         "<end>{% endgeneration %}{% else %}{{ m.content }}<end>{% endif %}{% endfor %}" LONG_PROMPT,
         0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mt_cleanup(mt_chat_rendering_free) struct mt_chat_rendering rendering = {0};
        struct mt_error error = {0};
        size_t calls = 0, answers = 0;
        mt_assert_ok(render_long(cases[i].source, &rendering, &error), &error);
        for (size_t k = 0; k < rendering.num_parts; k++) {
            const struct mt_chat_part *part = &rendering.parts[k];
            const char *text = rendering.text.data + part->offset;
            if (part->answer && part->bytes == 6 && memcmp(text, "A<end>", 6) == 0)
                answers++;
            else if (part->answer && cases[i].call && memcmp(text, "tool_", 5) == 0 &&
                     part->bytes >= cases[i].call)
                calls++;
            else
                assert_false(part->answer);
        }
        assert_int_equal(answers, 1250);
        assert_int_equal(calls, cases[i].call ? 1250 : 0);
    }
}

static void stops_where_thousands_of_answers_take_thousands_of_renderings(void **state)
{
    (void)state;
    /* What a macro writes can't be followed. */
    static const char source[] =
        "{% macro all() %}{% for m in messages %}<{{ m.role }}>{{ m.content }}<end>{% endfor "
        "%}{% endmacro %}{{ all() }}" LONG_PROMPT;
    mt_cleanup(mt_chat_rendering_free) struct mt_chat_rendering rendering = {0};
    struct mt_error error = {0};
    assert_int_equal(render_long(source, &rendering, &error), -EOVERFLOW);
    assert_int_equal(error.reason, MT_REASON_BAD_DATA);
    mt_assert_mentions(error.message, "5000 messages");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        mt_test_in_folder(finds_the_template_in_each_of_its_places),
        mt_test_in_folder(takes_the_tool_template_where_there_are_tools),
        mt_test_in_folder(refuses_broken_templates_with_their_place),
        cmocka_unit_test(hands_messages_on_as_transformers_does),
        cmocka_unit_test(whole_numbers_of_any_size_come_out_as_they_were),
        cmocka_unit_test(finds_answers_turn_by_turn),
        cmocka_unit_test(finds_answers_by_marks),
        cmocka_unit_test(learns_no_empty_reasoning),
        cmocka_unit_test(learns_no_answer_of_which_nothing_is_written),
        cmocka_unit_test(finds_answers_that_are_written_anew),
        cmocka_unit_test(ends_answers_that_the_template_leaves_open),
        cmocka_unit_test(refuses_answers_that_cant_be_told),
        cmocka_unit_test(passes_on_the_words_of_a_refusal),
        cmocka_unit_test(refuses_what_is_no_conversation),
        cmocka_unit_test(gives_tool_arguments_as_they_are_wanted),
        cmocka_unit_test(named_templates_learn_the_answers_alone),
        cmocka_unit_test(fingerprints_tell_templates_apart),
        cmocka_unit_test(finds_thousands_of_answers_in_a_few_renderings),
        cmocka_unit_test(stops_where_thousands_of_answers_take_thousands_of_renderings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
