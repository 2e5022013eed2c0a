/* GGUF: values of every block type equal those of the package `gguf` to the bit, metadata is what was
 * written, and damaged files are refused with the reason. */
#include "core/formats/dequantise.h"
#include "core/formats/gguf.h"
#include "core/formats/safetensors.h"
#include "tests/unit/support.h"

#include <math.h>

#define GOLDEN "tests/golden/gguf/dequantise.gguf"

static struct mt_gguf *open_good(const char *path)
{
    struct mt_error error = {0};
    struct mt_gguf *file = NULL;
    mt_assert_ok(mt_gguf_open(path, &file, &error), &error);
    return file;
}

/* --- a file, piece by piece ---------------------------------------------------------------------------- */

struct writer {
    unsigned char data[4096];
    size_t bytes;
};

static void put(struct writer *writer, uint64_t value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        writer->data[writer->bytes++] = (unsigned char)(value >> 8 * i);
}

static void put_text(struct writer *writer, const char *text)
{
    put(writer, strlen(text), 8);
    memcpy(writer->data + writer->bytes, text, strlen(text));
    writer->bytes += strlen(text);
}

static struct writer begin(uint32_t version, uint64_t tensors, uint64_t values)
{
    struct writer writer = {.bytes = 0};
    put(&writer, 0x46554747, 4);
    put(&writer, version, 4);
    put(&writer, tensors, 8);
    put(&writer, values, 8);
    return writer;
}

static void put_tensor(struct writer *writer, const char *name, uint64_t columns, uint64_t rows,
                       uint32_t type, uint64_t offset)
{
    put_text(writer, name);
    put(writer, 2, 4);
    put(writer, columns, 8);
    put(writer, rows, 8);
    put(writer, type, 4);
    put(writer, offset, 8);
}

/* The data, from the alignment on. */
static void put_data(struct writer *writer, size_t alignment, size_t bytes)
{
    while (writer->bytes % alignment)
        put(writer, 0, 1);
    for (size_t i = 0; i < bytes; i++)
        put(writer, i, 1);
}

static const char *save_as(void **state, const char *name, const struct writer *writer)
{
    const char *path = mt_test_path(state, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(writer->data, 1, writer->bytes, file), writer->bytes);
    fclose(file);
    return path;
}

static const char *save(void **state, const struct writer *writer)
{
    return save_as(state, "file.gguf", writer);
}

static void assert_path_refused(const char *path, const char *why)
{
    struct mt_error error = {0};
    struct mt_gguf *file;
    if (mt_gguf_open(path, &file, &error) == 0)
        fail_msg("the file was accepted; expected: %s", why);
    assert_null(file);
    assert_int_equal(error.reason, MT_REASON_BAD_MODEL);
    mt_assert_mentions(error.message, why);
}

static void assert_refused(void **state, const struct writer *writer, const char *why)
{
    assert_path_refused(save(state, writer), why);
}

/* --- reading ------------------------------------------------------------------------------------------- */

static uint32_t bits_of(const float *value)
{
    uint32_t bits;
    memcpy(&bits, value, sizeof bits);
    return bits;
}

static void values_of_every_type_are_those_of_the_package_gguf(void **state)
{
    (void)state;
    struct mt_gguf *file = open_good(GOLDEN);
    size_t compared = 0;
    for (size_t i = 0; i < mt_gguf_num_tensors(file); i++) {
        const struct mt_gguf_tensor *tensor = mt_gguf_tensor_at(file, i);
        char name[64];
        snprintf(name, sizeof name, "%s.expected", tensor->name);
        const struct mt_gguf_tensor *expected = mt_gguf_find_tensor(file, name);
        if (!expected)
            continue;
        assert_int_equal(expected->type, MT_GGUF_TYPE_F32);
        assert_int_equal(tensor->elements, expected->elements);
        float *values = malloc(tensor->elements * sizeof *values);
        assert_non_null(values);
        assert_int_equal(mt_gguf_read_f32(tensor, 0, tensor->elements, values), 0);
        float *wanted = mt_test_bytes(expected->fd, expected->offset, expected->bytes);
        for (size_t k = 0; k < tensor->elements; k++)
            if (bits_of(values + k) != bits_of(wanted + k))
                fail_msg("%s[%zu] is %a", tensor->name, k, (double)values[k]);
        free(wanted);
        /* Parts that begin and end inside of blocks. */
        for (size_t first = 0; first + 1 < tensor->elements; first += 37) {
            const size_t count = first * 7 % (tensor->elements - first);
            float part[2048];
            part[count] = 123;
            assert_int_equal(mt_gguf_read_f32(tensor, first, count, part), 0);
            assert_memory_equal(part, values + first, count * sizeof *part);
            assert_true(part[count] == 123);
        }
        assert_int_equal(mt_gguf_read_f32(tensor, tensor->elements, 1, values), -ERANGE);
        assert_int_equal(mt_gguf_read_f32(tensor, 1, tensor->elements, values), -ERANGE);
        free(values);
        compared++;
    }
    assert_int_equal(compared, 12);
    mt_gguf_close(file);
}

