/* NCCL with ranks that are threads of this process, each with a device of its own.
 *
 * A collective is an operation in each rank's stream. There the ranks meet: all but the last to come wait,
 * and the last one does the work for all, summing in the order of ranks. Who aborts its communicator no
 * longer waits; the others do until they abort theirs, as with the real library.
 */
#include "tests/cudasim/sim.h"

#include <cuda_bf16.h>
#include <map>
#include <math.h>
#include <nccl.h>
#include <new>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_RANKS 64
#define MAX_PENDING 64

enum kind { ALL_REDUCE, REDUCE, BROADCAST, REDUCE_SCATTER, ALL_GATHER };
static const char *const kind_names[] = {"ncclAllReduce", "ncclReduce", "ncclBroadcast", "ncclReduceScatter",
                                         "ncclAllGather"};

struct collective {
    struct ncclComm *comm;
    enum kind kind;
    const void *send;
    void *receive;
    size_t count; /* of the smaller side */
    ncclDataType_t type;
    ncclRedOp_t operation;
    int root;
    uint64_t number; /* the how many-th of its communicator */
};

struct meeting {
    struct collective ranks[MAX_RANKS];
    int arrived, left;
    bool done;
    char edge; /* an address for ThreadSanitizer */
};

struct world {
    ncclUniqueId id;
    int size, joined, references;
    int devices[MAX_RANKS];
    struct sim_lock lock;
    uint32_t changes; /* whoever waits looks again when this changes */
    std::map<uint64_t, struct meeting *> meetings;
    ncclResult_t broken;
    struct world *next;
};

struct ncclComm {
    struct world *world;
    int rank, device;
    uint64_t started;
    uint32_t aborted, in_progress;
    bool blocking;
};

static struct sim_lock worlds_lock;
static struct world *worlds;
static __thread int group_depth;
static __thread struct ncclComm *pending[MAX_PENDING]; /* joined within a group, waited for at its end */
static __thread int num_pending;
static __thread struct later_call *grouped; /* within a group: made after its end; the newest first */
static __thread char last_error[256];

static ncclResult_t failed(ncclResult_t result, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static ncclResult_t failed(ncclResult_t result, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(last_error, sizeof last_error, format, arguments);
    va_end(arguments);
    sim_report("NCCL: %s", last_error);
    return result;
}

static void changed(struct world *world)
{
    __atomic_add_fetch(&world->changes, 1, __ATOMIC_SEQ_CST);
    sim_futex_wake(&world->changes);
}

/* ---- small calls ---- */

ncclResult_t ncclGetVersion(int *version)
{
    *version = NCCL_VERSION_CODE;
    return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    static uint64_t made;
    memset(id, 0, sizeof *id);
    snprintf(id->internal, sizeof id->internal, "cudasim-%llu",
             (unsigned long long)__atomic_add_fetch(&made, 1, __ATOMIC_RELAXED));
    return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result)
{
    static const char *const texts[] = {"no error",
                                        "unhandled cuda error",
                                        "unhandled system error",
                                        "internal error",
                                        "invalid argument",
                                        "invalid usage",
                                        "remote process exited or there was a network error",
                                        "NCCL operation in progress"};
    return (unsigned)result < ncclNumResults ? texts[result] : "unknown result code";
}

const char *ncclGetLastError(ncclComm_t)
{
    return last_error;
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int *count)
{
    *count = comm->world->size;
    return ncclSuccess;
}

ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int *device)
{
    *device = comm->device;
    return ncclSuccess;
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int *rank)
{
    *rank = comm->rank;
    return ncclSuccess;
}

/* ---- communicators ---- */

/* With worlds_lock held. */
static struct world *world_of(const ncclUniqueId *id, int size)
{
    for (struct world *world = worlds; world; world = world->next)
        if (!memcmp(&world->id, id, sizeof *id))
            return world;
    struct world *world = new struct world();
    world->id = *id;
    world->size = size;
    world->next = worlds;
    for (int &device : world->devices)
        device = -1;
    return worlds = world;
}

static void leave(struct ncclComm *comm)
{
    const struct sim_unseen unseen;
    struct world *world = comm->world;
    sim_take(&worlds_lock);
    const bool last = --world->references == 0;
    if (last)
        for (struct world **at = &worlds; *at; at = &(*at)->next)
            if (*at == world) {
                *at = world->next;
                break;
            }
    sim_give(&worlds_lock);
    if (last) {
        for (auto &entry : world->meetings)
            delete entry.second;
        delete world;
    }
    delete comm;
}

