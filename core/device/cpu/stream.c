/* Streams and events of the CPU backend: a thread a stream, fed through a ring.
 *
 * Only what CUDA promises orders two streams: a call happens before its execution, what stands before a
 * record happens before what stands behind a wait for it, and before the return of a synchronisation. So that
 * ThreadSanitizer sees those edges and no others, this file is not instrumented, sleeps and wakes by bare
 * futexes, and announces the promised edges itself. In particular nothing that a stream's thread does while
 * it takes an entry is seen by the host or by another stream. Under ThreadSanitizer the pool, whose locks
 * would order everything, is not used: tasks run one after another on the stream's thread, with the same
 * bits.
 *
 * After a fault the queues still run empty, skipping operations, so that no one who waits is left hanging;
 * host functions are still called.
 */
#include "core/base/time.h"
#include "core/device/cpu/cpu.h"

#include <linux/futex.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define UNSEEN __attribute__((no_sanitize("thread")))

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#define ANNOUNCE_RELEASE(address) __tsan_release(address)
#define ANNOUNCE_ACQUIRE(address) __tsan_acquire(address)
#else
#define ANNOUNCE_RELEASE(address) ((void)(address))
#define ANNOUNCE_ACQUIRE(address) ((void)(address))
#endif

#define RING_ENTRIES 1024u
#define ENTRY_ARGS_BYTES 464u

struct entry {
    mt_cpu_run_function *run; /* NULL: the stream ends */
    const char *operation;
    bool always; /* runs after a fault, too */
    _Alignas(16) unsigned char args[ENTRY_ARGS_BYTES];
};

/* One recording of an event: a fresh object each time, so that a wait is for that recording alone. */
struct record {
    uint32_t done;
    uint32_t references;
};

struct mt_event {
    struct mt_cpu_device *device;
    pthread_mutex_t lock; /* between host threads; streams never take it */
    struct record *latest;
};

struct mt_stream {
    struct mt_cpu_device *device;
    pthread_t thread;
    char name[16];
    pthread_mutex_t producers; /* between host threads; the stream's thread never takes it */
    struct entry *ring;
    void *scratch;
    size_t scratch_bytes;
    uint64_t delay_state;
    /* Each on its own cache line; both count for ever, modulo 2^32. */
    _Alignas(64) uint32_t head; /* entries put in */
    uint32_t consumer_sleeps;
    _Alignas(64) uint32_t tail; /* entries done */
    uint32_t producer_sleeps;
};

/* ---- faults ---- */

static UNSEEN bool has_failed(const struct mt_cpu_device *device)
{
    return __atomic_load_n(&device->faulted, __ATOMIC_RELAXED) != 0;
}

