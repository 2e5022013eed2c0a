#include "core/stream/updater.h"

#include "core/stream/device_util.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>

struct mt_updater {
    struct mt_store *store;
    struct mt_device *device;
    struct mt_pool *pool;
    struct mt_adamw adamw;
    pthread_t thread; /* none for a simulated device: updates are counted as they are posted */
    bool simulated;

    pthread_mutex_t lock; /* of all below */
    pthread_cond_t posted, finished;
    struct mt_update *queue; /* [capacity], a ring */
    size_t capacity, first, count;
    bool *pending; /* [num_groups] */
    bool ending;
    struct mt_error failure; /* code 0: none */
};

/* Read: gradient, moments, master. Written: moments and master. */
#define BYTES_AN_ELEMENT (7 * sizeof(float))

static struct mt_host_work work_of(const struct mt_updater *updater, const struct mt_update *update)
{
    const struct mt_group *group = &mt_store_model(updater->store)->groups[update->group];
    return (struct mt_host_work){.stage = MT_STAGE_UPDATE,
                                 .index = update->group,
                                 .bytes = group->train_count * BYTES_AN_ELEMENT,
                                 .after = update->landed};
}

/* Whether every gradient of the group is finite, by its sum of squares. */
static bool finite_sums(const struct mt_updater *updater, const struct mt_update *update)
{
    const struct mt_model *model = mt_store_model(updater->store);
    const struct mt_group *group = &model->groups[update->group];
    for (size_t i = 0; i < group->num_parameters; i++) {
        const struct mt_parameter *p = &model->parameters[group->first_parameter + i];
        if (!p->frozen && !isfinite(update->sums[p->index]))
            return false;
    }
    return true;
}

static int make(struct mt_updater *updater, const struct mt_update *update, struct mt_error *error)
{
    if (update->landed) {
        int r = updater->device->api->event_synchronize(update->landed, error);
        if (r)
            return r;
    }
    if (update->sums && !finite_sums(updater, update))
        return mt_error_set(error, -ERANGE, MT_REASON_NON_FINITE_LOSS, "a gradient is not finite");
    const struct mt_host_work work = work_of(updater, update);
    if (!mt_host_begin(updater->device, &work))
        return 0;
    const bool finite = mt_adamw_update(&updater->adamw, &update->step, updater->store, update->group,
                                        update->gradient, updater->pool);
    mt_host_end(updater->device, &work);
    if (!finite)
        return mt_error_set(
            error, -ERANGE, MT_REASON_NON_FINITE_LOSS,
            "an update made a parameter that is not finite: the learning rate may be too high");
    return 0;
}

static void *run(void *context)
{
    struct mt_updater *updater = context;
    pthread_mutex_lock(&updater->lock);
    for (;;) {
        while (!updater->count && !updater->ending)
            pthread_cond_wait(&updater->posted, &updater->lock);
        if (!updater->count)
            break;
        const struct mt_update update = updater->queue[updater->first];
        const bool failed = updater->failure.code != 0;
        pthread_mutex_unlock(&updater->lock);

        struct mt_error error = {0};
        int r = failed ? 0 : make(updater, &update, &error);
        if (update.done)
            update.done(update.context, update.group);

        pthread_mutex_lock(&updater->lock);
        if (r)
            updater->failure = error;
        updater->first = (updater->first + 1) % updater->capacity;
        updater->count--;
        updater->pending[update.group] = false;
        pthread_cond_broadcast(&updater->finished);
    }
    pthread_mutex_unlock(&updater->lock);
    return NULL;
}

int mt_updater_new(struct mt_store *store, struct mt_device *device, struct mt_pool *pool,
                   const struct mt_adamw *adamw, struct mt_updater **updater_out, struct mt_error *error)
{
    *updater_out = NULL;
    struct mt_device_info info;
    device->api->info(device, &info);
    const size_t groups = mt_store_model(store)->num_groups;
    struct mt_updater *updater = calloc(1, sizeof *updater);
    struct mt_update *queue = calloc(groups, sizeof *queue);
    bool *pending = calloc(groups, sizeof *pending);
    int r = -ENOMEM;
    if (updater && queue && pending) {
        *updater = (struct mt_updater){.store = store,
                                       .device = device,
                                       .pool = pool,
                                       .adamw = *adamw,
                                       .lock = PTHREAD_MUTEX_INITIALIZER,
                                       .posted = PTHREAD_COND_INITIALIZER,
                                       .finished = PTHREAD_COND_INITIALIZER,
                                       .queue = queue,
                                       .capacity = groups,
                                       .pending = pending,
                                       .simulated = info.simulated};
        r = info.simulated ? 0 : -pthread_create(&updater->thread, NULL, run, updater);
    }
    if (r) {
        free(updater);
        free(queue);
        free(pending);
        return mt_error_set(error, r, MT_REASON_OUT_OF_MEMORY, "cannot start the thread for updates");
    }
    *updater_out = updater;
    return 0;
}

void mt_updater_free(struct mt_updater *updater)
{
    if (!updater)
        return;
    pthread_mutex_lock(&updater->lock);
    updater->ending = true;
    pthread_cond_signal(&updater->posted);
    pthread_mutex_unlock(&updater->lock);
    if (!updater->simulated)
        pthread_join(updater->thread, NULL);
    free(updater->queue);
    free(updater->pending);
    free(updater);
}

void mt_updater_post(struct mt_updater *updater, const struct mt_update *update)
{
    if (updater->simulated) {
        const struct mt_host_work work = work_of(updater, update);
        mt_host_begin(updater->device, &work);
        if (update->done)
            update->done(update->context, update->group);
        return;
    }
    pthread_mutex_lock(&updater->lock);
    updater->queue[(updater->first + updater->count++) % updater->capacity] = *update;
    updater->pending[update->group] = true;
    pthread_cond_signal(&updater->posted);
    pthread_mutex_unlock(&updater->lock);
}

void mt_updater_wait(struct mt_updater *updater, size_t group)
{
    const struct mt_host_work wait = {.stage = MT_STAGE_WAIT, .index = group};
    pthread_mutex_lock(&updater->lock);
    if ((updater->simulated || updater->pending[group]) && mt_host_begin(updater->device, &wait)) {
        while (updater->pending[group])
            pthread_cond_wait(&updater->finished, &updater->lock);
        mt_host_end(updater->device, &wait);
    }
    pthread_mutex_unlock(&updater->lock);
}

static int report(struct mt_updater *updater, bool wait, struct mt_error *error)
{
    pthread_mutex_lock(&updater->lock);
    while (wait && updater->count)
        pthread_cond_wait(&updater->finished, &updater->lock);
    const struct mt_error failure = updater->failure;
    pthread_mutex_unlock(&updater->lock);
    if (failure.code && error)
        *error = failure;
    return failure.code;
}

int mt_updater_drain(struct mt_updater *updater, struct mt_error *error)
{
    return report(updater, true, error);
}

int mt_updater_check(struct mt_updater *updater, struct mt_error *error)
{
    return report(updater, false, error);
}
