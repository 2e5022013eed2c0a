/* Timestamps are taken by host functions in the streams themselves, one before the first operation of a
 * stretch and one after its last: a stretch ends where its stage does, and before every wait, so that waiting
 * is a gap. */
#include "core/device/trace.h"

#include "core/base/size.h"
#include "core/base/time.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Rows of the picture that are no streams. */
enum { ROW_HOST = 1, ROW_UPDATES, ROW_FIRST_STREAM };

struct trace {
    struct mt_device base;
    struct mt_device_api api;
    struct mt_device *inner;
    size_t num_layers, num_streams;
    double start;

    pthread_mutex_t lock; /* of the file and the count */
    FILE *file;
    size_t num_spans;
};

/* A stretch of operations of one stage. */
struct span {
    struct trace *trace;
    int row;
    enum mt_stage stage;
    size_t index, bytes, operations;
    double began, ended;
    struct span *next; /* among the lost ones */
};

struct mt_stream {
    struct trace *trace;
    struct mt_stream *inner;
    int row;
    enum mt_stage stage;
    size_t index;
    struct span *open; /* NULL: the next operation begins one */
    struct span *lost; /* never closed, since the device has failed; the stream may still touch them */
};

static struct trace *of(struct mt_device *device)
{
    return (struct trace *)device;
}

/* ---- the file ---- */

static void name_part(const struct trace *trace, size_t cargo, char *name, size_t bytes)
{
    if (cargo < trace->num_layers)
        snprintf(name, bytes, "layer %zu", cargo);
    else if (cargo == trace->num_layers)
        snprintf(name, bytes, "final norm");
    else
        snprintf(name, bytes, "output matrix, tile %zu", cargo - trace->num_layers - 1);
}

/* Groups of the model: the embedding, the layers, the head. */
static void name_group(const struct trace *trace, size_t group, char *name, size_t bytes)
{
    if (group == 0)
        snprintf(name, bytes, "embedding");
    else if (group <= trace->num_layers)
        snprintf(name, bytes, "layer %zu", group - 1);
    else
        snprintf(name, bytes, "head");
}

static void name_span(const struct trace *trace, enum mt_stage stage, size_t index, char *name, size_t bytes)
{
    char part[64];
    switch (stage) {
    case MT_STAGE_WEIGHTS_IN:
    case MT_STAGE_GRADIENTS_OUT:
        name_part(trace, index, part, sizeof part);
        snprintf(name, bytes, "%s of %s", stage == MT_STAGE_WEIGHTS_IN ? "weights" : "gradients", part);
        return;
    case MT_STAGE_UPDATE:
    case MT_STAGE_WAIT:
        name_group(trace, index, part, sizeof part);
        snprintf(name, bytes, "%s of %s", stage == MT_STAGE_UPDATE ? "update" : "wait for update", part);
        return;
    case MT_STAGE_ACTIVATIONS_IN:
        snprintf(name, bytes, "input of layer %zu", index);
        return;
    case MT_STAGE_ACTIVATIONS_OUT:
        snprintf(name, bytes, index ? "input of layer %zu" : "gradient of the embeddings", index);
        return;
    case MT_STAGE_FORWARD:
        snprintf(name, bytes, "forward layer %zu", index);
        return;
    case MT_STAGE_RECOMPUTE:
        snprintf(name, bytes, "recompute layer %zu", index);
        return;
    case MT_STAGE_BACKWARD:
        snprintf(name, bytes, "backward layer %zu", index);
        return;
    case MT_STAGE_TOKENS_IN:
        snprintf(name, bytes, "tokens");
        return;
    case MT_STAGE_HEAD:
        snprintf(name, bytes, "head and loss");
        return;
    case MT_STAGE_EMBEDDING:
        snprintf(name, bytes, "embedding");
        return;
    case MT_STAGE_OTHER:
    case MT_NUM_STAGES:
        break;
    }
    snprintf(name, bytes, "other");
}

static const char *category(enum mt_stage stage)
{
    static const char *const names[MT_NUM_STAGES] = {
        [MT_STAGE_OTHER] = "other",
        [MT_STAGE_TOKENS_IN] = "activations",
        [MT_STAGE_WEIGHTS_IN] = "weights",
        [MT_STAGE_ACTIVATIONS_IN] = "activations",
        [MT_STAGE_FORWARD] = "forward",
        [MT_STAGE_HEAD] = "head",
        [MT_STAGE_RECOMPUTE] = "recompute",
        [MT_STAGE_BACKWARD] = "backward",
        [MT_STAGE_ACTIVATIONS_OUT] = "activations",
        [MT_STAGE_GRADIENTS_OUT] = "gradients",
        [MT_STAGE_EMBEDDING] = "embedding",
        [MT_STAGE_UPDATE] = "update",
        [MT_STAGE_WAIT] = "wait",
    };
    return stage < MT_NUM_STAGES ? names[stage] : "other";
}

