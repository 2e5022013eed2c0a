/* Collective operations between the devices of a CUDA module ($MEGATRAIN_CUDA_MODULE, else the simulated
 * one): ranks are threads of this process, one a device. With fewer than two devices there is nothing to
 * test. What depends on settings of the simulated device runs in processes of its own. */
#include "core/device/module.h"
#include "tests/unit/device/device_support.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS = 3, COUNT = 1001 };

struct rank {
    const struct mt_cuda_module *module;
    const struct mt_collective_id *id;
    int number, ranks;
    enum mt_dtype dtype;
    pthread_t thread;
    struct mt_device *device;
    struct mt_stream *stream;
    struct mt_collective *collective;
    void *whole, *part; /* [ranks, COUNT] and [COUNT] on the device */
    void *host;         /* [ranks, COUNT], pinned */
    bool stays_away;    /* from the operation that the others do */
    double timeout_seconds;
    pthread_barrier_t *all_here;
    int code;      /* of what came last: of `wait` */
    int operation; /* of the operation itself */
    struct mt_error error;
    const char *wrong;
};

static const struct mt_cuda_module *module_or_skip(int *devices)
{
    const struct mt_cuda_module *module = NULL;
    const char *build = getenv("MT_BUILD");
    char simulated[1024];
    snprintf(simulated, sizeof simulated, "%s/megatrain-cudasim.so", build ? build : "build");
    setenv("MEGATRAIN_CUDA_MODULE", simulated, 0);
    setenv("CUDASIM_DEVICES", "3", 0); /* of the simulated module, which reads it when it is loaded */
    if (mt_cuda_module_load(&module, NULL) || module->count(devices, NULL) || *devices < 2)
        mt_test_skip("needs a CUDA module with two devices");
    return module;
}

/* Small whole numbers: exact in bf16, sums too. */
static float value_of(int rank, size_t i)
{
    return (float)((i * 7 + (size_t)rank * 3) % 16);
}

static void put(const struct rank *rank, size_t i, float value)
{
    if (rank->dtype == MT_BF16)
        ((uint16_t *)rank->host)[i] = mt_bf16_from_float(value);
    else
        ((float *)rank->host)[i] = value;
}

static float get(const struct rank *rank, size_t i)
{
    return rank->dtype == MT_BF16 ? mt_bf16_to_float(((const uint16_t *)rank->host)[i])
                                  : ((const float *)rank->host)[i];
}

static size_t bytes_of(const struct rank *rank, size_t count)
{
    return count * mt_dtype_bytes(rank->dtype);
}

static int set_up(struct rank *rank)
{
    const size_t all = (size_t)rank->ranks * COUNT;
    int r = rank->module->open(rank->number, NULL, &rank->device, &rank->error);
    if (r) {
        pthread_barrier_wait(rank->all_here);
        return r;
    }
    const struct mt_device_api *api = rank->device->api;
    r = api->stream_create(rank->device, "collective", &rank->stream, &rank->error);
    r = r ? r : api->allocate(rank->device, bytes_of(rank, all), &rank->whole, &rank->error);
    r = r ? r : api->allocate(rank->device, bytes_of(rank, COUNT), &rank->part, &rank->error);
    r = r ? r : api->host_allocate(rank->device, bytes_of(rank, all), &rank->host, NULL, &rank->error);
    pthread_barrier_wait(rank->all_here); /* joining is timed */
    return r ? r
             : rank->module->collective->join(rank->device, rank->id, rank->number, rank->ranks,
                                              rank->timeout_seconds, &rank->collective, &rank->error);
}

static void tear_down(struct rank *rank)
{
    rank->module->collective->leave(rank->collective);
    if (!rank->device)
        return;
    const struct mt_device_api *api = rank->device->api;
    if (rank->stream)
        api->stream_destroy(rank->stream);
    api->release(rank->device, rank->whole);
    api->release(rank->device, rank->part);
    api->host_release(rank->device, rank->host);
    mt_device_close(rank->device);
}