void mt_cpu_fail(struct mt_cpu_device *device, const char *format, ...)
{
    int none = 0;
    if (!__atomic_compare_exchange_n(&device->faulted, &none, 1, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(device->fault, sizeof device->fault, format, arguments);
    va_end(arguments);
    __atomic_store_n(&device->faulted, 2, __ATOMIC_RELEASE);
}

static int report_fault(struct mt_cpu_device *device, struct mt_error *error)
{
    return mt_error_set(error, -EIO, MT_REASON_DEVICE, "%s", device->base.api->last_error(&device->base));
}

/* ---- sleeping and waking ---- */

UNSEEN static void futex_wait(uint32_t *word, uint32_t seen)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

UNSEEN static void futex_wake(uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

/* Until *word is no longer `seen`; *sleeps tells the other side that a wake is needed. The order of "tell,
 * look again" here and "change, look whether told" there (both sequentially consistent) loses no wake. */
UNSEEN static void sleep_while(uint32_t *word, uint32_t seen, uint32_t *sleeps)
{
    while (__atomic_load_n(word, __ATOMIC_ACQUIRE) == seen) {
        __atomic_store_n(sleeps, 1, __ATOMIC_SEQ_CST);
        if (__atomic_load_n(word, __ATOMIC_SEQ_CST) == seen)
            futex_wait(word, seen);
        __atomic_store_n(sleeps, 0, __ATOMIC_RELAXED);
    }
}

UNSEEN static void change(uint32_t *word, uint32_t value, uint32_t *sleeps)
{
    __atomic_store_n(word, value, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(sleeps, __ATOMIC_SEQ_CST))
        futex_wake(word);
}

/* ---- the queue ---- */

/* Word by word: a call to memcpy would be seen. */
UNSEEN static void copy_args(unsigned char *to, const unsigned char *from, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        __atomic_store_n(&to[i], from[i], __ATOMIC_RELAXED);
}

UNSEEN static void push(struct mt_stream *stream, const char *operation, mt_cpu_run_function *run,
                        bool always, const void *args, size_t args_bytes)
{
    pthread_mutex_lock(&stream->producers);
    const uint32_t head = stream->head;
    sleep_while(&stream->tail, head - RING_ENTRIES, &stream->producer_sleeps);
    struct entry *entry = &stream->ring[head % RING_ENTRIES];
    entry->run = run;
    entry->operation = operation;
    entry->always = always;
    copy_args(entry->args, args, args_bytes);
    ANNOUNCE_RELEASE(entry);
    change(&stream->head, head + 1, &stream->consumer_sleeps);
    pthread_mutex_unlock(&stream->producers);
}

UNSEEN static void delay(struct mt_stream *stream)
{
    stream->delay_state = stream->delay_state * 6364136223846793005u + 1442695040888963407u;
    const uint64_t draw = (stream->delay_state >> 33) % (stream->device->delay_microseconds + 1);
    const struct timespec pause = {.tv_nsec = (long)draw * 1000 % 1000000000};
    syscall(SYS_nanosleep, &pause, NULL);
}

UNSEEN static void *stream_main(void *argument)
{
    struct mt_stream *stream = argument;
    prctl(PR_SET_TIMERSLACK, 1000ul); /* simulated copies end on time */
    for (;;) {
        const uint32_t tail = stream->tail;
        sleep_while(&stream->head, tail, &stream->consumer_sleeps);
        struct entry *entry = &stream->ring[tail % RING_ENTRIES];
        ANNOUNCE_ACQUIRE(entry);
        if (!entry->run)
            return NULL;
        if (stream->device->delay_microseconds)
            delay(stream);
        if (entry->always || !has_failed(stream->device))
            entry->run(stream, entry->args);
        change(&stream->tail, tail + 1, &stream->producer_sleeps);
    }
}

int mt_cpu_stream_create(struct mt_device *device, const char *name, struct mt_stream **stream,
                         struct mt_error *error)
{
    static uint64_t streams_made;
    struct mt_stream *made = aligned_alloc(64, sizeof *made);
    struct entry *ring = calloc(RING_ENTRIES, sizeof *ring);
    if (!made || !ring) {
        free(made);
        free(ring);
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory for stream %s", name);
    }
    *made = (struct mt_stream){.device = (struct mt_cpu_device *)device, .ring = ring};
    made->delay_state = made->device->delay_seed +
                        0x9e3779b97f4a7c15u * __atomic_add_fetch(&streams_made, 1, __ATOMIC_RELAXED);
    snprintf(made->name, sizeof made->name, "mt-%s", name);
    pthread_mutex_init(&made->producers, NULL);
    sigset_t all, before; /* signals are for the program's own threads */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int code = pthread_create(&made->thread, NULL, stream_main, made);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (code) {
        pthread_mutex_destroy(&made->producers);
        free(ring);
        free(made);
        return mt_error_set(error, -code, MT_REASON_DEVICE, "cannot start the thread of stream %s: %s", name,
                            strerror(code));
    }
    pthread_setname_np(made->thread, made->name);
    *stream = made;
    return 0;
}

void mt_cpu_stream_destroy(struct mt_stream *stream)
{
    if (!stream)
        return;
    push(stream, "end", NULL, true, NULL, 0);
    pthread_join(stream->thread, NULL);
    pthread_mutex_destroy(&stream->producers);
    free(stream->scratch);
    free(stream->ring);
    free(stream);
}

struct mt_cpu_device *mt_cpu_stream_device(struct mt_stream *stream)
{
    return stream->device;
}

static int check_operand(struct mt_cpu_device *device, const char *operation,
                         const struct mt_cpu_operand *operand)
{
    if (!operand->address)
        return operand->optional || !operand->bytes ? 0 : -EINVAL;
    if (!device->memory || !operand->bytes)
        return 0;
    if (operand->host) {
        if (!mt_cpu_memory_overlaps(device->memory, operand->address, operand->bytes))
            return 0;
        mt_cpu_fail(
            device,
            "%s: `%s` (%p, %zu bytes) is device memory where host memory is asked for; copy it to the "
            "host first",
            operation, operand->name, operand->address, operand->bytes);
        return -EIO;
    }
    if (mt_cpu_memory_holds(device->memory, operand->address, operand->bytes))
        return 0;
    const bool inside = mt_cpu_memory_overlaps(device->memory, operand->address, operand->bytes);
    mt_cpu_fail(device, "%s: `%s` (%p, %zu bytes) %s", operation, operand->name, operand->address,
                operand->bytes,
                inside ? "does not lie in one allocated block of device memory"
                       : "is host memory; the device cpu-discrete reaches its own memory only: copy it there "
                         "first");
    return -EIO;
}

int mt_cpu_check_operands(struct mt_stream *stream, const char *operation,
                          const struct mt_cpu_operand *operands, size_t num_operands)
{
    if (has_failed(stream->device))
        return -EIO;
    for (size_t i = 0; i < num_operands; i++) {
        const int code = check_operand(stream->device, operation, &operands[i]);
        if (code)
            return code;
    }
    return 0;
}

int mt_cpu_submit(struct mt_stream *stream, const char *operation, mt_cpu_run_function *run, const void *args,
                  size_t args_bytes, const struct mt_cpu_operand *operands, size_t num_operands)
{
    if (args_bytes > ENTRY_ARGS_BYTES)
        return -E2BIG;
    const int code = mt_cpu_check_operands(stream, operation, operands, num_operands);
    if (!code)
        push(stream, operation, run, false, args, args_bytes);
    return code;
}

struct host_call {
    void (*function)(void *context);
    void *context;
};

static void run_host_function(struct mt_stream *stream, const void *args)
{
    (void)stream;
    const struct host_call *call = args;
    call->function(call->context);
}

int mt_cpu_stream_host_function(struct mt_stream *stream, void (*function)(void *context), void *context)
{
    if (has_failed(stream->device))
        return -EIO;
    const struct host_call call = {function, context};
    push(stream, "host function", run_host_function, true, &call, sizeof call);
    return 0;
}

/* ---- events ---- */

UNSEEN static struct record *record_new(void)
{
    struct record *record = malloc(sizeof *record);
    if (record) {
        __atomic_store_n(&record->done, 0, __ATOMIC_RELAXED);
        __atomic_store_n(&record->references, 1, __ATOMIC_RELAXED);
    }
    return record;
}

UNSEEN static void record_keep(struct record *record)
{
    __atomic_add_fetch(&record->references, 1, __ATOMIC_RELAXED);
}

UNSEEN static void record_drop(struct record *record)
{
    if (record && __atomic_sub_fetch(&record->references, 1, __ATOMIC_ACQ_REL) == 0)
        free(record);
}

UNSEEN static void record_wait(struct record *record)
{
    while (!__atomic_load_n(&record->done, __ATOMIC_ACQUIRE))
        futex_wait(&record->done, 0);
    ANNOUNCE_ACQUIRE(record);
}

UNSEEN static void run_record(struct mt_stream *stream, const void *args)
{
    (void)stream;
    struct record *record = *(struct record *const *)args;
    ANNOUNCE_RELEASE(record);
    __atomic_store_n(&record->done, 1, __ATOMIC_SEQ_CST);
    futex_wake(&record->done);
    record_drop(record);
}

UNSEEN static void run_wait(struct mt_stream *stream, const void *args)
{
    (void)stream;
    struct record *record = *(struct record *const *)args;
    record_wait(record);
    record_drop(record);
}

int mt_cpu_event_create(struct mt_device *device, struct mt_event **event, struct mt_error *error)
{
    struct mt_event *made = calloc(1, sizeof *made);
    if (!made)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory for an event");
    made->device = (struct mt_cpu_device *)device;
    pthread_mutex_init(&made->lock, NULL);
    *event = made;
    return 0;
}

void mt_cpu_event_destroy(struct mt_event *event)
{
    if (!event)
        return;
    record_drop(event->latest);
    pthread_mutex_destroy(&event->lock);
    free(event);
}

int mt_cpu_event_record(struct mt_event *event, struct mt_stream *stream)
{
    if (has_failed(stream->device))
        return -EIO;
    struct record *record = record_new();
    if (!record)
        return -ENOMEM;
    record_keep(record); /* one for the event, one for the queue */
    pthread_mutex_lock(&event->lock);
    push(stream, "event record", run_record, true, &record, sizeof(struct record *));
    record_drop(event->latest);
    event->latest = record;
    pthread_mutex_unlock(&event->lock);
    return 0;
}

/* The event's latest recording with a reference of the caller's, or NULL. */
static struct record *take_latest(struct mt_event *event)
{
    pthread_mutex_lock(&event->lock);
    struct record *record = event->latest;
    if (record)
        record_keep(record);
    pthread_mutex_unlock(&event->lock);
    return record;
}

int mt_cpu_event_wait(struct mt_stream *stream, struct mt_event *event)
{
    if (has_failed(stream->device))
        return -EIO;
    struct record *record = take_latest(event);
    if (record)
        push(stream, "event wait", run_wait, true, &record, sizeof(struct record *));
    return 0;
}

int mt_cpu_event_synchronize(struct mt_event *event, struct mt_error *error)
{
    struct record *record = take_latest(event);
    if (record) {
        record_wait(record);
        record_drop(record);
    }
    return has_failed(event->device) ? report_fault(event->device, error) : 0;
}

int mt_cpu_stream_synchronize(struct mt_stream *stream, struct mt_error *error)
{
    struct record *record = record_new();
    if (!record)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory to wait for stream %s",
                            stream->name);
    record_keep(record);
    push(stream, "synchronize", run_record, true, &record, sizeof(struct record *));
    record_wait(record);
    record_drop(record);
    return has_failed(stream->device) ? report_fault(stream->device, error) : 0;
}

/* ---- what running functions use ---- */

void mt_cpu_parallel(struct mt_stream *stream, size_t num_tasks, void (*function)(void *context, size_t task),
                     void *context)
{
    struct mt_pool *pool = stream->device->pool;
#if defined(__SANITIZE_THREAD__)
    pool = NULL;
#endif
    if (pool && num_tasks > 1) {
        mt_pool_run(pool, num_tasks, function, context);
        return;
    }
    for (size_t task = 0; task < num_tasks; task++)
        function(context, task);
}

void *mt_cpu_stream_scratch(struct mt_stream *stream, size_t bytes)
{
    if (stream->scratch_bytes < bytes) {
        free(stream->scratch);
        stream->scratch_bytes = (bytes + 63) & ~(size_t)63;
        stream->scratch = aligned_alloc(64, stream->scratch_bytes);
        if (!stream->scratch) {
            stream->scratch_bytes = 0;
            mt_cpu_fail(stream->device, "no host memory for %zu bytes of scratch space in stream %s", bytes,
                        stream->name);
        }
    }
    return stream->scratch;
}

struct thread_scratch {
    void *memory;
    size_t bytes;
};

static pthread_key_t thread_scratch_key;
static pthread_once_t thread_scratch_once = PTHREAD_ONCE_INIT;

static void thread_scratch_end(void *value)
{
    struct thread_scratch *scratch = value;
    free(scratch->memory);
    free(scratch);
}

static void thread_scratch_start(void)
{
    pthread_key_create(&thread_scratch_key, thread_scratch_end);
}

void *mt_cpu_thread_scratch(size_t bytes)
{
    static _Thread_local struct thread_scratch *scratch;
    if (!scratch) {
        pthread_once(&thread_scratch_once, thread_scratch_start);
        scratch = calloc(1, sizeof *scratch);
        if (!scratch)
            return NULL;
        pthread_setspecific(thread_scratch_key, scratch);
    }
    if (scratch->bytes < bytes) {
        free(scratch->memory);
        scratch->bytes = (bytes + 63) & ~(size_t)63;
        scratch->memory = aligned_alloc(64, scratch->bytes);
        if (!scratch->memory)
            scratch->bytes = 0;
    }
    return scratch->memory;
}