static void all_halves_are_those_of_the_exact_conversion(void **state)
{
    (void)state;
    for (uint32_t half = 0; half <= 0xffff; half++) {
        const unsigned char data[2] = {(unsigned char)half, (unsigned char)(half >> 8)};
        const float expected = mt_f16_to_float((uint16_t)half);
        float value, vector[1];
        value = mt_half_at(data);
        mt_dequantise_f16(data, 1, vector);
        assert_memory_equal(&value, &expected, sizeof value);
        assert_memory_equal(vector, &expected, sizeof value);
    }
}

static void metadata_is_what_was_written(void **state)
{
    (void)state;
    struct mt_gguf *file = open_good(GOLDEN);
    int64_t integer;
    struct mt_gguf_text text;
    assert_true(mt_gguf_integer(mt_gguf_find(file, "test.number"), 0, &integer));
    assert_int_equal(integer, 7);
    assert_true(mt_gguf_string(mt_gguf_find(file, "general.architecture"), &text));
    assert_int_equal(text.bytes, 4);
    assert_memory_equal(text.data, "none", 4);
    const struct mt_gguf_value *texts = mt_gguf_find(file, "test.texts");
    assert_true(texts->is_array && texts->count == 3);
    struct mt_gguf_strings strings = {.value = texts};
    size_t bytes[3] = {0}, count = 0;
    while (mt_gguf_next_string(&strings, &text))
        bytes[count++] = text.bytes;
    assert_int_equal(count, 3);
    assert_true(bytes[0] == 1 && bytes[1] == 0 && bytes[2] == 2);
    assert_null(mt_gguf_find(file, "test.nothing"));
    mt_gguf_close(file);
}

static void numbers_of_every_kind_are_read(void **state)
{
    struct writer writer = begin(2, 0, 8);
    const struct {
        const char *key;
        enum mt_gguf_kind kind;
        uint64_t bits;
        size_t bytes;
        double number;
    } values[] = {
        {"a", MT_GGUF_U8, 200, 1, 200},
        {"b", MT_GGUF_I8, 200, 1, -56},
        {"c", MT_GGUF_I16, 0x8000, 2, -0x8000},
        {"d", MT_GGUF_I32, 0xffffffff, 4, -1},
        {"e", MT_GGUF_I64, UINT64_MAX, 8, -1},
        {"f", MT_GGUF_F32, 0x3fc00000, 4, 1.5},
        {"g", MT_GGUF_U64, UINT64_MAX, 8, 0x1p64},
        {"h", MT_GGUF_BOOL, 1, 1, 1},
    };
    for (size_t i = 0; i < 8; i++) {
        put_text(&writer, values[i].key);
        put(&writer, values[i].kind, 4);
        put(&writer, values[i].bits, values[i].bytes);
    }
    struct mt_gguf *file = open_good(save(state, &writer));
    int64_t integer;
    for (size_t i = 0; i < 8; i++) {
        double number = 0;
        assert_true(mt_gguf_number(mt_gguf_find(file, values[i].key), 0, &number));
        assert_true(number == values[i].number);
    }
    assert_false(mt_gguf_integer(mt_gguf_find(file, "f"), 0, &integer));
    assert_false(mt_gguf_integer(mt_gguf_find(file, "g"), 0, &integer));
    mt_gguf_close(file);
}

