#include "core/stream/weights.h"

#include "core/base/size.h"
#include "core/stream/device_util.h"

#include <stdlib.h>
#include <string.h>

#define NONE SIZE_MAX

enum slot_kind { SLOT_LAYER, SLOT_NORM, SLOT_TILE };

/* A buffer in device memory. */
struct slot {
    enum slot_kind kind;
    void *address;
    size_t cargo;   /* whose bytes lie here or are on their way; NONE */
    size_t arrived; /* bytes of it whose copies were put into the stream */
    bool reserved;  /* prefetched or acquired, not yet released */
    uint64_t freed; /* when it was released last: the longest ago is taken first */
    struct mt_event *ready, *free;
};

struct mt_weights {
    struct mt_store *store;
    const struct mt_model *model;
    struct mt_device *device;
    struct mt_stream *copies, *compute;
    bool in_place;
    size_t num_tiles, tile_rows, num_buffers;
    size_t num_slots;
    struct slot *slots;
    struct mt_event **events; /* two a slot */
    struct mt_blocks blocks;
    uint64_t clock;
    size_t copied_bytes;
};

size_t mt_weights_layer(const struct mt_weights *weights, size_t layer)
{
    (void)weights;
    return layer;
}

size_t mt_weights_norm(const struct mt_weights *weights)
{
    return weights->model->num_layers;
}

size_t mt_weights_tile(const struct mt_weights *weights, size_t tile)
{
    return weights->model->num_layers + 1 + tile;
}

size_t mt_weights_num_tiles(const struct mt_weights *weights)
{
    return weights->num_tiles;
}

size_t mt_weights_tile_rows(const struct mt_weights *weights)
{
    return weights->tile_rows;
}

size_t mt_weights_copied_bytes(const struct mt_weights *weights)
{
    return weights->copied_bytes;
}

size_t mt_weights_device_bytes(const struct mt_weights *weights)
{
    return weights->blocks.device_bytes;
}

/* Where a cargo lies in the store. */
static const void *source_of(const struct mt_weights *weights, size_t cargo, size_t *bytes,
                             enum slot_kind *kind)
{
    const struct mt_model *model = weights->model;
    const size_t element = mt_dtype_bytes(mt_store_compute_dtype(weights->store));
    if (cargo < model->num_layers) {
        *kind = SLOT_LAYER;
        return mt_store_transfer_source(weights->store, mt_model_layer_group(cargo), bytes);
    }
    if (cargo == model->num_layers) {
        const struct mt_group *head = &model->groups[mt_model_head_group(model)];
        const void *slab = mt_store_transfer_source(weights->store, head->index, bytes);
        *kind = SLOT_NORM;
        *bytes = mt_model_head_rest(model) * element;
        return slab;
    }
    const struct mt_parameter *table = mt_model_output_table(model);
    const size_t first = (cargo - model->num_layers - 1) * weights->tile_rows;
    const char *slab = mt_store_transfer_source(weights->store, table->group, bytes);
    *kind = SLOT_TILE;
    *bytes = mt_size_min(weights->tile_rows, model->vocab_size - first) * model->embedding_size * element;
    return slab + (table->offset + first * model->embedding_size) * element;
}

static size_t largest_layer_bytes(const struct mt_weights *weights)
{
    size_t largest = 0;
    for (size_t i = 0; i < weights->model->num_layers; i++) {
        size_t bytes;
        enum slot_kind kind;
        source_of(weights, i, &bytes, &kind);
        largest = mt_size_max(largest, bytes);
    }
    return largest;
}

static int make_slots(struct mt_weights *weights, struct mt_error *error)
{
    const size_t tile_buffers = mt_size_min(weights->num_tiles, 2);
    size_t tile_bytes, norm_bytes;
    enum slot_kind kind;
    source_of(weights, mt_weights_norm(weights), &norm_bytes, &kind);
    source_of(weights, mt_weights_tile(weights, 0), &tile_bytes, &kind);
    const struct {
        enum slot_kind kind;
        size_t count, bytes;
        const char *purpose;
    } plan[] = {
        {SLOT_LAYER, weights->num_buffers, largest_layer_bytes(weights), "a layer's weights"},
        {SLOT_NORM, 1, norm_bytes, "the final norm"},
        {SLOT_TILE, tile_buffers, tile_bytes, "the output matrix"},
    };
    const size_t total = weights->num_buffers + 1 + tile_buffers;
    weights->slots = calloc(total, sizeof *weights->slots);
    if (!weights->slots)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory");
    MT_TRY(mt_events_create(weights->device, 2 * total, &weights->events, error));
    weights->num_slots = total;
    size_t n = 0;
    for (size_t k = 0; k < 3; k++)
        for (size_t i = 0; i < plan[k].count; i++, n++) {
            struct slot *slot = &weights->slots[n];
            *slot = (struct slot){.kind = plan[k].kind,
                                  .cargo = NONE,
                                  .ready = weights->events[2 * n],
                                  .free = weights->events[2 * n + 1]};
            MT_TRY(mt_blocks_device(&weights->blocks, plan[k].bytes, plan[k].purpose, &slot->address, error));
        }
    return 0;
}

