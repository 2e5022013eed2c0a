/* Choosing a chat template, and from its rendering to ids. */
#include "core/text/chat.h"

#include "core/base/cleanup.h"
#include "core/text/alpaca.h"
#include "core/text/template.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The Alpaca prompt is written in C; all others are Jinja templates. Changing what it renders must change its
 * fingerprint: token caches and checkpoints go by it. */
#define ALPACA "alpaca"
#define ALPACA_FINGERPRINT "alpaca 1"

struct mt_chat {
    char *name;
    struct mt_template *template; /* NULL: Alpaca */
};

static int fail_unknown(const char *name, struct mt_error *error)
{
    char names[512] = ALPACA;
    for (const char *const *known = mt_template_names(); *known; known++) {
        const size_t length = strlen(names);
        snprintf(names + length, sizeof names - length, ", %s", *known);
    }
    return mt_error_set(error, -EINVAL, MT_REASON_BAD_JOB, "there is no chat template \"%s\"; there are: %s",
                        name, names);
}

int mt_chat_open(const char *name, const char *model_folder, struct mt_chat **result, struct mt_error *error)
{
    struct mt_template *template = NULL;
    *result = NULL;
    int r = 0;
    if (!name && model_folder)
        r = mt_template_load(model_folder, &template, error);
    else if (name && strcmp(name, ALPACA) != 0)
        r = mt_template_named(name, model_folder, &template, error);
    if (r < 0)
        return r;
    if (name && strcmp(name, ALPACA) != 0 && !template)
        return fail_unknown(name, error);
    struct mt_chat *chat = calloc(1, sizeof *chat);
    if (chat)
        chat->name = strdup(name ? name : template ? "the model's own" : ALPACA);
    if (!chat || !chat->name) {
        mt_template_free(template);
        free(chat);
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory");
    }
    chat->template = template;
    *result = chat;
    return 0;
}

void mt_chat_free(struct mt_chat *chat)
{
    if (!chat)
        return;
    mt_template_free(chat->template);
    free(chat->name);
    free(chat);
}

const char *mt_chat_name(const struct mt_chat *chat)
{
    return chat->name;
}

bool mt_chat_passes_over_tools(const struct mt_chat *chat, const json_t *conversation)
{
    if (!chat->template || mt_template_knows_tools(chat->template))
        return false;
    const json_t *messages =
        json_is_array(conversation) ? conversation : json_object_get(conversation, "messages");
    bool found = json_array_size(json_object_get(conversation, "tools")) > 0;
    for (size_t i = 0; !found && i < json_array_size(messages); i++)
        found = json_array_size(json_object_get(json_array_get(messages, i), "tool_calls")) > 0;
    return found;
}

const char *mt_chat_fingerprint(const struct mt_chat *chat)
{
    return chat->template ? mt_template_fingerprint(chat->template) : ALPACA_FINGERPRINT;
}

void mt_chat_rendering_free(struct mt_chat_rendering *rendering)
{
    mt_text_free(&rendering->text);
    free(rendering->parts);
    *rendering = (struct mt_chat_rendering){0};
}

static int out_of_memory(struct mt_error *error)
{
    return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory for a prompt");
}

/* A message as a template has it; the Alpaca column `input` stands below the text. */
static json_t *message_object(const struct mt_message *message)
{
    static const char *const roles[] = {"system", "user", "assistant"};
    mt_cleanup(mt_text_free) struct mt_text content = {0};
    if (mt_text_append_utf8(&content, message->text, message->bytes) < 0 ||
        (message->input_bytes && (mt_text_append(&content, "\n", 1) < 0 ||
                                  mt_text_append_utf8(&content, message->input, message->input_bytes) < 0)))
        return NULL;
    json_t *text = json_stringn(content.bytes ? content.data : "", content.bytes);
    return json_pack("{s:s, s:o}", "role", roles[message->role], "content", text);
}

int mt_chat_render(const struct mt_chat *chat, const struct mt_message *messages, size_t num_messages,
                   bool generation_prompt, struct mt_chat_rendering *rendering, struct mt_error *error)
{
    if (!chat->template)
        return mt_alpaca_render(messages, num_messages, generation_prompt, rendering, error);
    mt_autojson json_t *list = json_array();
    for (size_t i = 0; list && i < num_messages; i++)
        if (json_array_append_new(list, message_object(&messages[i])) < 0)
            return out_of_memory(error);
    return list ? mt_template_render(chat->template, list, generation_prompt, rendering, error)
                : out_of_memory(error);
}

