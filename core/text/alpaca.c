/* One turn is exactly the published prompt: a preamble (which names the input where there is one), the
 * instruction, the input, "### Response:", and the answer right after the colon. The publication has neither
 * system prompts nor several turns: a system prompt takes the place of the preamble, and a later turn begins
 * with an empty line and its "### Instruction:". */
#include "core/text/alpaca.h"

#include "core/base/size.h"

#include <stdlib.h>
#include <string.h>

#define PREAMBLE                                                                                             \
    "Below is an instruction that describes a task. Write a response that appropriately completes the "      \
    "request."

static const char preamble[] = PREAMBLE;
static const char preamble_with_input[] =
    "Below is an instruction that describes a task, paired with an input that provides further context. "
    "Write a response that appropriately completes the request.";

const char mt_alpaca_jinja[] =
    "{%- if bos_token %}{{ bos_token }}{% endif -%}"
    "{%- set turns = messages[1:] if messages[0].role == 'system' else messages -%}"
    "{{ messages[0].content if messages[0].role == 'system' and messages[0].content else '" PREAMBLE "' }}"
    "{%- for message in turns -%}"
    "{%- if message.role == 'assistant' -%}"
    "{%- generation -%}{{ message.content ~ eos_token }}{%- endgeneration -%}"
    "{%- else -%}{{ '\\n\\n### Instruction:\\n' ~ message.content ~ '\\n\\n### Response:' }}{%- endif -%}"
    "{%- endfor -%}";

static int append(struct mt_chat_rendering *rendering, const char *text)
{
    return mt_text_append(&rendering->text, text, strlen(text));
}

static int add_part(struct mt_chat_rendering *rendering, size_t offset, bool answer, bool learned)
{
    if (rendering->num_parts == rendering->capacity) {
        const size_t capacity = mt_size_max(rendering->capacity * 2, 4);
        void *parts = realloc(rendering->parts, capacity * sizeof *rendering->parts);
        if (!parts)
            return -ENOMEM;
        rendering->parts = parts;
        rendering->capacity = capacity;
    }
    rendering->parts[rendering->num_parts++] = (struct mt_chat_part){
        .offset = offset,
        .bytes = rendering->text.bytes - offset,
        .answer = learned,
        .end = answer,
    };
    return 0;
}

/* An optional system message, then user and assistant in turn; the last is the assistant's, or the user's
 * before a generation. */
static int check_roles(const struct mt_message *messages, size_t num_messages, bool generation_prompt,
                       struct mt_error *error)
{
    static const char *const names[] = {"system", "user", "assistant"};
    size_t first = num_messages && messages[0].role == MT_CHAT_SYSTEM;
    for (size_t i = first; i < num_messages; i++) {
        const enum mt_chat_role expected = (i - first) % 2 ? MT_CHAT_ASSISTANT : MT_CHAT_USER;
        if (messages[i].role != expected)
            return mt_error_set(
                error, -EINVAL, MT_REASON_BAD_DATA,
                "message %zu is the %s's where the %s's is expected: after an optional system "
                "message, user and assistant take turns",
                i + 1, names[messages[i].role], names[expected]);
    }
    const size_t turns = num_messages - first;
    if (turns == 0 || turns % 2 != (generation_prompt ? 1 : 0))
        return mt_error_set(error, -EINVAL, MT_REASON_BAD_DATA, "the conversation must end with %s",
                            generation_prompt ? "a message of the user" : "an answer of the assistant");
    return 0;
}

static int render_prompt(const struct mt_message *message, struct mt_chat_rendering *rendering)
{
    int r = append(rendering, "### Instruction:\n");
    if (r == 0)
        r = mt_text_append(&rendering->text, message->text, message->bytes);
    if (r == 0 && message->input_bytes) {
        r = append(rendering, "\n\n### Input:\n");
        if (r == 0)
            r = mt_text_append(&rendering->text, message->input, message->input_bytes);
    }
    return r < 0 ? r : append(rendering, "\n\n### Response:");
}

static int render_opening(const struct mt_message *messages, size_t num_messages,
                          struct mt_chat_rendering *rendering)
{
    bool with_input = false;
    for (size_t i = 0; i < num_messages; i++)
        with_input = with_input || (messages[i].role == MT_CHAT_USER && messages[i].input_bytes);
    int r = messages[0].role == MT_CHAT_SYSTEM && messages[0].bytes
                ? mt_text_append(&rendering->text, messages[0].text, messages[0].bytes)
                : append(rendering, with_input ? preamble_with_input : preamble);
    return r < 0 ? r : append(rendering, "\n\n");
}

int mt_alpaca_render(const struct mt_message *messages, size_t num_messages, bool generation_prompt,
                     struct mt_chat_rendering *rendering, struct mt_error *error)
{
    rendering->text.bytes = 0;
    rendering->num_parts = 0;
    int r = check_roles(messages, num_messages, generation_prompt, error);
    if (r < 0)
        return r;

    r = render_opening(messages, num_messages, rendering);
    size_t part = 0;
    for (size_t i = messages[0].role == MT_CHAT_SYSTEM; r == 0 && i < num_messages; i++) {
        const bool answer = messages[i].role == MT_CHAT_ASSISTANT;
        if (answer)
            r = mt_text_append(&rendering->text, messages[i].text, messages[i].bytes);
        else if (part) /* after an answer */
            r = append(rendering, "\n\n");
        if (r == 0 && !answer)
            r = render_prompt(&messages[i], rendering);
        if (r == 0)
            r = add_part(rendering, part, answer, answer && !messages[i].silent);
        part = rendering->text.bytes;
    }
    if (r < 0)
        return mt_error_set(error, r, MT_REASON_OUT_OF_MEMORY, "out of memory for a prompt");
    return 0;
}
