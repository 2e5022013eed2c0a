/* Prints the rows of data files for tests that are written in Python: show_rows [--columns A,B] FILE...
 * prints a row a line as JSON, documents of .txt as texts, and {"error", "reason"} where a file could not be
 * read. */
#include "core/data/reader.h"

#include <stdio.h>
#include <string.h>

static void show_text(const char *text, size_t bytes)
{
    putchar('"');
    for (size_t i = 0; i < bytes; i++) {
        const unsigned char c = (unsigned char)text[i];
        if (c == '"' || c == '\\')
            printf("\\%c", c);
        else if (c < 0x20)
            printf("\\u%04x", c);
        else
            putchar(c);
    }
    putchar('"');
}

static void show(const struct mt_value *value)
{
    static const char *const words[] = {"null", "false", "true"};
    switch (value->kind) {
    case MT_VALUE_NULL:
    case MT_VALUE_FALSE:
    case MT_VALUE_TRUE:
        fputs(words[value->kind], stdout);
        break;
    case MT_VALUE_NUMBER:
        fwrite(value->text, 1, value->bytes, stdout);
        break;
    case MT_VALUE_TEXT:
        show_text(value->text, value->bytes);
        break;
    case MT_VALUE_LIST:
    case MT_VALUE_OBJECT:
        putchar(value->kind == MT_VALUE_LIST ? '[' : '{');
        for (const struct mt_value *child = value->first; child; child = child->next) {
            if (value->kind == MT_VALUE_OBJECT) {
                show_text(child->key, child->key_bytes);
                putchar(':');
            }
            show(child);
            if (child->next)
                putchar(',');
        }
        putchar(value->kind == MT_VALUE_LIST ? ']' : '}');
        break;
    }
}

#define MAX_COLUMNS 16

static int show_file(const char *path, const char *const *columns, size_t num_columns, struct mt_error *error)
{
    struct mt_source_file file;
    if (!mt_source_format(path, &file))
        return mt_error_set(error, -EINVAL, MT_REASON_BAD_DATA, "%s: unknown format", path);
    struct mt_reader *reader;
    int r = mt_reader_open(&file, 0, &reader, error);
    if (r < 0)
        return r;
    if (num_columns)
        mt_reader_select(reader, columns, num_columns);
    do {
        struct mt_row row;
        struct mt_arena *arena = mt_arena_new();
        if (!arena)
            break;
        r = mt_reader_next(reader, arena, &row, error);
        if (r > 0) {
            if (row.text)
                show_text(row.text, row.bytes);
            else
                show(row.object);
            putchar('\n');
        }
        mt_arena_free(arena);
    } while (r > 0);
    unsigned char digest[32];
    if (r == 0)
        r = mt_reader_finish(reader, digest, error);
    mt_reader_free(reader);
    return r;
}

int main(int argc, char **argv)
{
    const char *columns[MAX_COLUMNS];
    size_t num_columns = 0;
    int first = 1;
    if (argc > 2 && strcmp(argv[1], "--columns") == 0) {
        for (char *name = strtok(argv[2], ","); name && num_columns < MAX_COLUMNS; name = strtok(NULL, ","))
            columns[num_columns++] = name;
        first = 3;
    }
    for (int i = first; i < argc; i++) {
        struct mt_error error = {0};
        if (show_file(argv[i], columns, num_columns, &error) == 0)
            continue;
        const char *reason = mt_reason_name(error.reason);
        fputs("{\"error\":", stdout);
        show_text(error.message, strlen(error.message));
        printf(",\"reason\":\"%s\"}\n", reason ? reason : "");
    }
    return 0;
}
