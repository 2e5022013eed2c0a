/* The runtime of the simulated device: memory, copies, streams, events, settings, errors on demand. What a
 * setting changes is tried in a child, since settings are read once. */
#include "tests/cudasim/testing.h"

#include <pthread.h>
#include <time.h>

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static __global__ void add_one(int *x, int count)
{
    for (int i = (int)threadIdx.x; i < count; i += (int)blockDim.x)
        x[i] += 1;
}

/* Holds a stream until it is let go. */
struct gate {
    int open;
};
static void wait_at(void *context)
{
    struct gate *gate = (struct gate *)context;
    while (!__atomic_load_n(&gate->open, __ATOMIC_ACQUIRE))
        usleep(100);
}
static void let_go(struct gate *gate)
{
    __atomic_store_n(&gate->open, 1, __ATOMIC_RELEASE);
}

/* ---- memory ---- */

static void fresh_memory_is_nan(void **)
{
    fixture<float> f(5000000);
    assert_true(isnan(f.host[0]) && isnan(f.host[f.count - 1]));
    f.pull();
    for (size_t i = 0; i < f.count; i++)
        assert_true(isnan(f.host[i]));
}

static void memory_is_aligned_and_counted(void **)
{
    size_t before, after, total;
    GOOD(cudaMemGetInfo(&before, &total));
    assert_int_equal(total, (size_t)1 << 30);
    char *one, *two;
    GOOD(cudaMalloc(&one, 1));
    GOOD(cudaMalloc(&two, 1000));
    assert_int_equal((uintptr_t)one % 256, 0);
    assert_int_equal((uintptr_t)two % 256, 0);
    GOOD(cudaMemGetInfo(&after, &total));
    assert_int_equal(before - after, 256 + 1024);
    GOOD(cudaFree(one));
    GOOD(cudaFree(two));
    GOOD(cudaMemGetInfo(&after, &total));
    assert_int_equal(before, after);
    REFUSED(cudaFree(one), cudaErrorInvalidValue);
}

static void what_does_not_fit_is_refused_and_what_follows_works(void **)
{
    char *large, *small;
    REFUSED(cudaMalloc(&large, ((size_t)1 << 30) + 1), cudaErrorMemoryAllocation);
    assert_null(large);
    REFUSED(cudaMalloc(&large, SIZE_MAX - 100), cudaErrorMemoryAllocation);
    GOOD(cudaMalloc(&small, 100));
    GOOD(cudaFree(small));
    GOOD(cudaGetLastError());
}

static void pointers_tell_what_they_are(void **)
{
    fixture<int> f(10);
    struct cudaPointerAttributes attributes;
    int local;
    GOOD(cudaPointerGetAttributes(&attributes, f.device + 3));
    assert_int_equal(attributes.type, cudaMemoryTypeDevice);
    GOOD(cudaPointerGetAttributes(&attributes, f.host + 3));
    assert_int_equal(attributes.type, cudaMemoryTypeHost);
    GOOD(cudaPointerGetAttributes(&attributes, &local));
    assert_int_equal(attributes.type, cudaMemoryTypeUnregistered);
}

/* ---- copies ---- */

