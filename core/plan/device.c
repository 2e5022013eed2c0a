#include "core/plan/device.h"

#include "core/device/cuda_memory.h"
#include "core/device/open.h"
#include "core/plan/device_internal.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct mt_plan_device *of(struct mt_device *device)
{
    return (struct mt_plan_device *)device;
}

/* ---- what the device is ---- */

static void info(struct mt_device *base, struct mt_device_info *told)
{
    struct mt_plan_device *device = of(base);
    *told = (struct mt_device_info){
        .name = "planned",
        .kernel_set = "none",
        .total_bytes = device->machine.device_bytes,
        .free_bytes = mt_paper_memory_free(&device->paper.memory),
        .host_memory = device->machine.host_memory,
        .supports_bf16 = true,
        .simulated = true,
    };
    snprintf(told->kind, sizeof told->kind, "%s", device->machine.kind);
    snprintf(told->id, sizeof told->id, "%s", device->machine.kind);
}

static const char *last_error(struct mt_device *device)
{
    (void)device;
    return "";
}

/* ---- time ---- */

/* Spends `seconds` on a stage at this clock, on the processor too where that is shared. */
static void spend(struct mt_plan_device *device, struct mt_plan_clock *clock, enum mt_stage stage,
                  double seconds)
{
    if (device->machine.shares_cores)
        mt_plan_clock_follow(clock, &device->cores);
    clock->at += seconds;
    clock->path[stage] += seconds;
    device->busy[stage] += seconds;
    if (device->machine.shares_cores)
        device->cores = *clock;
}

int mt_plan_operate(struct mt_stream *stream, double flops, double bytes)
{
    struct mt_plan_device *device = stream->device;
    const double arithmetic = flops / device->machine.rates.device_flops;
    const double memory = bytes / device->machine.rates.device_bytes_per_second;
    mt_plan_clock_follow(&stream->clock, &device->host);
    spend(device, &stream->clock, stream->stage, arithmetic > memory ? arithmetic : memory);
    device->flops += flops;
    return 0;
}

/* Copies go beside the processor's work. */
static int cross_bus(struct mt_stream *stream, size_t bytes)
{
    struct mt_plan_device *device = stream->device;
    const struct mt_plan_rates *rates = &device->machine.rates;
    const double seconds = rates->bus_latency_seconds + (double)bytes / rates->bus_bytes_per_second;
    mt_plan_clock_follow(&stream->clock, &device->host);
    stream->clock.at += seconds;
    stream->clock.path[stream->stage] += seconds;
    device->busy[stream->stage] += seconds;
    return 0;
}

static int copy_to_device(struct mt_stream *stream, void *to, const void *from, size_t bytes)
{
    (void)to;
    (void)from;
    return cross_bus(stream, bytes);
}

static int copy_to_host(struct mt_stream *stream, void *to, const void *from, size_t bytes)
{
    (void)to;
    (void)from;
    return cross_bus(stream, bytes);
}

static int copy(struct mt_stream *stream, void *to, const void *from, size_t bytes)
{
    (void)to;
    (void)from;
    return mt_plan_operate(stream, 0, 2 * (double)bytes);
}

static int fill_zero(struct mt_stream *stream, void *address, size_t bytes)
{
    (void)address;
    return mt_plan_operate(stream, 0, (double)bytes);
}

static int stream_create(struct mt_device *device, const char *name, struct mt_stream **stream,
                         struct mt_error *error)
{
    (void)name;
    *stream = calloc(1, sizeof **stream);
    if (!*stream)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory for a stream");
    (*stream)->device = of(device);
    (*stream)->clock = of(device)->host;
    return 0;
}

static void stream_destroy(struct mt_stream *stream)
{
    free(stream);
}

static int stream_synchronize(struct mt_stream *stream, struct mt_error *error)
{
    (void)error;
    mt_plan_clock_follow(&stream->device->host, &stream->clock);
    return 0;
}

static int stream_host_function(struct mt_stream *stream, void (*function)(void *context), void *context)
{
    (void)stream;
    function(context);
    return 0;
}

static int event_create(struct mt_device *device, struct mt_event **event, struct mt_error *error)
{
    (void)device;
    *event = calloc(1, sizeof **event);
    return *event ? 0 : mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory for an event");
}

static void event_destroy(struct mt_event *event)
{
    free(event);
}

static int event_record(struct mt_event *event, struct mt_stream *stream)
{
    event->clock = stream->clock;
    return 0;
}

static int event_wait(struct mt_stream *stream, struct mt_event *event)
{
    mt_plan_clock_follow(&stream->clock, &event->clock);
    return 0;
}

static int event_synchronize(struct mt_event *event, struct mt_error *error)
{
    (void)event;
    (void)error;
    return 0; /* only updates ask, and host_begin stands in for them */
}

static void mark(struct mt_stream *stream, enum mt_stage stage, size_t index)
{
    (void)index;
    stream->stage = stage;
}

