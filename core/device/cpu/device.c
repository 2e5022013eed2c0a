/* The CPU devices: "cpu", whose memory is the host's, and "cpu-discrete", the same processor with memory of
 * its own behind a bus of settable speed, on which the streaming schedule is proven without an accelerator.
 */
#include "core/device/cpu/device.h"

#include "core/base/memory.h"
#include "core/base/size.h"
#include "core/device/cpu/blas.h"
#include "core/device/cpu/cpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE_BYTES 4096u
#define HUGE_PAGE_BYTES ((size_t)2 << 20)

/* ---- what the machine is ---- */

static void processor_name(char *name, size_t bytes)
{
    snprintf(name, bytes, "CPU");
    FILE *file = fopen("/proc/cpuinfo", "re");
    if (!file)
        return;
    char line[256];
    while (fgets(line, sizeof line, file)) {
        const char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) || !colon)
            continue;
        colon++;
        colon += strspn(colon, " \t");
        snprintf(name, bytes, "%.*s", (int)strcspn(colon, "\n"), colon);
        break;
    }
    fclose(file);
}

static void device_info(struct mt_device *device, struct mt_device_info *info)
{
    const struct mt_cpu_device *cpu = (const struct mt_cpu_device *)device;
    *info = (struct mt_device_info){.host_memory = !cpu->memory, .supports_bf16 = true};
    processor_name(info->name, sizeof info->name);
    snprintf(info->kind, sizeof info->kind, "%s", cpu->memory ? "cpu-discrete" : "cpu");
    snprintf(info->id, sizeof info->id, "%s", info->kind);
    char blas[40];
    mt_blas_name(blas, sizeof blas);
    snprintf(info->kernel_set, sizeof info->kernel_set, "cpu-%s %s", mt_cpu_level_name(mt_cpu_level()), blas);
    if (cpu->memory) {
        info->total_bytes = mt_cpu_memory_total(cpu->memory);
        info->free_bytes = mt_cpu_memory_available(cpu->memory);
    } else {
        info->total_bytes = mt_memory_total();
        info->free_bytes = mt_memory_available();
    }
}

/* ---- memory ---- */

static bool fails_now(size_t *countdown)
{
    return *countdown && --*countdown == 0;
}

/* Large blocks in huge pages, as far as they fill them: the first touch of a page, and finding it again, then
 * cost a fraction. */
static int allocate_host(size_t alignment, size_t bytes, void **memory, struct mt_error *error)
{
    const bool large = bytes >= HUGE_PAGE_BYTES;
    size_t rounded;
    *memory = NULL;
    if (mt_size_align(mt_size_max(bytes, 1), alignment, &rounded) &&
        posix_memalign(memory, large ? HUGE_PAGE_BYTES : alignment, rounded) != 0)
        *memory = NULL;
    if (*memory && large)
        madvise(*memory, bytes / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES, MADV_HUGEPAGE); /* a wish */
    if (*memory)
        return 0;
    char asked[32], have[32];
    return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY,
                        "no host memory for a block of %s: %s are available",
                        mt_size_format(bytes, asked, 32), mt_size_format(mt_memory_available(), have, 32));
}

static int device_allocate(struct mt_device *device, size_t bytes, void **address, struct mt_error *error)
{
    struct mt_cpu_device *cpu = (struct mt_cpu_device *)device;
    *address = NULL;
    if (fails_now(&cpu->fail_allocation))
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY,
                            "no device memory for a block of %zu bytes (a failure that was asked for)",
                            bytes);
    return cpu->memory ? mt_cpu_memory_allocate(cpu->memory, bytes, address, error)
                       : allocate_host(256, bytes, address, error);
}

static void device_release(struct mt_device *device, void *address)
{
    struct mt_cpu_device *cpu = (struct mt_cpu_device *)device;
    if (!address)
        return;
    if (!cpu->memory)
        free(address);
    else if (!mt_cpu_memory_release(cpu->memory, address))
        mt_cpu_fail(cpu, "release: %p is not the start of an allocated block of device memory", address);
}

static int host_allocate(struct mt_device *device, size_t bytes, void **memory, bool *pinned,
                         struct mt_error *error)
{
    (void)device;
    if (pinned)
        *pinned = true; /* nothing to pin: every page can be copied from at full speed */
    return allocate_host(PAGE_BYTES, bytes, memory, error);
}

