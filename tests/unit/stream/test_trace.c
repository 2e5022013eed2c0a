/* The traced device: the same bits, a file that is whole whatever happens, nothing lost or touched after its
 * end (make asan), no race with the streams (make tsan). What a trace holds, and how it looks, is
 * tests/e2e/trace.py's.
 */
#include "core/base/cleanup.h"
#include "core/base/document.h"
#include "core/device/trace.h"
#include "tests/unit/stream/stream_support.h"

#define LAYERS 4u

static const char small[] =
    "{\"vocab_size\": 61, \"hidden_size\": 24, \"num_layers\": 4, \"num_attention_heads\": 4,"
    " \"num_key_value_heads\": 2, \"intermediate_size\": 40}";

static struct setting busy_setting(bool in_backward)
{
    struct setting setting = usual_setting(2, 16);
    setting.device = "cpu-discrete";
    setting.executor.activation_offload = MT_CHOICE_ON;
    setting.executor.checkpoint_interval = 2;
    setting.executor.head_tile_rows = 25;
    setting.executor.stream_head = MT_CHOICE_ON;
    setting.executor.num_grad_slabs = 1;
    setting.device_options.test_delay_seed = 11;
    setting.device_options.test_delay_microseconds = 50;
    if (in_backward)
        setting.executor.max_grad_norm = 0, setting.executor.max_skipped_steps = 0;
    return setting;
}

/* Opens the bed with its device behind a trace. */
static void open_traced(struct bed *bed, const struct setting *setting, const char *path)
{
    struct mt_error error = {0};
    bed_open(bed, small, setting);
    mt_executor_free(bed->executor);
    bed->executor = NULL;
    mt_assert_ok(mt_trace_open(bed->device, path, LAYERS, &bed->device, &error), &error);
}

static size_t spans_of(const char *path, const char *category)
{
    mt_autojson json_t *events = NULL;
    struct mt_error error = {0};
    size_t i, count = 0;
    json_t *event;
    mt_assert_ok(mt_json_read(path, MT_REASON_IO, &events, &error), &error);
    json_array_foreach(events, i, event)
    {
        const char *of = json_string_value(json_object_get(event, "cat"));
        count += of && strcmp(of, category) == 0;
    }
    return count;
}

static void a_trace_changes_no_bit_and_is_whole(void **state)
{
    const size_t lengths[2] = {8, 13};
    struct mt_batch *batch = batch_new(2, lengths, 61, 1);
    for (size_t mode = 0; mode < 2; mode++) {
        const struct setting setting = busy_setting(mode == 1);
        const char *path = mt_test_path(state, mode ? "within.json" : "after.json");
        struct mt_error error = {0};
        struct bed bed;
        bed_open(&bed, small, &setting);
        const uint64_t wanted = bed_run(&bed, &batch, 1, 3, NULL);
        bed_close(&bed);
        open_traced(&bed, &setting, path);
        mt_assert_ok(
            mt_executor_new(bed.store, bed.device, bed.pool, &setting.executor, &bed.executor, &error),
            &error);
        assert_true(bed_run(&bed, &batch, 1, 3, NULL) == wanted);
        bed_close(&bed);
        /* 3 steps of 4 layers and 2 micro-batches, recomputed; an update a group. */
        assert_true(spans_of(path, "forward") >= 3 * LAYERS);
        assert_int_equal(spans_of(path, "update"), 3 * (LAYERS + 2));
        assert_true(spans_of(path, "backward") >= 3 * 2 * LAYERS);
        assert_true(spans_of(path, "gradients") >= 3 * LAYERS);
    }
    batch_free(batch);
}

static void a_device_that_fails_leaves_a_whole_trace(void **state)
{
    const size_t lengths[2] = {8, 13};
    struct mt_batch *batch = batch_new(2, lengths, 61, 1);
    const char *path = mt_test_path(state, "failed.json");
    size_t failures = 0;
    for (size_t n = 2;; n += 3) {
        struct setting setting = busy_setting(n % 2);
        struct mt_error error = {0};
        struct mt_step_result result;
        struct bed bed;
        open_traced(&bed, &setting, path);
        bed_close(&bed); /* one without an executor, too */
        setting.device_options.test_fail_copy = n;
        struct mt_model *model;
        mt_autojson json_t *keys = json_loads(small, 0, NULL);
        bed = (struct bed){0};
        mt_assert_ok(mt_model_from_keys("llama", keys, &model, &error), &error);
        int r = bed_try(&bed, model, &setting, &error);
        mt_executor_free(bed.executor);
        bed.executor = NULL;
        r = r ? r : mt_trace_open(bed.device, path, LAYERS, &bed.device, &error);
        r = r ? r
              : mt_executor_new(bed.store, bed.device, bed.pool, &setting.executor, &bed.executor, &error);
        r = r ? r : mt_executor_step(bed.executor, batch, 1e-3, &result, &error);
        r = r ? r : mt_executor_finish(bed.executor, &error);
        bed_close(&bed);
        spans_of(path, "forward"); /* it can be read */
        if (!r)
            break;
        failures++;
        assert_int_equal(error.reason, MT_REASON_DEVICE);
    }
    assert_true(failures > 10);
    batch_free(batch);
}

int main(void)
{
    alarm(300); /* nothing hangs */
    const struct CMUnitTest tests[] = {
        mt_test_in_folder(a_trace_changes_no_bit_and_is_whole),
        mt_test_in_folder(a_device_that_fails_leaves_a_whole_trace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
