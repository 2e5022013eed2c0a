/* Collective operations by NCCL, which is looked for at run time. Communicators do not block: NCCL says "in
 * progress", and we ask again until it is over or the time is up; then the communicator is aborted, so that a
 * rank whose partner died ends with a sentence instead of waiting for ever.
 */
#include "gpu/cuda.h"

#if __has_include(<nccl.h>)

#include <dlfcn.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define USUAL_TIMEOUT_SECONDS 300.0
#define FIRST_PAUSE_NANOSECONDS 20000
#define LONGEST_PAUSE_NANOSECONDS 2000000

struct mt_collective {
    struct mt_cuda_device *device;
    int rank, ranks;
    double timeout_seconds;
    pthread_mutex_t lock; /* of what follows: an abort may come from any thread */
    ncclComm_t comm;      /* NULL: aborted */
    bool late;            /* aborted because a call stayed in progress */
};

/* Of the calling thread's group, whose operations NCCL starts at its end. More are refused. */
#define MAX_GROUPED 64
static thread_local int group_depth, num_grouped;
static thread_local struct mt_collective *grouped[MAX_GROUPED];

static struct {
    decltype(&::ncclGetUniqueId) ncclGetUniqueId;
    decltype(&::ncclCommInitRankConfig) ncclCommInitRankConfig;
    decltype(&::ncclCommGetAsyncError) ncclCommGetAsyncError;
    decltype(&::ncclCommFinalize) ncclCommFinalize;
    decltype(&::ncclCommDestroy) ncclCommDestroy;
    decltype(&::ncclCommAbort) ncclCommAbort;
    decltype(&::ncclGetErrorString) ncclGetErrorString;
    decltype(&::ncclGetLastError) ncclGetLastError;
    decltype(&::ncclAllReduce) ncclAllReduce;
    decltype(&::ncclReduceScatter) ncclReduceScatter;
    decltype(&::ncclAllGather) ncclAllGather;
    decltype(&::ncclBroadcast) ncclBroadcast;
    decltype(&::ncclGroupStart) ncclGroupStart;
    decltype(&::ncclGroupEnd) ncclGroupEnd;
    char missing[256]; /* "": it is there */
} nccl;

