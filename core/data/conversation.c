/* Which kind of rows a file holds, and a row as a whole. Lists of turns are turns.c's. */
#include "core/base/document.h"
#include "core/data/conversation_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VARIABLES "chat_template_kwargs"

static bool is_named(const char *column)
{
    return column && *column;
}

static bool has(const struct mt_value *row, const char *column)
{
    return is_named(column) && mt_value_get(row, column);
}

static const char *text_column(const struct mt_columns *columns)
{
    return columns->text ? columns->text : "text";
}

static const char *tools_column(const struct mt_columns *columns, enum mt_row_kind kind)
{
    return columns->tools ? columns->tools : kind == MT_ROW_TURNS ? "tools" : "";
}

/* Lists of turns, where no name is given. */
static const char *const usual[] = {"messages", "conversations"};

const struct mt_value *mt_turns_column(const struct mt_columns *columns, const struct mt_value *row,
                                       const char **name)
{
    *name = columns->messages;
    if (columns->messages)
        return *columns->messages ? mt_value_get(row, columns->messages) : NULL;
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) {
        const struct mt_value *found = mt_value_get(row, *name = usual[i]);
        if (found && found->kind == MT_VALUE_LIST)
            return found;
    }
    *name = columns->formatting == MT_JOB_FORMATTING_SHAREGPT ? "conversations" : "messages";
    return mt_value_get(row, *name);
}

/* --- what is wrong with the columns ------------------------------------------------------------------- */

/* "a, b, c" of a row's columns, cut when too long. */
static void list_columns(const struct mt_value *row, char *list, size_t list_bytes)
{
    size_t used = 0;
    list[0] = '\0';
    for (const struct mt_value *cell = row->first; cell; cell = cell->next) {
        const int written = snprintf(list + used, list_bytes - used, "%s%.*s", used ? ", " : "",
                                     (int)(cell->key_bytes < 64 ? cell->key_bytes : 64), cell->key);
        if (written < 0 || (size_t)written >= list_bytes - used) {
            snprintf(list + (used < list_bytes - 4 ? used : list_bytes - 4), 4, "...");
            return;
        }
        used += (size_t)written;
    }
}

static int wrong_columns(const struct mt_columns *columns, enum mt_row_kind kind, const struct mt_value *row,
                         struct mt_error *error)
{
    char found[500], expected[400], advice[300];
    const char *turns;
    list_columns(row, found, sizeof found);
    mt_turns_column(columns, row, &turns);
    const char *missing[] = {columns->prompt, columns->response};
    size_t num_missing = 2;
    if (kind == MT_ROW_DOCUMENT || kind == MT_ROW_TURNS) {
        missing[0] = kind == MT_ROW_TURNS ? turns : text_column(columns);
        num_missing = 1;
        snprintf(expected, sizeof expected, "is \"%s\" (dataset.columns.%s gives it another name)",
                 missing[0], kind == MT_ROW_TURNS ? "messages" : "text");
    } else {
        snprintf(expected, sizeof expected,
                 "are \"%s\" and \"%s\" (dataset.columns.prompt and .response give them other names)%s",
                 columns->prompt, columns->response,
                 kind == MT_ROW_ALPACA ? "" : ", or \"messages\", or \"text\"");
    }
    mt_row_advise(columns, kind, missing, num_missing, row, advice, sizeof advice);
    return mt_conversation_wrong(error, "the row has the columns %s; expected %s%s",
                                 *found ? found : "(none)", expected, advice);
}

/* --- the first row ------------------------------------------------------------------------------------- */

static enum mt_row_kind kind_of(const struct mt_columns *columns, const struct mt_value *row)
{
    const char *turns;
    if (is_named(columns->text)) /* asked for by name */
        return MT_ROW_DOCUMENT;
    if (columns->formatting == MT_JOB_FORMATTING_ALPACA)
        return MT_ROW_ALPACA;
    if (columns->formatting != MT_JOB_FORMATTING_OPEN || is_named(columns->messages))
        return MT_ROW_TURNS;
    if (has(row, columns->prompt) && has(row, columns->response))
        return MT_ROW_ALPACA;
    if (mt_turns_column(columns, row, &turns))
        return MT_ROW_TURNS;
    return has(row, text_column(columns)) ? MT_ROW_DOCUMENT : MT_ROW_UNDECIDED;
}

