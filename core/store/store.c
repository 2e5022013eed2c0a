/* The store's memory and its fp32 view. One allocation a group:
 *
 *   plain: master fp32 | moment1 | moment2 | gradient
 *   split: high bf16 | remainder int16 | moment1 | moment2 | gradient
 *
 * A group's arrays are multiples of MT_MODEL_ALIGNMENT elements, so each starts on a cache line. */
#include "core/store/store.h"

#include "core/base/size.h"
#include "core/store/split.h"

#include <stdlib.h>
#include <string.h>

#define ZERO_BYTES ((size_t)16 << 20) /* that one thread takes at a time: whole huge pages */

struct mt_store {
    const struct mt_model *model;
    struct mt_device *device;
    struct mt_store_options options;
    uint64_t updates;
    bool pinned;
    struct mt_slab *slabs; /* [num_groups] */
    void **blocks;         /* [num_groups] */
};

static size_t group_bytes(const struct mt_group *group, const struct mt_store_options *options)
{
    size_t bytes = group->count * sizeof(float);
    if (!options->weights_only)
        bytes += group->train_count * sizeof(float) * (options->no_gradients ? 2 : 3);
    return bytes;
}

void mt_store_count_bytes(const struct mt_model *model, const struct mt_store_options *options,
                          struct mt_store_bytes *bytes)
{
    *bytes = (struct mt_store_bytes){0};
    for (size_t g = 0; g < model->num_groups; g++) {
        const struct mt_group *group = &model->groups[g];
        bytes->master += group->count * sizeof(float);
        if (options->weights_only)
            continue;
        bytes->moments += group->train_count * sizeof(float) * 2;
        bytes->gradients += options->no_gradients ? 0 : group->train_count * sizeof(float);
    }
    bytes->total = bytes->master + bytes->moments + bytes->gradients;
}

static void lay_out(struct mt_slab *slab, const struct mt_group *group,
                    const struct mt_store_options *options, void *block)
{
    if (options->compute_dtype == MT_BF16) {
        slab->high = block;
        slab->remainder = (int16_t *)(slab->high + group->count);
    } else {
        slab->master = block;
    }
    if (options->weights_only || !group->train_count)
        return;
    slab->moment1 = (float *)block + group->count;
    slab->moment2 = slab->moment1 + group->train_count;
    if (!options->no_gradients)
        slab->gradient = slab->moment2 + group->train_count;
}

/* --- taking memory ------------------------------------------------------------------------------------- */

struct zeroing {
    unsigned char *block;
    size_t bytes;
};

static void zero_piece(void *context, size_t task)
{
    const struct zeroing *zeroing = context;
    const size_t begin = task * ZERO_BYTES;
    memset(zeroing->block + begin, 0, mt_size_min(ZERO_BYTES, zeroing->bytes - begin));
}

/* Here, so that memory which is not there is missed now, not in the middle of a step. */
static void zero(void *block, size_t bytes, struct mt_pool *pool)
{
    struct zeroing zeroing = {block, bytes};
    const size_t pieces = mt_size_ceil_div(bytes, ZERO_BYTES);
    if (pool && pieces > 1)
        mt_pool_run(pool, pieces, zero_piece, &zeroing);
    else
        memset(block, 0, bytes);
}

