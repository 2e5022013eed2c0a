/* A row read: a document, Alpaca's columns, or turns, whose lists are turns.c's. */
#include "core/base/document.h"
#include "core/data/conversation_internal.h"

#include <string.h>

/* A named column as a text; an absent one is empty. */
static int read_column(const struct mt_value *row, const char *column, json_t **text, struct mt_error *error)
{
    int r = mt_cell_text(mt_column_is_named(column) ? mt_value_get(row, column) : NULL, text, error);
    return r == -EINVAL ? mt_error_prefix(error, "the column \"%s\"", column) : r;
}

/* --- Alpaca -------------------------------------------------------------------------------------------- */

/* Takes `content`. */
static int add_message(json_t *messages, const char *role, json_t *content, struct mt_error *error)
{
    return json_array_append_new(messages, json_pack("{s:s, s:o}", "role", role, "content", content)) < 0
               ? mt_conversation_no_memory(error)
               : 0;
}

/* Earlier turns: [[question, answer], ...]. */
static int read_history(const struct mt_value *history, const char *column, json_t *messages,
                        struct mt_error *error)
{
    size_t number = 0;
    if (!history || history->kind == MT_VALUE_NULL || (history->kind == MT_VALUE_TEXT && !history->bytes))
        return 0;
    if (history->kind != MT_VALUE_LIST)
        return mt_conversation_wrong(
            error, "the column \"%s\" holds %s where a list of [question, answer] is expected", column,
            mt_value_kind_name(history->kind));
    for (const struct mt_value *turn = history->first; turn; turn = turn->next) {
        number++;
        const struct mt_value *question = turn->kind == MT_VALUE_LIST ? turn->first : NULL;
        const struct mt_value *answer = question ? question->next : NULL;
        if (!answer || answer->next)
            return mt_conversation_wrong(
                error, "turn %zu of the column \"%s\" is not a pair [question, answer]", number, column);
        json_t *said = NULL;
        int r = mt_cell_text(question, &said, error);
        if (r == 0)
            r = add_message(messages, "user", said, error);
        if (r == 0)
            r = mt_cell_text(answer, &said, error);
        if (r == 0)
            r = add_message(messages, "assistant", said, error);
        if (r < 0)
            return r == -EINVAL ? mt_error_prefix(error, "turn %zu of the column \"%s\"", number, column) : r;
    }
    return 0;
}

/* The system prompt of a column, unless the turns bring their own. */
static int add_system(const struct mt_columns *columns, const struct mt_value *row, json_t *messages,
                      struct mt_error *error)
{
    json_t *system = NULL;
    const char *first = json_string_value(json_object_get(json_array_get(messages, 0), "role"));
    if (first && (strcmp(first, "system") == 0 || strcmp(first, "developer") == 0))
        return 0;
    int r = read_column(row, columns->system, &system, error);
    if (r < 0 || !json_string_length(system)) {
        json_decref(system);
        return r;
    }
    return json_array_insert_new(messages, 0, json_pack("{s:s, s:o}", "role", "system", "content", system)) <
                   0
               ? mt_conversation_no_memory(error)
               : 0;
}

static int read_alpaca(const struct mt_columns *columns, const struct mt_value *row, json_t *messages,
                       struct mt_error *error)
{
    const struct mt_value *history =
        mt_column_is_named(columns->history) ? mt_value_get(row, columns->history) : NULL;
    json_t *text = NULL, *input = NULL;
    int r = read_history(history, columns->history, messages, error);
    if (r == 0)
        r = read_column(row, columns->prompt, &text, error);
    if (r == 0)
        r = add_message(messages, "user", text, error);
    if (r == 0)
        r = read_column(row, columns->query, &input, error);
    json_t *user = json_array_get(messages, json_array_size(messages) - 1);
    if (r == 0 && json_string_length(input) && json_object_set(user, "input", input) < 0)
        r = mt_conversation_no_memory(error);
    json_decref(input);
    if (r < 0)
        return r;
    r = read_column(row, columns->response, &text, error);
    return r == 0 ? add_message(messages, "assistant", text, error) : r;
}

/* --- a row as a whole ---------------------------------------------------------------------------------- */

