/* sim.h: what the files of the simulated device share.
 *
 * Under ThreadSanitizer these files are not instrumented (only gpu/ and its callers are): they lock and sleep
 * by bare futexes and announce the accesses and the edges that CUDA promises, and no others. See README.md.
 */
#ifndef CUDASIM_SIM_H
#define CUDASIM_SIM_H

#include <cuda_runtime_api.h>
#include <cudasim/launch.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#if defined(CUDASIM_TSAN)
extern "C" {
void __tsan_acquire(void *address);
void __tsan_release(void *address);
void __tsan_read_range(void *address, long bytes);
void __tsan_write_range(void *address, long bytes);
void AnnotateIgnoreWritesBegin(const char *file, int line);
void AnnotateIgnoreWritesEnd(const char *file, int line);
void AnnotateIgnoreSyncBegin(const char *file, int line);
void AnnotateIgnoreSyncEnd(const char *file, int line);
void *__tsan_get_current_fiber(void);
void *__tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void *fiber);
void __tsan_switch_to_fiber(void *fiber, unsigned flags);
}
#define SIM_RELEASE(address) __tsan_release((void *)(address))
#define SIM_ACQUIRE(address) __tsan_acquire((void *)(address))
#define SIM_READS(address, bytes) __tsan_read_range((void *)(uintptr_t)(address), (long)(bytes))
#define SIM_WRITES(address, bytes) __tsan_write_range((void *)(uintptr_t)(address), (long)(bytes))
#define SIM_UNSYNCED(call)                                                                                   \
    do {                                                                                                     \
        AnnotateIgnoreSyncBegin(__FILE__, __LINE__);                                                         \
        call;                                                                                                \
        AnnotateIgnoreSyncEnd(__FILE__, __LINE__);                                                           \
    } while (0)
#else
#define SIM_RELEASE(address) ((void)(address))
#define SIM_ACQUIRE(address) ((void)(address))
#define SIM_READS(address, bytes) ((void)(address), (void)(bytes))
#define SIM_WRITES(address, bytes) ((void)(address), (void)(bytes))
#define SIM_UNSYNCED(call) call
#endif

/* While one lives, what the thread allocates and frees is not looked at: the simulator's own objects go from
 * thread to thread under locks that ThreadSanitizer does not see. */
struct sim_unseen {
#if defined(CUDASIM_TSAN)
    sim_unseen()
    {
        AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
    }
    ~sim_unseen()
    {
        AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    }
#else
    sim_unseen()
    {
    }
#endif
    sim_unseen(const sim_unseen &) = delete;
    sim_unseen &operator=(const sim_unseen &) = delete;
};

#define SIM_MAX_DEVICES 16
#define SIM_API __attribute__((visibility("hidden")))

/* ---- settings.cc: the environment ---- */

enum sim_pageable { SIM_PAGEABLE_REFUSE, SIM_PAGEABLE_COPY };

struct sim_settings {
    int devices;
    size_t memory_bytes;
    double bus_bytes_per_second; /* each direction; 0: as fast as memory */
    double latency_seconds;
    uint64_t seed;
    uint32_t delay_microseconds; /* each operation starts after a pause of at most so long */
    size_t pinned_limit_bytes;
    enum sim_pageable pageable;
    const char *launches;           /* the file that names kernels as they are launched first; NULL: none */
    bool racecheck;                 /* each CUDA thread is a thread to ThreadSanitizer */
    bool backward;                  /* blocks and threads are started last first */
    uint32_t progress_microseconds; /* calls of NCCL that need not wait are in progress for at most so long */
    size_t library_bytes;           /* device memory that a cuBLAS handle takes */
    size_t code_bytes;   /* and the code of a kernel, or of the library's for one kind of product */
    int code_capability; /* the lowest that there is code for */
    int compute_major, compute_minor;
    int driver_version;
};
SIM_API const struct sim_settings *sim_env(void);

/* True, with the error to return, when CUDASIM_FAIL asks for this call of `name` to fail. */
SIM_API bool sim_injected(const char *name, int usual_error, int *error);

/* ---- report.cc ---- */

