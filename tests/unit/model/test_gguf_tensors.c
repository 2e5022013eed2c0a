/* Tensors of GGUF files in the family's order, a part at a time. */
#include "core/model/tensors.h"
#include "tests/unit/support.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#define WIDTH 300 /* more than is turned round at a time, and no multiple of that */
#define QKV (3 * WIDTH)

static void put(FILE *file, uint64_t number, size_t bytes)
{
    assert_int_equal(fwrite(&number, bytes, 1, file), 1); /* little-endian, as the format is */
}

static void put_text(FILE *file, const char *text)
{
    put(file, strlen(text), 8);
    fputs(text, file);
}

/* A GGUF file of gpt2's with one matrix, [QKV, WIDTH] there, whose numbers say where they stand. */
static void write_gpt2(const char *path)
{
    enum { STRING = 8, F32 = 0 };
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fputs("GGUF", file);
    put(file, 3, 4); /* version */
    put(file, 1, 8); /* tensors */
    put(file, 1, 8); /* values */
    put_text(file, "general.architecture");
    put(file, STRING, 4);
    put_text(file, "gpt2");
    put_text(file, "blk.0.attn_qkv.weight");
    put(file, 2, 4);
    put(file, WIDTH, 8);
    put(file, QKV, 8);
    put(file, F32, 4);
    put(file, 0, 8);
    while (ftell(file) % 32)
        fputc(0, file);
    for (size_t i = 0; i < (size_t)QKV * WIDTH; i++) {
        const float number = (float)i;
        assert_int_equal(fwrite(&number, sizeof number, 1, file), 1);
    }
    assert_int_equal(fclose(file), 0);
}

/* gpt2's matrices have their inputs first: element [i, j] is [j, i] in the file. */
static void transposed_matrices_read_the_same_whatever_is_read_at_a_time(void **state)
{
    static const size_t pieces[] = {(size_t)QKV * WIDTH, 100003, 4096, QKV};
    const char *path = mt_test_path(state, "gpt2.gguf");
    struct mt_error error = {0};
    struct mt_model *model;
    struct mt_tensors *tensors;
    json_t *config = json_pack("{s:s, s:i, s:i, s:i, s:i, s:i}", "model_type", "gpt2", "n_embd", WIDTH,
                               "n_layer", 1, "n_head", 3, "n_positions", 8, "vocab_size", 32);
    write_gpt2(path);
    mt_assert_ok(mt_model_from_config(config, &model, &error), &error);
    mt_assert_ok(mt_tensors_open(path, model, &tensors, &error), &error);
    assert_int_equal(mt_tensors_count(tensors), 1);
    const struct mt_tensor *tensor = mt_tensors_at(tensors, 0);
    assert_int_equal(tensor->shape[0], WIDTH);
    assert_int_equal(tensor->shape[1], QKV);
    float *values = malloc(tensor->elements * sizeof *values);
    assert_non_null(values);
    for (size_t p = 0; p < sizeof pieces / sizeof *pieces; p++) {
        for (size_t first = 0; first < tensor->elements; first += pieces[p]) {
            const size_t left = tensor->elements - first;
            assert_int_equal(
                mt_tensor_read(tensor, first, left < pieces[p] ? left : pieces[p], values + first), 0);
        }
        for (size_t i = 0; i < WIDTH; i++)
            for (size_t j = 0; j < QKV; j++)
                if (values[i * QKV + j] != (float)(j * WIDTH + i))
                    fail_msg("%zu at a time: [%zu, %zu] is %g", pieces[p], i, j, (double)values[i * QKV + j]);
        memset(values, 0, tensor->elements * sizeof *values);
    }
    assert_int_equal(mt_tensor_read(tensor, tensor->elements, 1, values), -ERANGE);
    free(values);
    mt_tensors_close(tensors);
    mt_model_free(model);
    json_decref(config);
}

static void change_byte(const char *path, off_t offset)
{
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    char byte;
    assert_int_equal(pread(fd, &byte, 1, offset), 1);
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, offset), 1);
    close(fd);
}

/* What cannot be read is no other tensor: whoever asks would name the wrong fault. */
static void tensors_are_the_same_or_differ_or_cannot_be_read(void **state)
{
    const char *const paths[] = {mt_test_path(state, "a.gguf"), mt_test_path(state, "b.gguf")};
    struct mt_error error = {0};
    struct mt_tensors *tensors[2];
    bool same;
    for (size_t i = 0; i < 2; i++) {
        write_gpt2(paths[i]);
        mt_assert_ok(mt_tensors_open(paths[i], NULL, &tensors[i], &error), &error);
    }
    const struct mt_tensor *a = mt_tensors_at(tensors[0], 0), *b = mt_tensors_at(tensors[1], 0);
    mt_assert_ok(mt_tensor_same(a, b, &same, &error), &error);
    assert_true(same);
    const off_t end = (off_t)(b->offset + b->bytes);
    change_byte(paths[1], end - 1);
    mt_assert_ok(mt_tensor_same(a, b, &same, &error), &error);
    assert_false(same);
    change_byte(paths[1], end - 1);
    assert_int_equal(truncate(paths[1], end - 1), 0);
    assert_true(mt_tensor_same(a, b, &same, &error) < 0);
    assert_int_equal(error.reason, MT_REASON_IO);
    mt_assert_mentions(error.message, "cannot read the tensor");
    mt_assert_mentions(error.message, "/b.gguf");
    mt_tensors_close(tensors[0]);
    mt_tensors_close(tensors[1]);
}

/* A short range of such a matrix is a number of each of the file's rows, each of which is read apart. */
static void transposed_matrices_ask_for_long_ranges(void **state)
{
    (void)state;
    const struct mt_tensor plain = {0}, turned = {.transposed = true};
    assert_int_equal(mt_tensor_range(&plain, 1 << 15), 1 << 15);
    assert_true(mt_tensor_range(&turned, 1 << 15) >= 1 << 22);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        mt_test_in_folder(transposed_matrices_read_the_same_whatever_is_read_at_a_time),
        mt_test_in_folder(tensors_are_the_same_or_differ_or_cannot_be_read),
        cmocka_unit_test(transposed_matrices_ask_for_long_ranges),
    };
    return cmocka_run_group_tests_name("gguf tensors", tests, NULL, NULL);
}