/* Whether a row has what its kind cannot do without. */
static bool has_needed(const struct mt_columns *columns, enum mt_row_kind kind, const struct mt_value *row)
{
    const char *turns;
    switch (kind) {
    case MT_ROW_DOCUMENT:
        return has(row, text_column(columns));
    case MT_ROW_ALPACA:
        return has(row, columns->prompt) && has(row, columns->response);
    case MT_ROW_TURNS:
        return mt_turns_column(columns, row, &turns) != NULL;
    case MT_ROW_UNDECIDED:
        break;
    }
    return false;
}

int mt_layout_decide(const struct mt_columns *columns, const struct mt_row *row, struct mt_layout *layout,
                     struct mt_error *error)
{
    *layout = (struct mt_layout){.kind = MT_ROW_DOCUMENT};
    if (row->text)
        return 0;
    const struct mt_value *object = row->object;
    layout->kind = kind_of(columns, object);
    if (!has_needed(columns, layout->kind, object))
        return wrong_columns(columns, layout->kind, object, error);
    layout->query = has(object, columns->query);
    layout->system = has(object, columns->system);
    layout->history = has(object, columns->history);
    layout->tools = has(object, tools_column(columns, layout->kind));
    return 0;
}

size_t mt_layout_columns(const struct mt_columns *columns, const struct mt_layout *layout,
                         const char *names[MT_LAYOUT_MAX_COLUMNS])
{
    const enum mt_row_kind kind = layout->kind;
    const bool open = kind == MT_ROW_UNDECIDED, alpaca = open || kind == MT_ROW_ALPACA,
               turns = open || kind == MT_ROW_TURNS, document = open || kind == MT_ROW_DOCUMENT;
    const struct {
        bool used;
        const char *name;
    } all[MT_LAYOUT_MAX_COLUMNS] = {
        {alpaca, columns->prompt},
        {alpaca, columns->query},
        {alpaca, columns->response},
        {alpaca, columns->history},
        {alpaca || turns, columns->system},
        {alpaca || turns, tools_column(columns, open ? MT_ROW_TURNS : kind)},
        {turns, columns->messages ? columns->messages : usual[0]},
        {turns, columns->messages ? "" : usual[1]},
        {turns, VARIABLES},
        {document, text_column(columns)},
    };
    size_t count = 0;
    for (size_t i = 0; i < MT_LAYOUT_MAX_COLUMNS; i++)
        if (all[i].used && is_named(all[i].name))
            names[count++] = all[i].name;
    return count;
}

/* A column that the first row has and this one lacks is empty here, unless this row has one whose name is
 * that one's mistyped: then it would be lost in silence. */
static int check_optional(const struct mt_columns *columns, bool expected, const char *column,
                          const struct mt_value *row, struct mt_error *error)
{
    const struct {
        const char *name;
    } known[] = {{columns->prompt},  {columns->query}, {columns->response}, {columns->system},
                 {columns->history}, {columns->tools}, {columns->messages}};
    if (!expected || has(row, column))
        return 0;
    for (const struct mt_value *cell = row->first; cell; cell = cell->next) {
        char key[64];
        if (cell->key_bytes >= sizeof key)
            continue;
        snprintf(key, sizeof key, "%.*s", (int)cell->key_bytes, cell->key);
        bool other = false;
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            other = other || (known[i].name && strcmp(known[i].name, key) == 0);
        const size_t limit = strlen(column) > 4 ? 2 : 1;
        if (!other && mt_text_distance(key, column, limit) <= limit)
            return mt_conversation_wrong(error,
                                         "the row has the column \"%s\" where rows before have \"%s\"; it "
                                         "would not be read",
                                         key, column);
    }
    return 0;
}

