/* Streams, events, copies. CUDA's own, with our rules on top: nothing is put into a stream of a device that
 * has failed, and the sentence of the first fault is what every later call leads to.
 */
#include "gpu/cuda.h"

#include <stdio.h>
#include <stdlib.h>

int mt_cuda_begin(struct mt_stream *stream)
{
    if (mt_cuda_failed(stream->device))
        return mt_cuda_fault_code(stream->device);
    return mt_cuda_enter(stream->device);
}

int mt_cuda_end(struct mt_stream *stream, const char *operation)
{
    return mt_cuda_check(stream->device, cudaGetLastError(), operation);
}

float *mt_cuda_parts(struct mt_stream *stream)
{
    pthread_mutex_lock(&stream->lock);
    if (!stream->scratch) {
        struct mt_error error;
        struct mt_cuda_scratch *scratch = mt_cuda_scratch_take(stream->device, &error);
        if (!scratch)
            mt_cuda_fail(stream->device, error.code, "stream %s: %s", stream->name, error.message);
        else if (mt_cuda_products_use(scratch->products, stream))
            mt_cuda_scratch_give(stream->device, scratch);
        else
            stream->scratch = scratch;
    }
    char *address = stream->scratch ? stream->scratch->address : NULL;
    pthread_mutex_unlock(&stream->lock);
    return reinterpret_cast<float *>(address);
}

/* ---- streams ---- */

int mt_cuda_stream_create(struct mt_device *base, const char *name, struct mt_stream **stream_out,
                          struct mt_error *error)
{
    struct mt_cuda_device *device = mt_cuda_of(base);
    *stream_out = NULL;
    if (mt_cuda_failed(device) || mt_cuda_enter(device))
        return mt_cuda_report(device, error);
    struct mt_stream *stream = static_cast<struct mt_stream *>(calloc(1, sizeof *stream));
    if (!stream)
        return mt_cuda_error(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory for stream %s", name);
    stream->device = device;
    snprintf(stream->name, sizeof stream->name, "%s", name);
    const int code = mt_cuda_made(device, cudaStreamCreateWithFlags(&stream->handle, cudaStreamNonBlocking),
                                  "creating a stream", error);
    if (code) {
        free(stream);
        return code;
    }
    pthread_mutex_init(&stream->lock, NULL);
    *stream_out = stream;
    return 0;
}

void mt_cuda_stream_destroy(struct mt_stream *stream)
{
    if (!stream)
        return;
    mt_cuda_enter(stream->device);
    mt_cuda_check(stream->device, cudaStreamSynchronize(stream->handle), "waiting for a stream");
    if (stream->scratch)
        mt_cuda_products_leave(stream->scratch->products, stream->device);
    mt_cuda_check(stream->device, cudaStreamDestroy(stream->handle), "ending a stream");
    mt_cuda_scratch_give(stream->device, stream->scratch);
    pthread_mutex_destroy(&stream->lock);
    free(stream);
}

int mt_cuda_stream_synchronize(struct mt_stream *stream, struct mt_error *error)
{
    struct mt_cuda_device *device = stream->device;
    int code = mt_cuda_enter(device);
    if (!code)
        code = mt_cuda_check(device, cudaStreamSynchronize(stream->handle), "what was put into a stream");
    return code || mt_cuda_failed(device) ? mt_cuda_report(device, error) : 0;
}

int mt_cuda_stream_host_function(struct mt_stream *stream, void (*function)(void *context), void *context)
{
    const int code = mt_cuda_begin(stream);
    return code ? code
                : mt_cuda_check(stream->device, cudaLaunchHostFunc(stream->handle, function, context),
                                "putting a host function into a stream");
}

/* ---- events ---- */

int mt_cuda_event_create(struct mt_device *base, struct mt_event **event_out, struct mt_error *error)
{
    struct mt_cuda_device *device = mt_cuda_of(base);
    *event_out = NULL;
    if (mt_cuda_failed(device) || mt_cuda_enter(device))
        return mt_cuda_report(device, error);
    struct mt_event *event = static_cast<struct mt_event *>(calloc(1, sizeof *event));
    if (!event)
        return mt_cuda_error(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory for an event");
    event->device = device;
    /* Blocking: whoever waits for it sleeps and leaves its core to the updates (device.cu says more). */
    const int code = mt_cuda_made(
        device, cudaEventCreateWithFlags(&event->handle, cudaEventDisableTiming | cudaEventBlockingSync),
        "creating an event", error);
    if (code) {
        free(event);
        return code;
    }
    *event_out = event;
    return 0;
}

void mt_cuda_event_destroy(struct mt_event *event)
{
    if (!event)
        return;
    mt_cuda_enter(event->device);
    mt_cuda_check(event->device, cudaEventDestroy(event->handle), "ending an event");
    free(event);
}

int mt_cuda_event_record(struct mt_event *event, struct mt_stream *stream)
{
    const int code = mt_cuda_begin(stream);
    return code ? code
                : mt_cuda_check(stream->device, cudaEventRecord(event->handle, stream->handle),
                                "recording an event");
}

int mt_cuda_event_wait(struct mt_stream *stream, struct mt_event *event)
{
    const int code = mt_cuda_begin(stream);
    return code ? code
                : mt_cuda_check(stream->device, cudaStreamWaitEvent(stream->handle, event->handle, 0),
                                "waiting for an event in a stream");
}

int mt_cuda_event_synchronize(struct mt_event *event, struct mt_error *error)
{
    struct mt_cuda_device *device = event->device;
    int code = mt_cuda_enter(device);
    if (!code)
        code = mt_cuda_check(device, cudaEventSynchronize(event->handle), "what was put into a stream");
    return code || mt_cuda_failed(device) ? mt_cuda_report(device, error) : 0;
}

/* ---- copies ---- */

static int copy(struct mt_stream *stream, void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
                const char *doing)
{
    if (!bytes)
        return 0;
    if (!to || !from)
        return -EINVAL;
    const int code = mt_cuda_begin(stream);
    return code
               ? code
               : mt_cuda_check(stream->device, cudaMemcpyAsync(to, from, bytes, kind, stream->handle), doing);
}

int mt_cuda_copy_to_device(struct mt_stream *stream, void *to, const void *from_host, size_t bytes)
{
    return copy(stream, to, from_host, bytes, cudaMemcpyHostToDevice, "a copy to the device");
}

int mt_cuda_copy_to_host(struct mt_stream *stream, void *to_host, const void *from, size_t bytes)
{
    return copy(stream, to_host, from, bytes, cudaMemcpyDeviceToHost, "a copy to the host");
}

int mt_cuda_copy(struct mt_stream *stream, void *to, const void *from, size_t bytes)
{
    return copy(stream, to, from, bytes, cudaMemcpyDeviceToDevice, "a copy within the device");
}

int mt_cuda_fill_zero(struct mt_stream *stream, void *address, size_t bytes)
{
    if (!bytes)
        return 0;
    if (!address)
        return -EINVAL;
    const int code = mt_cuda_begin(stream);
    return code ? code
                : mt_cuda_check(stream->device, cudaMemsetAsync(address, 0, bytes, stream->handle),
                                "filling memory with zeros");
}