static void copies_check_both_sides(void **)
{
    fixture<int> f(100);
    fixture<int> g(100);
    int *pageable = (int *)calloc(100, sizeof(int));
    const size_t bytes = 100 * sizeof(int);
    REFUSED(cudaMemcpyAsync(f.device, pageable, bytes, cudaMemcpyHostToDevice, f.stream),
            cudaErrorInvalidValue);
    REFUSED(cudaMemcpyAsync(f.device + 1, f.host, bytes, cudaMemcpyHostToDevice, f.stream),
            cudaErrorInvalidValue);
    REFUSED(cudaMemcpyAsync(f.device, f.host + 1, bytes, cudaMemcpyHostToDevice, f.stream),
            cudaErrorInvalidValue);
    REFUSED(cudaMemcpyAsync(f.host, g.host, bytes, cudaMemcpyDeviceToHost, f.stream), cudaErrorInvalidValue);
    REFUSED(cudaMemcpyAsync(f.device, g.device, bytes, cudaMemcpyHostToDevice, f.stream),
            cudaErrorInvalidMemcpyDirection);
    REFUSED(cudaMemsetAsync(f.host, 0, bytes, f.stream), cudaErrorInvalidValue);
    REFUSED(cudaMemsetAsync(f.device, 0, bytes + 1, f.stream), cudaErrorInvalidValue);
    /* Registered, it is as good as pinned; the calls that wait take any. */
    GOOD(cudaHostRegister(pageable, bytes, cudaHostRegisterDefault));
    REFUSED(cudaHostRegister(pageable + 10, 4, cudaHostRegisterDefault),
            cudaErrorHostMemoryAlreadyRegistered);
    GOOD(cudaMemcpyAsync(f.device, pageable, bytes, cudaMemcpyHostToDevice, f.stream));
    GOOD(cudaHostUnregister(pageable));
    REFUSED(cudaHostUnregister(pageable), cudaErrorHostMemoryNotRegistered);
    REFUSED(cudaMemcpyAsync(f.device, pageable, bytes, cudaMemcpyHostToDevice, f.stream),
            cudaErrorInvalidValue);
    for (int i = 0; i < 100; i++)
        pageable[i] = i;
    GOOD(cudaMemcpy(f.device, pageable, bytes, cudaMemcpyHostToDevice));
    f.pull();
    for (int i = 0; i < 100; i++)
        assert_int_equal(f.host[i], i);
    free(pageable);
}

static void rows_are_copied_apart(void **)
{
    fixture<int> f(40);
    for (int i = 0; i < 40; i++)
        f.host[i] = i;
    GOOD(cudaMemsetAsync(f.device, 0xff, 40 * sizeof(int), f.stream));
    GOOD(cudaMemcpy2DAsync(f.device, 10 * sizeof(int), f.host, 7 * sizeof(int), 5 * sizeof(int), 4,
                           cudaMemcpyHostToDevice, f.stream));
    f.pull();
    for (int i = 0; i < 40; i++)
        assert_int_equal(f.host[i], i % 10 < 5 ? i / 10 * 7 + i % 10 : -1);
}

/* ---- streams and events ---- */

static void calls_return_before_their_work_is_done(void **)
{
    fixture<int> f(10);
    struct gate gate = {0};
    GOOD(cudaMemsetAsync(f.device, 0, f.count * sizeof(int), f.stream));
    GOOD(cudaLaunchHostFunc(f.stream, wait_at, &gate));
    MT_LAUNCH(add_one, 1, 32, 0, f.stream, f.device, 10);
    GOOD(cudaGetLastError());
    assert_int_equal(cudaStreamQuery(f.stream), cudaErrorNotReady);
    let_go(&gate);
    f.pull();
    GOOD(cudaStreamQuery(f.stream));
    assert_int_equal(f.host[9], 1);
}