static void write_span(const struct span *span)
{
    struct trace *trace = span->trace;
    char name[96];
    name_span(trace, span->stage, span->index, name, sizeof name);
    pthread_mutex_lock(&trace->lock);
    trace->num_spans++;
    if (trace->num_spans == MT_TRACE_MAX_SPANS)
        fprintf(
            trace->file,
            ",\n{\"name\": \"the trace ends here: it is full\", \"ph\": \"i\", \"s\": \"g\", \"ts\": %.1f, "
            "\"pid\": 1, \"tid\": %d}",
            (span->ended - trace->start) * 1e6, span->row);
    else if (trace->num_spans < MT_TRACE_MAX_SPANS)
        fprintf(
            trace->file,
            ",\n{\"name\": \"%s\", \"cat\": \"%s\", \"ph\": \"X\", \"ts\": %.1f, \"dur\": %.1f, \"pid\": 1, "
            "\"tid\": %d, \"args\": {\"bytes\": %zu, \"operations\": %zu}}",
            name, category(span->stage), (span->began - trace->start) * 1e6,
            (span->ended - span->began) * 1e6, span->row, span->bytes, span->operations);
    pthread_mutex_unlock(&trace->lock);
}

static void write_row(struct trace *trace, int row, const char *name)
{
    pthread_mutex_lock(&trace->lock);
    fprintf(
        trace->file,
        ",\n{\"name\": \"thread_name\", \"ph\": \"M\", \"pid\": 1, \"tid\": %d, \"args\": {\"name\": \"%s\"}}"
        ",\n{\"name\": \"thread_sort_index\", \"ph\": \"M\", \"pid\": 1, \"tid\": %d, \"args\": "
        "{\"sort_index\": %d}}",
        row, name, row, row);
    pthread_mutex_unlock(&trace->lock);
}

/* What is in use of a device's own memory: by itself (workspaces, libraries), and by everything else. */
static void write_memory(struct trace *trace)
{
    struct mt_device_info told;
    trace->inner->api->info(trace->inner, &told);
    const size_t used = told.total_bytes - mt_size_min(told.free_bytes, told.total_bytes);
    if (told.host_memory)
        return;
    pthread_mutex_lock(&trace->lock);
    fprintf(trace->file,
            ",\n{\"name\": \"device memory\", \"ph\": \"C\", \"ts\": %.1f, \"pid\": 1, \"args\": "
            "{\"own\": %zu, \"other\": %zu}}",
            (mt_time_monotonic() - trace->start) * 1e6, told.own_bytes,
            used - mt_size_min(told.own_bytes, used));
    pthread_mutex_unlock(&trace->lock);
}

/* ---- stretches ---- */

static void begin_span(void *context)
{
    struct span *span = context;
    span->began = mt_time_monotonic();
}

/* After each operation: the stream may run dry long before the stretch is closed. */
static void extend_span(void *context)
{
    struct span *span = context;
    span->ended = mt_time_monotonic();
}

static void end_span(void *context)
{
    write_span(context);
    free(context);
}

/* Without memory, or when the device has failed, there is a gap in the picture and nothing else. */
static void close_span(struct mt_stream *stream)
{
    struct span *span = stream->open;
    stream->open = NULL;
    if (span && stream->trace->inner->api->stream_host_function(stream->inner, end_span, span) < 0) {
        span->next = stream->lost;
        stream->lost = span;
    }
}

/* Before an operation is put into the stream; its inner stream comes back. */
static struct mt_stream *enter(struct mt_stream *stream, size_t bytes)
{
    if (!stream->open) {
        struct span *span = calloc(1, sizeof *span);
        if (!span)
            return stream->inner;
        *span = (struct span){
            .trace = stream->trace, .row = stream->row, .stage = stream->stage, .index = stream->index};
        if (stream->trace->inner->api->stream_host_function(stream->inner, begin_span, span) < 0) {
            free(span);
            return stream->inner;
        }
        stream->open = span;
    }
    stream->open->bytes += bytes;
    stream->open->operations++;
    return stream->inner;
}

/* After it was put there; its result comes back. */
static int leave(struct mt_stream *stream, int result)
{
    if (stream->open)
        stream->trace->inner->api->stream_host_function(stream->inner, extend_span, stream->open);
    return result;
}

static void mark(struct mt_stream *stream, enum mt_stage stage, size_t index)
{
    if (stream->stage != stage || stream->index != index)
        close_span(stream);
    stream->stage = stage;
    stream->index = index;
    if (stream->trace->inner->api->mark)
        stream->trace->inner->api->mark(stream->inner, stage, index);
}

