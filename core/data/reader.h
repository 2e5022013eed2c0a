/* Rows of one file, one after another. The file is held in memory while it is read. */
#ifndef MT_DATA_READER_H
#define MT_DATA_READER_H

#include "core/base/arena.h"
#include "core/base/error.h"
#include "core/data/source.h"
#include "core/data/value.h"

#include <stdbool.h>
#include <stddef.h>

struct mt_row {
    const char *text; /* a document (.txt), or NULL */
    size_t bytes;
    const struct mt_value *object; /* a row of columns, or NULL */
    size_t number;                 /* in its file, from 1 */
    size_t line;                   /* where it begins, from 1 */
};

struct mt_reader;

/* Reads `file`, or with max_bytes > 0 only so much of its beginning. The text must be UTF-8 (a BOM is passed
 * over; UTF-16 is refused by name). In .txt files CRLF becomes LF. MT_REASON_BAD_DATA with file and line. */
int mt_reader_open(const struct mt_source_file *file, size_t max_bytes, struct mt_reader **reader,
                   struct mt_error *error);
void mt_reader_free(struct mt_reader *reader); /* NULL is fine */

/* 1 and a row, 0 at the end. The row lives in `arena` and in the reader. Blank lines are no rows. At the cut
 * of a file read in part, a row that goes beyond it is the end. */
int mt_reader_next(struct mt_reader *reader, struct mt_arena *arena, struct mt_row *row,
                   struct mt_error *error);

/* SHA-256 of the bytes that were read. */
void mt_reader_hash(const struct mt_reader *reader, unsigned char digest[32]);
size_t mt_reader_bytes(const struct mt_reader *reader);

#endif