/* --- damage -------------------------------------------------------------------------------------------- */

static void lying_headers_are_refused(void **state)
{
    struct writer writer = begin(3, UINT64_MAX, 0);
    assert_refused(state, &writer, "more than its 24 bytes have room for");
    writer = begin(3, 0, (uint64_t)1 << 60);
    assert_refused(state, &writer, "more than its 24 bytes have room for");
    writer = begin(1, 0, 0);
    assert_refused(state, &writer, "GGUF version 1 is not supported");
    writer = begin(0x03000000, 0, 0);
    assert_refused(state, &writer, "big-endian");
    writer = begin(3, 0, 0);
    writer.data[0] = 'X';
    assert_refused(state, &writer, "does not begin as a GGUF file");
    writer.bytes = 20;
    assert_refused(state, &writer, "too few");

    writer = begin(3, 0, 1);
    put_text(&writer, "general.alignment");
    put(&writer, MT_GGUF_U32, 4);
    put(&writer, 48, 4);
    assert_refused(state, &writer, "power of two");
    writer = begin(3, 0, 1);
    put_text(&writer, "tokens");
    put(&writer, MT_GGUF_ARRAY, 4);
    put(&writer, MT_GGUF_STRING, 4);
    put(&writer, (uint64_t)1 << 62, 8);
    assert_refused(state, &writer, "more than the file has bytes left");
    writer = begin(3, 0, 1);
    put_text(&writer, "nested");
    put(&writer, MT_GGUF_ARRAY, 4);
    put(&writer, MT_GGUF_ARRAY, 4);
    put(&writer, 0, 8);
    assert_refused(state, &writer, "array of arrays");
    writer = begin(3, 0, 1);
    put_text(&writer, "what");
    put(&writer, 77, 4);
    assert_refused(state, &writer, "unknown type 77");
    writer = begin(3, 0, 2);
    for (int i = 0; i < 2; i++) {
        put_text(&writer, "twice");
        put(&writer, MT_GGUF_U8, 4);
        put(&writer, 1, 1);
    }
    assert_refused(state, &writer, "two metadata values of the name \"twice\"");
    writer = begin(3, 0, 1);
    put(&writer, UINT64_MAX - 3, 8);
    put(&writer, 0, 8);
    assert_refused(state, &writer, "runs past the end");
}

static void tensors_that_lie_are_refused(void **state)
{
    struct writer writer = begin(3, 1, 0);
    put_tensor(&writer, "w", (uint64_t)1 << 40, (uint64_t)1 << 40, MT_GGUF_TYPE_F32, 0);
    assert_refused(state, &writer, "overflows");
    writer = begin(3, 1, 0);
    put_tensor(&writer, "w", (uint64_t)1 << 31, (uint64_t)1 << 31, MT_GGUF_TYPE_F32, 0);
    assert_refused(state, &writer, "overflows");
    writer = begin(3, 1, 0);
    put_tensor(&writer, "w", 0, 4, MT_GGUF_TYPE_F32, 0);
    assert_refused(state, &writer, "is empty or overflows");
    writer = begin(3, 1, 0);
    put_tensor(&writer, "w", 31, 4, MT_GGUF_TYPE_Q4_0, 0);
    put_data(&writer, 32, 128);
    assert_refused(state, &writer, "not a multiple of the 32 of a block of type Q4_0");
    writer = begin(3, 1, 0);
    put_tensor(&writer, "w", 4, 4, 5, 0);
    put_data(&writer, 32, 64);
    assert_refused(state, &writer, "unknown type 5");
    writer = begin(3, 1, 0);
    put_tensor(&writer, "w", 4, 4, MT_GGUF_TYPE_F32, 8);
    put_data(&writer, 32, 128);
    assert_refused(state, &writer, "not aligned");
    writer = begin(3, 1, 0);
    put_tensor(&writer, "w", 4, 4, MT_GGUF_TYPE_F32, UINT64_MAX - 31);
    put_data(&writer, 32, 64);
    assert_refused(state, &writer, "runs past the end of the file");
    writer = begin(3, 2, 0);
    put_tensor(&writer, "v", 4, 4, MT_GGUF_TYPE_F32, 0);
    put_tensor(&writer, "w", 4, 4, MT_GGUF_TYPE_F32, 32);
    put_data(&writer, 32, 128);
    assert_refused(state, &writer, "the data of tensor \"w\" overlaps that of \"v\"");
    writer = begin(3, 2, 0);
    put_tensor(&writer, "w", 4, 4, MT_GGUF_TYPE_F32, 0);
    put_tensor(&writer, "w", 4, 4, MT_GGUF_TYPE_F32, 64);
    put_data(&writer, 32, 128);
    assert_refused(state, &writer, "two tensors of the name \"w\"");
    writer = begin(3, 1, 0);
    put_text(&writer, "w");
    put(&writer, 5, 4);
    put_data(&writer, 32, 64);
    assert_refused(state, &writer, "5 dimensions");
    /* And one that does not. */
    writer = begin(3, 2, 0);
    put_tensor(&writer, "v", 4, 4, MT_GGUF_TYPE_F32, 64);
    put_tensor(&writer, "w", 4, 4, MT_GGUF_TYPE_F32, 0);
    put_data(&writer, 32, 128);
    mt_gguf_close(open_good(save(state, &writer)));
}

