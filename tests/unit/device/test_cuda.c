/* What the CUDA device owes beside right numbers ($MEGATRAIN_CUDA_MODULE, else the simulated one): what it
 * takes for itself is taken and counted when it opens, what is released is free again, each error says what
 * can be done, and whoever waits for it sleeps. */
#include "core/base/cleanup.h"
#include "core/base/document.h"
#include "core/base/time.h"
#include "core/device/cuda_memory.h"
#include "core/device/module.h"
#include "core/device/trace.h"
#include "tests/unit/device/device_support.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)

static const struct mt_cuda_module *module_or_skip(void)
{
    const struct mt_cuda_module *module = NULL;
    int devices = 0;
    const char *build = getenv("MT_BUILD");
    char simulated[1024];
    snprintf(simulated, sizeof simulated, "%s/megatrain-cudasim.so", build ? build : "build");
    setenv("MEGATRAIN_CUDA_MODULE", simulated, 0);
    if (mt_cuda_module_load(&module, NULL) || module->count(&devices, NULL) || !devices)
        mt_test_skip("needs a CUDA module with a device");
    return module;
}

static int open_with_limit(size_t limit, struct mt_device **device, struct mt_device_info *info,
                           struct mt_error *error)
{
    const struct mt_cuda_open_options options = {.memory_limit_bytes = limit};
    const int code = module_or_skip()->open(0, &options, device, error);
    if (!code)
        (*device)->api->info(*device, info);
    return code;
}

#define PRODUCT_BYTES ((size_t)3 * 64 * 64 * sizeof(float))

static struct mt_linear_args product_at(void *memory)
{
    float *const at = memory;
    return (struct mt_linear_args){.x = at,
                                   .weight = at + 64 * 64,
                                   .y = at + 2 * 64 * 64,
                                   .tokens = 64,
                                   .in_features = 64,
                                   .out_features = 64,
                                   .dtype = MT_F32};
}

static void multiply(struct mt_device *device)
{
    struct mt_stream *stream;
    struct mt_error error = {0};
    void *memory;
    mt_assert_ok(device->api->stream_create(device, "compute", &stream, &error), &error);
    mt_assert_ok(device->api->allocate(device, PRODUCT_BYTES, &memory, &error), &error);
    assert_int_equal(device->api->fill_zero(stream, memory, PRODUCT_BYTES), 0);
    const struct mt_linear_args product = product_at(memory);
    assert_int_equal(device->api->linear(stream, &product), 0);
    mt_assert_ok(device->api->stream_synchronize(stream, &error), &error);
    device->api->release(device, memory);
    device->api->stream_destroy(stream);
}

/* Nothing is left for the first product to take. */
static void libraries_are_opened_and_counted_with_the_device(void **state)
{
    (void)state;
    const struct mt_cuda_module *module = module_or_skip();
    struct mt_cuda_device_description closed, opened, later;
    struct mt_device *device;
    struct mt_device_info info, after;
    struct mt_error error = {0};
    const size_t limit = 512 * MIB;
    mt_assert_ok(module->describe(0, &closed, &error), &error);
    mt_assert_ok(open_with_limit(limit, &device, &info, &error), &error);
    mt_assert_ok(module->describe(0, &opened, &error), &error);
    assert_true(info.own_bytes >= mt_cuda_scratch_bytes(closed.total_bytes, limit));
    assert_int_equal(info.free_bytes, limit - info.own_bytes);
    multiply(device);
    device->api->info(device, &after);
    mt_assert_ok(module->describe(0, &later, &error), &error);
    assert_int_equal(after.own_bytes, info.own_bytes);
    assert_int_equal(after.free_bytes, info.free_bytes);
    if (module->simulated) { /* where how much the code of a fill and a product takes is known */
        assert_true(closed.free_bytes - opened.free_bytes > MT_CUDA_PARTS_BYTES);
        assert_true(opened.free_bytes - later.free_bytes < MIB);
    }
    mt_device_close(device);
}

/* The n-th counter of device memory in a trace, counted from 0. */
static size_t traced(const json_t *events, size_t number, const char *part)
{
    size_t i;
    json_t *event;
    json_array_foreach(events, i, event)
    {
        const char *kind = json_string_value(json_object_get(event, "ph"));
        if (kind && !strcmp(kind, "C") && number-- == 0)
            return (size_t)json_integer_value(json_object_get(json_object_get(event, "args"), part));
    }
    fail_msg("there are fewer counters");
    return 0;
}