static void host_release(struct mt_device *device, void *memory)
{
    (void)device;
    free(memory);
}

/* ---- opening and closing ---- */

static const char *last_error(struct mt_device *device)
{
    struct mt_cpu_device *cpu = (struct mt_cpu_device *)device;
    int faulted;
    while ((faulted = __atomic_load_n(&cpu->faulted, __ATOMIC_ACQUIRE)) == 1)
        continue; /* another thread is writing the sentence */
    return faulted ? cpu->fault : "";
}

static void device_close(struct mt_device *device)
{
    struct mt_cpu_device *cpu = (struct mt_cpu_device *)device;
    mt_cpu_memory_free(cpu->memory);
    free(cpu);
}

static const struct mt_device_api api = {
    .version = MT_DEVICE_API_VERSION,
    .info = device_info,
    .close = device_close,
    .last_error = last_error,
    .allocate = device_allocate,
    .release = device_release,
    .host_allocate = host_allocate,
    .host_release = host_release,
    .stream_create = mt_cpu_stream_create,
    .stream_destroy = mt_cpu_stream_destroy,
    .stream_synchronize = mt_cpu_stream_synchronize,
    .stream_host_function = mt_cpu_stream_host_function,
    .event_create = mt_cpu_event_create,
    .event_destroy = mt_cpu_event_destroy,
    .event_record = mt_cpu_event_record,
    .event_wait = mt_cpu_event_wait,
    .event_synchronize = mt_cpu_event_synchronize,
    .copy_to_device = mt_cpu_copy_to_device,
    .copy_to_host = mt_cpu_copy_to_host,
    .copy = mt_cpu_copy,
    .fill_zero = mt_cpu_fill_zero,
    .embedding = mt_cpu_embedding,
    .embedding_backward = mt_cpu_embedding_backward,
    .rms_norm = mt_cpu_rms_norm,
    .rms_norm_backward = mt_cpu_rms_norm_backward,
    .linear = mt_cpu_linear,
    .linear_backward_input = mt_cpu_linear_backward_input,
    .linear_backward_weight = mt_cpu_linear_backward_weight,
    .rope = mt_cpu_rope,
    .attention_workspace_bytes = mt_cpu_attention_workspace_bytes,
    .attention = mt_cpu_attention,
    .attention_backward = mt_cpu_attention_backward,
    .gated_activation = mt_cpu_gated_activation,
    .gated_activation_backward = mt_cpu_gated_activation_backward,
    .add = mt_cpu_add,
    .xielu = mt_cpu_xielu,
    .xielu_backward = mt_cpu_xielu_backward,
    .clip = mt_cpu_clip,
    .cross_entropy_statistics = mt_cpu_cross_entropy_statistics,
    .cross_entropy_finish = mt_cpu_cross_entropy_finish,
    .cross_entropy_backward = mt_cpu_cross_entropy_backward,
    .sum_squares = mt_cpu_sum_squares,
    .cast = mt_cpu_cast,
};

int mt_cpu_device_open(bool discrete, const struct mt_device_options *options, struct mt_device **device,
                       struct mt_error *error)
{
    struct mt_cpu_device *cpu = calloc(1, sizeof *cpu);
    if (!cpu)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory for the device");
    cpu->base.api = &api;
    if (options) {
        cpu->pool = options->pool;
        cpu->bus_bytes_per_second = options->bus_bytes_per_second;
        cpu->bus_latency_seconds = options->bus_latency_seconds;
        cpu->delay_seed = options->test_delay_seed;
        cpu->delay_microseconds = options->test_delay_microseconds;
        cpu->fail_allocation = options->test_fail_allocation;
        cpu->fail_copy = options->test_fail_copy;
    }
    if (discrete) {
        const size_t limit =
            options && options->memory_limit_bytes ? options->memory_limit_bytes : (size_t)1 << 30;
        cpu->memory = mt_cpu_memory_new(limit);
        if (!cpu->memory) {
            free(cpu);
            return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY,
                                "no address space for the %zu bytes of device memory of cpu-discrete", limit);
        }
    }
    mt_blas_single_threaded();
    /* The pool has helpers, and the compute stream works beside them; one to spare. */
    int r = cpu->pool ? mt_blas_reserve(mt_pool_threads(cpu->pool) + 1, error) : 0;
    if (r < 0) {
        device_close(&cpu->base);
        return r;
    }
    *device = &cpu->base;
    return 0;
}
