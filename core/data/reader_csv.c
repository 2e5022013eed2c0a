/* CSV (RFC 4180) and the same with tabs: records of cells; a cell in quotes may hold separators, newlines and
 * doubled quotes. The first record names the columns. Every cell is a text; an empty one is an empty text. A
 * record with too few or too many cells is an error that names its line: cells would stand in wrong columns.
 */
#include "core/data/reader_internal.h"

#include <stdlib.h>
#include <string.h>

#define MAX_COLUMNS 10000

struct csv {
    char separator;
    struct mt_arena *arena; /* of the header */
    struct mt_row header;
    const struct mt_value *columns; /* an object of empty cells, in order */
    size_t num_columns;
};

/* Takes the record at the window's beginning; blank lines are passed over. 1, or 0 at the end. */
static int take_record(struct mt_reader *reader, struct mt_arena *arena, struct mt_row *row,
                       struct mt_error *error)
{
    struct mt_window *window = &reader->window;
    const char separator = ((const struct csv *)reader->own)->separator;
    size_t at = 0, opens = 0; /* a quote means something at `opens` alone: at the beginning of a cell, and
                                 behind the quote that closed it */
    bool quoted = false;
    for (;;) {
        const char *text = window->data + window->begin;
        const size_t bytes = window->end - window->begin;
        while (at < bytes) {
            const char *next = quoted ? memchr(text + at, '"', bytes - at) : NULL;
            if (quoted && !next) {
                at = bytes;
                break;
            }
            if (quoted) { /* a doubled quote opens again at once */
                opens = at = (size_t)(next - text) + 1;
                quoted = false;
                continue;
            }
            const char c = text[at];
            if (c == '\n')
                break;
            quoted = c == '"' && at == opens;
            at++;
            if (c == separator)
                opens = at;
        }
        if (at < bytes) { /* a newline outside of quotes */
            const size_t length = at > 0 && text[at - 1] == '\r' ? at - 1 : at;
            if (length == 0) {
                mt_window_take(window, at + 1);
                at = opens = 0;
                continue;
            }
            int r = mt_reader_take_raw(reader, at, arena, row, error);
            if (r > 0) {
                row->raw_bytes = length;
                mt_window_take(window, 1);
            }
            return r;
        }
        int r = mt_window_more(window, error);
        if (r < 0)
            return r;
        if (r == 0) {
            reader->partial = window->cut && bytes > 0;
            if (window->cut || bytes == 0)
                return 0;
            if (quoted) {
                mt_error_set(error, -EINVAL, MT_REASON_BAD_DATA,
                             "the text ends inside of a cell in quotes that begins in this record");
                mt_error_prefix(error, "%s: line %zu", reader->file->path, window->line);
                return -EINVAL;
            }
            r = mt_reader_take_raw(reader, bytes, arena, row, error);
            if (r > 0 && row->raw[bytes - 1] == '\r')
                row->raw_bytes--;
            return r > 0 && row->raw_bytes == 0 ? 0 : r;
        }
    }
}

/* The cell at `*at`; goes behind the separator. `*last` is set at the record's end. */
static int parse_cell(const struct mt_reader *reader, const struct mt_row *row, char separator, size_t *at,
                      bool *last, struct mt_arena *arena, struct mt_value *cell, struct mt_error *error)
{
    const char *text = row->raw;
    const size_t bytes = row->raw_bytes;
    cell->kind = MT_VALUE_TEXT;
    if (*at < bytes && text[*at] == '"') {
        const size_t begin = ++*at;
        size_t doubled = 0;
        for (;; ++*at) {
            const char *quote = memchr(text + *at, '"', bytes - *at); /* the record was found by its quotes */
            if (!quote) {
                mt_error_set(error, -EINVAL, MT_REASON_BAD_DATA, "a cell in quotes does not end");
                return mt_reader_locate(reader, row, begin - 1, error), -EINVAL;
            }
            *at = (size_t)(quote - text) + 1;
            if (*at == bytes || text[*at] != '"')
                break;
            doubled++;
        }
        const size_t length = *at - 1 - begin;
        cell->text = text + begin;
        cell->bytes = length - doubled;
        if (doubled) {
            char *out = mt_arena_alloc(arena, length, 1);
            if (!out)
                return mt_reader_no_memory(reader, error);
            cell->text = out;
            for (size_t i = begin; i < begin + length; i++) {
                *out++ = text[i];
                i += text[i] == '"';
            }
        }
        if (*at < bytes && text[*at] != separator) {
            mt_error_set(error, -EINVAL, MT_REASON_BAD_DATA,
                         "a separator or the end of the record is expected after a cell in quotes");
            return mt_reader_locate(reader, row, *at, error), -EINVAL;
        }
    } else {
        const char *end = memchr(text + *at, separator, bytes - *at);
        cell->text = text + *at;
        cell->bytes = end ? (size_t)(end - cell->text) : bytes - *at;
        const char *lone = cell->bytes ? memchr(cell->text, '\r', cell->bytes) : NULL;
        if (lone) {
            mt_error_set(
                error, -EINVAL, MT_REASON_BAD_DATA,
                "a carriage return without a line feed stands outside of quotes; where it ends a line, "
                "convert the file first (tr '\\r' '\\n')");
            return mt_reader_locate(reader, row, (size_t)(lone - text), error), -EINVAL;
        }
        *at += cell->bytes;
    }
    *last = *at == bytes;
    ++*at;
    return 0;
}

