/* What the files behind core/data/layout.h and core/data/conversation.h share. */
#ifndef MT_DATA_CONVERSATION_INTERNAL_H
#define MT_DATA_CONVERSATION_INTERNAL_H

#include "core/data/conversation.h"

static inline int mt_conversation_no_memory(struct mt_error *error)
{
    return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory for a row");
}

#define mt_conversation_wrong(error, ...) mt_error_set(error, -EINVAL, MT_REASON_BAD_DATA, __VA_ARGS__)

/* An object of template variables, beside a conversation's turns. */
#define MT_VARIABLES_COLUMN "chat_template_kwargs"

/* Names that are not given are NULL; "" is a column that is not to be read. */
static inline bool mt_column_is_named(const char *column)
{
    return column && *column;
}

static inline bool mt_column_is_in(const char *column, const struct mt_value *row)
{
    return mt_column_is_named(column) && mt_value_get(row, column);
}

/* The names of the columns with a document and with tools, given or usual. */
const char *mt_text_column(const struct mt_columns *columns);
const char *mt_tools_column(const struct mt_columns *columns, enum mt_row_kind kind);
/* The column with the turns, its name in *name; NULL where there is none. */
const struct mt_value *mt_turns_column(const struct mt_columns *columns, const struct mt_value *row,
                                       const char **name);

#define MT_ROW_JUDGED                                                                                        \
    "\"chosen\" and \"rejected\" are answers to compare, for preference training, which is not supported "   \
    "yet"

/* -EINVAL: a row has other columns than its kind needs, and what the user may do about it. */
int mt_row_wrong_columns(const struct mt_columns *columns, enum mt_row_kind kind, const struct mt_value *row,
                         struct mt_error *error);

/* A cell as a JSON text: see mt_value_text. */
int mt_cell_text(const struct mt_value *cell, json_t **text, struct mt_error *error);
/* Any cell as it is. NULL when out of memory. */
json_t *mt_cell_json(const struct mt_value *cell);

/* Appends a list of turns to `messages`. */
int mt_turns_read(const struct mt_job_tags *tags, const struct mt_value *list, json_t *messages,
                  struct mt_error *error);
/* The column with tools as a list; *tools stays NULL where there is none. */
int mt_tools_read(const struct mt_value *cell, json_t **tools, struct mt_error *error);

/* Whether an answer says nothing: no text, no call, no reasoning. */
bool mt_message_is_empty(const json_t *message);
/* Gives calls and results of tools the ids that they lack, names results after their calls, and keeps empty
 * answers from being learned. 0 or -ENOMEM. */
int mt_messages_complete(json_t *messages);
/* -EPROTO with the rule that the order of roles breaks. */
int mt_messages_check_order(const json_t *messages, struct mt_error *error);

#endif