static void a_trace_shows_what_the_device_takes_for_itself(void **state)
{
    struct mt_device *device;
    struct mt_device_info info;
    struct mt_error error = {0};
    mt_autojson json_t *events = NULL;
    void *memory;
    const char *path = mt_test_path(state, "trace.json");
    mt_assert_ok(open_with_limit(512 * MIB, &device, &info, &error), &error);
    mt_assert_ok(mt_trace_open(device, path, 1, &device, &error), &error);
    mt_assert_ok(device->api->allocate(device, 3 * MIB, &memory, &error), &error);
    device->api->release(device, memory);
    mt_device_close(device);
    mt_assert_ok(mt_json_read(path, MT_REASON_IO, &events, &error), &error);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(traced(events, i, "own"), info.own_bytes);
        assert_int_equal(traced(events, i, "other"), i == 1 ? 3 * MIB : 0);
    }
}

static void device_memory_ends_at_its_limit(void **state)
{
    (void)state;
    struct mt_device *device;
    struct mt_device_info info, after;
    struct mt_error error = {0};
    void *all, *more;
    int on_host;
    mt_assert_ok(open_with_limit(512 * MIB, &device, &info, &error), &error);
    for (int round = 0; round < 3; round++) {
        mt_assert_ok(device->api->allocate(device, info.free_bytes, &all, &error), &error);
        assert_int_equal((uintptr_t)all % 256, 0);
        assert_int_equal(device->api->allocate(device, 1, &more, &error), -ENOMEM);
        assert_int_equal(error.reason, MT_REASON_OUT_OF_MEMORY);
        mt_assert_mentions(error.message, "1 B (1 bytes) were asked for");
        mt_assert_mentions(error.message, "0 B are available of 512.0 MiB");
        mt_assert_mentions(error.message, "memory.device_limit");
        assert_null(more);
        device->api->release(device, all);
    }
    assert_int_equal(device->api->allocate(device, SIZE_MAX - 10, &more, &error), -ENOMEM);
    device->api->info(device, &after);
    assert_int_equal(after.free_bytes, info.free_bytes);
    device->api->release(device, NULL);
    assert_string_equal(device->api->last_error(device), "");
    device->api->release(device, &on_host);
    mt_assert_mentions(device->api->last_error(device), "not the start of an allocated block");
    mt_device_close(device);
}

/* All that is free is taken; then kernels are launched for the first time, whose code takes memory, too. */
static void all_that_is_free_leaves_room_for_code(void **state)
{
    (void)state;
    struct mt_device *device;
    struct mt_device_info info;
    struct mt_stream *stream;
    struct mt_error error = {0};
    void *all;
    mt_assert_ok(open_with_limit(0, &device, &info, &error), &error);
    const struct mt_device_api *api = device->api;
    mt_assert_ok(api->stream_create(device, "compute", &stream, &error), &error);
    /* On a real device others may take some meanwhile. */
    const size_t most = module_or_skip()->simulated ? info.free_bytes : info.free_bytes / 64 * 63;
    mt_assert_ok(api->allocate(device, most, &all, &error), &error);
    const struct mt_linear_args product = product_at(all);
    const struct mt_clip_args clip = {.x = all, .rows = 64, .cols = 64, .limit = 1, .dtype = MT_F32};
    const struct mt_add_args sum = {.b = all, .y = all, .count = 64, .scale = 1, .dtype = MT_F32};
    assert_int_equal(api->fill_zero(stream, all, PRODUCT_BYTES), 0);
    assert_int_equal(api->linear(stream, &product), 0);
    assert_int_equal(api->clip(stream, &clip), 0);
    assert_int_equal(api->add(stream, &sum), 0);
    mt_assert_ok(api->stream_synchronize(stream, &error), &error);
    api->stream_destroy(stream);
    mt_device_close(device);
}

/* Whether an address is part of this process's memory, and asked to be of huge pages. */
static bool mapped(const char *address, bool *huge)
{
    char line[512];
    bool here = false;
    *huge = false;
    FILE *file = fopen("/proc/self/smaps", "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        unsigned long first, last;
        if (sscanf(line, "%lx-%lx ", &first, &last) == 2)
            here = first <= (uintptr_t)address && (uintptr_t)address < last;
        else if (here && !strncmp(line, "VmFlags:", 8))
            *huge = strstr(line, " hg") != NULL;
    }
    fclose(file);
    return msync((void *)(uintptr_t)address, 1, MS_ASYNC) == 0;
}