/* ---- the host's work ---- */

static _Thread_local double host_began;
/* Seconds. What is shorter found nothing to wait for. */
#define SHORTEST_WAIT 2e-6

static bool host_begin(struct mt_device *device, const struct mt_host_work *work)
{
    const struct mt_device_api *api = of(device)->inner->api;
    if (api->host_begin && api->host_begin(of(device)->inner, work))
        return true;
    host_began = mt_time_monotonic();
    return false;
}

static void host_end(struct mt_device *device, const struct mt_host_work *work)
{
    struct trace *trace = of(device);
    const struct span span = {.trace = trace,
                              .row = work->stage == MT_STAGE_UPDATE ? ROW_UPDATES : ROW_HOST,
                              .stage = work->stage,
                              .index = work->index,
                              .bytes = work->bytes,
                              .operations = 1,
                              .began = host_began,
                              .ended = mt_time_monotonic()};
    if (work->stage != MT_STAGE_WAIT || span.ended - span.began > SHORTEST_WAIT)
        write_span(&span);
    if (trace->inner->api->host_end)
        trace->inner->api->host_end(trace->inner, work);
}

/* ---- what is passed on ---- */

static void info(struct mt_device *device, struct mt_device_info *told)
{
    of(device)->inner->api->info(of(device)->inner, told);
}

static const char *last_error(struct mt_device *device)
{
    return of(device)->inner->api->last_error(of(device)->inner);
}

static int allocate(struct mt_device *device, size_t bytes, void **address, struct mt_error *error)
{
    const int r = of(device)->inner->api->allocate(of(device)->inner, bytes, address, error);
    if (r == 0)
        write_memory(of(device));
    return r;
}

static void release(struct mt_device *device, void *address)
{
    of(device)->inner->api->release(of(device)->inner, address);
    if (address)
        write_memory(of(device));
}

static int host_allocate(struct mt_device *device, size_t bytes, void **memory, bool *pinned,
                         struct mt_error *error)
{
    return of(device)->inner->api->host_allocate(of(device)->inner, bytes, memory, pinned, error);
}

static void host_release(struct mt_device *device, void *memory)
{
    of(device)->inner->api->host_release(of(device)->inner, memory);
}

static int stream_create(struct mt_device *device, const char *name, struct mt_stream **stream_out,
                         struct mt_error *error)
{
    struct trace *trace = of(device);
    struct mt_stream *stream = calloc(1, sizeof *stream);
    *stream_out = NULL;
    if (!stream)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory for a stream");
    *stream = (struct mt_stream){.trace = trace, .row = ROW_FIRST_STREAM + (int)trace->num_streams};
    int r = trace->inner->api->stream_create(trace->inner, name, &stream->inner, error);
    if (r) {
        free(stream);
        return r;
    }
    trace->num_streams++;
    write_row(trace, stream->row, name);
    *stream_out = stream;
    return 0;
}

static void stream_destroy(struct mt_stream *stream)
{
    close_span(stream);
    stream->trace->inner->api->stream_destroy(stream->inner);
    while (stream->lost) {
        struct span *span = stream->lost;
        stream->lost = span->next;
        free(span);
    }
    free(stream);
}

static int stream_synchronize(struct mt_stream *stream, struct mt_error *error)
{
    close_span(stream);
    return stream->trace->inner->api->stream_synchronize(stream->inner, error);
}

static int stream_host_function(struct mt_stream *stream, void (*function)(void *context), void *context)
{
    return stream->trace->inner->api->stream_host_function(stream->inner, function, context);
}

static int event_create(struct mt_device *device, struct mt_event **event, struct mt_error *error)
{
    return of(device)->inner->api->event_create(of(device)->inner, event, error);
}

static int event_record(struct mt_event *event, struct mt_stream *stream)
{
    return stream->trace->inner->api->event_record(event, stream->inner);
}

static int event_wait(struct mt_stream *stream, struct mt_event *event)
{
    close_span(stream);
    return stream->trace->inner->api->event_wait(stream->inner, event);
}

static int copy_to_device(struct mt_stream *stream, void *to, const void *from, size_t bytes)
{
    return leave(stream, stream->trace->inner->api->copy_to_device(enter(stream, bytes), to, from, bytes));
}

static int copy_to_host(struct mt_stream *stream, void *to, const void *from, size_t bytes)
{
    return leave(stream, stream->trace->inner->api->copy_to_host(enter(stream, bytes), to, from, bytes));
}

