/* Streams and events: a thread a stream, fed through a ring.
 *
 * Only what CUDA promises orders two threads, and only that is announced to ThreadSanitizer: a call happens
 * before its execution; what stands in a stream before a record happens before what waits for that record, on
 * a stream or on the host. In particular the host learns nothing from an entry's being taken out of the ring,
 * or from a stream's being destroyed.
 */
#include "tests/cudasim/sim.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define RING_ENTRIES 256u
#define ENTRY_BYTES 4352u
#define STREAM_MAGIC 0x5354524du
#define EVENT_MAGIC 0x4556454eu

struct entry {
    sim_operation *run; /* NULL: the stream ends */
    bool always;
    uint32_t bytes;
    alignas(16) unsigned char arguments[ENTRY_BYTES];
};

/* One recording of an event, or one moment that a host thread waits for: a fresh object each time, so that a
 * wait is for that recording alone. */
struct sim_record {
    uint32_t done;
    uint32_t references;
    double time;
};

struct CUevent_st {
    uint32_t magic;
    unsigned int flags;
    int device;
    struct sim_lock lock;
    struct sim_record *latest;
};

struct CUstream_st {
    uint32_t magic;
    int device;
    pthread_t thread;
    struct sim_lock producers;
    struct entry *ring;
    struct sim_runner *runner;
    uint64_t delay_state;
    struct CUstream_st *next; /* of all streams */
    uint64_t number;
    uint32_t users; /* threads that wait for it among all streams */
    /* Each on its own cache line; both count for ever, modulo 2^32. */
    alignas(64) uint32_t head; /* entries put in */
    uint32_t consumer_sleeps;
    alignas(64) uint32_t tail; /* entries done */
    uint32_t waiters;          /* threads that sleep until `tail` changes */
};

static __thread bool within_host_function;
static struct sim_lock streams_lock;
static struct CUstream_st *streams;
static uint64_t streams_made;

/* ---- the queue ---- */

/* Until *word is no longer `seen`; *sleeps tells the other side that a wake is needed. The order of "tell,
 * look again" here and "change, look whether told" there (both sequentially consistent) loses no wake. */
static void sleep_while(uint32_t *word, uint32_t seen, uint32_t *sleeps)
{
    while (__atomic_load_n(word, __ATOMIC_ACQUIRE) == seen) {
        __atomic_add_fetch(sleeps, 1, __ATOMIC_SEQ_CST);
        if (__atomic_load_n(word, __ATOMIC_SEQ_CST) == seen)
            sim_futex_wait(word, seen);
        __atomic_sub_fetch(sleeps, 1, __ATOMIC_RELAXED);
    }
}

static void change(uint32_t *word, uint32_t value, uint32_t *sleeps)
{
    __atomic_store_n(word, value, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(sleeps, __ATOMIC_SEQ_CST))
        sim_futex_wake(word);
}

static void push(cudaStream_t stream, sim_operation *run, bool always, const void *arguments, size_t bytes)
{
    sim_take(&stream->producers);
    const uint32_t head = stream->head;
    sleep_while(&stream->tail, head - RING_ENTRIES, &stream->waiters);
    struct entry *entry = &stream->ring[head % RING_ENTRIES];
    entry->run = run;
    entry->always = always;
    entry->bytes = (uint32_t)bytes;
    sim_move_bytes(entry->arguments, arguments, bytes);
    SIM_RELEASE(entry);
    change(&stream->head, head + 1, &stream->consumer_sleeps);
    sim_give(&stream->producers);
}

static void pause_a_little(cudaStream_t stream)
{
    stream->delay_state = stream->delay_state * 6364136223846793005u + 1442695040888963407u;
    const uint64_t draw = (stream->delay_state >> 33) % (sim_env()->delay_microseconds + 1u);
    sim_sleep_until(sim_now() + 1e-6 * (double)draw);
}

static void run_record(cudaStream_t, void *arguments);

static void *stream_main(void *argument)
{
    cudaStream_t stream = (cudaStream_t)argument;
    prctl(PR_SET_TIMERSLACK, 1000ul); /* simulated copies end on time */
    sim_faults_explain_thread();
    stream->runner = sim_runner_new();
    for (;;) {
        const uint32_t tail = stream->tail;
        sleep_while(&stream->head, tail, &stream->consumer_sleeps);
        struct entry *entry = &stream->ring[tail % RING_ENTRIES];
        SIM_ACQUIRE(entry);
        if (!entry->run)
            break;
        if (sim_env()->delay_microseconds)
            pause_a_little(stream);
        /* Who has waited for a record finds the stream idle, if nothing stands behind it. */
        sim_operation *run = entry->run;
        const bool skip = !entry->always && sim_sticky(), record = run == run_record;
        alignas(16) unsigned char arguments[ENTRY_BYTES];
        sim_move_bytes(arguments, entry->arguments, entry->bytes);
        if (record)
            change(&stream->tail, tail + 1, &stream->waiters);
        if (!skip)
            run(stream, arguments);
        if (!record)
            change(&stream->tail, tail + 1, &stream->waiters);
    }
    sim_runner_free(stream->runner);
    return NULL;
}

