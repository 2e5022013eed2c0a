/* Safetensors: what is written is read back to the bit, the bytes are those of the format, and damaged files
 * are refused with the reason. */
#include "core/formats/safetensors.h"
#include "tests/unit/support.h"

#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

/* --- helpers
 * ------------------------------------------------------------------------------------------------ */

/* A file with this header (its length told as `length`, or its own when 0) and `data_bytes` bytes 0, 1, 2...
 */
static const char *write_file(void **state, const char *name, const char *header, uint64_t length,
                              size_t data_bytes)
{
    const char *path = mt_test_path(state, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    if (!length)
        length = strlen(header);
    for (int i = 0; i < 8; i++)
        fputc((int)(length >> 8 * i & 0xff), file);
    fputs(header, file);
    for (size_t i = 0; i < data_bytes; i++)
        fputc((int)(i & 0xff), file);
    fclose(file);
    return path;
}

static void assert_refused(const char *path, const char *why)
{
    struct mt_error error = {0};
    struct mt_safetensors *file;
    if (mt_safetensors_open(path, &file, &error) == 0)
        fail_msg("%s was accepted; expected: %s", path, why);
    assert_null(file);
    assert_int_equal(error.reason, MT_REASON_BAD_MODEL);
    mt_assert_mentions(error.message, why);
}

static void assert_header_refused(void **state, const char *header, size_t data_bytes, const char *why)
{
    assert_refused(write_file(state, "damaged.safetensors", header, 0, data_bytes), why);
}

static struct mt_safetensors *open_good(const char *path)
{
    struct mt_error error = {0};
    struct mt_safetensors *file = NULL;
    mt_assert_ok(mt_safetensors_open(path, &file, &error), &error);
    return file;
}

static char *read_text(const char *path, size_t *bytes)
{
    char *text;
    struct mt_error error = {0};
    mt_assert_ok(mt_file_read(path, 1 << 20, &text, bytes, &error), &error);
    return text;
}

/* --- the bytes of the format
 * -------------------------------------------------------------------------------- */

static void the_bytes_written_are_those_of_the_format(void **state)
{
    struct mt_error error = {0};
    struct mt_test_folder *folder = *state;
    const struct mt_safetensors_spec specs[] = {
        {.name = "half", .dtype = MT_BF16, .rank = 1, .shape = {3}},
        {.name = "full", .dtype = MT_F32, .rank = 2, .shape = {1, 2}},
    };
    struct mt_safetensors_writer *writer;
    mt_assert_ok(mt_safetensors_writer_open(folder->path, "model", specs, 2, 0, NULL, &writer, &error),
                 &error);
    const float half[] = {1, -2, 0.5f}, full[] = {3, 4};
    mt_assert_ok(mt_safetensors_writer_write_f32(writer, half, 3, &error), &error);
    mt_assert_ok(mt_safetensors_writer_write(writer, full, sizeof full, &error), &error);
    mt_assert_ok(mt_safetensors_writer_finish(writer, &error), &error);
    mt_safetensors_writer_free(writer);

    /* Widest element first, though "half" was written first; and the header is padded with blanks so
     * that the data begins at a multiple of 64. */
    static const char header[] = "{\"__metadata__\":{\"format\":\"pt\"},"
                                 "\"full\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[0,8]},"
                                 "\"half\":{\"dtype\":\"BF16\",\"shape\":[3],\"data_offsets\":[8,14]}}";
    static const unsigned char data[] = {0, 0, 0x40, 0x40, 0, 0, 0x80, 0x40, 0x80, 0x3f, 0, 0xc0, 0, 0x3f};
    const size_t header_bytes = (8 + sizeof header - 1 + 63) / 64 * 64 - 8;
    size_t bytes;
    char *text = read_text(mt_test_path(state, "model.safetensors"), &bytes);
    assert_int_equal(bytes, 8 + header_bytes + sizeof data);
    assert_int_equal((unsigned char)text[0], header_bytes);
    for (int i = 1; i < 8; i++)
        assert_int_equal(text[i], 0);
    assert_memory_equal(text + 8, header, sizeof header - 1);
    for (size_t i = sizeof header - 1; i < header_bytes; i++)
        assert_int_equal(text[8 + i], ' ');
    assert_memory_equal(text + 8 + header_bytes, data, sizeof data);
    free(text);
}

static void a_file_written_elsewhere_is_read(void **state)
{
    /* As the reference implementation writes it: no metadata, a scalar, an empty tensor, offsets unaligned.
     */
    const char *path = write_file(state, "a.safetensors",
                                  "{\"scalar\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]},"
                                  "\"none\":{\"dtype\":\"F32\",\"shape\":[0,4],\"data_offsets\":[1,1]},"
                                  "\"words\":{\"dtype\":\"I16\",\"shape\":[2],\"data_offsets\":[1,5]}}   ",
                                  0, 5);
    struct mt_safetensors *file = open_good(path);
    assert_int_equal(mt_safetensors_count(file), 3);
    const struct mt_safetensors_tensor *scalar = mt_safetensors_find(file, "scalar");
    assert_int_equal(scalar->rank, 0);
    assert_int_equal(scalar->elements, 1);
    assert_int_equal(mt_safetensors_find(file, "none")->elements, 0);
    const struct mt_safetensors_tensor *words = mt_safetensors_find(file, "words");
    char *bytes = mt_test_bytes(words->fd, words->offset, 4);
    assert_memory_equal(bytes, "\1\2\3\4", 4);
    free(bytes);
    assert_string_equal(words->file, path);
    assert_null(mt_safetensors_find(file, "word"));
    assert_null(mt_safetensors_metadata(file, "format"));
    assert_int_equal(mt_safetensors_read_f32(words, 0, 2, (float[2]){0}), -EINVAL);
    mt_safetensors_close(file);
}

/* --- round trips
 * -------------------------------------------------------------------------------------------- */

static void every_dtype_comes_back_to_the_bit(void **state)
{
    static const enum mt_dtype dtypes[] = {MT_F32, MT_BF16, MT_F16, MT_F64, MT_I8,
                                           MT_U8,  MT_I16,  MT_I32, MT_I64, MT_BOOL};
    enum { COUNT = sizeof dtypes / sizeof *dtypes, ELEMENTS = 5 };
    struct mt_error error = {0};
    struct mt_test_folder *folder = *state;
    struct mt_safetensors_spec specs[COUNT];
    unsigned char data[COUNT][ELEMENTS * 8];
    char names[COUNT][8];
    for (size_t i = 0; i < COUNT; i++) {
        snprintf(names[i], sizeof names[i], "t%zu", i);
        specs[i] = (struct mt_safetensors_spec){
            .name = names[i], .dtype = dtypes[i], .rank = 2, .shape = {1, ELEMENTS}};
        for (size_t k = 0; k < sizeof data[i]; k++)
            data[i][k] = (unsigned char)(37 * k + i);
    }
    struct mt_safetensors_writer *writer;
    mt_assert_ok(mt_safetensors_writer_open(folder->path, "model", specs, COUNT, 0, NULL, &writer, &error),
                 &error);
    for (size_t i = 0; i < COUNT; i++) /* in two pieces, the first of one byte */
        for (int piece = 0; piece < 2; piece++) {
            const size_t bytes = ELEMENTS * mt_dtype_bytes(dtypes[i]);
            mt_assert_ok(mt_safetensors_writer_write(writer, data[i] + piece, piece ? bytes - 1 : 1, &error),
                         &error);
        }
    mt_assert_ok(mt_safetensors_writer_finish(writer, &error), &error);
    mt_safetensors_writer_free(writer);

    struct mt_safetensors *file = open_good(folder->path);
    assert_int_equal(mt_safetensors_count(file), COUNT);
    assert_string_equal(mt_safetensors_metadata(file, "format"), "pt");
    for (size_t i = 0; i < COUNT; i++) {
        const struct mt_safetensors_tensor *tensor = mt_safetensors_find(file, names[i]);
        assert_non_null(tensor);
        assert_int_equal(tensor->dtype, dtypes[i]);
        assert_int_equal(tensor->rank, 2);
        assert_int_equal(tensor->shape[1], ELEMENTS);
        char read[ELEMENTS * 8];
        const size_t bytes = ELEMENTS * mt_dtype_bytes(dtypes[i]);
        assert_int_equal(mt_fd_pread_all(tensor->fd, read, bytes, (off_t)tensor->offset), 0);
        assert_memory_equal(read, data[i], bytes);
        /* Aligned, though the narrow ones were declared between wide ones. */
        assert_int_equal(tensor->offset % mt_dtype_bytes(dtypes[i]), 0);
    }
    mt_safetensors_close(file);
}

static void shards_hold_what_the_index_says(void **state)
{
    struct mt_error error = {0};
    struct mt_test_folder *folder = *state;
    struct mt_safetensors_spec specs[5];
    const char *names[] = {"a", "b", "c", "d", "e"};
    for (size_t i = 0; i < 5; i++)
        specs[i] = (struct mt_safetensors_spec){.name = names[i], .dtype = MT_F32, .rank = 1, .shape = {10}};
    specs[3].shape[0] = 100; /* larger than a shard: stands alone */
    struct mt_safetensors_writer *writer;
    json_t *metadata = json_pack("{s:s}", "made_by", "test");
    mt_assert_ok(mt_safetensors_writer_open(folder->path, "model", specs, 5, 80, metadata, &writer, &error),
                 &error);
    json_decref(metadata);
    float values[140];
    for (int i = 0; i < 140; i++)
        values[i] = (float)i;
    mt_assert_ok(mt_safetensors_writer_write(writer, values, sizeof values, &error), &error);
    mt_assert_ok(mt_safetensors_writer_finish(writer, &error), &error);
    mt_safetensors_writer_free(writer);

    assert_true(mt_path_exists(mt_test_path(state, "model-00004-of-00004.safetensors")));
    assert_false(mt_path_exists(mt_test_path(state, "model.safetensors")));
    size_t bytes;
    char *index = read_text(mt_test_path(state, "model.safetensors.index.json"), &bytes);
    mt_assert_mentions(index, "\"total_size\": 560");
    mt_assert_mentions(index, "\"d\": \"model-00003-of-00004.safetensors\"");
    free(index);

    for (int way = 0; way < 2; way++) {
        struct mt_safetensors *file =
            open_good(way ? folder->path : mt_test_path(state, "model.safetensors.index.json"));
        assert_int_equal(mt_safetensors_count(file), 5);
        assert_string_equal(mt_safetensors_metadata(file, "made_by"), "test");
        float out[10];
        assert_int_equal(mt_safetensors_read_f32(mt_safetensors_find(file, "e"), 0, 10, out), 0);
        assert_true(out[9] == 139.0f);
        mt_safetensors_close(file);
    }
}

static void values_are_converted_as_documented(void **state)
{
    struct mt_error error = {0};
    struct mt_test_folder *folder = *state;
    const float values[] = {1.0f, -0.1f, 65504.0f, 1e-7f, 3.14159274f};
    const struct mt_safetensors_spec specs[] = {
        {.name = "f32", .dtype = MT_F32, .rank = 1, .shape = {5}},
        {.name = "bf16", .dtype = MT_BF16, .rank = 1, .shape = {5}},
        {.name = "f16", .dtype = MT_F16, .rank = 1, .shape = {5}},
        {.name = "f64", .dtype = MT_F64, .rank = 1, .shape = {5}},
    };
    struct mt_safetensors_writer *writer;
    mt_assert_ok(mt_safetensors_writer_open(folder->path, "model", specs, 4, 0, NULL, &writer, &error),
                 &error);
    for (int i = 0; i < 4; i++)
        mt_assert_ok(mt_safetensors_writer_write_f32(writer, values, 5, &error), &error);
    mt_assert_ok(mt_safetensors_writer_finish(writer, &error), &error);
    mt_safetensors_writer_free(writer);

    struct mt_safetensors *file = open_good(folder->path);
    float out[5];
    assert_int_equal(mt_safetensors_read_f32(mt_safetensors_find(file, "f32"), 0, 5, out), 0);
    assert_memory_equal(out, values, sizeof values);
    assert_int_equal(mt_safetensors_read_f32(mt_safetensors_find(file, "f64"), 0, 5, out), 0);
    assert_memory_equal(out, values, sizeof values);
    assert_int_equal(mt_safetensors_read_f32(mt_safetensors_find(file, "bf16"), 1, 2, out), 0);
    assert_true(out[0] == -0.10009765625f && out[1] == 65536.0f);
    assert_int_equal(mt_safetensors_read_f32(mt_safetensors_find(file, "f16"), 1, 4, out), 0);
    assert_true(out[0] == -0.0999755859375f && out[1] == 65504.0f && out[2] == 0x1p-23f &&
                out[3] == 3.140625f);
    assert_int_equal(mt_safetensors_read_f32(mt_safetensors_find(file, "f16"), 1, 5, out), -ERANGE);
    assert_int_equal(mt_safetensors_read_f32(mt_safetensors_find(file, "f16"), 6, 0, out), -ERANGE);
    mt_safetensors_close(file);
}

static void f64_is_rounded_to_nearest_even(void **state)
{
    const char *path = mt_test_path(state, "a.safetensors");
    write_file(state, "a.safetensors", "{\"x\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[0,8]}}", 0,
               8);
    FILE *file = fopen(path, "r+b");
    const double value = 1.0 + 0x1p-24; /* a tie */
    fseek(file, -8, SEEK_END);
    fwrite(&value, 8, 1, file);
    fclose(file);
    struct mt_safetensors *opened = open_good(path);
    float out;
    assert_int_equal(mt_safetensors_read_f32(mt_safetensors_at(opened, 0), 0, 1, &out), 0);
    assert_true(out == 1.0f);
    mt_safetensors_close(opened);
}

static void every_f16_survives_fp32_and_rounding_is_to_nearest_even(void **state)
{
    (void)state;
    for (uint32_t bits = 0; bits < 65536; bits++) {
        const float value = mt_f16_to_float((uint16_t)bits);
        if ((bits & 0x7c00) == 0x7c00 && (bits & 0x3ff)) {
            assert_true(isnan(value));
            assert_true(isnan(mt_f16_to_float(mt_f16_from_float(value))));
            continue;
        }
        assert_int_equal(mt_f16_from_float(value), bits);
        if ((bits & 0x7fff) >= 0x7bff)
            continue;
        /* Between this one and the next: just below the middle, the middle, just above. */
        const float next = mt_f16_to_float((uint16_t)(bits + 1)), middle = value + (next - value) / 2;
        assert_int_equal(mt_f16_from_float(nextafterf(middle, value)), bits);
        assert_int_equal(mt_f16_from_float(nextafterf(middle, next)), bits + 1);
        assert_int_equal(mt_f16_from_float(middle), bits & 1 ? bits + 1 : bits);
    }
    assert_int_equal(mt_f16_from_float(65519.996f), 0x7bff);
    assert_int_equal(mt_f16_from_float(65520.0f), 0x7c00);
    assert_int_equal(mt_f16_from_float(-1e30f), 0xfc00);
    assert_int_equal(mt_f16_from_float(0x1p-25f), 0);
    assert_int_equal(mt_f16_from_float(1e-40f), 0);
}

/* --- writers that are misused
 * ------------------------------------------------------------------------------- */

static void a_writer_given_up_leaves_no_file(void **state)
{
    struct mt_error error = {0};
    struct mt_test_folder *folder = *state;
    const struct mt_safetensors_spec specs[] = {{.name = "x", .dtype = MT_F32, .rank = 1, .shape = {4}}};
    struct mt_safetensors_writer *writer;
    mt_assert_ok(mt_safetensors_writer_open(folder->path, "model", specs, 1, 0, NULL, &writer, &error),
                 &error);
    mt_assert_ok(mt_safetensors_writer_write(writer, (float[2]){1, 2}, 8, &error), &error);
    assert_true(mt_safetensors_writer_finish(writer, &error) < 0);
    mt_assert_mentions(error.message, "\"x\"");
    mt_safetensors_writer_free(writer);
    assert_true(mt_folder_is_empty(folder->path));
}

static void a_writer_takes_no_byte_too_many_and_no_name_twice(void **state)
{
    struct mt_error error = {0};
    struct mt_test_folder *folder = *state;
    struct mt_safetensors_spec specs[] = {{.name = "x", .dtype = MT_BF16, .rank = 1, .shape = {2}},
                                          {.name = "x", .dtype = MT_F32, .rank = 0}};
    struct mt_safetensors_writer *writer;
    assert_true(mt_safetensors_writer_open(folder->path, "model", specs, 2, 0, NULL, &writer, &error) < 0);
    assert_null(writer);
    mt_assert_ok(mt_safetensors_writer_open(folder->path, "model", specs, 1, 0, NULL, &writer, &error),
                 &error);
    assert_true(mt_safetensors_writer_write_f32(writer, (float[3]){0}, 3, &error) < 0);
    assert_true(mt_safetensors_writer_write(writer, "123456", 6, &error) < 0);
    mt_safetensors_writer_free(writer);
    specs[0].shape[0] = SIZE_MAX / 2;
    specs[0].rank = 2;
    specs[0].shape[1] = 4;
    assert_true(mt_safetensors_writer_open(folder->path, "model", specs, 1, 0, NULL, &writer, &error) < 0);
    mt_assert_mentions(error.message, "overflows");
    assert_true(mt_folder_is_empty(folder->path));
}

static void a_full_disk_is_reported_as_such(void **state)
{
    (void)state;
    if (!mt_path_exists("/dev/full"))
        mt_test_skip("no /dev/full");
    struct mt_error error = {0};
    struct mt_test_folder *folder = *state;
    struct mt_safetensors_writer *writer;
    /* More than any disk has. */
    const struct mt_safetensors_spec specs[] = {
        {.name = "x", .dtype = MT_F32, .rank = 1, .shape = {(size_t)1 << 50}}};
    assert_true(mt_safetensors_writer_open(folder->path, "model", specs, 1, 0, NULL, &writer, &error) < 0);
    assert_true(error.reason == MT_REASON_DISK_FULL || error.code == -EFBIG);
    assert_true(mt_folder_is_empty(folder->path));
}

/* --- damaged files
 * ------------------------------------------------------------------------------------------ */

#define TENSOR(name, dtype, shape, offsets)                                                                  \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":[" shape "],\"data_offsets\":[" offsets "]}"

static void a_header_length_that_lies_is_refused(void **state)
{
    static const char header[] = "{" TENSOR("x", "F32", "1", "0,4") "}";
    assert_refused(write_file(state, "a.safetensors", header, UINT64_MAX, 4), "is no safetensors file");
    assert_refused(write_file(state, "b.safetensors", header, 1 << 30, 4), "is no safetensors file");
    assert_refused(write_file(state, "c.safetensors", header, sizeof header + 4, 4),
                   "header is said to have");
    assert_refused(write_file(state, "d.safetensors", header, 10, 4), "header: line 1");
    FILE *file = fopen(mt_test_path(state, "e.safetensors"), "wb");
    fputs("\1\0\0", file);
    fclose(file);
    assert_refused(mt_test_path(state, "e.safetensors"), "too few");
}

static void headers_that_are_not_ours_are_refused(void **state)
{
    assert_header_refused(state, "[]      ", 0, "no safetensors file");
    assert_header_refused(state, "{\"x\":1}", 0, "not an object");
    assert_header_refused(state, "{\"x\"    ", 0, "header: line 1");
    assert_header_refused(state, "{\"__metadata__\":{\"a\":1}}", 0, "not a string");
    assert_header_refused(state, "{\"__metadata__\":7}", 0, "__metadata__");
    assert_header_refused(state, "{\"x\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "no dtype");
    assert_header_refused(state, "{\"x\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, "no shape");
    assert_header_refused(state, "{\"x\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "not a range");
    assert_header_refused(state, "{" TENSOR("x", "F31", "1", "0,4") "}", 4, "unknown dtype \"F31\"");
    assert_header_refused(state, "{" TENSOR("x", "F8_E4M3", "1", "0,1") "}", 1,
                          "F8_E4M3, which is not supported");
    assert_header_refused(state, "{" TENSOR("x", "F32", "1,1,1,1,1,1,1,1,1", "0,4") "}", 4, "9 dimensions");
}

/* As JSON they would take gigabytes, and seconds. */
static void headers_and_indexes_of_far_too_many_values_are_refused_unread(void **state)
{
    const size_t count = (size_t)3 << 20;
    char *text = malloc(2 * count + 16), *end = stpcpy(text, "{\"a\":[");
    assert_non_null(text);
    for (size_t i = 0; i < count; i++)
        end = stpcpy(end, "0,");
    strcpy(end, "0]}");
    assert_header_refused(state, text, 0, "beyond the bound");
    const char *path = mt_test_path(state, "x.safetensors.index.json");
    FILE *file = fopen(path, "wb");
    fputs(text, file);
    fclose(file);
    free(text);
    assert_refused(path, "beyond the bound");
}

static void a_name_that_stands_twice_is_refused(void **state)
{
    assert_header_refused(state, "{" TENSOR("x", "F32", "1", "0,4") "," TENSOR("x", "F32", "1", "4,8") "}", 8,
                          "duplicate");
}

static void sizes_that_overflow_are_refused(void **state)
{
    assert_header_refused(state, "{" TENSOR("x", "F32", "4611686018427387904,4", "0,4") "}", 4, "overflows");
    assert_header_refused(state, "{" TENSOR("x", "F32", "4294967296,4294967296", "0,0") "}", 0, "overflows");
    assert_header_refused(state, "{" TENSOR("x", "F32", "4611686018427387904", "0,0") "}", 0, "overflows");
    assert_header_refused(state, "{" TENSOR("x", "F32", "-1", "0,4") "}", 4, "not a size");
    assert_header_refused(state, "{" TENSOR("x", "F32", "1.0", "0,4") "}", 4, "not a size");
    assert_header_refused(state, "{" TENSOR("x", "F32", "99999999999999999999", "0,4") "}", 4, "not a size");
}

static void ranges_outside_the_file_are_refused(void **state)
{
    assert_header_refused(state, "{" TENSOR("x", "F32", "2", "0,8") "}", 4, "cut off");
    assert_header_refused(state, "{" TENSOR("x", "F32", "1", "4,8") "}", 4, "cut off");
    assert_header_refused(state, "{" TENSOR("x", "F32", "1", "9223372036854775800,9223372036854775804") "}",
                          4, "cut off");
    assert_header_refused(state, "{" TENSOR("x", "F32", "1", "4,0") "}", 4, "not a range");
    assert_header_refused(state, "{" TENSOR("x", "F32", "1", "-4,0") "}", 4, "not a range");
    assert_header_refused(state, "{" TENSOR("x", "F32", "1", "0,3") "}", 4, "needs 4 bytes");
    assert_header_refused(state, "{" TENSOR("x", "F32", "1", "0,4,8") "}", 4, "not a range");
}

static void overlapping_ranges_and_holes_are_refused(void **state)
{
    assert_header_refused(state, "{" TENSOR("x", "F32", "2", "0,8") "," TENSOR("y", "F32", "2", "4,12") "}",
                          12, "overlaps");
    assert_header_refused(state, "{" TENSOR("x", "F32", "1", "0,4") "," TENSOR("y", "F32", "1", "0,4") "}", 4,
                          "overlaps");
    assert_header_refused(state, "{" TENSOR("x", "F32", "1", "0,4") "," TENSOR("y", "F32", "1", "8,12") "}",
                          12, "belong to no tensor");
    assert_header_refused(state, "{" TENSOR("x", "F32", "1", "4,8") "}", 8, "belong to no tensor");
    assert_header_refused(state, "{" TENSOR("x", "F32", "1", "0,4") "}", 5, "belong to no tensor");
}

static void a_file_cut_anywhere_is_refused(void **state)
{
    const char *path =
        write_file(state, "whole.safetensors",
                   "{" TENSOR("x", "F32", "3", "0,12") "," TENSOR("y", "I64", "1", "12,20") "}", 0, 20);
    size_t bytes;
    char *text = read_text(path, &bytes);
    for (size_t cut = 0; cut < bytes; cut++) {
        const char *cut_path = mt_test_path(state, "cut.safetensors");
        FILE *file = fopen(cut_path, "wb");
        fwrite(text, 1, cut, file);
        fclose(file);
        struct mt_error error = {0};
        struct mt_safetensors *opened;
        assert_true(mt_safetensors_open(cut_path, &opened, &error) < 0);
        assert_int_equal(error.reason, MT_REASON_BAD_MODEL);
    }
    free(text);
}

static void a_file_that_becomes_shorter_is_an_error_not_a_signal(void **state)
{
    const char *path =
        write_file(state, "whole.safetensors",
                   "{" TENSOR("x", "F32", "3", "0,12") "," TENSOR("y", "BF16", "4", "12,20") "}", 0, 20);
    struct mt_safetensors *opened;
    struct mt_error error = {0};
    size_t bytes;
    float values[4];
    mt_assert_ok(mt_safetensors_open(path, &opened, &error), &error);
    free(read_text(path, &bytes));
    assert_int_equal(truncate(path, (off_t)bytes - 9), 0);
    assert_int_equal(mt_safetensors_read_f32(mt_safetensors_find(opened, "x"), 0, 2, values), 0);
    assert_int_equal(mt_safetensors_read_f32(mt_safetensors_find(opened, "x"), 0, 3, values), -ENODATA);
    assert_int_equal(mt_safetensors_read_f32(mt_safetensors_find(opened, "y"), 0, 4, values), -ENODATA);
    mt_safetensors_close(opened);
}

static void what_is_no_file_is_refused_at_once(void **state)
{
    const char *path = mt_test_path(state, "fifo.safetensors");
    assert_int_equal(mkfifo(path, 0600), 0);
    alarm(20); /* nobody will ever write to it */
    assert_refused(path, "not a regular file");
    alarm(0);
}

/* Every byte of the header replaced in turn: refused or read, and what is read lies in the file. */
static void no_changed_byte_leads_outside_of_the_file(void **state)
{
    const char *path =
        write_file(state, "whole.safetensors",
                   "{" TENSOR("x", "F32", "3", "0,12") "," TENSOR("y", "I64", "1", "12,20") "}", 0, 20);
    size_t bytes;
    char *text = read_text(path, &bytes);
    static const char replacements[] = {'0', '9', '"', '{', ']', ',', '\0', (char)0xff, 'F', ' '};
    for (size_t at = 0; at < bytes - 20; at++)
        for (size_t k = 0; k < sizeof replacements; k++) {
            const char old = text[at];
            text[at] = replacements[k];
            const char *changed = mt_test_path(state, "changed.safetensors");
            FILE *file = fopen(changed, "wb");
            fwrite(text, 1, bytes, file);
            fclose(file);
            text[at] = old;
            struct mt_safetensors *opened;
            if (mt_safetensors_open(changed, &opened, NULL) < 0)
                continue;
            for (size_t i = 0; i < mt_safetensors_count(opened); i++) {
                const struct mt_safetensors_tensor *tensor = mt_safetensors_at(opened, i);
                char read[20];
                assert_true(tensor->bytes <= sizeof read);
                assert_int_equal(mt_fd_pread_all(tensor->fd, read, tensor->bytes, (off_t)tensor->offset), 0);
            }
            mt_safetensors_close(opened);
        }
    free(text);
}

/* --- folders and indexes
 * ------------------------------------------------------------------------------------ */

static void write_index(void **state, const char *index)
{
    struct mt_error error = {0};
    mt_assert_ok(mt_file_write_atomic(mt_test_path(state, "model.safetensors.index.json"), index,
                                      strlen(index), 0666, &error),
                 &error);
}

static void a_stale_index_is_refused(void **state)
{
    struct mt_test_folder *folder = *state;
    write_file(state, "one.safetensors", "{" TENSOR("x", "F32", "1", "0,4") "}", 0, 4);
    write_file(state, "two.safetensors", "{" TENSOR("y", "F32", "1", "0,4") "}", 0, 4);
    write_index(state, "{\"weight_map\":{\"x\":\"one.safetensors\",\"y\":\"one.safetensors\"}}");
    assert_refused(folder->path, "stale");
    write_index(state, "{\"weight_map\":{\"x\":\"one.safetensors\",\"y\":\"gone.safetensors\"}}");
    assert_refused(folder->path, "gone.safetensors, which is not there");
    write_index(state, "{\"weight_map\":{\"x\":\"one.safetensors\",\"z\":\"two.safetensors\"}}");
    assert_refused(folder->path, "\"z\"");
    write_index(state, "{\"weight_map\":{}}");
    assert_refused(folder->path, "no weight_map");
    write_index(state, "{\"weight_map\":[");
    assert_refused(folder->path, "line 1");
    write_index(state, "{\"weight_map\":{\"x\":\"one.safetensors\",\"y\":\"two.safetensors\"}}");
    mt_safetensors_close(open_good(folder->path));
}

static void an_index_does_not_lead_out_of_its_folder(void **state)
{
    struct mt_test_folder *folder = *state;
    write_index(state, "{\"weight_map\":{\"x\":\"../../etc/passwd\"}}");
    assert_refused(folder->path, "not a plain file name");
    write_index(state, "{\"weight_map\":{\"x\":\"/etc/passwd\"}}");
    assert_refused(folder->path, "not a plain file name");
    write_index(state, "{\"weight_map\":{\"x\":\"..\"}}");
    assert_refused(folder->path, "not a plain file name");
    write_index(state, "{\"weight_map\":{\"x\":3}}");
    assert_refused(folder->path, "not a plain file name");
}

static void of_a_tensor_in_two_shards_the_index_decides(void **state)
{
    struct mt_test_folder *folder = *state;
    write_file(state, "one.safetensors", "{" TENSOR("x", "U8", "1", "0,1") "}", 0, 1);
    write_file(state, "two.safetensors",
               "{" TENSOR("a", "U8", "1", "0,1") "," TENSOR("x", "U8", "1", "1,2") "}", 0, 2);
    write_index(state, "{\"weight_map\":{\"x\":\"two.safetensors\"}}");
    struct mt_safetensors *file = open_good(folder->path);
    const struct mt_safetensors_tensor *tensor = mt_safetensors_find(file, "x");
    char *byte = mt_test_bytes(tensor->fd, tensor->offset, 1);
    assert_int_equal(*byte, 1);
    free(byte);
    mt_safetensors_close(file);
    write_index(state, "{\"weight_map\":{\"x\":\"two.safetensors\",\"y\":\"one.safetensors\"}}");
    assert_refused(folder->path, "stale");
}

static void pickle_files_are_refused_with_a_hint(void **state)
{
    struct mt_test_folder *folder = *state;
    assert_refused(folder->path, "neither model.safetensors nor");
    write_file(state, "pytorch_model.bin", "{}", 0, 0);
    assert_refused(folder->path, "convert");
    assert_refused(mt_test_path(state, "pytorch_model.bin"), "pickle");
    assert_refused(mt_test_path(state, "absent.safetensors"), "cannot open");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        mt_test_in_folder(the_bytes_written_are_those_of_the_format),
        mt_test_in_folder(a_file_written_elsewhere_is_read),
        mt_test_in_folder(every_dtype_comes_back_to_the_bit),
        mt_test_in_folder(shards_hold_what_the_index_says),
        mt_test_in_folder(values_are_converted_as_documented),
        mt_test_in_folder(f64_is_rounded_to_nearest_even),
        cmocka_unit_test(every_f16_survives_fp32_and_rounding_is_to_nearest_even),
        mt_test_in_folder(a_writer_given_up_leaves_no_file),
        mt_test_in_folder(a_writer_takes_no_byte_too_many_and_no_name_twice),
        mt_test_in_folder(a_full_disk_is_reported_as_such),
        mt_test_in_folder(a_header_length_that_lies_is_refused),
        mt_test_in_folder(headers_that_are_not_ours_are_refused),
        mt_test_in_folder(headers_and_indexes_of_far_too_many_values_are_refused_unread),
        mt_test_in_folder(a_name_that_stands_twice_is_refused),
        mt_test_in_folder(sizes_that_overflow_are_refused),
        mt_test_in_folder(ranges_outside_the_file_are_refused),
        mt_test_in_folder(overlapping_ranges_and_holes_are_refused),
        mt_test_in_folder(a_file_cut_anywhere_is_refused),
        mt_test_in_folder(a_file_that_becomes_shorter_is_an_error_not_a_signal),
        mt_test_in_folder(what_is_no_file_is_refused_at_once),
        mt_test_in_folder(no_changed_byte_leads_outside_of_the_file),
        mt_test_in_folder(a_stale_index_is_refused),
        mt_test_in_folder(an_index_does_not_lead_out_of_its_folder),
        mt_test_in_folder(of_a_tensor_in_two_shards_the_index_decides),
        mt_test_in_folder(pickle_files_are_refused_with_a_hint),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