/* What stands in the header is in memory; a mapping would end the process here. */
static void a_file_that_is_cut_off_later_is_an_error_not_a_signal(void **state)
{
    struct writer writer = begin(3, 1, 1);
    put_text(&writer, "test.text");
    put(&writer, MT_GGUF_STRING, 4);
    put_text(&writer, "still here");
    put_tensor(&writer, "x", 8, 1, MT_GGUF_TYPE_F32, 0);
    put_data(&writer, 32, 32);
    const char *path = save(state, &writer);
    struct mt_gguf *file = open_good(path);
    struct mt_gguf_text text;
    float values[8];
    assert_int_equal(truncate(path, 0), 0);
    assert_true(mt_gguf_string(mt_gguf_find(file, "test.text"), &text));
    assert_memory_equal(text.data, "still here", text.bytes);
    assert_int_equal(mt_gguf_read_f32(mt_gguf_tensor_at(file, 0), 0, 8, values), -ENODATA);
    mt_gguf_close(file);
}

/* Sparse files have any size, and so may what their headers speak of: memory is not taken for it. */
static void headers_have_bounds_whatever_the_size_of_the_file(void **state)
{
    static const struct {
        uint64_t tensors, values;
        const char *why;
    } heads[] = {{(uint64_t)1 << 40, 0, "have room for"},
                 {0, (uint64_t)1 << 40, "have room for"},
                 {(uint64_t)1 << 21, 0, "beyond the bound of 1048576"},
                 {0, (uint64_t)1 << 21, "beyond the bound of 1048576"}};
    for (size_t i = 0; i < 4; i++) {
        struct writer head = begin(3, heads[i].tensors, heads[i].values);
        const char *path = save(state, &head);
        assert_int_equal(truncate(path, (off_t)1 << 40), 0);
        assert_path_refused(path, heads[i].why);
    }
    struct writer writer = begin(3, 0, 1);
    put_text(&writer, "test.array");
    put(&writer, MT_GGUF_ARRAY, 4);
    put(&writer, MT_GGUF_U64, 4);
    put(&writer, (uint64_t)1 << 36, 8);
    const char *path = save(state, &writer);
    assert_int_equal(truncate(path, (off_t)1 << 40), 0);
    assert_path_refused(path, "a header beyond the bound");
    writer = begin(3, 0, 1);
    put_text(&writer, "test.array");
    put(&writer, MT_GGUF_ARRAY, 4);
    put(&writer, MT_GGUF_STRING, 4);
    put(&writer, (uint64_t)1 << 33, 8);
    path = save(state, &writer);
    assert_int_equal(truncate(path, (off_t)1 << 40), 0);
    assert_path_refused(path, "more than the file has room for");
}

/* Wherever a file is cut off, and whatever bit of its head is flipped, it is read or refused: the sanitizers
 * look on. */