int mt_store_new(const struct mt_model *model, struct mt_device *device,
                 const struct mt_store_options *options, struct mt_store **store_out, struct mt_error *error)
{
    *store_out = NULL;
    struct mt_store *store = calloc(1, sizeof *store);
    struct mt_slab *slabs = calloc(model->num_groups, sizeof *slabs);
    void **blocks = calloc(model->num_groups, sizeof *blocks);
    if (!store || !slabs || !blocks) {
        free(store);
        free(slabs);
        free(blocks);
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory for the parameter store");
    }
    *store = (struct mt_store){.model = model,
                               .device = device,
                               .options = *options,
                               .pinned = true,
                               .slabs = slabs,
                               .blocks = blocks};

    struct mt_device_info info;
    device->api->info(device, &info);
    for (size_t g = 0; g < model->num_groups; g++) {
        const size_t bytes = group_bytes(&model->groups[g], options);
        bool pinned = true;
        int r = device->api->host_allocate(device, bytes, &blocks[g], &pinned, error);
        if (r) {
            struct mt_store_bytes all;
            char text[32];
            mt_store_count_bytes(model, options, &all);
            mt_error_prefix(error, "the parameter store of %s", mt_size_format(all.total, text, sizeof text));
            mt_store_free(store);
            return r;
        }
        store->pinned = store->pinned && pinned;
        if (!info.simulated)
            zero(blocks[g], bytes, options->pool);
        lay_out(&slabs[g], &model->groups[g], options, blocks[g]);
    }
    *store_out = store;
    return 0;
}

void mt_store_free(struct mt_store *store)
{
    if (!store)
        return;
    for (size_t g = 0; g < store->model->num_groups; g++)
        if (store->blocks[g])
            store->device->api->host_release(store->device, store->blocks[g]);
    free(store->slabs);
    free(store->blocks);
    free(store);
}

const struct mt_model *mt_store_model(const struct mt_store *store)
{
    return store->model;
}

const struct mt_slab *mt_store_slab(const struct mt_store *store, size_t group)
{
    return &store->slabs[group];
}

enum mt_dtype mt_store_compute_dtype(const struct mt_store *store)
{
    return store->options.compute_dtype;
}

const void *mt_store_transfer_source(const struct mt_store *store, size_t group, size_t *bytes)
{
    const struct mt_slab *slab = &store->slabs[group];
    *bytes = store->model->groups[group].count * mt_dtype_bytes(store->options.compute_dtype);
    return slab->high ? (const void *)slab->high : slab->master;
}

uint64_t mt_store_updates(const struct mt_store *store)
{
    return store->updates;
}

void mt_store_set_updates(struct mt_store *store, uint64_t updates)
{
    store->updates = updates;
}

/* The fp32 array of a part other than the master; NULL when it is not kept. */
static float *array_of(const struct mt_slab *slab, const struct mt_parameter *parameter,
                       enum mt_store_part part)
{
    float *array = part == MT_STORE_MOMENT1    ? slab->moment1
                   : part == MT_STORE_MOMENT2  ? slab->moment2
                   : part == MT_STORE_GRADIENT ? slab->gradient
                                               : slab->master;
    if (!array || part == MT_STORE_MASTER)
        return array ? array + parameter->offset : NULL;
    return parameter->frozen ? NULL : array + parameter->train_offset;
}

static int check_range(const struct mt_parameter *parameter, size_t first, size_t count,
                       struct mt_error *error)
{
    size_t end;
    if (!mt_size_add(first, count, &end) || end > parameter->count)
        return mt_error_set(error, -ERANGE, MT_REASON_INTERNAL,
                            "%s has %zu values, %zu from %zu on were asked for", parameter->name,
                            parameter->count, count, first);
    return 0;
}

static int absent(const struct mt_parameter *parameter, struct mt_error *error)
{
    return mt_error_set(error, -ENODATA, MT_REASON_INTERNAL, "no such state is kept for %s", parameter->name);
}

int mt_store_read(const struct mt_store *store, const struct mt_parameter *parameter, enum mt_store_part part,
                  size_t first, size_t count, float *values, struct mt_error *error)
{
    const struct mt_slab *slab = &store->slabs[parameter->group];
    int r = check_range(parameter, first, count, error);
    if (r)
        return r;
    if (part == MT_STORE_MASTER && slab->high) {
        const uint16_t *high = slab->high + parameter->offset + first;
        const int16_t *remainder = slab->remainder + parameter->offset + first;
        for (size_t i = 0; i < count; i++) {
            const uint32_t bits = mt_split_join(high[i], remainder[i]);
            memcpy(&values[i], &bits, sizeof bits);
        }
        return 0;
    }
    const float *array = array_of(slab, parameter, part);
    if (!array)
        return absent(parameter, error);
    memcpy(values, array + first, count * sizeof *values);
    return 0;
}

