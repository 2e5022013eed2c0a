/* Which kind of rows a file holds, and whether a row has the columns for it. */
#include "core/data/layout.h"

#include "core/base/nearest.h"
#include "core/data/conversation_internal.h"

#include <stdio.h>
#include <string.h>

const char *mt_text_column(const struct mt_columns *columns)
{
    return columns->text ? columns->text : "text";
}

const char *mt_tools_column(const struct mt_columns *columns, enum mt_row_kind kind)
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

static enum mt_row_kind kind_of(const struct mt_columns *columns, const struct mt_value *row)
{
    const char *turns;
    if (mt_column_is_named(columns->text)) /* asked for by name */
        return MT_ROW_DOCUMENT;
    if (columns->formatting == MT_JOB_FORMATTING_ALPACA)
        return MT_ROW_ALPACA;
    if (columns->formatting != MT_JOB_FORMATTING_OPEN || mt_column_is_named(columns->messages))
        return MT_ROW_TURNS;
    if (mt_column_is_in(columns->prompt, row) && mt_column_is_in(columns->response, row))
        return MT_ROW_ALPACA;
    if (mt_turns_column(columns, row, &turns))
        return MT_ROW_TURNS;
    return mt_column_is_in(mt_text_column(columns), row) ? MT_ROW_DOCUMENT : MT_ROW_UNDECIDED;
}

/* Whether a row has what its kind cannot do without. */
static bool has_needed(const struct mt_columns *columns, enum mt_row_kind kind, const struct mt_value *row)
{
    const char *turns;
    switch (kind) {
    case MT_ROW_DOCUMENT:
        return mt_column_is_in(mt_text_column(columns), row);
    case MT_ROW_ALPACA:
        return mt_column_is_in(columns->prompt, row) && mt_column_is_in(columns->response, row);
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
        return mt_row_wrong_columns(columns, layout->kind, object, error);
    layout->query = mt_column_is_in(columns->query, object);
    layout->system = mt_column_is_in(columns->system, object);
    layout->history = mt_column_is_in(columns->history, object);
    layout->tools = mt_column_is_in(mt_tools_column(columns, layout->kind), object);
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
        {alpaca || turns, mt_tools_column(columns, open ? MT_ROW_TURNS : kind)},
        {turns, columns->messages ? columns->messages : usual[0]},
        {turns, columns->messages ? "" : usual[1]},
        {turns, MT_VARIABLES_COLUMN},
        {document, mt_text_column(columns)},
    };
    size_t count = 0;
    for (size_t i = 0; i < MT_LAYOUT_MAX_COLUMNS; i++)
        if (all[i].used && mt_column_is_named(all[i].name))
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
    if (!expected || mt_column_is_in(column, row))
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

int mt_layout_check(const struct mt_columns *columns, const struct mt_layout *layout,
                    const struct mt_value *row, struct mt_error *error)
{
    if (!has_needed(columns, layout->kind, row))
        return mt_row_wrong_columns(columns, layout->kind, row, error);
    int r = check_optional(columns, layout->query, columns->query, row, error);
    if (r == 0)
        r = check_optional(columns, layout->system, columns->system, row, error);
    if (r == 0)
        r = check_optional(columns, layout->history, columns->history, row, error);
    if (r == 0)
        r = check_optional(columns, layout->tools, mt_tools_column(columns, layout->kind), row, error);
    return r;
}
