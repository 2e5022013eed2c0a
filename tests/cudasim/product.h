/* product.h: the matrix product that cuBLAS and cuBLASLt stand on. */
#ifndef CUDASIM_PRODUCT_H
#define CUDASIM_PRODUCT_H

#include "tests/cudasim/sim.h"

#include <cublas_v2.h>

/* Element (i, j) of matrix b of a batch lies at address + b * batch_step + i * row_step + j * col_step, in
 * elements; one of the steps is 1. */
struct sim_matrix {
    const void *address;
    cudaDataType type; /* CUDA_R_32F or CUDA_R_16BF */
    size_t rows, cols;
    size_t row_step, col_step;
    size_t batch_step;
};

/* result = alpha * a * b + beta * before, and `bias[i]` added to row i, then max(0, .) when `relu`. Sums, in
 * the result's type, as a gradient of a bias is: a_sums[i] that of a's row i, b_sums[j] that of b's column j.
 */
struct sim_product {
    struct sim_matrix a, b, before, result;
    float alpha, beta;
    size_t batch;
    const void *bias;
    cudaDataType bias_type;
    void *a_sums, *b_sums;
    bool relu;
    void *workspace; /* filled with NaN: nobody may count on what stands there */
    size_t workspace_bytes;
};

/* Checks that all operands lie in device memory, and puts it into the stream. */
SIM_API cublasStatus_t sim_product_enqueue(const char *call, const struct sim_product *product,
                                           cudaStream_t stream);

#endif
