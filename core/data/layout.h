/* What the rows of a file are, by its first one, and which of their columns are read. */
#ifndef MT_DATA_LAYOUT_H
#define MT_DATA_LAYOUT_H

#include "core/base/error.h"
#include "core/data/columns.h"
#include "core/data/reader.h"
#include "core/data/value.h"

#include <stdbool.h>
#include <stddef.h>

enum mt_row_kind {
    MT_ROW_UNDECIDED,
    MT_ROW_DOCUMENT, /* a text */
    MT_ROW_ALPACA,   /* columns of a prompt and its answer */
    MT_ROW_TURNS,    /* a list of turns: ShareGPT, or messages as OpenAI's API has them */
};

/* What the rows of a file are, by its first one. Starts as {0}. */
struct mt_layout {
    enum mt_row_kind kind;
    bool query, system, history, tools; /* columns that the first row has and others may lack */
};

/* -EINVAL with the columns found and those expected. */
int mt_layout_decide(const struct mt_columns *columns, const struct mt_row *row, struct mt_layout *layout,
                     struct mt_error *error);

/* The names of the columns that rows are read by: those of the layout, or, while it is undecided, all that
 * may be. Borrowed from `columns`. */
#define MT_LAYOUT_MAX_COLUMNS 12
size_t mt_layout_columns(const struct mt_columns *columns, const struct mt_layout *layout,
                         const char *names[MT_LAYOUT_MAX_COLUMNS]);

/* Whether a row has what its file's layout needs, and no column in which one of the layout's is mistyped.
 * -EINVAL as mt_layout_decide. */
int mt_layout_check(const struct mt_columns *columns, const struct mt_layout *layout,
                    const struct mt_value *row, struct mt_error *error);

#endif
