/* Inside the CUDA backend: what devices, streams, memory, products and operations share.
 *
 * An operation's file has a checking function that stands in the table: it looks at the arguments, enters the
 * stream (right device current, no fault so far), starts its kernels and leaves. Kernels never fail by
 * themselves; what only they can see (a token outside the vocabulary) they write into the device's fault word
 * in pinned host memory, which every later call looks at.
 */
#ifndef MT_GPU_CUDA_H
#define MT_GPU_CUDA_H

#include "gpu/host.h"

#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <pthread.h>

#define MT_CUDA_FAULT_BYTES 1024

struct mt_cuda_block; /* a block of device or host memory; memory.cu */

struct mt_cuda_products; /* the libraries' handles and remembered algorithms; product.cu */

/* What one computing stream works with: a stretch of device memory (parts of sums, then cuBLAS's workspace)
 * and the handles that use it. */
struct mt_cuda_scratch {
    char *address;
    struct mt_cuda_products *products;
    struct mt_cuda_scratch *next;
};

struct mt_cuda_device {
    struct mt_device base;
    int index;
    int capability; /* 90 for 9.0 */
    char name[128];
    char kernel_set[64];
    size_t total_bytes, limit_bytes, used_bytes;
    size_t code_bytes; /* of its memory, never taken: the driver's, for the code of kernels */
    size_t blas_bytes; /* cuBLAS's workspace in a scratch block */
    size_t own_bytes;  /* of used_bytes: scratch blocks and what is counted for the libraries' handles */
    pthread_mutex_t lock;
    struct mt_cuda_block *blocks, *host_blocks;
    struct mt_cuda_scratch *scratch; /* not in use */
    bool warned_unpinned;
    void (*note)(void *context, const char *sentence); /* may be NULL */
    void *note_context;
    /* Written by kernels: 0, or kind, index and value of what was wrong. In pinned host memory. */
    volatile unsigned long long *fault_word;
    int faulted; /* atomic: 0, 1 while the sentence is written, 2 */
    int fault_code;
    char fault[MT_CUDA_FAULT_BYTES];
};

struct mt_stream {
    struct mt_cuda_device *device;
    cudaStream_t handle;
    char name[32];
    pthread_mutex_t lock; /* of what follows */
    struct mt_cuda_scratch *scratch;
};

struct mt_event {
    struct mt_cuda_device *device;
    cudaEvent_t handle;
};

static inline struct mt_cuda_device *mt_cuda_of(struct mt_device *device)
{
    return reinterpret_cast<struct mt_cuda_device *>(device);
}

extern const struct mt_device_api mt_cuda_device_api;

/* ---- faults.cu ---- */

/* The first fault of a device stays. `code` is what calls return from then on: -ENOMEM where memory ran out,
 * -EIO for all else. */
