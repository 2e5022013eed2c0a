/* How well the schedule overlaps, on a timed device: the real executor over the real streams and events of
 * the CPU device apart, where kernels, copies and updates take no time but are charged to clocks of their
 * own. Each stream has a clock; an operation starts when its stream, the host that put it there and the
 * events it waits for allow, and moves the clock on by its length. So the step's length is exact, however
 * busy this machine is.
 *
 * Lengths are set by layer: W for weights in, F for forward, 3F for recomputing and differentiating, G for
 * gradients out, U for an update. The critical path of the dependency graph, phase by phase (each a pipeline
 * over the layers): clipped    forward U + W + F + (n - 1) max(U, W, F); backward 3F + G + (n - 1) max(W, 3F,
 * G) unclipped  forward W + F + (n - 1) max(W, F);        backward 3F + G + U + (n - 1) max(W, 3F, G, U) (the
 * last layer's weights are still there when the backward pass begins). */
#include "core/device/open.h"
#include "core/stream/executor.h"
#include "tests/bench/bench.h"

#define LAYERS 48u
#define STEPS 3u
#define MICRO_BATCHES 4u
#define LENGTH 8u
#define HIDDEN 32u
#define BOUNDARY_BYTES (LENGTH * HIDDEN * sizeof(float))

/* ---- clocks ---- */

#define MAX_STREAMS 8u
#define MAX_EVENTS 4096u
#define MAX_RECORDS (1u << 20)

struct clock {
    const void *owner;
    double now;
};

static struct {
    const struct mt_device_api *real;
    const struct mt_store *store;
    struct clock streams[MAX_STREAMS];
    double host, updater;
    double updated[LAYERS + 2]; /* end of each group's last update */
    struct {
        const void *event;
        double *latest; /* of its last record: the stream's clock when it got there */
    } events[MAX_EVENTS];
    double *records;
    size_t num_records;
    double weights, forward, gradients, update; /* W, F, G, U */
    double boundary; /* a micro-batch's input to or from the host, when offloaded */
} timed;

static double later(double a, double b)
{
    return a > b ? a : b;
}

static struct clock *clock_of(const struct mt_stream *stream)
{
    struct clock *clock = timed.streams;
    while (clock->owner && clock->owner != stream)
        clock++;
    clock->owner = stream;
    return clock;
}

/* What happens on a stream's thread when it gets there. */
struct charge {
    struct clock *clock;
    double not_before, length;
    const double *wait; /* a record to wait for */
    double *record;     /* or to make */
};

static void run_charge(void *context)
{
    struct charge *charge = context;
    double now = later(charge->clock->now, charge->not_before);
    if (charge->wait)
        now = later(now, *charge->wait);
    charge->clock->now = now + charge->length;
    if (charge->record)
        *charge->record = charge->clock->now;
    free(charge);
}

static int put(struct mt_stream *stream, double length, const double *wait, double *record)
{
    struct charge *charge = malloc(sizeof *charge);
    *charge = (struct charge){clock_of(stream), timed.host, length, wait, record};
    return timed.real->stream_host_function(stream, run_charge, charge);
}

static double **latest_of(const struct mt_event *event)
{
    size_t i = 0;
    while (timed.events[i].event && timed.events[i].event != event)
        i++;
    timed.events[i].event = event;
    return &timed.events[i].latest;
}

/* ---- the device's functions ---- */

static int timed_event_record(struct mt_event *event, struct mt_stream *stream)
{
    double *record = &timed.records[timed.num_records++ % MAX_RECORDS];
    *latest_of(event) = record;
    int r = put(stream, 0, NULL, record);
    return r ? r : timed.real->event_record(event, stream);
}

static int timed_event_wait(struct mt_stream *stream, struct mt_event *event)
{
    const double *record = *latest_of(event);
    int r = timed.real->event_wait(stream, event);
    return r ? r : put(stream, 0, record, NULL);
}

/* Only the updater waits for events on the host. */
static int timed_event_synchronize(struct mt_event *event, struct mt_error *error)
{
    int r = timed.real->event_synchronize(event, error);
    if (*latest_of(event))
        timed.updater = later(timed.updater, **latest_of(event));
    return r;
}

static int timed_stream_synchronize(struct mt_stream *stream, struct mt_error *error)
{
    int r = timed.real->stream_synchronize(stream, error);
    timed.host = later(timed.host, clock_of(stream)->now);
    return r;
}

/* The group whose slab a host address lies in; the embedding's for what was gathered from it. */
static size_t group_of(const void *host)
{
    const struct mt_model *model = mt_store_model(timed.store);
    for (size_t g = 0; g < model->num_groups; g++) {
        size_t bytes;
        const char *slab = mt_store_transfer_source(timed.store, g, &bytes);
        if ((const char *)host >= slab && (const char *)host < slab + bytes)
            return g;
    }
    return MT_GROUP_EMBEDDING;
}

