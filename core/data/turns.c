/* Lists of turns as messages: roles by their tags, calls and results of tools, loss weights. */
#include "core/base/cleanup.h"
#include "core/base/document.h"
#include "core/data/conversation_internal.h"

#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum turn {
    TURN_USER,
    TURN_ASSISTANT,
    TURN_OBSERVATION,
    TURN_CALL,
    TURN_SYSTEM,
    TURN_DEVELOPER,
    NUM_TURNS,
};

/* Message roles, and the names that data gives them where it says no others. */
static const char *const roles[NUM_TURNS] = {"user", "assistant", "tool", "assistant", "system", "developer"};
static const struct {
    const char *name;
    enum turn turn;
} synonyms[] = {
    {"user", TURN_USER},
    {"human", TURN_USER},
    {"assistant", TURN_ASSISTANT},
    {"gpt", TURN_ASSISTANT},
    {"observation", TURN_OBSERVATION},
    {"tool", TURN_OBSERVATION},
    {"function", TURN_OBSERVATION}, /* as OpenAI's API called it first */
    {"function_response", TURN_OBSERVATION},
    {"function_call", TURN_CALL},
    {"system", TURN_SYSTEM},
    {"developer", TURN_DEVELOPER},
};

static bool is_text(const struct mt_value *value, const char *text)
{
    return value && value->kind == MT_VALUE_TEXT && value->bytes == strlen(text) &&
           memcmp(value->text, text, value->bytes) == 0;
}

static enum turn turn_of(const struct mt_job_tags *tags, const struct mt_value *role)
{
    const char *const named[NUM_TURNS] = {tags->user, tags->assistant, tags->observation, tags->function,
                                          tags->system};
    for (int turn = 0; turn < NUM_TURNS; turn++)
        if (named[turn] && is_text(role, named[turn]))
            return (enum turn)turn;
    for (size_t i = 0; i < sizeof synonyms / sizeof *synonyms; i++)
        if (!named[synonyms[i].turn] && is_text(role, synonyms[i].name))
            return synonyms[i].turn;
    return NUM_TURNS;
}

/* A member under the tag's name, else under one of two usual ones. */
static const struct mt_value *member(const struct mt_value *turn, const char *tag, const char *first,
                                     const char *second)
{
    if (tag)
        return mt_value_get(turn, tag);
    const struct mt_value *found = mt_value_get(turn, first);
    return found ? found : mt_value_get(turn, second);
}

/* --- calls of tools ------------------------------------------------------------------------------------ */

/* {"name", "arguments"} as {"type": "function", "function": {"name", "arguments"}}; a call in that form stays
 * as it is. New reference; NULL when it is neither. */
static json_t *call_of(json_t *call)
{
    const json_t *function = json_object_get(call, "function");
    if (json_is_object(function))
        return json_is_string(json_object_get(function, "name")) ? json_incref(call) : NULL;
    json_t *name = json_object_get(call, "name"), *arguments = json_object_get(call, "arguments");
    if (!json_is_string(name))
        return NULL;
    return json_pack("{s:s, s:{s:O, s:o}}", "type", "function", "function", "name", name, "arguments",
                     arguments ? json_incref(arguments) : json_object());
}

/* The JSON of a call: one, or a list. */
static int read_calls(const json_t *given, json_t **calls, struct mt_error *error)
{
    json_t *list = json_array();
    const size_t count = json_is_array(given) ? json_array_size(given) : 1;
    for (size_t i = 0; list && i < count; i++) {
        json_t *call = call_of(json_is_array(given) ? json_array_get(given, i) : (json_t *)(uintptr_t)given);
        if (!call) {
            json_decref(list);
            return mt_conversation_wrong(error, "a call of a tool is an object with \"name\" and "
                                                "\"arguments\"");
        }
        json_array_append_new(list, call);
    }
    *calls = list;
    return list ? 0 : mt_conversation_no_memory(error);
}

