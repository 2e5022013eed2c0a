/* What the device tests share: a device with a stream, tensors that live on both sides, references in fp64
 * and their gradients by finite differences. */
#ifndef MT_TEST_DEVICE_SUPPORT_H
#define MT_TEST_DEVICE_SUPPORT_H

#include "core/base/pool.h"
#include "core/device/open.h"
#include "tests/unit/support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct rig {
    struct mt_pool *pool;
    struct mt_device *device;
    struct mt_stream *stream;
    const struct mt_device_api *api;
};

/* Opens `device` ("cpu", "cpu-discrete", "cuda") with a pool of `threads`. */
struct rig rig_open(const char *device, size_t threads);
/* The CUDA device where MEGATRAIN_CUDA_MODULE names one, else the CPU. */
struct rig rig_of_test(size_t threads);
void rig_close(struct rig *rig);
/* Waits for the stream; the device must be well. */
void rig_wait(struct rig *rig);

/* References touch nothing that threads share, and are slow enough without being watched. */
#define UNSEEN __attribute__((no_sanitize("thread")))

/* A tensor: values in fp64 (each one exact in its type) and a device copy. */
struct tensor {
    struct rig *rig;
    enum mt_dtype dtype;
    size_t count;
    double *v; /* host values */
    void *at;  /* device address */
};

/* Random values, normal times `scale`, rounded to `dtype`. */
struct tensor tensor_random(struct rig *rig, enum mt_dtype dtype, size_t count, double scale, uint64_t seed);
/* Device memory full of NaN: for outputs. */
struct tensor tensor_empty(struct rig *rig, enum mt_dtype dtype, size_t count);
/* From values. */
struct tensor tensor_of(struct rig *rig, enum mt_dtype dtype, const double *values, size_t count);
struct tensor tensor_ints(struct rig *rig, const int32_t *values, size_t count);
void tensor_push(struct tensor *tensor); /* v to the device */
void tensor_pull(struct tensor *tensor); /* the device to v, after all that stands in the stream */
void tensor_free(struct tensor *tensor);
/* The device's raw bytes, malloc'd. */
unsigned char *tensor_bytes(struct tensor *tensor);

/* Largest difference of `got` (pulled) from `want`, relative to the largest value of `want` (at least
 * 0.05), must be below `tolerance`. */
void expect_close_at(struct tensor *got, const double *want, double tolerance, const char *what,
                     const char *file, int line);
#define expect_close(got, want, tolerance) expect_close_at(got, want, tolerance, #got, __FILE__, __LINE__)

/* Gradient of `loss` by central differences with respect to x[count]; malloc'd. */
double *finite_differences(double (*loss)(void *context), void *context, double *x, size_t count);

/* What a data type may be off by: products of some hundred terms. */
static inline double tolerance_of(enum mt_dtype dtype)
{
    return dtype == MT_BF16 ? 1.2e-2 : 5e-6;
}

/* Runs `body` on both CPU devices in both types; on the CUDA device instead where MEGATRAIN_CUDA_MODULE names
 * one. */
void on_every_device(void (*body)(struct rig *rig, enum mt_dtype dtype));

/* Runs `body` with 1, 2 and 3 threads; the bytes that it returns (malloc'd) must be the same. */
void same_bits_for_any_threads(unsigned char *(*body)(struct rig *rig, size_t *bytes));

#endif