/* Two columns of one name (of more than none): which of them a job means cannot be told. */
static bool names_again(const struct mt_value *columns, const struct mt_value *cell)
{
    for (const struct mt_value *other = columns->first; other && cell->bytes > 0; other = other->next)
        if (other->bytes == cell->bytes && memcmp(other->text, cell->text, cell->bytes) == 0)
            return true;
    return false;
}

static int read_header(struct mt_reader *reader, struct csv *csv, struct mt_error *error)
{
    int r = take_record(reader, csv->arena, &csv->header, error);
    if (r <= 0)
        return r; /* no record at all: no rows */
    r = mt_reader_check_utf8(reader, &csv->header, error);
    if (r < 0)
        return r;
    struct mt_value *columns = mt_arena_alloc(csv->arena, 1, sizeof *columns), **link;
    if (!columns)
        return mt_reader_no_memory(reader, error);
    columns->kind = MT_VALUE_OBJECT;
    link = &columns->first;
    size_t at = 0;
    for (bool last = false; !last; csv->num_columns++) {
        const size_t start = at;
        struct mt_value *cell = mt_arena_alloc(csv->arena, 1, sizeof *cell);
        if (!cell)
            return mt_reader_no_memory(reader, error);
        r = parse_cell(reader, &csv->header, csv->separator, &at, &last, csv->arena, cell, error);
        if (r < 0)
            return r;
        if (csv->num_columns == MAX_COLUMNS)
            return mt_error_set(error, -EFBIG, MT_REASON_BAD_DATA, "%s has more than %d columns",
                                reader->file->path, MAX_COLUMNS);
        if (names_again(columns, cell)) {
            mt_error_set(error, -EINVAL, MT_REASON_BAD_DATA,
                         "a second column named \"%.*s\": give each column a name of its own",
                         (int)(cell->bytes < 100 ? cell->bytes : 100), cell->text);
            return mt_reader_locate(reader, &csv->header, start, error), -EINVAL;
        }
        cell->key = cell->text;
        cell->key_bytes = cell->bytes;
        *link = cell;
        link = &cell->next;
    }
    csv->columns = columns;
    return 0;
}

static int open_csv(struct mt_reader *reader, struct mt_error *error)
{
    struct csv *csv = calloc(1, sizeof *csv);
    if (!csv)
        return mt_reader_no_memory(reader, error);
    reader->own = csv;
    csv->separator = reader->file->format == MT_FORMAT_TSV ? '\t' : ',';
    csv->arena = mt_arena_new();
    return csv->arena ? read_header(reader, csv, error) : mt_reader_no_memory(reader, error);
}

static void close_csv(struct mt_reader *reader)
{
    struct csv *csv = reader->own;
    if (!csv)
        return;
    mt_arena_free(csv->arena);
    free(csv);
}

static int parse(const struct mt_reader *reader, struct mt_arena *arena, struct mt_row *row,
                 struct mt_error *error)
{
    const struct csv *csv = reader->own;
    int r = mt_reader_check_utf8(reader, row, error);
    if (r < 0)
        return r;
    struct mt_value *object = mt_arena_alloc(arena, 1, sizeof *object);
    struct mt_value *cells = mt_arena_alloc(arena, csv->num_columns, sizeof *cells);
    if (!object || !cells)
        return mt_reader_no_memory(reader, error);
    object->kind = MT_VALUE_OBJECT;
    object->first = cells;
    size_t at = 0, count = 0;
    const struct mt_value *column = csv->columns->first;
    for (bool last = false; !last; count++, column = column->next) {
        if (!column) {
            mt_error_set(error, -EINVAL, MT_REASON_BAD_DATA,
                         "the record has more cells than the %zu columns that the first record names",
                         csv->num_columns);
            return mt_reader_locate(reader, row, at, error), -EINVAL;
        }
        struct mt_value *cell = &cells[count];
        r = parse_cell(reader, row, csv->separator, &at, &last, arena, cell, error);
        if (r < 0)
            return r;
        cell->key = column->key;
        cell->key_bytes = column->key_bytes;
        cell->next = column->next ? cell + 1 : NULL;
    }
    if (count < csv->num_columns) {
        mt_error_set(error, -EINVAL, MT_REASON_BAD_DATA,
                     "the record has %zu cells; the first record names %zu columns", count, csv->num_columns);
        return mt_reader_locate(reader, row, row->raw_bytes, error), -EINVAL;
    }
    row->object = object;
    return 0;
}

const struct mt_reader_format mt_reader_csv = {
    .open = open_csv, .take = take_record, .parse = parse, .close = close_csv};
