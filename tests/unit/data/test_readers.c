/* Formats and packings: the rows that come out, and what is said about damaged files. */
#include "core/base/sha256.h"
#include "core/data/reader.h"
#include "tests/unit/data/data_support.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <zlib.h>
#include <zstd.h>

/* The rows of a file as one text: cells as key=value;, rows one a line. To be freed. */
static char *rows_of(const char *path, struct mt_error *error)
{
    struct mt_source_file file;
    if (!mt_source_format(path, &file))
        fail_msg("%s: unknown format", path);
    struct mt_reader *reader;
    if (mt_reader_open(&file, 0, &reader, error) < 0)
        return NULL;
    struct mt_arena *arena = mt_arena_new();
    char *text = calloc(1, 1);
    size_t used = 0;
    struct mt_row row;
    int r;
    while ((r = mt_reader_next(reader, arena, &row, error)) > 0) {
        const struct mt_value document = {.key = "", .text = row.text, .bytes = row.bytes};
        for (const struct mt_value *cell = row.object ? row.object->first : &document; cell;
             cell = cell->next) {
            char *longer = realloc(text, used + cell->key_bytes + cell->bytes + 3);
            assert_non_null(longer);
            text = longer;
            memcpy(text + used, cell->key, cell->key_bytes);
            text[used + cell->key_bytes] = '=';
            if (cell->bytes)
                memcpy(text + used + cell->key_bytes + 1, cell->text, cell->bytes);
            used += cell->key_bytes + cell->bytes + 2;
            text[used - 1] = cell->next ? ';' : '\n';
            text[used] = '\0';
        }
    }
    unsigned char digest[32];
    if (r == 0)
        r = mt_reader_finish(reader, digest, error);
    mt_reader_free(reader);
    mt_arena_free(arena);
    if (r < 0) {
        free(text);
        return NULL;
    }
    return text;
}

static void assert_rows(const char *path, const char *expected)
{
    struct mt_error error = {0};
    char *text = rows_of(path, &error);
    if (!text)
        fail_msg("%s", error.message);
    assert_string_equal(text, expected);
    free(text);
}

static void assert_damaged(const char *path, const char *why)
{
    struct mt_error error = {0};
    char *text = rows_of(path, &error);
    if (text)
        fail_msg("%s was read; expected: %s", path, why);
    assert_int_equal(error.reason, MT_REASON_BAD_DATA);
    mt_assert_mentions(error.message, path);
    mt_assert_mentions(error.message, why);
}

static void write_bytes(const char *path, const void *data, size_t bytes)
{
    struct mt_error error = {0};
    mt_assert_ok(mt_file_write_atomic(path, data, bytes, 0666, &error), &error);
}

static void csv_cells_are_what_rfc_4180_says(void **state)
{
    assert_rows(
        write_file(state, "a.csv", "a,b\r\n1,2\r\n\"x,y\",\"two\r\nlines\"\r\n\"he said \"\"no\"\"\",\r\n"),
        "a=1;b=2\na=x,y;b=two\r\nlines\na=he said \"no\";b=\n");
    assert_rows(write_file(state, "b.csv", "\xef\xbb\xbf\"a\",b\n\n,\nNone,5\" disk"),
                "a=;b=\na=None;b=5\" disk\n");
    assert_rows(write_file(state, "c.tsv", "a\tb\n\"1,\t2\"\t3\n"), "a=1,\t2;b=3\n");
    assert_rows(write_file(state, "d.csv", "a\n\"\"\"\"\n"), "a=\"\n");
    assert_rows(write_file(state, "e.csv", "a,b\n"), "");
    assert_rows(write_file(state, "g.csv", "a,,\n1,2,\n"),
                "a=1;=2;=\n"); /* columns without a name are no matter */
    assert_rows(write_file(state, "f.csv", ""), "");
}