static int pull(struct rank *rank, const void *from, size_t count)
{
    int r = rank->module->collective->wait(rank->collective, rank->stream, 20, &rank->error);
    r = r ? r : rank->device->api->copy_to_host(rank->stream, rank->host, from, bytes_of(rank, count));
    return r ? r : rank->device->api->stream_synchronize(rank->stream, &rank->error);
}

static int push(struct rank *rank, void *to, size_t count)
{
    for (size_t i = 0; i < count; i++)
        put(rank, i, value_of(rank->number, i));
    const int r = rank->device->api->copy_to_device(rank->stream, to, rank->host, bytes_of(rank, count));
    return r ? r : rank->device->api->stream_synchronize(rank->stream, &rank->error);
}

static float sum_of(const struct rank *rank, size_t i)
{
    float sum = 0;
    for (int other = 0; other < rank->ranks; other++)
        sum += value_of(other, i);
    return sum;
}

static int all_four(struct rank *rank)
{
    const struct mt_collective_api *c = rank->module->collective;
    const size_t all = (size_t)rank->ranks * COUNT, own = (size_t)rank->number * COUNT;
    int r = push(rank, rank->whole, all);
    r = r ? r : c->all_reduce(rank->collective, rank->stream, rank->whole, rank->whole, all, rank->dtype);
    r = r ? r : pull(rank, rank->whole, all);
    for (size_t i = 0; i < all && !r; i++)
        rank->wrong = get(rank, i) == sum_of(rank, i) ? rank->wrong : "all_reduce";
    r = r ? r : push(rank, rank->whole, all);
    r = r ? r
          : c->reduce_scatter(rank->collective, rank->stream, rank->part, rank->whole, COUNT, rank->dtype);
    r = r ? r : pull(rank, rank->part, COUNT);
    for (size_t i = 0; i < COUNT && !r; i++)
        rank->wrong = get(rank, i) == sum_of(rank, own + i) ? rank->wrong : "reduce_scatter";
    r = r ? r : push(rank, rank->part, COUNT);
    r = r ? r : c->all_gather(rank->collective, rank->stream, rank->whole, rank->part, COUNT, rank->dtype);
    r = r ? r : pull(rank, rank->whole, all);
    for (size_t i = 0; i < all && !r; i++)
        rank->wrong = get(rank, i) == value_of((int)(i / COUNT), i % COUNT) ? rank->wrong : "all_gather";
    r = r ? r : push(rank, rank->part, COUNT);
    r = r ? r : c->group_begin();
    r = r ? r : c->broadcast(rank->collective, rank->stream, rank->part, rank->part, COUNT, 1, rank->dtype);
    r = r ? r : c->group_end();
    r = r ? r : pull(rank, rank->part, COUNT);
    for (size_t i = 0; i < COUNT && !r; i++)
        rank->wrong = get(rank, i) == value_of(1, i) ? rank->wrong : "broadcast";
    return r;
}

static void *run_all_four(void *argument)
{
    struct rank *rank = argument;
    rank->code = set_up(rank);
    rank->code = rank->code ? rank->code : all_four(rank);
    tear_down(rank);
    return NULL;
}

/* A wait that really waits, then a kernel: nothing of the waiting may be held against it. */
static void *run_kernel_after_wait(void *argument)
{
    struct rank *rank = argument;
    rank->code = set_up(rank);
    if (rank->number == 0 && !rank->code)
        usleep(100000);
    int r = rank->code ? rank->code : push(rank, rank->part, COUNT);
    const struct mt_collective_api *c = rank->module->collective;
    r = r ? r : c->all_reduce(rank->collective, rank->stream, rank->part, rank->part, COUNT, rank->dtype);
    r = r ? r : c->wait(rank->collective, rank->stream, 20, &rank->error);
    const struct mt_add_args add = {
        .a = rank->part, .b = rank->part, .y = rank->whole, .count = COUNT, .scale = 1, .dtype = rank->dtype};
    if (!r && rank->device->api->add(rank->stream, &add))
        rank->wrong = "a kernel after a wait";
    rank->code = r ? r : rank->device->api->stream_synchronize(rank->stream, &rank->error);
    tear_down(rank);
    return NULL;
}