int mt_weights_new(struct mt_store *store, struct mt_device *device, struct mt_stream *copy_stream,
                   struct mt_stream *compute, const struct mt_weights_options *options,
                   struct mt_weights **weights_out, struct mt_error *error)
{
    *weights_out = NULL;
    struct mt_weights *weights = calloc(1, sizeof *weights);
    struct mt_device_info info;
    if (!weights)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory");
    device->api->info(device, &info);
    const struct mt_model *model = mt_store_model(store);
    const size_t rows =
        options->tile_rows ? mt_size_min(options->tile_rows, model->vocab_size) : model->vocab_size;
    *weights = (struct mt_weights){
        .store = store,
        .model = model,
        .device = device,
        .copies = copy_stream,
        .compute = compute,
        .in_place = info.host_memory,
        .tile_rows = rows,
        .num_tiles = mt_size_ceil_div(model->vocab_size, rows),
        .num_buffers = options->num_buffers ? options->num_buffers : 2,
    };
    mt_blocks_init(&weights->blocks, device);
    int r = weights->in_place ? 0 : make_slots(weights, error);
    if (r) {
        mt_weights_free(weights);
        return r;
    }
    *weights_out = weights;
    return 0;
}

void mt_weights_free(struct mt_weights *weights)
{
    if (!weights)
        return;
    mt_events_free(weights->device, 2 * weights->num_slots, weights->events);
    mt_blocks_free(&weights->blocks);
    free(weights->slots);
    free(weights);
}

static struct slot *find(struct mt_weights *weights, size_t cargo)
{
    for (size_t i = 0; i < weights->num_slots; i++)
        if (weights->slots[i].cargo == cargo)
            return &weights->slots[i];
    return NULL;
}

/* A free buffer of the kind, the one whose last use is the longest ago; NULL. */
static struct slot *take(struct mt_weights *weights, enum slot_kind kind)
{
    struct slot *slot = NULL;
    for (size_t i = 0; i < weights->num_slots; i++) {
        struct slot *other = &weights->slots[i];
        if (other->kind == kind && !other->reserved && (!slot || other->freed < slot->freed))
            slot = other;
    }
    return slot;
}

int mt_weights_prefetch_share(struct mt_weights *weights, size_t cargo, size_t part, size_t parts,
                              bool *started)
{
    if (started)
        *started = true;
    if (weights->in_place)
        return 0;
    const struct mt_device_api *api = weights->device->api;
    size_t bytes;
    enum slot_kind kind;
    const char *source = source_of(weights, cargo, &bytes, &kind);
    struct slot *slot = find(weights, cargo);
    if (!slot) {
        slot = take(weights, kind);
        if (!slot) {
            if (started)
                *started = false;
            return 0;
        }
        /* The operations that used this buffer last must be over before it is overwritten. */
        MT_TRY(api->event_wait(weights->copies, slot->free));
        slot->cargo = cargo;
        slot->arrived = 0;
    }
    slot->reserved = true;
    size_t end = bytes;
    if (part + 1 < parts)
        end = bytes / parts * (part + 1) / 256 * 256;
    if (slot->arrived >= end)
        return 0;
    mt_stream_mark(weights->device, weights->copies, MT_STAGE_WEIGHTS_IN, cargo);
    MT_TRY(api->copy_to_device(weights->copies, (char *)slot->address + slot->arrived, source + slot->arrived,
                               end - slot->arrived));
    weights->copied_bytes += end - slot->arrived;
    slot->arrived = end;
    return end == bytes ? api->event_record(slot->ready, weights->copies) : 0;
}

int mt_weights_prefetch(struct mt_weights *weights, size_t cargo, bool *started)
{
    return mt_weights_prefetch_share(weights, cargo, 0, 1, started);
}

int mt_weights_acquire(struct mt_weights *weights, size_t cargo, const void **address)
{
    if (weights->in_place) {
        size_t bytes;
        enum slot_kind kind;
        *address = source_of(weights, cargo, &bytes, &kind);
        return 0;
    }
    bool started;
    MT_TRY(mt_weights_prefetch(weights, cargo, &started));
    if (!started)
        return -EBUSY;
    struct slot *slot = find(weights, cargo);
    *address = slot->address;
    return weights->device->api->event_wait(weights->compute, slot->ready);
}

int mt_weights_release(struct mt_weights *weights, size_t cargo)
{
    if (weights->in_place)
        return 0;
    struct slot *slot = find(weights, cargo);
    slot->reserved = false;
    slot->freed = ++weights->clock;
    return weights->device->api->event_record(slot->free, weights->compute);
}

void mt_weights_invalidate(struct mt_weights *weights)
{
    for (size_t i = 0; i < weights->num_slots; i++) {
        weights->slots[i].cargo = NONE;
        weights->slots[i].reserved = false;
    }
}