static int read_document(const struct mt_columns *columns, const struct mt_row *row,
                         struct mt_conversation *conversation, struct mt_error *error)
{
    conversation->text = row->text;
    conversation->bytes = row->bytes;
    if (row->text)
        return 0;
    const char *column = mt_text_column(columns);
    const struct mt_value *cell = mt_value_get(row->object, column);
    if (!cell)
        return mt_row_wrong_columns(columns, MT_ROW_DOCUMENT, row->object, error);
    if (cell->kind == MT_VALUE_LIST && !(conversation->arena = mt_arena_new()))
        return mt_conversation_no_memory(error);
    int r = mt_value_text(cell, conversation->arena, &conversation->text, &conversation->bytes, error);
    return r == -EINVAL ? mt_error_prefix(error, "the column \"%s\"", column) : r;
}

/* Variables of the template that a row of turns may bring itself. */
static int add_variables(const struct mt_value *row, json_t *chat, struct mt_error *error)
{
    const struct mt_value *given = mt_value_get(row, MT_VARIABLES_COLUMN);
    if (!given || given->kind != MT_VALUE_OBJECT)
        return 0;
    json_t *variables = mt_cell_json(given);
    const int r = variables ? json_object_update_missing(chat, variables) : -1;
    json_decref(variables);
    return r < 0 ? mt_conversation_no_memory(error) : 0;
}

static int read_chat(const struct mt_columns *columns, const struct mt_layout *layout,
                     const struct mt_value *row, struct mt_conversation *conversation, struct mt_error *error)
{
    json_t *messages = json_array(), *tools = NULL;
    conversation->chat = json_pack("{s:o}", "messages", messages);
    if (!conversation->chat)
        return mt_conversation_no_memory(error);
    const char *turns, *tools_name = mt_tools_column(columns, layout->kind);
    int r;
    if (layout->kind == MT_ROW_TURNS) {
        const struct mt_value *list = mt_turns_column(columns, row, &turns);
        r = mt_turns_read(&columns->tags, list, messages, error);
        if (r == -EINVAL || r == -EPROTO)
            mt_error_prefix(error, "the column \"%s\"", turns);
        if (r == 0)
            r = add_variables(row, conversation->chat, error);
    } else {
        r = read_alpaca(columns, row, messages, error);
    }
    if (r == 0)
        r = add_system(columns, row, messages, error);
    if (r == 0 && mt_column_is_named(tools_name)) {
        r = mt_tools_read(mt_value_get(row, tools_name), &tools, error);
        if (r == -EINVAL)
            mt_error_prefix(error, "the column \"%s\"", tools_name);
        if (tools && json_object_set_new(conversation->chat, "tools", tools) < 0)
            r = mt_conversation_no_memory(error);
    }
    if (r == 0 && mt_messages_complete(messages) < 0)
        r = mt_conversation_no_memory(error);
    return r;
}

int mt_conversation_read(const struct mt_columns *columns, const struct mt_layout *layout,
                         const struct mt_row *row, struct mt_conversation *conversation,
                         struct mt_error *error)
{
    *conversation = (struct mt_conversation){.kind = layout->kind};
    if (layout->kind == MT_ROW_DOCUMENT)
        return read_document(columns, row, conversation, error);
    int r = mt_layout_check(columns, layout, row->object, error);
    if (r == 0)
        r = read_chat(columns, layout, row->object, conversation, error);
    const json_t *messages = json_object_get(conversation->chat, "messages");
    if (r == 0)
        r = mt_messages_check_order(messages, error);
    if (r == -EPROTO && mt_column_is_in("chosen", row->object) && mt_column_is_in("rejected", row->object))
        mt_error_prefix(error, MT_ROW_JUDGED);
    if (r == 0 && mt_message_is_empty(json_array_get(messages, json_array_size(messages) - 1)))
        r = mt_error_set(error, -ENODATA, MT_REASON_BAD_DATA, "the last answer is empty");
    return r;
}

void mt_conversation_free(struct mt_conversation *conversation)
{
    json_decref(conversation->chat);
    mt_arena_free(conversation->arena);
    *conversation = (struct mt_conversation){0};
}