static int timed_copy_to_device(struct mt_stream *stream, void *to, const void *from, size_t bytes)
{
    (void)to;
    const size_t group = group_of(from);
    size_t slab_bytes;
    mt_store_transfer_source(timed.store, group, &slab_bytes);
    const bool layer = group > 0 && group <= LAYERS;
    timed.host = later(timed.host, timed.updated[group]); /* the executor has waited for it */
    const bool boundary = bytes == BOUNDARY_BYTES;
    return put(stream,
               layer      ? timed.weights * (double)bytes / (double)slab_bytes
               : boundary ? timed.boundary
                          : 0,
               NULL, NULL);
}

static int timed_copy_to_host(struct mt_stream *stream, void *to, const void *from, size_t bytes)
{
    (void)from;
    const bool gradient = bytes == mt_store_model(timed.store)->groups[1].train_count * sizeof(float);
    if (!gradient)
        memset(to, 0, bytes); /* sums, losses */
    return put(stream, gradient ? timed.gradients : bytes == BOUNDARY_BYTES ? timed.boundary : 0, NULL, NULL);
}

/* The host waited for an update of this group: to defer to it, or for the memory that it read. */
static void timed_host_end(struct mt_device *device, const struct mt_host_work *work)
{
    (void)device;
    if (work->stage == MT_STAGE_WAIT)
        timed.host = later(timed.host, timed.updated[work->index]);
}

static int timed_attention(struct mt_stream *stream, const struct mt_attention_args *args)
{
    (void)args;
    return put(stream, timed.forward, NULL, NULL);
}

static int timed_attention_backward(struct mt_stream *stream, const struct mt_attention_backward_args *args)
{
    (void)args;
    return put(stream, 2 * timed.forward, NULL, NULL);
}

/* Every other operation takes no time. */
#define FREE_OPERATION(name)                                                                                 \
    static int timed_##name(struct mt_stream *stream, const struct mt_##name##_args *args)                   \
    {                                                                                                        \
        (void)stream;                                                                                        \
        (void)args;                                                                                          \
        return 0;                                                                                            \
    }
FREE_OPERATION(rms_norm)
FREE_OPERATION(rms_norm_backward)
FREE_OPERATION(linear)
FREE_OPERATION(linear_backward_input)
FREE_OPERATION(linear_backward_weight)
FREE_OPERATION(rope)
FREE_OPERATION(gated_activation)
FREE_OPERATION(gated_activation_backward)
FREE_OPERATION(cross_entropy_statistics)
FREE_OPERATION(cross_entropy_finish)
FREE_OPERATION(cross_entropy_backward)
FREE_OPERATION(sum_squares)

static int timed_copy(struct mt_stream *stream, void *to, const void *from, size_t bytes)
{
    (void)stream;
    (void)to;
    (void)from;
    (void)bytes;
    return 0;
}

/* ---- updates: in place of core/optim/adamw.c, which the linker then leaves in the archive ---- */

bool mt_adamw_update(const struct mt_adamw *adamw, const struct mt_adamw_step *step, struct mt_store *store,
                     size_t group, const float *gradient, struct mt_pool *pool)
{
    (void)adamw;
    (void)step;
    (void)store;
    (void)gradient;
    (void)pool;
    timed.updater = later(timed.updater, timed.host);
    timed.updater += group > 0 && group <= LAYERS ? timed.update : 0;
    timed.updated[group] = timed.updater;
    return true;
}

double mt_clip_factor(double max_norm, double norm)
{
    (void)max_norm;
    (void)norm;
    return 1;
}

/* ---- a run ---- */

struct lengths {
    double weights, forward, gradients, update, boundary;
};

static double critical_path(const struct lengths *l, bool clipped)
{
    const double n = LAYERS - 1, in = l->weights + MICRO_BATCHES * l->boundary;
    const double backward = later(later(in, 3 * l->forward), l->gradients);
    const double forward = later(later(l->weights, l->forward), MICRO_BATCHES * l->boundary);
    double path = l->weights + l->forward + 3 * l->forward + l->gradients + l->update;
    path += n * (clipped ? later(l->update, forward) : forward);
    return path + n * (clipped ? backward : later(backward, l->update));
}