static void host_memory_is_pinned_on_huge_pages_and_given_back(void **state)
{
    (void)state;
    struct mt_device *device;
    struct mt_device_info info;
    struct mt_error error = {0};
    const size_t sizes[] = {1, 4097, 5 * MIB + 1};
    mt_assert_ok(open_with_limit(0, &device, &info, &error), &error);
    for (size_t i = 0; i < 3; i++) {
        void *memory;
        bool pinned = false, huge;
        mt_assert_ok(device->api->host_allocate(device, sizes[i], &memory, &pinned, &error), &error);
        char *const first = memory, *const last = first + (sizes[i] - 1) / 4096 * 4096;
        memset(memory, 1, sizes[i]);
        if (module_or_skip()->simulated)
            assert_true(pinned);
        assert_true(mapped(last, &huge));
        if (sizes[i] >= 2 * MIB) {
            assert_int_equal((uintptr_t)memory % (2 * MIB), 0);
            assert_true(huge || access("/sys/kernel/mm/transparent_hugepage", F_OK));
        }
        device->api->host_release(device, memory);
        assert_false(mapped(first, &huge));
        assert_false(mapped(last, &huge));
    }
    assert_string_equal(device->api->last_error(device), "");
    device->api->host_release(device, &info);
    mt_assert_mentions(device->api->last_error(device), "not the start of an allocated block");
    mt_device_close(device);
}

/* ---- in a process of its own, with settings of the simulated device ---- */

static const char *wanted; /* of a child */

static int handles_take_more_than_planned(void)
{
    struct mt_device *device;
    struct mt_device_info info;
    struct mt_error error = {0};
    const size_t limit = 256 * MIB, total = (size_t)1 << 30;
    if (open_with_limit(limit, &device, &info, &error))
        return 1;
    const size_t counted = MT_CUDA_PARTS_BYTES + mt_cuda_blas_bytes(total, limit) + 40 * MIB;
    mt_device_close(device);
    return info.own_bytes != counted || info.free_bytes != limit - counted;
}

static int handles_do_not_fit(void)
{
    struct mt_device *device;
    struct mt_device_info info;
    struct mt_error error = {0};
    return open_with_limit(30 * MIB, &device, &info, &error) != -ENOMEM ||
           error.reason != MT_REASON_OUT_OF_MEMORY || !strstr(error.message, "40.0 MiB");
}

static int no_pinned_memory(void)
{
    struct mt_device *device;
    struct mt_device_info info;
    struct mt_error error = {0};
    return open_with_limit(0, &device, &info, &error) != -ENOMEM || error.reason != MT_REASON_OUT_OF_MEMORY ||
           !strstr(error.message, "no pinned host memory") || strstr(error.message, "GPU's memory");
}

/* A copy, a fill or a launch that the driver refuses fails its call and the device, with `wanted` in the
 * sentence. */
static int a_refused_call_fails_the_device(void)
{
    struct mt_device *device;
    struct mt_device_info info;
    struct mt_stream *stream;
    struct mt_error error = {0};
    void *memory, *host;
    if (open_with_limit(0, &device, &info, &error) ||
        device->api->stream_create(device, "s", &stream, &error) ||
        device->api->allocate(device, 64, &memory, &error) ||
        device->api->host_allocate(device, 64, &host, NULL, &error))
        return 1;
    const struct mt_device_api *api = device->api;
    const struct mt_add_args sum = {.b = memory, .y = memory, .count = 16, .scale = 1, .dtype = MT_F32};
    const int code =
        !strcmp(wanted, "a copy to the device failed") ? api->copy_to_device(stream, memory, host, 64)
        : !strcmp(wanted, "a copy to the host failed") ? api->copy_to_host(stream, host, memory, 64)
        : !strcmp(wanted, "add failed")                ? api->add(stream, &sum)
                                                       : api->fill_zero(stream, memory, 64);
    const bool told = code == -EIO && strstr(api->last_error(device), wanted) &&
                      api->stream_synchronize(stream, &error) == -EIO && strstr(error.message, wanted);
    api->stream_destroy(stream);
    mt_device_close(device);
    return !told;
}

