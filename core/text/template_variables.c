/* From a conversation to a template's variables. */
#include "core/base/cleanup.h"
#include "core/base/document.h"
#include "core/text/template_internal.h"

#include <string.h>

static int out_of_memory(struct mt_error *error)
{
    return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory for a conversation");
}

/* --- tool-call arguments
 * ----------------------------------------------------------------------------------------------- */

/* JSON as Python writes it, through the engine's own tojson. */
static json_t *written_out(const json_t *value)
{
    static const char source[] = "{{ value|tojson }}";
    struct mt_jinja_template *jinja = NULL;
    struct mt_jinja_output output = {0};
    mt_autojson json_t *variables = json_object();
    json_t *text = NULL;
    if (variables && json_object_set(variables, "value", (json_t *)value) == 0 &&
        mt_jinja_parse(source, sizeof source - 1, "tojson", &jinja, NULL) == 0 &&
        mt_jinja_render(jinja, variables, NULL, &output, NULL) == 0)
        text = json_stringn(output.text.data, output.text.bytes);
    mt_jinja_output_free(&output);
    mt_jinja_free(jinja);
    return text;
}

/* The arguments of one call (or its `function`) in the form that is wanted. */
static int change_arguments(json_t *holder, bool as_text)
{
    const json_t *arguments = json_object_get(holder, "arguments");
    json_t *changed = NULL;
    if (as_text && json_is_object(arguments)) {
        changed = written_out(arguments);
    } else if (!as_text && json_is_string(arguments)) {
        changed = mt_json_load(json_string_value(arguments), json_string_length(arguments),
                               JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
        if (!json_is_object(changed) ||
            mt_json_digits(changed)) { /* not what was meant: the template sees the text */
            json_decref(changed);
            return 0;
        }
    } else {
        return 0;
    }
    return changed && json_object_set_new(holder, "arguments", changed) == 0 ? 0 : -ENOMEM;
}

/* A copy of the calls with their arguments in the form that is wanted. */
static json_t *changed_calls(const json_t *calls, bool as_text)
{
    json_t *copy = json_deep_copy(calls);
    size_t i;
    json_t *call;
    json_array_foreach(copy, i, call)
    {
        json_t *function = json_object_get(call, "function");
        if (change_arguments(json_is_object(function) ? function : call, as_text) < 0) {
            json_decref(copy);
            return NULL;
        }
    }
    return copy;
}

/* --- messages
 * ---------------------------------------------------------------------------------------------------------------
 */

static json_t *reasoning_of(const json_t *message)
{
    static const char *const names[] = {"reasoning_content", "thinking", "reasoning"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        json_t *reasoning = json_object_get(message, names[i]);
        if (reasoning && !json_is_null(reasoning))
            return reasoning;
    }
    return NULL;
}

/* As transformers hands it to a template: without null members (and what is ours, its weight in the loss),
 * reasoning under its old and its new name. */
static json_t *normalised(const json_t *message, bool text_arguments)
{
    json_t *copy = json_object(), *reasoning = reasoning_of(message), *value;
    const char *name;
    bool ok = copy && (!reasoning || json_object_set(copy, "thinking", reasoning) == 0);
    json_object_foreach((json_t *)message, name, value)
    {
        if (json_is_null(value) || strcmp(name, "loss_weight") == 0)
            continue;
        if (strcmp(name, "tool_calls") == 0 && json_is_array(value))
            ok = ok && json_object_set_new(copy, name, changed_calls(value, text_arguments)) == 0;
        else
            ok = ok && json_object_set(copy, name, value) == 0;
    }
    ok = ok && (!reasoning || json_object_set(copy, "reasoning_content", reasoning) == 0);
    if (!ok) {
        json_decref(copy);
        return NULL;
    }
    return copy;
}

static int add_messages(json_t *variables, const json_t *messages, bool text_arguments,
                        struct mt_error *error)
{
    json_t *list = json_array(), *message;
    size_t i;
    if (!list || json_object_set_new(variables, "messages", list) < 0)
        return out_of_memory(error);
    if (!json_array_size(messages))
        return mt_error_set(error, -EINVAL, MT_REASON_BAD_DATA, "the conversation has no messages");
    json_array_foreach(messages, i, message)
    {
        if (!json_is_string(json_object_get(message, "role")))
            return mt_error_set(error, -EINVAL, MT_REASON_BAD_DATA,
                                "message %zu is not an object with a `role`", i + 1);
        if (json_array_append_new(list, normalised(message, text_arguments)) < 0)
            return out_of_memory(error);
    }
    return 0;
}

const struct mt_jinja_template *mt_template_for(const struct mt_template *template, const json_t *variables)
{
    const json_t *tools = json_object_get(variables, "tools");
    return template->with_tools && tools && !json_is_null(tools) ? template->with_tools : template->usual;
}

int mt_template_variables(const struct mt_template *template, const json_t *conversation, json_t **result,
                          struct mt_error *error)
{
    const json_t *messages =
        json_is_object(conversation) ? json_object_get(conversation, "messages") : conversation;
    mt_autojson json_t *variables = json_object();
    const char *name;
    json_t *value;
    *result = NULL;
    if (!json_is_array(messages))
        return mt_error_set(error, -EINVAL, MT_REASON_BAD_DATA,
                            "a conversation is a list of messages, or an object with a list `messages`");
    if (!variables || json_object_update(variables, template->special_tokens) < 0 ||
        json_object_set_new(variables, "tools", json_null()) < 0 ||
        json_object_set_new(variables, "documents", json_null()) < 0)
        return out_of_memory(error);
    if (json_is_object(conversation))
        json_object_foreach((json_t *)conversation, name, value)
        {
            if (json_object_set(variables, name, value) < 0)
                return out_of_memory(error);
        }
    const bool with_tools = mt_template_for(template, variables) == template->with_tools;
    int r = add_messages(variables, messages,
                         with_tools ? template->text_arguments_with_tools : template->text_arguments, error);
    if (r < 0)
        return r;
    *result = json_incref(variables);
    return 0;
}

/* --- what a template was written for
 * ------------------------------------------------------------------------------------------ */

/* Whether a conversation with a tool call renders with these arguments, and shows them as JSON or in a form
 * of its own, not as Python's repr of a dict. */
static bool shows_arguments(const struct mt_jinja_template *jinja, const json_t *special_tokens,
                            json_t *arguments)
{
    mt_autojson json_t *variables = json_pack(
        "{s:[{s:s, s:s}, {s:s, s:s, s:[{s:s, s:s, s:{s:s, s:o}}]}, {s:s, s:s, s:s, s:s}], s:n, s:n, s:b}",
        "messages", "role", "user", "content", "u", "role", "assistant", "content", "", "tool_calls", "id",
        "call12345", "type", "function", "function", "name", "probe", "arguments", arguments, "role", "tool",
        "name", "probe", "content", "t", "tool_call_id", "call12345", "tools", "documents",
        "add_generation_prompt", 0);
    struct mt_jinja_output output = {0};
    bool shown = false;
    if (variables && json_object_update_missing(variables, (json_t *)special_tokens) == 0 &&
        mt_jinja_render(jinja, variables, NULL, &output, NULL) == 0)
        shown = memmem(output.text.data, output.text.bytes, "probekey", 8) &&
                !memmem(output.text.data, output.text.bytes, "'probekey'", 10) &&
                !memmem(output.text.data, output.text.bytes, "\\\"probekey", 10);
    mt_jinja_output_free(&output);
    return shown;
}

bool mt_template_wants_text(const struct mt_jinja_template *jinja, const json_t *special_tokens)
{
    return !shows_arguments(jinja, special_tokens, json_pack("{s:s}", "probekey", "probevalue")) &&
           shows_arguments(jinja, special_tokens, json_string("{\"probekey\": \"probevalue\"}"));
}