static bool complete(struct ncclComm *comm)
{
    return __atomic_load_n(&comm->world->joined, __ATOMIC_ACQUIRE) == comm->world->size;
}

static ncclResult_t wait_for_all(struct ncclComm *comm)
{
    for (;;) {
        const uint32_t seen = __atomic_load_n(&comm->world->changes, __ATOMIC_SEQ_CST);
        if (complete(comm) || __atomic_load_n(&comm->aborted, __ATOMIC_ACQUIRE))
            return ncclSuccess;
        sim_futex_wait(&comm->world->changes, seen);
    }
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t *config)
{
    *comm = NULL;
    int injected;
    if (sim_injected("ncclCommInitRank", ncclSystemError, &injected))
        return failed((ncclResult_t)injected, "the communicator cannot be set up");
    if (size < 1 || size > MAX_RANKS || rank < 0 || rank >= size)
        return failed(ncclInvalidArgument, "rank %d of %d", rank, size);
    if (sim_ready())
        return failed(ncclUnhandledCudaError, "%s", cudaGetErrorString(sim_ready()));
    const struct sim_unseen unseen;
    const int device = sim_current_device();
    sim_take(&worlds_lock);
    struct world *world = world_of(&id, size);
    bool good = world->size == size && world->devices[rank] < 0;
    for (int other = 0; other < size; other++)
        good = good && world->devices[other] != device;
    if (good) {
        world->devices[rank] = device;
        world->references++;
    }
    sim_give(&worlds_lock);
    if (!good)
        return failed(ncclInvalidUsage,
                      "rank %d of %d on device %d: that rank or that device is there already", rank, size,
                      device);
    struct ncclComm *made = new ncclComm{world, rank, device, 0, 0, 0, !config || config->blocking != 0};
    *comm = made;
    __atomic_add_fetch(&world->joined, 1, __ATOMIC_ACQ_REL);
    changed(world);
    if (!made->blocking)
        return complete(made) ? ncclSuccess : ncclInProgress;
    if (!group_depth)
        return wait_for_all(made);
    if (num_pending == MAX_PENDING)
        sim_fatal("more than %d communicators in one NCCL group", MAX_PENDING);
    pending[num_pending++] = made;
    return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int size, ncclUniqueId id, int rank)
{
    return ncclCommInitRankConfig(comm, size, id, rank, NULL);
}

/* ---- calls that are in progress ---- */

struct later_call {
    struct collective collective;
    cudaStream_t stream; /* NULL: the communicator is finalized */
    struct later_call *next;
};

static bool made_later(const struct ncclComm *comm)
{
    return !comm->blocking && sim_env()->progress_microseconds;
}

static bool in_progress(struct ncclComm *comm)
{
    return __atomic_load_n(&comm->in_progress, __ATOMIC_ACQUIRE);
}

static ncclResult_t too_early(const char *call)
{
    return failed(ncclInvalidArgument, "%s on a communicator on which a call is still in progress", call);
}

/* Until all is over that is in progress; the communicator may be freed then. */
static void wait_for_progress(struct ncclComm *comm)
{
    for (;;) {
        const uint32_t seen = __atomic_load_n(&comm->world->changes, __ATOMIC_SEQ_CST);
        if (!in_progress(comm))
            return;
        sim_futex_wait(&comm->world->changes, seen);
    }
}

static void run_collective(cudaStream_t, void *arguments);

/* As the library's own thread does, in the order of the calls. */
static void make_calls(void *arguments)
{
    const struct sim_unseen unseen;
    for (struct later_call *call = *(struct later_call **)arguments, *next; call; call = next) {
        struct ncclComm *comm = call->collective.comm;
        struct world *world = comm->world;
        int injected;
        const bool hangs = sim_injected("progress-hangs", 0, &injected);
        for (;;) {
            const uint32_t seen = __atomic_load_n(&world->changes, __ATOMIC_SEQ_CST);
            if (!hangs || __atomic_load_n(&comm->aborted, __ATOMIC_ACQUIRE))
                break;
            sim_futex_wait(&world->changes, seen);
        }
        if (!call->stream)
            sim_wait_idle(comm->device);
        else if (!__atomic_load_n(&comm->aborted, __ATOMIC_ACQUIRE))
            sim_enqueue(call->stream, kind_names[call->collective.kind], run_collective, false,
                        &call->collective, sizeof call->collective);
        next = call->next;
        free(call);
        sim_take(&worlds_lock); /* whoever frees the communicator takes it, too */
        __atomic_sub_fetch(&comm->in_progress, 1, __ATOMIC_ACQ_REL);
        changed(world);
        sim_give(&worlds_lock);
    }
}