/* One all-reduce, and the wait for it whatever the call said. */
static void reduce_and_wait(struct rank *rank, double seconds)
{
    const struct mt_collective_api *c = rank->module->collective;
    rank->operation =
        c->all_reduce(rank->collective, rank->stream, rank->part, rank->part, COUNT, rank->dtype);
    rank->code = c->wait(rank->collective, rank->stream, seconds, &rank->error);
}

static void *run_with_one_away(void *argument)
{
    struct rank *rank = argument;
    const struct mt_collective_api *c = rank->module->collective;
    rank->code = set_up(rank);
    if (!rank->code && !rank->stays_away) {
        reduce_and_wait(rank, 0.5);
    } else if (!rank->code) {
        usleep(1500000);
        c->abort(rank->collective);
        rank->code = c->wait(rank->collective, rank->stream, 0.5, &rank->error);
    }
    tear_down(rank);
    return NULL;
}

static void *run_one(void *argument)
{
    struct rank *rank = argument;
    rank->code = set_up(rank);
    if (!rank->code)
        reduce_and_wait(rank, 1);
    tear_down(rank);
    return NULL;
}

/* Nobody waits between the operations: each must stand in the stream before the next one is put there. */
static int in_a_row(struct rank *rank)
{
    const struct mt_collective_api *c = rank->module->collective;
    const struct mt_device_api *api = rank->device->api;
    for (size_t i = 0; i < COUNT; i++)
        put(rank, i, value_of(rank->number, i));
    int r = api->copy_to_device(rank->stream, rank->part, rank->host, bytes_of(rank, COUNT));
    r = r ? r : c->all_reduce(rank->collective, rank->stream, rank->part, rank->part, COUNT, rank->dtype);
    r = r ? r : api->copy(rank->stream, rank->whole, rank->part, bytes_of(rank, COUNT));
    r = r ? r : c->group_begin();
    r = r ? r : c->broadcast(rank->collective, rank->stream, rank->whole, rank->whole, COUNT, 1, rank->dtype);
    r = r ? r : c->all_reduce(rank->collective, rank->stream, rank->part, rank->part, COUNT, rank->dtype);
    r = r ? r : c->group_end();
    r = r ? r : api->copy_to_host(rank->stream, rank->host, rank->part, bytes_of(rank, COUNT));
    r = r ? r
          : api->copy_to_host(rank->stream, (char *)rank->host + bytes_of(rank, COUNT), rank->whole,
                              bytes_of(rank, COUNT));
    r = r ? r : api->stream_synchronize(rank->stream, &rank->error);
    for (size_t i = 0; i < COUNT && !r; i++) {
        rank->wrong = get(rank, i) == (float)rank->ranks * sum_of(rank, i) ? rank->wrong : "a group";
        rank->wrong = get(rank, COUNT + i) == sum_of(rank, i) ? rank->wrong : "a row of calls";
    }
    return r;
}

static void *run_in_a_row(void *argument)
{
    struct rank *rank = argument;
    rank->code = set_up(rank);
    for (int i = 0; i < 5; i++)
        rank->code = rank->code ? rank->code : in_a_row(rank);
    rank->code = rank->code ? rank->code : all_four(rank);
    tear_down(rank);
    return NULL;
}

