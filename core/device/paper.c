#include "core/device/paper.h"

#include "core/base/size.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

/* What the arenas of real devices round to. */
#define ALIGNMENT 256u
/* Device addresses start here; nothing lies there and nobody looks. */
#define FIRST_ADDRESS ((uintptr_t)1 << 44)

/* ---- memory ---- */

void mt_paper_memory_init(struct mt_paper_memory *memory, size_t limit_bytes, bool endless)
{
    *memory = (struct mt_paper_memory){.limit_bytes = limit_bytes, .endless = endless};
    memory->next_address = (char *)FIRST_ADDRESS; // NOLINT(performance-no-int-to-ptr): never looked at
}

void mt_paper_memory_clear(struct mt_paper_memory *memory)
{
    for (size_t i = 0; i < memory->host.count; i++)
        munmap(memory->host.items[i].address, memory->host.items[i].bytes);
    free(memory->host.items);
    free(memory->device.items);
    memory->host = memory->device = (struct mt_paper_blocks){0};
}

size_t mt_paper_memory_free(const struct mt_paper_memory *memory)
{
    return memory->limit_bytes - mt_size_min(memory->limit_bytes, memory->device.bytes);
}

static int remember(struct mt_paper_blocks *blocks, void *address, size_t bytes, struct mt_error *error)
{
    if (blocks->count == blocks->capacity) {
        const size_t capacity = blocks->capacity ? 2 * blocks->capacity : 64;
        struct mt_paper_block *items = realloc(blocks->items, capacity * sizeof *items);
        if (!items)
            return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory for a list of blocks");
        blocks->items = items;
        blocks->capacity = capacity;
    }
    blocks->items[blocks->count++] = (struct mt_paper_block){address, bytes};
    blocks->bytes += bytes;
    return 0;
}

/* The bytes of the block; 0 when there is none. The newest are looked at first. */
static size_t forget(struct mt_paper_blocks *blocks, const void *address)
{
    for (size_t i = blocks->count; i-- > 0;) {
        if (blocks->items[i].address != address)
            continue;
        const size_t bytes = blocks->items[i].bytes;
        blocks->items[i] = blocks->items[--blocks->count];
        blocks->bytes -= bytes;
        return bytes;
    }
    return 0;
}

static struct mt_paper_memory *memory_of(struct mt_device *device)
{
    return &((struct mt_paper_base *)device)->memory;
}

int mt_paper_allocate(struct mt_device *device, size_t asked, void **address, struct mt_error *error)
{
    struct mt_paper_memory *memory = memory_of(device);
    size_t bytes;
    *address = NULL;
    if (!mt_size_align(mt_size_max(asked, 1), ALIGNMENT, &bytes) ||
        (!memory->endless && bytes > mt_paper_memory_free(memory))) {
        char wanted[32], in_use[32], all[32];
        return mt_error_set(
            error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "device memory: %s were asked for, %s are in use of %s",
            mt_size_format(asked, wanted, 32), mt_size_format(memory->device.bytes, in_use, 32),
            mt_size_format(memory->limit_bytes, all, 32));
    }
    int r = remember(&memory->device, memory->next_address, bytes, error);
    if (r)
        return r;
    *address = memory->next_address;
    memory->next_address += bytes;
    return 0;
}

void mt_paper_release(struct mt_device *device, void *address)
{
    forget(&memory_of(device)->device, address);
}

/* Pages that are never written take no memory, and those of small blocks (labels, sums) may be. */
int mt_paper_host_allocate(struct mt_device *device, size_t asked, void **address, bool *pinned,
                           struct mt_error *error)
{
    const size_t bytes = mt_size_max(asked, 1);
    *address = NULL;
    if (pinned)
        *pinned = true;
    void *mapped =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) /* where the system commits to every page that could be written */
        mapped = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY,
                            "no address space for %zu bytes of host memory", bytes);
    int r = remember(&memory_of(device)->host, mapped, bytes, error);
    if (r) {
        munmap(mapped, bytes);
        return r;
    }
    *address = mapped;
    return 0;
}

void mt_paper_host_release(struct mt_device *device, void *address)
{
    const size_t bytes = address ? forget(&memory_of(device)->host, address) : 0;
    if (bytes)
        munmap(address, bytes);
}

/* ---- a device like another one ---- */

struct paper_device {
    struct mt_paper_base paper;
    struct mt_device *like;
};

struct mt_stream {
    struct mt_device *device;
};

struct mt_event {
    struct mt_device *device;
};

static struct paper_device *of(struct mt_device *device)
{
    return (struct paper_device *)device;
}

static void info(struct mt_device *device, struct mt_device_info *told)
{
    of(device)->like->api->info(of(device)->like, told);
    told->free_bytes = mt_paper_memory_free(&of(device)->paper.memory);
    told->simulated = true;
}

static void close_device(struct mt_device *device)
{
    mt_paper_memory_clear(&of(device)->paper.memory);
    free(device);
}

static const char *last_error(struct mt_device *device)
{
    (void)device;
    return "";
}

static int stream_create(struct mt_device *device, const char *name, struct mt_stream **stream,
                         struct mt_error *error)
{
    (void)name;
    *stream = malloc(sizeof **stream);
    if (!*stream)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory for a stream");
    (*stream)->device = device;
    return 0;
}

static void stream_destroy(struct mt_stream *stream)
{
    free(stream);
}

static int stream_synchronize(struct mt_stream *stream, struct mt_error *error)
{
    (void)stream;
    (void)error;
    return 0;
}

static int event_create(struct mt_device *device, struct mt_event **event, struct mt_error *error)
{
    *event = malloc(sizeof **event);
    if (!*event)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory for an event");
    (*event)->device = device;
    return 0;
}

static void event_destroy(struct mt_event *event)
{
    free(event);
}

static int copy_to_device(struct mt_stream *stream, void *to, const void *from, size_t bytes)
{
    (void)stream;
    (void)to;
    (void)from;
    (void)bytes;
    return 0;
}

static size_t attention_workspace_bytes(struct mt_device *device, const struct mt_attention_args *args,
                                        bool backward)
{
    return of(device)->like->api->attention_workspace_bytes(of(device)->like, args, backward);
}

static const struct mt_device_api paper_api = {
    .version = MT_DEVICE_API_VERSION,
    .info = info,
    .close = close_device,
    .last_error = last_error,
    .allocate = mt_paper_allocate,
    .release = mt_paper_release,
    .host_allocate = mt_paper_host_allocate,
    .host_release = mt_paper_host_release,
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .stream_synchronize = stream_synchronize,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .copy_to_device = copy_to_device,
    .attention_workspace_bytes = attention_workspace_bytes,
};

int mt_paper_device_open(struct mt_device *like, struct mt_device **device_out, struct mt_error *error)
{
    *device_out = NULL;
    struct paper_device *device = calloc(1, sizeof *device);
    struct mt_device_info told;
    if (!device)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory for a device on paper");
    like->api->info(like, &told);
    device->paper.base.api = &paper_api;
    device->like = like;
    mt_paper_memory_init(&device->paper.memory, told.free_bytes, told.host_memory);
    *device_out = &device->paper.base;
    return 0;
}