static int check_columns(const struct mt_columns *columns, const struct mt_layout *layout,
                         const struct mt_value *row, struct mt_error *error)
{
    if (!has_needed(columns, layout->kind, row))
        return wrong_columns(columns, layout->kind, row, error);
    int r = check_optional(columns, layout->query, columns->query, row, error);
    if (r == 0)
        r = check_optional(columns, layout->system, columns->system, row, error);
    if (r == 0)
        r = check_optional(columns, layout->history, columns->history, row, error);
    if (r == 0)
        r = check_optional(columns, layout->tools, tools_column(columns, layout->kind), row, error);
    return r;
}

/* --- cells --------------------------------------------------------------------------------------------- */

int mt_cell_text(const struct mt_value *cell, json_t **text, struct mt_error *error)
{
    struct mt_arena *arena = cell && cell->kind == MT_VALUE_LIST ? mt_arena_new() : NULL;
    const char *start;
    size_t bytes;
    *text = NULL;
    int r = mt_value_text(cell, arena, &start, &bytes, error);
    if (r == 0 && !(*text = json_stringn_nocheck(start, bytes)))
        r = mt_conversation_no_memory(error);
    mt_arena_free(arena);
    return r;
}

json_t *mt_cell_json(const struct mt_value *cell)
{
    json_t *json = NULL;
    switch (cell->kind) {
    case MT_VALUE_NULL:
        return json_null();
    case MT_VALUE_FALSE:
        return json_false();
    case MT_VALUE_TRUE:
        return json_true();
    case MT_VALUE_TEXT:
        return json_stringn_nocheck(cell->text, cell->bytes);
    case MT_VALUE_NUMBER:
        json = mt_json_load(cell->text, cell->bytes, JSON_DECODE_ANY, NULL);
        return json ? json : json_stringn_nocheck(cell->text, cell->bytes); /* NaN and the like */
    case MT_VALUE_LIST:
        json = json_array();
        for (const struct mt_value *item = cell->first; json && item; item = item->next)
            if (json_array_append_new(json, mt_cell_json(item)) < 0) {
                json_decref(json);
                json = NULL;
            }
        return json;
    case MT_VALUE_OBJECT:
        json = json_object();
        for (const struct mt_value *item = cell->first; json && item; item = item->next)
            if (json_object_setn_new_nocheck(json, item->key, item->key_bytes, mt_cell_json(item)) < 0) {
                json_decref(json);
                json = NULL;
            }
        return json;
    }
    return NULL;
}

/* A named column as a text; an absent one is empty. */
static int read_column(const struct mt_value *row, const char *column, json_t **text, struct mt_error *error)
{
    int r = mt_cell_text(is_named(column) ? mt_value_get(row, column) : NULL, text, error);
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
    const struct mt_value *history = is_named(columns->history) ? mt_value_get(row, columns->history) : NULL;
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
    const char *column = text_column(columns);
    const struct mt_value *cell = mt_value_get(row->object, column);
    if (!cell)
        return wrong_columns(columns, MT_ROW_DOCUMENT, row->object, error);
    if (cell->kind == MT_VALUE_LIST && !(conversation->arena = mt_arena_new()))
        return mt_conversation_no_memory(error);
    int r = mt_value_text(cell, conversation->arena, &conversation->text, &conversation->bytes, error);
    return r == -EINVAL ? mt_error_prefix(error, "the column \"%s\"", column) : r;
}

/* Variables of the template that a row of turns may bring itself. */
static int add_variables(const struct mt_value *row, json_t *chat, struct mt_error *error)
{
    const struct mt_value *given = mt_value_get(row, VARIABLES);
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
    const char *turns, *tools_name = tools_column(columns, layout->kind);
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
    if (r == 0 && is_named(tools_name)) {
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
    int r = check_columns(columns, layout, row->object, error);
    if (r == 0)
        r = read_chat(columns, layout, row->object, conversation, error);
    const json_t *messages = json_object_get(conversation->chat, "messages");
    if (r == 0)
        r = mt_messages_check_order(messages, error);
    if (r == -EPROTO && has(row->object, "chosen") && has(row->object, "rejected"))
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
