#include "core/stream/gradients.h"

#include "core/base/size.h"
#include "core/stream/device_util.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define NONE SIZE_MAX

enum slab_kind { SLAB_LAYER, SLAB_NORM, SLAB_TILE, NUM_SLAB_KINDS };

/* A slab in device memory. */
struct slab {
    enum slab_kind kind;
    float *address;
    size_t parcel;                 /* being summed here; NONE */
    uint64_t used;                 /* when it was taken last */
    struct mt_event *ready, *left; /* summed; gone to the host */
};

/* A slab in host memory that an update reads. */
struct landing {
    float *address;
    size_t group;   /* whose gradient it holds; NONE */
    size_t last;    /* whose it held before; NONE */
    uint64_t freed; /* when: the longest free is taken first */
};

struct mt_gradients {
    struct mt_store *store;
    const struct mt_model *model;
    struct mt_device *device;
    struct mt_stream *compute, *out;
    bool in_place, simulated, landings_used;
    size_t tile_rows, sum_rows, num_slabs;
    struct mt_blocks blocks;

    size_t num_device_slabs;
    struct slab *slabs;
    struct mt_event **slab_events;
    struct mt_event **landed; /* [num_groups] */
    float **hosts;            /* [num_groups]: where the gradient lies or will lie */
    double *sums, *device_sums;
    uint64_t clock;
    size_t copied_bytes;

    pthread_mutex_t lock; /* of the landings */
    pthread_cond_t freed;
    struct landing *landings; /* [num_slabs] */
    uint64_t freed_clock;
};

/* What a parcel is. */
struct parcel {
    enum slab_kind kind;
    const struct mt_group *group;
    const struct mt_parameter *only; /* NULL: the whole group, the output matrix left out */
    size_t first, count;             /* elements from the start of the group's gradients */
    bool starts, ends;               /* its parameter: the first tile, the last */
};

static struct parcel describe(const struct mt_gradients *gradients, size_t number)
{
    const struct mt_model *model = gradients->model;
    if (number < model->num_layers) {
        const struct mt_group *group = &model->groups[mt_model_layer_group(number)];
        return (struct parcel){SLAB_LAYER, group, NULL, 0, group->train_count, true, true};
    }
    if (number == model->num_layers) {
        const struct mt_group *group = &model->groups[mt_model_head_group(model)];
        const struct mt_parameter *head = group->by_role[MT_ROLE_HEAD];
        const size_t count = head && !head->frozen ? head->train_offset : group->train_count;
        return (struct parcel){SLAB_NORM, group, NULL, 0, count, true, true};
    }
    const struct mt_parameter *table = mt_model_output_table(model);
    const size_t row = (number - model->num_layers - 1) * gradients->tile_rows;
    const size_t rows = mt_size_min(gradients->tile_rows, model->vocab_size - row);
    return (struct parcel){SLAB_TILE,
                           &model->groups[table->group],
                           table,
                           table->train_offset + row * model->embedding_size,
                           table->frozen ? 0 : rows * model->embedding_size,
                           row == 0,
                           row + rows == model->vocab_size};
}

static size_t largest_layer(const struct mt_model *model)
{
    size_t largest = 0;
    for (size_t i = 0; i < model->num_layers; i++)
        largest = mt_size_max(largest, model->groups[mt_model_layer_group(i)].train_count);
    return largest;
}

