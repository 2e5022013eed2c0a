/* cpu-discrete: memory of its own of a given size, a bus of a given speed, and no way around either. */
#include "core/base/time.h"
#include "tests/unit/device/device_support.h"

static struct rig open_with(struct mt_device_options options)
{
    struct rig rig = {.pool = mt_pool_new(2)};
    options.pool = rig.pool;
    assert_int_equal(mt_device_open("cpu-discrete", &options, &rig.device, NULL), 0);
    rig.api = rig.device->api;
    assert_int_equal(rig.api->stream_create(rig.device, "test", &rig.stream, NULL), 0);
    return rig;
}

static void *allocate(struct rig *rig, size_t bytes)
{
    void *address;
    struct mt_error error;
    mt_assert_ok(rig->api->allocate(rig->device, bytes, &address, &error), &error);
    assert_int_equal((uintptr_t)address % 256, 0);
    return address;
}

static void memory_ends_at_its_limit(void **state)
{
    (void)state;
    struct rig rig = open_with((struct mt_device_options){.memory_limit_bytes = 1 << 20});
    struct mt_device_info info;
    struct mt_error error;
    rig.api->info(rig.device, &info);
    assert_string_equal(info.kind, "cpu-discrete");
    assert_false(info.host_memory);
    assert_int_equal(info.total_bytes, 1 << 20);
    assert_int_equal(info.free_bytes, 1 << 20);
    void *a = allocate(&rig, 300 << 10), *b = allocate(&rig, 300 << 10), *c = allocate(&rig, 300 << 10), *d;
    assert_int_equal(rig.api->allocate(rig.device, 200 << 10, &d, &error), -ENOMEM);
    assert_int_equal(error.reason, MT_REASON_OUT_OF_MEMORY);
    mt_assert_mentions(error.message, "204800 bytes");
    mt_assert_mentions(error.message, "900.0 KiB are in use");
    mt_assert_mentions(error.message, "124.0 KiB are available of 1.0 MiB");
    assert_null(d);
    assert_int_equal(rig.api->allocate(rig.device, SIZE_MAX - 10, &d, &error), -ENOMEM);
    /* What is released can be had again, also in one piece with its neighbours. */
    rig.api->release(rig.device, a);
    rig.api->release(rig.device, b);
    d = allocate(&rig, 600 << 10);
    assert_ptr_equal(d, a);
    rig.api->release(rig.device, d);
    rig.api->release(rig.device, c);
    rig.api->info(rig.device, &info);
    assert_int_equal(info.free_bytes, 1 << 20);
    rig.api->release(rig.device, NULL);
    assert_string_equal(rig.api->last_error(rig.device), "");
    rig.api->release(rig.device, c); /* twice */
    mt_assert_mentions(rig.api->last_error(rig.device), "release");
    rig_close(&rig);
}

static void allocations_fail_on_demand(void **state)
{
    (void)state;
    struct rig rig = open_with((struct mt_device_options){.test_fail_allocation = 3});
    void *address;
    struct mt_error error;
    allocate(&rig, 10);
    allocate(&rig, 10);
    assert_int_equal(rig.api->allocate(rig.device, 10, &address, &error), -ENOMEM);
    mt_assert_mentions(error.message, "10 bytes");
    allocate(&rig, 10);
    rig_close(&rig);
}

static void fresh_memory_is_full_of_nan(void **state)
{
    (void)state;
    struct rig rig = open_with((struct mt_device_options){0});
    for (int round = 0; round < 2; round++) { /* also what was used before */
        float *memory = allocate(&rig, 1000 * sizeof(float)), host[1000];
        uint16_t narrow[2000];
        rig.api->copy_to_host(rig.stream, host, memory, sizeof host);
        rig_wait(&rig);
        memcpy(narrow, host, sizeof narrow);
        for (size_t i = 0; i < 1000; i++)
            assert_true(isnan(host[i]));
        for (size_t i = 0; i < 2000; i++)
            assert_true(isnan(mt_bf16_to_float(narrow[i])));
        rig.api->fill_zero(rig.stream, memory, sizeof host);
        rig.api->copy_to_host(rig.stream, host, memory, sizeof host);
        rig_wait(&rig);
        for (size_t i = 0; i < 1000; i++)
            assert_true(host[i] == 0);
        rig.api->release(rig.device, memory);
    }
    rig_close(&rig);
}

