/* Launches: what is refused at the call, and the way into the queue. */
#include "tests/cudasim/sim.h"

#include <fcntl.h>
#include <map>
#include <set>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SHARED_BYTES_USUAL ((size_t)48 << 10)

struct launch {
    struct cudasim_kernel kernel;
    alignas(16) unsigned char closure[CUDASIM_ARGUMENT_BYTES];
};

static struct sim_lock attributes_lock;
static std::map<const void *, int> *shared_limits;

static size_t shared_limit(const void *function)
{
    size_t limit = SHARED_BYTES_USUAL;
    sim_take(&attributes_lock);
    if (shared_limits) {
        auto found = shared_limits->find(function);
        if (found != shared_limits->end() && (size_t)found->second > limit)
            limit = (size_t)found->second;
    }
    sim_give(&attributes_lock);
    return limit;
}

cudaError_t cudaFuncSetAttribute(const void *function, enum cudaFuncAttribute attribute, int value)
{
    if (attribute == cudaFuncAttributePreferredSharedMemoryCarveout)
        return cudaSuccess;
    struct cudaDeviceProp properties;
    const cudaError_t error = cudaGetDeviceProperties(&properties, sim_current_device());
    if (error)
        return error;
    if (!function || attribute != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0 ||
        (size_t)value > properties.sharedMemPerBlockOptin) {
        sim_report("cudaFuncSetAttribute: %d bytes of dynamic shared memory; a block has at most %zu", value,
                   properties.sharedMemPerBlockOptin);
        return sim_error(cudaErrorInvalidValue);
    }
    const struct sim_unseen unseen;
    sim_take(&attributes_lock);
    if (!shared_limits)
        shared_limits = new std::map<const void *, int>();
    (*shared_limits)[function] = value;
    sim_give(&attributes_lock);
    return cudaSuccess;
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *function, int block_size,
                                                          size_t shared_bytes)
{
    struct cudaDeviceProp properties;
    const cudaError_t error = cudaGetDeviceProperties(&properties, sim_current_device());
    if (error)
        return error;
    if (!blocks || block_size < 1 || block_size > properties.maxThreadsPerBlock ||
        shared_bytes > shared_limit(function))
        return sim_error(cudaErrorInvalidValue);
    const int by_threads = properties.maxThreadsPerMultiProcessor / block_size;
    const int by_memory =
        (int)(properties.sharedMemPerMultiprocessor / (shared_bytes + properties.reservedSharedMemPerBlock));
    *blocks = by_threads < by_memory ? by_threads : by_memory;
    if (*blocks > properties.maxBlocksPerMultiProcessor)
        *blocks = properties.maxBlocksPerMultiProcessor;
    return cudaSuccess;
}

cudaError_t cudaOccupancyMaxPotentialBlockSizeC(int *grid, int *block, const void *, size_t, int limit)
{
    struct cudaDeviceProp properties;
    const cudaError_t error = cudaGetDeviceProperties(&properties, sim_current_device());
    if (error)
        return error;
    *block = limit > 0 && limit < 256 ? limit : 256;
    *grid = properties.multiProcessorCount * (properties.maxThreadsPerMultiProcessor / *block);
    return cudaSuccess;
}

static cudaError_t check(const struct cudasim_kernel *kernel)
{
    const dim3 grid = kernel->grid, block = kernel->block;
    const bool grid_fits =
        grid.x && grid.y && grid.z && grid.x <= INT32_MAX && grid.y <= 65535 && grid.z <= 65535;
    const bool block_fits = block.x && block.y && block.z && block.x <= 1024 && block.y <= 1024 &&
                            block.z <= 64 && (uint64_t)block.x * block.y * block.z <= 1024;
    if (!grid_fits || !block_fits) {
        sim_report("%s: a grid of (%u, %u, %u) blocks of (%u, %u, %u) threads cannot be launched",
                   kernel->name, grid.x, grid.y, grid.z, block.x, block.y, block.z);
        return cudaErrorInvalidConfiguration;
    }
    const size_t limit = shared_limit(kernel->function);
    if (kernel->shared_bytes > limit) {
        sim_report(
            "%s: %zu bytes of dynamic shared memory, more than %zu; ask for it by cudaFuncSetAttribute",
            kernel->name, kernel->shared_bytes, limit);
        return cudaErrorInvalidValue;
    }
    return cudaSuccess;
}

static void run_kernel(cudaStream_t stream, void *arguments)
{
    struct launch *launch = (struct launch *)arguments;
    launch->kernel.closure = launch->closure;
    int injected;
    if (sim_injected("kernel", cudaErrorIllegalAddress, &injected))
        sim_break((cudaError_t)injected);
    else
        sim_runner_run(sim_stream_runner(stream), &launch->kernel);
}

/* A kernel's first launch of the process. */
static void write_down(const struct cudasim_kernel *kernel)
{
    static struct sim_lock lock;
    static std::set<const void *> *seen;
    const struct sim_unseen unseen;
    sim_take(&lock);
    if (!seen)
        seen = new std::set<const void *>();
    if (seen->insert(kernel->function).second) {
        char line[512];
        const int length = snprintf(line, sizeof line, "%s: %s\n", kernel->file, kernel->name);
        const int file = open(sim_env()->launches, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
        if (file < 0 || length >= (int)sizeof line || write(file, line, (size_t)length) != length)
            sim_fatal("CUDASIM_LAUNCHES=%s cannot be written", sim_env()->launches);
        close(file);
    }
    sim_give(&lock);
}

cudaError_t cudasim_enqueue_kernel(const struct cudasim_kernel *kernel, cudaStream_t stream)
{
    int injected;
    if (sim_injected("launch", cudaErrorLaunchOutOfResources, &injected))
        return sim_error((cudaError_t)injected);
    cudaError_t error = check(kernel);
    error = error ? error : sim_stream_is_current(stream, kernel->name);
    error = error ? error : sim_code_load(sim_current_device(), kernel->function, kernel->name);
    if (error)
        return sim_error(error);
    if (sim_env()->launches)
        write_down(kernel);
    struct launch launch;
    launch.kernel = *kernel;
    sim_move_bytes(launch.closure, kernel->closure, kernel->closure_bytes);
    return sim_error(sim_enqueue(stream, kernel->name, run_kernel, false, &launch,
                                 offsetof(struct launch, closure) + kernel->closure_bytes));
}
