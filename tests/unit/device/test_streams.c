/* Streams and events: order within a stream, order between streams by events alone, faults that stay. */
#include "core/base/random.h"
#include "core/base/time.h"
#include "tests/unit/device/device_support.h"

#include <pthread.h>

static struct mt_stream *new_stream(struct rig *rig, const char *name)
{
    struct mt_stream *stream;
    assert_int_equal(rig->api->stream_create(rig->device, name, &stream, NULL), 0);
    return stream;
}

static struct mt_event *new_event(struct rig *rig)
{
    struct mt_event *event;
    assert_int_equal(rig->api->event_create(rig->device, &event, NULL), 0);
    return event;
}

/* A gate that a stream stands before until the test opens it. */
struct gate {
    pthread_mutex_t lock;
    pthread_cond_t opened;
    bool open;
};

#define CLOSED_GATE                                                                                          \
    {                                                                                                        \
        PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false                                           \
    }

static void stand_before(void *context)
{
    struct gate *gate = context;
    pthread_mutex_lock(&gate->lock);
    while (!gate->open)
        pthread_cond_wait(&gate->opened, &gate->lock);
    pthread_mutex_unlock(&gate->lock);
}

static void open_gate(struct gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    gate->open = true;
    pthread_cond_broadcast(&gate->opened);
    pthread_mutex_unlock(&gate->lock);
}

static void set_flag(void *context)
{
    __atomic_store_n((int *)context, 1, __ATOMIC_SEQ_CST);
}

static int flag(int *value)
{
    return __atomic_load_n(value, __ATOMIC_SEQ_CST);
}

static void calls_return_before_the_stream_gets_there(void **state)
{
    (void)state;
    struct rig rig = rig_open("cpu", 2);
    struct gate gate = CLOSED_GATE;
    float a[3] = {1, 2, 3}, b[3] = {10, 20, 30};
    rig.api->stream_host_function(rig.stream, stand_before, &gate);
    struct mt_add_args args = {.a = a, .b = b, .y = a, .count = 3, .scale = 1};
    assert_int_equal(rig.api->add(rig.stream, &args), 0);
    args.scale = 1000; /* the struct was copied */
    assert_true(a[0] == 1);
    open_gate(&gate);
    rig_wait(&rig);
    assert_true(a[0] == 11 && a[2] == 33);
    rig_close(&rig);
}

static void more_calls_than_the_queue_holds_wait_for_room(void **state)
{
    (void)state;
    struct rig rig = rig_open("cpu", 1);
    float sum = 0, one = 1;
    for (int i = 0; i < 5000; i++)
        assert_int_equal(
            rig.api->add(rig.stream, &(struct mt_add_args){&sum, &one, &sum, 1, 1, NULL, MT_F32}), 0);
    rig_wait(&rig);
    assert_true(sum == 5000);
    rig_close(&rig);
}

static void a_wait_orders_streams_and_streams_are_free_without_one(void **state)
{
    (void)state;
    struct rig rig = rig_open("cpu", 1);
    struct mt_stream *other = new_stream(&rig, "other"), *third = new_stream(&rig, "third");
    struct mt_event *event = new_event(&rig);
    struct gate gate = CLOSED_GATE;
    int behind_wait = 0, unordered = 0;
    rig.api->stream_host_function(rig.stream, stand_before, &gate);
    rig.api->event_record(event, rig.stream);
    rig.api->event_wait(other, event);
    rig.api->stream_host_function(other, set_flag, &behind_wait);
    rig.api->stream_host_function(third, set_flag, &unordered);
    assert_int_equal(rig.api->stream_synchronize(third, NULL), 0);
    assert_int_equal(flag(&unordered), 1);
    assert_int_equal(flag(&behind_wait), 0);
    open_gate(&gate);
    assert_int_equal(rig.api->stream_synchronize(other, NULL), 0);
    assert_int_equal(flag(&behind_wait), 1);
    rig.api->event_destroy(event);
    rig.api->stream_destroy(other);
    rig.api->stream_destroy(third);
    rig_close(&rig);
}

static void an_event_that_was_never_recorded_holds_nobody(void **state)
{
    (void)state;
    struct rig rig = rig_open("cpu", 1);
    struct mt_event *event = new_event(&rig);
    assert_int_equal(rig.api->event_wait(rig.stream, event), 0);
    assert_int_equal(rig.api->event_synchronize(event, NULL), 0);
    rig_wait(&rig);
    rig.api->event_destroy(event);
    rig_close(&rig);
}