static double step_ratio(const struct lengths *l, bool clipped, enum mt_choice offload)
{
    static struct mt_device_api api;
    static int32_t ids[MICRO_BATCHES][LENGTH], labels[MICRO_BATCHES][LENGTH], starts[2] = {0, LENGTH};
    struct mt_sequence sequences[MICRO_BATCHES];
    struct mt_batch batch = {.num_sequences = MICRO_BATCHES,
                             .sequences = sequences,
                             .tokens = MICRO_BATCHES * LENGTH,
                             .target_tokens = MICRO_BATCHES * (LENGTH - 1)};
    for (size_t r = 0; r < MICRO_BATCHES; r++) {
        labels[r][LENGTH - 1] = MT_LABEL_IGNORED;
        sequences[r] = (struct mt_sequence){.tokens = LENGTH,
                                            .ids = ids[r],
                                            .labels = labels[r],
                                            .num_documents = 1,
                                            .document_starts = starts};
    }
    struct mt_error error = {0};
    struct mt_pool *pool = mt_pool_new(2);
    struct mt_device *device;
    struct mt_model *model;
    struct mt_store *store;
    struct mt_executor *executor;
    json_t *keys = json_pack("{s:i, s:i, s:i, s:i}", "vocab_size", 32, "hidden_size", HIDDEN, "num_layers",
                             LAYERS, "num_attention_heads", 2);
    const struct mt_executor_options options = {
        .micro_batch_size = 1,
        .max_sequences = MICRO_BATCHES,
        .max_sequence_tokens = LENGTH,
        .activation_offload = offload,
        .recompute = MT_CHOICE_ON,
        .max_grad_norm = clipped ? 1 : 0,
        .max_skipped_steps = clipped ? 3 : 0,
    };
    struct mt_store_options store_options = {.compute_dtype = MT_F32,
                                             .no_gradients = mt_executor_updates_in_backward(&options)};
    memset(&timed, 0, sizeof timed);
    timed.records = calloc(MAX_RECORDS, sizeof *timed.records);
    if (mt_device_open("cpu-discrete", &(struct mt_device_options){.pool = pool}, &device, &error) ||
        mt_model_from_keys("llama", keys, &model, &error) ||
        mt_store_new(model, device, &store_options, &store, &error) || mt_store_init(store, 1, pool, &error))
        exit(1);
    json_decref(keys);
    timed.real = device->api;
    timed.store = store;
    api = *device->api;
    api.event_record = timed_event_record;
    api.event_wait = timed_event_wait;
    api.event_synchronize = timed_event_synchronize;
    api.stream_synchronize = timed_stream_synchronize;
    api.copy_to_device = timed_copy_to_device;
    api.copy_to_host = timed_copy_to_host;
    api.copy = timed_copy;
    api.attention = timed_attention;
    api.attention_backward = timed_attention_backward;
    api.rms_norm = timed_rms_norm;
    api.rms_norm_backward = timed_rms_norm_backward;
    api.linear = timed_linear;
    api.linear_backward_input = timed_linear_backward_input;
    api.linear_backward_weight = timed_linear_backward_weight;
    api.rope = timed_rope;
    api.gated_activation = timed_gated_activation;
    api.gated_activation_backward = timed_gated_activation_backward;
    api.cross_entropy_statistics = timed_cross_entropy_statistics;
    api.cross_entropy_finish = timed_cross_entropy_finish;
    api.cross_entropy_backward = timed_cross_entropy_backward;
    api.sum_squares = timed_sum_squares;
    api.host_end = timed_host_end;
    device->api = &api;
    if (mt_executor_new(store, device, pool, &options, &executor, &error))
        exit(1);
    timed.weights = l->weights;
    timed.forward = l->forward / MICRO_BATCHES;
    timed.boundary = l->boundary;
    timed.gradients = l->gradients;
    timed.update = l->update;

    /* From the end of one step (and of its updates when they run in the backward pass) to the end of the
     * next. */
    double ends[STEPS];
    for (size_t s = 0; s < STEPS; s++) {
        struct mt_step_result result;
        if (mt_executor_step(executor, &batch, 1e-3, &result, &error) || result.skipped) {
            fprintf(stderr, "%s\n", error.message);
            exit(1);
        }
        if (!clipped)
            mt_executor_finish(executor, &error);
        ends[s] = clipped ? timed.host : later(timed.host, timed.updater);
        if (!clipped)
            timed.host = ends[s];
    }
    const double ratio = (ends[STEPS - 1] - ends[STEPS - 2]) / critical_path(l, clipped);
    mt_executor_free(executor);
    device->api = timed.real;
    mt_store_free(store);
    mt_model_free(model);
    mt_device_close(device);
    mt_pool_free(pool);
    free(timed.records);
    return ratio;
}

int main(void)
{
    /* From transfer-bound to compute-bound, updates slow and fast. */
    static const struct lengths ratios[] = {
        {8, 1, 16, 4, 0}, {8, 1, 8, 12, 0}, {4, 1, 8, 4, 0}, {4, 2, 8, 10, 0}, {2, 2, 4, 4, 0},
        {2, 2, 4, 12, 0}, {1, 2, 2, 2, 0},  {1, 4, 2, 2, 0}, {1, 4, 2, 14, 0}, {1, 16, 2, 2, 0},
    };
    double worst = 0;
    for (size_t i = 0; i < sizeof ratios / sizeof *ratios; i++)
        for (int clipped = 0; clipped < 2; clipped++)
            for (int offload = 0; offload < 2; offload++) {
                struct lengths lengths = ratios[i];
                lengths.boundary = offload ? lengths.forward / 16 : 0;
                const double ratio = step_ratio(&lengths, clipped, offload ? MT_CHOICE_ON : MT_CHOICE_OFF);
                printf("# W %g F %g G %g U %g %s, inputs %s: %.4f\n", ratios[i].weights, ratios[i].forward,
                       ratios[i].gradients, ratios[i].update, clipped ? "clipped" : "unclipped",
                       offload ? "offloaded" : "kept", ratio);
                worst = later(worst, ratio);
            }
    return bench_at_most("overlap_worst_ratio", worst, "ratio", 1.05) ? 0 : 1;
}
