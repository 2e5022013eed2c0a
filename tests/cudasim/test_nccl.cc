/* NCCL of the simulated device: ranks in threads, their collectives, and what happens when one fails, hangs
 * or leaves. Each case is a child with as many devices as it needs. */
#include "tests/cudasim/testing.h"

#include <nccl.h>
#include <pthread.h>

enum { RANKS = 3, COUNT = 1000 };

static ncclUniqueId id;

struct rank {
    int number;
    bool (*run)(struct rank *rank);
    pthread_t thread;
    ncclComm_t comm;
    cudaStream_t stream;
    float *device, *host, *whole, *host_whole; /* COUNT, and RANKS times COUNT elements */
    bool good;
};

#define WELL(call)                                                                                           \
    do {                                                                                                     \
        if ((call) != 0)                                                                                     \
            return false;                                                                                    \
    } while (0)

static bool open_rank(struct rank *rank)
{
    WELL(cudaSetDevice(rank->number));
    WELL(ncclCommInitRank(&rank->comm, RANKS, id, rank->number));
    WELL(cudaStreamCreateWithFlags(&rank->stream, cudaStreamNonBlocking));
    WELL(cudaMalloc(&rank->device, COUNT * sizeof(float)));
    WELL(cudaMalloc(&rank->whole, RANKS * COUNT * sizeof(float)));
    WELL(cudaHostAlloc(&rank->host, COUNT * sizeof(float), 0));
    WELL(cudaHostAlloc(&rank->host_whole, RANKS * COUNT * sizeof(float), 0));
    for (int i = 0; i < RANKS * COUNT; i++)
        rank->host_whole[i] = (float)(i * (rank->number + 1));
    memcpy(rank->host, rank->host_whole, COUNT * sizeof(float));
    WELL(cudaMemcpyAsync(rank->device, rank->host, COUNT * sizeof(float), cudaMemcpyHostToDevice,
                         rank->stream));
    WELL(cudaMemcpyAsync(rank->whole, rank->host_whole, RANKS * COUNT * sizeof(float), cudaMemcpyHostToDevice,
                         rank->stream));
    return true;
}

static void *rank_main(void *argument)
{
    struct rank *rank = (struct rank *)argument;
    rank->good = open_rank(rank) && rank->run(rank);
    return NULL;
}

/* 0 when every rank's `run` returns true. */
static int on_all_ranks(bool (*run)(struct rank *rank))
{
    struct rank ranks[RANKS] = {};
    if (ncclGetUniqueId(&id))
        return 2;
    for (int i = 0; i < RANKS; i++) {
        ranks[i].number = i;
        ranks[i].run = run;
        pthread_create(&ranks[i].thread, NULL, rank_main, &ranks[i]);
    }
    int bad = 0;
    for (int i = 0; i < RANKS; i++) {
        pthread_join(ranks[i].thread, NULL);
        if (!ranks[i].good)
            fprintf(stderr, "rank %d: wrong, or %s\n", i, cudaGetErrorString(cudaGetLastError()));
        bad += !ranks[i].good;
    }
    return bad;
}

static bool pull(struct rank *rank)
{
    WELL(cudaMemcpyAsync(rank->host, rank->device, COUNT * sizeof(float), cudaMemcpyDeviceToHost,
                         rank->stream));
    WELL(cudaMemcpyAsync(rank->host_whole, rank->whole, RANKS * COUNT * sizeof(float), cudaMemcpyDeviceToHost,
                         rank->stream));
    WELL(cudaStreamSynchronize(rank->stream));
    return true;
}