/* What makes the highest bit of a magnitude that is not finite: added to one whose exponent is full, it
 * carries. The high half that the device sees when the master is split is rounded: there half of its last
 * place more is too much. */
#define MAGNITUDE 0x7fffffffu
#define CARRY_PLAIN 0x00800000u
#define CARRY_SPLIT 0x00808000u

/* All magnitudes with the carry, or-ed: the highest bit tells of any that is not usable. */
__attribute__((always_inline)) static inline uint32_t gather_bits(const float *values, size_t count,
                                                                  uint32_t carry)
{
    uint32_t bits, all = 0;
    for (size_t i = 0; i < count; i++) {
        memcpy(&bits, &values[i], sizeof bits);
        all |= (bits & MAGNITUDE) + carry;
    }
    return all;
}

#if defined(__x86_64__) && !defined(__AVX2__)
__attribute__((target("avx2"))) static uint32_t gather_avx2(const float *values, size_t count, uint32_t carry)
{
    return gather_bits(values, count, carry);
}

static uint32_t gather(const float *values, size_t count, uint32_t carry)
{
    return __builtin_cpu_supports("avx2") ? gather_avx2(values, count, carry)
                                          : gather_bits(values, count, carry);
}
#else
static uint32_t gather(const float *values, size_t count, uint32_t carry)
{
    return gather_bits(values, count, carry);
}
#endif

/* All of them at a time first: the loop that finds the culprit is for the rare case. */
static int check_master(const struct mt_store *store, const struct mt_parameter *parameter, size_t first,
                        size_t count, const float *values, struct mt_error *error)
{
    const uint32_t carry = store->options.compute_dtype == MT_BF16 ? CARRY_SPLIT : CARRY_PLAIN;
    const bool bad = gather(values, count, carry) >> 31;
    for (size_t i = 0; bad && i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        if (((bits & MAGNITUDE) + carry) >> 31)
            return mt_error_set(error, -ERANGE, MT_REASON_BAD_MODEL,
                                "%s: value %zu is %g, which is not a usable weight", parameter->name,
                                first + i, (double)values[i]);
    }
    return 0;
}

int mt_store_write(struct mt_store *store, const struct mt_parameter *parameter, enum mt_store_part part,
                   size_t first, size_t count, const float *values, struct mt_error *error)
{
    const struct mt_slab *slab = &store->slabs[parameter->group];
    int r = check_range(parameter, first, count, error);
    if (!r && part == MT_STORE_MASTER)
        r = check_master(store, parameter, first, count, values, error);
    if (r)
        return r;
    if (part == MT_STORE_MASTER && slab->high) {
        uint16_t *high = slab->high + parameter->offset + first;
        int16_t *remainder = slab->remainder + parameter->offset + first;
        for (size_t i = 0; i < count; i++) {
            uint32_t bits;
            memcpy(&bits, &values[i], sizeof bits);
            high[i] = mt_split_high(bits);
            remainder[i] = mt_split_remainder(bits);
        }
        return 0;
    }
    float *array = array_of(slab, parameter, part);
    if (!array)
        return absent(parameter, error);
    memcpy(array + first, values, count * sizeof *values);
    return 0;
}

int mt_store_begin_write(struct mt_store *store, const struct mt_parameter *parameter, size_t first,
                         size_t count, float **values, struct mt_error *error)
{
    float *master = store->slabs[parameter->group].master;
    *values = master ? master + parameter->offset + first : NULL;
    return check_range(parameter, first, count, error);
}

int mt_store_check_write(const struct mt_store *store, const struct mt_parameter *parameter, size_t first,
                         size_t count, struct mt_error *error)
{
    const float *master = store->slabs[parameter->group].master;
    return master ? check_master(store, parameter, first, count, master + parameter->offset + first, error)
                  : 0;
}
