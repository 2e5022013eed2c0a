/* Copies and fills. A copy over the bus takes as long as CUDASIM_BUS_GBPS and CUDASIM_LATENCY_US say; copies
 * of one direction share it. Host memory that is not pinned is refused (a real device would copy it at the
 * pace of the host, and not beside its other work), or copied so under CUDASIM_PAGEABLE=copy. */
#include "tests/cudasim/sim.h"

#include <stdlib.h>

struct copy {
    char *to;
    const char *from;
    size_t to_pitch, from_pitch, width, height;
    enum cudaMemcpyKind kind;
    bool owned; /* `from` is a staging buffer, freed after */
    bool waits; /* the call returns when all is done, and may take pageable memory */
};

/* When the bus is next free, by device and direction. */
static struct sim_lock bus_lock;
static double bus_free[SIM_MAX_DEVICES][2];

static void take_the_bus(int device, const struct copy *copy)
{
    const struct sim_settings *settings = sim_env();
    if (copy->kind != cudaMemcpyHostToDevice && copy->kind != cudaMemcpyDeviceToHost)
        return;
    double seconds = settings->latency_seconds;
    if (settings->bus_bytes_per_second > 0)
        seconds += (double)(copy->width * copy->height) / settings->bus_bytes_per_second;
    if (!(seconds > 0))
        return;
    sim_take(&bus_lock);
    double *until = &bus_free[device][copy->kind == cudaMemcpyDeviceToHost];
    const double now = sim_now();
    const double end = (*until > now ? *until : now) + seconds;
    *until = end;
    sim_give(&bus_lock);
    sim_sleep_until(end);
}

static void run_copy(cudaStream_t stream, void *arguments)
{
    const struct copy *copy = (const struct copy *)arguments;
    int injected;
    if (sim_injected("copy", cudaErrorIllegalAddress, &injected)) {
        sim_break((cudaError_t)injected);
    } else {
        take_the_bus(sim_stream_device(stream), copy);
        for (size_t row = 0; row < copy->height; row++) {
            char *to = copy->to + row * copy->to_pitch;
            const char *from = copy->from + row * copy->from_pitch;
            if (!copy->owned)
                SIM_READS(from, copy->width);
            SIM_WRITES(to, copy->width);
            sim_move_bytes(to, from, copy->width);
        }
    }
    if (copy->owned)
        free((void *)(uintptr_t)copy->from);
}

static bool on_host(enum sim_memory_kind kind)
{
    return kind != SIM_DEVICE;
}

static bool pinned(enum sim_memory_kind kind)
{
    return kind == SIM_PINNED || kind == SIM_REGISTERED;
}

/* One side of a copy: whether it is where `kind` says, whole, and pinned if it must be. */
static cudaError_t check_side(const char *call, const char *side, const void *address, size_t pitch,
                              size_t width, size_t height, bool device, bool waits, bool *pageable)
{
    const size_t bytes = (height - 1) * pitch + width;
    const struct sim_memory memory = sim_memory_at(address);
    if (device)
        return sim_memory_on_device(call, side, address, bytes) ? cudaSuccess : cudaErrorInvalidValue;
    char what[256];
    sim_memory_describe(address, what, sizeof what);
    if (memory.kind == SIM_DEVICE || memory.kind == SIM_FREED || !address) {
        sim_report("%s: %s must be host memory, and %p is %s", call, side, address, what);
        return memory.kind == SIM_DEVICE ? cudaErrorInvalidMemcpyDirection : cudaErrorInvalidValue;
    }
    const bool whole = pinned(memory.kind) && bytes <= memory.start + memory.bytes - (uintptr_t)address;
    if (memory.kind == SIM_PINNED && !whole) {
        sim_report("%s: %s (%zu bytes) is %s, and runs past its end", call, side, bytes, what);
        return cudaErrorInvalidValue;
    }
    *pageable |= !whole;
    if (whole || waits || sim_env()->pageable == SIM_PAGEABLE_COPY)
        return cudaSuccess;
    sim_report(
        "%s: %s (%p, %zu bytes) is not pinned host memory: such a copy is not asynchronous; allocate it by "
        "cudaHostAlloc or register it (or allow it by CUDASIM_PAGEABLE=copy)",
        call, side, address, bytes);
    return cudaErrorInvalidValue;
}