static bool all_reduce(struct rank *rank)
{
    WELL(ncclAllReduce(rank->device, rank->device, COUNT, ncclFloat32, ncclSum, rank->comm, rank->stream));
    WELL(ncclAllReduce(rank->whole, rank->whole, RANKS * COUNT, ncclFloat32, ncclMax, rank->comm,
                       rank->stream));
    WELL(!pull(rank));
    for (int i = 0; i < COUNT; i++)
        WELL(rank->host[i] != (float)(i * 6));
    for (int i = 0; i < RANKS * COUNT; i++)
        WELL(rank->host_whole[i] != (float)(i * 3));
    return ncclCommDestroy(rank->comm) == ncclSuccess;
}

static bool scatter_and_gather(struct rank *rank)
{
    /* In place, as the library allows it: the result stands in the rank's own part. */
    float *part = rank->whole + (size_t)rank->number * COUNT;
    WELL(ncclReduceScatter(rank->whole, part, COUNT, ncclFloat32, ncclSum, rank->comm, rank->stream));
    WELL(ncclAllGather(part, rank->whole, COUNT, ncclFloat32, rank->comm, rank->stream));
    WELL(!pull(rank));
    for (int i = 0; i < RANKS * COUNT; i++)
        WELL(rank->host_whole[i] != (float)(i * 6));
    return true;
}

static bool broadcast(struct rank *rank)
{
    WELL(ncclGroupStart());
    WELL(ncclBroadcast(rank->device, rank->device, COUNT, ncclFloat32, 2, rank->comm, rank->stream));
    WELL(ncclReduce(rank->whole, rank->whole, COUNT, ncclFloat32, ncclAvg, 1, rank->comm, rank->stream));
    WELL(ncclGroupEnd());
    WELL(!pull(rank));
    for (int i = 0; i < COUNT; i++) {
        WELL(rank->host[i] != (float)(i * 3));
        WELL(rank->host_whole[i] != (float)(i * (rank->number == 1 ? 2 : rank->number + 1)));
    }
    return true;
}

/* In bf16 the sum is rounded once, in fp32 before. */
static bool sums_of_bf16(struct rank *rank)
{
    const float addends[RANKS] = {1.0f, 0.00390625f, 0.00390625f}; /* 2^-8: lost when added to 1 alone */
    __nv_bfloat16 *host;
    WELL(cudaHostAlloc(&host, sizeof *host, 0));
    *host = __float2bfloat16(addends[rank->number]);
    WELL(cudaMemcpyAsync(rank->device, host, sizeof *host, cudaMemcpyHostToDevice, rank->stream));
    WELL(ncclAllReduce(rank->device, rank->device, 1, ncclBfloat16, ncclSum, rank->comm, rank->stream));
    WELL(cudaMemcpyAsync(host, rank->device, sizeof *host, cudaMemcpyDeviceToHost, rank->stream));
    WELL(cudaStreamSynchronize(rank->stream));
    return (float)*host == 1.0078125f;
}

/* One rank's collective breaks: all see an asynchronous error, and nobody hangs. */
static bool remote_error(struct rank *rank)
{
    ncclResult_t error = ncclSuccess;
    WELL(ncclAllReduce(rank->device, rank->device, COUNT, ncclFloat32, ncclSum, rank->comm, rank->stream));
    WELL(cudaStreamSynchronize(rank->stream));
    WELL(ncclCommGetAsyncError(rank->comm, &error));
    return error == ncclRemoteError && ncclCommAbort(rank->comm) == ncclSuccess;
}

/* One rank never comes: the others see no end, until they abort. */
static bool hanging_rank(struct rank *rank)
{
    ncclResult_t error = ncclRemoteError;
    WELL(ncclAllReduce(rank->device, rank->device, COUNT, ncclFloat32, ncclSum, rank->comm, rank->stream));
    usleep(100000);
    WELL(cudaStreamQuery(rank->stream) != cudaErrorNotReady);
    WELL(ncclCommGetAsyncError(rank->comm, &error));
    WELL(error);
    WELL(ncclCommAbort(rank->comm));
    return cudaStreamSynchronize(rank->stream) == cudaSuccess;
}