/* Whether an error is of memory that ran out, with `wanted` in the sentence. */
static bool ran_out(int code, const struct mt_error *error)
{
    const bool told = code == -ENOMEM && error->code == -ENOMEM && error->reason == MT_REASON_OUT_OF_MEMORY &&
                      strstr(error->message, wanted);
    if (!told)
        fprintf(stderr, "%d, not -ENOMEM with \"%s\": %s\n", code, wanted, error->message);
    return told;
}

static int no_memory_to_open(void)
{
    struct mt_device *device;
    struct mt_device_info info;
    struct mt_error error = {0};
    return !ran_out(open_with_limit(0, &device, &info, &error), &error);
}

static int no_memory_to_start(void)
{
    struct mt_error error = {0};
    return !ran_out(mt_device_check("cuda", &error), &error);
}

/* Another job may hold it now; plans are for what it has. */
static int a_full_device_has_the_memory_that_it_has(void)
{
    return mt_device_gpu_bytes("cuda") != (size_t)1 << 30 ||
           mt_device_gpu_bytes("cuda:0") != (size_t)1 << 30 ||
           mt_device_gpu_bytes("auto") != (size_t)1 << 30 || mt_device_gpu_bytes("cpu");
}

static int an_unusable_device_has_no_memory(void)
{
    return mt_device_gpu_bytes("cuda") || mt_device_gpu_bytes("auto");
}

static int no_memory_to_open_under_a_limit_of_addresses(void)
{
    const struct rlimit limit = {(rlim_t)1 << 50, (rlim_t)1 << 50};
    return setrlimit(RLIMIT_AS, &limit) || no_memory_to_open();
}

/* What cannot be made fails its call, and not the device. */
static int no_memory_for_a_stream_and_an_event(void)
{
    struct mt_device *device;
    struct mt_device_info info;
    struct mt_stream *stream, *none;
    struct mt_event *event, *no_event;
    struct mt_error error = {0};
    if (open_with_limit(0, &device, &info, &error))
        return 1;
    const struct mt_device_api *api = device->api;
    const bool told = ran_out(api->stream_create(device, "first", &none, &error), &error) && !none &&
                      ran_out(api->event_create(device, &no_event, &error), &error) && !no_event;
    if (!told || *api->last_error(device) || api->stream_create(device, "second", &stream, &error) ||
        api->event_create(device, &event, &error))
        return 1;
    api->event_destroy(event);
    api->stream_destroy(stream);
    mt_device_close(device);
    return 0;
}

/* A kernel whose code finds no room fails the device, and all that follows tells for what. */
static int no_memory_in_the_middle(void)
{
    struct mt_device *device;
    struct mt_device_info info;
    struct mt_stream *stream;
    struct mt_error error = {0};
    void *memory;
    if (open_with_limit(0, &device, &info, &error) ||
        device->api->stream_create(device, "s", &stream, &error) ||
        device->api->allocate(device, 64, &memory, &error))
        return 1;
    const struct mt_device_api *api = device->api;
    const struct mt_add_args sum = {.b = memory, .y = memory, .count = 16, .scale = 1, .dtype = MT_F32};
    const bool told = api->add(stream, &sum) == -ENOMEM && api->fill_zero(stream, memory, 64) == -ENOMEM &&
                      ran_out(api->stream_synchronize(stream, &error), &error);
    api->stream_destroy(stream);
    mt_device_close(device);
    return !told;
}

/* A thread that has never used CUDA finds the right device current, whatever it does first. */
static void *work_on(void *device)
{
    multiply(device);
    return NULL;
}

static int a_second_device_on_other_threads(void)
{
    struct mt_device *device;
    struct mt_error error = {0};
    if (module_or_skip()->open(1, NULL, &device, &error))
        return 1;
    for (int i = 0; i < 2; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, work_on, device) || pthread_join(thread, NULL))
            return 1;
    }
    const bool well = !*device->api->last_error(device);
    mt_device_close(device);
    return !well;
}

static int an_error_says_what_to_do(void)
{
    struct mt_device *device;
    struct mt_device_info info;
    struct mt_error error = {0};
    const bool said = open_with_limit(0, &device, &info, &error) == -ENODEV &&
                      error.reason == MT_REASON_DEVICE &&
                      strstr(error.message, "cuda:0 (Simulated CUDA device) cannot be used: ") &&
                      strstr(error.message, wanted);
    if (!said)
        fprintf(stderr, "\"%s\" is not in: %s\n", wanted, error.message);
    return !said;
}

