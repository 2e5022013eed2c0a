/* The memory of cpu-discrete: an arena of its own, cut first fit. Fresh memory is full of NaN and released
 * memory of another NaN, so that what is read without having been written, or after its end, shows in the
 * numbers; under AddressSanitizer what is not allocated cannot be touched at all.
 */
#include "core/base/size.h"
#include "core/device/cpu/cpu.h"

#include <stdlib.h>
#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define POISON(address, bytes) __asan_poison_memory_region(address, bytes)
#define UNPOISON(address, bytes) __asan_unpoison_memory_region(address, bytes)
#else
#define POISON(address, bytes) ((void)(address), (void)(bytes))
#define UNPOISON(address, bytes) ((void)(address), (void)(bytes))
#endif

#define ALIGNMENT 256u
/* Each a NaN in fp32 and in bf16; distinct, so that a debugger tells the two mistakes apart. */
#define FRESH_PATTERN 0x7fc17fc1u
#define RELEASED_PATTERN 0x7fde7fdeu

/* Live blocks in the order of their addresses. Host threads alone come here. */
struct block {
    size_t offset, bytes, asked;
};

struct mt_cpu_memory {
    char *base;
    size_t total, used;
    struct block *blocks;
    size_t num_blocks, room;
    pthread_mutex_t lock;
};

static void fill(char *address, size_t bytes, uint32_t pattern)
{
    uint32_t *words = (uint32_t *)(void *)address;
    for (size_t i = 0; i < bytes / sizeof pattern; i++)
        words[i] = pattern;
}

struct mt_cpu_memory *mt_cpu_memory_new(size_t bytes)
{
    struct mt_cpu_memory *memory = calloc(1, sizeof *memory);
    if (!memory)
        return NULL;
    memory->total = bytes & ~(size_t)(ALIGNMENT - 1);
    memory->base = mmap(NULL, mt_size_max(memory->total, ALIGNMENT), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory->base == MAP_FAILED) {
        free(memory);
        return NULL;
    }
    POISON(memory->base, memory->total);
    pthread_mutex_init(&memory->lock, NULL);
    return memory;
}

void mt_cpu_memory_free(struct mt_cpu_memory *memory)
{
    if (!memory)
        return;
    UNPOISON(memory->base, memory->total);
    munmap(memory->base, mt_size_max(memory->total, ALIGNMENT));
    pthread_mutex_destroy(&memory->lock);
    free(memory->blocks);
    free(memory);
}

size_t mt_cpu_memory_total(const struct mt_cpu_memory *memory)
{
    return memory->total;
}

size_t mt_cpu_memory_available(struct mt_cpu_memory *memory)
{
    pthread_mutex_lock(&memory->lock);
    const size_t available = memory->total - memory->used;
    pthread_mutex_unlock(&memory->lock);
    return available;
}

/* The place in `blocks` behind the first gap of `bytes`; where it starts in *offset. SIZE_MAX: none, with the
 * largest gap in *offset. */
static size_t find_gap(const struct mt_cpu_memory *memory, size_t bytes, size_t *offset)
{
    size_t start = 0, largest = 0;
    for (size_t i = 0; i <= memory->num_blocks; i++) {
        const size_t end = i < memory->num_blocks ? memory->blocks[i].offset : memory->total;
        if (end - start >= bytes) {
            *offset = start;
            return i;
        }
        largest = mt_size_max(largest, end - start);
        if (i < memory->num_blocks)
            start = end + memory->blocks[i].bytes;
    }
    *offset = largest;
    return SIZE_MAX;
}