static int make_device_slabs(struct mt_gradients *gradients, struct mt_error *error)
{
    const struct mt_model *model = gradients->model;
    const struct parcel norm = describe(gradients, model->num_layers);
    const struct parcel tile = describe(gradients, model->num_layers + 1);
    const size_t num_tiles = mt_size_ceil_div(model->vocab_size, gradients->tile_rows);
    const struct {
        size_t slabs, elements;
        const char *purpose;
    } plan[NUM_SLAB_KINDS] = {
        [SLAB_LAYER] = {gradients->num_slabs, largest_layer(model), "a layer's gradients"},
        [SLAB_NORM] = {1, norm.count ? norm.first + norm.count : 0, "the final norm's gradient"},
        [SLAB_TILE] = {mt_size_min(num_tiles, 2), tile.count, "the output matrix's gradient"},
    };
    const size_t total = plan[0].slabs + plan[1].slabs + plan[2].slabs;
    gradients->slabs = calloc(total, sizeof *gradients->slabs);
    if (!gradients->slabs)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory");
    MT_TRY(mt_events_create(gradients->device, 2 * total, &gradients->slab_events, error));
    gradients->num_device_slabs = total;
    size_t n = 0;
    for (enum slab_kind kind = 0; kind < NUM_SLAB_KINDS; kind++)
        for (size_t i = 0; i < plan[kind].slabs; i++, n++) {
            void *address;
            MT_TRY(mt_blocks_device(&gradients->blocks, plan[kind].elements * sizeof(float),
                                    plan[kind].purpose, &address, error));
            gradients->slabs[n] = (struct slab){.kind = kind,
                                                .address = address,
                                                .parcel = NONE,
                                                .ready = gradients->slab_events[2 * n],
                                                .left = gradients->slab_events[2 * n + 1]};
        }
    return 0;
}

/* Landing slabs for the layers; the tables' groups have one each of their own. */
static int make_landings(struct mt_gradients *gradients, struct mt_error *error)
{
    const struct mt_model *model = gradients->model;
    const size_t ends[2] = {MT_GROUP_EMBEDDING, mt_model_head_group(model)};
    void *address;
    for (size_t i = 0; i < 2; i++) {
        MT_TRY(mt_blocks_host(&gradients->blocks, model->groups[ends[i]].train_count * sizeof(float),
                              "a table's gradient", &address, error));
        gradients->hosts[ends[i]] = address;
    }
    gradients->landings = calloc(gradients->num_slabs, sizeof *gradients->landings);
    if (!gradients->landings)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory");
    for (size_t i = 0; i < gradients->num_slabs; i++) {
        MT_TRY(mt_blocks_host(&gradients->blocks, largest_layer(model) * sizeof(float), "a layer's gradients",
                              &address, error));
        gradients->landings[i] = (struct landing){address, NONE, NONE, 0};
    }
    return 0;
}

static int build(struct mt_gradients *gradients, struct mt_error *error)
{
    const struct mt_model *model = gradients->model;
    void *sums, *device_sums;
    gradients->hosts = calloc(model->num_groups, sizeof *gradients->hosts);
    if (!gradients->hosts)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory");
    MT_TRY(mt_events_create(gradients->device, model->num_groups, &gradients->landed, error));
    MT_TRY(mt_blocks_host(&gradients->blocks, model->num_parameters * sizeof(double), "sums of squares",
                          &sums, error));
    gradients->sums = gradients->device_sums = sums;
    memset(sums, 0, model->num_parameters * sizeof(double));
    if (gradients->landings_used)
        MT_TRY(make_landings(gradients, error));
    for (size_t g = 0; g < model->num_groups && !gradients->landings_used; g++)
        gradients->hosts[g] = mt_store_slab(gradients->store, g)->gradient;
    if (gradients->in_place)
        return 0;
    MT_TRY(mt_blocks_device(&gradients->blocks, model->num_parameters * sizeof(double), "sums of squares",
                            &device_sums, error));
    gradients->device_sums = device_sums;
    return make_device_slabs(gradients, error);
}

int mt_gradients_new(struct mt_store *store, struct mt_device *device, struct mt_stream *compute,
                     struct mt_stream *out, const struct mt_gradients_options *options,
                     struct mt_gradients **gradients_out, struct mt_error *error)
{
    *gradients_out = NULL;
    struct mt_gradients *gradients = calloc(1, sizeof *gradients);
    struct mt_device_info info;
    if (!gradients)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory");
    device->api->info(device, &info);
    const struct mt_model *model = mt_store_model(store);
    bool kept = true;
    for (size_t g = 0; g < model->num_groups; g++)
        kept = kept && (!model->groups[g].train_count || mt_store_slab(store, g)->gradient);
    *gradients = (struct mt_gradients){
        .store = store,
        .model = model,
        .device = device,
        .compute = compute,
        .out = out,
        .in_place = info.host_memory,
        .simulated = info.simulated,
        .landings_used = !kept,
        .tile_rows =
            options->tile_rows ? mt_size_min(options->tile_rows, model->vocab_size) : model->vocab_size,
        .sum_rows = options->sum_rows,
        .num_slabs = options->num_slabs ? options->num_slabs : 4,
        .lock = PTHREAD_MUTEX_INITIALIZER,
        .freed = PTHREAD_COND_INITIALIZER,
    };
    if (!gradients->sum_rows)
        gradients->sum_rows = gradients->tile_rows;
    mt_blocks_init(&gradients->blocks, device);
    int r = build(gradients, error);
    if (r) {
        mt_gradients_free(gradients);
        return r;
    }
    *gradients_out = gradients;
    return 0;
}

