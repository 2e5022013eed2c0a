/* Device memory does not grow with depth, weights cross twice a step whatever is accumulated, and a model far
 * larger than the device trains. */
#include "core/stream/from_job.h"
#include "tests/unit/stream/stream_support.h"

static size_t device_bytes_used(const struct bed *bed)
{
    struct mt_device_info info;
    bed->device->api->info(bed->device, &info);
    return info.total_bytes - info.free_bytes;
}

static void open_depth(struct bed *bed, size_t layers, const struct setting *setting)
{
    char keys[256];
    snprintf(keys, sizeof keys,
             "{\"vocab_size\": 64, \"hidden_size\": 64, \"num_layers\": %zu, \"num_attention_heads\": 4,"
             " \"intermediate_size\": 128}",
             layers);
    bed_open(bed, keys, setting);
}

static void device_memory_does_not_grow_with_depth(void **state)
{
    (void)state;
    const size_t lengths[4] = {32, 30, 32, 31};
    struct mt_batch *batch = batch_new(4, lengths, 64, 1);
    size_t used[2], boundaries[2];
    for (size_t i = 0; i < 2; i++) {
        struct setting setting = usual_setting(4, 32);
        struct mt_executor_memory memory;
        struct bed bed;
        setting.device = "cpu-discrete";
        setting.executor.activation_offload = MT_CHOICE_ON;
        open_depth(&bed, i ? 48 : 4, &setting);
        bed_run(&bed, &batch, 1, 2, NULL);
        mt_executor_memory(bed.executor, &memory);
        used[i] = device_bytes_used(&bed);
        boundaries[i] = memory.host.boundaries;
        assert_true(memory.device.total <= used[i] &&
                    used[i] < memory.device.total + memory.device.total / 50);
        bed_close(&bed);
    }
    assert_true(used[1] <= used[0] + used[0] / 100);
    assert_true(boundaries[1] > 8 * boundaries[0]); /* it is the host that keeps them */
    batch_free(batch);
}

static void weights_cross_as_often_whatever_is_accumulated(void **state)
{
    (void)state;
    const size_t lengths[8] = {32, 30, 32, 31, 9, 8, 7, 6};
    size_t crossed[2], weights = 0;
    for (size_t i = 0; i < 2; i++) {
        struct mt_batch *batch = batch_new(i ? 8 : 1, lengths, 64, 1);
        struct setting setting = usual_setting(8, 32);
        struct bed bed;
        size_t in, out;
        setting.device = "cpu-discrete";
        open_depth(&bed, 6, &setting);
        bed_run(&bed, &batch, 1, 3, NULL);
        mt_executor_traffic(bed.executor, &crossed[i], &in, &out);
        weights = 0;
        for (size_t g = 1; g < bed.model->num_groups; g++)
            weights += bed.model->groups[g].count * sizeof(float);
        bed_close(&bed);
        batch_free(batch);
    }
    assert_int_equal(crossed[0], crossed[1]);
    assert_true(crossed[0] <= 3 * 2 * weights);
}

/* Slabs (16 bytes a parameter) of more than twenty times the device's memory. */
static void a_model_twenty_times_the_device_trains(void **state)
{
    (void)state;
    const size_t lengths[2] = {16, 16};
    struct mt_batch *batch = batch_new(2, lengths, 64, 1);
    struct setting setting = usual_setting(2, 16);
    struct mt_error error = {0};
    struct mt_step_result first, last;
    struct bed bed;
    setting.device = "cpu-discrete";
    setting.executor.num_grad_slabs = 2;
    setting.executor.activation_offload = MT_CHOICE_ON;
    setting.device_options.memory_limit_bytes = 1200 << 10;
    open_depth(&bed, 48, &setting);
    assert_true(16 * bed.model->total_count > 20 * setting.device_options.memory_limit_bytes);
    mt_assert_ok(mt_executor_step(bed.executor, batch, 1e-3, &first, &error), &error);
    for (size_t i = 0; i < 8; i++)
        mt_assert_ok(mt_executor_step(bed.executor, batch, 1e-3, &last, &error), &error);
    assert_true(last.loss < 0.9 * first.loss);
    bed_close(&bed);
    batch_free(batch);
}