bool sim_host_function_calls(const char *call)
{
    if (within_host_function)
        sim_report("%s: a host function in a stream must not call CUDA", call);
    return within_host_function;
}

static bool is_stream(cudaStream_t stream, const char *call)
{
    if (stream == NULL || stream == cudaStreamLegacy || stream == cudaStreamPerThread)
        sim_fatal("%s uses the default stream; put it into a stream of your own", call);
    if (stream->magic == STREAM_MAGIC)
        return true;
    sim_report("%s: %p is no stream", call, (void *)stream);
    return false;
}

cudaError_t sim_enqueue(cudaStream_t stream, const char *name, sim_operation *run, bool always,
                        const void *arguments, size_t bytes)
{
    if (!is_stream(stream, name))
        return cudaErrorInvalidResourceHandle;
    if (sim_host_function_calls(name))
        return cudaErrorNotPermitted;
    if (bytes > ENTRY_BYTES)
        sim_fatal("%s has %zu bytes of arguments, more than %u", name, bytes, ENTRY_BYTES);
    const cudaError_t error = sim_sticky();
    if (!error)
        push(stream, run, always, arguments, bytes);
    return error;
}

int sim_stream_device(cudaStream_t stream)
{
    return stream->device;
}

cudaError_t sim_stream_is_current(cudaStream_t stream, const char *call)
{
    if (!is_stream(stream, call))
        return cudaErrorInvalidResourceHandle;
    if (stream->device == sim_current_device())
        return cudaSuccess;
    sim_report("%s: its stream is one of device %d, and the thread's current device is %d", call,
               stream->device, sim_current_device());
    return cudaErrorInvalidResourceHandle;
}

struct sim_runner *sim_stream_runner(cudaStream_t stream)
{
    return stream->runner;
}

/* Until all that stood in the stream at the call is done. */
static void wait_empty(cudaStream_t stream)
{
    const uint32_t head = __atomic_load_n(&stream->head, __ATOMIC_ACQUIRE);
    for (;;) {
        const uint32_t tail = __atomic_load_n(&stream->tail, __ATOMIC_ACQUIRE);
        if ((int32_t)(tail - head) >= 0)
            return;
        sleep_while(&stream->tail, tail, &stream->waiters);
    }
}

/* The stream of the device made first after `number`, kept from being destroyed; NULL: none. Nobody holds the
 * lock while waiting: a stream may be waiting for what another thread does first, with streams of its own. */
static cudaStream_t take_stream_after(int device, uint64_t number)
{
    cudaStream_t found = NULL;
    sim_take(&streams_lock);
    for (struct CUstream_st *stream = streams; stream; stream = stream->next)
        if (stream->device == device && stream->number > number && (!found || stream->number < found->number))
            found = stream;
    if (found)
        __atomic_add_fetch(&found->users, 1, __ATOMIC_RELAXED);
    sim_give(&streams_lock);
    return found;
}

static void give_stream(cudaStream_t stream)
{
    sim_take(&streams_lock); /* so that it is still there to be woken */
    __atomic_sub_fetch(&stream->users, 1, __ATOMIC_SEQ_CST);
    sim_futex_wake(&stream->users);
    sim_give(&streams_lock);
}

void sim_wait_idle(int device)
{
    uint64_t number = 0;
    for (cudaStream_t stream; (stream = take_stream_after(device, number)); give_stream(stream)) {
        number = stream->number;
        wait_empty(stream);
    }
}

/* ---- records ---- */

static struct sim_record *record_new(uint32_t references)
{
    const struct sim_unseen unseen;
    struct sim_record *record = (struct sim_record *)malloc(sizeof *record);
    if (!record)
        sim_fatal("out of host memory");
    record->done = 0;
    record->time = 0;
    __atomic_store_n(&record->references, references, __ATOMIC_RELAXED);
    return record;
}

static void record_keep(struct sim_record *record)
{
    __atomic_add_fetch(&record->references, 1, __ATOMIC_RELAXED);
}

static void record_drop(struct sim_record *record)
{
    const struct sim_unseen unseen;
    if (record && __atomic_sub_fetch(&record->references, 1, __ATOMIC_ACQ_REL) == 0)
        free(record);
}

static bool record_done(struct sim_record *record)
{
    if (!__atomic_load_n(&record->done, __ATOMIC_ACQUIRE))
        return false;
    SIM_ACQUIRE(record);
    return true;
}

