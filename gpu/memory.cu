/* Memory of the device and pinned memory of the host.
 *
 * Callers take few large blocks before the first step and cut them up by themselves; nothing here runs inside
 * a step. What single operations need beside that (parts of sums, cuBLAS's workspace) is a scratch block of
 * fixed size, one a computing stream, with the libraries' handles: work of one stream is in order, so each
 * operation uses it from its start. What the handles take by themselves is measured and counted like a block.
 *
 * The last of the device's memory stays free. The driver brings the code of a kernel there when it is
 * launched first, ours and cuBLAS's many alike: without room for that a step would fail in its middle.
 *
 * Host memory is mapped with huge pages where the system has them, then registered with the driver: copies
 * from registered memory run at the full speed of the bus, and beside the computation.
 */
#include "gpu/cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#define HUGE_PAGE_BYTES ((size_t)2 << 20)
#define PAGE_BYTES ((size_t)4096)
#define ALIGNMENT 256u

struct mt_cuda_block {
    void *address;
    size_t bytes; /* as taken from the system */
    bool registered;
    struct mt_cuda_block *next;
};

static int remember(struct mt_cuda_device *device, struct mt_cuda_block **list, void *address, size_t bytes,
                    bool registered)
{
    struct mt_cuda_block *block = static_cast<struct mt_cuda_block *>(calloc(1, sizeof *block));
    if (!block)
        return -ENOMEM;
    block->address = address;
    block->bytes = bytes;
    block->registered = registered;
    pthread_mutex_lock(&device->lock);
    block->next = *list;
    *list = block;
    pthread_mutex_unlock(&device->lock);
    return 0;
}

static struct mt_cuda_block *forget(struct mt_cuda_device *device, struct mt_cuda_block **list,
                                    const void *address)
{
    pthread_mutex_lock(&device->lock);
    struct mt_cuda_block **place = list;
    while (*place && (*place)->address != address)
        place = &(*place)->next;
    struct mt_cuda_block *block = *place;
    if (block)
        *place = block->next;
    pthread_mutex_unlock(&device->lock);
    return block;
}

/* ---- device memory ---- */

size_t mt_cuda_free_bytes(struct mt_cuda_device *device)
{
    size_t available = 0, total = 0;
    if (mt_cuda_enter(device) || cudaMemGetInfo(&available, &total) != cudaSuccess) {
        cudaGetLastError();
        return 0;
    }
    available -= mt_size_min(available, device->code_bytes);
    pthread_mutex_lock(&device->lock);
    const size_t under_limit =
        device->limit_bytes > device->used_bytes ? device->limit_bytes - device->used_bytes : 0;
    pthread_mutex_unlock(&device->lock);
    return device->limit_bytes ? mt_size_min(available, under_limit) : available;
}

static int out_of_memory(struct mt_cuda_device *device, size_t asked, struct mt_error *error)
{
    char texts[4][32];
    const size_t available = mt_cuda_free_bytes(device);
    const bool limited = device->limit_bytes && device->limit_bytes < device->total_bytes;
    return mt_cuda_error(
        error, -ENOMEM, MT_REASON_OUT_OF_MEMORY,
        "memory of cuda:%d: %s (%zu bytes) were asked for, %s are in use by this job and %s are available of "
        "%s; "
        "%strain in smaller micro-batches, or end other programs that use the GPU (nvidia-smi lists them)",
        device->index, mt_cuda_host.size_format(asked, texts[0], 32), asked,
        mt_cuda_host.size_format(device->used_bytes, texts[1], 32),
        mt_cuda_host.size_format(available, texts[2], 32),
        mt_cuda_host.size_format(limited ? device->limit_bytes : device->total_bytes, texts[3], 32),
        limited ? "raise memory.device_limit, " : "");
}

/* Counts bytes as used; false: not so many are left under the limit. */
static bool count(struct mt_cuda_device *device, size_t bytes)
{
    pthread_mutex_lock(&device->lock);
    const bool fits = !device->limit_bytes || (device->used_bytes <= device->limit_bytes &&
                                               bytes <= device->limit_bytes - device->used_bytes);
    if (fits)
        device->used_bytes += bytes;
    pthread_mutex_unlock(&device->lock);
    return fits;
}

static void uncount(struct mt_cuda_device *device, size_t bytes)
{
    pthread_mutex_lock(&device->lock);
    device->used_bytes -= bytes;
    pthread_mutex_unlock(&device->lock);
}

/* Not what code_bytes keeps. */
static cudaError_t take(const struct mt_cuda_device *device, size_t bytes, void **address)
{
    size_t available, total;
    const cudaError_t result = cudaMemGetInfo(&available, &total);
    if (result != cudaSuccess)
        return result;
    return available < device->code_bytes || bytes > available - device->code_bytes
               ? cudaErrorMemoryAllocation
               : cudaMalloc(address, bytes);
}

