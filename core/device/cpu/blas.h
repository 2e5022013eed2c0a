/* Matrix products: the library's single-threaded kernel, called from our one pool, a tile a call. Tiles are
 * cut by shape alone, so that bits do not depend on the number of threads.
 */
#ifndef MT_DEVICE_CPU_BLAS_H
#define MT_DEVICE_CPU_BLAS_H

#include "core/device/cpu/cpu.h"

/* Keeps the library from starting threads of its own beside our pool; process-wide. */
void mt_blas_single_threaded(void);

/* Makes sure that so many products can be under way at once where the address space is limited (blas_room.c).
 * MT_REASON_OUT_OF_MEMORY with what to do. */
int mt_blas_reserve(size_t products, struct mt_error *error);

/* "OpenBLAS-Zen" and the like: other kernels, other bits. */
void mt_blas_name(char *name, size_t bytes);

/* c[m, n] = alpha * op(a) * op(b) + beta * c, row-major, on the calling thread. op(a) is [m, k], op(b) [k,
 * n]; transposed operands lie as [k, m] and [n, k]. beta 0 does not read c. */
void mt_blas_sgemm(bool transpose_a, bool transpose_b, size_t m, size_t n, size_t k, float alpha,
                   const float *a, size_t lda, const float *b, size_t ldb, float beta, float *c, size_t ldc);

/* A whole product on the pool: c (=|+=) op(a) * op(b) + bias (a row of n), sums in fp32. */
struct mt_cpu_product {
    const void *a, *b, *bias; /* bias may be NULL */
    void *c;
    size_t m, n, k, lda, ldb, ldc;
    bool transpose_a, transpose_b, accumulate;
    enum mt_dtype operands, result; /* of a, b and bias; of c */
};

void mt_cpu_product(struct mt_stream *stream, const struct mt_cpu_product *product);

#endif
