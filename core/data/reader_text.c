/* Plain text: a file is a document, a large one several. */
#include "core/data/reader_internal.h"

#include <string.h>

#define PIECE_BYTES ((size_t)8 << 20)

/* Where a piece of at most PIECE_BYTES ends: after the last empty line in its second half, else after the
 * last line there, else after the last whole character. */
static size_t cut(const char *text, size_t bytes)
{
    const size_t half = PIECE_BYTES / 2;
    size_t line = 0;
    for (size_t i = bytes; i-- > half;)
        if (text[i] == '\n') {
            if (text[i - 1] == '\n' || (text[i - 1] == '\r' && text[i - 2] == '\n'))
                return i + 1;
            if (!line)
                line = i + 1;
        }
    if (line)
        return line;
    while (bytes > half && ((unsigned char)text[bytes] & 0xc0) == 0x80)
        bytes--;
    return bytes;
}

/* CRLF to LF, in place; returns the bytes that are left. */
static size_t unify_line_ends(char *text, size_t bytes)
{
    char *out = memchr(text, '\r', bytes);
    if (!out)
        return bytes;
    const char *end = text + bytes;
    for (const char *in = out; in < end; in++)
        if (*in != '\r' || in + 1 == end || in[1] != '\n')
            *out++ = *in;
    return (size_t)(out - text);
}

static int take(struct mt_reader *reader, struct mt_arena *arena, struct mt_row *row, struct mt_error *error)
{
    struct mt_window *window = &reader->window;
    int r = 1;
    while (r > 0 && window->end - window->begin <= PIECE_BYTES)
        r = mt_window_more(window, error);
    const size_t bytes = window->end - window->begin;
    if (r < 0 || bytes == 0)
        return r;
    if (window->cut) /* a look at the beginning: no need for a whole character at its end */
        reader->partial = true;
    return mt_reader_take_raw(reader,
                              bytes > PIECE_BYTES ? cut(window->data + window->begin, PIECE_BYTES) : bytes,
                              arena, row, error);
}

static int parse(const struct mt_reader *reader, struct mt_arena *arena, struct mt_row *row,
                 struct mt_error *error)
{
    (void)arena;
    if (reader->partial) /* the last character may be cut */
        while (row->raw_bytes > 0 && ((unsigned char)row->raw[row->raw_bytes - 1] & 0x80))
            row->raw_bytes--;
    int r = mt_reader_check_utf8(reader, row, error);
    if (r < 0)
        return r;
    char *text = (char *)(uintptr_t)row->raw; /* our own copy */
    row->bytes = unify_line_ends(text, row->raw_bytes);
    row->text = text;
    return 0;
}

const struct mt_reader_format mt_reader_text = {.take = take, .parse = parse};
