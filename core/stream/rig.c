/* Streams and rope tables. */
#include "core/base/cleanup.h"
#include "core/base/size.h"
#include "core/stream/internal.h"

#include <string.h>

static int make_ropes(struct mt_rig *rig, const struct mt_model *model, size_t num_positions,
                      struct mt_error *error)
{
    const struct mt_device_api *api = rig->device->api;
    struct mt_device_info info;
    api->info(rig->device, &info);
    for (size_t i = 0; i < model->num_ropes; i++) {
        const struct mt_rope *rope = &model->ropes[i];
        const size_t count = num_positions * (rope->rotary_dim / 2);
        mt_autofree float *host = malloc(2 * count * sizeof *host);
        void *device;
        if (!host)
            return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY,
                                "out of memory for the rotary tables");
        if (!info.simulated)
            mt_rope_tables(rope, num_positions, host, host + count);
        MT_TRY(mt_blocks_device(&rig->blocks, 2 * count * sizeof *host, "rotary tables", &device, error));
        int r = api->copy_to_device(rig->in, device, host, 2 * count * sizeof *host);
        if (r)
            return mt_device_report(rig->device, r, error);
        MT_TRY(api->stream_synchronize(rig->in, error));
        rig->ropes[i] = (struct mt_rope_table){device, (float *)device + count, num_positions};
    }
    return 0;
}

int mt_rig_open(struct mt_rig *rig, struct mt_device *device, const struct mt_model *model,
                enum mt_dtype dtype, size_t num_positions, struct mt_error *error)
{
    *rig = (struct mt_rig){.device = device};
    mt_blocks_init(&rig->blocks, device);
    MT_TRY(device->api->stream_create(device, "weights in", &rig->in, error));
    MT_TRY(device->api->stream_create(device, "compute", &rig->compute, error));
    MT_TRY(device->api->stream_create(device, "gradients out", &rig->out, error));
    MT_TRY(make_ropes(rig, model, num_positions, error));
    rig->context = (struct mt_layer_context){
        .device = device, .stream = rig->compute, .model = model, .dtype = dtype, .ropes = rig->ropes};
    return 0;
}

void mt_rig_close(struct mt_rig *rig)
{
    if (!rig->device)
        return;
    struct mt_stream *streams[] = {rig->in, rig->compute, rig->out};
    for (size_t i = 0; i < 3; i++)
        if (streams[i])
            rig->device->api->stream_destroy(streams[i]);
    mt_blocks_free(&rig->blocks);
    *rig = (struct mt_rig){0};
}

int mt_rig_synchronize(struct mt_rig *rig, struct mt_error *error)
{
    struct mt_stream *streams[] = {rig->in, rig->compute, rig->out};
    int result = 0;
    for (size_t i = 0; i < 3; i++) {
        int r = streams[i] ? rig->device->api->stream_synchronize(streams[i], result ? NULL : error) : 0;
        result = result ? result : r;
    }
    return result;
}