static void damage_anywhere_is_survived(void **state)
{
    struct writer writer = begin(3, 2, 2);
    put_text(&writer, "general.architecture");
    put(&writer, MT_GGUF_STRING, 4);
    put_text(&writer, "llama");
    put_text(&writer, "tokens");
    put(&writer, MT_GGUF_ARRAY, 4);
    put(&writer, MT_GGUF_STRING, 4);
    put(&writer, 3, 8);
    for (int i = 0; i < 3; i++)
        put_text(&writer, "token");
    put_tensor(&writer, "v", 32, 4, MT_GGUF_TYPE_Q4_0, 0);
    put_tensor(&writer, "w", 4, 4, MT_GGUF_TYPE_F32, 96);
    const size_t head = writer.bytes;
    put_data(&writer, 32, 160);
    size_t accepted = 0;
    for (size_t bit = 0; bit < 8 * head + writer.bytes; bit++) {
        struct writer damaged = writer;
        if (bit < 8 * head)
            damaged.data[bit / 8] ^= (unsigned char)(1u << bit % 8);
        else
            damaged.bytes = bit - 8 * head;
        struct mt_error error = {0};
        struct mt_gguf *file;
        if (mt_gguf_open(save(state, &damaged), &file, &error) < 0) {
            assert_int_equal(error.reason, MT_REASON_BAD_MODEL);
            assert_true(strlen(error.message) > 10);
            continue;
        }
        accepted++;
        float values[512];
        for (size_t i = 0; i < mt_gguf_num_tensors(file); i++) {
            const struct mt_gguf_tensor *tensor = mt_gguf_tensor_at(file, i);
            if (tensor->elements <= 512 && mt_gguf_type_is_read(tensor->type))
                assert_int_equal(mt_gguf_read_f32(tensor, 0, tensor->elements, values), 0);
        }
        for (size_t i = 0; i < mt_gguf_num_values(file); i++) {
            struct mt_gguf_strings strings = {.value = mt_gguf_value_at(file, i)};
            struct mt_gguf_text text;
            while (mt_gguf_next_string(&strings, &text))
                assert_true(text.bytes < writer.bytes);
        }
        mt_gguf_close(file);
    }
    assert_true(accepted > 100); /* letters of names, values */
}

/* --- a model in several files -------------------------------------------------------------------------- */

#define PART_1 "m-00001-of-00003.gguf"
#define PART_2 "m-00002-of-00003.gguf"
#define PART_3 "m-00003-of-00003.gguf"

struct part {
    unsigned number, count, tensors; /* what it says */
    const char *architecture;        /* NULL: does not say */
    const char *tensor;              /* of 2 by 4; NULL: has none */
    unsigned char first;             /* of its data */
};

static void put_number(struct writer *writer, const char *key, uint64_t value, uint32_t kind, size_t bytes)
{
    put_text(writer, key);
    put(writer, kind, 4);
    put(writer, value, bytes);
}

static const char *save_part(void **state, const char *name, const struct part *part)
{
    struct writer writer = begin(3, part->tensor ? 1 : 0, part->architecture ? 4 : 3);
    put_number(&writer, "split.no", part->number, MT_GGUF_U16, 2);
    put_number(&writer, "split.count", part->count, MT_GGUF_U16, 2);
    put_number(&writer, "split.tensors.count", part->tensors, MT_GGUF_I32, 4);
    if (part->architecture) {
        put_text(&writer, "general.architecture");
        put(&writer, MT_GGUF_STRING, 4);
        put_text(&writer, part->architecture);
    }
    if (part->tensor)
        put_tensor(&writer, part->tensor, 4, 2, MT_GGUF_TYPE_F32, 0);
    put_data(&writer, 32, part->tensor ? 32 : 0);
    if (part->tensor)
        writer.data[writer.bytes - 32] = part->first;
    return save_as(state, name, &writer);
}

/* The first has no tensors: llama-gguf-split --no-tensor-first-split. */
static void save_parts(void **state)
{
    save_part(state, PART_1, &(struct part){0, 3, 2, "llama", NULL, 0});
    save_part(state, PART_2, &(struct part){1, 3, 2, NULL, "a", 10});
    save_part(state, PART_3, &(struct part){2, 3, 2, NULL, "b", 20});
}

