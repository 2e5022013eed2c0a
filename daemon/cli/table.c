#include "daemon/cli/table.h"

#include <stdlib.h>
#include <string.h>

void mt_text_make_safe(char *text, size_t bytes, const char *keep)
{
    for (size_t i = 0; i < bytes; i++) {
        unsigned char c = (unsigned char)text[i];
        if ((c < 0x20 || c == 0x7f) && !(c && strchr(keep, c)))
            text[i] = '?';
    }
}

/* Columns on the screen, near enough: one a code point. */
static size_t width_of(const char *text)
{
    size_t width = 0;
    for (; *text; text++)
        width += ((unsigned char)*text & 0xc0) != 0x80;
    return width;
}

void mt_table_add(struct mt_table *table, const char *const cells[])
{
    size_t columns = table->num_columns;
    if (table->num_rows == table->capacity) {
        size_t capacity = table->capacity ? 2 * table->capacity : 16;
        char **grown = realloc(table->cells, capacity * columns * sizeof *grown);
        if (!grown)
            return;
        table->cells = grown;
        table->capacity = capacity;
    }
    for (size_t i = 0; i < columns; i++) {
        char *cell = strdup(cells[i] ? cells[i] : "-");
        table->cells[table->num_rows * columns + i] = cell;
        if (cell)
            mt_text_make_safe(cell, strlen(cell), "");
    }
    table->num_rows++;
}

static void print_row(const struct mt_table *table, const char *const *cells, const size_t *widths, FILE *out)
{
    for (size_t i = 0; i < table->num_columns; i++) {
        const char *cell = cells[i] ? cells[i] : "";
        fputs(cell, out);
        if (i + 1 < table->num_columns)
            fprintf(out, "%*s", (int)(widths[i] - width_of(cell) + 2), "");
    }
    fputc('\n', out);
}

void mt_table_print(const struct mt_table *table, FILE *out)
{
    size_t widths[MT_TABLE_COLUMNS] = {0}, columns = table->num_columns;
    for (size_t i = 0; i < columns; i++)
        widths[i] = width_of(table->titles[i]);
    for (size_t i = 0; i < table->num_rows * columns; i++) {
        size_t width = table->cells[i] ? width_of(table->cells[i]) : 0;
        if (width > widths[i % columns])
            widths[i % columns] = width;
    }
    print_row(table, table->titles, widths, out);
    for (size_t i = 0; i < table->num_rows; i++)
        print_row(table, (const char *const *)&table->cells[i * columns], widths, out);
}

void mt_table_free(struct mt_table *table)
{
    for (size_t i = 0; i < table->num_rows * table->num_columns; i++)
        free(table->cells[i]);
    free(table->cells);
    table->cells = NULL;
    table->num_rows = table->capacity = 0;
}
