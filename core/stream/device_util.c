#include "core/stream/device_util.h"

#include <stdlib.h>
#include <string.h>

int mt_device_report(struct mt_device *device, int code, struct mt_error *error)
{
    const char *fault = device->api->last_error(device);
    if (fault && *fault)
        return mt_error_set(error, code, code == -ENOMEM ? MT_REASON_OUT_OF_MEMORY : MT_REASON_DEVICE, "%s",
                            fault);
    if (code == -ENOMEM)
        return mt_error_set(error, code, MT_REASON_OUT_OF_MEMORY, "out of memory");
    return mt_error_set(error, code, MT_REASON_DEVICE, "the device refused an operation: %s",
                        strerror(-code));
}

void mt_blocks_init(struct mt_blocks *blocks, struct mt_device *device)
{
    *blocks = (struct mt_blocks){.device = device, .pinned = true};
}

static int reserve(struct mt_blocks *blocks, struct mt_error *error)
{
    if (blocks->count < blocks->capacity)
        return 0;
    const size_t capacity = blocks->capacity ? 2 * blocks->capacity : 16;
    struct mt_block *items = realloc(blocks->items, capacity * sizeof *items);
    if (!items)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory");
    blocks->items = items;
    blocks->capacity = capacity;
    return 0;
}

int mt_blocks_device(struct mt_blocks *blocks, size_t bytes, const char *purpose, void **address,
                     struct mt_error *error)
{
    *address = NULL;
    if (!bytes)
        return 0;
    int r = reserve(blocks, error);
    r = r ? r : blocks->device->api->allocate(blocks->device, bytes, address, error);
    if (r) {
        mt_error_prefix(error, "device memory for %s (%zu bytes)", purpose, bytes);
        return r;
    }
    blocks->items[blocks->count++] = (struct mt_block){*address, false};
    blocks->device_bytes += bytes;
    return 0;
}

int mt_blocks_host(struct mt_blocks *blocks, size_t bytes, const char *purpose, void **address,
                   struct mt_error *error)
{
    *address = NULL;
    if (!bytes)
        return 0;
    bool pinned = true;
    int r = reserve(blocks, error);
    r = r ? r : blocks->device->api->host_allocate(blocks->device, bytes, address, &pinned, error);
    if (r) {
        mt_error_prefix(error, "host memory for %s (%zu bytes)", purpose, bytes);
        return r;
    }
    blocks->items[blocks->count++] = (struct mt_block){*address, true};
    blocks->host_bytes += bytes;
    blocks->pinned = blocks->pinned && pinned;
    return 0;
}

void mt_blocks_free(struct mt_blocks *blocks)
{
    for (size_t i = 0; i < blocks->count; i++) {
        const struct mt_device_api *api = blocks->device->api;
        if (blocks->items[i].host)
            api->host_release(blocks->device, blocks->items[i].address);
        else
            api->release(blocks->device, blocks->items[i].address);
    }
    free(blocks->items);
    *blocks = (struct mt_blocks){.device = blocks->device};
}

int mt_events_create(struct mt_device *device, size_t count, struct mt_event ***events,
                     struct mt_error *error)
{
    *events = calloc(count ? count : 1, sizeof **events);
    if (!*events)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory for %zu events", count);
    for (size_t i = 0; i < count; i++) {
        int r = device->api->event_create(device, &(*events)[i], error);
        if (r) {
            mt_events_free(device, i, *events);
            *events = NULL;
            return r;
        }
    }
    return 0;
}

void mt_events_free(struct mt_device *device, size_t count, struct mt_event **events)
{
    for (size_t i = 0; events && i < count; i++)
        device->api->event_destroy(events[i]);
    free(events);
}
