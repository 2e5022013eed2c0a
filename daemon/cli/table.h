/* Tables for people, and text of others made safe for a terminal. */
#ifndef MT_CLI_TABLE_H
#define MT_CLI_TABLE_H

#include <stddef.h>
#include <stdio.h>

#define MT_TABLE_COLUMNS 8

struct mt_table {
    size_t num_columns, num_rows, capacity;
    const char *titles[MT_TABLE_COLUMNS];
    char **cells; /* [num_rows * num_columns] */
};

/* Copies the cells (NULL: "-"), control characters replaced. Out of memory: the row is left out. */
void mt_table_add(struct mt_table *table, const char *const cells[]);
/* Columns as wide as their widest cell, two spaces apart; nothing after the last one. */
void mt_table_print(const struct mt_table *table, FILE *out);
void mt_table_free(struct mt_table *table);

/* Replaces control characters by '?', in place. `keep` are those that may stay ("\n\t"). */
void mt_text_make_safe(char *text, size_t bytes, const char *keep);

#endif