static void on_ranks(void *(*run)(void *argument), enum mt_dtype dtype, double timeout_seconds,
                     struct rank *ranks, int *count)
{
    static struct mt_collective_id id;
    pthread_barrier_t all_here;
    int devices;
    struct mt_error error = {0};
    const struct mt_cuda_module *module = module_or_skip(&devices);
    mt_assert_ok(module->collective->id_new(&id, &error), &error);
    *count = devices < RANKS ? devices : RANKS;
    pthread_barrier_init(&all_here, NULL, (unsigned)*count);
    for (int i = 0; i < *count; i++) {
        ranks[i] = (struct rank){.module = module, .id = &id, .number = i, .ranks = *count, .dtype = dtype};
        ranks[i].stays_away = i == *count - 1;
        ranks[i].timeout_seconds = timeout_seconds;
        ranks[i].all_here = &all_here;
        assert_int_equal(pthread_create(&ranks[i].thread, NULL, run, &ranks[i]), 0);
    }
    for (int i = 0; i < *count; i++)
        pthread_join(ranks[i].thread, NULL);
    pthread_barrier_destroy(&all_here);
}

static void all_are_well(const struct rank *ranks, int count)
{
    for (int i = 0; i < count; i++) {
        mt_assert_ok(ranks[i].code, &ranks[i].error);
        if (ranks[i].wrong)
            fail_msg("rank %d: %s gave something else", i, ranks[i].wrong);
    }
}

static void sums_and_copies_reach_every_rank(void **state)
{
    (void)state;
    struct rank ranks[RANKS];
    int count;
    for (int type = 0; type < 2; type++) {
        on_ranks(run_all_four, type ? MT_BF16 : MT_F32, 20, ranks, &count);
        all_are_well(ranks, count);
    }
}

static void a_kernel_may_follow_a_wait(void **state)
{
    (void)state;
    struct rank ranks[RANKS];
    int count;
    on_ranks(run_kernel_after_wait, MT_F32, 20, ranks, &count);
    all_are_well(ranks, count);
}

static void who_waits_in_vain_is_told_after_its_time(void **state)
{
    (void)state;
    struct rank ranks[RANKS];
    int count;
    on_ranks(run_with_one_away, MT_F32, 20, ranks, &count);
    assert_int_equal(ranks[count - 1].code, -EIO);
    mt_assert_mentions(ranks[count - 1].error.message, "a collective operation was aborted");
    for (int i = 0; i < count - 1; i++) {
        char sentence[64];
        snprintf(sentence, sizeof sentence, "rank %d of %d waited 0 s", i, count);
        assert_int_equal(ranks[i].operation, 0);
        /* Of a real library's ranks the first whose time is up may end it for the others. */
        if (!ranks[i].module->simulated && ranks[i].code == -EIO)
            continue;
        assert_int_equal(ranks[i].code, -ETIMEDOUT);
        mt_assert_mentions(ranks[i].error.message, sentence);
    }
}

/* ---- with settings of the simulated device ---- */

static void calls_in_progress_keep_their_place(void **state)
{
    (void)state;
    struct rank ranks[RANKS];
    int count;
    on_ranks(run_in_a_row, MT_F32, 20, ranks, &count);
    all_are_well(ranks, count);
}

/* One rank's call stays in progress: that one is told by the call, the others, which wait for it, by theirs.
 */
static void a_call_that_stays_in_progress_is_given_up(void **state)
{
    (void)state;
    struct rank ranks[RANKS];
    int count, stuck = 0;
    on_ranks(run_one, MT_F32, 3, ranks, &count);
    for (int i = 0; i < count; i++) {
        char sentence[64];
        const bool late = ranks[i].operation != 0;
        assert_int_equal(ranks[i].operation, late ? -ETIMEDOUT : 0);
        assert_int_equal(ranks[i].code, -ETIMEDOUT);
        snprintf(sentence, sizeof sentence, "rank %d of %d waited %d s", i, count, late ? 3 : 1);
        mt_assert_mentions(ranks[i].error.message, sentence);
        stuck += late;
    }
    assert_int_equal(stuck, 1);
}

/* One rank's operation breaks: every rank is told so, whether by its call or while it waits. */
static void an_error_of_one_rank_is_told_on_all(void **state)
{
    (void)state;
    struct rank ranks[RANKS];
    int count;
    on_ranks(run_one, MT_F32, 20, ranks, &count);
    for (int i = 0; i < count; i++) {
        assert_true(ranks[i].operation == 0 || ranks[i].operation == -EIO);
        assert_int_equal(ranks[i].code, -EIO);
        mt_assert_mentions(ranks[i].error.message, "remote process exited");
    }
}