/* Each wrong pointer fails the device with a sentence that names the operation and the operand. */
static void pointers_of_the_wrong_memory_are_refused(void **state)
{
    (void)state;
    float host[64] = {0};
    for (int wrong = 0; wrong < 8; wrong++) {
        struct rig rig = open_with((struct mt_device_options){.memory_limit_bytes = 1 << 20});
        float *device = allocate(&rig, 64 * sizeof(float)), *end = device + 60;
        const char *operation = "", *operand = "";
        int code = 0;
        switch (wrong) {
        case 0:
            code = rig.api->add(rig.stream, &(struct mt_add_args){device, host, device, 4, 1, NULL, MT_F32});
            operation = "add";
            operand = "`b`";
            break;
        case 1:
            code = rig.api->copy_to_device(rig.stream, host, host + 8, 4);
            operation = "copy_to_device";
            operand = "`to`";
            break;
        case 2:
            code = rig.api->copy_to_device(rig.stream, device, device + 8, 4);
            operation = "copy_to_device";
            operand = "`from` (";
            break;
        case 3:
            code = rig.api->copy_to_host(rig.stream, device, device + 8, 4);
            operation = "copy_to_host";
            operand = "device memory where host memory";
            break;
        case 4:
            code = rig.api->copy(rig.stream, device, host, 4);
            operation = "copy";
            operand = "is host memory";
            break;
        case 5: /* over the end of its block */
            code = rig.api->fill_zero(rig.stream, end, 5 * sizeof(float));
            operation = "fill_zero";
            operand = "one allocated block";
            break;
        case 6: /* after its end */
            rig.api->release(rig.device, device);
            code = rig.api->fill_zero(rig.stream, device, 4);
            operation = "fill_zero";
            operand = "one allocated block";
            break;
        default: {
            const struct mt_attention_args args = {.q = device,
                                                   .k = device + 8,
                                                   .v = device + 16,
                                                   .out = device + 24,
                                                   .document_starts =
                                                       (const int32_t *)(const void *)(device + 32),
                                                   .num_documents = 1,
                                                   .num_heads = 1,
                                                   .num_kv_heads = 1,
                                                   .head_dim = 4,
                                                   .scale = 1};
            code = rig.api->attention(rig.stream, &args);
            operation = "attention";
            operand = "`document_starts`";
        }
        }
        assert_int_equal(code, -EIO);
        mt_assert_mentions(rig.api->last_error(rig.device), operation);
        mt_assert_mentions(rig.api->last_error(rig.device), operand);
        struct mt_error error;
        assert_int_equal(rig.api->stream_synchronize(rig.stream, &error), -EIO);
        mt_assert_mentions(error.message, operand);
        rig_close(&rig);
    }
}

static double seconds_of_copies(struct rig *rig, size_t copies, size_t bytes)
{
    char *device = allocate(rig, bytes), *host = calloc(1, bytes);
    const double start = mt_time_monotonic();
    for (size_t i = 0; i < copies; i++)
        assert_int_equal(rig->api->copy_to_device(rig->stream, device, host, bytes), 0);
    rig_wait(rig);
    const double seconds = mt_time_monotonic() - start;
    rig->api->release(rig->device, device);
    free(host);
    return seconds;
}

/* Never faster than the bus; slower only by what a busy machine adds. */
static void copies_take_the_time_of_the_bus(void **state)
{
    (void)state;
    struct rig rig = open_with((struct mt_device_options){.bus_bytes_per_second = 100e6});
    const double seconds = seconds_of_copies(&rig, 5, 1000000);
    assert_true(seconds >= 0.05);
    assert_true(seconds < 0.5);
    rig_close(&rig);
    rig = open_with((struct mt_device_options){.bus_latency_seconds = 0.004});
    const double latency = seconds_of_copies(&rig, 10, 100);
    assert_true(latency >= 0.04);
    assert_true(latency < 0.5);
    rig_close(&rig);
}

/* Two streams that copy in one direction share its bandwidth; the other direction is free. */
static void a_direction_of_the_bus_is_shared(void **state)
{
    (void)state;
    struct rig rig = open_with((struct mt_device_options){.bus_bytes_per_second = 20e6});
    struct mt_stream *same, *back;
    rig.api->stream_create(rig.device, "same", &same, NULL);
    rig.api->stream_create(rig.device, "back", &back, NULL);
    const size_t bytes = 1000000; /* 50 ms */
    char *device = allocate(&rig, 3 * bytes), *host = calloc(3, bytes);
    const double start = mt_time_monotonic();
    rig.api->copy_to_device(rig.stream, device, host, bytes);
    rig.api->copy_to_device(same, device + bytes, host + bytes, bytes);
    rig.api->copy_to_host(back, host + 2 * bytes, device + 2 * bytes, bytes);
    rig.api->stream_synchronize(back, NULL);
    const double back_seconds = mt_time_monotonic() - start;
    rig.api->stream_synchronize(rig.stream, NULL);
    rig.api->stream_synchronize(same, NULL);
    const double both_seconds = mt_time_monotonic() - start;
    assert_true(back_seconds >= 0.05 && both_seconds >= 0.1);
    assert_true(back_seconds < both_seconds);
    rig.api->stream_destroy(same);
    rig.api->stream_destroy(back);
    free(host);
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_ends_at_its_limit),
        cmocka_unit_test(allocations_fail_on_demand),
        cmocka_unit_test(fresh_memory_is_full_of_nan),
        cmocka_unit_test(pointers_of_the_wrong_memory_are_refused),
        cmocka_unit_test(copies_take_the_time_of_the_bus),
        cmocka_unit_test(a_direction_of_the_bus_is_shared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
