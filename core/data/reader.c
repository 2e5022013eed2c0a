#include "core/data/reader.h"

#include "core/base/cleanup.h"
#include "core/base/file.h"
#include "core/base/sha256.h"
#include "core/base/size.h"
#include "core/text/utf8.h"

#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

struct mt_reader {
    const struct mt_source_file *file;
    char *data;
    size_t bytes;
    size_t at;      /* next byte to read */
    size_t line;    /* of `counted` */
    size_t counted; /* newlines before it are in `line` */
    size_t rows;
    bool array;   /* rows in [ ] */
    bool ended;   /* after the array's end, or the one document */
    bool partial; /* not all of the file */
    unsigned char digest[32];
};

static int no_memory(const char *path, struct mt_error *error)
{
    return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory while reading %s", path);
}

/* The line of a position, counting on from the last one asked for. */
static size_t line_of(struct mt_reader *reader, size_t position)
{
    if (position < reader->counted) {
        reader->counted = 0;
        reader->line = 1;
    }
    const char *at = reader->data + reader->counted, *end = reader->data + position;
    while ((at = memchr(at, '\n', (size_t)(end - at)))) {
        reader->line++;
        at++;
    }
    reader->counted = position;
    return reader->line;
}

static size_t column_of(const struct mt_reader *reader, size_t position)
{
    const char *newline = memrchr(reader->data, '\n', position);
    return position - (newline ? (size_t)(newline - reader->data) + 1 : 0) + 1;
}

/* Puts file, line and column before the message. */
static int locate(struct mt_reader *reader, size_t position, struct mt_error *error)
{
    return mt_error_prefix(error, "%s: line %zu, column %zu", reader->file->path, line_of(reader, position),
                           column_of(reader, position));
}

/* Position of the first byte that is not UTF-8, or `bytes`. */
static size_t find_ill_formed(const char *data, size_t bytes, bool partial)
{
    size_t i = 0;
    while (i < bytes) {
        uint64_t word; /* eight ASCII characters at a time */
        if (bytes - i >= sizeof word) {
            memcpy(&word, data + i, sizeof word);
            if (!(word & UINT64_C(0x8080808080808080))) {
                i += sizeof word;
                continue;
            }
        }
        uint32_t character;
        const int length = mt_utf8_next(data + i, bytes - i, &character);
        if (length == MT_UTF8_INCOMPLETE && partial)
            return bytes;
        if (length <= 0)
            return i;
        i += (size_t)length;
    }
    return bytes;
}

static int read_part(const char *path, size_t max_bytes, char **data, size_t *bytes, bool *partial,
                     struct mt_error *error)
{
    mt_autofd int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat status;
    if (fd < 0 || fstat(fd, &status) < 0)
        return mt_error_set_errno(error, MT_REASON_BAD_DATA, "cannot read %s", path);
    *partial = (size_t)status.st_size > max_bytes;
    *bytes = *partial ? max_bytes : (size_t)status.st_size;
    *data = calloc(*bytes + 1, 1);
    if (!*data)
        return no_memory(path, error);
    int r = mt_fd_pread_all(fd, *data, *bytes, 0);
    if (r < 0) {
        errno = -r;
        return mt_error_set_errno(error, MT_REASON_BAD_DATA, "cannot read %s", path);
    }
    return 0;
}

/* CRLF to LF, in place. */
static void unify_line_ends(struct mt_reader *reader)
{
    char *out = memchr(reader->data, '\r', reader->bytes);
    if (!out)
        return;
    const char *end = reader->data + reader->bytes;
    for (const char *in = out; in < end; in++)
        if (*in != '\r' || in + 1 == end || in[1] != '\n')
            *out++ = *in;
    reader->bytes = (size_t)(out - reader->data);
}

static void skip_blanks(struct mt_reader *reader)
{
    while (reader->at < reader->bytes && memchr(" \t\r\n", reader->data[reader->at], 4))
        reader->at++;
}

/* Encoding, and whether the rows stand in an array. */
static int begin(struct mt_reader *reader, struct mt_error *error)
{
    const char *path = reader->file->path;
    if (reader->bytes >= 2 &&
        (memcmp(reader->data, "\xff\xfe", 2) == 0 || memcmp(reader->data, "\xfe\xff", 2) == 0))
        return mt_error_set(error, -EILSEQ, MT_REASON_BAD_DATA,
                            "%s is UTF-16; convert it to UTF-8 first (iconv -f UTF-16 -t UTF-8)", path);
    const size_t bad = find_ill_formed(reader->data, reader->bytes, reader->partial);
    if (bad < reader->bytes) {
        mt_error_set(error, -EILSEQ, MT_REASON_BAD_DATA,
                     "the text is not UTF-8; convert it first (for example iconv -f LATIN1 -t UTF-8)");
        return locate(reader, bad, error), -EILSEQ;
    }
    if (reader->bytes >= 3 && memcmp(reader->data, "\xef\xbb\xbf", 3) == 0)
        reader->at = 3;
    if (reader->file->format == MT_FORMAT_TEXT) {
        unify_line_ends(reader);
        return 0;
    }
    skip_blanks(reader);
    if (reader->at < reader->bytes && reader->data[reader->at] == '[') {
        reader->array = true;
        reader->at++;
    }
    return 0;
}