int mt_cuda_allocate(struct mt_device *base, size_t bytes, void **address, struct mt_error *error)
{
    struct mt_cuda_device *device = mt_cuda_of(base);
    size_t rounded;
    *address = NULL;
    if (mt_cuda_failed(device) || mt_cuda_enter(device))
        return mt_cuda_report(device, error);
    if (!mt_size_align(mt_size_max(bytes, 1), ALIGNMENT, &rounded) || !count(device, rounded))
        return out_of_memory(device, bytes, error);
    const cudaError_t result = take(device, rounded, address);
    if (result == cudaSuccess && !remember(device, &device->blocks, *address, rounded, false))
        return 0;
    if (result == cudaSuccess)
        cudaFree(*address);
    *address = NULL;
    uncount(device, rounded);
    if (result == cudaSuccess)
        return mt_cuda_error(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory for a list of blocks");
    if (result == cudaErrorMemoryAllocation) {
        cudaGetLastError(); /* not sticky */
        return out_of_memory(device, bytes, error);
    }
    mt_cuda_check(device, result, "allocating device memory");
    return mt_cuda_report(device, error);
}

void mt_cuda_release(struct mt_device *base, void *address)
{
    struct mt_cuda_device *device = mt_cuda_of(base);
    if (!address)
        return;
    struct mt_cuda_block *block = forget(device, &device->blocks, address);
    if (!block) {
        mt_cuda_fail(device, -EIO, "release: %p is not the start of an allocated block of device memory",
                     address);
        return;
    }
    mt_cuda_enter(device);
    const cudaError_t result = cudaFree(address);
    uncount(device, block->bytes);
    free(block);
    mt_cuda_check(device, result, "freeing device memory");
}

/* ---- scratch ---- */

/* Another program may take memory at the same moment: more than this is not the handles'. */
#define MOST_HANDLE_BYTES ((size_t)512 << 20)

static size_t unused_bytes(void)
{
    size_t available = 0, total = 0;
    if (cudaMemGetInfo(&available, &total) != cudaSuccess)
        cudaGetLastError();
    return available;
}

/* The handles, and their memory counted: at least what plans set aside, more where they are found to take
 * more. */
static int open_handles(struct mt_cuda_device *device, struct mt_cuda_scratch *scratch,
                        struct mt_error *error)
{
    const size_t planned = mt_cuda_handle_bytes(device->total_bytes, device->limit_bytes);
    const size_t before = unused_bytes();
    scratch->products = mt_cuda_products_open(device, scratch->address + MT_CUDA_PARTS_BYTES, error);
    if (!scratch->products)
        return error->code;
    const size_t after = unused_bytes(), taken = before > after ? before - after : 0;
    const size_t bytes = mt_size_max(planned, taken <= MOST_HANDLE_BYTES ? taken : 0);
    if (!count(device, bytes))
        return out_of_memory(device, bytes, error);
    pthread_mutex_lock(&device->lock);
    device->own_bytes += MT_CUDA_PARTS_BYTES + device->blas_bytes + bytes;
    pthread_mutex_unlock(&device->lock);
    return 0;
}

static void free_scratch(struct mt_cuda_device *device, struct mt_cuda_scratch *scratch)
{
    mt_cuda_products_free(scratch->products);
    mt_cuda_release(&device->base, scratch->address);
    free(scratch);
}

struct mt_cuda_scratch *mt_cuda_scratch_take(struct mt_cuda_device *device, struct mt_error *error)
{
    pthread_mutex_lock(&device->lock);
    struct mt_cuda_scratch *scratch = device->scratch;
    if (scratch)
        device->scratch = scratch->next;
    pthread_mutex_unlock(&device->lock);
    if (scratch)
        return scratch;
    scratch = static_cast<struct mt_cuda_scratch *>(calloc(1, sizeof *scratch));
    void *address = NULL;
    if (!scratch) {
        mt_cuda_error(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory for a stream's scratch block");
        return NULL;
    }
    if (mt_cuda_allocate(&device->base, MT_CUDA_PARTS_BYTES + device->blas_bytes, &address, error)) {
        free(scratch);
        return NULL;
    }
    scratch->address = static_cast<char *>(address);
    if (open_handles(device, scratch, error)) {
        free_scratch(device, scratch);
        return NULL;
    }
    return scratch;
}

void mt_cuda_scratch_give(struct mt_cuda_device *device, struct mt_cuda_scratch *scratch)
{
    if (!scratch)
        return;
    pthread_mutex_lock(&device->lock);
    scratch->next = device->scratch;
    device->scratch = scratch;
    pthread_mutex_unlock(&device->lock);
}

/* ---- host memory ---- */

static void warn_unpinned(struct mt_cuda_device *device, cudaError_t result, size_t bytes)
{
    pthread_mutex_lock(&device->lock);
    const bool told = device->warned_unpinned;
    device->warned_unpinned = true;
    pthread_mutex_unlock(&device->lock);
    if (told || !device->note)
        return;
    struct rlimit limit = {};
    char asked[32], allowed[32] = "unlimited", sentence[512];
    getrlimit(RLIMIT_MEMLOCK, &limit);
    if (limit.rlim_cur != RLIM_INFINITY)
        mt_cuda_host.size_format(limit.rlim_cur, allowed, sizeof allowed);
    snprintf(
        sentence, sizeof sentence,
        "host memory of %s could not be pinned (%s): copies to and from the GPU will be several times "
        "slower. The limit for locked memory is %s: raise it with LimitMEMLOCK=infinity in the systemd unit "
        "or `ulimit -l unlimited`, and see that the memory is not all in use",
        mt_cuda_host.size_format(bytes, asked, sizeof asked), cudaGetErrorString(result), allowed);
    device->note(device->note_context, sentence);
}

/* Blocks of a huge page or more begin at one. */
static void *map(size_t bytes, size_t *mapped)
{
    const size_t page = bytes >= HUGE_PAGE_BYTES ? HUGE_PAGE_BYTES : PAGE_BYTES;
    size_t rounded, with_room;
    if (!mt_size_align(mt_size_max(bytes, 1), page, &rounded) || !mt_size_add(rounded, page, &with_room))
        return NULL;
    char *start = static_cast<char *>(
        mmap(NULL, with_room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    if (start == MAP_FAILED)
        return NULL;
    const size_t before = (page - reinterpret_cast<uintptr_t>(start) % page) % page;
    if (before)
        munmap(start, before);
    if (page > before)
        munmap(start + before + rounded, page - before);
    if (page == HUGE_PAGE_BYTES)
        madvise(start + before, rounded, MADV_HUGEPAGE); /* a wish */
    *mapped = rounded;
    return start + before;
}

int mt_cuda_host_allocate(struct mt_device *base, size_t bytes, void **memory, bool *pinned,
                          struct mt_error *error)
{
    struct mt_cuda_device *device = mt_cuda_of(base);
    size_t mapped = 0;
    char asked[32];
    if (pinned)
        *pinned = false;
    *memory = map(bytes, &mapped);
    if (!*memory)
        return mt_cuda_error(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no host memory for a block of %s",
                             mt_cuda_host.size_format(bytes, asked, sizeof asked));
    if (mt_cuda_failed(device) || mt_cuda_enter(device)) {
        munmap(*memory, mapped);
        *memory = NULL;
        return mt_cuda_report(device, error);
    }
    const cudaError_t result = cudaHostRegister(*memory, mapped, cudaHostRegisterPortable);
    if (result != cudaSuccess) {
        cudaGetLastError();
        warn_unpinned(device, result, bytes);
    }
    if (remember(device, &device->host_blocks, *memory, mapped, result == cudaSuccess)) {
        if (result == cudaSuccess)
            cudaHostUnregister(*memory);
        munmap(*memory, mapped);
        *memory = NULL;
        return mt_cuda_error(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory for a list of blocks");
    }
    if (pinned)
        *pinned = result == cudaSuccess;
    return 0;
}

static void free_host(struct mt_cuda_block *block)
{
    if (block->registered && cudaHostUnregister(block->address) != cudaSuccess)
        cudaGetLastError();
    munmap(block->address, block->bytes);
    free(block);
}

void mt_cuda_host_release(struct mt_device *base, void *memory)
{
    struct mt_cuda_device *device = mt_cuda_of(base);
    if (!memory)
        return;
    struct mt_cuda_block *block = forget(device, &device->host_blocks, memory);
    if (!block) {
        mt_cuda_fail(device, -EIO, "host_release: %p is not the start of an allocated block", memory);
        return;
    }
    mt_cuda_enter(device);
    free_host(block);
}

void mt_cuda_memory_free(struct mt_cuda_device *device)
{
    while (device->scratch) {
        struct mt_cuda_scratch *scratch = device->scratch;
        device->scratch = scratch->next;
        free_scratch(device, scratch);
    }
    while (device->blocks) {
        struct mt_cuda_block *block = device->blocks;
        device->blocks = block->next;
        cudaFree(block->address);
        free(block);
    }
    while (device->host_blocks) {
        struct mt_cuda_block *block = device->host_blocks;
        device->host_blocks = block->next;
        free_host(block);
    }
}
