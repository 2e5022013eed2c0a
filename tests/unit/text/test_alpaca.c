/* The Alpaca prompt, and from conversations to ids with their marks. */
#include "core/text/chat.h"
#include "tests/unit/support.h"

#define TEXT(literal) .text = literal, .bytes = sizeof(literal) - 1
#define INPUT(literal) .input = literal, .input_bytes = sizeof(literal) - 1

/* As train.py of Stanford Alpaca has them, filled in. */
#define WITHOUT_INPUT(instruction)                                                                           \
    "Below is an instruction that describes a task. Write a response that appropriately completes the "      \
    "request.\n\n### Instruction:\n" instruction "\n\n### Response:"
#define WITH_INPUT(instruction, input)                                                                       \
    "Below is an instruction that describes a task, paired with an input that provides further context. "    \
    "Write a response that appropriately completes the request.\n\n### Instruction:\n" instruction           \
    "\n\n### Input:\n" input "\n\n### Response:"

static struct mt_chat *alpaca(void)
{
    struct mt_error error = {0};
    struct mt_chat *chat;
    mt_assert_ok(mt_chat_open(NULL, NULL, &chat, &error), &error);
    return chat;
}

/* The texts of all parts; answers in [ ], "$" for an end token. */
static void assert_rendering(const struct mt_message *messages, size_t count, bool generation_prompt,
                             const char *expected)
{
    struct mt_error error = {0};
    struct mt_chat *chat = alpaca();
    struct mt_chat_rendering rendering = {0};
    struct mt_text shown = {0};
    mt_assert_ok(mt_chat_render(chat, messages, count, generation_prompt, &rendering, &error), &error);
    for (size_t i = 0; i < rendering.num_parts; i++) {
        const struct mt_chat_part *part = &rendering.parts[i];
        mt_text_append(&shown, "[", part->answer);
        mt_text_append(&shown, rendering.text.data + part->offset, part->bytes);
        mt_text_append(&shown, "$", part->end);
        mt_text_append(&shown, "]", part->answer);
    }
    assert_string_equal(shown.data, expected);
    mt_text_free(&shown);
    mt_chat_rendering_free(&rendering);
    mt_chat_free(chat);
}

static void one_turn_is_the_published_prompt(void **state)
{
    (void)state;
    const struct mt_message plain[] = {{.role = MT_CHAT_USER, TEXT("Say hi.")},
                                       {.role = MT_CHAT_ASSISTANT, TEXT("Hi!")}};
    assert_rendering(plain, 2, false, WITHOUT_INPUT("Say hi.") "[Hi!$]");
    assert_rendering(plain, 1, true, WITHOUT_INPUT("Say hi."));
    const struct mt_message input[] = {{.role = MT_CHAT_USER, TEXT("Translate."), INPUT("hi")},
                                       {.role = MT_CHAT_ASSISTANT, TEXT("salut")}};
    assert_rendering(input, 2, false, WITH_INPUT("Translate.", "hi") "[salut$]");
}

static void a_blank_input_is_none(void **state)
{
    (void)state;
    const struct mt_message messages[] = {{.role = MT_CHAT_USER, TEXT("Go"), INPUT("")}};
    assert_rendering(messages, 1, true, WITHOUT_INPUT("Go"));
}

static void a_system_prompt_stands_for_the_preamble(void **state)
{
    (void)state;
    const struct mt_message messages[] = {{.role = MT_CHAT_SYSTEM, TEXT("Be brief.")},
                                          {.role = MT_CHAT_USER, TEXT("Go")}};
    assert_rendering(messages, 2, true, "Be brief.\n\n### Instruction:\nGo\n\n### Response:");
}

static void every_answer_of_several_turns_is_learned_with_its_end(void **state)
{
    (void)state;
    const struct mt_message messages[] = {{.role = MT_CHAT_USER, TEXT("a")},
                                          {.role = MT_CHAT_ASSISTANT, TEXT("A")},
                                          {.role = MT_CHAT_USER, TEXT("b")},
                                          {.role = MT_CHAT_ASSISTANT, TEXT("B")}};
    assert_rendering(messages, 4, false,
                     WITHOUT_INPUT("a") "[A$]\n\n### Instruction:\nb\n\n### Response:[B$]");
}

static void roles_out_of_turn_are_refused(void **state)
{
    (void)state;
    struct mt_error error = {0};
    struct mt_chat *chat = alpaca();
    struct mt_chat_rendering rendering = {0};
    const struct mt_message messages[] = {{.role = MT_CHAT_USER, TEXT("a")},
                                          {.role = MT_CHAT_USER, TEXT("b")},
                                          {.role = MT_CHAT_ASSISTANT, TEXT("B")}};
    assert_true(mt_chat_render(chat, messages, 3, false, &rendering, &error) < 0);
    assert_int_equal(error.reason, MT_REASON_BAD_DATA);
    mt_assert_mentions(error.message, "message 2 is the user's where the assistant's");
    assert_true(mt_chat_render(chat, messages, 1, false, &rendering, &error) < 0);
    mt_assert_mentions(error.message, "must end with an answer");
    assert_true(mt_chat_render(chat, messages, 0, true, &rendering, &error) < 0);
    assert_true(mt_chat_render(chat, messages + 2, 1, true, &rendering, &error) < 0);
    mt_chat_rendering_free(&rendering);
    mt_chat_free(chat);
}

