#include "core/stream/boundaries.h"

#include "core/base/size.h"

#include <stdlib.h>

/* Micro-batches that are fetched ahead of their use. */
#define RING 3u

struct mt_boundaries {
    struct mt_boundaries_options options;
    const struct mt_microbatches *batches;
    struct mt_device *device;
    struct mt_stream *in, *compute, *out;
    bool in_place, offload, keep;
    size_t num_kept;   /* boundaries that are kept: every interval-th */
    size_t step_bytes; /* of one boundary of all tokens */
    struct mt_blocks blocks;

    char *stand[2];                 /* device: between layers, all tokens; also the gradient's place */
    char *kept;                     /* device, [num_kept] of step_bytes; NULL when offloaded */
    char *host_kept;                /* host, the same; boundary 0's is the staging memory */
    char *staging;                  /* host, one boundary: the embedding's rows in, their gradient out */
    char *beside, *beside_gradient; /* device, of all tokens */
    char *beside_staging;           /* host: of it what the embedding gives, and its gradient */

    struct mt_event *uploaded, *produced, *all_offloaded, *gradient_ready;
    struct mt_event **offloaded; /* [2][max_count]: the copy out of a standing buffer */
    char *ring[RING];            /* device, a micro-batch each */
    struct mt_event *ring_ready[RING], *ring_free[RING];
    struct mt_event **events; /* all of them */
    size_t num_events;
    size_t fetched, used; /* in the backward order */
    size_t copied_in, copied_out;
};

static int build_beside(struct mt_boundaries *b, size_t bytes, struct mt_error *error)
{
    const char *what = "what layers read beside the tokens";
    void *address;
    if (!bytes)
        return 0;
    MT_TRY(mt_blocks_device(&b->blocks, bytes, what, &address, error));
    b->beside = address;
    if (!b->options.forward_only) {
        MT_TRY(mt_blocks_device(&b->blocks, bytes, what, &address, error));
        b->beside_gradient = address;
    }
    if (b->in_place || !b->options.side_bytes)
        return 0;
    MT_TRY(mt_blocks_host(&b->blocks, b->batches->max_tokens * b->options.side_bytes, what, &address, error));
    b->beside_staging = address;
    return 0;
}

static int build(struct mt_boundaries *b, struct mt_error *error)
{
    void *address;
    size_t kept_bytes, micro_bytes, beside_bytes;
    if (!mt_size_mul(b->batches->max_tokens, b->options.row_bytes, &b->step_bytes) ||
        !mt_size_mul(b->num_kept, b->step_bytes, &kept_bytes) ||
        !mt_size_mul(b->batches->max_tokens, b->options.beside_bytes, &beside_bytes) ||
        !mt_size_mul(b->batches->max_micro_tokens, b->options.row_bytes, &micro_bytes))
        return mt_error_set(error, -EOVERFLOW, MT_REASON_BAD_JOB, "a step has too many tokens");
    for (size_t i = 0; i < 2; i++) {
        MT_TRY(mt_blocks_device(&b->blocks, b->step_bytes, "the tokens between two layers", &address, error));
        b->stand[i] = address;
    }
    if (b->offload)
        MT_TRY(mt_blocks_host(&b->blocks, kept_bytes, "the layers' inputs", &address, error));
    else
        MT_TRY(mt_blocks_device(&b->blocks, kept_bytes, "the layers' inputs", &address, error));
    *(b->offload ? &b->host_kept : &b->kept) = address;
    if (!b->in_place) {
        MT_TRY(mt_blocks_host(&b->blocks, b->step_bytes, "the tokens' embeddings", &address, error));
        b->staging = address;
    }
    MT_TRY(build_beside(b, beside_bytes, error));
    for (size_t i = 0; b->offload && i < RING; i++) {
        MT_TRY(mt_blocks_device(&b->blocks, micro_bytes, "a layer's input on its way back", &address, error));
        b->ring[i] = address;
    }
    const size_t count = 4 + 2 * b->batches->max_count + 2 * RING;
    MT_TRY(mt_events_create(b->device, count, &b->events, error));
    b->num_events = count;
    struct mt_event **next = b->events;
    b->uploaded = *next++;
    b->produced = *next++;
    b->all_offloaded = *next++;
    b->gradient_ready = *next++;
    for (size_t i = 0; i < RING; i++) {
        b->ring_ready[i] = *next++;
        b->ring_free[i] = *next++;
    }
    b->offloaded = next;
    return 0;
}

