/* Initial values from scratch, in blocks over the pool. A value depends on seed, name and index alone. */
#include "core/base/size.h"
#include "core/store/store.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK ((size_t)1 << 14)

struct work {
    struct mt_store *store;
    const struct mt_parameter *parameter;
    uint64_t seed;
    atomic_bool failed; /* initializer_range so large that a value is not usable */
};

static void fill_block(void *context, size_t task)
{
    struct work *work = context;
    const struct mt_parameter *parameter = work->parameter;
    float values[1024];
    const size_t end = mt_size_min((task + 1) * BLOCK, parameter->count);
    for (size_t first = task * BLOCK; first < end; first += sizeof values / sizeof *values) {
        const size_t count = mt_size_min(end - first, sizeof values / sizeof *values);
        mt_model_init_values(mt_store_model(work->store), parameter, work->seed, first, count, values);
        if (mt_store_write(work->store, parameter, MT_STORE_MASTER, first, count, values, NULL))
            atomic_store(&work->failed, true);
    }
}

int mt_store_init(struct mt_store *store, uint64_t seed, struct mt_pool *pool, struct mt_error *error)
{
    const struct mt_model *model = mt_store_model(store);
    for (size_t i = 0; i < model->num_parameters; i++) {
        struct work work = {.store = store, .parameter = &model->parameters[i], .seed = seed};
        mt_pool_run(pool, mt_size_ceil_div(work.parameter->count, BLOCK), fill_block, &work);
        if (atomic_load(&work.failed))
            return mt_error_set(error, -ERANGE, MT_REASON_BAD_JOB,
                                "%s: initializer_range %g gives values that are not finite",
                                work.parameter->name, model->initializer_range);
    }
    for (size_t g = 0; g < model->num_groups; g++) {
        const struct mt_slab *slab = mt_store_slab(store, g);
        const size_t bytes = model->groups[g].train_count * sizeof(float);
        if (slab->moment1) {
            memset(slab->moment1, 0, bytes);
            memset(slab->moment2, 0, bytes);
        }
    }
    mt_store_set_updates(store, 0);
    return 0;
}
