/* Every allocation and every copy fails in turn: a clear error each time, nothing hangs, nothing leaks (make
 * asan). */
#include "tests/unit/stream/stream_support.h"

static const char small[] =
    "{\"vocab_size\": 61, \"hidden_size\": 24, \"num_layers\": 3, \"num_attention_heads\": 4,"
    " \"num_key_value_heads\": 2, \"intermediate_size\": 40}";

/* Opens, makes two steps and an evaluation, finishes; what failed first. */
static int run(const struct setting *setting, struct mt_error *error)
{
    const size_t lengths[2] = {8, 13};
    struct mt_batch *batch = batch_new(2, lengths, 61, 1);
    struct mt_model *model;
    struct mt_step_result result;
    struct bed bed = {0};
    double loss_sum;
    size_t targets;
    json_t *keys = json_loads(small, 0, NULL);
    mt_assert_ok(mt_model_from_keys("llama", keys, &model, error), error);
    json_decref(keys);
    int r = bed_try(&bed, model, setting, error);
    if (!r)
        assert_non_null(bed.executor);
    for (size_t s = 0; s < 2; s++)
        r = r ? r : mt_executor_step(bed.executor, batch, 1e-3, &result, error);
    r = r ? r : mt_executor_evaluate(bed.executor, batch, &loss_sum, &targets, error);
    r = r ? r : mt_executor_finish(bed.executor, error);
    if (r && bed.executor) { /* it stays refused */
        assert_int_not_equal(mt_executor_step(bed.executor, batch, 1e-3, &result, NULL), 0);
        assert_int_not_equal(mt_executor_finish(bed.executor, NULL), 0);
    }
    bed_close(&bed);
    batch_free(batch);
    return r;
}

static struct setting busy_setting(bool in_backward)
{
    struct setting setting = usual_setting(2, 16);
    setting.device = "cpu-discrete";
    setting.executor.activation_offload = MT_CHOICE_ON;
    setting.executor.checkpoint_interval = 2;
    setting.executor.head_tile_rows = 25;
    setting.executor.stream_head = MT_CHOICE_ON;
    if (in_backward)
        setting.executor.max_grad_norm = 0, setting.executor.max_skipped_steps = 0;
    return setting;
}

static void each_allocation_that_fails_is_an_error(void **state)
{
    (void)state;
    size_t n = 1;
    for (;; n++) {
        struct setting setting = busy_setting(false);
        struct mt_error error = {0};
        setting.device_options.test_fail_allocation = n;
        if (!run(&setting, &error))
            break;
        assert_int_equal(error.reason, MT_REASON_OUT_OF_MEMORY);
        mt_assert_mentions(error.message, "device memory for");
    }
    assert_true(n > 15);
}

static void each_copy_that_fails_is_an_error(void **state)
{
    (void)state;
    for (size_t mode = 0; mode < 2; mode++) {
        size_t n = 1;
        for (;; n++) {
            struct setting setting = busy_setting(mode == 1);
            struct mt_error error = {0};
            setting.device_options.test_fail_copy = n;
            if (!run(&setting, &error))
                break;
            assert_int_equal(error.reason, MT_REASON_DEVICE);
            assert_true(error.message[0] != 0);
        }
        assert_true(n > 60);
    }
}

static void what_does_not_fit_says_what_and_how_much(void **state)
{
    (void)state;
    struct setting setting = busy_setting(false);
    struct mt_error error = {0};
    setting.device_options.memory_limit_bytes = 64 << 10;
    assert_int_equal(run(&setting, &error), -ENOMEM);
    mt_assert_mentions(error.message, "device memory for");
    mt_assert_mentions(error.message, "bytes");
}

int main(void)
{
    alarm(300); /* nothing hangs */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_allocation_that_fails_is_an_error),
        cmocka_unit_test(each_copy_that_fails_is_an_error),
        cmocka_unit_test(what_does_not_fit_says_what_and_how_much),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