/* To stderr, as "cudasim: ...". */
SIM_API void sim_report(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* And ends the process: for what is undefined on a real device. Says which kernel, block and thread is at
 * work. */
SIM_API void sim_fatal(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
/* Sets the calling thread's last error and returns it. */
SIM_API cudaError_t sim_error(cudaError_t error);
/* The error that the device has got into and keeps; cudaSuccess when it is well. */
SIM_API cudaError_t sim_sticky(void);
SIM_API void sim_break(cudaError_t error);
/* Set by handlers of faults: writes without allocating. */
SIM_API void sim_write_raw(const char *text);

/* ---- lock.cc: locks and sleeping that ThreadSanitizer does not see ---- */

struct sim_lock {
    uint32_t word;
};
SIM_API void sim_take(struct sim_lock *lock);
SIM_API void sim_give(struct sim_lock *lock);
SIM_API void sim_futex_wait(uint32_t *word, uint32_t seen);
/* As that, for at most so long. */
SIM_API void sim_futex_wait_for(uint32_t *word, uint32_t seen, double seconds);
SIM_API void sim_futex_wake(uint32_t *word);
SIM_API double sim_now(void);
SIM_API void sim_sleep_until(double time);
/* Copies that are not seen as such. */
SIM_API void sim_move_bytes(void *to, const void *from, size_t bytes);
SIM_API void sim_fill_bytes(void *to, int value, size_t bytes);

/* ---- memory.cc ---- */

enum sim_memory_kind { SIM_UNKNOWN, SIM_DEVICE, SIM_PINNED, SIM_REGISTERED, SIM_FREED };

struct sim_memory {
    enum sim_memory_kind kind;
    uintptr_t start;
    size_t bytes;
    int device;
};
/* What holds `address`; kind SIM_UNKNOWN: nothing that the device knows. */
SIM_API struct sim_memory sim_memory_at(const void *address);
/* A sentence's end that says what lies at `address`. */
SIM_API void sim_memory_describe(const void *address, char *text, size_t bytes);
/* True when the whole range is memory of a device; else reports, naming the caller and the operand. */
SIM_API bool sim_memory_on_device(const char *call, const char *operand, const void *address, size_t bytes);
SIM_API cudaError_t sim_memory_release(void *address, const char *call);
/* Counts memory of the device as taken; false: there is not so much. */
SIM_API bool sim_memory_take(int device, size_t bytes);
SIM_API void sim_memory_give(int device, size_t bytes);

/* ---- device.cc ---- */

SIM_API int sim_current_device(void);
/* Whether threads that wait for the device sleep (cudaDeviceScheduleBlockingSync); else they spin. */
SIM_API bool sim_waits_sleep(int device);
/* cudaSuccess, or why nothing can be done (no device, no driver, a sticky error). */
SIM_API cudaError_t sim_ready(void);

/* ---- stream.cc ---- */

struct sim_record; /* one moment in a stream */

/* Runs `run(stream, arguments)` on the stream's thread, in turn; `arguments` are copied. After a sticky error
 * only operations with `always` are run. Refuses the default stream. */
typedef void sim_operation(cudaStream_t stream, void *arguments);
SIM_API cudaError_t sim_enqueue(cudaStream_t stream, const char *name, sim_operation *run, bool always,
                                const void *arguments, size_t bytes);
SIM_API int sim_stream_device(cudaStream_t stream);
/* As kernels, records and the libraries have it: the stream must be one of the thread's current device. */
SIM_API cudaError_t sim_stream_is_current(cudaStream_t stream, const char *call);
/* Whether a host function in a stream makes the call, which is told: a real device may answer so, or hang. */
SIM_API bool sim_host_function_calls(const char *call);
/* Until all that stands in the streams of the device is done; no edge. */
SIM_API void sim_wait_idle(int device);

/* ---- code.cc ---- */

/* Brings the code of a kernel, or of what `function` stands for, to the device if it is not yet there. */
SIM_API cudaError_t sim_code_load(int device, const void *function, const char *name);

/* ---- later.cc ---- */

#define SIM_LATER_BYTES 128
/* Runs `run(arguments)` on a thread of its own, after a random pause of at most so long. */
SIM_API void sim_later(uint32_t microseconds, void (*run)(void *arguments), const void *arguments,
                       size_t bytes);

/* ---- block.cc ---- */

struct sim_runner;
/* Called once on a stream's thread; runs kernels until it is freed. */
SIM_API struct sim_runner *sim_runner_new(void);
SIM_API void sim_runner_free(struct sim_runner *runner);
SIM_API void sim_runner_run(struct sim_runner *runner, const struct cudasim_kernel *kernel);
/* "kernel NAME, block (..), thread (..)" when this thread runs one, else "". */
SIM_API void sim_runner_place(char *text, size_t bytes);
SIM_API struct sim_runner *sim_stream_runner(cudaStream_t stream);
SIM_API void sim_faults_explain(void);        /* once a process: signal handlers */
SIM_API void sim_faults_explain_thread(void); /* once a stream's thread */

#endif
