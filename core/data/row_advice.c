/* The sentence that refuses a row without its columns: those found, those expected, and what the row may have
 * been meant as. */
#include "core/base/nearest.h"
#include "core/data/conversation_internal.h"

#include <stdio.h>
#include <string.h>

static bool has_list(const struct mt_value *row, const char *column)
{
    const struct mt_value *cell = mt_value_get(row, column);
    return cell && cell->kind == MT_VALUE_LIST;
}

/* The column whose name is nearest to one that is not there; NULL: none is near. */
static const struct mt_value *nearest_cell(const struct mt_value *row, const char *column)
{
    const struct mt_value *found = NULL;
    struct mt_nearest nearest = {column, strlen(column) > 4 ? 3 : 2};
    for (const struct mt_value *cell = row->first; cell; cell = cell->next) {
        char key[64];
        if (cell->key_bytes >= sizeof key)
            continue;
        snprintf(key, sizeof key, "%.*s", (int)cell->key_bytes, cell->key);
        if (strcmp(key, column) != 0 && mt_nearest_is(&nearest, key))
            found = cell;
    }
    return found;
}

/* A file's only column: what else may be wrong than its name. */
static bool advise_on_one(const struct mt_value *cell, char *text, size_t bytes)
{
    static const char separators[] = ";\t|";
    for (size_t i = 0; i < cell->key_bytes; i++)
        if (strchr(separators, cell->key[i]) && cell->key[i]) {
            snprintf(text, bytes,
                     ". Are the cells parted by %s? They must be by commas (.csv) or tabs (.tsv): convert "
                     "the file",
                     cell->key[i] == '\t'  ? "tabs"
                     : cell->key[i] == ';' ? "semicolons"
                                           : "|");
            return true;
        }
    if (cell->kind != MT_VALUE_LIST || !cell->first || cell->first->kind != MT_VALUE_OBJECT)
        return false;
    snprintf(text, bytes,
             ". If the rows are what stands in \"%.*s\", take them out of it: a .json file is a list of "
             "rows, or rows "
             "one after another",
             (int)(cell->key_bytes < 64 ? cell->key_bytes : 64), cell->key);
    return true;
}

/* What the user may do about a row that lacks the columns `missing`, as sentences behind ". ", or "". */
static void advise(const struct mt_columns *columns, enum mt_row_kind kind, const char *const *missing,
                   size_t num_missing, const struct mt_value *row, char *text, size_t bytes)
{
    const bool turns = has_list(row, "conversations") || has_list(row, "messages");
    const bool alpaca = mt_value_get(row, "instruction") && mt_value_get(row, "output");
    *text = '\0';
    if (mt_value_get(row, "chosen") && mt_value_get(row, "rejected")) {
        snprintf(text, bytes, ". " MT_ROW_JUDGED);
    } else if (kind == MT_ROW_ALPACA && turns) {
        snprintf(text, bytes, ". It has a list of turns: leave dataset.%s away",
                 columns->formatting == MT_JOB_FORMATTING_ALPACA ? "formatting"
                                                                 : "columns.prompt and .response");
    } else if (kind == MT_ROW_TURNS && (alpaca || turns)) {
        snprintf(text, bytes, ". It has %s: leave dataset.%s away",
                 alpaca ? "the columns of formatting: alpaca" : "a list of turns under its usual name",
                 columns->messages ? "columns.messages" : "formatting");
    } else if (row->first && !row->first->next && advise_on_one(row->first, text, bytes)) {
        return;
    } else {
        for (size_t i = 0; !*text && i < num_missing; i++) {
            const struct mt_value *cell =
                mt_value_get(row, missing[i]) ? NULL : nearest_cell(row, missing[i]);
            if (cell)
                snprintf(text, bytes, ". Is \"%.*s\" what \"%s\" stands for?",
                         (int)(cell->key_bytes < 64 ? cell->key_bytes : 64), cell->key, missing[i]);
        }
    }
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

int mt_row_wrong_columns(const struct mt_columns *columns, enum mt_row_kind kind, const struct mt_value *row,
                         struct mt_error *error)
{
    char found[500], expected[400], advice[300];
    const char *turns;
    list_columns(row, found, sizeof found);
    mt_turns_column(columns, row, &turns);
    const char *missing[] = {columns->prompt, columns->response};
    size_t num_missing = 2;
    if (kind == MT_ROW_DOCUMENT || kind == MT_ROW_TURNS) {
        missing[0] = kind == MT_ROW_TURNS ? turns : mt_text_column(columns);
        num_missing = 1;
        snprintf(expected, sizeof expected, "is \"%s\" (dataset.columns.%s gives it another name)",
                 missing[0], kind == MT_ROW_TURNS ? "messages" : "text");
    } else {
        snprintf(expected, sizeof expected,
                 "are \"%s\" and \"%s\" (dataset.columns.prompt and .response give them other names)%s",
                 columns->prompt, columns->response,
                 kind == MT_ROW_ALPACA ? "" : ", or \"messages\", or \"text\"");
    }
    advise(columns, kind, missing, num_missing, row, advice, sizeof advice);
    return mt_conversation_wrong(error, "the row has the columns %s; expected %s%s",
                                 *found ? found : "(none)", expected, advice);
}
