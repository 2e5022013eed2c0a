/* Inside the CPU backend: what device, streams, memory and operations share.
 *
 * An operation's file has a checking function that stands in the table (it looks at the arguments and puts a
 * copy of them into the stream's queue) and a running function that the stream's thread calls later; that one
 * cuts the work into tasks by shape alone and hands them to the process's pool.
 */
#ifndef MT_DEVICE_CPU_CPU_H
#define MT_DEVICE_CPU_CPU_H

#include "core/base/pool.h"
#include "core/device/cpu/simd.h"
#include "core/device/device.h"
#include "core/device/open.h"

#include <pthread.h>

#define MT_CPU_FAULT_BYTES 512

struct mt_cpu_memory; /* the discrete device's arena */

struct mt_cpu_device {
    struct mt_device base;
    struct mt_pool *pool;
    struct mt_cpu_memory *memory; /* NULL: the device's memory is the host's */
    double bus_bytes_per_second, bus_latency_seconds;
    int64_t bus_free_at[2]; /* nanoseconds; one direction each, to the device and to the host */
    uint64_t delay_seed;
    unsigned delay_microseconds;
    size_t fail_allocation, fail_copy; /* count down to the call that fails; 0: none does */
    int faulted;                       /* atomic: 0, 1 while the sentence is written, 2 */
    char fault[MT_CPU_FAULT_BYTES];
};