static int what_is_said_of_a_device(void)
{
    struct mt_cuda_device_description d;
    const struct mt_cuda_module *module = module_or_skip();
    int devices = 0;
    return module->count(&devices, NULL) || devices != 3 || module->describe(1, &d, NULL) ||
           strcmp(d.id, "cuda:1") != 0 || d.capability != 80 || d.memory_bus_bits != 256 ||
           !d.multiprocessors || strcmp(d.bus_id, "0000:02:00.0") != 0 || d.peers != 5 ||
           d.total_bytes != (size_t)1 << 30 || d.unusable[0] || module->describe(3, &d, NULL) != -ENODEV;
}

static const struct {
    const char *name, *variable, *value;
    int (*run)(void);
    const char *wanted;
} children[] = {
    {"described", "CUDASIM_DEVICES", "3", what_is_said_of_a_device, NULL},
    {"second", "CUDASIM_DEVICES", "2", a_second_device_on_other_threads, NULL},
    {"2", "CUDASIM_FAIL", "cudaSetDevice:1-:2", no_memory_to_open, "end other programs that use it"},
    {"context", "CUDASIM_FAIL", "cudaInitDevice:1-", no_memory_to_open, "end other programs that use it"},
    {"start", "CUDASIM_FAIL", "cudaGetDeviceCount:1-:2", no_memory_to_start, "no CUDA device can be used"},
    {"addresses", "CUDASIM_FAIL", "cudaInitDevice:1-", no_memory_to_open_under_a_limit_of_addresses,
     "ulimit -v"},
    {"planned", "CUDASIM_FAIL", "cudaInitDevice:1-", a_full_device_has_the_memory_that_it_has, NULL},
    {"unplanned", "CUDASIM_CODE", "90", an_unusable_device_has_no_memory, NULL},
    {"stream", "CUDASIM_FAIL", "cudaStreamCreate:1,cudaEventCreate:1", no_memory_for_a_stream_and_an_event,
     "failed: out of memory"},
    {"launched", "CUDASIM_FAIL", "launch:1:2", no_memory_in_the_middle, "add failed: out of memory"},
    {"34", "CUDASIM_FAIL", "cudaSetDevice:1-:34", an_error_says_what_to_do, "lib64/stubs"},
    {"uncoded", "CUDASIM_CODE", "90", an_error_says_what_to_do, "build with CUDA_ARCHS set"},
    {"98", "CUDASIM_FAIL", "cudaFuncGetAttributes:1-", an_error_says_what_to_do, "build with CUDA_ARCHS set"},
    {"221", "CUDASIM_FAIL", "cudaFuncGetAttributes:1-:221", an_error_says_what_to_do, "ptxjitcompiler"},
    {"222", "CUDASIM_FAIL", "cudaFuncGetAttributes:1-:222", an_error_says_what_to_do, "a newer driver"},
    {"46", "CUDASIM_FAIL", "cudaSetDevice:1-:46", an_error_says_what_to_do, "in exclusive use"},
    {"209", "CUDASIM_FAIL", "cudaSetDevice:1-:209", an_error_says_what_to_do, "build with CUDA_ARCHS set"},
    {"214", "CUDASIM_FAIL", "cudaSetDevice:1-:214", an_error_says_what_to_do, "the card is failing"},
    {"700", "CUDASIM_FAIL", "cudaSetDevice:1-:700", an_error_says_what_to_do, "resumed from its last"},
    {"702", "CUDASIM_FAIL", "cudaSetDevice:1-:702", an_error_says_what_to_do, "display's watchdog"},
    {"719", "CUDASIM_FAIL", "cudaSetDevice:1-:719", an_error_says_what_to_do, "an Xid line"},
    {"802", "CUDASIM_FAIL", "cudaSetDevice:1-:802", an_error_says_what_to_do, "nvidia-fabricmanager"},
    {"803", "CUDASIM_FAIL", "cudaSetDevice:1-:803", an_error_says_what_to_do, "restart the machine"},
    {"999", "CUDASIM_FAIL", "cudaSetDevice:1-:999", an_error_says_what_to_do, "or restart the machine"},
    {"804", "CUDASIM_FAIL", "cudaSetDevice:1-:804", an_error_says_what_to_do, "out of LD_LIBRARY_PATH"},
    {"unpinned", "CUDASIM_FAIL", "cudaHostAlloc:1", no_pinned_memory, NULL},
    {"in", "CUDASIM_FAIL", "cudaMemcpyAsync:1", a_refused_call_fails_the_device,
     "a copy to the device failed"},
    {"out", "CUDASIM_FAIL", "cudaMemcpyAsync:1", a_refused_call_fails_the_device,
     "a copy to the host failed"},
    {"fill", "CUDASIM_FAIL", "cudaMemsetAsync:1", a_refused_call_fails_the_device,
     "filling memory with zeros"},
    {"launch", "CUDASIM_FAIL", "launch:1", a_refused_call_fails_the_device, "add failed"},
    {"more", "CUDASIM_LIBRARY_MEMORY", "40M", handles_take_more_than_planned, NULL},
    {"small", "CUDASIM_LIBRARY_MEMORY", "40M", handles_do_not_fit, NULL},
    {"failing", "CUDASIM_FAIL", "cublasCreate:1", no_memory_to_open, "opening cuBLAS failed"},
    {"lt", "CUDASIM_FAIL", "cublasLtCreate:1", no_memory_to_open, "opening cuBLASLt failed"},
    {"full", "CUDASIM_LIBRARY_MEMORY", "2G", no_memory_to_open, "cuBLAS found no memory"},
};

