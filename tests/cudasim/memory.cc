/* Device memory, pinned host memory, and what is known of each address.
 *
 * Each allocation is a mapping of its own that ends at a page nobody may touch, so that what runs over its
 * end (beyond the 256 bytes that CUDA rounds to) faults. Fresh memory reads as NaN: it maps, copy on write, a
 * file of 0xff, which costs nothing until it is written. Freed memory cannot be touched, and its addresses
 * are not given out again.
 */
#include "tests/cudasim/sim.h"

#include <errno.h>
#include <map>
#include <new>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE ((size_t)4096)
#define DEVICE_UNIT ((size_t)256)
#define FRESH_BYTES ((size_t)4 << 20)

struct mapping {
    struct sim_memory memory;
    uintptr_t base;
    size_t mapped_bytes;
};

/* Never destroyed: streams may outlive the end of main. */
struct book {
    struct sim_lock lock;
    std::map<uintptr_t, mapping> live, freed; /* by start */
    size_t device_bytes[SIM_MAX_DEVICES];
    size_t pinned_bytes;
    int fresh_file;
};

static struct book *the_book(void)
{
    static struct sim_lock lock;
    static struct book *made;
    if (!__atomic_load_n(&made, __ATOMIC_ACQUIRE)) {
        sim_take(&lock);
        if (!made) {
            struct book *fresh = new struct book();
            fresh->fresh_file = -1;
            __atomic_store_n(&made, fresh, __ATOMIC_RELEASE);
        }
        sim_give(&lock);
    }
    return made;
}

