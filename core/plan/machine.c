#include "core/plan/machine.h"

#include "core/base/cleanup.h"
#include "core/base/memory.h"
#include "core/base/pool.h"
#include "core/base/size.h"
#include "core/base/time.h"
#include "core/device/cuda_memory.h"
#include "core/device/open.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GIB ((size_t)1 << 30)
#define MIB ((size_t)1 << 20)

/* A GPU of which nothing is said: a present-day card on PCIe 4 beside two channels of DDR5, at rates that
 * matrix products and copies reach in practice. */
static const struct mt_plan_rates assumed_gpu = {
    .device_flops = 100e12,
    .device_bytes_per_second = 800e9,
    .bus_bytes_per_second = 24e9,
    .bus_latency_seconds = 10e-6,
    .memory_bytes_per_second = 60e9,
};
/* And a processor that is not to be measured. */
static const struct mt_plan_rates assumed_cpu = {
    .device_flops = 200e9,
    .device_bytes_per_second = 20e9,
    .bus_bytes_per_second = 20e9,
    .bus_latency_seconds = 5e-6,
    .memory_bytes_per_second = 20e9,
};

/* The driver's context and the libraries' code on a GPU. */
#define GPU_RESERVED (600 * MIB)

/* ---- what is asked ---- */

static int read_size(const json_t *object, const char *key, size_t *bytes, struct mt_error *error)
{
    const json_t *value = json_object_get(object, key);
    if (!value)
        return 0;
    if (json_is_integer(value) && json_integer_value(value) > 0) {
        *bytes = (size_t)json_integer_value(value);
        return 0;
    }
    const char *text = json_string_value(value);
    if (text && mt_size_parse(text, bytes) == 0 && *bytes > 0)
        return 0;
    return mt_error_set(error, -EINVAL, MT_REASON_USAGE, "%s takes a size like 24G or 512MiB%s%s%s", key,
                        text ? ", found \"" : "", text ? text : "", text ? "\"" : "");
}

static int read_rate(const json_t *object, const char *key, double unit, double *rate, struct mt_error *error)
{
    const json_t *value = json_object_get(object, key);
    if (!value)
        return 0;
    *rate = json_number_value(value) * unit;
    if (json_is_number(value) && isfinite(*rate) && *rate > 0)
        return 0;
    return mt_error_set(error, -EINVAL, MT_REASON_USAGE, "%s takes a number above 0", key);
}

int mt_plan_wish_from_json(const json_t *object, struct mt_plan_wish *wish, struct mt_error *error)
{
    static const char *const known[] = {"gpu_memory",    "host_memory", "bus_gbps", "bus_latency_us",
                                        "device_tflops", "device_gbps", "dram_gbps"};
    const char *key;
    json_t *value;
    *wish = (struct mt_plan_wish){0};
    if (object && !json_is_object(object))
        return mt_error_set(error, -EINVAL, MT_REASON_USAGE, "the machine must be an object");
    json_object_foreach((json_t *)(uintptr_t)object, key, value)
    {
        bool found = false;
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            found = found || strcmp(known[i], key) == 0;
        if (!found)
            return mt_error_set(error, -EINVAL, MT_REASON_USAGE,
                                "\"%.100s\" says nothing of a machine (known: gpu_memory, host_memory, "
                                "bus_gbps, bus_latency_us, device_tflops, device_gbps, dram_gbps)",
                                key);
    }
    struct mt_plan_rates *rates = &wish->rates;
    int r = read_size(object, "gpu_memory", &wish->gpu_bytes, error);
    r = r ? r : read_size(object, "host_memory", &wish->host_bytes, error);
    r = r ? r : read_rate(object, "bus_gbps", 1e9, &rates->bus_bytes_per_second, error);
    r = r ? r : read_rate(object, "bus_latency_us", 1e-6, &rates->bus_latency_seconds, error);
    r = r ? r : read_rate(object, "device_tflops", 1e12, &rates->device_flops, error);
    r = r ? r : read_rate(object, "device_gbps", 1e9, &rates->device_bytes_per_second, error);
    return r ? r : read_rate(object, "dram_gbps", 1e9, &rates->memory_bytes_per_second, error);
}

/* ---- measuring this processor ---- */

#define PROBE_TOKENS 256u
#define PROBE_WIDTH 1024u
#define PROBE_BYTES (16 * MIB)

static int time_product(struct mt_device *device, struct mt_stream *stream, float *memory, double *flops,
                        struct mt_error *error)
{
    const struct mt_linear_args args = {
        .x = memory,
        .weight = memory + PROBE_TOKENS * PROBE_WIDTH,
        .y = memory + PROBE_TOKENS * PROBE_WIDTH + PROBE_WIDTH * PROBE_WIDTH,
        .tokens = PROBE_TOKENS,
        .in_features = PROBE_WIDTH,
        .out_features = PROBE_WIDTH,
        .dtype = MT_F32,
    };
    *flops = 0;
    for (int i = 0; i < 4; i++) { /* the first one wakes the threads */
        const double start = mt_time_monotonic();
        int r = device->api->linear(stream, &args);
        r = r ? r : device->api->stream_synchronize(stream, error);
        if (r)
            return r;
        const double seconds = fmax(mt_time_monotonic() - start, 1e-9);
        *flops = fmax(*flops, 2.0 * PROBE_TOKENS * PROBE_WIDTH * PROBE_WIDTH / seconds);
    }
    return 0;
}

struct copying {
    char *memory;
    size_t parts;
};