static void damaged_csv_is_reported_with_its_line(void **state)
{
    assert_damaged(write_file(state, "a.csv", "a,b\n1,2\n1\n"), "line 3, column 2: the record has 1 cells");
    assert_damaged(write_file(state, "b.csv", "a,b\n1,2,3\n"), "line 2, column 5: the record has more cells");
    assert_damaged(write_file(state, "c.csv", "a,b\n1,\"2\n\n"), "line 2: the text ends inside of a cell");
    assert_damaged(write_file(state, "two.csv", "a,b,\"a\"\n1,2,3\n"),
                   "line 1, column 5: a second column named \"a\"");
    assert_damaged(write_file(state, "d.csv", "a,b\n\"1\"x,2\n"), "line 2, column 4: a separator");
    assert_damaged(write_file(state, "e.csv", "a,b\n\"x\ny\",\xff\n"),
                   "line 3, column 4: the text is not UTF-8");
}

/* A row count and a cell size that go over every window and piece. */
static char *many_lines(size_t *bytes)
{
    char *text = malloc(8 << 20);
    size_t used = 0;
    for (int i = 0; used < (7 << 20); i++) {
        used += (size_t)sprintf(text + used, "{\"text\":\"%d ", i);
        for (int n = i * 37 % 3000; n > 0; n--)
            text[used++] = (char)('a' + n % 26);
        used += (size_t)sprintf(text + used, "\"}\n");
    }
    *bytes = used;
    return text;
}

static void text_of_another_kind_is_named(void **state)
{
    const char *path = mt_test_path(state, "a.csv");
    write_bytes(path, "a,b\r1,2\r", 8);
    assert_damaged(path, "line 1, column 4: a carriage return without a line feed stands outside of quotes");
    write_bytes(path, "a,b\n1,x\ry\n", 10);
    assert_damaged(path, "line 2, column 4: a carriage return without a line feed");
    assert_rows(write_file(state, "b.csv", "a,b\r\n1,\"x\ry\"\r\n"), "a=1;b=x\ry\n");
    write_bytes(path, "a\0,\0b\0\n\0", 8);
    assert_damaged(path, "begins with zero bytes: it is UTF-16 or no text");
    write_bytes(path, "\0a\0,", 4);
    assert_damaged(path, "begins with zero bytes");
}

static void write_gzip(const char *path, const void *data, size_t bytes, const char *mode)
{
    gzFile file = gzopen(path, mode);
    assert_non_null(file);
    assert_int_equal(gzwrite(file, data, (unsigned)bytes), (int)bytes);
    assert_int_equal(gzclose(file), Z_OK);
}

static void *zstd_of(const void *data, size_t bytes, size_t *packed_bytes)
{
    void *packed = malloc(ZSTD_compressBound(bytes));
    *packed_bytes = ZSTD_compress(packed, ZSTD_compressBound(bytes), data, bytes, 1);
    assert_false(ZSTD_isError(*packed_bytes));
    return packed;
}

static void *zstd_with_checksum(const void *data, size_t bytes, size_t *packed_bytes)
{
    void *packed = malloc(ZSTD_compressBound(bytes));
    ZSTD_CCtx *context = ZSTD_createCCtx();
    ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
    *packed_bytes = ZSTD_compress2(context, packed, ZSTD_compressBound(bytes), data, bytes);
    assert_false(ZSTD_isError(*packed_bytes));
    ZSTD_freeCCtx(context);
    return packed;
}

static void packed_files_hold_the_same_rows_as_plain_ones(void **state)
{
    struct mt_error error = {0};
    size_t bytes, packed_bytes;
    char *text = many_lines(&bytes);
    const char *plain = mt_test_path(state, "a.jsonl"), *gzip = mt_test_path(state, "a.jsonl.gz"),
               *zstd = mt_test_path(state, "a.JSONL.ZST"), *array = mt_test_path(state, "a.json");
    write_bytes(plain, text, bytes);
    write_gzip(gzip, text, bytes / 2, "wb"); /* two members */
    write_gzip(gzip, text + bytes / 2, bytes - bytes / 2, "ab");
    void *packed = zstd_of(text, bytes, &packed_bytes);
    write_bytes(zstd, packed, packed_bytes);
    char *rows = rows_of(plain, &error);
    assert_non_null(rows);
    assert_rows(gzip, rows);
    assert_rows(zstd, rows);
    for (size_t i = 0; i < bytes; i++)
        if (text[i] == '\n')
            text[i] = ',';
    text[bytes - 1] = ']';
    char *whole = malloc(bytes + 1);
    whole[0] = '[';
    memcpy(whole + 1, text, bytes);
    write_bytes(array, whole, bytes + 1);
    assert_rows(array, rows);
    free(whole);
    free(rows);
    free(packed);
    free(text);
}

