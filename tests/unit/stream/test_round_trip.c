/* A model that is loaded, trained for one step at learning rate 0 and saved is the one it was: names, shapes,
 * types, bits and config.json, in every golden case and in both types that checkpoints have. With
 * MT_ROUND_TRIP_FOLDER set, what is written stays there, for `make_golden.py --roundtrip-all`. */
#include "core/base/document.h"
#include "core/model/family.h"
#include "core/model/open.h"
#include "core/store/files.h"
#include "tests/unit/stream/stream_support.h"

#include <dirent.h>
#include <sys/stat.h>

/* A folder with the model as `dtype`: its config.json says so, and its weights are rounded to it. */
static void make_source(const char *folder, const char *name, enum mt_dtype dtype)
{
    struct mt_error error = {0};
    struct setting setting = usual_setting(1, 8);
    struct bed bed;
    char path[512];
    bed_open_golden(&bed, name, &setting);
    json_t *config = mt_model_to_config(bed.model);
    if (dtype == MT_BF16)
        json_object_set_new(config, json_object_get(config, "torch_dtype") ? "torch_dtype" : "dtype",
                            json_string("bfloat16"));
    snprintf(path, sizeof path, "%s/config.json", folder);
    assert_int_equal(json_dump_file(config, path, JSON_INDENT(2)), 0);
    json_decref(config);
    mt_assert_ok(mt_store_save_weights(bed.store, folder, "model", dtype, &error), &error);
    bed_close(&bed);
}

/* Each tensor of `from` is in `to`, with its shape, type and bits; and nothing else is. */
static void expect_same_tensors(const char *from, const char *to)
{
    struct mt_error error = {0};
    struct mt_safetensors *a, *b;
    mt_assert_ok(mt_safetensors_open(from, &a, &error), &error);
    mt_assert_ok(mt_safetensors_open(to, &b, &error), &error);
    assert_int_equal(mt_safetensors_count(a), mt_safetensors_count(b));
    for (size_t i = 0; i < mt_safetensors_count(a); i++) {
        const struct mt_safetensors_tensor *one = mt_safetensors_at(a, i);
        const struct mt_safetensors_tensor *other = golden_tensor(b, "", one->name);
        assert_int_equal(one->dtype, other->dtype);
        assert_int_equal(one->rank, other->rank);
        assert_memory_equal(one->shape, other->shape, one->rank * sizeof *one->shape);
        assert_int_equal(one->bytes, other->bytes);
        void *bits = mt_test_bytes(one->fd, one->offset, one->bytes);
        void *other_bits = mt_test_bytes(other->fd, other->offset, other->bytes);
        if (memcmp(bits, other_bits, one->bytes) != 0)
            fail_msg("%s has other bits", one->name);
        free(bits);
        free(other_bits);
    }
    mt_safetensors_close(a);
    mt_safetensors_close(b);
}

static void train_at_rate_0(const char *source, const char *target, const char *name)
{
    struct mt_error error = {0};
    struct setting setting = usual_setting(8, 32);
    struct mt_safetensors *golden;
    struct mt_step_result result;
    struct mt_model *model;
    struct bed bed = {0};
    char path[512];
    mt_assert_ok(mt_model_open(source, &model, &error), &error);
    mt_assert_ok(bed_try(&bed, model, &setting, &error), &error);
    bed_load(&bed, source);
    snprintf(path, sizeof path, "tests/golden/%s/golden.safetensors", name);
    mt_assert_ok(mt_safetensors_open(path, &golden, &error), &error);
    struct mt_batch *batch = batch_golden(golden);
    mt_assert_ok(mt_executor_step(bed.executor, batch, 0, &result, &error), &error);
    mt_assert_ok(mt_executor_finish(bed.executor, &error), &error);
    assert_true(result.grad_norm > 0);
    mt_assert_ok(mt_store_save_weights(bed.store, target, "model", model->source_dtype, &error), &error);
    json_t *config = mt_model_to_config(model);
    snprintf(path, sizeof path, "%s/config.json", target);
    assert_int_equal(json_dump_file(config, path, JSON_INDENT(2)), 0);
    json_decref(config);
    batch_free(batch);
    mt_safetensors_close(golden);
    bed_close(&bed);
}

static void expect_same_config(const char *from, const char *to)
{
    struct mt_error error = {0};
    json_t *a, *b;
    char path[512];
    snprintf(path, sizeof path, "%s/config.json", from);
    mt_assert_ok(mt_document_read(path, &a, NULL, &error), &error);
    snprintf(path, sizeof path, "%s/config.json", to);
    mt_assert_ok(mt_document_read(path, &b, NULL, &error), &error);
    assert_true(json_equal(a, b));
    json_decref(a);
    json_decref(b);
}

static void round_trip(const char *folder, const char *name, enum mt_dtype dtype)
{
    char source[300], target[300], golden[300];
    snprintf(source, sizeof source, "%s/%s-%s-before", folder, name, dtype == MT_BF16 ? "bf16" : "f32");
    snprintf(target, sizeof target, "%s/%s-%s", folder, name, dtype == MT_BF16 ? "bf16" : "f32");
    snprintf(golden, sizeof golden, "tests/golden/%s", name);
    assert_int_equal(mkdir(source, 0700), 0);
    assert_int_equal(mkdir(target, 0700), 0);
    if (dtype == MT_F32) { /* from the very file */
        train_at_rate_0(golden, target, name);
        char file[400];
        snprintf(file, sizeof file, "%s/model.safetensors", golden);
        char written[400];
        snprintf(written, sizeof written, "%s/model.safetensors", target);
        expect_same_tensors(written, file);
        expect_same_config(golden, target);
        return;
    }
    make_source(source, name, dtype);
    train_at_rate_0(source, target, name);
    expect_same_tensors(source, target);
    expect_same_config(source, target);
}

static bool is_supported(const char *name)
{
    struct mt_error error = {0};
    struct mt_model *model;
    char path[300];
    snprintf(path, sizeof path, "tests/golden/%s", name);
    if (mt_model_open(path, &model, &error))
        return false;
    mt_model_free(model);
    return true;
}

static int choose(const struct dirent *entry)
{
    char path[320];
    snprintf(path, sizeof path, "tests/golden/%s/golden.safetensors", entry->d_name);
    return mt_path_exists(path);
}

static void every_golden_model_comes_back_as_it_was(void **state)
{
    const struct mt_test_folder *own = *state;
    const char *kept = getenv("MT_ROUND_TRIP_FOLDER"), *folder = kept ? kept : own->path;
    struct dirent **entries;
    const int count = scandir("tests/golden", &entries, choose, alphasort);
    size_t tried = 0;
    for (int i = 0; i < count; i++) {
        if (is_supported(entries[i]->d_name)) {
            round_trip(folder, entries[i]->d_name, MT_F32);
            round_trip(folder, entries[i]->d_name, MT_BF16);
            tried++;
        }
        free(entries[i]);
    }
    free(entries);
    assert_true(tried >= 144);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        mt_test_in_folder(every_golden_model_comes_back_as_it_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