static void a_stream_that_waits_for_an_event_goes_on_after_it(void **)
{
    fixture<int> f(10);
    cudaStream_t other;
    cudaEvent_t event;
    struct gate gate = {0};
    GOOD(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    GOOD(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    GOOD(cudaStreamWaitEvent(other, event, 0)); /* never recorded: no wait */
    GOOD(cudaStreamSynchronize(other));
    GOOD(cudaLaunchHostFunc(f.stream, wait_at, &gate));
    GOOD(cudaMemsetAsync(f.device, 0, f.count * sizeof(int), f.stream));
    GOOD(cudaEventRecord(event, f.stream));
    GOOD(cudaStreamWaitEvent(other, event, 0));
    MT_LAUNCH(add_one, 1, 32, 0, other, f.device, 10);
    assert_int_equal(cudaEventQuery(event), cudaErrorNotReady);
    assert_int_equal(cudaStreamQuery(other), cudaErrorNotReady);
    let_go(&gate);
    GOOD(cudaEventSynchronize(event));
    GOOD(cudaEventQuery(event));
    GOOD(cudaStreamSynchronize(other));
    f.pull();
    assert_int_equal(f.host[0], 1);
    /* A wait is for the latest record before it, whatever is recorded later. */
    struct gate second = {0};
    GOOD(cudaStreamWaitEvent(other, event, 0));
    GOOD(cudaLaunchHostFunc(f.stream, wait_at, &second));
    GOOD(cudaEventRecord(event, f.stream));
    GOOD(cudaStreamSynchronize(other));
    let_go(&second);
    GOOD(cudaEventDestroy(event));
    GOOD(cudaStreamDestroy(other));
}

static void arguments_are_taken_at_the_call(void **)
{
    fixture<int> f(4);
    struct gate gate = {0};
    int count = 2;
    GOOD(cudaMemsetAsync(f.device, 0, f.count * sizeof(int), f.stream));
    GOOD(cudaLaunchHostFunc(f.stream, wait_at, &gate));
    MT_LAUNCH(add_one, 1, 32, 0, f.stream, f.device, count);
    count = 4;
    let_go(&gate);
    f.pull();
    assert_int_equal(f.host[1], 1);
    assert_int_equal(f.host[2], 0);
}

static void more_calls_than_the_queue_holds_wait_for_room(void **)
{
    fixture<int> f(1);
    GOOD(cudaMemsetAsync(f.device, 0, sizeof(int), f.stream));
    for (int i = 0; i < 2000; i++)
        MT_LAUNCH(add_one, 1, 1, 0, f.stream, f.device, 1);
    f.pull();
    assert_int_equal(f.host[0], 2000);
}

/* A thread that waits for all streams keeps no other from making and ending streams, and from letting go what
 * it waits for. */
static void *wait_for_all(void *done)
{
    GOOD(cudaDeviceSynchronize());
    __atomic_store_n((int *)done, 1, __ATOMIC_RELEASE);
    return NULL;
}

struct calls {
    fixture<int> *f;
    cudaError_t set, allocated, waited;
};

static void call_cuda(void *context)
{
    struct calls *calls = (struct calls *)context;
    char *memory;
    calls->set = cudaMemsetAsync(calls->f->device, 0, sizeof(int), calls->f->stream);
    calls->allocated = cudaMalloc(&memory, 1);
    calls->waited = cudaStreamSynchronize(calls->f->stream);
}

static void host_functions_may_not_call_cuda(void **)
{
    fixture<int> f(1);
    struct calls calls = {&f, cudaSuccess, cudaSuccess, cudaSuccess};
    GOOD(cudaLaunchHostFunc(f.stream, call_cuda, &calls));
    GOOD(cudaStreamSynchronize(f.stream));
    assert_int_equal(calls.set, cudaErrorNotPermitted);
    assert_int_equal(calls.allocated, cudaErrorNotPermitted);
    assert_int_equal(calls.waited, cudaErrorNotPermitted);
    GOOD(cudaMemsetAsync(f.device, 0, sizeof(int), f.stream));
    GOOD(cudaStreamSynchronize(f.stream));
}

static void streams_come_and_go_while_others_wait_for_all(void **)
{
    struct gate gate = {0};
    cudaStream_t held, other;
    pthread_t thread;
    int done = 0;
    GOOD(cudaStreamCreateWithFlags(&held, cudaStreamNonBlocking));
    GOOD(cudaLaunchHostFunc(held, wait_at, &gate));
    assert_int_equal(pthread_create(&thread, NULL, wait_for_all, &done), 0);
    for (int i = 0; i < 20; i++) {
        GOOD(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
        usleep(1000);
        GOOD(cudaStreamDestroy(other));
    }
    assert_int_equal(__atomic_load_n(&done, __ATOMIC_ACQUIRE), 0);
    let_go(&gate);
    GOOD(cudaStreamDestroy(held));
    pthread_join(thread, NULL);
    assert_int_equal(done, 1);
}

/* ---- settings, in a child ---- */

static int copy_takes_its_time(void)
{
    fixture<char> f(10000000); /* 10 ms at 1 GB/s, and 5 ms of latency */
    f.push();
    GOOD(cudaStreamSynchronize(f.stream));
    cudaEvent_t start, end;
    GOOD(cudaEventCreate(&start));
    GOOD(cudaEventCreate(&end));
    const double begun = now();
    GOOD(cudaEventRecord(start, f.stream));
    for (int i = 0; i < 4; i++)
        f.push();
    GOOD(cudaEventRecord(end, f.stream));
    GOOD(cudaEventSynchronize(end));
    const double seconds = now() - begun;
    float milliseconds;
    GOOD(cudaEventElapsedTime(&milliseconds, start, end));
    return seconds >= 0.04 && milliseconds >= 40 && milliseconds <= 1e3f * (float)seconds + 1 ? 0 : 1;
}

static int memory_is_as_small_as_asked(void)
{
    size_t free, total;
    char *memory;
    GOOD(cudaMemGetInfo(&free, &total));
    return total == 3 << 20 && cudaMalloc(&memory, 2 << 20) == cudaSuccess &&
                   cudaMalloc(&memory, 2 << 20) == cudaErrorMemoryAllocation && memory == NULL &&
                   cudaMalloc(&memory, 1 << 20) == cudaSuccess
               ? 0
               : 1;
}

static int there_is_no_device(void)
{
    int count;
    char *memory;
    return cudaGetDeviceCount(&count) == cudaErrorNoDevice && count == 0 &&
                   cudaMalloc(&memory, 1) == cudaErrorNoDevice && cudaSetDevice(0) == cudaErrorNoDevice
               ? 0
               : 1;
}

static int the_driver_is_too_old(void)
{
    int count;
    return cudaGetDeviceCount(&count) == cudaErrorInsufficientDriver ? 0 : 1;
}

static int there_are_three_devices(void)
{
    int count;
    struct cudaDeviceProp properties;
    GOOD(cudaGetDeviceCount(&count));
    GOOD(cudaSetDevice(2));
    fixture<int> f(10);
    f.push();
    f.pull();
    struct cudaPointerAttributes attributes;
    GOOD(cudaPointerGetAttributes(&attributes, f.device));
    GOOD(cudaGetDeviceProperties(&properties, 2));
    return count == 3 && attributes.device == 2 && properties.pciBusID == 3 &&
                   cudaSetDevice(3) == cudaErrorInvalidDevice
               ? 0
               : 1;
}

/* Kernels and records want their device to be the current one; copies and waits do not. */
static int a_stream_belongs_to_its_device(void)
{
    fixture<int> f(4);
    cudaEvent_t here, there;
    GOOD(cudaEventCreate(&here));
    GOOD(cudaSetDevice(1));
    GOOD(cudaEventCreate(&there));
    f.push();
    MT_LAUNCH(add_one, 1, 1, 0, f.stream, f.device, 4);
    REFUSED(cudaGetLastError(), cudaErrorInvalidResourceHandle);
    REFUSED(cudaEventRecord(there, f.stream), cudaErrorInvalidResourceHandle);
    GOOD(cudaEventRecord(here, f.stream));
    cudaStream_t other;
    GOOD(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    GOOD(cudaStreamWaitEvent(other, here, 0));
    GOOD(cudaStreamSynchronize(other));
    GOOD(cudaSetDevice(0));
    MT_LAUNCH(add_one, 1, 1, 0, f.stream, f.device, 4);
    GOOD(cudaGetLastError());
    f.pull();
    return 0;
}

static int there_is_no_code_for_the_device(void)
{
    fixture<int> f(4);
    struct cudaFuncAttributes attributes;
    REFUSED(cudaFuncGetAttributes(&attributes, add_one), cudaErrorNoKernelImageForDevice);
    MT_LAUNCH(add_one, 1, 1, 0, f.stream, f.device, 4);
    return cudaGetLastError() == cudaErrorNoKernelImageForDevice ? 0 : 1;
}

static __global__ void add_two(int *x)
{
    x[0] += 2;
}

/* Of 1 GiB one kernel's code takes 600 MiB when it is launched first: there is no room for that of another.
 */
static int code_comes_with_the_first_launch(void)
{
    fixture<int> f(1);
    size_t before, after, total;
    GOOD(cudaMemGetInfo(&before, &total));
    for (int i = 0; i < 2; i++) {
        MT_LAUNCH(add_one, 1, 1, 0, f.stream, f.device, 1);
        GOOD(cudaGetLastError());
        GOOD(cudaMemGetInfo(&after, &total));
        assert_int_equal(before - after, (size_t)600 << 20);
    }
    MT_LAUNCH(add_two, 1, 1, 0, f.stream, f.device);
    return cudaGetLastError() == cudaErrorMemoryAllocation ? 0 : 1;
}

static int the_second_allocation_fails(void)
{
    char *memory;
    return cudaMalloc(&memory, 1) == cudaSuccess && cudaMalloc(&memory, 1) == cudaErrorMemoryAllocation &&
                   cudaGetLastError() == cudaErrorMemoryAllocation && cudaGetLastError() == cudaSuccess &&
                   cudaMalloc(&memory, 1) == cudaSuccess
               ? 0
               : 1;
}

/* The third kernel breaks the device: what follows fails, and nobody is left hanging. */
static int a_kernel_breaks_the_device(void)
{
    fixture<int> f(4);
    cudaStream_t other;
    cudaEvent_t event;
    GOOD(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    GOOD(cudaEventCreate(&event));
    GOOD(cudaMemsetAsync(f.device, 0, f.count * sizeof(int), f.stream));
    f.pull();
    for (int i = 0; i < 3; i++)
        MT_LAUNCH(add_one, 1, 1, 0, f.stream, f.device, 4);
    const int first = cudaStreamSynchronize(f.stream);
    cudaEventRecord(event, f.stream);
    cudaStreamWaitEvent(other, event, 0);
    const int second = cudaStreamSynchronize(other), third = cudaMemsetAsync(f.device, 0, 4, f.stream);
    char *memory;
    const int fourth = cudaMalloc(&memory, 1), fifth = cudaGetLastError(), sixth = cudaGetLastError();
    return first == 716 && second == 716 && third == 716 && fourth == 716 && fifth == 716 && sixth == 716 ? 0
                                                                                                          : 1;
}

static int little_can_be_pinned(void)
{
    char *memory, *block = (char *)malloc(5000);
    return cudaHostAlloc(&memory, 6000, 0) == cudaSuccess &&
                   cudaHostRegister(block, 5000, 0) == cudaErrorMemoryAllocation &&
                   cudaHostRegister(block, 4000, 0) == cudaSuccess &&
                   cudaHostUnregister(block) == cudaSuccess && cudaFreeHost(memory) == cudaSuccess &&
                   cudaHostRegister(block, 5000, 0) == cudaSuccess
               ? 0
               : 1;
}

/* Taken before the call returns; to the host, there when it returns. */
static int pageable_memory_is_copied(void)
{
    fixture<int> f(10);
    int block[10];
    for (int i = 0; i < 10; i++)
        block[i] = i;
    GOOD(cudaMemcpyAsync(f.device, block, sizeof block, cudaMemcpyHostToDevice, f.stream));
    memset(block, 0, sizeof block);
    GOOD(cudaMemcpyAsync(block, f.device, sizeof block, cudaMemcpyDeviceToHost, f.stream));
    return block[9] == 9 ? 0 : 1;
}

/* Adds without an order between blocks or threads: the same, whichever runs first. */
static __global__ void first_of_all(int *first)
{
    atomicCAS(first, -1, (int)(blockIdx.x * blockDim.x + threadIdx.x));
}
static int the_last_thread_starts_first(void)
{
    fixture<int> f(1);
    GOOD(cudaMemsetAsync(f.device, 0xff, sizeof(int), f.stream));
    MT_LAUNCH(first_of_all, 4, 8, 0, f.stream, f.device);
    f.pull();
    return f.host[0] == 31 ? 0 : 1;
}

static int delays_change_no_result(void)
{
    fixture<int> f(100);
    GOOD(cudaMemsetAsync(f.device, 0, f.count * sizeof(int), f.stream));
    const double begun = now();
    for (int i = 0; i < 100; i++)
        MT_LAUNCH(add_one, 1, 32, 0, f.stream, f.device, 100);
    f.pull();
    return f.host[99] == 100 && now() - begun > 0.003 ? 0 : 1;
}

static const struct {
    const char *name, *setting;
    int (*run)(void);
} children[] = {
    {"bus", "CUDASIM_BUS_GBPS=1", copy_takes_its_time},
    {"latency", "CUDASIM_LATENCY_US=10000", copy_takes_its_time},
    {"memory", "CUDASIM_MEMORY=3M", memory_is_as_small_as_asked},
    {"none", "CUDASIM_DEVICES=0", there_is_no_device},
    {"driver", "CUDASIM_DRIVER=12040", the_driver_is_too_old},
    {"devices", "CUDASIM_DEVICES=3", there_are_three_devices},
    {"two", "CUDASIM_DEVICES=2", a_stream_belongs_to_its_device},
    {"uncoded", "CUDASIM_CODE=90", there_is_no_code_for_the_device},
    {"code", "CUDASIM_CODE_MEMORY=600M", code_comes_with_the_first_launch},
    {"injected", "CUDASIM_FAIL=cudaMalloc:2", the_second_allocation_fails},
    {"kernel", "CUDASIM_FAIL=kernel:3:716", a_kernel_breaks_the_device},
    {"pinned", "CUDASIM_PINNED_LIMIT=10000", little_can_be_pinned},
    {"pageable", "CUDASIM_PAGEABLE=copy", pageable_memory_is_copied},
    {"backward", "CUDASIM_SEED=1", the_last_thread_starts_first},
    {"delays", "CUDASIM_DELAY_US=300", delays_change_no_result},
};

static void settings_do_what_they_say(void **)
{
    for (const auto &child : children) {
        char text[4096];
        const int status = run_again(child.name, child.setting, text, sizeof text);
        if (!WIFEXITED(status) || WEXITSTATUS(status))
            fail_msg("%s: status %d: %s", child.setting, status, text);
    }
}

static void settings_that_are_wrong_are_told(void **)
{
    static const char *const wrong[] = {"CUDASIM_MEMORY=3X",        "CUDASIM_FAIL=cudaMalloc",
                                        "CUDASIM_DEVICES=99",       "CUDASIM_PAGEABLE=yes",
                                        "CUDASIM_BUS_GBPS=quickly", "CUDASIM_FAIL=a:0"};
    for (const char *setting : wrong) {
        char text[4096], name[64];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(setting, "="), setting);
        const int status = run_again("none", setting, text, sizeof text);
        assert_true(WIFSIGNALED(status));
        assert_non_null(strstr(text, name));
    }
}

int main(int argc, char **argv)
{
    for (const auto &child : children)
        if (argc > 1 && !strcmp(argv[1], child.name))
            return child.run();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fresh_memory_is_nan),
        cmocka_unit_test(memory_is_aligned_and_counted),
        cmocka_unit_test(what_does_not_fit_is_refused_and_what_follows_works),
        cmocka_unit_test(pointers_tell_what_they_are),
        cmocka_unit_test(copies_check_both_sides),
        cmocka_unit_test(rows_are_copied_apart),
        cmocka_unit_test(calls_return_before_their_work_is_done),
        cmocka_unit_test(a_stream_that_waits_for_an_event_goes_on_after_it),
        cmocka_unit_test(arguments_are_taken_at_the_call),
        cmocka_unit_test(more_calls_than_the_queue_holds_wait_for_room),
        cmocka_unit_test(host_functions_may_not_call_cuda),
        cmocka_unit_test(streams_come_and_go_while_others_wait_for_all),
        cmocka_unit_test(settings_do_what_they_say),
        cmocka_unit_test(settings_that_are_wrong_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