/* When the update of a group was made. */
static struct mt_plan_clock *updated(struct mt_plan_device *device, size_t group)
{
    if (group >= device->num_updated) {
        const size_t count = 2 * group + 16;
        struct mt_plan_clock *clocks = realloc(device->updated, count * sizeof *clocks);
        if (!clocks)
            return NULL;
        memset(clocks + device->num_updated, 0, (count - device->num_updated) * sizeof *clocks);
        device->updated = clocks;
        device->num_updated = count;
    }
    return &device->updated[group];
}

static bool host_begin(struct mt_device *base, const struct mt_host_work *work)
{
    struct mt_plan_device *device = of(base);
    const double seconds = (double)work->bytes / device->machine.rates.memory_bytes_per_second;
    struct mt_plan_clock *group =
        work->stage == MT_STAGE_WAIT || work->stage == MT_STAGE_UPDATE ? updated(device, work->index) : NULL;
    if (work->stage == MT_STAGE_WAIT) {
        if (group)
            mt_plan_clock_follow(&device->host, group);
    } else if (work->stage == MT_STAGE_UPDATE) {
        mt_plan_clock_follow(&device->updates, &device->host);
        if (work->after)
            mt_plan_clock_follow(&device->updates, &work->after->clock);
        spend(device, &device->updates, MT_STAGE_UPDATE, seconds);
        if (group)
            *group = device->updates;
    } else {
        spend(device, &device->host, work->stage, seconds);
    }
    return true;
}

static size_t attention_workspace_bytes(struct mt_device *base, const struct mt_attention_args *args,
                                        bool backward)
{
    struct mt_device *like = of(base)->like;
    return like ? like->api->attention_workspace_bytes(like, args, backward)
                : mt_cuda_attention_workspace(args, backward);
}

/* ---- opening, closing, reading ---- */

static void close_device(struct mt_device *base)
{
    struct mt_plan_device *device = of(base);
    mt_paper_memory_clear(&device->paper.memory);
    free(device->updated);
    mt_device_close(device->like);
    free(device);
}

static const struct mt_device_api plan_api = {
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
    .stream_host_function = stream_host_function,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .event_record = event_record,
    .event_wait = event_wait,
    .event_synchronize = event_synchronize,
    .copy_to_device = copy_to_device,
    .copy_to_host = copy_to_host,
    .copy = copy,
    .fill_zero = fill_zero,
    .attention_workspace_bytes = attention_workspace_bytes,
    .mark = mark,
    .host_begin = host_begin,
};

int mt_plan_device_open(const struct mt_plan_machine *machine, struct mt_device **device_out,
                        struct mt_error *error)
{
    *device_out = NULL;
    struct mt_plan_device *device = calloc(1, sizeof *device);
    if (!device)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory for a plan");
    device->api = plan_api;
    mt_plan_operations(&device->api);
    device->paper.base.api = &device->api;
    device->machine = *machine;
    mt_paper_memory_init(&device->paper.memory, machine->device_bytes - machine->reserved_bytes,
                         machine->host_memory);
    const bool cuda = strcmp(machine->kind, "cuda") == 0;
    int r = cuda ? 0 : mt_device_open("cpu", NULL, &device->like, error);
    if (r == 0 && machine->scratch_bytes) {
        /* Even if there is no room: then nothing else fits, and the plan says so. */
        const bool endless = device->paper.memory.endless;
        void *scratch;
        device->paper.memory.endless = true;
        r = mt_paper_allocate(&device->paper.base, machine->scratch_bytes, &scratch, error);
        device->paper.memory.endless = endless;
    }
    if (r) {
        close_device(&device->paper.base);
        return r;
    }
    *device_out = &device->paper.base;
    return 0;
}

void mt_plan_device_lift_limit(struct mt_device *device)
{
    of(device)->paper.memory.limit_bytes = SIZE_MAX / 4;
}

void mt_plan_device_account(const struct mt_device *base, struct mt_plan_account *account)
{
    const struct mt_plan_device *device = (const struct mt_plan_device *)base;
    *account = (struct mt_plan_account){.now = device->host.at,
                                        .flops = device->flops,
                                        .host_bytes = device->paper.memory.host.bytes,
                                        .device_bytes = device->paper.memory.device.bytes};
    memcpy(account->path, device->host.path, sizeof account->path);
    memcpy(account->busy, device->busy, sizeof account->busy);
}

const char *mt_plan_stage_name(enum mt_stage stage)
{
    static const char *const names[MT_NUM_STAGES] = {
        [MT_STAGE_OTHER] = "other",
        [MT_STAGE_TOKENS_IN] = "tokens_in",
        [MT_STAGE_WEIGHTS_IN] = "weights_in",
        [MT_STAGE_ACTIVATIONS_IN] = "activations_in",
        [MT_STAGE_FORWARD] = "forward",
        [MT_STAGE_HEAD] = "head",
        [MT_STAGE_RECOMPUTE] = "recompute",
        [MT_STAGE_BACKWARD] = "backward",
        [MT_STAGE_ACTIVATIONS_OUT] = "activations_out",
        [MT_STAGE_GRADIENTS_OUT] = "gradients_out",
        [MT_STAGE_EMBEDDING] = "embedding",
        [MT_STAGE_UPDATE] = "update",
        [MT_STAGE_WAIT] = "wait",
    };
    return names[stage];
}
