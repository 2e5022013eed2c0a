/* rows.c: a reader of JSON lines over pread, so that nothing but its offset is state. See rows.h. */
#include "api/rows.h"

#include "core/base/cleanup.h"
#include "core/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define BLOCK_BYTES 65536

int mt_rows_open(struct mt_rows *rows, const char *folder, const char *name)
{
    *rows = (struct mt_rows){.fd = -1};
    mt_autofree char *path = mt_path_join(folder, name);
    if (!path)
        return -ENOMEM;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return errno == ENOENT ? 0 : -errno;
    struct stat status;
    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
        close(fd);
        return -EINVAL;
    }
    rows->fd = fd;
    return 0;
}

void mt_rows_close(struct mt_rows *rows)
{
    if (rows->fd >= 0)
        close(rows->fd);
    free(rows->buffer);
    *rows = (struct mt_rows){.fd = -1};
}

void mt_rows_seek(struct mt_rows *rows, off_t offset)
{
    rows->offset = offset;
    rows->begin = rows->end = 0;
}

/* Reads more behind what is buffered. False at the end of the file, on an error, and out of memory. */
static bool fill(struct mt_rows *rows)
{
    if (rows->begin > 0) {
        memmove(rows->buffer, rows->buffer + rows->begin, rows->end - rows->begin);
        rows->end -= rows->begin;
        rows->begin = 0;
    }
    if (rows->end + BLOCK_BYTES > rows->capacity) {
        char *grown = realloc(rows->buffer, rows->end + BLOCK_BYTES);
        if (!grown)
            return false;
        rows->buffer = grown;
        rows->capacity = rows->end + BLOCK_BYTES;
    }
    ssize_t bytes;
    do {
        bytes = pread(rows->fd, rows->buffer + rows->end, BLOCK_BYTES, rows->offset + (off_t)rows->end);
    } while (bytes < 0 && errno == EINTR);
    if (bytes <= 0)
        return false;
    rows->end += (size_t)bytes;
    return true;
}

/* The next whole line, whatever is in it; a line beyond the limit comes as an empty one. */
static bool next_line(struct mt_rows *rows, const char **text, size_t *bytes)
{
    size_t searched = 0;
    bool overlong = false;
    if (rows->fd < 0)
        return false;
    off_t start = rows->offset;
    for (;;) {
        const char *from = rows->buffer + rows->begin;
        size_t there = rows->end - rows->begin;
        const char *newline = there > searched ? memchr(from + searched, '\n', there - searched) : NULL;
        if (newline) {
            *text = from;
            *bytes = overlong ? 0 : (size_t)(newline - from);
            size_t line = (size_t)(newline - from) + 1;
            rows->begin += line;
            rows->offset += (off_t)line;
            return true;
        }
        searched = there;
        if (there > MT_ROW_LIMIT_BYTES) {
            /* Forget what there is of it and go on to its end. */
            overlong = true;
            rows->offset += (off_t)there;
            rows->begin = rows->end = searched = 0;
        }
        if (!fill(rows)) {
            mt_rows_seek(rows, start); /* the line is not whole yet: it is looked at again when asked again */
            return false;
        }
    }
}

/* Whether the line in the row is an object, which it then has. */
static bool is_row(struct mt_row *row)
{
    row->value = json_loadb(row->text, row->bytes, 0, NULL);
    if (json_is_object(row->value))
        return true;
    json_decref(row->value);
    row->value = NULL;
    return false;
}

bool mt_rows_next(struct mt_rows *rows, struct mt_row *row)
{
    row->value = NULL;
    while (next_line(rows, &row->text, &row->bytes)) {
        if (is_row(row))
            return true;
    }
    return false;
}

bool mt_rows_find(struct mt_rows *rows, const char *words, off_t end, struct mt_row *row)
{
    const size_t bytes = strlen(words);
    row->value = NULL;
    while (rows->offset < end && next_line(rows, &row->text, &row->bytes)) {
        if (memmem(row->text, row->bytes, words, bytes) && is_row(row))
            return true;
    }
    return false;
}

long long mt_row_step(const struct mt_row *row)
{
    return json_integer_value(json_object_get(row->value, "step"));
}

static off_t file_bytes(const struct mt_rows *rows)
{
    struct stat status;
    return rows->fd >= 0 && fstat(rows->fd, &status) == 0 ? status.st_size : 0;
}

bool mt_rows_is_start(const struct mt_rows *rows, off_t offset)
{
    char before;
    if (offset == 0)
        return true;
    return offset > 0 && offset <= file_bytes(rows) && pread(rows->fd, &before, 1, offset - 1) == 1 &&
           before == '\n';
}

/* Goes to the first line that starts at or behind `offset`. */
static void seek_line(struct mt_rows *rows, off_t offset)
{
    const char *text;
    size_t bytes;
    if (mt_rows_is_start(rows, offset)) {
        mt_rows_seek(rows, offset);
        return;
    }
    mt_rows_seek(rows, offset);
    if (!next_line(rows, &text, &bytes))
        mt_rows_seek(rows, file_bytes(rows));
}

void mt_rows_seek_step(struct mt_rows *rows, long long step)
{
    /* Rows that start before `low` have steps <= step; those that start at or behind `high` greater ones, or
     * there are none. */
    off_t low = 0, high = file_bytes(rows);
    while (high - low > BLOCK_BYTES) {
        struct mt_row row;
        off_t middle = low + (high - low) / 2;
        seek_line(rows, middle);
        off_t start = rows->offset;
        if (start >= high || !mt_rows_next(rows, &row)) {
            high = middle;
            continue;
        }
        bool before = mt_row_step(&row) <= step;
        json_decref(row.value);
        if (before)
            low = rows->offset;
        else
            high = middle;
    }
    mt_rows_seek(rows, low);
    for (;;) {
        struct mt_row row;
        off_t start = rows->offset;
        if (!mt_rows_next(rows, &row))
            return;
        bool found = mt_row_step(&row) > step;
        json_decref(row.value);
        if (found) {
            mt_rows_seek(rows, start);
            return;
        }
    }
}

void mt_rows_seek_tail(struct mt_rows *rows, off_t bytes)
{
    off_t size = file_bytes(rows);
    seek_line(rows, size > bytes ? size - bytes : 0);
}