static void cut_or_spoilt_packed_files_are_refused(void **state)
{
    size_t bytes, packed_bytes;
    char *text = many_lines(&bytes);
    const char *path = mt_test_path(state, "a.jsonl.zst");
    unsigned char *packed = zstd_of(text, bytes, &packed_bytes);
    write_bytes(path, packed, packed_bytes / 2);
    assert_damaged(path, "was it cut off?");
    packed[packed_bytes / 3] ^= 0x55;
    write_bytes(path, packed, packed_bytes);
    struct mt_error error = {0};
    char *rows = rows_of(path, &error); /* a frame without a checksum may unpack to something else */
    if (!rows)
        assert_int_equal(error.reason, MT_REASON_BAD_DATA);
    free(rows);
    error = (struct mt_error){0};
    for (size_t i = 1; i < 8; i++) { /* one with a checksum may not */
        size_t checked_bytes;
        unsigned char *checked = zstd_with_checksum(text, bytes, &checked_bytes);
        checked[checked_bytes * i / 8] ^= 0x55;
        write_bytes(path, checked, checked_bytes);
        assert_damaged(path, "zstd data is damaged");
        free(checked);
    }
    write_bytes(path, "no zstd", 7);
    assert_damaged(path, "zstd data is damaged");

    const char *gzip = mt_test_path(state, "b.jsonl.gz");
    write_gzip(gzip, text, bytes, "wb");
    char *file;
    size_t file_bytes;
    mt_assert_ok(mt_file_read(gzip, SIZE_MAX / 2, &file, &file_bytes, &error), &error);
    write_bytes(gzip, file, file_bytes - 9);
    assert_damaged(gzip, "was it cut off?");
    file[file_bytes - 6] ^= 1; /* of the checksum */
    write_bytes(gzip, file, file_bytes);
    assert_damaged(gzip, "gzip data is damaged");
    free(file);
    free(packed);
    free(text);
}

/* 200 MiB of blanks, and of one endless row, out of a few kilobytes. */
static void bombs_are_refused(void **state)
{
    const size_t bytes = (size_t)200 << 20;
    size_t packed_bytes;
    char *zeros = malloc(bytes);
    memset(zeros, ' ', bytes);
    const char *gzip = mt_test_path(state, "a.jsonl.gz"), *zstd = mt_test_path(state, "a.jsonl.zst"),
               *row = mt_test_path(state, "b.jsonl.zst");
    write_gzip(gzip, zeros, bytes, "wb9");
    assert_damaged(gzip, "decompression bomb");
    void *packed = zstd_of(zeros, bytes, &packed_bytes);
    write_bytes(zstd, packed, packed_bytes);
    assert_damaged(zstd, "decompression bomb");
    free(packed);
    memset(zeros, 'a', bytes);
    packed = zstd_of(zeros, bytes, &packed_bytes);
    write_bytes(row, packed, packed_bytes);
    assert_damaged(row, "a row of more than 64 MiB");
    free(packed);
    free(zeros);

    /* A frame that asks for a window of 2 GiB: magic, a header without sizes, window descriptor 31 - 10 */
    write_bytes(row, "\x28\xb5\x2f\xfd\x00\xa8\x01\x00\x00", 9);
    assert_damaged(row, "window of more than 128 MiB");
}

static void a_row_of_a_million_values_and_more_is_refused(void **state)
{
    char *text = malloc(5 << 20);
    size_t used = (size_t)sprintf(text, "{\"text\":\"a\",\"x\":[0");
    for (int i = 0; i < 1 << 20; i++)
        used += (size_t)sprintf(text + used, ",0");
    sprintf(text + used, "]}\n");
    assert_damaged(write_file(state, "a.jsonl", text), "a row of more than 1048576 values");
    free(text);
}