void mt_gradients_free(struct mt_gradients *gradients)
{
    if (!gradients)
        return;
    mt_events_free(gradients->device, gradients->model->num_groups, gradients->landed);
    mt_events_free(gradients->device, 2 * gradients->num_device_slabs, gradients->slab_events);
    mt_blocks_free(&gradients->blocks);
    free(gradients->slabs);
    free(gradients->landings);
    free(gradients->hosts);
    free(gradients);
}

/* Waits for a landing slab and gives it to a layer's group. The device is told of the wait once it is known
 * whose update it was for; a simulated one, where nothing is ever waited for, moves its clock. */
static void take_landing(struct mt_gradients *gradients, size_t group)
{
    struct mt_host_work wait = {.stage = MT_STAGE_WAIT};
    if (!gradients->simulated)
        mt_host_begin(gradients->device, &wait);
    pthread_mutex_lock(&gradients->lock);
    for (;;) {
        struct landing *landing = NULL;
        for (size_t i = 0; i < gradients->num_slabs; i++) {
            struct landing *other = &gradients->landings[i];
            if (other->group == NONE && (!landing || other->freed < landing->freed))
                landing = other;
        }
        if (landing) {
            wait.index = landing->last;
            landing->group = group;
            gradients->hosts[group] = landing->address;
            pthread_mutex_unlock(&gradients->lock);
            if (wait.index == NONE) /* it was never used */
                return;
            if (gradients->simulated)
                mt_host_begin(gradients->device, &wait);
            else
                mt_host_end(gradients->device, &wait);
            return;
        }
        pthread_cond_wait(&gradients->freed, &gradients->lock);
    }
}

void mt_gradients_give_back(struct mt_gradients *gradients, size_t group)
{
    pthread_mutex_lock(&gradients->lock);
    for (size_t i = 0; gradients->landings && i < gradients->num_slabs; i++)
        if (gradients->landings[i].group == group) {
            gradients->landings[i].group = NONE;
            gradients->landings[i].last = group;
            gradients->landings[i].freed = ++gradients->freed_clock;
        }
    pthread_cond_signal(&gradients->freed);
    pthread_mutex_unlock(&gradients->lock);
}

/* The address that operations see: for the norm they add its train_offset themselves. */
static float *seen(const struct parcel *parcel, float *base)
{
    return parcel->kind == SLAB_TILE ? base + parcel->first : base;
}

static struct slab *find(struct mt_gradients *gradients, size_t number)
{
    for (size_t i = 0; i < gradients->num_device_slabs; i++)
        if (gradients->slabs[i].parcel == number)
            return &gradients->slabs[i];
    return NULL;
}

int mt_gradients_begin(struct mt_gradients *gradients, size_t number, float **address)
{
    const struct parcel parcel = describe(gradients, number);
    *address = NULL;
    if (!parcel.count)
        return 0;
    if (gradients->landings_used && parcel.kind == SLAB_LAYER)
        take_landing(gradients, parcel.group->index);
    if (gradients->in_place) {
        *address = seen(&parcel, gradients->hosts[parcel.group->index]);
        return 0;
    }
    struct slab *slab = NULL;
    for (size_t i = 0; i < gradients->num_device_slabs; i++) {
        struct slab *other = &gradients->slabs[i];
        if (other->kind == parcel.kind && other->parcel == NONE && (!slab || other->used < slab->used))
            slab = other;
    }
    if (!slab)
        return -EBUSY;
    slab->parcel = number;
    slab->used = ++gradients->clock;
    *address = slab->address;
    /* What was summed here before must have left. */
    return gradients->device->api->event_wait(gradients->compute, slab->left);
}

/* Sums of squares of the parcel's parameters, where they lie. `base`: as if the group's gradients started
 * there. */
