/* From a row's columns to what is tokenised: a document, or a conversation. */
#ifndef MT_DATA_COLUMNS_H
#define MT_DATA_COLUMNS_H

#include "core/base/arena.h"
#include "core/base/error.h"
#include "core/data/reader.h"
#include "core/data/source.h"
#include "core/data/value.h"
#include "core/text/chat.h"

#include <stdbool.h>
#include <stddef.h>

enum mt_row_kind {
    MT_ROW_UNDECIDED,
    MT_ROW_DOCUMENT,
    MT_ROW_CONVERSATION,
};

struct mt_row_text {
    enum mt_row_kind kind;
    const char *text; /* of a document */
    size_t bytes;
    struct mt_message *messages; /* of a conversation; the last one is the answer */
    size_t num_messages;
};

/* What the rows of a file are, by its first one. -EINVAL with the columns found and those expected. */
int mt_columns_decide(const struct mt_columns *columns, const struct mt_value *row, enum mt_row_kind *kind,
                      struct mt_error *error);

/* Reads one row; texts live in `arena` and in the row. -EINVAL with the column that is wrong. */
int mt_columns_read(const struct mt_columns *columns, enum mt_row_kind kind, const struct mt_value *row,
                    struct mt_arena *arena, struct mt_row_text *result, struct mt_error *error);

/* A row as a reader gives it. `*kind` is decided on the first row of a file (start with MT_ROW_UNDECIDED);
 * the message names file, line and row. */
int mt_columns_read_row(const struct mt_source *source, const struct mt_source_file *file,
                        const struct mt_row *row, struct mt_arena *arena, enum mt_row_kind *kind,
                        struct mt_row_text *text, struct mt_error *error);

#endif