/* Issue 7: a broken line 1,000,000 is named. */
static void a_broken_line_1000000_is_named(void **state)
{
    const char *path = mt_test_path(state, "a.jsonl");
    FILE *file = fopen(path, "w");
    for (int i = 1; i < 1000000; i++)
        fputs("{\"a\":1}\n", file);
    fputs("{\"a\":1\n{\"a\":1}\n", file);
    fclose(file);
    struct mt_source_file source;
    assert_true(mt_source_format(path, &source));
    struct mt_error error = {0};
    struct mt_reader *reader;
    mt_assert_ok(mt_reader_open(&source, 0, &reader, &error), &error);
    size_t rows = 0;
    for (int r = 1; r > 0; rows++) {
        struct mt_arena *arena = mt_arena_new();
        struct mt_row row;
        r = mt_reader_next(reader, arena, &row, &error);
        mt_arena_free(arena);
        if (r <= 0)
            break;
    }
    assert_int_equal(rows, 999999);
    mt_assert_mentions(error.message, "line 1000000, column 7: the text ends where");
    mt_reader_free(reader);
}

static void a_file_that_changes_while_it_is_read_is_an_error(void **state)
{
    for (int shorter = 0; shorter < 2; shorter++) {
        struct mt_error error = {0};
        size_t bytes;
        char *text = many_lines(&bytes);
        const char *path = mt_test_path(state, "a.jsonl");
        write_bytes(path, text, bytes);
        struct mt_source_file source;
        assert_true(mt_source_format(path, &source));
        struct mt_reader *reader;
        mt_assert_ok(mt_reader_open(&source, 0, &reader, &error), &error);
        struct mt_arena *arena = mt_arena_new();
        struct mt_row row;
        assert_int_equal(mt_reader_next(reader, arena, &row, &error), 1);
        if (shorter) {
            assert_int_equal(truncate(path, 4000000), 0);
        } else {
            FILE *file = fopen(path, "a");
            fputs("{\"text\":\"one more\"}\n", file);
            fclose(file);
        }
        int r;
        while ((r = mt_reader_next(reader, arena, &row, &error)) > 0)
            ;
        unsigned char digest[32];
        if (r == 0)
            r = mt_reader_finish(reader, digest, &error);
        assert_int_equal(r, -ESTALE);
        mt_assert_mentions(error.message, shorter ? "it became shorter" : "it became longer");
        mt_reader_free(reader);
        mt_arena_free(arena);
        free(text);
    }
}

/* What pyarrow writes of one column "t" with one row "a". */
static const unsigned char small_parquet[] = {
    0x50, 0x41, 0x52, 0x31, 0x15, 0x00, 0x15, 0x16, 0x15, 0x16, 0x2c, 0x15, 0x02, 0x15, 0x00, 0x15,
    0x06, 0x15, 0x06, 0x1c, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x02, 0x01, 0x01, 0x00, 0x00,
    0x00, 0x61, 0x15, 0x04, 0x19, 0x2c, 0x35, 0x00, 0x18, 0x06, 0x73, 0x63, 0x68, 0x65, 0x6d, 0x61,
    0x15, 0x02, 0x00, 0x15, 0x0c, 0x25, 0x02, 0x18, 0x01, 0x74, 0x25, 0x00, 0x4c, 0x1c, 0x00, 0x00,
    0x00, 0x16, 0x02, 0x19, 0x1c, 0x19, 0x1c, 0x26, 0x00, 0x1c, 0x15, 0x0c, 0x19, 0x25, 0x06, 0x00,
    0x19, 0x18, 0x01, 0x74, 0x15, 0x00, 0x16, 0x02, 0x16, 0x3c, 0x16, 0x3c, 0x26, 0x08, 0x49, 0x1c,
    0x15, 0x00, 0x15, 0x00, 0x15, 0x02, 0x00, 0x3c, 0x16, 0x02, 0x19, 0x06, 0x19, 0x26, 0x00, 0x02,
    0x00, 0x00, 0x00, 0x16, 0x3c, 0x16, 0x02, 0x26, 0x08, 0x16, 0x3c, 0x00, 0x28, 0x20, 0x70, 0x61,
    0x72, 0x71, 0x75, 0x65, 0x74, 0x2d, 0x63, 0x70, 0x70, 0x2d, 0x61, 0x72, 0x72, 0x6f, 0x77, 0x20,
    0x76, 0x65, 0x72, 0x73, 0x69, 0x6f, 0x6e, 0x20, 0x32, 0x36, 0x2e, 0x30, 0x2e, 0x31, 0x19, 0x1c,
    0x1c, 0x00, 0x00, 0x00, 0x82, 0x00, 0x00, 0x00, 0x50, 0x41, 0x52, 0x31,
};

