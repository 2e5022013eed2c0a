/* The entries of a column chunk whose pages are written here, byte by byte: what writers do not write. */
#include "core/formats/parquet.h"
#include "tests/unit/support.h"

struct writer {
    uint8_t data[4096];
    size_t bytes;
};

static void put(struct writer *writer, const void *data, size_t bytes)
{
    memcpy(writer->data + writer->bytes, data, bytes);
    writer->bytes += bytes;
}

/* A number of Thrift's compact protocol, not below zero. */
static void put_number(struct writer *writer, unsigned field_step, unsigned number)
{
    const uint8_t head = (uint8_t)(field_step << 4 | 5);
    put(writer, &head, 1);
    for (number *= 2; number >= 0x80; number >>= 7)
        put(writer, &(uint8_t){(uint8_t)(number | 0x80)}, 1);
    put(writer, &(uint8_t){(uint8_t)number}, 1);
}

/* A data page of version 1, not packed. */
static void put_page(struct writer *writer, unsigned num_values, unsigned encoding, const void *data,
                     unsigned bytes)
{
    put_number(writer, 1, 0);
    put_number(writer, 1, bytes);
    put_number(writer, 1, bytes);
    put(writer, "\x2c", 1); /* data_page_header */
    put_number(writer, 1, num_values);
    put_number(writer, 1, encoding);
    put_number(writer, 1, 3);
    put_number(writer, 1, 3);
    put(writer, "\0\0", 2);
    put(writer, data, bytes);
}

/* Takes entries until one is refused; their number. */
static size_t take_all(void **state, const struct writer *writer, enum mt_parquet_type type, uint64_t values)
{
    const char *path = mt_test_path(state, "pages");
    struct mt_error error = {0};
    struct mt_data_file file;
    mt_assert_ok(mt_file_write_atomic(path, writer->data, writer->bytes, 0666, &error), &error);
    mt_assert_ok(mt_data_file_open(path, &file, &error), &error);
    const struct mt_parquet_node leaf = {.name = "x", .name_bytes = 1, .type = type, .max_definition = 1};
    const struct mt_parquet_chunk chunk = {.bytes = writer->bytes, .num_values = values};
    struct mt_parquet_column *column = mt_parquet_column_new(&file, &leaf);
    struct mt_parquet_value value;
    unsigned repetition, definition;
    size_t taken = 0;
    assert_non_null(column);
    mt_parquet_column_begin(column, &chunk);
    while (mt_parquet_column_peek(column, &repetition, &definition, &error) > 0 &&
           mt_parquet_column_take(column, &value, &error) == 0)
        taken++;
    mt_parquet_column_free(column);
    mt_data_file_close(&file);
    return taken;
}

/* One entry that is there. */
#define DEFINED "\2\0\0\0\2\1"

/* A second page without values must not go on with the first one's, whose bytes may be gone: it is larger, so
 * its memory is another. */
static void a_page_without_values_does_not_go_on_with_the_one_before(void **state)
{
    static const struct {
        enum mt_parquet_type type;
        unsigned encoding;
        const char *values;
        unsigned bytes;
    } cases[] = {
        {MT_PARQUET_INT64, 5, "\x80\x01\x04\x09\x02\x02\0\0\0\0", 10},
        {MT_PARQUET_BYTES, 6, "\x80\x01\x04\x09\0\0\0\0\0\0", 10},
        {MT_PARQUET_BYTES, 7, "\x80\x01\x04\x09\0\0\0\0\0\0\x80\x01\x04\x09\0\0\0\0\0\0", 20},
        {MT_PARQUET_BOOLEAN, 3, "\2\0\0\0\x12\1", 6},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct writer writer = {.bytes = 0};
        char first[64], second[2048] = {0};
        memcpy(first, DEFINED, 6);
        memcpy(first + 6, cases[i].values, cases[i].bytes);
        put_page(&writer, 1, cases[i].encoding, first, 6 + cases[i].bytes);
        /* Runs of no entries, then the one. */
        second[0] = (char)((sizeof second - 4) & 0xff);
        second[1] = (char)((sizeof second - 4) >> 8);
        second[sizeof second - 2] = 2;
        second[sizeof second - 1] = 1;
        put_page(&writer, 1, cases[i].encoding, second, sizeof second);
        assert_int_equal(take_all(state, &writer, cases[i].type, 2), 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        mt_test_in_folder(a_page_without_values_does_not_go_on_with_the_one_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