/* Two gated streams record one event; a wait is for the record that was the latest when it was called, even
 * if a later one is through first, and not for what is recorded afterwards. */
static void a_wait_is_for_the_latest_record_before_it(void **state)
{
    (void)state;
    struct rig rig = rig_open("cpu", 1);
    struct mt_stream *slow = new_stream(&rig, "slow"), *never = new_stream(&rig, "never");
    struct mt_stream *first = new_stream(&rig, "first");
    struct mt_event *event = new_event(&rig), *second = new_event(&rig);
    struct gate slow_gate = CLOSED_GATE, never_gate = CLOSED_GATE;
    int passed = 0;
    rig.api->stream_host_function(slow, stand_before, &slow_gate);
    rig.api->event_record(event, slow);
    rig.api->event_wait(first, event); /* for slow's */
    rig.api->stream_host_function(first, set_flag, &passed);
    rig.api->event_record(event, rig.stream); /* through at once */
    assert_int_equal(rig.api->event_synchronize(event, NULL), 0);
    assert_int_equal(flag(&passed), 0);
    /* A record behind a closed gate, after the wait, holds no one. */
    rig.api->event_record(second, rig.stream);
    rig.api->event_wait(rig.stream, second);
    rig.api->stream_host_function(never, stand_before, &never_gate);
    rig.api->event_record(second, never);
    rig_wait(&rig);
    open_gate(&slow_gate);
    assert_int_equal(rig.api->stream_synchronize(first, NULL), 0);
    assert_int_equal(flag(&passed), 1);
    rig.api->event_destroy(event); /* may go while a record of it is still to come */
    rig.api->event_destroy(second);
    open_gate(&never_gate);
    rig.api->stream_destroy(slow);
    rig.api->stream_destroy(never);
    rig.api->stream_destroy(first);
    rig_close(&rig);
}

/* Random programs over a few streams, buffers and events, with every pair of conflicting operations ordered
 * by an event: the result must be that of running them one after another. */
static void random_programs_give_what_one_stream_gives(void **state)
{
    (void)state;
    enum { STREAMS = 4, BUFFERS = 5, COUNT = 33, OPERATIONS = 120, PROGRAMS = 30 };
    for (uint64_t program = 0; program < PROGRAMS; program++) {
        struct mt_random random = {mt_random_key(program, "streams"), 0};
        struct mt_device_options options = {.test_delay_seed = program + 1,
                                            .test_delay_microseconds = program % 2 ? 60 : 0};
        struct rig rig = {.pool = mt_pool_new(2)};
        options.pool = rig.pool;
        assert_int_equal(mt_device_open("cpu", &options, &rig.device, NULL), 0);
        rig.api = rig.device->api;
        struct mt_stream *streams[STREAMS];
        struct mt_event
            *last_use[BUFFERS][STREAMS]; /* recorded behind the last use of a buffer by a stream */
        float buffers[BUFFERS][COUNT], want[BUFFERS][COUNT];
        for (size_t i = 0; i < STREAMS; i++)
            streams[i] = new_stream(&rig, "random");
        for (size_t b = 0; b < BUFFERS; b++)
            for (size_t i = 0; i < STREAMS; i++)
                last_use[b][i] = new_event(&rig);
        for (size_t b = 0; b < BUFFERS; b++)
            for (size_t i = 0; i < COUNT; i++)
                buffers[b][i] = want[b][i] = (float)(b + i);
        for (size_t n = 0; n < OPERATIONS; n++) {
            const size_t s = mt_random_below(&random, STREAMS), a = mt_random_below(&random, BUFFERS);
            const size_t b = mt_random_below(&random, BUFFERS), y = mt_random_below(&random, BUFFERS);
            const float scale = (float)mt_random_below(&random, 3) - 1;
            const size_t used[] = {a, b, y};
            for (size_t u = 0; u < 3; u++)
                for (size_t i = 0; i < STREAMS; i++)
                    rig.api->event_wait(streams[s], last_use[used[u]][i]);
            assert_int_equal(
                rig.api->add(streams[s], &(struct mt_add_args){buffers[a], buffers[b], buffers[y], COUNT,
                                                               scale, NULL, MT_F32}),
                0);
            for (size_t u = 0; u < 3; u++)
                rig.api->event_record(last_use[used[u]][s], streams[s]);
            for (size_t i = 0; i < COUNT; i++)
                want[y][i] = want[a][i] + scale * want[b][i];
            if (mt_random_below(&random, 20) == 0)
                assert_int_equal(rig.api->event_synchronize(last_use[y][s], NULL), 0);
        }
        for (size_t i = 0; i < STREAMS; i++)
            assert_int_equal(rig.api->stream_synchronize(streams[i], NULL), 0);
        assert_memory_equal(buffers, want, sizeof want);
        for (size_t b = 0; b < BUFFERS; b++)
            for (size_t i = 0; i < STREAMS; i++)
                rig.api->event_destroy(last_use[b][i]);
        for (size_t i = 0; i < STREAMS; i++)
            rig.api->stream_destroy(streams[i]);
        mt_device_close(rig.device);
        mt_pool_free(rig.pool);
    }
}