static cudaError_t enqueue_copy(const char *call, struct copy copy, cudaStream_t stream)
{
    int injected;
    if (sim_injected(call, cudaErrorInvalidValue, &injected))
        return (cudaError_t)injected;
    if (sim_sticky())
        return sim_sticky();
    if (!copy.width || !copy.height)
        return cudaSuccess;
    const bool from_host = on_host(sim_memory_at(copy.from).kind),
               to_host = on_host(sim_memory_at(copy.to).kind);
    if (copy.kind == cudaMemcpyDefault)
        copy.kind = from_host ? (to_host ? cudaMemcpyHostToHost : cudaMemcpyHostToDevice)
                              : (to_host ? cudaMemcpyDeviceToHost : cudaMemcpyDeviceToDevice);
    const bool to_device = copy.kind == cudaMemcpyHostToDevice || copy.kind == cudaMemcpyDeviceToDevice;
    const bool from_device = copy.kind == cudaMemcpyDeviceToHost || copy.kind == cudaMemcpyDeviceToDevice;
    bool pageable = false;
    cudaError_t error = check_side(call, "the destination", copy.to, copy.to_pitch, copy.width, copy.height,
                                   to_device, copy.waits, &pageable);
    if (!error)
        error = check_side(call, "the source", copy.from, copy.from_pitch, copy.width, copy.height,
                           from_device, copy.waits, &pageable);
    if (error)
        return error;
    /* From pageable memory: the host's bytes are taken before the call returns. To it: the call returns
     * after. */
    if (pageable && !copy.waits && copy.kind == cudaMemcpyHostToDevice) {
        char *staged = (char *)malloc(copy.width * copy.height);
        if (!staged)
            sim_fatal("out of host memory");
        for (size_t row = 0; row < copy.height; row++) {
            SIM_READS(copy.from + row * copy.from_pitch, copy.width);
            sim_move_bytes(staged + row * copy.width, copy.from + row * copy.from_pitch, copy.width);
        }
        copy.from = staged;
        copy.from_pitch = copy.width;
        copy.owned = true;
    }
    error = sim_enqueue(stream, call, run_copy, copy.owned, &copy, sizeof copy);
    if (!error && pageable && !copy.owned && !copy.waits)
        error = cudaStreamSynchronize(stream);
    return error;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    const struct copy copy = {(char *)to, (const char *)from, bytes, bytes, bytes, 1, kind, false, false};
    return sim_error(enqueue_copy("cudaMemcpyAsync", copy, stream));
}

cudaError_t cudaMemcpyPeerAsync(void *to, int, const void *from, int, size_t bytes, cudaStream_t stream)
{
    const struct copy copy = {(char *)to, (const char *)from,       bytes, bytes, bytes,
                              1,          cudaMemcpyDeviceToDevice, false, false};
    return sim_error(enqueue_copy("cudaMemcpyPeerAsync", copy, stream));
}

cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                              size_t height, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    if (to_pitch < width || from_pitch < width)
        return sim_error(cudaErrorInvalidValue);
    const struct copy copy = {
        (char *)to, (const char *)from, to_pitch, from_pitch, width, height, kind, false, false};
    return sim_error(enqueue_copy("cudaMemcpy2DAsync", copy, stream));
}

struct fill {
    char *to;
    size_t bytes;
    int value;
};

static void run_fill(cudaStream_t, void *arguments)
{
    const struct fill *fill = (const struct fill *)arguments;
    SIM_WRITES(fill->to, fill->bytes);
    sim_fill_bytes(fill->to, fill->value, fill->bytes);
}

cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream)
{
    int injected;
    if (sim_injected("cudaMemsetAsync", cudaErrorInvalidValue, &injected))
        return sim_error((cudaError_t)injected);
    if (sim_sticky())
        return sim_error(sim_sticky());
    if (!bytes)
        return cudaSuccess;
    if (!sim_memory_on_device("cudaMemsetAsync", "the destination", to, bytes))
        return sim_error(cudaErrorInvalidValue);
    const struct fill fill = {(char *)to, bytes, value};
    return sim_error(sim_enqueue(stream, "cudaMemsetAsync", run_fill, false, &fill, sizeof fill));
}

/* ---- the calls that wait: a stream of their own ---- */

static cudaError_t waiting(cudaError_t (*call)(cudaStream_t stream, const void *context), const void *context)
{
    cudaStream_t stream;
    cudaError_t error = cudaDeviceSynchronize(); /* as the default stream does */
    if (!error)
        error = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    if (error)
        return error;
    error = call(stream, context);
    const cudaError_t waited = cudaStreamSynchronize(stream);
    cudaStreamDestroy(stream);
    return error ? error : waited;
}

static cudaError_t copy_on(cudaStream_t stream, const void *context)
{
    return enqueue_copy("cudaMemcpy", *(const struct copy *)context, stream);
}

static cudaError_t fill_on(cudaStream_t stream, const void *context)
{
    const struct fill *fill = (const struct fill *)context;
    return cudaMemsetAsync(fill->to, fill->value, fill->bytes, stream);
}

cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    const struct copy copy = {(char *)to, (const char *)from, bytes, bytes, bytes, 1, kind, false, true};
    return sim_error(waiting(copy_on, &copy));
}

cudaError_t cudaMemset(void *to, int value, size_t bytes)
{
    const struct fill fill = {(char *)to, bytes, value};
    return sim_error(waiting(fill_on, &fill));
}