static void record_wait(struct sim_record *record)
{
    while (!record_done(record))
        sim_futex_wait(&record->done, 0);
}

/* As the host does: unless it was asked to sleep, it burns its core until the record is done. */
static void record_wait_on_host(struct sim_record *record, bool sleeps)
{
    while (!sleeps && !record_done(record))
        continue;
    record_wait(record);
}

static void run_record(cudaStream_t, void *arguments)
{
    struct sim_record *record = *(struct sim_record **)arguments;
    record->time = sim_now();
    SIM_RELEASE(record);
    __atomic_store_n(&record->done, 1, __ATOMIC_SEQ_CST);
    sim_futex_wake(&record->done);
    record_drop(record);
}

static void run_wait(cudaStream_t, void *arguments)
{
    struct sim_record *record = *(struct sim_record **)arguments;
    record_wait(record);
    record_drop(record);
}

/* ---- streams ---- */

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned int, int)
{
    const cudaError_t error = sim_ready();
    if (error)
        return sim_error(error);
    int injected;
    if (sim_injected("cudaStreamCreate", cudaErrorMemoryAllocation, &injected))
        return sim_error((cudaError_t)injected);
    struct CUstream_st *made = new struct CUstream_st();
    made->ring = (struct entry *)calloc(RING_ENTRIES, sizeof *made->ring);
    if (!made->ring)
        sim_fatal("out of host memory");
    made->magic = STREAM_MAGIC;
    made->device = sim_current_device();
    made->number = __atomic_add_fetch(&streams_made, 1, __ATOMIC_RELAXED);
    made->delay_state = sim_env()->seed + 0x9e3779b97f4a7c15u * made->number;
    sim_faults_explain();
    sigset_t all, before; /* signals are for the program's own threads; faults are this thread's own */
    sigfillset(&all);
    sigdelset(&all, SIGSEGV);
    sigdelset(&all, SIGBUS);
    sigdelset(&all, SIGABRT);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int code = pthread_create(&made->thread, NULL, stream_main, made);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (code)
        sim_fatal("cannot start the thread of a stream");
    pthread_setname_np(made->thread, "cudasim-stream");
    sim_take(&streams_lock);
    made->next = streams;
    streams = made;
    sim_give(&streams_lock);
    *stream = made;
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned int flags)
{
    return cudaStreamCreateWithPriority(stream, flags, 0);
}

cudaError_t cudaStreamCreate(cudaStream_t *stream)
{
    return cudaStreamCreateWithPriority(stream, cudaStreamDefault, 0);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    if (!is_stream(stream, "cudaStreamDestroy"))
        return sim_error(cudaErrorInvalidResourceHandle);
    /* Its end is never counted as done: whoever waits for all streams must not meet it any more. */
    sim_take(&streams_lock);
    for (struct CUstream_st **at = &streams; *at; at = &(*at)->next)
        if (*at == stream) {
            *at = stream->next;
            break;
        }
    uint32_t users;
    while ((users = __atomic_load_n(&stream->users, __ATOMIC_SEQ_CST))) {
        sim_give(&streams_lock);
        sim_futex_wait(&stream->users, users);
        sim_take(&streams_lock);
    }
    sim_give(&streams_lock);
    push(stream, NULL, true, NULL, 0);
    SIM_UNSYNCED(pthread_join(stream->thread, NULL));
    stream->magic = 0;
    free(stream->ring);
    delete stream;
    return sim_error(sim_sticky());
}