/* The first fault of a device stays; later ones are dropped. */
void mt_cpu_fail(struct mt_cpu_device *device, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- memory.c ---- */

struct mt_cpu_memory *mt_cpu_memory_new(size_t bytes);
void mt_cpu_memory_free(struct mt_cpu_memory *memory);
size_t mt_cpu_memory_total(const struct mt_cpu_memory *memory);
size_t mt_cpu_memory_available(struct mt_cpu_memory *memory);
/* 256-aligned and filled with NaN; -ENOMEM with the numbers in the sentence. */
int mt_cpu_memory_allocate(struct mt_cpu_memory *memory, size_t bytes, void **address,
                           struct mt_error *error);
/* Fills the block with another NaN; false when `address` was not allocated here. */
bool mt_cpu_memory_release(struct mt_cpu_memory *memory, void *address);
/* Whether [address, address + bytes) lies in one live block. */
bool mt_cpu_memory_holds(struct mt_cpu_memory *memory, const void *address, size_t bytes);
/* Whether any byte of it lies in the arena. */
bool mt_cpu_memory_overlaps(const struct mt_cpu_memory *memory, const void *address, size_t bytes);

/* ---- stream.c ---- */

typedef void mt_cpu_run_function(struct mt_stream *stream, const void *args);

/* Something an operation reads or writes: checked against the device's memory when it is put into a stream.
 */
struct mt_cpu_operand {
    const char *name;
    const void *address;
    size_t bytes;
    bool host;     /* must lie outside the device's memory */
    bool optional; /* may be NULL */
};

struct mt_cpu_device *mt_cpu_stream_device(struct mt_stream *stream);

/* Checks the operands and puts a copy of `args` into the stream. -EINVAL for a NULL operand, -EIO when the
 * device has failed or fails now by an operand in the wrong memory. */
int mt_cpu_submit(struct mt_stream *stream, const char *operation, mt_cpu_run_function *run, const void *args,
                  size_t args_bytes, const struct mt_cpu_operand *operands, size_t num_operands);

/* The check alone, for host memory that the checking function itself reads. */
int mt_cpu_check_operands(struct mt_stream *stream, const char *operation,
                          const struct mt_cpu_operand *operands, size_t num_operands);

/* From a running function: all tasks, on the pool; returns when they are done. */
void mt_cpu_parallel(struct mt_stream *stream, size_t num_tasks, void (*function)(void *context, size_t task),
                     void *context);

/* Memory of the stream that lasts until the running function returns (one block at a time); NULL fails the
 * device. */
void *mt_cpu_stream_scratch(struct mt_stream *stream, size_t bytes);

/* Memory of the calling thread, 64-aligned, that lasts until it asks again. NULL when there is none. */
void *mt_cpu_thread_scratch(size_t bytes);

int mt_cpu_stream_create(struct mt_device *device, const char *name, struct mt_stream **stream,
                         struct mt_error *error);
void mt_cpu_stream_destroy(struct mt_stream *stream);
int mt_cpu_stream_synchronize(struct mt_stream *stream, struct mt_error *error);
int mt_cpu_stream_host_function(struct mt_stream *stream, void (*function)(void *context), void *context);
int mt_cpu_event_create(struct mt_device *device, struct mt_event **event, struct mt_error *error);
void mt_cpu_event_destroy(struct mt_event *event);
int mt_cpu_event_record(struct mt_event *event, struct mt_stream *stream);
int mt_cpu_event_wait(struct mt_stream *stream, struct mt_event *event);
int mt_cpu_event_synchronize(struct mt_event *event, struct mt_error *error);

/* ---- operations, a file each ---- */

int mt_cpu_copy_to_device(struct mt_stream *stream, void *to, const void *from_host, size_t bytes);
int mt_cpu_copy_to_host(struct mt_stream *stream, void *to_host, const void *from, size_t bytes);
int mt_cpu_copy(struct mt_stream *stream, void *to, const void *from, size_t bytes);
int mt_cpu_fill_zero(struct mt_stream *stream, void *address, size_t bytes);
int mt_cpu_embedding(struct mt_stream *, const struct mt_embedding_args *);
int mt_cpu_embedding_backward(struct mt_stream *, const struct mt_embedding_backward_args *);
int mt_cpu_rms_norm(struct mt_stream *, const struct mt_rms_norm_args *);
int mt_cpu_rms_norm_backward(struct mt_stream *, const struct mt_rms_norm_backward_args *);
int mt_cpu_linear(struct mt_stream *, const struct mt_linear_args *);
int mt_cpu_linear_backward_input(struct mt_stream *, const struct mt_linear_backward_input_args *);
int mt_cpu_linear_backward_weight(struct mt_stream *, const struct mt_linear_backward_weight_args *);
int mt_cpu_rope(struct mt_stream *, const struct mt_rope_args *);
size_t mt_cpu_attention_workspace_bytes(struct mt_device *, const struct mt_attention_args *, bool backward);
int mt_cpu_attention(struct mt_stream *, const struct mt_attention_args *);
int mt_cpu_attention_backward(struct mt_stream *, const struct mt_attention_backward_args *);
int mt_cpu_gated_activation(struct mt_stream *, const struct mt_gated_activation_args *);
int mt_cpu_gated_activation_backward(struct mt_stream *, const struct mt_gated_activation_backward_args *);
int mt_cpu_add(struct mt_stream *, const struct mt_add_args *);
int mt_cpu_xielu(struct mt_stream *, const struct mt_xielu_args *);
int mt_cpu_xielu_backward(struct mt_stream *, const struct mt_xielu_backward_args *);
int mt_cpu_clip(struct mt_stream *, const struct mt_clip_args *);
int mt_cpu_cross_entropy_statistics(struct mt_stream *, const struct mt_cross_entropy_statistics_args *);
int mt_cpu_cross_entropy_finish(struct mt_stream *, const struct mt_cross_entropy_finish_args *);
int mt_cpu_cross_entropy_backward(struct mt_stream *, const struct mt_cross_entropy_backward_args *);
int mt_cpu_sum_squares(struct mt_stream *, const struct mt_sum_squares_args *);
int mt_cpu_cast(struct mt_stream *, const struct mt_cast_args *);

/* ---- small helpers ---- */

/* fp32 or bf16, what activations may be. */
static inline bool mt_cpu_data_dtype(enum mt_dtype dtype)
{
    return dtype == MT_F32 || dtype == MT_BF16;
}

/* Bytes from the first to behind the last element of `rows` rows of `cols`, `stride` elements apart. */
static inline size_t mt_cpu_span(size_t rows, size_t cols, size_t stride, enum mt_dtype dtype)
{
    return rows ? ((rows - 1) * stride + cols) * mt_dtype_bytes(dtype) : 0;
}

#endif