static ncclResult_t answer_in_progress(struct later_call *calls)
{
    for (struct later_call *call = calls; call; call = call->next)
        __atomic_add_fetch(&call->collective.comm->in_progress, 1, __ATOMIC_ACQ_REL);
    sim_later(sim_env()->progress_microseconds, make_calls, &calls, sizeof calls);
    return ncclInProgress;
}

static ncclResult_t call_later(const struct collective *collective, cudaStream_t stream)
{
    const struct sim_unseen unseen;
    struct later_call *call = (struct later_call *)calloc(1, sizeof *call);
    if (!call)
        sim_fatal("out of host memory");
    call->collective = *collective;
    call->stream = stream;
    if (!group_depth)
        return answer_in_progress(call);
    call->next = grouped;
    grouped = call;
    return ncclSuccess;
}

static ncclResult_t call_grouped(void)
{
    struct later_call *calls = NULL;
    for (struct later_call *next; grouped; grouped = next) {
        next = grouped->next;
        grouped->next = calls;
        calls = grouped;
    }
    return calls ? answer_in_progress(calls) : ncclSuccess;
}

/* ---- the end of communicators, and groups ---- */

ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    if (in_progress(comm))
        return too_early("ncclCommFinalize");
    const struct collective nothing = {comm, ALL_REDUCE, NULL, NULL, 0, ncclInt8, ncclSum, 0, 0};
    if (made_later(comm))
        return call_later(&nothing, NULL);
    sim_wait_idle(comm->device);
    return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    if (!comm)
        return ncclSuccess;
    if (in_progress(comm))
        return too_early("ncclCommDestroy");
    sim_wait_idle(comm->device);
    leave(comm);
    return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    if (!comm)
        return ncclSuccess;
    __atomic_store_n(&comm->aborted, 1, __ATOMIC_SEQ_CST);
    changed(comm->world);
    wait_for_progress(comm);
    sim_wait_idle(comm->device);
    leave(comm);
    return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error)
{
    *error = (ncclResult_t)__atomic_load_n((uint32_t *)&comm->world->broken, __ATOMIC_ACQUIRE);
    if (*error == ncclSuccess && (!complete(comm) || in_progress(comm)))
        *error = ncclInProgress;
    return ncclSuccess;
}