/* Inputs go to the host only where the device has no room for them. */
static void activations_are_offloaded_when_they_do_not_fit(void **state)
{
    (void)state;
    const size_t lengths[4] = {32, 30, 32, 31};
    struct mt_batch *batch = batch_new(4, lengths, 64, 1);
    uint64_t hashes[2];
    for (size_t i = 0; i < 2; i++) {
        struct setting setting = usual_setting(4, 32);
        struct mt_executor_memory memory;
        struct bed bed;
        setting.device = "cpu-discrete";
        setting.device_options.memory_limit_bytes = (i ? 1900u : 9000u) << 10;
        open_depth(&bed, 40, &setting);
        hashes[i] = bed_run(&bed, &batch, 1, 2, NULL);
        mt_executor_memory(bed.executor, &memory);
        assert_true((memory.host.boundaries > 40 * 4 * 32 * 64 * sizeof(float)) == (i == 1));
        bed_close(&bed);
    }
    assert_true(hashes[0] == hashes[1]);
    batch_free(batch);
}

/* Whole where it fits, in tiles where not, with the same bits. */
static void an_output_matrix_larger_than_the_device_is_streamed(void **state)
{
    (void)state;
    const size_t lengths[2] = {32, 30};
    struct mt_batch *batch = batch_new(2, lengths, 100000, 1);
    uint64_t hashes[3];
    for (size_t i = 0; i < 3; i++) {
        struct setting setting = usual_setting(2, 32);
        struct bed bed;
        setting.device = i ? "cpu-discrete" : "cpu";
        setting.executor.num_grad_slabs = 1;
        setting.device_options.memory_limit_bytes = i == 2 ? 20 << 20 : 100 << 20; /* the table: 24.4 MiB */
        bed_open(&bed,
                 "{\"vocab_size\": 100000, \"hidden_size\": 64, \"num_layers\": 2,"
                 " \"num_attention_heads\": 4, \"intermediate_size\": 128}",
                 &setting);
        assert_int_equal(mt_executor_head_pieces(bed.executor), i == 2 ? 7 : 1);
        hashes[i] = bed_run(&bed, &batch, 1, 2, NULL);
        bed_close(&bed);
    }
    assert_true(hashes[0] == hashes[1] && hashes[1] == hashes[2]);
    batch_free(batch);
}

/* checkpoint_interval is lowered by whoever settles an executor's options; the bits stay. */
static void layers_that_do_not_fit_together_are_fewer(void **state)
{
    (void)state;
    const size_t lengths[4] = {32, 30, 32, 31};
    static const size_t limits[3] = {8000 << 10, 2200 << 10, 1500 << 10};
    struct mt_batch *batch = batch_new(4, lengths, 64, 1);
    uint64_t hashes[3];
    size_t intervals[3];
    for (size_t i = 0; i < 3; i++) {
        struct setting setting = usual_setting(4, 32);
        struct mt_error error = {0};
        struct bed bed;
        setting.device = "cpu-discrete";
        setting.executor.num_grad_slabs = 1;
        setting.executor.activation_offload = MT_CHOICE_ON;
        setting.device_options.memory_limit_bytes = limits[i];
        open_depth(&bed, 12, &setting);
        mt_executor_free(bed.executor);
        setting.executor.checkpoint_interval = 8;
        setting.executor.micro_batch_size = i % 2;
        mt_assert_ok(mt_executor_settle(bed.store, bed.device, bed.pool, &setting.executor, 1, SIZE_MAX,
                                        &bed.executor, &error),
                     &error);
        intervals[i] = setting.executor.checkpoint_interval;
        hashes[i] = bed_run(&bed, &batch, 1, 2, NULL);
        bed_close(&bed);
    }
    assert_int_equal(intervals[0], 8);
    assert_true(intervals[1] < 8 && intervals[1] > 1);
    assert_true(intervals[2] < intervals[1]);
    assert_true(hashes[0] == hashes[1] && hashes[1] == hashes[2]);
    batch_free(batch);
}

/* A device's own table, but that blocks are counted. */
static struct {
    const struct mt_device_api *own;
    struct mt_device_api api;
    size_t blocks;
} counted;

static int count_block(struct mt_device *device, size_t bytes, void **address, struct mt_error *error)
{
    counted.blocks++;
    return counted.own->allocate(device, bytes, address, error);
}

static void count_blocks(struct mt_device *device)
{
    counted.own = device->api;
    counted.api = *device->api;
    counted.api.allocate = count_block;
    counted.blocks = 0;
    device->api = &counted.api;
}

/* `auto`: sizes that do not fit are found out on paper, so the device makes the blocks of the one that does.
 */