static void copy_part(void *context, size_t part)
{
    const struct copying *work = context;
    const size_t bytes = PROBE_BYTES / work->parts;
    memcpy(work->memory + PROBE_BYTES + part * bytes, work->memory + part * bytes, bytes);
}

static double time_memory(struct mt_pool *pool, char *memory)
{
    struct copying work = {memory, mt_pool_threads(pool)};
    double best = 0;
    for (int i = 0; i < 3; i++) {
        const double start = mt_time_monotonic();
        mt_pool_run(pool, work.parts, copy_part, &work);
        best = fmax(best, 2.0 * (double)PROBE_BYTES / fmax(mt_time_monotonic() - start, 1e-9));
    }
    return best;
}

static int measure_cpu(struct mt_plan_rates *rates, struct mt_error *error)
{
    struct mt_pool *pool = mt_pool_new(0);
    struct mt_device *device = NULL;
    struct mt_stream *stream = NULL;
    const struct mt_device_options options = {.pool = pool};
    mt_autofree char *memory = calloc(2, PROBE_BYTES);
    int r = pool && memory
                ? 0
                : mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory to measure this machine");
    r = r ? r : mt_device_open("cpu", &options, &device, error);
    r = r ? r : device->api->stream_create(device, "probe", &stream, error);
    r = r ? r : time_product(device, stream, (float *)(void *)memory, &rates->device_flops, error);
    if (r == 0) {
        rates->memory_bytes_per_second = time_memory(pool, memory);
        rates->device_bytes_per_second = rates->bus_bytes_per_second = rates->memory_bytes_per_second;
        rates->bus_latency_seconds = assumed_cpu.bus_latency_seconds;
    }
    if (stream)
        device->api->stream_destroy(stream);
    mt_device_close(device);
    mt_pool_free(pool);
    return r;
}

/* ---- choosing ---- */

static void prefer(double *rate, double wish, double otherwise, bool *all_given)
{
    *rate = wish > 0 ? wish : otherwise;
    *all_given = *all_given && wish > 0;
}

static int choose_rates(const struct mt_job *job, const struct mt_plan_wish *wish, bool measure,
                        struct mt_plan_machine *machine, struct mt_error *error)
{
    struct mt_plan_rates wished = wish->rates, base = assumed_gpu;
    const bool gpu = !machine->borrows_memory;
    if (!gpu && job->memory.bus_gbps > 0 && !machine->host_memory && wished.bus_bytes_per_second == 0)
        wished.bus_bytes_per_second = job->memory.bus_gbps * 1e9;
    if (!gpu && job->memory.bus_latency_us > 0 && wished.bus_latency_seconds == 0)
        wished.bus_latency_seconds = job->memory.bus_latency_us * 1e-6;
    machine->rates_source = "assumed";
    if (!gpu) {
        base = assumed_cpu;
        const bool needed = wished.device_flops == 0 || wished.memory_bytes_per_second == 0;
        int r = measure && needed ? measure_cpu(&base, error) : 0;
        if (r)
            return r;
        if (measure && needed)
            machine->rates_source = "measured";
    }
    bool all_given = true, beside = true;
    struct mt_plan_rates *rates = &machine->rates;
    prefer(&rates->device_flops, wished.device_flops, base.device_flops, &all_given);
    prefer(&rates->memory_bytes_per_second, wished.memory_bytes_per_second, base.memory_bytes_per_second,
           &all_given);
    prefer(&rates->bus_bytes_per_second, wished.bus_bytes_per_second, base.bus_bytes_per_second,
           machine->host_memory ? &beside : &all_given);
    prefer(&rates->device_bytes_per_second, wished.device_bytes_per_second,
           gpu ? base.device_bytes_per_second : rates->memory_bytes_per_second, &beside);
    prefer(&rates->bus_latency_seconds, wished.bus_latency_seconds, base.bus_latency_seconds, &beside);
    if (all_given)
        machine->rates_source = "given";
    return 0;
}

int mt_plan_machine_choose(const struct mt_job *job, const struct mt_plan_wish *wish, bool measure,
                           struct mt_plan_machine *machine, struct mt_error *error)
{
    const size_t gpu_bytes = wish->gpu_bytes ? wish->gpu_bytes : mt_device_gpu_bytes(job->device);
    const bool gpu = gpu_bytes > 0 || strncmp(job->device, "cuda", 4) == 0;
    const bool discrete = gpu || strcmp(job->device, "cpu-discrete") == 0;
    *machine = (struct mt_plan_machine){
        .host_memory = !discrete,
        .shares_cores = !gpu,
        .borrows_memory = !gpu,
        .host_bytes = wish->host_bytes ? wish->host_bytes : mt_memory_total(),
    };
    machine->available_bytes = wish->host_bytes ? wish->host_bytes : mt_memory_available();
    if (gpu) {
        machine->device_bytes = gpu_bytes ? gpu_bytes : 24 * GIB;
        const size_t all = machine->device_bytes, limit = job->memory.device_limit_bytes;
        machine->reserved_bytes = mt_size_min(GPU_RESERVED, all / 2);
        if (limit && limit < all - machine->reserved_bytes)
            machine->reserved_bytes = all - limit;
        machine->scratch_bytes = mt_cuda_scratch_bytes(all, limit);
    } else if (discrete) {
        machine->device_bytes = job->memory.device_limit_bytes ? job->memory.device_limit_bytes : GIB;
    } else {
        machine->device_bytes = machine->host_bytes;
    }
    snprintf(machine->kind, sizeof machine->kind, "%s", gpu ? "cuda" : discrete ? "cpu-discrete" : "cpu");
    return choose_rates(job, wish, measure, machine, error);
}
