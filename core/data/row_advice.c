/* What a row that lacks its columns may have been meant as: the last part of the sentence that refuses it. */
#include "core/base/document.h"
#include "core/data/conversation_internal.h"

#include <stdio.h>
#include <string.h>

static bool has_list(const struct mt_value *row, const char *column)
{
    const struct mt_value *cell = mt_value_get(row, column);
    return cell && cell->kind == MT_VALUE_LIST;
}

/* The column whose name is nearest to one that is not there; NULL: none is near. */
static const struct mt_value *nearest(const struct mt_value *row, const char *column)
{
    const struct mt_value *found = NULL;
    size_t best = strlen(column) > 4 ? 3 : 2;
    for (const struct mt_value *cell = row->first; cell; cell = cell->next) {
        char key[64];
        if (cell->key_bytes >= sizeof key)
            continue;
        snprintf(key, sizeof key, "%.*s", (int)cell->key_bytes, cell->key);
        const size_t distance = mt_text_distance(key, column, best);
        if (distance > 0 && distance < best) {
            best = distance;
            found = cell;
        }
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

void mt_row_advise(const struct mt_columns *columns, enum mt_row_kind kind, const char *const *missing,
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
            const struct mt_value *cell = mt_value_get(row, missing[i]) ? NULL : nearest(row, missing[i]);
            if (cell)
                snprintf(text, bytes, ". Is \"%.*s\" what \"%s\" stands for?",
                         (int)(cell->key_bytes < 64 ? cell->key_bytes : 64), cell->key, missing[i]);
        }
    }
}
