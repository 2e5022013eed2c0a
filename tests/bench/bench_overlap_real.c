/* What the overlap is worth with real kernels: the same steps on cpu-discrete with the three streams and
 * deferred updates, and, beside them, with everything in one stream and updates between the steps. The bus is
 * as fast as makes the copies of a step's weights take most of its computing time. Pairs alternate; each
 * measurement ends with its last update made. bench_overlap.c says how near the schedule comes to what is
 * possible; this, that it is so on a machine. */
#include "core/base/random.h"
#include "core/base/time.h"
#include "core/device/open.h"
#include "core/stream/executor.h"
#include "tests/bench/bench.h"

#define PAIRS 5
#define STEPS 2
#define ROWS 4u
#define LENGTH 96u
#define VOCABULARY 2048u
#define BUS_SHARE 0.8 /* of the time a step takes without a bus */

static const char shape[] = "{\"vocab_size\": 2048, \"hidden_size\": 384, \"num_layers\": 8,"
                            " \"num_attention_heads\": 8, \"intermediate_size\": 1024}";

/* ---- everything in one stream ---- */

static const struct mt_device_api *real;
static struct mt_stream *only;
static size_t users;

static int same_stream(struct mt_device *device, const char *name, struct mt_stream **stream,
                       struct mt_error *error)
{
    int r = only ? 0 : real->stream_create(device, name, &only, error);
    users += r == 0;
    *stream = only;
    return r;
}

static void leave_stream(struct mt_stream *stream)
{
    if (--users == 0) {
        real->stream_destroy(stream);
        only = NULL;
    }
}

/* ---- a run ---- */

struct bench_run {
    struct mt_device *device;
    struct mt_device_api api;
    struct mt_model *model;
    struct mt_store *store;
    struct mt_executor *executor;
};

static void fail(const struct mt_error *error)
{
    fprintf(stderr, "%s\n", error->message);
    exit(1);
}

static void open_run(struct bench_run *run, struct mt_pool *pool, double bus, bool overlap)
{
    struct mt_error error = {0};
    const struct mt_device_options device = {.pool = pool, .bus_bytes_per_second = bus};
    const struct mt_executor_options options = {
        .micro_batch_size = ROWS,
        .max_sequences = ROWS,
        .max_sequence_tokens = LENGTH,
        .recompute = MT_CHOICE_ON,
        .immediate_update = !overlap,
        .max_grad_norm = 1,
        .max_skipped_steps = 3,
        .adamw = {.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.01},
    };
    json_t *keys = json_loads(shape, 0, NULL);
    if (mt_device_open("cpu-discrete", &device, &run->device, &error))
        fail(&error);
    real = run->device->api;
    run->api = *real;
    if (!overlap) {
        run->api.stream_create = same_stream;
        run->api.stream_destroy = leave_stream;
    }
    run->device->api = &run->api;
    if (mt_model_from_keys("llama", keys, &run->model, &error) ||
        mt_store_new(run->model, run->device, &(struct mt_store_options){.compute_dtype = MT_F32},
                     &run->store, &error) ||
        mt_store_init(run->store, 1, pool, &error) ||
        mt_executor_new(run->store, run->device, pool, &options, &run->executor, &error))
        fail(&error);
    json_decref(keys);
}

static void close_run(struct bench_run *run)
{
    mt_executor_free(run->executor);
    mt_store_free(run->store);
    mt_model_free(run->model);
    run->device->api = real;
    mt_device_close(run->device);
}

static struct mt_batch *make_batch(void)
{
    static struct mt_sequence sequences[ROWS];
    static int32_t ids[ROWS][LENGTH], labels[ROWS][LENGTH], starts[2] = {0, LENGTH};
    static struct mt_batch batch = {.num_sequences = ROWS,
                                    .sequences = sequences,
                                    .tokens = ROWS * LENGTH,
                                    .target_tokens = ROWS * (LENGTH - 1)};
    struct mt_random random = {.key = 3};
    for (size_t r = 0; r < ROWS; r++) {
        for (size_t t = 0; t < LENGTH; t++)
            ids[r][t] = (int32_t)mt_random_below(&random, VOCABULARY);
        for (size_t t = 0; t < LENGTH; t++)
            labels[r][t] = t + 1 < LENGTH ? ids[r][t + 1] : MT_LABEL_IGNORED;
        sequences[r] = (struct mt_sequence){.tokens = LENGTH,
                                            .ids = ids[r],
                                            .labels = labels[r],
                                            .num_documents = 1,
                                            .document_starts = starts,
                                            .row = r};
    }
    return &batch;
}

/* A step, of several; losses to compare. */
static double seconds(struct bench_run *run, double *loss)
{
    const struct mt_batch *batch = make_batch();
    struct mt_step_result result = {0};
    struct mt_error error = {0};
    const double start = mt_time_monotonic();
    for (size_t i = 0; i < STEPS; i++)
        if (mt_executor_step(run->executor, batch, 1e-4, &result, &error))
            fail(&error);
    if (mt_executor_finish(run->executor, &error))
        fail(&error);
    *loss = result.loss;
    return (mt_time_monotonic() - start) / STEPS;
}

/* A bus over which a step's weights take BUS_SHARE of what it computes. */
static double choose_bus(struct mt_pool *pool)
{
    struct bench_run run;
    double loss;
    size_t weights, in, out;
    open_run(&run, pool, 0, false);
    seconds(&run, &loss);
    const double step = seconds(&run, &loss);
    mt_executor_traffic(run.executor, &weights, &in, &out);
    close_run(&run);
    return (double)weights / (2 * STEPS) / (BUS_SHARE * step);
}

int main(void)
{
    struct mt_pool *pool = mt_pool_new(0);
    const double bus = choose_bus(pool);
    struct bench_run on, off;
    double with[PAIRS], without[PAIRS], ratios[PAIRS], losses[2];
    open_run(&on, pool, bus, true);
    open_run(&off, pool, bus, false);
    seconds(&on, &losses[0]);
    seconds(&off, &losses[1]);
    for (size_t pair = 0; pair < PAIRS; pair++) {
        without[pair] = seconds(&off, &losses[1]);
        with[pair] = seconds(&on, &losses[0]);
        ratios[pair] = without[pair] / with[pair];
        if (losses[0] != losses[1]) { /* the overlap changes no bit */
            fprintf(stderr, "losses %.17g and %.17g\n", losses[0], losses[1]);
            return 1;
        }
    }
    bench_note("overlap_off_step_seconds", bench_median(without, PAIRS), "s");
    bench_note("overlap_on_step_seconds", bench_median(with, PAIRS), "s");
    const bool pass = bench_at_least("overlap_real_speedup", bench_median(ratios, PAIRS), "ratio", 1.2);
    printf("# a bus of %.2f GB/s each way; pairs", bus / 1e9);
    for (size_t pair = 0; pair < PAIRS; pair++)
        printf(" %.2f", ratios[pair]);
    printf("\n");
    close_run(&on);
    close_run(&off);
    mt_pool_free(pool);
    return pass ? 0 : 1;
}