static int sum(struct mt_gradients *gradients, const struct parcel *parcel, const float *base)
{
    const struct mt_model *model = gradients->model;
    const struct mt_device_api *api = gradients->device->api;
    if (parcel->only) {
        if (parcel->group->index == MT_GROUP_EMBEDDING)
            return 0; /* the tied table: finished and summed on the host */
        const size_t most = gradients->sum_rows * model->embedding_size;
        for (size_t done = 0, some; done < parcel->count; done += some) {
            some = mt_size_min(most, parcel->count - done);
            MT_TRY(
                api->sum_squares(gradients->compute, &(struct mt_sum_squares_args){
                                                         .x = base + parcel->first + done,
                                                         .sum = gradients->device_sums + parcel->only->index,
                                                         .count = some,
                                                         .accumulate = !parcel->starts || done,
                                                     }));
        }
        return 0;
    }
    for (size_t i = 0; i < parcel->group->num_parameters; i++) {
        const struct mt_parameter *p = &model->parameters[parcel->group->first_parameter + i];
        if (p->frozen || p->role == MT_ROLE_HEAD) /* the output matrix is summed tile by tile */
            continue;
        MT_TRY(api->sum_squares(gradients->compute, &(struct mt_sum_squares_args){
                                                        .x = base + p->train_offset,
                                                        .sum = gradients->device_sums + p->index,
                                                        .count = p->count,
                                                    }));
    }
    return 0;
}

static int copy_sums(struct mt_gradients *gradients, const struct parcel *parcel)
{
    const size_t first = parcel->only ? parcel->only->index : parcel->group->first_parameter;
    const bool table = !parcel->only && parcel->group->by_role[MT_ROLE_HEAD];
    const size_t count = parcel->only ? 1 : parcel->group->num_parameters - table;
    if (!parcel->ends || parcel->group->index == MT_GROUP_EMBEDDING)
        return 0;
    return gradients->device->api->copy_to_host(gradients->out, gradients->sums + first,
                                                gradients->device_sums + first, count * sizeof(double));
}

int mt_gradients_end(struct mt_gradients *gradients, size_t number)
{
    const struct parcel parcel = describe(gradients, number);
    const struct mt_device_api *api = gradients->device->api;
    const size_t group = parcel.group->index;
    if (!parcel.count)
        return 0;
    float *host = gradients->hosts[group];
    if (gradients->in_place) {
        MT_TRY(sum(gradients, &parcel, host));
        return api->event_record(gradients->landed[group], gradients->compute);
    }
    struct slab *slab = find(gradients, number);
    const float *base = parcel.kind == SLAB_TILE ? slab->address - parcel.first : slab->address;
    const size_t bytes = parcel.count * sizeof(float);
    MT_TRY(sum(gradients, &parcel, base));
    mt_stream_mark(gradients->device, gradients->out, MT_STAGE_GRADIENTS_OUT, number);
    MT_TRY(mt_stream_follow(gradients->device, slab->ready, gradients->compute, gradients->out));
    MT_TRY(api->copy_to_host(gradients->out, host + parcel.first, base + parcel.first, bytes));
    MT_TRY(copy_sums(gradients, &parcel));
    MT_TRY(api->event_record(slab->left, gradients->out));
    MT_TRY(api->event_record(gradients->landed[group], gradients->out));
    slab->parcel = NONE;
    gradients->copied_bytes += bytes;
    return 0;
}

float *mt_gradients_host(const struct mt_gradients *gradients, size_t group)
{
    return gradients->model->groups[group].train_count ? gradients->hosts[group] : NULL;
}

struct mt_event *mt_gradients_landed(const struct mt_gradients *gradients, size_t group)
{
    return gradients->landed[group];
}

double *mt_gradients_sums(const struct mt_gradients *gradients)
{
    return gradients->sums;
}

size_t mt_gradients_device_bytes(const struct mt_gradients *gradients)
{
    return gradients->blocks.device_bytes;
}

size_t mt_gradients_host_bytes(const struct mt_gradients *gradients)
{
    return gradients->blocks.host_bytes;
}

size_t mt_gradients_copied_bytes(const struct mt_gradients *gradients)
{
    return gradients->copied_bytes;
}
