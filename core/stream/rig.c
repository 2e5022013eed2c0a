/* Streams and tables of positions. */
#include "core/base/cleanup.h"
#include "core/base/size.h"
#include "core/model/positions.h"
#include "core/stream/internal.h"

#include <string.h>

/* The table of one rope, for batches whose longest sequence has `longest` tokens. Waits for the copy. */
static int fill_rope(struct mt_rig *rig, size_t index, size_t longest, struct mt_error *error)
{
    const struct mt_device_api *api = rig->device->api;
    const struct mt_rope *rope = &rig->context.model->ropes[index];
    struct mt_rope_table *table = &rig->ropes[index];
    struct mt_device_info info;
    api->info(rig->device, &info);
    const size_t count = table->num_positions * (rope->rotary_dim / 2);
    void *memory; /* for copies: an accelerator takes them from pinned memory alone without waiting */
    MT_TRY(api->host_allocate(rig->device, 2 * count * sizeof(float), &memory, NULL, error));
    float *host = memory;
    if (!info.simulated)
        mt_rope_tables(rope, table->num_positions, longest, host, host + count);
    int r = api->copy_to_device(rig->in, rig->rope_memory[index], host, 2 * count * sizeof *host);
    r = r ? mt_device_report(rig->device, r, error) : api->stream_synchronize(rig->in, error);
    api->host_release(rig->device, memory);
    if (r == 0)
        rig->rope_class[index] = mt_rope_length_class(rope, longest);
    return r;
}

static int make_ropes(struct mt_rig *rig, const struct mt_model *model, size_t num_positions,
                      struct mt_error *error)
{
    for (size_t i = 0; i < model->num_ropes; i++) {
        const size_t count = num_positions * (model->ropes[i].rotary_dim / 2);
        void *device;
        MT_TRY(mt_blocks_device(&rig->blocks, 2 * count * sizeof(float), "rotary tables", &device, error));
        rig->rope_memory[i] = device;
        rig->ropes[i] = (struct mt_rope_table){device, (float *)device + count, num_positions};
        MT_TRY(fill_rope(rig, i, 1, error));
    }
    return 0;
}

int mt_rig_set_longest(struct mt_rig *rig, size_t longest, struct mt_error *error)
{
    for (size_t i = 0; i < rig->context.model->num_ropes; i++)
        if (rig->rope_class[i] != mt_rope_length_class(&rig->context.model->ropes[i], longest))
            MT_TRY(fill_rope(rig, i, longest, error));
    return 0;
}

/* A table from the host's memory. Waits for the copy. */
static int put_table(struct mt_rig *rig, const float *host, size_t count, const char *what, float **device,
                     struct mt_error *error)
{
    const struct mt_device_api *api = rig->device->api;
    void *address;
    MT_TRY(mt_blocks_device(&rig->blocks, count * sizeof *host, what, &address, error));
    *device = address;
    struct mt_device_info info;
    void *staging;
    api->info(rig->device, &info);
    MT_TRY(api->host_allocate(rig->device, count * sizeof *host, &staging, NULL, error));
    if (!info.simulated)
        memcpy(staging, host, count * sizeof *host);
    int r = api->copy_to_device(rig->in, address, staging, count * sizeof *host);
    r = r ? mt_device_report(rig->device, r, error) : api->stream_synchronize(rig->in, error);
    api->host_release(rig->device, staging);
    return r;
}

static int make_positions(struct mt_rig *rig, const struct mt_model *model, size_t num_positions,
                          struct mt_error *error)
{
    if (model->positions == MT_POSITIONS_LEARNED && num_positions > model->max_position_embeddings)
        return mt_error_set(error, -EINVAL, MT_REASON_BAD_JOB,
                            "sequences of %zu tokens are longer than the model's table of %zu positions; "
                            "dataset.max_seq_len must not be larger than that",
                            num_positions, model->max_position_embeddings);
    if (model->alibi)
        MT_TRY(put_table(rig, model->alibi, model->layers[0].num_heads, "slopes of linear biases",
                         &rig->alibi, error));
    if (model->positions == MT_POSITIONS_SINES || model->positions == MT_POSITIONS_SINES_TO_END) {
        struct mt_device_info info;
        rig->device->api->info(rig->device, &info);
        const size_t count = num_positions * model->hidden_size;
        mt_autofree float *host = calloc(count, sizeof *host);
        if (!host)
            return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY,
                                "out of memory for the table of positions");
        if (!info.simulated)
            mt_sines_table(model, num_positions, host);
        MT_TRY(put_table(rig, host, count, "the table of positions", &rig->sines, error));
    }
    rig->context.alibi = rig->alibi;
    rig->context.sines = rig->sines;
    rig->context.num_positions = num_positions;
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
    rig->context = (struct mt_layer_context){
        .device = device, .stream = rig->compute, .model = model, .dtype = dtype, .ropes = rig->ropes};
    MT_TRY(make_positions(rig, model, num_positions, error));
    return make_ropes(rig, model, num_positions, error);
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