static void a_size_is_settled_before_the_device_is_filled(void **state)
{
    (void)state;
    static const struct {
        const char *device;
        size_t limit, available, size;
    } cases[] = {{"cpu-discrete", 64 << 20, SIZE_MAX, 8},
                 {"cpu-discrete", 2300 << 10, SIZE_MAX, 4},
                 {"cpu-discrete", 1200 << 10, SIZE_MAX, 2},
                 {"cpu", 0, SIZE_MAX, 8},
                 {"cpu", 0, 4500 << 10, 4}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t blocks[2];
        for (int given = 0; given < 2; given++) {
            struct setting setting = usual_setting(8, 32);
            struct mt_error error = {0};
            struct bed bed;
            setting.device = cases[i].device;
            setting.device_options.memory_limit_bytes = cases[i].limit;
            setting.executor.num_grad_slabs = 1;
            setting.executor.recompute = MT_CHOICE_ON;
            setting.executor.activation_offload = MT_CHOICE_ON;
            open_depth(&bed, 12, &setting);
            mt_executor_free(bed.executor);
            bed.executor = NULL;
            setting.executor.micro_batch_size = given ? cases[i].size : 0;
            count_blocks(bed.device);
            mt_assert_ok(mt_executor_settle(bed.store, bed.device, bed.pool, &setting.executor, 8,
                                            cases[i].available, &bed.executor, &error),
                         &error);
            blocks[given] = counted.blocks;
            assert_int_equal(setting.executor.micro_batch_size, cases[i].size);
            mt_executor_free(bed.executor);
            bed.executor = NULL;
            bed.device->api = counted.own;
            bed_close(&bed);
        }
        assert_int_equal(blocks[0], blocks[1]);
    }
}

/* gemma4's layers read a vector each beside the stream: one copy of all of them serves every layer, and no
 * layer's kept input grows by them. */
static void what_layers_read_beside_the_stream_is_there_once(void **state)
{
    (void)state;
    enum { ROWS = 3, TOKENS = 32, LAYERS = 4, HIDDEN = 32, SIDE = 64 };
    static const char form[] =
        "{\"architecture\": \"gemma4_text\", \"vocab_size\": 64, \"hidden_size\": 32, \"num_layers\": 4,"
        " \"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"head_dim\": 8, \"global_head_dim\": 8,"
        " \"intermediate_size\": 64, \"num_kv_shared_layers\": 0, \"hidden_size_per_layer_input\": %d,"
        " \"vocab_size_per_layer_input\": 64}";
    const size_t lengths[ROWS] = {32, 30, 31};
    struct mt_batch *batch = batch_new(ROWS, lengths, 64, 1);
    struct mt_executor_memory memory[2][2]; /* without and with them; kept on the device and on the host */
    for (int beside = 0; beside < 2; beside++)
        for (int host = 0; host < 2; host++) {
            struct setting setting = usual_setting(ROWS, TOKENS);
            struct bed bed;
            char keys[512];
            setting.device = "cpu-discrete";
            setting.executor.activation_offload = host ? MT_CHOICE_ON : MT_CHOICE_OFF;
            snprintf(keys, sizeof keys, form, beside ? SIDE : 0);
            bed_open(&bed, keys, &setting);
            bed_run(&bed, &batch, 1, 2, NULL);
            mt_executor_memory(bed.executor, &memory[beside][host]);
            bed_close(&bed);
        }
    const size_t all = (size_t)ROWS * TOKENS * LAYERS * SIDE * sizeof(float);
    for (int host = 0; host < 2; host++) {
        const struct mt_executor_memory *without = &memory[0][host], *with = &memory[1][host];
        assert_int_equal(with->device.boundaries,
                         without->device.boundaries + 2 * all); /* and its gradient */
        assert_int_equal(with->host.boundaries, without->host.boundaries + all);
    }
    batch_free(batch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(device_memory_does_not_grow_with_depth),
        cmocka_unit_test(weights_cross_as_often_whatever_is_accumulated),
        cmocka_unit_test(a_model_twenty_times_the_device_trains),
        cmocka_unit_test(activations_are_offloaded_when_they_do_not_fit),
        cmocka_unit_test(an_output_matrix_larger_than_the_device_is_streamed),
        cmocka_unit_test(layers_that_do_not_fit_together_are_fewer),
        cmocka_unit_test(a_size_is_settled_before_the_device_is_filled),
        cmocka_unit_test(what_layers_read_beside_the_stream_is_there_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
