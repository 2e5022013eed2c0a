/* Reading the files that a worker writes line by line (metrics.jsonl, log.jsonl), however large they are and
 * while they grow. A last line without its newline is not there yet; a line that is no JSON object is passed
 * over. */
#ifndef MT_API_ROWS_H
#define MT_API_ROWS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define MT_ROW_LIMIT_BYTES ((size_t)1 << 20)

struct mt_rows {
    int fd;       /* -1: no file */
    off_t offset; /* of the next line to be given */
    char *buffer;
    size_t begin, end, capacity; /* of what is buffered */
};

struct mt_row {
    const char *text; /* without the newline; valid until the next call */
    size_t bytes;
    json_t *value; /* an object; owned by the receiver */
};

/* Opens `<folder>/<name>`. 0, also when there is no such file (then there are no rows), or a negative errno
 * (-ELOOP for a link, -EINVAL for what is not a regular file). */
int mt_rows_open(struct mt_rows *rows, const char *folder, const char *name);
void mt_rows_close(struct mt_rows *rows);

/* Goes to a byte offset: the start of a line. */
void mt_rows_seek(struct mt_rows *rows, off_t offset);
/* True when `offset` is the start of a line that is there or can come. */
bool mt_rows_is_start(const struct mt_rows *rows, off_t offset);
/* Goes to the first row whose `step` is greater than `step`, by bisection: steps only grow in the file. */
void mt_rows_seek_step(struct mt_rows *rows, long long step);
/* Goes to about the last `bytes` bytes, at the start of a line. */
void mt_rows_seek_tail(struct mt_rows *rows, off_t bytes);

/* The next row, with `row->value` a new reference. False at the end of what is there. */
bool mt_rows_next(struct mt_rows *rows, struct mt_row *row);

/* The next row that has `words` in its text and starts before `end`; rows without them are not parsed. */
bool mt_rows_find(struct mt_rows *rows, const char *words, off_t end, struct mt_row *row);

/* `step` of a row; 0 where it has none. */
long long mt_row_step(const struct mt_row *row);

#endif