/* After a fault nothing more is computed, every call says so, and nobody who waits is left hanging. */
static void a_fault_stays_and_nobody_hangs(void **state)
{
    (void)state;
    struct mt_device_options options = {.test_fail_copy = 2};
    struct rig rig = {.pool = NULL};
    assert_int_equal(mt_device_open("cpu", &options, &rig.device, NULL), 0);
    rig.api = rig.device->api;
    rig.stream = new_stream(&rig, "test");
    struct mt_stream *other = new_stream(&rig, "other");
    struct mt_event *event = new_event(&rig);
    struct gate gate = CLOSED_GATE;
    float from = 1, to[3] = {0};
    int called = 0;
    assert_string_equal(rig.api->last_error(rig.device), "");
    rig.api->stream_host_function(rig.stream, stand_before, &gate);
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(rig.api->copy(rig.stream, &to[i], &from, sizeof from), 0);
    rig.api->stream_host_function(rig.stream, set_flag, &called);
    rig.api->event_record(event, rig.stream);
    rig.api->event_wait(other, event);
    open_gate(&gate);
    struct mt_error error;
    assert_int_equal(rig.api->stream_synchronize(other, &error), -EIO);
    assert_int_equal(error.reason, MT_REASON_DEVICE);
    mt_assert_mentions(error.message, "copy of 4 bytes failed");
    assert_int_equal(rig.api->event_synchronize(event, &error), -EIO);
    assert_int_equal(rig.api->stream_synchronize(rig.stream, &error), -EIO);
    assert_true(to[0] == 1 && to[1] == 0 && to[2] == 0);
    assert_int_equal(flag(&called), 1);
    assert_int_equal(rig.api->copy(rig.stream, &to[1], &from, sizeof from), -EIO);
    assert_int_equal(rig.api->event_record(event, rig.stream), -EIO);
    assert_int_equal(rig.api->event_wait(rig.stream, event), -EIO);
    rig.api->event_destroy(event);
    rig.api->stream_destroy(other);
    rig.api->stream_destroy(rig.stream);
    mt_device_close(rig.device);
}

static void names_of_devices(void **state)
{
    (void)state;
    struct mt_device *device;
    struct mt_error error;
    struct mt_device_info info;
    /* A machine that has a GPU shows it elsewhere. */
    setenv("MEGATRAIN_CUDA_MODULE", "/nowhere/megatrain-cuda.so", 1);
    assert_int_equal(mt_device_open("auto", NULL, &device, &error), 0);
    device->api->info(device, &info);
    assert_string_equal(info.id, "cpu");
    assert_true(info.host_memory && info.supports_bf16 && info.total_bytes >= info.free_bytes &&
                info.free_bytes);
    mt_assert_mentions(info.kernel_set, "cpu-");
    assert_true(info.name[0]);
    mt_device_close(device);
    assert_int_equal(mt_device_open("cuda:1", NULL, &device, &error), -ELIBACC);
    mt_assert_mentions(error.message, "/nowhere/megatrain-cuda.so");
    assert_int_equal(mt_device_open("cuda:x", NULL, &device, &error), -EINVAL);
    assert_int_equal(mt_device_open("gpu", NULL, &device, &error), -EINVAL);
    mt_assert_mentions(error.message, "\"gpu\"");
    assert_null(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_return_before_the_stream_gets_there),
        cmocka_unit_test(more_calls_than_the_queue_holds_wait_for_room),
        cmocka_unit_test(a_wait_orders_streams_and_streams_are_free_without_one),
        cmocka_unit_test(an_event_that_was_never_recorded_holds_nobody),
        cmocka_unit_test(a_wait_is_for_the_latest_record_before_it),
        cmocka_unit_test(random_programs_give_what_one_stream_gives),
        cmocka_unit_test(a_fault_stays_and_nobody_hangs),
        cmocka_unit_test(names_of_devices),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