static void what_a_device_is_or_lacks_is_told_at_the_start(void **state)
{
    (void)state;
    if (!module_or_skip()->simulated)
        mt_test_skip("needs the simulated device");
    for (size_t i = 0; i < sizeof children / sizeof *children; i++) {
        int status;
        fflush(NULL);
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            setenv(children[i].variable, children[i].value, 1);
            execl("/proc/self/exe", "test_cuda", children[i].name, (char *)NULL);
            _exit(99);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        if (!WIFEXITED(status) || WEXITSTATUS(status))
            fail_msg("%s: status %#x", children[i].name, (unsigned)status);
    }
}

/* ---- waiting ---- */

#define PAUSE_SECONDS 0.3

static void pause_in_stream(void *context)
{
    (void)context;
    const struct timespec time = {.tv_nsec = (long)(PAUSE_SECONDS * 1e9)};
    nanosleep(&time, NULL);
}

static double core_seconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void who_waits_leaves_its_core_to_others(void **state)
{
    (void)state;
    struct mt_device *device;
    struct mt_stream *stream;
    struct mt_event *event;
    struct mt_error error = {0};
    mt_assert_ok(module_or_skip()->open(0, NULL, &device, &error), &error);
    mt_assert_ok(device->api->stream_create(device, "paused", &stream, &error), &error);
    mt_assert_ok(device->api->event_create(device, &event, &error), &error);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(device->api->stream_host_function(stream, pause_in_stream, NULL), 0);
        assert_int_equal(device->api->event_record(event, stream), 0);
        const double core = core_seconds(), start = mt_time_monotonic();
        mt_assert_ok(round ? device->api->stream_synchronize(stream, &error)
                           : device->api->event_synchronize(event, &error),
                     &error);
        assert_true(mt_time_monotonic() - start > PAUSE_SECONDS / 2);
        assert_true(core_seconds() - core < PAUSE_SECONDS / 4);
    }
    device->api->event_destroy(event);
    device->api->stream_destroy(stream);
    mt_device_close(device);
}

int main(int argc, char **argv)
{
    for (size_t i = 0; i < sizeof children / sizeof *children; i++)
        if (argc > 1 && !strcmp(argv[1], children[i].name)) {
            wanted = children[i].wanted;
            return children[i].run();
        }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(libraries_are_opened_and_counted_with_the_device),
        mt_test_in_folder(a_trace_shows_what_the_device_takes_for_itself),
        cmocka_unit_test(device_memory_ends_at_its_limit),
        cmocka_unit_test(all_that_is_free_leaves_room_for_code),
        cmocka_unit_test(host_memory_is_pinned_on_huge_pages_and_given_back),
        cmocka_unit_test(what_a_device_is_or_lacks_is_told_at_the_start),
        cmocka_unit_test(who_waits_leaves_its_core_to_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