static void joining_ends_where_a_call_fails(void **state)
{
    (void)state;
    struct rank ranks[RANKS];
    int count, failed = 0;
    on_ranks(run_one, MT_F32, 1, ranks, &count);
    for (int i = 0; i < count; i++) {
        const bool failing = ranks[i].code == -EIO;
        assert_int_equal(ranks[i].code, failing ? -EIO : -ETIMEDOUT);
        mt_assert_mentions(ranks[i].error.message, failing ? "joining failed in NCCL" : "in joining");
        failed += failing;
    }
    assert_int_equal(failed, 1);
}

static const struct {
    const char *name, *settings[2][2];
    CMUnitTestFunction run;
} children[] = {
    {"in progress",
     {{"CUDASIM_NCCL_PROGRESS_US", "3000"}, {"CUDASIM_SEED", "2"}},
     calls_in_progress_keep_their_place},
    {"in progress for ever",
     {{"CUDASIM_NCCL_PROGRESS_US", "100"}, {"CUDASIM_FAIL", "progress-hangs:1"}},
     a_call_that_stays_in_progress_is_given_up},
    {"broken", {{"CUDASIM_FAIL", "collective:2"}}, an_error_of_one_rank_is_told_on_all},
    {"not joined", {{"CUDASIM_FAIL", "ncclCommInitRank:2"}}, joining_ends_where_a_call_fails},
};

static void calls_end_whatever_the_library_does(void **state)
{
    (void)state;
    int devices;
    if (!module_or_skip(&devices)->simulated)
        mt_test_skip("needs the simulated device");
    for (size_t i = 0; i < sizeof children / sizeof *children; i++) {
        int status;
        fflush(NULL);
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            for (size_t k = 0; k < 2 && children[i].settings[k][0]; k++)
                setenv(children[i].settings[k][0], children[i].settings[k][1], 1);
            dup2(STDERR_FILENO, STDOUT_FILENO);
            setenv("CMOCKA_MESSAGE_OUTPUT", "STDOUT", 1); /* its cases are not this program's */
            execl("/proc/self/exe", "test_collective", children[i].name, (char *)NULL);
            _exit(99);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        if (!WIFEXITED(status) || WEXITSTATUS(status))
            fail_msg("%s: status %#x", children[i].name, (unsigned)status);
    }
}

static void ranks_that_cannot_be_are_refused(void **state)
{
    (void)state;
    int devices;
    struct mt_error error = {0};
    struct mt_device *device;
    struct mt_collective *collective;
    const struct mt_cuda_module *module = module_or_skip(&devices);
    struct mt_collective_id id;
    mt_assert_ok(module->collective->id_new(&id, &error), &error);
    mt_assert_ok(module->open(0, NULL, &device, &error), &error);
    assert_int_equal(module->collective->join(device, &id, 3, 3, 1, &collective, &error), -EINVAL);
    assert_int_equal(module->collective->join(device, &id, 0, 2, 0.3, &collective, &error), -ETIMEDOUT);
    mt_assert_mentions(error.message, "rank 0 of 2 waited");
    assert_null(collective);
    mt_device_close(device);
}

int main(int argc, char **argv)
{
    for (size_t i = 0; i < sizeof children / sizeof *children; i++)
        if (argc > 1 && !strcmp(argv[1], children[i].name)) {
            const struct CMUnitTest child[] = {{.name = children[i].name, .test_func = children[i].run}};
            return cmocka_run_group_tests(child, NULL, NULL);
        }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_and_copies_reach_every_rank),
        cmocka_unit_test(a_kernel_may_follow_a_wait),
        cmocka_unit_test(who_waits_in_vain_is_told_after_its_time),
        cmocka_unit_test(ranks_that_cannot_be_are_refused),
        cmocka_unit_test(calls_end_whatever_the_library_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
