/* What the formats have in common: see reader.h. */
#include "core/data/reader.h"

#include "core/base/utf8.h"
#include "core/data/reader_internal.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static const struct mt_reader_format *format_of(enum mt_format format)
{
    static const struct mt_reader_format *const formats[] = {
        [MT_FORMAT_TEXT] = &mt_reader_text,   [MT_FORMAT_JSON] = &mt_reader_json,
        [MT_FORMAT_LINES] = &mt_reader_json,  [MT_FORMAT_CSV] = &mt_reader_csv,
        [MT_FORMAT_TSV] = &mt_reader_csv,     [MT_FORMAT_PARQUET] = &mt_reader_parquet,
        [MT_FORMAT_ARROW] = &mt_reader_arrow,
    };
    return formats[format];
}

int mt_reader_no_memory(const struct mt_reader *reader, struct mt_error *error)
{
    return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory while reading %s",
                        reader->file->path);
}

int mt_reader_open(const struct mt_source_file *file, size_t max_bytes, struct mt_reader **result,
                   struct mt_error *error)
{
    *result = NULL;
    struct mt_reader *reader = calloc(1, sizeof *reader);
    if (!reader)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory while reading %s",
                            file->path);
    *reader = (struct mt_reader){.format = format_of(file->format), .file = file, .max_bytes = max_bytes};
    int r;
    if (reader->format->binary)
        r = mt_input_open(file->path, MT_COMPRESSION_NONE, &reader->window.input, error);
    else
        r = mt_window_open(&reader->window, file->path, file->compression, max_bytes, error);
    if (r == 0 && reader->format->open)
        r = reader->format->open(reader, error);
    if (r < 0) {
        mt_reader_free(reader);
        return r;
    }
    *result = reader;
    return 0;
}

void mt_reader_free(struct mt_reader *reader)
{
    if (!reader)
        return;
    if (reader->format->close)
        reader->format->close(reader);
    mt_window_close(&reader->window);
    free(reader);
}

void mt_reader_select(struct mt_reader *reader, const char *const *names, size_t count)
{
    if (reader->format->select)
        reader->format->select(reader, names, count);
}

bool mt_reader_names(const char *const *names, size_t count, const char *name, size_t bytes)
{
    for (size_t i = 0; i < count; i++)
        if (strlen(names[i]) == bytes && memcmp(names[i], name, bytes) == 0)
            return true;
    return false;
}

int mt_reader_take(struct mt_reader *reader, struct mt_arena *arena, struct mt_row *row,
                   struct mt_error *error)
{
    *row = (struct mt_row){0};
    int r = reader->format->take(reader, arena, row, error);
    if (r > 0)
        row->number = ++reader->rows;
    return r;
}

int mt_reader_parse(const struct mt_reader *reader, struct mt_arena *arena, struct mt_row *row,
                    struct mt_error *error)
{
    if (!row->raw || !reader->format->parse)
        return 0;
    int r = reader->format->parse(reader, arena, row, error);
    if (r == 0)
        row->raw = NULL; /* once is enough */
    return r;
}

int mt_reader_next(struct mt_reader *reader, struct mt_arena *arena, struct mt_row *row,
                   struct mt_error *error)
{
    int r = mt_reader_take(reader, arena, row, error);
    if (r <= 0)
        return r;
    r = mt_reader_parse(reader, arena, row, error);
    return r < 0 ? r : 1;
}

bool mt_reader_cut(const struct mt_reader *reader)
{
    return reader->partial;
}

int mt_reader_finish(struct mt_reader *reader, unsigned char digest[32], struct mt_error *error)
{
    return mt_input_finish(reader->window.input, digest, error);
}

int mt_row_locate(const struct mt_row *row, const char *path, struct mt_error *error)
{
    if (row->line)
        return mt_error_prefix(error, "%s: line %zu: row %zu", path, row->line, row->number);
    return mt_error_prefix(error, "%s: row %zu", path, row->number);
}

/* --- for the text formats ------------------------------------------------------------------------------- */

int mt_reader_take_raw(struct mt_reader *reader, size_t bytes, struct mt_arena *arena, struct mt_row *row,
                       struct mt_error *error)
{
    struct mt_window *window = &reader->window;
    char *raw = mt_arena_alloc(arena, bytes + 1, 1);
    if (!raw)
        return mt_reader_no_memory(reader, error);
    memcpy(raw, window->data + window->begin, bytes);
    *row = (struct mt_row){.raw = raw, .raw_bytes = bytes, .line = window->line, .column = window->column};
    mt_window_take(window, bytes);
    return 1;
}

int mt_reader_locate(const struct mt_reader *reader, const struct mt_row *row, size_t offset,
                     struct mt_error *error)
{
    size_t line = row->line, column = row->column;
    for (size_t i = 0; i < offset; i++) {
        column++;
        if (row->raw[i] == '\n') {
            line++;
            column = 1;
        }
    }
    return mt_error_prefix(error, "%s: line %zu, column %zu", reader->file->path, line, column);
}

int mt_reader_check_utf8(const struct mt_reader *reader, const struct mt_row *row, struct mt_error *error)
{
    const size_t bad = mt_utf8_find_ill_formed(row->raw, row->raw_bytes);
    if (bad == row->raw_bytes)
        return 0;
    mt_error_set(error, -EILSEQ, MT_REASON_BAD_DATA,
                 "the text is not UTF-8; convert it first (for example iconv -f LATIN1 -t UTF-8)");
    mt_reader_locate(reader, row, bad, error);
    return -EILSEQ;
}