struct encoded {
    struct mt_chat *chat;
    struct mt_tokenizer *tokenizer;
    struct mt_ids ids, learned;
};

static struct encoded encode(const struct mt_message *messages, size_t count, bool generation_prompt)
{
    struct mt_error error = {0};
    struct encoded encoded = {.chat = alpaca()};
    mt_assert_ok(mt_tokenizer_load("bytes", &encoded.tokenizer, &error), &error);
    mt_assert_ok(mt_chat_encode(encoded.chat, encoded.tokenizer, messages, count, generation_prompt,
                                &encoded.ids, &encoded.learned, &error),
                 &error);
    assert_int_equal(encoded.ids.count, encoded.learned.count);
    return encoded;
}

static void free_encoded(struct encoded *encoded)
{
    mt_ids_free(&encoded->ids);
    mt_ids_free(&encoded->learned);
    mt_tokenizer_free(encoded->tokenizer);
    mt_chat_free(encoded->chat);
}

static void exactly_one_begin_token_in_training_and_generation(void **state)
{
    (void)state;
    const struct mt_message messages[] = {{.role = MT_CHAT_SYSTEM, TEXT("<|begin|>System")},
                                          {.role = MT_CHAT_USER, TEXT("a")},
                                          {.role = MT_CHAT_ASSISTANT, TEXT("A")},
                                          {.role = MT_CHAT_USER, TEXT("b")},
                                          {.role = MT_CHAT_ASSISTANT, TEXT("B")}};
    for (size_t first = 0; first < 2; first++)
        for (size_t generation = 0; generation < 2; generation++) {
            struct encoded encoded = encode(messages + first, 5 - first - generation, generation);
            assert_int_equal(encoded.ids.data[0], 256);
            for (size_t i = 1; i < encoded.ids.count; i++)
                assert_int_not_equal(encoded.ids.data[i], 256);
            free_encoded(&encoded);
        }
}

static void the_learned_tokens_are_the_answers_and_their_ends(void **state)
{
    (void)state;
    struct mt_error error = {0};
    const struct mt_message messages[] = {{.role = MT_CHAT_USER, TEXT("a")},
                                          {.role = MT_CHAT_ASSISTANT, TEXT("First")},
                                          {.role = MT_CHAT_USER, TEXT("b")},
                                          {.role = MT_CHAT_ASSISTANT, TEXT("Second")}};
    struct encoded encoded = encode(messages, 4, false);
    struct mt_ids answers = {0};
    for (size_t i = 0; i < encoded.ids.count; i++)
        if (encoded.learned.data[i])
            mt_ids_push(&answers, encoded.ids.data[i]);
    struct mt_text text = {0};
    mt_assert_ok(mt_tokenizer_decode(encoded.tokenizer, answers.data, answers.count, false, &text, &error),
                 &error);
    assert_string_equal(text.data, "First<|end|>Second<|end|>");
    mt_text_free(&text);
    mt_ids_free(&answers);
    free_encoded(&encoded);
}

/* PAINS: generation-prompt tokens get no loss, and training and generation see the same tokens. */
static void the_prompt_of_generation_is_the_prompt_of_training(void **state)
{
    (void)state;
    const struct mt_message messages[] = {{.role = MT_CHAT_USER, TEXT("two plus two"), INPUT("in words")},
                                          {.role = MT_CHAT_ASSISTANT, TEXT("four")}};
    struct encoded training = encode(messages, 2, false), generation = encode(messages, 1, true);
    size_t prompt = 0;
    while (!training.learned.data[prompt])
        prompt++;
    assert_int_equal(generation.ids.count, prompt);
    assert_memory_equal(generation.ids.data, training.ids.data, prompt * sizeof *training.ids.data);
    for (size_t i = 0; i < generation.learned.count; i++)
        assert_int_equal(generation.learned.data[i], 0);
    assert_int_equal(training.ids.data[training.ids.count - 1], 257);
    free_encoded(&training);
    free_encoded(&generation);
}

static void an_unknown_template_is_refused_by_name(void **state)
{
    struct mt_error error = {0};
    struct mt_test_folder *folder = *state;
    struct mt_chat *chat;
    assert_true(mt_chat_open("template-of-mine", NULL, &chat, &error) < 0);
    mt_assert_mentions(error.message, "template-of-mine");
    mt_assert_ok(mt_chat_open(NULL, folder->path, &chat, &error), &error); /* a folder without a template */
    assert_string_equal(mt_chat_name(chat), "alpaca");
    mt_chat_free(chat);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_turn_is_the_published_prompt),
        cmocka_unit_test(a_blank_input_is_none),
        cmocka_unit_test(a_system_prompt_stands_for_the_preamble),
        cmocka_unit_test(every_answer_of_several_turns_is_learned_with_its_end),
        cmocka_unit_test(roles_out_of_turn_are_refused),
        cmocka_unit_test(exactly_one_begin_token_in_training_and_generation),
        cmocka_unit_test(the_learned_tokens_are_the_answers_and_their_ends),
        cmocka_unit_test(the_prompt_of_generation_is_the_prompt_of_training),
        mt_test_in_folder(an_unknown_template_is_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