int mt_boundaries_new(const struct mt_boundaries_options *options, const struct mt_microbatches *batches,
                      struct mt_device *device, struct mt_stream *in, struct mt_stream *compute,
                      struct mt_stream *out, struct mt_boundaries **boundaries, struct mt_error *error)
{
    *boundaries = NULL;
    struct mt_boundaries *b = calloc(1, sizeof *b);
    struct mt_device_info info;
    if (!b)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory");
    device->api->info(device, &info);
    *b = (struct mt_boundaries){
        .options = *options,
        .batches = batches,
        .device = device,
        .in = in,
        .compute = compute,
        .out = out,
        .in_place = info.host_memory,
        .offload = options->offload && !info.host_memory && !options->forward_only,
        .num_kept = options->forward_only ? 0 : mt_size_ceil_div(options->num_layers, options->interval),
    };
    mt_blocks_init(&b->blocks, device);
    int r = build(b, error);
    if (r) {
        mt_boundaries_free(b);
        return r;
    }
    *boundaries = b;
    return 0;
}

void mt_boundaries_free(struct mt_boundaries *b)
{
    if (!b)
        return;
    mt_events_free(b->device, b->num_events, b->events);
    mt_blocks_free(&b->blocks);
    free(b);
}

void mt_boundaries_start(struct mt_boundaries *b, bool keep)
{
    b->keep = keep;
    b->fetched = b->used = 0;
}

static size_t micro_offset(const struct mt_boundaries *b, size_t micro)
{
    return b->batches->items[micro].first * b->options.row_bytes;
}

static size_t micro_bytes(const struct mt_boundaries *b, size_t micro)
{
    return b->batches->items[micro].rows.tokens * b->options.row_bytes;
}

/* Whether boundary i is one that is kept in this pass. */
static bool is_kept(const struct mt_boundaries *b, size_t i)
{
    return b->keep && i < b->options.num_layers && i % b->options.interval == 0;
}

static char *base_of(const struct mt_boundaries *b, size_t i)
{
    if (is_kept(b, i) && b->kept)
        return b->kept + i / b->options.interval * b->step_bytes;
    return b->stand[i % 2];
}

void *mt_boundaries_at(const struct mt_boundaries *b, size_t i, size_t micro)
{
    return base_of(b, i) + micro_offset(b, micro);
}

/* The gradient of the boundary at work; the head's input stands in the other buffer. */
static char *gradient_base(const struct mt_boundaries *b)
{
    return b->stand[(b->options.num_layers + 1) % 2];
}

static char *staging_base(const struct mt_boundaries *b)
{
    if (b->in_place)
        return base_of(b, 0);
    return is_kept(b, 0) && b->offload ? b->host_kept : b->staging;
}

void *mt_boundaries_staging(struct mt_boundaries *b, size_t micro)
{
    return staging_base(b) + micro_offset(b, micro);
}

/* A micro-batch's of something that has one for every token; NULL where there is none. */
static char *of_micro(const struct mt_boundaries *b, char *all, size_t micro, size_t token_bytes)
{
    return all ? all + b->batches->items[micro].first * token_bytes : NULL;
}

void *mt_boundaries_beside(const struct mt_boundaries *b, size_t micro)
{
    return of_micro(b, b->beside, micro, b->options.beside_bytes);
}

void *mt_boundaries_beside_gradient(const struct mt_boundaries *b, size_t micro)
{
    return of_micro(b, b->beside_gradient, micro, b->options.beside_bytes);
}

void *mt_boundaries_beside_staging(struct mt_boundaries *b, size_t micro)
{
    return b->in_place ? mt_boundaries_beside(b, micro)
                       : of_micro(b, b->beside_staging, micro, b->options.side_bytes);
}

int mt_boundaries_upload(struct mt_boundaries *b)
{
    if (b->in_place)
        return 0;
    const size_t bytes = b->batches->tokens * b->options.row_bytes;
    mt_stream_mark(b->device, b->in, MT_STAGE_ACTIVATIONS_IN, 0);
    MT_TRY(b->device->api->copy_to_device(b->in, base_of(b, 0), staging_base(b), bytes));
    b->copied_in += bytes;
    for (size_t m = 0; b->options.side_bytes && m < b->batches->count; m++) {
        const size_t side = b->batches->items[m].rows.tokens * b->options.side_bytes;
        MT_TRY(b->device->api->copy_to_device(b->in, mt_boundaries_beside(b, m),
                                              mt_boundaries_beside_staging(b, m), side));
        b->copied_in += side;
    }
    return mt_stream_follow(b->device, b->uploaded, b->in, b->compute);
}

static bool leaves(const struct mt_boundaries *b, size_t i)
{
    return b->offload && is_kept(b, i) && i > 0; /* boundary 0 came from the host */
}

int mt_boundaries_before_write(struct mt_boundaries *b, size_t i, size_t micro)
{
    if (!b->offload || !b->keep || i < 2)
        return 0;
    /* The boundary that stood in this buffer must have left. */
    return leaves(b, i - 2)
               ? b->device->api->event_wait(b->compute, b->offloaded[(i % 2) * b->batches->max_count + micro])
               : 0;
}