#if defined(__CUDACC__)
#define LOOK_UP(library, function)                                                                           \
    ((nccl.function = reinterpret_cast<decltype(nccl.function)>(dlsym((library), #function))) != NULL)
#else
#define LOOK_UP(library, function) ((nccl.function = ::function) != NULL)
#endif

static void load_nccl(void)
{
#if defined(__CUDACC__)
    void *library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        snprintf(nccl.missing, sizeof nccl.missing, "%s", dlerror());
        return;
    }
#endif
    const bool all = LOOK_UP(library, ncclGetUniqueId) && LOOK_UP(library, ncclCommInitRankConfig) &&
                     LOOK_UP(library, ncclCommGetAsyncError) && LOOK_UP(library, ncclCommFinalize) &&
                     LOOK_UP(library, ncclCommDestroy) && LOOK_UP(library, ncclCommAbort) &&
                     LOOK_UP(library, ncclGetErrorString) && LOOK_UP(library, ncclGetLastError) &&
                     LOOK_UP(library, ncclAllReduce) && LOOK_UP(library, ncclReduceScatter) &&
                     LOOK_UP(library, ncclAllGather) && LOOK_UP(library, ncclBroadcast) &&
                     LOOK_UP(library, ncclGroupStart) && LOOK_UP(library, ncclGroupEnd);
    if (!all)
        snprintf(nccl.missing, sizeof nccl.missing, "libnccl.so.2 is older than 2.14");
}

static int need_nccl(struct mt_error *error)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, load_nccl);
    if (!nccl.missing[0])
        return 0;
    return mt_cuda_error(
        error, -ENOTSUP, MT_REASON_DEVICE,
        "training on several GPUs needs NCCL, which is not there: %s; install libnccl2 for your "
        "CUDA version, or put its folder into LD_LIBRARY_PATH",
        nccl.missing);
}

/* ---- waiting ---- */

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/* A little longer each time. */
static void pause_for(long *nanoseconds)
{
    struct timespec time = {};
    time.tv_nsec = *nanoseconds;
    nanosleep(&time, NULL);
    if (*nanoseconds < LONGEST_PAUSE_NANOSECONDS)
        *nanoseconds *= 2;
}

/* What the library says of the communicator; an aborted one has the remote's error. */
static ncclResult_t state_of(struct mt_collective *collective)
{
    ncclResult_t state = ncclRemoteError;
    pthread_mutex_lock(&collective->lock);
    if (collective->comm && nccl.ncclCommGetAsyncError(collective->comm, &state) != ncclSuccess)
        state = ncclInternalError;
    pthread_mutex_unlock(&collective->lock);
    return state;
}

static void abort_collective(struct mt_collective *collective)
{
    pthread_mutex_lock(&collective->lock);
    if (collective->comm)
        nccl.ncclCommAbort(collective->comm);
    collective->comm = NULL;
    pthread_mutex_unlock(&collective->lock);
}

/* Until the library no longer says "in progress"; ncclInProgress when the time is up. */
static ncclResult_t settle(struct mt_collective *collective, double seconds)
{
    const double end = now() + seconds;
    long pause = FIRST_PAUSE_NANOSECONDS;
    ncclResult_t state;
    while ((state = state_of(collective)) == ncclInProgress && now() < end)
        pause_for(&pause);
    return state;
}

static int explain(struct mt_collective *collective, ncclResult_t result, const char *doing,
                   struct mt_error *error)
{
    char detail[256] = "";
    pthread_mutex_lock(&collective->lock);
    if (collective->comm)
        snprintf(detail, sizeof detail, " (%.200s)", nccl.ncclGetLastError(collective->comm));
    const bool aborted = !collective->comm;
    pthread_mutex_unlock(&collective->lock);
    if (aborted && result == ncclRemoteError)
        return mt_cuda_error(error, -EIO, MT_REASON_DEVICE, "rank %d of %d: %s was aborted", collective->rank,
                             collective->ranks, doing);
    return mt_cuda_error(
        error, -EIO, MT_REASON_DEVICE,
        "rank %d of %d: %s failed in NCCL: %s%s; look at what the other ranks say, and run with "
        "NCCL_DEBUG=INFO for more",
        collective->rank, collective->ranks, doing, nccl.ncclGetErrorString(result), detail);
}

static int timed_out(struct mt_collective *collective, double seconds, const char *doing,
                     struct mt_error *error)
{
    return mt_cuda_error(
        error, -ETIMEDOUT, MT_REASON_DEVICE,
        "rank %d of %d waited %.0f s for the others in %s: one of them ended or hangs, or cannot be "
        "reached (NCCL_DEBUG=INFO tells more, NCCL_SOCKET_IFNAME chooses the network)",
        collective->rank, collective->ranks, seconds, doing);
}

/* ---- the table's functions ---- */

static int id_new(struct mt_collective_id *id, struct mt_error *error)
{
    ncclUniqueId made;
    static_assert(sizeof made == sizeof *id, "an id has the size that NCCL's has");
    const int code = need_nccl(error);
    if (code)
        return code;
    const ncclResult_t result = nccl.ncclGetUniqueId(&made);
    if (result != ncclSuccess)
        return mt_cuda_error(error, -EIO, MT_REASON_DEVICE, "NCCL cannot make an id: %s",
                             nccl.ncclGetErrorString(result));
    memcpy(id, &made, sizeof *id);
    return 0;
}

static int join(struct mt_device *base, const struct mt_collective_id *id, int rank, int ranks,
                double timeout_seconds, struct mt_collective **collective_out, struct mt_error *error)
{
    struct mt_cuda_device *device = mt_cuda_of(base);
    *collective_out = NULL;
    int code = need_nccl(error);
    if (code)
        return code;
    if (ranks < 1 || rank < 0 || rank >= ranks)
        return mt_cuda_error(error, -EINVAL, MT_REASON_INTERNAL, "there is no rank %d of %d", rank, ranks);
    if (mt_cuda_failed(device) || mt_cuda_enter(device))
        return mt_cuda_report(device, error);
    struct mt_collective *collective = static_cast<struct mt_collective *>(calloc(1, sizeof *collective));
    if (!collective)
        return mt_cuda_error(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory for a communicator");
    collective->device = device;
    collective->rank = rank;
    collective->ranks = ranks;
    collective->timeout_seconds = timeout_seconds > 0 ? timeout_seconds : USUAL_TIMEOUT_SECONDS;
    pthread_mutex_init(&collective->lock, NULL);
    ncclUniqueId known;
    memcpy(&known, id, sizeof known);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclResult_t result = nccl.ncclCommInitRankConfig(&collective->comm, ranks, known, rank, &config);
    if (result == ncclSuccess || result == ncclInProgress)
        result = settle(collective, collective->timeout_seconds);
    if (result == ncclSuccess) {
        *collective_out = collective;
        return 0;
    }
    code = result == ncclInProgress ? timed_out(collective, collective->timeout_seconds, "joining", error)
                                    : explain(collective, result, "joining", error);
    abort_collective(collective);
    pthread_mutex_destroy(&collective->lock);
    free(collective);
    return code;
}

static void leave(struct mt_collective *collective)
{
    if (!collective)
        return;
    mt_cuda_enter(collective->device);
    if (collective->comm) {
        ncclResult_t result = nccl.ncclCommFinalize(collective->comm);
        if (result == ncclInProgress)
            result = settle(collective, collective->timeout_seconds);
        if (result == ncclSuccess)
            nccl.ncclCommDestroy(collective->comm);
        else
            abort_collective(collective);
    }
    pthread_mutex_destroy(&collective->lock);
    free(collective);
}

/* "In progress" means that the library has not yet put the operation into the stream: what was put there next
 * would come before it. So nobody goes on until it is there; when the time is up nobody ever will. */
static int settled(struct mt_collective *collective, ncclResult_t result)
{
    if (result == ncclInProgress)
        result = settle(collective, collective->timeout_seconds);
    if (result != ncclInProgress)
        return result == ncclSuccess ? 0 : -EIO;
    pthread_mutex_lock(&collective->lock);
    collective->late = true;
    pthread_mutex_unlock(&collective->lock);
    abort_collective(collective);
    return -ETIMEDOUT;
}

/* Before a call of the library, with the lock held on success. */
static int begin(struct mt_collective *collective, struct mt_stream *stream, const void *to, const void *from,
                 enum mt_dtype dtype)
{
    if (!to || !from || !mt_cuda_data_dtype(dtype))
        return -EINVAL;
    int code = mt_cuda_begin(stream);
    code = code ? code : settled(collective, state_of(collective));
    if (code)
        return code;
    pthread_mutex_lock(&collective->lock);
    if (collective->comm)
        return 0;
    pthread_mutex_unlock(&collective->lock);
    return -EIO;
}

static int end(struct mt_collective *collective, ncclResult_t result)
{
    pthread_mutex_unlock(&collective->lock);
    if (!group_depth)
        return settled(collective, result);
    bool known = false;
    for (int i = 0; i < num_grouped; i++)
        known = known || grouped[i] == collective;
    if (!known && num_grouped == MAX_GROUPED)
        return -EIO;
    if (!known)
        grouped[num_grouped++] = collective;
    return result == ncclSuccess || result == ncclInProgress ? 0 : -EIO;
}

static ncclDataType_t type_of(enum mt_dtype dtype)
{
    return dtype == MT_BF16 ? ncclBfloat16 : ncclFloat32;
}

static int all_reduce(struct mt_collective *collective, struct mt_stream *stream, void *to, const void *from,
                      size_t count, enum mt_dtype dtype)
{
    const int code = begin(collective, stream, to, from, dtype);
    return code ? code
                : end(collective, nccl.ncclAllReduce(from, to, count, type_of(dtype), ncclSum,
                                                     collective->comm, stream->handle));
}

static int reduce_scatter(struct mt_collective *collective, struct mt_stream *stream, void *to,
                          const void *from, size_t count, enum mt_dtype dtype)
{
    const int code = begin(collective, stream, to, from, dtype);
    return code ? code
                : end(collective, nccl.ncclReduceScatter(from, to, count, type_of(dtype), ncclSum,
                                                         collective->comm, stream->handle));
}

static int all_gather(struct mt_collective *collective, struct mt_stream *stream, void *to, const void *from,
                      size_t count, enum mt_dtype dtype)
{
    const int code = begin(collective, stream, to, from, dtype);
    return code ? code
                : end(collective,
                      nccl.ncclAllGather(from, to, count, type_of(dtype), collective->comm, stream->handle));
}

static int broadcast(struct mt_collective *collective, struct mt_stream *stream, void *to, const void *from,
                     size_t count, int root, enum mt_dtype dtype)
{
    if (root < 0 || root >= collective->ranks)
        return -EINVAL;
    const int code = begin(collective, stream, to, from, dtype);
    return code ? code
                : end(collective, nccl.ncclBroadcast(from, to, count, type_of(dtype), root, collective->comm,
                                                     stream->handle));
}

static int group_begin(void)
{
    if (need_nccl(NULL) || nccl.ncclGroupStart() != ncclSuccess)
        return -EIO;
    group_depth++;
    return 0;
}

static int group_end(void)
{
    if (!group_depth)
        return -EINVAL;
    const ncclResult_t result = nccl.ncclGroupEnd();
    int code = result == ncclSuccess || result == ncclInProgress ? 0 : -EIO;
    if (--group_depth)
        return code;
    for (int i = 0; i < num_grouped; i++) {
        const int one = settled(grouped[i], state_of(grouped[i]));
        code = code ? code : one;
    }
    num_grouped = 0;
    return code;
}

static int wait_for(struct mt_collective *collective, struct mt_stream *stream, double timeout_seconds,
                    struct mt_error *error)
{
    struct mt_cuda_device *device = stream->device;
    const double seconds = timeout_seconds > 0 ? timeout_seconds : collective->timeout_seconds;
    const double end = now() + seconds;
    long pause = FIRST_PAUSE_NANOSECONDS;
    if (mt_cuda_failed(device) || mt_cuda_enter(device))
        return mt_cuda_report(device, error);
    for (;;) {
        const ncclResult_t state = state_of(collective);
        if (state != ncclSuccess && state != ncclInProgress) {
            pthread_mutex_lock(&collective->lock);
            const bool late = collective->late;
            pthread_mutex_unlock(&collective->lock);
            const int code =
                late ? timed_out(collective, collective->timeout_seconds, "a collective operation", error)
                     : explain(collective, state, "a collective operation", error);
            abort_collective(collective);
            return code;
        }
        const cudaError_t query = cudaStreamQuery(stream->handle);
        if (query == cudaSuccess && state == ncclSuccess)
            return mt_cuda_failed(device) ? mt_cuda_report(device, error) : 0;
        if (query == cudaErrorNotReady) /* left behind, the next launch would be blamed for it */
            cudaGetLastError();
        if (query != cudaSuccess && query != cudaErrorNotReady) {
            mt_cuda_check(device, query, "a collective operation");
            return mt_cuda_report(device, error);
        }
        if (now() >= end) {
            abort_collective(collective);
            return timed_out(collective, seconds, "a collective operation", error);
        }
        pause_for(&pause);
    }
}

const struct mt_collective_api mt_cuda_collective_api = {
    id_new,    join,        leave,     all_reduce, reduce_scatter,  all_gather,
    broadcast, group_begin, group_end, wait_for,   abort_collective};

#else

static int refuse(struct mt_error *error)
{
    return mt_cuda_error(error, -ENOTSUP, MT_REASON_DEVICE,
                         "this CUDA module was built where NCCL's header (nccl.h) was not found: install "
                         "libnccl-dev and build again to train on several GPUs");
}

static int id_new(struct mt_collective_id *id, struct mt_error *error)
{
    (void)id;
    return refuse(error);
}

static int join(struct mt_device *device, const struct mt_collective_id *id, int rank, int ranks,
                double timeout_seconds, struct mt_collective **collective, struct mt_error *error)
{
    (void)device, (void)id, (void)rank, (void)ranks, (void)timeout_seconds;
    *collective = NULL;
    return refuse(error);
}

/* Nobody gets a communicator, so nothing else can be called. */
const struct mt_collective_api mt_cuda_collective_api = {id_new, join};

#endif