void mt_cuda_fail(struct mt_cuda_device *device, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Whether the device has failed; takes over what a kernel reported. */
bool mt_cuda_failed(struct mt_cuda_device *device);
const char *mt_cuda_last_error(struct mt_device *device);
/* Of a device that has failed. */
int mt_cuda_fault_code(struct mt_cuda_device *device);
/* Fails the device for a result other than success: what was being done, the runtime's own words and what the
 * user can do. 0, -EIO or -ENOMEM, here and below. */
int mt_cuda_check(struct mt_cuda_device *device, cudaError_t result, const char *doing);
int mt_cuda_check_blas(struct mt_cuda_device *device, cublasStatus_t status, const char *doing);
/* What the user can do about it; "" when nothing is known. */
const char *mt_cuda_advice(cudaError_t result);
/* The device's fault as an error. */
int mt_cuda_report(struct mt_cuda_device *device, struct mt_error *error);
/* Of a call that makes something: without memory for it the call fails and the device stays as it is. */
int mt_cuda_made(struct mt_cuda_device *device, cudaError_t result, const char *doing,
                 struct mt_error *error);

enum mt_cuda_fault_kind {
    MT_CUDA_FAULT_TOKEN = 1, /* an id outside the table */
    MT_CUDA_FAULT_POSITION,
    MT_CUDA_FAULT_LABEL,
};

/* ---- module.cu ---- */

int mt_cuda_count(int *devices, struct mt_error *error);
int mt_cuda_describe(int index, struct mt_cuda_device_description *description, struct mt_error *error);
void mt_cuda_versions(char *text, size_t bytes);

/* ---- device.cu ---- */

int mt_cuda_open(int index, const struct mt_cuda_open_options *options, struct mt_device **device,
                 struct mt_error *error);
/* Makes the device the calling thread's current one, and makes its context where there was none: so nothing
 * is ever put back to a device that was current before. A thread that waits for the device sleeps. */
cudaError_t mt_cuda_choose(int index);
int mt_cuda_enter(struct mt_cuda_device *device);

/* ---- nvml.cu ---- */

/* The best PCIe link that card and slot allow; zeros where NVML is not there. */
void mt_cuda_nvml_link(const char *bus_id, int *generation, int *width);
/* "580.65.06"; "" where NVML is not there. */
void mt_cuda_nvml_driver(char *text, size_t bytes);

/* ---- memory.cu ---- */

int mt_cuda_allocate(struct mt_device *device, size_t bytes, void **address, struct mt_error *error);
void mt_cuda_release(struct mt_device *device, void *address);
int mt_cuda_host_allocate(struct mt_device *device, size_t bytes, void **memory, bool *pinned,
                          struct mt_error *error);
void mt_cuda_host_release(struct mt_device *device, void *memory);
size_t mt_cuda_free_bytes(struct mt_cuda_device *device);
/* What a computing stream needs; one is made when the device opens, so that none is made within a step. */
struct mt_cuda_scratch *mt_cuda_scratch_take(struct mt_cuda_device *device, struct mt_error *error);
void mt_cuda_scratch_give(struct mt_cuda_device *device, struct mt_cuda_scratch *scratch);
void mt_cuda_memory_free(struct mt_cuda_device *device);

/* ---- stream.cu ---- */

int mt_cuda_stream_create(struct mt_device *device, const char *name, struct mt_stream **stream,
                          struct mt_error *error);
void mt_cuda_stream_destroy(struct mt_stream *stream);
int mt_cuda_stream_synchronize(struct mt_stream *stream, struct mt_error *error);
int mt_cuda_stream_host_function(struct mt_stream *stream, void (*function)(void *context), void *context);
int mt_cuda_event_create(struct mt_device *device, struct mt_event **event, struct mt_error *error);
void mt_cuda_event_destroy(struct mt_event *event);
int mt_cuda_event_record(struct mt_event *event, struct mt_stream *stream);
int mt_cuda_event_wait(struct mt_stream *stream, struct mt_event *event);
int mt_cuda_event_synchronize(struct mt_event *event, struct mt_error *error);
int mt_cuda_copy_to_device(struct mt_stream *stream, void *to, const void *from_host, size_t bytes);
int mt_cuda_copy_to_host(struct mt_stream *stream, void *to_host, const void *from, size_t bytes);
int mt_cuda_copy(struct mt_stream *stream, void *to, const void *from, size_t bytes);
int mt_cuda_fill_zero(struct mt_stream *stream, void *address, size_t bytes);

/* Before an operation's first kernel: 0, or the fault's code when the device has failed. */
int mt_cuda_begin(struct mt_stream *stream);
/* After its last: what a launch was refused for. */
int mt_cuda_end(struct mt_stream *stream, const char *operation);
/* The stream's parts of sums, MT_CUDA_PARTS_BYTES; NULL fails the device. */
float *mt_cuda_parts(struct mt_stream *stream);

/* ---- product.cu ---- */

/* c (=|+=) alpha * op(a) * op(b) + bias (a row of n), row-major, sums in fp32. op(a) is [m, k], op(b) [k, n];
 * transposed operands lie as [k, m] and [n, k]. With batch > 1, matrices `..._step` elements apart and no
 * bias and no sums.
 *
 * a_sums [m], or NULL: the sums of op(a)'s rows, = whatever beta is, made on the way where the library can
 * (the gradient of a bias beside that of its weight; result is fp32 then, and beta 0 or 1). */
struct mt_cuda_product {
    const void *a, *b, *bias;
    float *a_sums;
    void *c;
    size_t m, n, k, lda, ldb, ldc;
    bool transpose_a, transpose_b;
    float alpha, beta;
    size_t batch, a_step, b_step, c_step;
    enum mt_dtype operands, result; /* of a, b and bias; of c */
};

int mt_cuda_multiply(struct mt_stream *stream, const struct mt_cuda_product *product, const char *operation);
/* The same; *sums_left says whether a_sums are still to be made, if there are any. */
int mt_cuda_multiply_and_sum(struct mt_stream *stream, const struct mt_cuda_product *product, bool *sums_left,
                             const char *operation);
/* c += bias, row by row, where the product could not take it along; kernels/linear.cu. */
int mt_cuda_add_bias(struct mt_stream *stream, const struct mt_cuda_product *product, const char *operation);
/* Handles that work in blas_bytes at `workspace`. NULL: see `error`. */
struct mt_cuda_products *mt_cuda_products_open(struct mt_cuda_device *device, void *workspace,
                                               struct mt_error *error);
/* From now on their products go into this stream. */
int mt_cuda_products_use(struct mt_cuda_products *products, struct mt_stream *stream);
/* Before the stream ends. */
void mt_cuda_products_leave(struct mt_cuda_products *products, struct mt_cuda_device *device);
void mt_cuda_products_free(struct mt_cuda_products *products);

/* ---- collective.cu ---- */

extern const struct mt_collective_api mt_cuda_collective_api;

/* ---- operations, a file each in kernels/ ---- */

int mt_cuda_embedding(struct mt_stream *, const struct mt_embedding_args *);
int mt_cuda_embedding_backward(struct mt_stream *, const struct mt_embedding_backward_args *);
int mt_cuda_rms_norm(struct mt_stream *, const struct mt_rms_norm_args *);
int mt_cuda_rms_norm_backward(struct mt_stream *, const struct mt_rms_norm_backward_args *);
int mt_cuda_linear(struct mt_stream *, const struct mt_linear_args *);
int mt_cuda_linear_backward_input(struct mt_stream *, const struct mt_linear_backward_input_args *);
int mt_cuda_linear_backward_weight(struct mt_stream *, const struct mt_linear_backward_weight_args *);
int mt_cuda_rope(struct mt_stream *, const struct mt_rope_args *);
size_t mt_cuda_attention_workspace_bytes(struct mt_device *, const struct mt_attention_args *, bool backward);
int mt_cuda_attention(struct mt_stream *, const struct mt_attention_args *);
int mt_cuda_attention_backward(struct mt_stream *, const struct mt_attention_backward_args *);
int mt_cuda_gated_activation(struct mt_stream *, const struct mt_gated_activation_args *);
int mt_cuda_gated_activation_backward(struct mt_stream *, const struct mt_gated_activation_backward_args *);
int mt_cuda_add(struct mt_stream *, const struct mt_add_args *);
int mt_cuda_xielu(struct mt_stream *, const struct mt_xielu_args *);
int mt_cuda_xielu_backward(struct mt_stream *, const struct mt_xielu_backward_args *);
int mt_cuda_clip(struct mt_stream *, const struct mt_clip_args *);
int mt_cuda_cross_entropy_statistics(struct mt_stream *, const struct mt_cross_entropy_statistics_args *);
int mt_cuda_cross_entropy_finish(struct mt_stream *, const struct mt_cross_entropy_finish_args *);
int mt_cuda_cross_entropy_backward(struct mt_stream *, const struct mt_cross_entropy_backward_args *);
int mt_cuda_sum_squares(struct mt_stream *, const struct mt_sum_squares_args *);
int mt_cuda_cast(struct mt_stream *, const struct mt_cast_args *);

/* ---- small helpers ---- */

static inline bool mt_cuda_data_dtype(enum mt_dtype dtype)
{
    return dtype == MT_F32 || dtype == MT_BF16;
}

#endif