static size_t round_up(size_t bytes, size_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

/* ---- mappings ---- */

static int fresh_file(struct book *book)
{
    if (book->fresh_file >= 0)
        return book->fresh_file;
    const int file = (int)syscall(SYS_memfd_create, "cudasim-fresh", 1u /* close on exec */);
    if (file < 0 || ftruncate(file, (off_t)FRESH_BYTES))
        return -1;
    void *all = mmap(NULL, FRESH_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (all == MAP_FAILED)
        return -1;
    sim_fill_bytes(all, 0xff, FRESH_BYTES);
    munmap(all, FRESH_BYTES);
    return book->fresh_file = file;
}

/* `bytes` (whole pages) of NaN and a page that faults behind them; 0: no memory. */
static uintptr_t map_fresh(struct book *book, size_t bytes)
{
    const int file = fresh_file(book);
    if (file < 0)
        return 0;
    char *base =
        (char *)mmap(NULL, bytes + PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        return 0;
    for (size_t done = 0; done < bytes; done += FRESH_BYTES) {
        const size_t part = bytes - done < FRESH_BYTES ? bytes - done : FRESH_BYTES;
        if (mmap(base + done, part, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, file, 0) == MAP_FAILED) {
            munmap(base, bytes + PAGE);
            return 0;
        }
    }
    return (uintptr_t)base;
}

/* The addresses stay taken, so that whoever still uses them faults. */
static void map_gone(const struct mapping *mapping)
{
    mmap((void *)mapping->base, mapping->mapped_bytes, PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

/* ---- the book ---- */

static const mapping *find(const std::map<uintptr_t, mapping> &in, uintptr_t address)
{
    auto after = in.upper_bound(address);
    if (after == in.begin())
        return NULL;
    const mapping &before = (--after)->second;
    return address < before.memory.start + before.memory.bytes || address == before.memory.start ? &before
                                                                                                 : NULL;
}

struct sim_memory sim_memory_at(const void *address)
{
    struct book *all = the_book();
    sim_take(&all->lock);
    const mapping *found = find(all->live, (uintptr_t)address);
    if (!found)
        found = find(all->freed, (uintptr_t)address);
    const struct sim_memory memory = found ? found->memory : sim_memory{SIM_UNKNOWN, 0, 0, 0};
    sim_give(&all->lock);
    return memory;
}

void sim_memory_describe(const void *address, char *text, size_t bytes)
{
    const struct sim_memory memory = sim_memory_at(address);
    const size_t offset = (uintptr_t)address - memory.start;
    switch (memory.kind) {
    case SIM_DEVICE:
        snprintf(text, bytes, "byte %zu of %zu bytes of memory of device %d", offset, memory.bytes,
                 memory.device);
        return;
    case SIM_PINNED:
    case SIM_REGISTERED:
        snprintf(text, bytes, "byte %zu of %zu bytes of pinned host memory", offset, memory.bytes);
        return;
    case SIM_FREED:
        snprintf(text, bytes, "byte %zu of %zu bytes that were freed", offset, memory.bytes);
        return;
    case SIM_UNKNOWN:
        break;
    }
    struct book *all = the_book();
    sim_take(&all->lock);
    auto after = all->live.upper_bound((uintptr_t)address);
    if (after != all->live.begin() && address) {
        const struct sim_memory &before = (--after)->second.memory;
        const size_t past = (uintptr_t)address - before.start - before.bytes;
        if (past < PAGE) {
            snprintf(text, bytes, "%zu bytes past the end of %zu bytes of %s memory", past, before.bytes,
                     before.kind == SIM_DEVICE ? "device" : "pinned host");
            sim_give(&all->lock);
            return;
        }
    }
    sim_give(&all->lock);
    snprintf(text, bytes, address ? "no memory that the device knows: neither its own nor pinned" : "NULL");
}

bool sim_memory_on_device(const char *call, const char *operand, const void *address, size_t bytes)
{
    if (!bytes)
        return true;
    const struct sim_memory memory = sim_memory_at(address);
    if (memory.kind == SIM_DEVICE && bytes <= memory.start + memory.bytes - (uintptr_t)address)
        return true;
    char what[256];
    sim_memory_describe(address, what, sizeof what);
    sim_report("%s: %s needs %zu bytes of device memory, and its address %p is %s", call, operand, bytes,
               address, what);
    return false;
}

static void note(struct book *all, enum sim_memory_kind kind, uintptr_t start, size_t bytes, int device,
                 uintptr_t base, size_t mapped_bytes)
{
    const struct sim_unseen unseen;
    all->live[start] = mapping{{kind, start, bytes, device}, base, mapped_bytes};
}

/* ---- device memory ---- */

static cudaError_t device_allocate(void **address, size_t size, const char *call)
{
    *address = NULL;
    cudaError_t error = sim_ready();
    if (error)
        return sim_error(error);
    int injected;
    if (sim_injected(call, cudaErrorMemoryAllocation, &injected))
        return sim_error((cudaError_t)injected);
    if (!size)
        return cudaSuccess;
    const int device = sim_current_device();
    struct book *all = the_book();
    sim_take(&all->lock);
    error = cudaErrorMemoryAllocation;
    const size_t limit = sim_env()->memory_bytes, used = all->device_bytes[device];
    if (size <= limit && round_up(size, DEVICE_UNIT) <= limit - used) {
        const size_t counted = round_up(size, DEVICE_UNIT), mapped = round_up(counted, PAGE);
        const uintptr_t base = map_fresh(all, mapped);
        if (base) {
            const uintptr_t start = base + mapped - counted;
            note(all, SIM_DEVICE, start, size, device, base, mapped);
            all->device_bytes[device] += counted;
            *address = (void *)start;
            error = cudaSuccess;
        }
    }
    sim_give(&all->lock);
    return sim_error(error);
}

cudaError_t cudaMalloc(void **address, size_t size)
{
    return address ? device_allocate(address, size, "cudaMalloc") : sim_error(cudaErrorInvalidValue);
}

cudaError_t sim_memory_release(void *address, const char *call)
{
    const struct sim_unseen unseen;
    struct book *all = the_book();
    sim_take(&all->lock);
    auto found = all->live.find((uintptr_t)address);
    const bool good = found != all->live.end() && found->second.memory.kind == SIM_DEVICE;
    if (good) {
        mapping gone = found->second;
        all->device_bytes[gone.memory.device] -= round_up(gone.memory.bytes, DEVICE_UNIT);
        map_gone(&gone);
        gone.memory.kind = SIM_FREED;
        all->live.erase(found);
        all->freed[gone.memory.start] = gone;
    }
    sim_give(&all->lock);
    if (good)
        return cudaSuccess;
    char what[256];
    sim_memory_describe(address, what, sizeof what);
    sim_report("%s(%p): not the start of an allocation of device memory, but %s", call, address, what);
    return cudaErrorInvalidValue;
}

cudaError_t cudaFree(void *address)
{
    if (!address)
        return sim_sticky();
    sim_wait_idle(sim_memory_at(address).device);
    const cudaError_t error = sim_memory_release(address, "cudaFree");
    return sim_error(sim_sticky() ? sim_sticky() : error);
}

cudaError_t cudaMemGetInfo(size_t *free, size_t *total)
{
    const cudaError_t error = sim_ready();
    if (error)
        return sim_error(error);
    struct book *all = the_book();
    sim_take(&all->lock);
    *total = sim_env()->memory_bytes;
    *free = *total - all->device_bytes[sim_current_device()];
    sim_give(&all->lock);
    return cudaSuccess;
}

/* What a library takes for itself: counted, and nothing else. */
bool sim_memory_take(int device, size_t bytes)
{
    struct book *all = the_book();
    sim_take(&all->lock);
    const bool fits = bytes <= sim_env()->memory_bytes - all->device_bytes[device];
    if (fits)
        all->device_bytes[device] += bytes;
    sim_give(&all->lock);
    return fits;
}

void sim_memory_give(int device, size_t bytes)
{
    struct book *all = the_book();
    sim_take(&all->lock);
    all->device_bytes[device] -= bytes;
    sim_give(&all->lock);
}

/* ---- memory in the order of a stream ---- */

static void release_later(cudaStream_t, void *arguments)
{
    sim_memory_release(*(void **)arguments, "cudaFreeAsync");
}

cudaError_t cudaMallocAsync(void **address, size_t size, cudaStream_t)
{
    return address ? device_allocate(address, size, "cudaMallocAsync") : sim_error(cudaErrorInvalidValue);
}

cudaError_t cudaFreeAsync(void *address, cudaStream_t stream)
{
    if (!address)
        return sim_sticky();
    return sim_error(sim_enqueue(stream, "cudaFreeAsync", release_later, true, &address, sizeof address));
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int device)
{
    if (!pool || device < 0 || device >= sim_env()->devices)
        return sim_error(cudaErrorInvalidValue);
    *pool = (cudaMemPool_t)(uintptr_t)(device + 1);
    return cudaSuccess;
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr, void *value)
{
    return pool && value ? cudaSuccess : sim_error(cudaErrorInvalidValue);
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t)
{
    return pool ? cudaSuccess : sim_error(cudaErrorInvalidValue);
}

/* ---- pinned host memory ---- */

static bool pin(struct book *all, size_t size)
{
    const size_t limit = sim_env()->pinned_limit_bytes;
    if (size > limit || all->pinned_bytes > limit - size)
        return false;
    all->pinned_bytes += size;
    return true;
}

static cudaError_t host_allocate(void **address, size_t size, const char *call)
{
    *address = NULL;
    cudaError_t error = sim_ready();
    if (error)
        return sim_error(error);
    int injected;
    if (sim_injected(call, cudaErrorMemoryAllocation, &injected))
        return sim_error((cudaError_t)injected);
    if (!size)
        return cudaSuccess;
    struct book *all = the_book();
    sim_take(&all->lock);
    error = cudaErrorMemoryAllocation;
    if (pin(all, size)) {
        const size_t mapped = round_up(size, PAGE);
        const uintptr_t base = map_fresh(all, mapped);
        if (base) {
            note(all, SIM_PINNED, base, size, 0, base, mapped);
            *address = (void *)base;
            error = cudaSuccess;
        } else {
            all->pinned_bytes -= size;
        }
    }
    sim_give(&all->lock);
    return sim_error(error);
}

cudaError_t cudaMallocHost(void **address, size_t size)
{
    return address ? host_allocate(address, size, "cudaMallocHost") : sim_error(cudaErrorInvalidValue);
}

cudaError_t cudaHostAlloc(void **address, size_t size, unsigned int)
{
    return address ? host_allocate(address, size, "cudaHostAlloc") : sim_error(cudaErrorInvalidValue);
}

/* Takes the entry of pinned memory that starts at `address` out of the book. */
static cudaError_t unpin(void *address, enum sim_memory_kind kind, const char *call, cudaError_t otherwise)
{
    for (int device = 0; device < sim_env()->devices; device++)
        sim_wait_idle(device);
    const struct sim_unseen unseen;
    struct book *all = the_book();
    sim_take(&all->lock);
    auto found = all->live.find((uintptr_t)address);
    const bool good = found != all->live.end() && found->second.memory.kind == kind;
    if (good) {
        mapping gone = found->second;
        all->pinned_bytes -= gone.memory.bytes;
        all->live.erase(found);
        if (kind == SIM_PINNED) {
            map_gone(&gone);
            gone.memory.kind = SIM_FREED;
            all->freed[gone.memory.start] = gone;
        }
    }
    sim_give(&all->lock);
    if (good)
        return sim_sticky();
    char what[256];
    sim_memory_describe(address, what, sizeof what);
    sim_report("%s(%p): not the start of such memory, but %s", call, address, what);
    return otherwise;
}

cudaError_t cudaFreeHost(void *address)
{
    return address ? sim_error(unpin(address, SIM_PINNED, "cudaFreeHost", cudaErrorInvalidValue))
                   : sim_sticky();
}

cudaError_t cudaHostRegister(void *address, size_t size, unsigned int)
{
    cudaError_t error = sim_ready();
    if (error)
        return sim_error(error);
    int injected;
    if (sim_injected("cudaHostRegister", cudaErrorMemoryAllocation, &injected))
        return sim_error((cudaError_t)injected);
    if (!address || !size)
        return sim_error(cudaErrorInvalidValue);
    struct book *all = the_book();
    sim_take(&all->lock);
    auto after = all->live.lower_bound((uintptr_t)address);
    const bool overlaps = find(all->live, (uintptr_t)address) ||
                          (after != all->live.end() && after->first < (uintptr_t)address + size);
    if (overlaps)
        error = cudaErrorHostMemoryAlreadyRegistered;
    else if (!pin(all, size))
        error = cudaErrorMemoryAllocation;
    else
        note(all, SIM_REGISTERED, (uintptr_t)address, size, 0, 0, 0);
    sim_give(&all->lock);
    return sim_error(error);
}

cudaError_t cudaHostUnregister(void *address)
{
    return sim_error(unpin(address, SIM_REGISTERED, "cudaHostUnregister", cudaErrorHostMemoryNotRegistered));
}

cudaError_t cudaHostGetDevicePointer(void **device_address, void *address, unsigned int)
{
    const struct sim_memory memory = sim_memory_at(address);
    if (!device_address || (memory.kind != SIM_PINNED && memory.kind != SIM_REGISTERED))
        return sim_error(cudaErrorInvalidValue);
    *device_address = address;
    return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *address)
{
    if (!attributes)
        return sim_error(cudaErrorInvalidValue);
    const struct sim_memory memory = sim_memory_at(address);
    *attributes = cudaPointerAttributes{cudaMemoryTypeUnregistered, -2, NULL, NULL};
    if (memory.kind == SIM_DEVICE)
        *attributes = {cudaMemoryTypeDevice, memory.device, (void *)(uintptr_t)address, NULL};
    else if (memory.kind == SIM_PINNED || memory.kind == SIM_REGISTERED)
        *attributes = {cudaMemoryTypeHost, 0, (void *)(uintptr_t)address, (void *)(uintptr_t)address};
    return cudaSuccess;
}