/* A turn that is a call: its text is JSON, which reasoning may stand before. */
static int read_call_text(const json_t *text, json_t *message, struct mt_error *error)
{
    static const char end_of_thought[] = "</think>";
    const char *start = json_string_value(text), *end = start + json_string_length(text);
    const char *thought = memmem(start, (size_t)(end - start), end_of_thought, strlen(end_of_thought));
    const char *json = thought ? thought + strlen(end_of_thought) : start;
    mt_autojson json_t *given = mt_json_load(json, (size_t)(end - json), JSON_DECODE_ANY, NULL);
    json_t *calls = NULL;
    if (!given)
        return mt_conversation_wrong(error, "a call of a tool is not JSON: \"%.60s%s\"", json,
                                     end - json > 60 ? "..." : "");
    int r = read_calls(given, &calls, error);
    if (r < 0)
        return r;
    while (thought && json > start && isspace((unsigned char)json[-1]))
        json--;
    if (json_object_set_new(message, "content", json_stringn_nocheck(start, (size_t)(json - start))) < 0 ||
        json_object_set_new(message, "tool_calls", calls) < 0)
        return mt_conversation_no_memory(error);
    return 0;
}

/* The members `tool_calls` and, as OpenAI's API had it first, `function_call` of an answer. */
static int add_calls(const struct mt_value *turn, json_t *message, struct mt_error *error)
{
    const struct mt_value *member_calls = mt_value_get(turn, "tool_calls");
    if (!member_calls || member_calls->kind == MT_VALUE_NULL)
        member_calls = mt_value_get(turn, "function_call");
    if (!member_calls || member_calls->kind == MT_VALUE_NULL ||
        (member_calls->kind == MT_VALUE_LIST && !member_calls->first))
        return 0;
    mt_autojson json_t *given = member_calls->kind == MT_VALUE_TEXT
                                    ? mt_json_load(member_calls->text, member_calls->bytes, 0, NULL)
                                    : mt_cell_json(member_calls);
    if (!json_is_array(given) && !json_is_object(given))
        return mt_conversation_wrong(error, "its tool_calls are not a list of calls");
    if (json_is_array(given) && !json_array_size(given))
        return 0;
    json_t *calls = NULL;
    int r = read_calls(given, &calls, error);
    if (r == 0 && json_object_set_new(message, "tool_calls", calls) < 0)
        r = mt_conversation_no_memory(error);
    return r;
}

int mt_tools_read(const struct mt_value *cell, json_t **tools, struct mt_error *error)
{
    *tools = NULL;
    if (!cell || cell->kind == MT_VALUE_NULL)
        return 0;
    const char *text = cell->text;
    size_t bytes = cell->kind == MT_VALUE_TEXT ? cell->bytes : 0;
    while (bytes && isspace((unsigned char)*text)) {
        text++;
        bytes--;
    }
    if (cell->kind == MT_VALUE_TEXT && !bytes)
        return 0;
    mt_autojson json_t *given = bytes ? mt_json_load(text, bytes, 0, NULL) : mt_cell_json(cell);
    if (!json_is_array(given) && !json_is_object(given))
        return mt_conversation_wrong(error, "holds %s where tools are expected: a list, or its JSON text",
                                     mt_value_kind_name(cell->kind));
    if (json_is_array(given) && !json_array_size(given))
        return 0;
    json_t *list = json_array();
    const size_t count = json_is_array(given) ? json_array_size(given) : 1;
    for (size_t i = 0; list && i < count; i++) {
        json_t *tool = json_is_array(given) ? json_array_get(given, i) : given;
        const bool wrapped = json_is_object(json_object_get(tool, "function"));
        if (!json_is_object(tool) ||
            json_array_append_new(
                list, wrapped ? json_incref(tool)
                              : json_pack("{s:s, s:O}", "type", "function", "function", tool)) < 0) {
            json_decref(list);
            return mt_conversation_wrong(error, "tool %zu is not an object", i + 1);
        }
    }
    *tools = list;
    return list ? 0 : mt_conversation_no_memory(error);
}

/* --- a turn -------------------------------------------------------------------------------------------- */

/* `loss_weight`, or `weight` as OpenAI's files have it: whether an answer is learned. */
static int read_weight(const struct mt_value *turn, enum turn kind, json_t *message, struct mt_error *error)
{
    const struct mt_value *weight = member(turn, NULL, "loss_weight", "weight");
    const bool answer = kind == TURN_ASSISTANT || kind == TURN_CALL;
    if (!weight || weight->kind == MT_VALUE_NULL)
        return 0;
    char text[32] = "";
    if (weight->kind == MT_VALUE_NUMBER && weight->bytes < sizeof text)
        snprintf(text, sizeof text, "%.*s", (int)weight->bytes, weight->text);
    char *end = text;
    const double value = weight->kind == MT_VALUE_TRUE    ? 1
                         : weight->kind == MT_VALUE_FALSE ? 0
                                                          : strtod(text, &end);
    if (weight->kind != MT_VALUE_TRUE && weight->kind != MT_VALUE_FALSE && (end == text || *end))
        return mt_conversation_wrong(error, "its loss_weight is not a number");
    if (value != 0 && value != 1)
        return mt_conversation_wrong(error, "its loss_weight %s is not supported yet; there are 0 and 1",
                                     text);
    if (value == 1 && !answer)
        return mt_conversation_wrong(error,
                                     "a loss_weight of 1 on a message of the %s is not supported yet: "
                                     "only answers are learned, or all with dataset.train_on_prompt",
                                     roles[kind]);
    return value == 0 && answer && json_object_set_new(message, "loss_weight", json_integer(0)) < 0
               ? mt_conversation_no_memory(error)
               : 0;
}