int mt_boundaries_after_write(struct mt_boundaries *b, size_t i, size_t micro)
{
    if (!leaves(b, i))
        return 0;
    char *host = b->host_kept + i / b->options.interval * b->step_bytes + micro_offset(b, micro);
    struct mt_event *offloaded = b->offloaded[(i % 2) * b->batches->max_count + micro];
    mt_stream_mark(b->device, b->out, MT_STAGE_ACTIVATIONS_OUT, i);
    MT_TRY(mt_stream_follow(b->device, b->produced, b->compute, b->out));
    MT_TRY(b->device->api->copy_to_host(b->out, host, mt_boundaries_at(b, i, micro), micro_bytes(b, micro)));
    b->copied_out += micro_bytes(b, micro);
    return b->device->api->event_record(offloaded, b->out);
}

/* The n-th fetch of the backward pass. */
static void nth(const struct mt_boundaries *b, size_t n, size_t *i, size_t *micro)
{
    *i = (b->num_kept - 1 - n / b->batches->count) * b->options.interval;
    *micro = n % b->batches->count;
}

static int start_fetch(struct mt_boundaries *b)
{
    const size_t slot = b->fetched % RING;
    size_t i, micro;
    nth(b, b->fetched, &i, &micro);
    mt_stream_mark(b->device, b->in, MT_STAGE_ACTIVATIONS_IN, i);
    if (b->fetched == 0) /* what is fetched must have left before */
        MT_TRY(mt_stream_follow(b->device, b->all_offloaded, b->out, b->in));
    MT_TRY(b->device->api->event_wait(b->in, b->ring_free[slot]));
    const char *host = b->host_kept + i / b->options.interval * b->step_bytes + micro_offset(b, micro);
    MT_TRY(b->device->api->copy_to_device(b->in, b->ring[slot], host, micro_bytes(b, micro)));
    b->copied_in += micro_bytes(b, micro);
    b->fetched++;
    return b->device->api->event_record(b->ring_ready[slot], b->in);
}

int mt_boundaries_fetch(struct mt_boundaries *b, size_t i, size_t micro, const void **x)
{
    if (!b->offload) {
        *x = mt_boundaries_at(b, i, micro);
        return 0;
    }
    const size_t total = b->num_kept * b->batches->count;
    while (b->fetched < total && b->fetched < b->used + RING)
        MT_TRY(start_fetch(b));
    *x = b->ring[b->used % RING];
    return b->device->api->event_wait(b->compute, b->ring_ready[b->used % RING]);
}

int mt_boundaries_fetched_done(struct mt_boundaries *b, size_t i, size_t micro)
{
    (void)i;
    (void)micro;
    if (!b->offload)
        return 0;
    const size_t slot = b->used++ % RING;
    return b->device->api->event_record(b->ring_free[slot], b->compute);
}

int mt_boundaries_before_gradient(struct mt_boundaries *b, size_t micro)
{
    return mt_boundaries_before_write(b, b->options.num_layers + 1, micro);
}

void *mt_boundaries_gradient(const struct mt_boundaries *b, size_t micro)
{
    return gradient_base(b) + micro_offset(b, micro);
}

int mt_boundaries_download_gradient(struct mt_boundaries *b)
{
    if (b->in_place)
        return 0;
    const size_t bytes = b->batches->tokens * b->options.row_bytes;
    mt_stream_mark(b->device, b->out, MT_STAGE_ACTIVATIONS_OUT, 0);
    MT_TRY(mt_stream_follow(b->device, b->gradient_ready, b->compute, b->out));
    MT_TRY(b->device->api->copy_to_host(b->out, b->staging, gradient_base(b), bytes));
    b->copied_out += bytes;
    for (size_t m = 0; b->options.side_bytes && m < b->batches->count; m++) {
        const size_t side = b->batches->items[m].rows.tokens * b->options.side_bytes;
        MT_TRY(b->device->api->copy_to_host(b->out, mt_boundaries_beside_staging(b, m),
                                            mt_boundaries_beside_gradient(b, m), side));
        b->copied_out += side;
    }
    return 0;
}

const void *mt_boundaries_downloaded(const struct mt_boundaries *b, size_t micro)
{
    return (b->in_place ? gradient_base(b) : b->staging) + micro_offset(b, micro);
}

const void *mt_boundaries_beside_downloaded(const struct mt_boundaries *b, size_t micro)
{
    return b->in_place ? mt_boundaries_beside_gradient(b, micro)
                       : of_micro(b, b->beside_staging, micro, b->options.side_bytes);
}

bool mt_boundaries_fetches(const struct mt_boundaries *b)
{
    return b->offload;
}

size_t mt_boundaries_device_bytes(const struct mt_boundaries *b)
{
    return b->blocks.device_bytes;
}

size_t mt_boundaries_host_bytes(const struct mt_boundaries *b)
{
    return b->blocks.host_bytes;
}

void mt_boundaries_copied_bytes(const struct mt_boundaries *b, size_t *in, size_t *out)
{
    *in = b->copied_in;
    *out = b->copied_out;
}