int mt_reader_open(const struct mt_source_file *file, size_t max_bytes, struct mt_reader **result,
                   struct mt_error *error)
{
    *result = NULL;
    struct mt_reader *reader = calloc(1, sizeof *reader);
    if (!reader)
        return no_memory(file->path, error);
    reader->file = file;
    reader->line = 1;
    int r = max_bytes
                ? read_part(file->path, max_bytes, &reader->data, &reader->bytes, &reader->partial, error)
                : mt_file_read(file->path, SIZE_MAX / 2, &reader->data, &reader->bytes, error);
    if (r < 0 && error && error->reason == MT_REASON_IO)
        error->reason = MT_REASON_BAD_DATA;
    if (r == 0) {
        struct mt_sha256 hash;
        mt_sha256_init(&hash);
        mt_sha256_update(&hash, reader->data, reader->bytes);
        mt_sha256_final(&hash, reader->digest);
        r = begin(reader, error);
    }
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
    free(reader->data);
    free(reader);
}

void mt_reader_hash(const struct mt_reader *reader, unsigned char digest[32])
{
    memcpy(digest, reader->digest, 32);
}

size_t mt_reader_bytes(const struct mt_reader *reader)
{
    return reader->bytes;
}

static int next_document(struct mt_reader *reader, struct mt_row *row)
{
    if (reader->ended || reader->at == reader->bytes)
        return 0;
    reader->ended = true;
    *row = (struct mt_row){
        .text = reader->data + reader->at,
        .bytes = reader->bytes - reader->at,
        .number = ++reader->rows,
        .line = 1,
    };
    return 1;
}

/* The end of what one row may take: its line in .jsonl, so that a broken line cannot swallow the next. */
static size_t row_limit(const struct mt_reader *reader)
{
    if (reader->file->format != MT_FORMAT_LINES || reader->array)
        return reader->bytes;
    const char *newline = memchr(reader->data + reader->at, '\n', reader->bytes - reader->at);
    return newline ? (size_t)(newline - reader->data) : reader->bytes;
}

/* Reads the row at reader->at up to `limit`. */
static int parse_row(struct mt_reader *reader, size_t limit, struct mt_arena *arena, struct mt_row *row,
                     struct mt_error *error)
{
    const size_t start = reader->at;
    struct mt_value *value;
    size_t used;
    int r = mt_value_parse(reader->data + start, limit - start, arena, &value, &used, error);
    reader->at = start + used;
    if (r < 0)
        return r == -ENOMEM ? r : (locate(reader, reader->at, error), r);
    if (value->kind != MT_VALUE_OBJECT) {
        mt_error_set(error, -EINVAL, MT_REASON_BAD_DATA,
                     "a row is %s where an object with columns is expected", mt_value_kind_name(value->kind));
        return locate(reader, start, error), -EINVAL;
    }
    *row = (struct mt_row){
        .object = value,
        .number = ++reader->rows,
        .line = line_of(reader, start),
    };
    return 1;
}

static int unexpected(struct mt_reader *reader, const char *message, struct mt_error *error)
{
    mt_error_set(error, -EINVAL, MT_REASON_BAD_DATA, "%s", message);
    return locate(reader, reader->at, error), -EINVAL;
}

/* Passes what stands between two rows. Returns 1 when another one follows, 0 at the end. */
static int enter_row(struct mt_reader *reader, struct mt_error *error)
{
    skip_blanks(reader);
    const bool at_end = reader->at == reader->bytes;
    const char next = at_end ? '\0' : reader->data[reader->at];
    if (!reader->array || reader->ended) {
        if (reader->ended && !at_end)
            return unexpected(reader, "something follows the end of the list of rows", error);
        return !at_end;
    }
    if (next == ']' && !at_end) {
        reader->at++;
        reader->ended = true;
        return enter_row(reader, error);
    }
    if (reader->rows == 0 && !at_end)
        return 1;
    if (next != ',' || at_end)
        return unexpected(reader,
                          at_end ? "the text ends before the \"]\" of the list of rows"
                                 : "\",\" or \"]\" is expected after a row",
                          error);
    reader->at++;
    skip_blanks(reader);
    return 1;
}

int mt_reader_next(struct mt_reader *reader, struct mt_arena *arena, struct mt_row *row,
                   struct mt_error *error)
{
    if (reader->file->format == MT_FORMAT_TEXT)
        return next_document(reader, row);
    int r = enter_row(reader, error);
    if (r > 0) {
        const size_t limit = row_limit(reader);
        r = parse_row(reader, limit, arena, row, error);
        if (r > 0 && reader->file->format == MT_FORMAT_LINES &&
            !reader->array) { /* nothing but blanks may follow in the line */
            while (reader->at < limit && memchr(" \t\r", reader->data[reader->at], 3))
                reader->at++;
            if (reader->at < limit)
                return unexpected(reader, "something follows the row in its line", error);
        }
    }
    if (r < 0 && r != -ENOMEM && reader->partial && reader->at == reader->bytes)
        return 0; /* the cut, not the data */
    return r;
}