/* The plain messages that Alpaca knows. */
static int alpaca_render_json(const json_t *conversation, bool generation_prompt,
                              struct mt_chat_rendering *rendering, struct mt_error *error)
{
    const json_t *list =
        json_is_object(conversation) ? json_object_get(conversation, "messages") : conversation;
    const json_t *tools = json_is_object(conversation) ? json_object_get(conversation, "tools") : NULL;
    if (!json_is_array(list) || json_array_size(list) == 0 || (tools && !json_is_null(tools)))
        return mt_error_set(error, -EINVAL, MT_REASON_BAD_DATA,
                            "the Alpaca prompt takes a list of messages, and has no form for tools");
    mt_autofree struct mt_message *messages = calloc(json_array_size(list), sizeof *messages);
    if (!messages)
        return out_of_memory(error);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *message = json_array_get(list, i), *content = json_object_get(message, "content");
        const char *role = json_string_value(json_object_get(message, "role"));
        if (!role || !json_is_string(content) || json_object_get(message, "tool_calls") ||
            (strcmp(role, "system") != 0 && strcmp(role, "user") != 0 && strcmp(role, "assistant") != 0))
            return mt_error_set(
                error, -EINVAL, MT_REASON_BAD_DATA,
                "message %zu: the Alpaca prompt knows the roles system, user and assistant, and texts",
                i + 1);
        const json_t *input = json_object_get(message, "input"),
                     *weight = json_object_get(message, "loss_weight");
        messages[i] = (struct mt_message){
            .role = role[0] == 's'   ? MT_CHAT_SYSTEM
                    : role[0] == 'u' ? MT_CHAT_USER
                                     : MT_CHAT_ASSISTANT,
            .text = json_string_value(content),
            .bytes = json_string_length(content),
            .input = json_string_value(input),
            .input_bytes = json_string_length(input),
            .silent = json_is_number(weight) && json_number_value(weight) == 0,
        };
    }
    return mt_alpaca_render(messages, json_array_size(list), generation_prompt, rendering, error);
}

/* Two texts as lines; an empty one is none. */
static json_t *joined(const json_t *first, const json_t *second)
{
    mt_cleanup(mt_text_free) struct mt_text text = {0};
    const bool both = json_string_length(first) && json_string_length(second);
    if (mt_text_append(&text, json_string_value(first), json_string_length(first)) < 0 ||
        mt_text_append(&text, "\n", both) < 0 ||
        mt_text_append(&text, json_string_value(second), json_string_length(second)) < 0)
        return NULL;
    return json_stringn_nocheck(text.bytes ? text.data : "", text.bytes);
}

/* The conversation with each Alpaca column `input` below its message's text. A new reference, of the
 * conversation itself where it has none; NULL when out of memory. */
static json_t *without_inputs(const json_t *conversation)
{
    json_t *list = json_is_object(conversation) ? json_object_get(conversation, "messages")
                                                : (json_t *)(uintptr_t)conversation;
    json_t *messages = NULL, *message;
    size_t i;
    json_array_foreach(list, i, message)
    {
        const json_t *input = json_object_get(message, "input"),
                     *content = json_object_get(message, "content");
        if (!json_is_string(input) || !json_is_string(content))
            continue;
        json_t *copy = json_copy(message);
        messages = messages ? messages : json_copy(list);
        if (json_object_set_new(copy, "content", joined(content, input)) < 0 ||
            json_object_del(copy, "input") < 0 || json_array_set_new(messages, i, copy) < 0) {
            json_decref(messages);
            return NULL;
        }
    }
    if (!messages)
        return json_incref((json_t *)(uintptr_t)conversation);
    if (json_is_array(conversation))
        return messages;
    json_t *whole = json_copy((json_t *)(uintptr_t)conversation);
    if (json_object_set_new(whole, "messages", messages) < 0) {
        json_decref(whole);
        return NULL;
    }
    return whole;
}

int mt_chat_render_json(const struct mt_chat *chat, const json_t *conversation, bool generation_prompt,
                        struct mt_chat_rendering *rendering, struct mt_error *error)
{
    if (!chat->template)
        return alpaca_render_json(conversation, generation_prompt, rendering, error);
    mt_autojson json_t *whole = without_inputs(conversation);
    return whole ? mt_template_render(chat->template, whole, generation_prompt, rendering, error)
                 : out_of_memory(error);
}

/* Appends `value` until `learned` is as long as `ids`. */
static int mark(struct mt_ids *learned, const struct mt_ids *ids, size_t base, int32_t value)
{
    int r = 0;
    while (r == 0 && learned->count < ids->count - base)
        r = mt_ids_push(learned, value);
    return r;
}