static void any_part_opens_the_whole_model(void **state)
{
    static const char *const names[] = {PART_1, PART_2, PART_3};
    save_parts(state);
    for (size_t i = 0; i < 3; i++) {
        struct mt_gguf *file = open_good(mt_test_path(state, names[i]));
        float value;
        assert_int_equal(mt_gguf_num_parts(file), 3);
        mt_assert_mentions(mt_gguf_path(file), PART_1);
        for (size_t k = 0; k < 3; k++)
            mt_assert_mentions(mt_gguf_part_path(file, k), names[k]);
        assert_non_null(mt_gguf_find(file, "general.architecture"));
        assert_int_equal(mt_gguf_num_tensors(file), 2);
        for (size_t k = 0; k < 2; k++) {
            const struct mt_gguf_tensor *tensor = mt_gguf_find_tensor(file, k ? "b" : "a");
            assert_non_null(tensor);
            assert_ptr_equal(tensor, mt_gguf_tensor_at(file, k));
            mt_assert_mentions(tensor->file, names[k + 1]);
            assert_int_equal(mt_gguf_read_f32(tensor, 0, 1, &value), 0);
            assert_int_equal(bits_of(&value) & 0xff, k ? 20 : 10);
        }
        mt_gguf_close(file);
    }
}

static void a_part_that_is_missing_is_named(void **state)
{
    save_parts(state);
    assert_int_equal(unlink(mt_test_path(state, PART_2)), 0);
    assert_path_refused(mt_test_path(state, PART_1), "part 2 of 3 is missing");
    assert_path_refused(mt_test_path(state, PART_3), PART_2 " is not there");
    assert_path_refused(save_part(state, "other.gguf", &(struct part){1, 3, 2, NULL, "a", 0}),
                        "does not end with -00002-of-00003.gguf");
}

static void parts_that_do_not_belong_together_are_refused(void **state)
{
    static const struct {
        struct part part; /* in the place of the second */
        const char *why;
    } cases[] = {
        {{1, 4, 2, NULL, "a", 0}, "part 2 of 4"},
        {{2, 3, 2, NULL, "a", 0}, "part 3 of 3"},
        {{1, 3, 7, NULL, "a", 0}, "7 tensors"},
        {{5, 3, 2, NULL, "a", 0}, "names none of them"},
        {{1, 3, 2, NULL, "b", 0}, "is in both"},
        {{1, 3, 2, NULL, NULL, 0}, "the 3 parts hold 1 tensors"},
        {{1, 3, 2, "qwen2", "a", 0}, "general.architecture differs"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        save_parts(state);
        save_part(state, PART_2, &cases[i].part);
        assert_path_refused(mt_test_path(state, PART_1), cases[i].why);
        assert_path_refused(mt_test_path(state, PART_3), cases[i].why);
    }
    save_parts(state);
    struct writer whole = begin(3, 0, 0);
    put_data(&whole, 32, 32);
    save_as(state, PART_2, &whole); /* no part at all */
    assert_path_refused(mt_test_path(state, PART_1), "not of the same model");
}

/* One part alone is whole: gguf-split writes such files, too. */
static void one_part_of_one_is_a_file_like_any_other(void **state)
{
    struct mt_gguf *file =
        open_good(save_part(state, "whatever.gguf", &(struct part){0, 1, 1, "llama", "a", 0}));
    assert_int_equal(mt_gguf_num_parts(file), 1);
    mt_gguf_close(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_of_every_type_are_those_of_the_package_gguf),
        cmocka_unit_test(all_halves_are_those_of_the_exact_conversion),
        cmocka_unit_test(metadata_is_what_was_written),
        mt_test_in_folder(numbers_of_every_kind_are_read),
        mt_test_in_folder(lying_headers_are_refused),
        mt_test_in_folder(tensors_that_lie_are_refused),
        mt_test_in_folder(a_file_that_is_cut_off_later_is_an_error_not_a_signal),
        mt_test_in_folder(headers_have_bounds_whatever_the_size_of_the_file),
        mt_test_in_folder(damage_anywhere_is_survived),
        mt_test_in_folder(any_part_opens_the_whole_model),
        mt_test_in_folder(a_part_that_is_missing_is_named),
        mt_test_in_folder(parts_that_do_not_belong_together_are_refused),
        mt_test_in_folder(one_part_of_one_is_a_file_like_any_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
