/* Streams and tables of positions. */
#include "core/base/cleanup.h"
#include "core/base/size.h"
#include "core/model/positions.h"
#include "core/stream/internal.h"

#include <string.h>

/* ---- ropes ---- */

static size_t rope_half(const struct mt_rig *rig, size_t index)
{
    return rig->context.model->ropes[index].rotary_dim / 2;
}

/* Rows first to end of the table, from host memory that holds `rows` rows of cosines, then of sines, from row
 * `from` on. Waits for the copies. */
static int copy_rope(struct mt_rig *rig, size_t index, const float *host, size_t from, size_t rows,
                     struct mt_error *error)
{
    const struct mt_device_api *api = rig->device->api;
    const struct mt_rig_rope *table = &rig->rope_tables[index];
    const size_t half = rope_half(rig, index), count = (table->end - table->first) * half;
    const float *source = host + (table->first - from) * half;
    float *to = table->device + table->first * half;
    int r = api->copy_to_device(rig->in, to, source, count * sizeof *host);
    r = r ? r
          : api->copy_to_device(rig->in, to + rig->context.num_positions * half, source + rows * half,
                                count * sizeof *host);
    return r ? mt_device_report(rig->device, r, error) : api->stream_synchronize(rig->in, error);
}

/* The kept table of a class: found, or in the place of the one that was not used for longest. */
static struct mt_rig_cached_rope *kept_rope(struct mt_rig_rope *table)
{
    struct mt_rig_cached_rope *oldest = &table->cached[0];
    for (size_t i = 0; i < table->num_cached; i++) {
        struct mt_rig_cached_rope *kept = &table->cached[i];
        if (kept->filled && kept->length_class == table->length_class)
            return kept;
        if (kept->used < oldest->used)
            oldest = kept;
    }
    oldest->filled = false;
    return oldest;
}

/* What table->length_class, first and end say. */
static int fill_rope(struct mt_rig *rig, size_t index, size_t longest, struct mt_error *error)
{
    const struct mt_device_api *api = rig->device->api;
    const struct mt_rope *rope = &rig->context.model->ropes[index];
    struct mt_rig_rope *table = &rig->rope_tables[index];
    const size_t rows = table->end - table->first, half = rope_half(rig, index);
    struct mt_device_info info;
    api->info(rig->device, &info);
    if (table->first == 0 && table->num_cached) {
        struct mt_rig_cached_rope *kept = kept_rope(table);
        const size_t all = rig->context.num_positions;
        if (!kept->filled && !info.simulated)
            mt_rope_tables(rope, 0, table->end, longest, kept->host, kept->host + all * half);
        kept->filled = true;
        kept->length_class = table->length_class;
        kept->used = ++table->clock;
        return copy_rope(rig, index, kept->host, 0, all, error);
    }
    void *memory; /* for copies: an accelerator takes them from pinned memory alone without waiting */
    MT_TRY(api->host_allocate(rig->device, 2 * rows * half * sizeof(float), &memory, NULL, error));
    float *host = memory;
    if (!info.simulated)
        mt_rope_tables(rope, table->first, rows, longest, host, host + rows * half);
    int r = copy_rope(rig, index, host, table->first, rows, error);
    api->host_release(rig->device, memory);
    return r;
}

static int make_ropes(struct mt_rig *rig, const struct mt_model *model, size_t num_positions,
                      struct mt_error *error)
{
    for (size_t i = 0; i < model->num_ropes; i++) {
        struct mt_rig_rope *table = &rig->rope_tables[i];
        const size_t count = num_positions * (model->ropes[i].rotary_dim / 2);
        const size_t classes = mt_rope_num_classes(&model->ropes[i], num_positions);
        void *memory;
        MT_TRY(mt_blocks_device(&rig->blocks, 2 * count * sizeof(float), "rotary tables", &memory, error));
        table->device = memory;
        rig->ropes[i] = (struct mt_rope_table){table->device, table->device + count, num_positions};
        for (size_t c = 0; classes > 1 && c < mt_size_min(classes, MT_RIG_ROPE_CACHE); c++) {
            MT_TRY(mt_blocks_host(&rig->blocks, 2 * count * sizeof(float), "rotary tables", &memory, error));
            table->cached[table->num_cached++].host = memory;
        }
        table->end = num_positions;
        MT_TRY(fill_rope(rig, i, 1, error));
    }
    return 0;
}

int mt_rig_set_longest(struct mt_rig *rig, size_t first, size_t longest, struct mt_error *error)
{
    for (size_t i = 0; i < rig->context.model->num_ropes; i++) {
        const struct mt_rope *rope = &rig->context.model->ropes[i];
        struct mt_rig_rope *table = &rig->rope_tables[i];
        const size_t length_class = mt_rope_length_class(rope, longest);
        /* A table for one length alone has no rows past that, and while a sequence grows token by token only
         * the new rows are read before the next one comes. */
        const bool once = length_class && mt_rope_num_classes(rope, longest) == SIZE_MAX;
        if (table->length_class == length_class && table->first <= first && table->end >= longest)
            continue;
        table->length_class = length_class;
        table->first = once ? first : 0;
        table->end = once ? longest : rig->context.num_positions;
        MT_TRY(fill_rope(rig, i, longest, error));
    }
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
    rig->context = (struct mt_layer_context){.device = device,
                                             .stream = rig->compute,
                                             .model = model,
                                             .dtype = dtype,
                                             .ropes = rig->ropes,
                                             .num_positions = num_positions};
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