/* A Jinja template writes the begin token itself; around the Alpaca prompt the tokenizer puts it. */
static int encode_parts(const struct mt_tokenizer *tokenizer, const struct mt_chat_rendering *rendering,
                        struct mt_ids *ids, struct mt_ids *learned, struct mt_error *error)
{
    int r = 0;
    /* Where the marks of this conversation stand when `learned` goes on from earlier ones. */
    const size_t base = learned ? ids->count - learned->count : 0;
    for (size_t i = 0; r == 0 && i < rendering->num_parts; i++) {
        const struct mt_chat_part *part = &rendering->parts[i];
        const size_t first = ids->count;
        r = mt_tokenizer_encode(tokenizer, rendering->text.data + part->offset, part->bytes, i == 0, ids,
                                error);
        if (i == 0)
            mt_tokenizer_single_begin(tokenizer, ids, first);
        const int32_t end = mt_tokenizer_end(tokenizer);
        if (r == 0 && part->end && end != MT_TOKEN_NONE && mt_ids_push(ids, end) < 0)
            r = out_of_memory(error);
        if (r == 0 && learned && mark(learned, ids, base, part->answer) < 0)
            r = out_of_memory(error);
    }
    return r;
}

/* Is any of a place said by the assistant? `*part` goes along from place to place. */
static bool is_answer(const struct mt_chat_rendering *rendering, struct mt_span span, size_t *part)
{
    const struct mt_chat_part *parts = rendering->parts;
    while (*part < rendering->num_parts && parts[*part].offset + parts[*part].bytes <= span.begin)
        ++*part;
    bool answer = false;
    for (size_t i = *part; i < rendering->num_parts && parts[i].offset < span.end; i++)
        answer = answer || parts[i].answer;
    return answer;
}

/* The text is tokenised whole, as transformers does, so that no token depends on where the parts lie. A token
 * of which any character is an answer's is learned. */
static int encode_whole(const struct mt_tokenizer *tokenizer, const struct mt_chat_rendering *rendering,
                        struct mt_ids *ids, struct mt_ids *learned, struct mt_error *error)
{
    struct mt_spans spans = {0};
    const size_t first = ids->count;
    size_t part = 0;
    int r = mt_tokenizer_encode_spans(tokenizer, rendering->text.data, rendering->text.bytes, false, ids,
                                      learned ? &spans : NULL, error);
    const size_t count = ids->count;
    if (r == 0)
        mt_tokenizer_single_begin(tokenizer, ids, first);
    for (size_t i = count - ids->count; r == 0 && i < spans.count; i++)
        if (mt_ids_push(learned, is_answer(rendering, spans.data[i], &part)) < 0)
            r = out_of_memory(error);
    const int32_t end = mt_tokenizer_end(tokenizer);
    const struct mt_chat_part *last =
        rendering->num_parts ? &rendering->parts[rendering->num_parts - 1] : NULL;
    if (r == 0 && last && last->end && end != MT_TOKEN_NONE &&
        (mt_ids_push(ids, end) < 0 || (learned && mt_ids_push(learned, last->answer) < 0)))
        r = out_of_memory(error);
    mt_spans_free(&spans);
    return r;
}

static int encode(const struct mt_chat *chat, const struct mt_tokenizer *tokenizer,
                  const struct mt_chat_rendering *rendering, struct mt_ids *ids, struct mt_ids *learned,
                  struct mt_error *error)
{
    return chat->template ? encode_whole(tokenizer, rendering, ids, learned, error)
                          : encode_parts(tokenizer, rendering, ids, learned, error);
}

int mt_chat_encode(const struct mt_chat *chat, const struct mt_tokenizer *tokenizer,
                   const struct mt_message *messages, size_t num_messages, bool generation_prompt,
                   struct mt_ids *ids, struct mt_ids *learned, struct mt_error *error)
{
    mt_cleanup(mt_chat_rendering_free) struct mt_chat_rendering rendering = {0};
    int r = mt_chat_render(chat, messages, num_messages, generation_prompt, &rendering, error);
    return r == 0 ? encode(chat, tokenizer, &rendering, ids, learned, error) : r;
}

int mt_chat_encode_json(const struct mt_chat *chat, const struct mt_tokenizer *tokenizer,
                        const json_t *conversation, bool generation_prompt, struct mt_ids *ids,
                        struct mt_ids *learned, struct mt_error *error)
{
    mt_cleanup(mt_chat_rendering_free) struct mt_chat_rendering rendering = {0};
    int r = mt_chat_render_json(chat, conversation, generation_prompt, &rendering, error);
    return r == 0 ? encode(chat, tokenizer, &rendering, ids, learned, error) : r;
}