/* Members that templates know, as they are. */
static int add_members(const struct mt_value *turn, json_t *message, struct mt_error *error)
{
    static const char *const names[] = {"name", "tool_call_id", "reasoning_content", "thinking", "reasoning"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const struct mt_value *value = mt_value_get(turn, names[i]);
        if (!value || value->kind == MT_VALUE_NULL)
            continue;
        json_t *text = NULL;
        int r = mt_cell_text(value, &text, error);
        if (r < 0)
            return r == -EINVAL ? mt_error_prefix(error, "its \"%s\"", names[i]) : r;
        if (json_object_set_new(message, names[i], text) < 0)
            return mt_conversation_no_memory(error);
    }
    return 0;
}

static int read_members(const struct mt_job_tags *tags, const struct mt_value *turn, enum turn kind,
                        json_t *message, struct mt_error *error)
{
    const struct mt_value *content = member(turn, tags->content, "content", "value");
    json_t *text = NULL;
    if (!content && !mt_value_get(turn, "tool_calls") && !mt_value_get(turn, "function_call"))
        return mt_conversation_wrong(error, "it has no \"%s\"",
                                     tags->content                ? tags->content
                                     : mt_value_get(turn, "role") ? "content"
                                                                  : "value");
    int r = mt_cell_text(content, &text, error);
    if (r < 0)
        return r == -EINVAL ? mt_error_prefix(error, "its content") : r;
    if (kind == TURN_CALL) {
        r = read_call_text(text, message, error);
        json_decref(text);
    } else if (json_object_set_new(message, "content", text) < 0) {
        r = mt_conversation_no_memory(error);
    }
    if (r == 0)
        r = add_members(turn, message, error);
    if (r == 0 && kind == TURN_ASSISTANT)
        r = add_calls(turn, message, error);
    return r == 0 ? read_weight(turn, kind, message, error) : r;
}

/* One turn, {"from", "value"}, as a message. */
static int read_turn(const struct mt_job_tags *tags, const struct mt_value *turn, json_t **message,
                     struct mt_error *error)
{
    if (turn->kind != MT_VALUE_OBJECT)
        return mt_conversation_wrong(error, "it is %s and no object", mt_value_kind_name(turn->kind));
    const struct mt_value *role = member(turn, tags->role, "role", "from");
    if (!role || role->kind != MT_VALUE_TEXT)
        return mt_conversation_wrong(error,
                                     "it has no \"%s\" that is a text (dataset.tags.role_tag names another)",
                                     tags->role ? tags->role : "role\" or \"from");
    const enum turn kind = turn_of(tags, role);
    if (kind == NUM_TURNS)
        return mt_error_set(error, -EPROTO, MT_REASON_BAD_DATA,
                            "its role \"%.*s\" is not known (dataset.tags gives roles other names)",
                            (int)(role->bytes < 40 ? role->bytes : 40), role->text);
    *message = json_pack("{s:s}", "role", roles[kind]);
    return *message ? read_members(tags, turn, kind, *message, error) : mt_conversation_no_memory(error);
}

int mt_turns_read(const struct mt_job_tags *tags, const struct mt_value *list, json_t *messages,
                  struct mt_error *error)
{
    size_t number = 0;
    if (list->kind == MT_VALUE_NULL)
        return 0; /* no turns: their order is wrong */
    if (list->kind != MT_VALUE_LIST)
        return mt_conversation_wrong(error, "holds %s where a list of turns is expected",
                                     mt_value_kind_name(list->kind));
    for (const struct mt_value *turn = list->first; turn; turn = turn->next) {
        json_t *message = NULL;
        number++;
        int r = read_turn(tags, turn, &message, error);
        if (r < 0) {
            json_decref(message);
            return r == -ENOMEM ? r : mt_error_prefix(error, "turn %zu", number);
        }
        if (json_array_append_new(messages, message) < 0)
            return mt_conversation_no_memory(error);
    }
    return 0;
}