ncclResult_t ncclGroupStart(void)
{
    group_depth++;
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void)
{
    if (!group_depth)
        return failed(ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
    if (--group_depth)
        return ncclSuccess;
    for (int i = 0; i < num_pending; i++)
        wait_for_all(pending[i]);
    num_pending = 0;
    return call_grouped();
}

/* ---- the work ---- */

static size_t type_bytes(ncclDataType_t type)
{
    switch (type) {
    case ncclInt8:
    case ncclUint8:
        return 1;
    case ncclBfloat16:
        return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32:
        return 4;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64:
        return 8;
    }
    return 0;
}

/* Sums are made in `W`: fp32 for bf16, rounded once at the end. */
template <class T, class W>
static void reduce(const struct meeting *m, int size, size_t count, ncclRedOp_t operation, T *out)
{
    for (size_t i = 0; i < count; i++) {
        W value = (W) static_cast<const T *>(m->ranks[0].send)[i];
        for (int rank = 1; rank < size; rank++) {
            const W other = (W) static_cast<const T *>(m->ranks[rank].send)[i];
            switch (operation) {
            case ncclSum:
            case ncclAvg:
                value = value + other;
                break;
            case ncclProd:
                value = value * other;
                break;
            case ncclMax:
                value = value > other ? value : other;
                break;
            case ncclMin:
                value = value < other ? value : other;
                break;
            }
        }
        if (operation == ncclAvg)
            value = value / (W)size;
        out[i] = (T)value;
    }
}

static void reduce_any(const struct meeting *m, int size, size_t count, void *out)
{
    const ncclRedOp_t operation = m->ranks[0].operation;
    switch (m->ranks[0].type) {
    case ncclInt8:
        reduce<int8_t, int8_t>(m, size, count, operation, (int8_t *)out);
        return;
    case ncclUint8:
        reduce<uint8_t, uint8_t>(m, size, count, operation, (uint8_t *)out);
        return;
    case ncclInt32:
        reduce<int32_t, int32_t>(m, size, count, operation, (int32_t *)out);
        return;
    case ncclUint32:
        reduce<uint32_t, uint32_t>(m, size, count, operation, (uint32_t *)out);
        return;
    case ncclInt64:
        reduce<int64_t, int64_t>(m, size, count, operation, (int64_t *)out);
        return;
    case ncclUint64:
        reduce<uint64_t, uint64_t>(m, size, count, operation, (uint64_t *)out);
        return;
    case ncclFloat32:
        reduce<float, float>(m, size, count, operation, (float *)out);
        return;
    case ncclFloat64:
        reduce<double, double>(m, size, count, operation, (double *)out);
        return;
    case ncclBfloat16:
        reduce<__nv_bfloat16, float>(m, size, count, operation, (__nv_bfloat16 *)out);
        return;
    }
}

static void give(void *to, const char *from, size_t bytes)
{
    SIM_WRITES(to, bytes);
    sim_move_bytes(to, from, bytes);
}

/* All ranks are there; through a buffer, since results may stand where operands do. */
static void work(const struct meeting *m, int size)
{
    const struct collective *first = &m->ranks[0];
    const size_t bytes = first->count * type_bytes(first->type);
    const bool many = first->kind == REDUCE_SCATTER || first->kind == ALL_GATHER;
    const size_t whole = many ? bytes * (size_t)size : bytes;
    char *buffer = (char *)malloc(whole + 1);
    if (!buffer)
        sim_fatal("out of host memory");
    for (int rank = 0; rank < size; rank++)
        if (first->kind != BROADCAST || rank == first->root)
            SIM_READS(m->ranks[rank].send, first->kind == REDUCE_SCATTER ? whole : bytes);
    if (first->kind == BROADCAST)
        sim_move_bytes(buffer, m->ranks[first->root].send, bytes);
    else if (first->kind == ALL_GATHER)
        for (int rank = 0; rank < size; rank++)
            sim_move_bytes(buffer + (size_t)rank * bytes, m->ranks[rank].send, bytes);
    else
        reduce_any(m, size, first->kind == REDUCE_SCATTER ? first->count * (size_t)size : first->count,
                   buffer);
    for (int rank = 0; rank < size; rank++) {
        if (first->kind == REDUCE && rank != first->root)
            continue;
        if (first->kind == REDUCE_SCATTER)
            give(m->ranks[rank].receive, buffer + (size_t)rank * bytes, bytes);
        else
            give(m->ranks[rank].receive, buffer, whole);
    }
    free(buffer);
}

static void check_alike(const struct meeting *m, int size)
{
    const struct collective *a = &m->ranks[0];
    for (int rank = 1; rank < size; rank++) {
        const struct collective *b = &m->ranks[rank];
        if (a->kind != b->kind || a->count != b->count || a->type != b->type || a->root != b->root ||
            a->operation != b->operation)
            sim_fatal("NCCL: collective %llu is %s of %zu elements on rank 0, and %s of %zu on rank %d",
                      (unsigned long long)a->number, kind_names[a->kind], a->count, kind_names[b->kind],
                      b->count, rank);
    }
}

static void break_world(struct world *world, ncclResult_t error)
{
    __atomic_store_n((uint32_t *)&world->broken, (uint32_t)error, __ATOMIC_RELEASE);
    changed(world);
}

static bool given_up(const struct collective *c)
{
    return __atomic_load_n(&c->comm->aborted, __ATOMIC_ACQUIRE) ||
           __atomic_load_n((uint32_t *)&c->comm->world->broken, __ATOMIC_ACQUIRE) != ncclSuccess;
}

/* With the world's lock held. */
static struct meeting *meeting_of(struct world *world, uint64_t number)
{
    const struct sim_unseen unseen;
    struct meeting *&place = world->meetings[number];
    if (!place)
        place = new struct meeting();
    return place;
}

static void run_collective(cudaStream_t, void *arguments)
{
    const struct collective *c = (const struct collective *)arguments;
    struct world *world = c->comm->world;
    int injected;
    if (sim_injected("collective", ncclRemoteError, &injected)) {
        break_world(world, (ncclResult_t)injected);
        return;
    }
    if (sim_injected("collective-hangs", 0, &injected)) {
        for (;;) {
            const uint32_t seen = __atomic_load_n(&world->changes, __ATOMIC_SEQ_CST);
            if (given_up(c))
                return;
            sim_futex_wait(&world->changes, seen);
        }
    }
    sim_take(&world->lock);
    struct meeting *m = meeting_of(world, c->number);
    m->ranks[c->comm->rank] = *c;
    SIM_RELEASE(&m->edge);
    const bool last = ++m->arrived == world->size;
    sim_give(&world->lock);
    if (last) {
        SIM_ACQUIRE(&m->edge);
        check_alike(m, world->size);
        work(m, world->size);
        SIM_RELEASE(&m->edge);
        __atomic_store_n(&m->done, true, __ATOMIC_SEQ_CST);
        changed(world);
    }
    for (;;) {
        const uint32_t seen = __atomic_load_n(&world->changes, __ATOMIC_SEQ_CST);
        if (__atomic_load_n(&m->done, __ATOMIC_ACQUIRE)) {
            SIM_ACQUIRE(&m->edge);
            break;
        }
        if (given_up(c))
            break;
        sim_futex_wait(&world->changes, seen);
    }
    const struct sim_unseen unseen;
    sim_take(&world->lock);
    if (++m->left == world->size) {
        world->meetings.erase(c->number);
        delete m;
    }
    sim_give(&world->lock);
}

static ncclResult_t enqueue(enum kind kind, const void *send, void *receive, size_t count,
                            ncclDataType_t type, ncclRedOp_t operation, int root, ncclComm_t comm,
                            cudaStream_t stream)
{
    const char *call = kind_names[kind];
    int injected;
    if (sim_injected(call, ncclSystemError, &injected))
        return failed((ncclResult_t)injected, "%s failed", call);
    if (!comm || !type_bytes(type) || root < 0 || root >= comm->world->size)
        return failed(ncclInvalidArgument, "%s: a communicator, a type or a root that is none", call);
    if (!complete(comm) && !group_depth)
        return failed(ncclInvalidUsage, "%s before all ranks have joined", call);
    if (in_progress(comm))
        return too_early(call);
    const size_t bytes = count * type_bytes(type), whole = bytes * (size_t)comm->world->size;
    const bool receives = kind != REDUCE || comm->rank == root,
               sends = kind != BROADCAST || comm->rank == root;
    if ((sends && !sim_memory_on_device(call, "sendbuff", send, kind == REDUCE_SCATTER ? whole : bytes)) ||
        (receives && !sim_memory_on_device(call, "recvbuff", receive, kind == ALL_GATHER ? whole : bytes)))
        return ncclInvalidArgument;
    const struct collective c = {comm, kind, send, receive, count, type, operation, root, comm->started++};
    if (made_later(comm))
        return call_later(&c, stream);
    return sim_enqueue(stream, call, run_collective, false, &c, sizeof c) ? ncclUnhandledCudaError
                                                                          : ncclSuccess;
}

ncclResult_t ncclAllReduce(const void *send, void *receive, size_t count, ncclDataType_t type,
                           ncclRedOp_t operation, ncclComm_t comm, cudaStream_t stream)
{
    return enqueue(ALL_REDUCE, send, receive, count, type, operation, 0, comm, stream);
}

ncclResult_t ncclReduce(const void *send, void *receive, size_t count, ncclDataType_t type,
                        ncclRedOp_t operation, int root, ncclComm_t comm, cudaStream_t stream)
{
    return enqueue(REDUCE, send, receive, count, type, operation, root, comm, stream);
}

ncclResult_t ncclBroadcast(const void *send, void *receive, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream)
{
    return enqueue(BROADCAST, send, receive, count, type, ncclSum, root, comm, stream);
}

ncclResult_t ncclReduceScatter(const void *send, void *receive, size_t count, ncclDataType_t type,
                               ncclRedOp_t operation, ncclComm_t comm, cudaStream_t stream)
{
    return enqueue(REDUCE_SCATTER, send, receive, count, type, operation, 0, comm, stream);
}

ncclResult_t ncclAllGather(const void *send, void *receive, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream)
{
    return enqueue(ALL_GATHER, send, receive, count, type, ncclSum, 0, comm, stream);
}
