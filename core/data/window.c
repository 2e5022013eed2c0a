#include "core/data/window.h"

#include "core/base/size.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_BYTES ((size_t)1 << 20)

static int no_memory(const struct mt_window *window, struct mt_error *error)
{
    return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory while reading %s",
                        window->path);
}

static int pass_mark(struct mt_window *window, struct mt_error *error)
{
    int r = 1;
    while (r > 0 && window->end - window->begin < 3)
        r = mt_window_more(window, error);
    if (r < 0)
        return r;
    const char *text = window->data + window->begin;
    const size_t bytes = window->end - window->begin;
    if (bytes >= 2 && (memcmp(text, "\xff\xfe", 2) == 0 || memcmp(text, "\xfe\xff", 2) == 0))
        return mt_error_set(error, -EILSEQ, MT_REASON_BAD_DATA,
                            "%s is UTF-16; convert it to UTF-8 first (iconv -f UTF-16 -t UTF-8)",
                            window->path);
    if (bytes >= 2 && (!text[0] || !text[1])) /* no text begins so, but one without the mark does */
        return mt_error_set(
            error, -EILSEQ, MT_REASON_BAD_DATA,
            "%s begins with zero bytes: it is UTF-16 or no text; convert it to UTF-8 first (for "
            "example iconv -f UTF-16LE -t UTF-8)",
            window->path);
    if (bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        mt_window_take(window, 3);
    return 0;
}

int mt_window_open(struct mt_window *window, const char *path, enum mt_compression compression,
                   uint64_t max_bytes, struct mt_error *error)
{
    *window = (struct mt_window){.path = path, .line = 1, .column = 1, .max_bytes = max_bytes};
    int r = mt_input_open(path, compression, &window->input, error);
    if (r == 0)
        r = pass_mark(window, error);
    if (r < 0)
        mt_window_close(window);
    return r;
}

void mt_window_close(struct mt_window *window)
{
    mt_input_close(window->input);
    free(window->data);
    *window = (struct mt_window){0};
}

/* Makes room behind `end`. */
static int make_room(struct mt_window *window, struct mt_error *error)
{
    const size_t bytes = window->end - window->begin;
    if (window->begin > 0) {
        memmove(window->data, window->data + window->begin, bytes);
        window->begin = 0;
        window->end = bytes;
    }
    if (bytes < window->capacity)
        return 0;
    if (window->capacity >= MT_WINDOW_MAX_BYTES)
        return mt_error_set(error, -EFBIG, MT_REASON_BAD_DATA,
                            "%s: line %zu: a row of more than %zu MiB; is this a file of rows?", window->path,
                            window->line, MT_WINDOW_MAX_BYTES >> 20);
    const size_t capacity = mt_size_max(FIRST_BYTES, 2 * window->capacity);
    char *data = realloc(window->data, capacity);
    if (!data)
        return no_memory(window, error);
    window->data = data;
    window->capacity = capacity;
    return 0;
}

int mt_window_more(struct mt_window *window, struct mt_error *error)
{
    if (window->ended)
        return 0;
    int r = make_room(window, error);
    if (r < 0)
        return r;
    size_t room = window->capacity - window->end, got = 0;
    const uint64_t given = mt_input_bytes(window->input);
    if (window->max_bytes && window->max_bytes - given < room)
        room = (size_t)(window->max_bytes - given);
    if (room > 0) {
        r = mt_input_read(window->input, window->data + window->end, room, &got, error);
        if (r < 0)
            return r;
    }
    window->ended = got == 0;
    window->cut = window->ended && room == 0;
    window->end += got;
    return got > 0;
}

void mt_window_take(struct mt_window *window, size_t bytes)
{
    const char *at = window->data + window->begin, *end = at + bytes;
    const char *newline;
    while ((newline = memchr(at, '\n', (size_t)(end - at)))) {
        window->line++;
        window->column = 1;
        at = newline + 1;
    }
    window->column += (size_t)(end - at);
    window->begin += bytes;
}

int mt_window_skip_blanks(struct mt_window *window, struct mt_error *error)
{
    for (;;) {
        size_t blanks = window->begin;
        while (blanks < window->end && memchr(" \t\r\n", window->data[blanks], 4))
            blanks++;
        const bool found = blanks < window->end;
        mt_window_take(window, blanks - window->begin);
        if (found)
            return 1;
        int r = mt_window_more(window, error);
        if (r <= 0)
            return r;
    }
}