/* --- a conversation as a whole ------------------------------------------------------------------------- */

static const char *role_of(const json_t *message)
{
    return json_string_value(json_object_get(message, "role"));
}

static bool is_blank(const json_t *text)
{
    const char *start = json_string_value(text);
    for (size_t i = 0; i < json_string_length(text); i++)
        if (!isspace((unsigned char)start[i]))
            return false;
    return true;
}

bool mt_message_is_empty(const json_t *message)
{
    static const char *const names[] = {"content", "reasoning_content", "thinking", "reasoning"};
    if (json_object_get(message, "tool_calls"))
        return false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!is_blank(json_object_get(message, names[i])))
            return false;
    return true;
}

/* Ids of nine letters and digits: what the strictest templates take. */
static int give_ids(json_t *calls, size_t *next)
{
    size_t i;
    json_t *call;
    json_array_foreach(calls, i, call)
    {
        char id[16];
        snprintf(id, sizeof id, "call%05zu", *next % 100000);
        ++*next;
        if (!json_object_get(call, "id") && json_object_set_new(call, "id", json_string(id)) < 0)
            return -ENOMEM;
    }
    return 0;
}

/* The `number`th result after `calls`: whose it is, unless it says so itself. */
static int name_result(json_t *result, const json_t *calls, size_t number)
{
    const json_t *call = json_array_get(calls, number < json_array_size(calls) ? number : 0);
    json_t *id = json_object_get(call, "id"),
           *name = json_object_get(json_object_get(call, "function"), "name");
    if (id && !json_object_get(result, "tool_call_id") && json_object_set(result, "tool_call_id", id) < 0)
        return -ENOMEM;
    /* Results that name their call may come in any order. */
    const json_t *own = json_object_get(result, "tool_call_id");
    for (size_t i = 0; i < json_array_size(calls); i++)
        if (json_equal(own, json_object_get(json_array_get(calls, i), "id")))
            name = json_object_get(json_object_get(json_array_get(calls, i), "function"), "name");
    return name && !json_object_get(result, "name") ? json_object_set(result, "name", name) : 0;
}

int mt_messages_complete(json_t *messages)
{
    json_t *calls = NULL, *message;
    size_t i, next_id = 0, results = 0;
    json_array_foreach(messages, i, message)
    {
        const char *role = role_of(message);
        int r = 0;
        if (strcmp(role, "assistant") == 0) {
            calls = json_object_get(message, "tool_calls");
            results = 0;
            r = give_ids(calls, &next_id);
            if (r == 0 && mt_message_is_empty(message))
                r = json_object_set_new(message, "loss_weight", json_integer(0));
        } else if (strcmp(role, "tool") == 0 && calls) {
            r = name_result(message, calls, results++);
        }
        if (r < 0)
            return -ENOMEM;
    }
    return 0;
}

static int out_of_order(struct mt_error *error, size_t number, const char *what)
{
    return mt_error_set(error, -EPROTO, MT_REASON_BAD_DATA, "turn %zu is %s", number, what);
}

int mt_messages_check_order(const json_t *messages, struct mt_error *error)
{
    const size_t count = json_array_size(messages);
    const char *before = "";
    for (size_t i = 0; i < count; i++) {
        const char *role = role_of(json_array_get(messages, i));
        const bool is_system = strcmp(role, "system") == 0 || strcmp(role, "developer") == 0;
        const bool answered = strcmp(before, "assistant") == 0, result = strcmp(before, "tool") == 0;
        const bool asked = strcmp(before, "user") == 0;
        if (is_system && i > 0)
            return out_of_order(error, i + 1, "a system message; only the first may be one");
        if (strcmp(role, "user") == 0 && (asked || result))
            return out_of_order(error, i + 1, "the user's where an answer is expected");
        if (strcmp(role, "assistant") == 0 && !asked && !result)
            return out_of_order(error, i + 1, "an answer to nothing");
        if (strcmp(role, "tool") == 0 && !answered && !result)
            return out_of_order(error, i + 1, "the result of a tool that nothing called");
        before = is_system ? "" : role;
    }
    if (!*before)
        return mt_error_set(error, -EPROTO, MT_REASON_BAD_DATA, "there are no turns");
    if (strcmp(before, "assistant") != 0)
        return mt_error_set(error, -EPROTO, MT_REASON_BAD_DATA, "it does not end with an answer");
    return 0;
}