static int copy(struct mt_stream *stream, void *to, const void *from, size_t bytes)
{
    return leave(stream, stream->trace->inner->api->copy(enter(stream, 0), to, from, bytes));
}

static int fill_zero(struct mt_stream *stream, void *address, size_t bytes)
{
    return leave(stream, stream->trace->inner->api->fill_zero(enter(stream, 0), address, bytes));
}

static size_t attention_workspace_bytes(struct mt_device *device, const struct mt_attention_args *args,
                                        bool backward)
{
    return of(device)->inner->api->attention_workspace_bytes(of(device)->inner, args, backward);
}

#define PASS_ON(operation)                                                                                   \
    static int operation(struct mt_stream *stream, const struct mt_##operation##_args *args)                 \
    {                                                                                                        \
        return leave(stream, stream->trace->inner->api->operation(enter(stream, 0), args));                  \
    }

PASS_ON(embedding)
PASS_ON(embedding_backward)
PASS_ON(rms_norm)
PASS_ON(rms_norm_backward)
PASS_ON(linear)
PASS_ON(linear_backward_input)
PASS_ON(linear_backward_weight)
PASS_ON(rope)
PASS_ON(attention)
PASS_ON(attention_backward)
PASS_ON(gated_activation)
PASS_ON(gated_activation_backward)
PASS_ON(add)
PASS_ON(xielu)
PASS_ON(xielu_backward)
PASS_ON(clip)
PASS_ON(cross_entropy_statistics)
PASS_ON(cross_entropy_finish)
PASS_ON(cross_entropy_backward)
PASS_ON(sum_squares)
PASS_ON(cast)

static void close_trace(struct mt_device *device)
{
    struct trace *trace = of(device);
    trace->inner->api->close(trace->inner);
    fputs("\n]\n", trace->file);
    fclose(trace->file);
    pthread_mutex_destroy(&trace->lock);
    free(trace);
}

static const struct mt_device_api trace_api = {
    .version = MT_DEVICE_API_VERSION,
    .info = info,
    .close = close_trace,
    .last_error = last_error,
    .allocate = allocate,
    .release = release,
    .host_allocate = host_allocate,
    .host_release = host_release,
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .stream_synchronize = stream_synchronize,
    .stream_host_function = stream_host_function,
    .event_create = event_create,
    .event_record = event_record,
    .event_wait = event_wait,
    .copy_to_device = copy_to_device,
    .copy_to_host = copy_to_host,
    .copy = copy,
    .fill_zero = fill_zero,
    .embedding = embedding,
    .embedding_backward = embedding_backward,
    .rms_norm = rms_norm,
    .rms_norm_backward = rms_norm_backward,
    .linear = linear,
    .linear_backward_input = linear_backward_input,
    .linear_backward_weight = linear_backward_weight,
    .rope = rope,
    .attention_workspace_bytes = attention_workspace_bytes,
    .attention = attention,
    .attention_backward = attention_backward,
    .gated_activation = gated_activation,
    .gated_activation_backward = gated_activation_backward,
    .add = add,
    .xielu = xielu,
    .xielu_backward = xielu_backward,
    .clip = clip,
    .cross_entropy_statistics = cross_entropy_statistics,
    .cross_entropy_finish = cross_entropy_finish,
    .cross_entropy_backward = cross_entropy_backward,
    .sum_squares = sum_squares,
    .cast = cast,
    .mark = mark,
    .host_begin = host_begin,
    .host_end = host_end,
};

int mt_trace_open(struct mt_device *inner, const char *path, size_t num_layers, struct mt_device **device,
                  struct mt_error *error)
{
    struct trace *trace = calloc(1, sizeof *trace);
    if (!trace)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory for a trace");
    *trace = (struct trace){.api = trace_api,
                            .inner = inner,
                            .num_layers = num_layers,
                            .start = mt_time_monotonic(),
                            .lock = PTHREAD_MUTEX_INITIALIZER,
                            .file = fopen(path, "we")};
    if (!trace->file) {
        int r = mt_error_set_errno(error, MT_REASON_IO, "cannot write the trace '%s'", path);
        free(trace);
        return r;
    }
    trace->base.api = &trace->api;
    /* Events have no device to ask: what belongs to them alone goes straight to the inner one. */
    trace->api.event_destroy = inner->api->event_destroy;
    trace->api.event_synchronize = inner->api->event_synchronize;
    fputs("[\n{\"name\": \"process_name\", \"ph\": \"M\", \"pid\": 1, \"args\": {\"name\": \"megatrain\"}}",
          trace->file);
    write_row(trace, ROW_HOST, "host");
    write_row(trace, ROW_UPDATES, "updates");
    write_memory(trace);
    *device = &trace->base;
    return 0;
}
