/* Text on its way from a file to rows: the bytes that were read and not taken yet, in one piece that grows
 * until a row is whole, at most to MT_WINDOW_MAX_BYTES. Knows the line it stands in. */
#ifndef MT_DATA_WINDOW_H
#define MT_DATA_WINDOW_H

#include "core/base/error.h"
#include "core/data/input.h"

#include <stdbool.h>
#include <stddef.h>

#define MT_WINDOW_MAX_BYTES ((size_t)64 << 20) /* of one row */

struct mt_window {
    const char *path; /* borrowed */
    struct mt_input *input;
    char *data; /* [begin, end) is not taken yet */
    size_t begin, end, capacity;
    size_t line, column; /* of `begin`, both from 1; columns count bytes */
    uint64_t max_bytes;  /* of the file's text that are read at all; 0: all */
    bool ended;          /* nothing follows `end` */
    bool cut;            /* ... because of max_bytes */
};

/* Opens the file and passes over a byte order mark; UTF-16 is refused by name. */
int mt_window_open(struct mt_window *window, const char *path, enum mt_compression compression,
                   uint64_t max_bytes, struct mt_error *error);
void mt_window_close(struct mt_window *window); /* {0} is fine */

/* Reads on: 1 when there are more bytes, 0 at the end. Moves `data`. -EFBIG when the window is full. */
int mt_window_more(struct mt_window *window, struct mt_error *error);

/* Takes the next `bytes` bytes; counts lines. */
void mt_window_take(struct mt_window *window, size_t bytes);

/* Takes blanks and newlines; reads on as needed. 1 when something follows, 0 at the end. */
int mt_window_skip_blanks(struct mt_window *window, struct mt_error *error);

#endif