static int allocate_locked(struct mt_cpu_memory *memory, size_t asked, void **address, struct mt_error *error)
{
    size_t bytes, offset = 0, place = SIZE_MAX;
    if (mt_size_align(mt_size_max(asked, 1), ALIGNMENT, &bytes))
        place = find_gap(memory, bytes, &offset);
    if (place == SIZE_MAX) {
        char texts[5][32];
        return mt_error_set(
            error, -ENOMEM, MT_REASON_OUT_OF_MEMORY,
            "device memory: %s (%zu bytes) were asked for, %s are in use and %s are available "
            "of %s (the largest piece has %s); raise memory.device_limit or train in smaller "
            "micro-batches",
            mt_size_format(asked, texts[0], 32), asked, mt_size_format(memory->used, texts[1], 32),
            mt_size_format(memory->total - memory->used, texts[2], 32),
            mt_size_format(memory->total, texts[3], 32), mt_size_format(offset, texts[4], 32));
    }
    if (memory->num_blocks == memory->room) {
        const size_t room = memory->room ? 2 * memory->room : 64;
        struct block *blocks = realloc(memory->blocks, room * sizeof *blocks);
        if (!blocks)
            return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory for a list of blocks");
        memory->blocks = blocks;
        memory->room = room;
    }
    memmove(memory->blocks + place + 1, memory->blocks + place,
            (memory->num_blocks - place) * sizeof *memory->blocks);
    memory->blocks[place] = (struct block){offset, bytes, asked};
    memory->num_blocks++;
    memory->used += bytes;
    UNPOISON(memory->base + offset, bytes);
    fill(memory->base + offset, bytes, FRESH_PATTERN);
    POISON(memory->base + offset + asked, bytes - asked);
    *address = memory->base + offset;
    return 0;
}

int mt_cpu_memory_allocate(struct mt_cpu_memory *memory, size_t bytes, void **address, struct mt_error *error)
{
    pthread_mutex_lock(&memory->lock);
    const int code = allocate_locked(memory, bytes, address, error);
    pthread_mutex_unlock(&memory->lock);
    return code;
}

/* The last block that starts at or before `offset`, or SIZE_MAX. */
static size_t find_block(const struct mt_cpu_memory *memory, size_t offset)
{
    size_t low = 0, high = memory->num_blocks;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (memory->blocks[middle].offset <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low - 1;
}

bool mt_cpu_memory_release(struct mt_cpu_memory *memory, void *address)
{
    if (!mt_cpu_memory_overlaps(memory, address, 1))
        return false;
    const size_t offset = (size_t)((char *)address - memory->base);
    pthread_mutex_lock(&memory->lock);
    const size_t i = find_block(memory, offset);
    const bool found = i != SIZE_MAX && memory->blocks[i].offset == offset;
    if (found) {
        const size_t bytes = memory->blocks[i].bytes;
        UNPOISON(address, bytes);
        fill(address, bytes, RELEASED_PATTERN);
        POISON(address, bytes);
        memory->used -= bytes;
        memory->num_blocks--;
        memmove(memory->blocks + i, memory->blocks + i + 1,
                (memory->num_blocks - i) * sizeof *memory->blocks);
    }
    pthread_mutex_unlock(&memory->lock);
    return found;
}

bool mt_cpu_memory_holds(struct mt_cpu_memory *memory, const void *address, size_t bytes)
{
    if (!mt_cpu_memory_overlaps(memory, address, 1))
        return false;
    const size_t offset = (size_t)((const char *)address - memory->base);
    pthread_mutex_lock(&memory->lock);
    const size_t i = find_block(memory, offset);
    bool holds = false;
    if (i != SIZE_MAX) {
        const size_t into = offset - memory->blocks[i].offset;
        holds = into <= memory->blocks[i].asked && bytes <= memory->blocks[i].asked - into;
    }
    pthread_mutex_unlock(&memory->lock);
    return holds;
}

bool mt_cpu_memory_overlaps(const struct mt_cpu_memory *memory, const void *address, size_t bytes)
{
    const uintptr_t first = (uintptr_t)address, base = (uintptr_t)memory->base;
    const uintptr_t last = first + (bytes ? bytes - 1 : 0);
    return first < base + memory->total && last >= base;
}