static bool host_buffer(struct rank *rank)
{
    return ncclAllReduce(rank->host, rank->device, COUNT, ncclFloat32, ncclSum, rank->comm, rank->stream) ==
           ncclInvalidArgument;
}

static int run_all_reduce(void)
{
    return on_all_ranks(all_reduce);
}
static int run_scatter_and_gather(void)
{
    return on_all_ranks(scatter_and_gather);
}
static int run_broadcast(void)
{
    return on_all_ranks(broadcast);
}
static int run_sums_of_bf16(void)
{
    return on_all_ranks(sums_of_bf16);
}
static int run_host_buffer(void)
{
    return on_all_ranks(host_buffer);
}

/* One thread sets all ranks up, within a group. */
static int one_thread_joins_all(void)
{
    ncclComm_t comms[RANKS];
    ncclUniqueId mine;
    GOOD(ncclGetUniqueId(&mine));
    GOOD(ncclGroupStart());
    for (int i = 0; i < RANKS; i++) {
        GOOD(cudaSetDevice(i));
        GOOD(ncclCommInitRank(&comms[i], RANKS, mine, i));
    }
    GOOD(ncclGroupEnd());
    for (int i = 0; i < RANKS; i++) {
        int rank, size, device;
        GOOD(ncclCommUserRank(comms[i], &rank));
        GOOD(ncclCommCount(comms[i], &size));
        GOOD(ncclCommCuDevice(comms[i], &device));
        if (rank != i || size != RANKS || device != i)
            return 1;
    }
    for (int i = 0; i < RANKS; i++)
        GOOD(ncclCommDestroy(comms[i]));
    return 0;
}

static int a_device_is_one_rank_only(void)
{
    ncclComm_t first, second;
    ncclUniqueId mine;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclResult_t error;
    GOOD(ncclGetUniqueId(&mine));
    if (ncclCommInitRankConfig(&first, 2, mine, 0, &config) != ncclInProgress)
        return 1;
    GOOD(ncclCommGetAsyncError(first, &error));
    if (error != ncclInProgress || ncclCommInitRankConfig(&second, 2, mine, 1, &config) != ncclInvalidUsage)
        return 2;
    GOOD(cudaSetDevice(1));
    GOOD(ncclCommInitRankConfig(&second, 2, mine, 1, &config));
    GOOD(ncclCommGetAsyncError(first, &error));
    return error == ncclSuccess ? 0 : 3;
}

static int run_remote_error(void)
{
    setenv("CUDASIM_FAIL", "collective:2", 1);
    return on_all_ranks(remote_error);
}

static int run_hanging_rank(void)
{
    setenv("CUDASIM_FAIL", "collective-hangs:1", 1);
    return on_all_ranks(hanging_rank);
}

static const struct {
    const char *name;
    int (*run)(void);
} cases[] = {
    {"all-reduce", run_all_reduce},
    {"reduce-scatter and all-gather in place", run_scatter_and_gather},
    {"broadcast and reduce in a group", run_broadcast},
    {"sums of bf16", run_sums_of_bf16},
    {"a buffer on the host", run_host_buffer},
    {"one thread joins all", one_thread_joins_all},
    {"a device is one rank only", a_device_is_one_rank_only},
    {"an error of one rank reaches all", run_remote_error},
    {"a rank that hangs is left by abort", run_hanging_rank},
};

static void ranks_in_threads_work_together(void **)
{
    for (const auto &one : cases) {
        char text[4096];
        const int status = run_again(one.name, "CUDASIM_DEVICES=3", text, sizeof text);
        if (!WIFEXITED(status) || WEXITSTATUS(status))
            fail_msg("%s: status %#x: %s", one.name, (unsigned)status, text);
    }
}

int main(int argc, char **argv)
{
    for (const auto &one : cases)
        if (argc > 1 && !strcmp(argv[1], one.name)) {
            alarm(60);
            return one.run();
        }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_in_threads_work_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
