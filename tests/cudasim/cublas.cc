/* cuBLAS: matrices by columns, each call one product or a batch of them. */
#include "tests/cudasim/product.h"

#include <new>

/* A smaller one "may cause some routines to fail", as the manual has it. */
#define LEAST_WORKSPACE ((size_t)16 << 10)

struct cublasContext {
    cudaStream_t stream;
    void *workspace;
    size_t workspace_bytes;
    bool own_workspace;
    cublasMath_t mode;
    int device;
};

cublasStatus_t cublasCreate_v2(cublasHandle_t *handle)
{
    int injected;
    *handle = NULL;
    if (sim_injected("cublasCreate", CUBLAS_STATUS_NOT_INITIALIZED, &injected))
        return (cublasStatus_t)injected;
    if (sim_ready())
        return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!sim_memory_take(sim_current_device(), sim_env()->library_bytes))
        return CUBLAS_STATUS_ALLOC_FAILED;
    *handle = new cublasContext();
    (*handle)->device = sim_current_device();
    (*handle)->own_workspace = true;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy_v2(cublasHandle_t handle)
{
    if (handle)
        sim_memory_give(handle->device, sim_env()->library_bytes);
    delete handle;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetVersion_v2(cublasHandle_t, int *version)
{
    *version = CUBLAS_VER_MAJOR * 10000 + CUBLAS_VER_MINOR * 100 + CUBLAS_VER_PATCH;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream)
{
    handle->stream = stream;
    handle->own_workspace = true;
    handle->workspace = NULL; /* as the real one: a new stream, the handle's own workspace again */
    handle->workspace_bytes = 0;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void *workspace, size_t bytes)
{
    if (workspace && ((uintptr_t)workspace % 256 ||
                      !sim_memory_on_device("cublasSetWorkspace", "the workspace", workspace, bytes)))
        return CUBLAS_STATUS_INVALID_VALUE;
    handle->own_workspace = false;
    handle->workspace = workspace;
    handle->workspace_bytes = bytes;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetPointerMode_v2(cublasHandle_t, cublasPointerMode_t mode)
{
    return mode == CUBLAS_POINTER_MODE_HOST ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode)
{
    handle->mode = mode;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetAtomicsMode(cublasHandle_t, cublasAtomicsMode_t)
{
    return CUBLAS_STATUS_SUCCESS;
}

static const struct {
    cublasStatus_t status;
    const char *name, *text;
} statuses[] = {
    {CUBLAS_STATUS_SUCCESS, "CUBLAS_STATUS_SUCCESS", "success"},
    {CUBLAS_STATUS_NOT_INITIALIZED, "CUBLAS_STATUS_NOT_INITIALIZED", "the library was not initialized"},
    {CUBLAS_STATUS_ALLOC_FAILED, "CUBLAS_STATUS_ALLOC_FAILED", "the resource allocation failed"},
    {CUBLAS_STATUS_INVALID_VALUE, "CUBLAS_STATUS_INVALID_VALUE", "an invalid value was used as an argument"},
    {CUBLAS_STATUS_ARCH_MISMATCH, "CUBLAS_STATUS_ARCH_MISMATCH",
     "an absent device architectural feature is required"},
    {CUBLAS_STATUS_MAPPING_ERROR, "CUBLAS_STATUS_MAPPING_ERROR", "an access to GPU memory space failed"},
    {CUBLAS_STATUS_EXECUTION_FAILED, "CUBLAS_STATUS_EXECUTION_FAILED", "the GPU program failed to execute"},
    {CUBLAS_STATUS_INTERNAL_ERROR, "CUBLAS_STATUS_INTERNAL_ERROR", "an internal operation failed"},
    {CUBLAS_STATUS_NOT_SUPPORTED, "CUBLAS_STATUS_NOT_SUPPORTED",
     "the functionality requested is not supported"},
    {CUBLAS_STATUS_LICENSE_ERROR, "CUBLAS_STATUS_LICENSE_ERROR", "the license is not valid"},
};

const char *cublasGetStatusName(cublasStatus_t status)
{
    for (const auto &one : statuses)
        if (one.status == status)
            return one.name;
    return "unknown status";
}

const char *cublasGetStatusString(cublasStatus_t status)
{
    for (const auto &one : statuses)
        if (one.status == status)
            return one.text;
    return "unknown status";
}

/* op(matrix), of `rows` by `cols`. */
static struct sim_matrix operand(const void *address, cudaDataType type, cublasOperation_t operation,
                                 int rows, int cols, int ld, long long step)
{
    const bool plain = operation == CUBLAS_OP_N;
    return {address,     type, (size_t)rows, (size_t)cols, plain ? 1 : (size_t)ld, plain ? (size_t)ld : 1,
            (size_t)step};
}

static bool type_known(cudaDataType type)
{
    return type == CUDA_R_32F || type == CUDA_R_16BF;
}

static cublasStatus_t gemm(const char *call, cublasHandle_t handle, cublasOperation_t transa,
                           cublasOperation_t transb, int m, int n, int k, const void *alpha, const void *A,
                           cudaDataType Atype, int lda, long long strideA, const void *B, cudaDataType Btype,
                           int ldb, long long strideB, const void *beta, void *C, cudaDataType Ctype, int ldc,
                           long long strideC, int batch, cublasComputeType_t compute)
{
    if (!handle)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    if (handle->device != sim_current_device()) {
        sim_report("%s: the handle is one of device %d, and the thread's current device is %d", call,
                   handle->device, sim_current_device());
        return CUBLAS_STATUS_EXECUTION_FAILED;
    }
    if (!handle->own_workspace && handle->workspace_bytes < LEAST_WORKSPACE) {
        sim_report("%s: a workspace of %zu bytes is too small", call, handle->workspace_bytes);
        return CUBLAS_STATUS_ALLOC_FAILED;
    }
    const int a_rows = transa == CUBLAS_OP_N ? m : k, b_rows = transb == CUBLAS_OP_N ? k : n;
    if (m < 0 || n < 0 || k < 0 || batch < 0 || lda < (a_rows > 1 ? a_rows : 1) ||
        ldb < (b_rows > 1 ? b_rows : 1) || ldc < (m > 1 ? m : 1) || !alpha || !beta || strideA < 0 ||
        strideB < 0 || strideC < 0) {
        sim_report("%s: m %d, n %d, k %d, leading dimensions %d, %d, %d, batch %d", call, m, n, k, lda, ldb,
                   ldc, batch);
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    if (!type_known(Atype) || Atype != Btype || !type_known(Ctype) ||
        (Atype == CUDA_R_32F && Ctype != CUDA_R_32F) ||
        (compute != CUBLAS_COMPUTE_32F && compute != CUBLAS_COMPUTE_32F_PEDANTIC)) {
        sim_report("%s: the types %d, %d, %d with compute type %d are not simulated", call, Atype, Btype,
                   Ctype, compute);
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    struct sim_product product = {};
    product.a = operand(A, Atype, transa, m, k, lda, strideA);
    product.b = operand(B, Btype, transb, k, n, ldb, strideB);
    product.before = product.result = operand(C, Ctype, CUBLAS_OP_N, m, n, ldc, strideC);
    product.alpha = *(const float *)alpha;
    product.beta = *(const float *)beta;
    product.batch = (size_t)batch;
    product.workspace = handle->workspace;
    product.workspace_bytes = handle->workspace_bytes < 4096 ? handle->workspace_bytes : 4096;
    return sim_product_enqueue(call, &product, handle->stream);
}

cublasStatus_t cublasSgemm_v2(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb,
                              int m, int n, int k, const float *alpha, const float *A, int lda,
                              const float *B, int ldb, const float *beta, float *C, int ldc)
{
    return gemm("cublasSgemm", handle, transa, transb, m, n, k, alpha, A, CUDA_R_32F, lda, 0, B, CUDA_R_32F,
                ldb, 0, beta, C, CUDA_R_32F, ldc, 0, 1, CUBLAS_COMPUTE_32F);
}

cublasStatus_t cublasSgemmStridedBatched(cublasHandle_t handle, cublasOperation_t transa,
                                         cublasOperation_t transb, int m, int n, int k, const float *alpha,
                                         const float *A, int lda, long long int strideA, const float *B,
                                         int ldb, long long int strideB, const float *beta, float *C, int ldc,
                                         long long int strideC, int batchCount)
{
    return gemm("cublasSgemmStridedBatched", handle, transa, transb, m, n, k, alpha, A, CUDA_R_32F, lda,
                strideA, B, CUDA_R_32F, ldb, strideB, beta, C, CUDA_R_32F, ldc, strideC, batchCount,
                CUBLAS_COMPUTE_32F);
}

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m,
                            int n, int k, const void *alpha, const void *A, cudaDataType Atype, int lda,
                            const void *B, cudaDataType Btype, int ldb, const void *beta, void *C,
                            cudaDataType Ctype, int ldc, cublasComputeType_t computeType, cublasGemmAlgo_t)
{
    return gemm("cublasGemmEx", handle, transa, transb, m, n, k, alpha, A, Atype, lda, 0, B, Btype, ldb, 0,
                beta, C, Ctype, ldc, 0, 1, computeType);
}

cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t transa,
                                          cublasOperation_t transb, int m, int n, int k, const void *alpha,
                                          const void *A, cudaDataType Atype, int lda, long long int strideA,
                                          const void *B, cudaDataType Btype, int ldb, long long int strideB,
                                          const void *beta, void *C, cudaDataType Ctype, int ldc,
                                          long long int strideC, int batchCount,
                                          cublasComputeType_t computeType, cublasGemmAlgo_t)
{
    return gemm("cublasGemmStridedBatchedEx", handle, transa, transb, m, n, k, alpha, A, Atype, lda, strideA,
                B, Btype, ldb, strideB, beta, C, Ctype, ldc, strideC, batchCount, computeType);
}
