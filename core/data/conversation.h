/* From a row to what is tokenised: a document, or a conversation in one neutral form, whatever the row was
 * written in. */
#ifndef MT_DATA_CONVERSATION_H
#define MT_DATA_CONVERSATION_H

#include "core/base/arena.h"
#include "core/base/error.h"
#include "core/data/layout.h"

#include <jansson.h>
#include <stddef.h>

/* A row read. Starts as {0}. */
struct mt_conversation {
    enum mt_row_kind kind;
    const char *text; /* of a document; lives in the row or in `arena` */
    size_t bytes;
    /* {"messages": [{"role", "content", "tool_calls", "tool_call_id", "name", "reasoning_content",
     * "loss_weight", "input"}], "tools", ...} as mt_chat_render_json takes it. Roles are system, developer,
     * user, assistant and tool; contents texts; `input` is Alpaca's column of a user's message. */
    json_t *chat;
    struct mt_arena *arena; /* may be NULL */
};
void mt_conversation_free(struct mt_conversation *conversation); /* leaves {0} */

/* Reads one row; thread-safe.
 *
 * Turns: after an optional system message the user begins, an answer follows each message of the user and
 * the results of a tool, and the last message is an answer. Synonyms of the usual tags are known unless
 * others are named. A call of tools is JSON, {"name", "arguments"} or a list of them; tools are a list or
 * its JSON text, with or without {"type": "function", "function": ...} around each.
 *
 * Errors: -EINVAL for a row that is not what the first one was (a column is missing, a cell holds something
 * else), which ends the reading of a data set; -EPROTO for turns out of order, -ENODATA where the last
 * answer says nothing: rows that are passed over and counted. */
int mt_conversation_read(const struct mt_columns *columns, const struct mt_layout *layout,
                         const struct mt_row *row, struct mt_conversation *conversation,
                         struct mt_error *error);

#endif
