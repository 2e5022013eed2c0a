/* Rows of one file, one after another, whatever its format. Memory does not grow with the file: text is read
 * through a window (window.h), Parquet by pages, Arrow by record batches.
 *
 *   .txt                    one document; a file of more than 8 MiB is several, cut after an empty line (or a
 *                           line end where there is none) before each 8 MiB
 *   .json                   objects one after another, or in an array
 *   .jsonl .ndjson          an object a line
 *   .csv .tsv               RFC 4180: the first record names the columns; every cell is a text
 *   .parquet                (parquet.h)
 *   .arrow .feather .ipc    (arrow.h)
 * and the text formats as .gz or .zst. Text must be UTF-8; a byte order mark is passed over, UTF-16 refused
 * by name. In .txt files CRLF becomes LF. */
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
    const char *raw;               /* a row as it stands in the file, not parsed yet, or NULL */
    size_t raw_bytes;
    size_t number;       /* in its file, from 1 */
    size_t line, column; /* where it begins, from 1; line 0: the format has no lines, `number` says it */
};

struct mt_reader;

/* Opens `file`; with max_bytes > 0 only so much of the beginning of its text is read. MT_REASON_BAD_DATA with
 * file and line. */
int mt_reader_open(const struct mt_source_file *file, size_t max_bytes, struct mt_reader **reader,
                   struct mt_error *error);
void mt_reader_free(struct mt_reader *reader); /* NULL is fine */

/* Of a format that has its columns apart (Parquet, Arrow) only those of these names are unpacked and read
 * from now on; of the others rows have the key, with null. Before the first row, or between rows with a part
 * of what was asked for before: a column that was left out does not come back. `names` are borrowed for the
 * call. */
void mt_reader_select(struct mt_reader *reader, const char *const *names, size_t count);

/* 1 and a row, 0 at the end. The row lives in `arena` and in the reader. Blank lines are no rows. At the cut
 * of a file read in part, a row that goes beyond it is the end. */
int mt_reader_next(struct mt_reader *reader, struct mt_arena *arena, struct mt_row *row,
                   struct mt_error *error);

/* The two halves of it: mt_reader_take finds the row (text formats leave it unparsed, in `raw`);
 * mt_reader_parse parses it, and may run on any thread, of one reader on several at a time. */
int mt_reader_take(struct mt_reader *reader, struct mt_arena *arena, struct mt_row *row,
                   struct mt_error *error);
int mt_reader_parse(const struct mt_reader *reader, struct mt_arena *arena, struct mt_row *row,
                    struct mt_error *error);

/* Was the file read in part, and did that part end in the middle of a row? */
bool mt_reader_cut(const struct mt_reader *reader);

/* SHA-256 of all bytes of the file, also of those that no row was asked of. -ESTALE when the file changed
 * since it was opened. No row can be asked for after. */
int mt_reader_finish(struct mt_reader *reader, unsigned char digest[32], struct mt_error *error);

/* "FILE: line 7" or, where there are no lines, "FILE: row 7" before the message. Returns error->code. */
int mt_row_locate(const struct mt_row *row, const char *path, struct mt_error *error);

#endif