/* Also one that keeps its size. */
static void a_binary_file_that_changes_while_it_is_read_is_an_error(void **state)
{
    const char *path = mt_test_path(state, "a.parquet");
    write_bytes(path, small_parquet, sizeof small_parquet);
    assert_rows(path, "t=a\n");
    for (int replaced = 0; replaced < 2; replaced++) {
        struct mt_error error = {0};
        struct mt_source_file source;
        struct mt_reader *reader;
        struct mt_arena *arena = mt_arena_new();
        struct mt_row row;
        unsigned char digest[32], expected[32];
        assert_true(mt_source_format(path, &source));
        mt_assert_ok(mt_reader_open(&source, 0, &reader, &error), &error);
        assert_int_equal(mt_reader_next(reader, arena, &row, &error), 1);
        if (replaced) { /* by another one of the name: what was read is what was opened */
            write_bytes(path, "PAR1", 4);
            mt_assert_ok(mt_reader_finish(reader, digest, &error), &error);
            struct mt_sha256 hash;
            mt_sha256_init(&hash);
            mt_sha256_update(&hash, small_parquet, sizeof small_parquet);
            mt_sha256_final(&hash, expected);
            assert_memory_equal(digest, expected, sizeof digest);
        } else {
            const struct timespec times[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
            assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
            assert_int_equal(mt_reader_finish(reader, digest, &error), -ESTALE);
            mt_assert_mentions(error.message, "a.parquet changed while it was read (it was written to)");
        }
        mt_reader_free(reader);
        mt_arena_free(arena);
    }
}

/* A large .txt is cut into documents after an empty line; nothing is lost. */
static void a_large_text_is_several_documents(void **state)
{
    const size_t bytes = (size_t)20 << 20;
    char *text = malloc(bytes + 1);
    for (size_t i = 0; i < bytes; i++)
        text[i] = i % 1000 > 997 ? '\n' : (char)('a' + i % 26);
    text[bytes] = '\0';
    const char *path = mt_test_path(state, "a.txt");
    write_bytes(path, text, bytes);
    struct mt_error error = {0};
    char *rows = rows_of(path, &error);
    assert_non_null(rows);
    const char *rest = rows;
    size_t at = 0, documents = 0;
    while (*rest) { /* "=" document "\n" */
        assert_int_equal(*rest++, '=');
        const size_t piece = documents < 2 ? (size_t)8388000 : bytes - at;
        assert_memory_equal(rest, text + at, piece);
        at += piece;
        rest += piece;
        assert_int_equal(*rest++, '\n');
        documents++;
    }
    assert_int_equal(at, bytes);
    assert_int_equal(documents, 3);
    free(rows);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        mt_test_in_folder(text_of_another_kind_is_named),
        mt_test_in_folder(csv_cells_are_what_rfc_4180_says),
        mt_test_in_folder(damaged_csv_is_reported_with_its_line),
        mt_test_in_folder(packed_files_hold_the_same_rows_as_plain_ones),
        mt_test_in_folder(cut_or_spoilt_packed_files_are_refused),
        mt_test_in_folder(bombs_are_refused),
        mt_test_in_folder(a_row_of_a_million_values_and_more_is_refused),
        mt_test_in_folder(a_broken_line_1000000_is_named),
        mt_test_in_folder(a_file_that_changes_while_it_is_read_is_an_error),
        mt_test_in_folder(a_binary_file_that_changes_while_it_is_read_is_an_error),
        mt_test_in_folder(a_large_text_is_several_documents),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