static void synchronize(cudaStream_t stream)
{
    struct sim_record *record = record_new(2);
    push(stream, run_record, true, &record, sizeof record);
    record_wait_on_host(record, sim_waits_sleep(stream->device));
    record_drop(record);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    if (!is_stream(stream, "cudaStreamSynchronize"))
        return sim_error(cudaErrorInvalidResourceHandle);
    if (sim_host_function_calls("cudaStreamSynchronize"))
        return sim_error(cudaErrorNotPermitted);
    int injected;
    if (sim_injected("cudaStreamSynchronize", cudaErrorLaunchFailure, &injected))
        sim_break((cudaError_t)injected);
    synchronize(stream);
    return sim_error(sim_sticky());
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    if (!is_stream(stream, "cudaStreamQuery"))
        return sim_error(cudaErrorInvalidResourceHandle);
    if (sim_sticky())
        return sim_error(sim_sticky());
    if (__atomic_load_n(&stream->tail, __ATOMIC_ACQUIRE) != __atomic_load_n(&stream->head, __ATOMIC_ACQUIRE))
        return sim_error(cudaErrorNotReady); /* the thread's last error, as on a real device */
    synchronize(stream);                     /* idle: for the edge */
    return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize(void)
{
    const cudaError_t error = sim_ready();
    if (error == cudaErrorNoDevice || error == cudaErrorInsufficientDriver)
        return sim_error(error);
    const int device = sim_current_device();
    uint64_t number = 0;
    for (cudaStream_t stream; (stream = take_stream_after(device, number)); give_stream(stream)) {
        number = stream->number;
        synchronize(stream);
    }
    return sim_error(sim_sticky());
}

struct host_call {
    cudaHostFn_t function;
    void *context;
};

static void run_host_function(cudaStream_t, void *arguments)
{
    const struct host_call *call = (const struct host_call *)arguments;
    within_host_function = true;
    call->function(call->context);
    within_host_function = false;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *context)
{
    const struct host_call call = {function, context};
    return sim_error(sim_enqueue(stream, "cudaLaunchHostFunc", run_host_function, false, &call, sizeof call));
}

/* ---- events ---- */

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags)
{
    const cudaError_t error = sim_ready();
    if (error)
        return sim_error(error);
    int injected;
    if (sim_injected("cudaEventCreate", cudaErrorMemoryAllocation, &injected))
        return sim_error((cudaError_t)injected);
    struct CUevent_st *made = new struct CUevent_st();
    made->magic = EVENT_MAGIC;
    made->flags = flags;
    made->device = sim_current_device();
    *event = made;
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    return cudaEventCreateWithFlags(event, cudaEventDefault);
}

static bool is_event(cudaEvent_t event, const char *call)
{
    if (event && event->magic == EVENT_MAGIC)
        return true;
    sim_report("%s: %p is no event", call, (void *)event);
    return false;
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    if (!is_event(event, "cudaEventDestroy"))
        return sim_error(cudaErrorInvalidResourceHandle);
    event->magic = 0;
    record_drop(event->latest);
    delete event;
    return sim_error(sim_sticky());
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    if (!is_event(event, "cudaEventRecord") || !is_stream(stream, "cudaEventRecord"))
        return sim_error(cudaErrorInvalidResourceHandle);
    if (sim_sticky())
        return sim_error(sim_sticky());
    if (event->device != stream->device) {
        sim_report("cudaEventRecord: the event is one of device %d, the stream one of device %d",
                   event->device, stream->device);
        return sim_error(cudaErrorInvalidResourceHandle);
    }
    struct sim_record *record = record_new(2); /* one for the event, one for the queue */
    sim_take(&event->lock);
    push(stream, run_record, true, &record, sizeof record);
    record_drop(event->latest);
    event->latest = record;
    sim_give(&event->lock);
    return cudaSuccess;
}

/* The event's latest recording with a reference of the caller's, or NULL. */
static struct sim_record *take_latest(cudaEvent_t event)
{
    sim_take(&event->lock);
    struct sim_record *record = event->latest;
    if (record)
        record_keep(record);
    sim_give(&event->lock);
    return record;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int)
{
    if (!is_event(event, "cudaStreamWaitEvent") || !is_stream(stream, "cudaStreamWaitEvent"))
        return sim_error(cudaErrorInvalidResourceHandle);
    if (sim_sticky())
        return sim_error(sim_sticky());
    struct sim_record *record = take_latest(event);
    if (record)
        push(stream, run_wait, true, &record, sizeof record);
    return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    if (!is_event(event, "cudaEventSynchronize"))
        return sim_error(cudaErrorInvalidResourceHandle);
    struct sim_record *record = take_latest(event);
    if (record) {
        record_wait_on_host(record, event->flags & cudaEventBlockingSync);
        record_drop(record);
    }
    return sim_error(sim_sticky());
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    if (!is_event(event, "cudaEventQuery"))
        return sim_error(cudaErrorInvalidResourceHandle);
    struct sim_record *record = take_latest(event);
    const bool done = !record || record_done(record);
    record_drop(record);
    if (sim_sticky())
        return sim_error(sim_sticky());
    return done ? cudaSuccess : sim_error(cudaErrorNotReady);
}

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t start, cudaEvent_t end)
{
    if (!is_event(start, "cudaEventElapsedTime") || !is_event(end, "cudaEventElapsedTime") ||
        ((start->flags | end->flags) & cudaEventDisableTiming))
        return sim_error(cudaErrorInvalidResourceHandle);
    struct sim_record *from = take_latest(start), *to = take_latest(end);
    cudaError_t error = from && to ? cudaSuccess : cudaErrorInvalidResourceHandle;
    if (!error && (!record_done(from) || !record_done(to)))
        error = cudaErrorNotReady;
    if (!error)
        *milliseconds = (float)(1e3 * (to->time - from->time));
    record_drop(from);
    record_drop(to);
    return sim_error(error);
}
