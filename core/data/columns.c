#include "core/data/columns.h"

#include <stdio.h>
#include <string.h>

static bool has(const struct mt_value *row, const char *column)
{
    return column && *column && mt_value_get(row, column);
}

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

static int wrong_columns(const struct mt_columns *columns, const struct mt_value *row, struct mt_error *error)
{
    char found[600];
    list_columns(row, found, sizeof found);
    if (columns->text && *columns->text)
        return mt_error_set(error, -EINVAL, MT_REASON_BAD_DATA,
                            "the row has the columns %s; expected is \"%s\"", *found ? found : "(none)",
                            columns->text);
    return mt_error_set(
        error, -EINVAL, MT_REASON_BAD_DATA,
        "the row has the columns %s; expected are \"%s\" and \"%s\"%s (other names can be given "
        "by dataset.columns)",
        *found ? found : "(none)", columns->prompt, columns->response, columns->text ? "" : ", or \"text\"");
}

static const char *text_column(const struct mt_columns *columns)
{
    return columns->text ? columns->text : "text";
}

int mt_columns_decide(const struct mt_columns *columns, const struct mt_value *row, enum mt_row_kind *kind,
                      struct mt_error *error)
{
    if (columns->text && *columns->text) { /* asked for by name */
        *kind = MT_ROW_DOCUMENT;
        return has(row, columns->text) ? 0 : wrong_columns(columns, row, error);
    }
    if (has(row, columns->prompt) && has(row, columns->response)) {
        *kind = MT_ROW_CONVERSATION;
        return 0;
    }
    if (has(row, text_column(columns))) {
        *kind = MT_ROW_DOCUMENT;
        return 0;
    }
    return wrong_columns(columns, row, error);
}

static int read_cell(const struct mt_value *row, const char *column, struct mt_arena *arena,
                     const char **text, size_t *bytes, struct mt_error *error)
{
    *text = "";
    *bytes = 0;
    if (!column || !*column)
        return 0;
    int r = mt_value_text(mt_value_get(row, column), arena, text, bytes, error);
    return r < 0 ? mt_error_prefix(error, "the column \"%s\"", column) : 0;
}

static int no_memory(struct mt_error *error)
{
    return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory for a row");
}

/* Earlier turns: [[question, answer], ...]. */
static int read_history(const struct mt_value *history, const char *column, struct mt_arena *arena,
                        struct mt_message *messages, size_t *num_messages, struct mt_error *error)
{
    size_t number = 0;
    for (const struct mt_value *turn = history ? history->first : NULL; turn; turn = turn->next) {
        number++;
        const struct mt_value *question = turn->kind == MT_VALUE_LIST ? turn->first : NULL;
        const struct mt_value *answer = question ? question->next : NULL;
        if (!answer || answer->next)
            return mt_error_set(error, -EINVAL, MT_REASON_BAD_DATA,
                                "turn %zu of the column \"%s\" is not a pair [question, answer]", number,
                                column);
        struct mt_message *user = &messages[(*num_messages)++], *assistant = &messages[(*num_messages)++];
        user->role = MT_CHAT_USER;
        assistant->role = MT_CHAT_ASSISTANT;
        int r = mt_value_text(question, arena, &user->text, &user->bytes, error);
        if (r == 0)
            r = mt_value_text(answer, arena, &assistant->text, &assistant->bytes, error);
        if (r < 0)
            return mt_error_prefix(error, "turn %zu of the column \"%s\"", number, column);
    }
    return 0;
}

static size_t count_children(const struct mt_value *value)
{
    size_t count = 0;
    for (const struct mt_value *child = value ? value->first : NULL; child; child = child->next)
        count++;
    return count;
}

static int read_conversation(const struct mt_columns *columns, const struct mt_value *row,
                             struct mt_arena *arena, struct mt_row_text *result, struct mt_error *error)
{
    const struct mt_value *history = *columns->history ? mt_value_get(row, columns->history) : NULL;
    if (history && history->kind != MT_VALUE_LIST && history->kind != MT_VALUE_NULL &&
        !(history->kind == MT_VALUE_TEXT && history->bytes == 0))
        return mt_error_set(error, -EINVAL, MT_REASON_BAD_DATA,
                            "the column \"%s\" holds %s where a list of [question, answer] is expected",
                            columns->history, mt_value_kind_name(history->kind));

    struct mt_message *messages = mt_arena_alloc(arena, 3 + 2 * count_children(history), sizeof *messages);
    if (!messages)
        return no_memory(error);
    size_t count = 0;
    messages[0].role = MT_CHAT_SYSTEM;
    int r = read_cell(row, columns->system, arena, &messages[0].text, &messages[0].bytes, error);
    if (messages[0].bytes)
        count++;
    if (r == 0)
        r = read_history(history, columns->history, arena, messages, &count, error);
    if (r < 0)
        return r;

    struct mt_message *user = &messages[count++], *assistant = &messages[count++];
    user->role = MT_CHAT_USER;
    assistant->role = MT_CHAT_ASSISTANT;
    r = read_cell(row, columns->prompt, arena, &user->text, &user->bytes, error);
    if (r == 0)
        r = read_cell(row, columns->query, arena, &user->input, &user->input_bytes, error);
    if (r == 0)
        r = read_cell(row, columns->response, arena, &assistant->text, &assistant->bytes, error);
    result->messages = messages;
    result->num_messages = count;
    return r;
}

int mt_columns_read(const struct mt_columns *columns, enum mt_row_kind kind, const struct mt_value *row,
                    struct mt_arena *arena, struct mt_row_text *result, struct mt_error *error)
{
    *result = (struct mt_row_text){.kind = kind};
    if (kind == MT_ROW_DOCUMENT) {
        if (!has(row, text_column(columns)))
            return wrong_columns(columns, row, error);
        return read_cell(row, text_column(columns), arena, &result->text, &result->bytes, error);
    }
    /* An absent cell is an empty one, but a row with none of the columns is another kind of row. */
    if (!has(row, columns->prompt) && !has(row, columns->response) && !has(row, columns->query))
        return wrong_columns(columns, row, error);
    return read_conversation(columns, row, arena, result, error);
}

int mt_columns_read_row(const struct mt_source *source, const struct mt_source_file *file,
                        const struct mt_row *row, struct mt_arena *arena, enum mt_row_kind *kind,
                        struct mt_row_text *text, struct mt_error *error)
{
    if (row->text) {
        *kind = MT_ROW_DOCUMENT;
        *text = (struct mt_row_text){.kind = *kind, .text = row->text, .bytes = row->bytes};
        return 0;
    }
    int r = 0;
    if (*kind == MT_ROW_UNDECIDED)
        r = mt_columns_decide(&source->columns, row->object, kind, error);
    if (r == 0)
        r = mt_columns_read(&source->columns, *kind, row->object, arena, text, error);
    if (r < 0)
        mt_row_locate(row, file->path, error);
    return r;
}
