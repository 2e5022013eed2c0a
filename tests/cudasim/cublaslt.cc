/* cuBLASLt: descriptions of one product, the choice of an algorithm, and the product itself. An algorithm
 * remembers what alignment it was chosen for (256 bytes unless the preference says less; for a bias or its
 * gradient, that of the pointer that stands in the description then), and is refused for operands that have
 * less. */
#include "tests/cudasim/product.h"

#include <cublasLt.h>
#include <new>
#include <string.h>

#define ALGORITHM_MAGIC 0x63756461736d3031u
#define WORKSPACE_BYTES 4096u

struct cublasLtContext {
    int device;
};

struct cublasLtMatmulDescOpaque {
    cublasComputeType_t compute;
    cudaDataType scale, bias_type;
    cublasOperation_t transa, transb;
    uint32_t epilogue;
    const void *bias;
    bool bias_type_set;
};

struct cublasLtMatrixLayoutOpaque {
    cudaDataType type;
    int32_t order;
    uint64_t rows, cols;
    int64_t ld;
    int32_t batch;
    int64_t batch_step;
};

struct cublasLtMatmulPreferenceOpaque {
    uint64_t workspace_bytes;
    uint32_t alignment[4]; /* of A, B, C, D */
};

/* What lies in cublasLtMatmulAlgo_t. */
struct algorithm {
    uint64_t magic;
    uint64_t m, n, k;
    uint32_t alignment[5]; /* of A, B, C, D, and of the bias */
    uint64_t workspace_bytes;
};
static_assert(sizeof(struct algorithm) <= sizeof(cublasLtMatmulAlgo_t), "an algorithm fits where it is kept");

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
    int injected;
    *handle = NULL;
    if (sim_injected("cublasLtCreate", CUBLAS_STATUS_NOT_INITIALIZED, &injected))
        return (cublasStatus_t)injected;
    if (sim_ready())
        return CUBLAS_STATUS_NOT_INITIALIZED;
    *handle = new cublasLtContext();
    (*handle)->device = sim_current_device();
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    delete handle;
    return CUBLAS_STATUS_SUCCESS;
}

size_t cublasLtGetVersion(void)
{
    return CUBLAS_VER_MAJOR * 10000 + CUBLAS_VER_MINOR * 100 + CUBLAS_VER_PATCH;
}

/* ---- descriptions ---- */

/* An attribute's value; its size must be the one that the library documents. */
template <class T> static cublasStatus_t take(T *to, const void *from, size_t bytes)
{
    if (bytes != sizeof *to || !from) {
        sim_report("cuBLASLt: an attribute of %zu bytes where %zu are wanted", bytes, sizeof *to);
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    memcpy(to, from, sizeof *to);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *made, cublasComputeType_t compute,
                                        cudaDataType_t scale)
{
    *made = new cublasLtMatmulDescOpaque{
        compute, scale, CUDA_R_32F, CUBLAS_OP_N, CUBLAS_OP_N, CUBLASLT_EPILOGUE_DEFAULT, NULL, false};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description)
{
    delete description;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t d,
                                              cublasLtMatmulDescAttributes_t attribute, const void *value,
                                              size_t bytes)
{
    int32_t mode;
    cublasStatus_t status;
    switch (attribute) {
    case CUBLASLT_MATMUL_DESC_COMPUTE_TYPE:
        return take(&d->compute, value, bytes);
    case CUBLASLT_MATMUL_DESC_SCALE_TYPE:
        return take(&d->scale, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSA:
        return take(&d->transa, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB:
        return take(&d->transb, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
        return take(&d->epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
        return take(&d->bias, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
        d->bias_type_set = true;
        return take(&d->bias_type, value, bytes);
    case CUBLASLT_MATMUL_DESC_POINTER_MODE:
        status = take(&mode, value, bytes);
        return status || mode == CUBLASLT_POINTER_MODE_HOST ? status : CUBLAS_STATUS_NOT_SUPPORTED;
    }
    sim_report("cublasLtMatmulDescSetAttribute: attribute %d is not simulated", (int)attribute);
    return CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *made, cudaDataType type, uint64_t rows,
                                          uint64_t cols, int64_t ld)
{
    *made = new cublasLtMatrixLayoutOpaque{type, CUBLASLT_ORDER_COL, rows, cols, ld, 1, 0};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout)
{
    delete layout;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t l,
                                                cublasLtMatrixLayoutAttribute_t attribute, const void *value,
                                                size_t bytes)
{
    switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_TYPE:
        return take(&l->type, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_ORDER:
        return take(&l->order, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_ROWS:
        return take(&l->rows, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_COLS:
        return take(&l->cols, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_LD:
        return take(&l->ld, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
        return take(&l->batch, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
        return take(&l->batch_step, value, bytes);
    }
    sim_report("cublasLtMatrixLayoutSetAttribute: attribute %d is not simulated", (int)attribute);
    return CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *made)
{
    *made = new cublasLtMatmulPreferenceOpaque{0, {256, 256, 256, 256}};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference)
{
    delete preference;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t p,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void *value, size_t bytes)
{
    uint32_t unused;
    switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
        return take(&p->workspace_bytes, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
        return take(&p->alignment[attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES], value, bytes);
    case CUBLASLT_MATMUL_PREF_SEARCH_MODE:
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
        return take(&unused, value, bytes);
    }
    sim_report("cublasLtMatmulPreferenceSetAttribute: attribute %d is not simulated", (int)attribute);
    return CUBLAS_STATUS_NOT_SUPPORTED;
}

/* ---- a product ---- */

static bool type_known(cudaDataType type)
{
    return type == CUDA_R_32F || type == CUDA_R_16BF;
}

/* op(matrix) with its batch. */
static struct sim_matrix operand(const void *address, const struct cublasLtMatrixLayoutOpaque *l,
                                 cublasOperation_t operation)
{
    const bool by_columns = l->order == CUBLASLT_ORDER_COL, plain = operation == CUBLAS_OP_N;
    const size_t row_step = by_columns ? 1 : (size_t)l->ld, col_step = by_columns ? (size_t)l->ld : 1;
    return {address,
            l->type,
            plain ? l->rows : l->cols,
            plain ? l->cols : l->rows,
            plain ? row_step : col_step,
            plain ? col_step : row_step,
            (size_t)l->batch_step};
}

static bool layout_fits(const struct cublasLtMatrixLayoutOpaque *l)
{
    const uint64_t line = l->order == CUBLASLT_ORDER_COL ? l->rows : l->cols;
    return (l->order == CUBLASLT_ORDER_COL || l->order == CUBLASLT_ORDER_ROW) && l->ld >= (int64_t)line &&
           l->batch >= 1 && l->batch_step >= 0;
}

static bool wants_sums(cublasLtMatmulDesc_t d)
{
    return d->epilogue == CUBLASLT_EPILOGUE_BGRADA || d->epilogue == CUBLASLT_EPILOGUE_BGRADB;
}

/* A bias's gradient has the type of the result, and of a batch nothing is documented. Where the library has
 * it is not documented either: here for bf16 operands alone, so that callers meet both answers. */
static bool sums_fit(cublasLtMatmulDesc_t d, cublasLtMatrixLayout_t A, cublasLtMatrixLayout_t D)
{
    return A->type == CUDA_R_16BF && D->batch == 1 && (!d->bias_type_set || d->bias_type == D->type);
}

/* Whether what the descriptions say can be multiplied, here and there. */
static cublasStatus_t check(const struct sim_product *p, cublasLtMatmulDesc_t d, cublasLtMatrixLayout_t A,
                            cublasLtMatrixLayout_t B, cublasLtMatrixLayout_t C, cublasLtMatrixLayout_t D)
{
    if (!layout_fits(A) || !layout_fits(B) || !layout_fits(C) || !layout_fits(D) || A->batch != D->batch ||
        B->batch != D->batch || C->batch != D->batch || p->a.rows != p->result.rows ||
        p->a.cols != p->b.rows || p->b.cols != p->result.cols || p->before.rows != p->result.rows ||
        p->before.cols != p->result.cols) {
        sim_report(
            "cuBLASLt: op(A) is %zu by %zu, op(B) %zu by %zu, C %zu by %zu, D %zu by %zu, leading dimensions "
            "%ld, %ld, %ld, %ld: they do not fit",
            p->a.rows, p->a.cols, p->b.rows, p->b.cols, p->before.rows, p->before.cols, p->result.rows,
            p->result.cols, (long)A->ld, (long)B->ld, (long)C->ld, (long)D->ld);
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    const bool known = type_known(A->type) && A->type == B->type && type_known(D->type) &&
                       C->type == D->type && (A->type == CUDA_R_16BF || D->type == CUDA_R_32F) &&
                       d->scale == CUDA_R_32F &&
                       (d->compute == CUBLAS_COMPUTE_32F || d->compute == CUBLAS_COMPUTE_32F_PEDANTIC);
    const bool epilogue_known =
        d->epilogue == CUBLASLT_EPILOGUE_DEFAULT || d->epilogue == CUBLASLT_EPILOGUE_RELU ||
        d->epilogue == CUBLASLT_EPILOGUE_BIAS || d->epilogue == CUBLASLT_EPILOGUE_RELU_BIAS || wants_sums(d);
    if (!known || !epilogue_known) {
        sim_report("cuBLASLt: types %d, %d, %d, %d, compute type %d, epilogue %u: not simulated", A->type,
                   B->type, C->type, D->type, d->compute, d->epilogue);
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    return !wants_sums(d) || sums_fit(d, A, D) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

static struct sim_product describe(cublasLtMatmulDesc_t d, const void *A, cublasLtMatrixLayout_t a,
                                   const void *B, cublasLtMatrixLayout_t b, const void *C,
                                   cublasLtMatrixLayout_t c, void *D, cublasLtMatrixLayout_t result)
{
    struct sim_product product = {};
    product.a = operand(A, a, d->transa);
    product.b = operand(B, b, d->transb);
    product.before = operand(C, c, CUBLAS_OP_N);
    product.result = operand(D, result, CUBLAS_OP_N);
    product.batch = (size_t)result->batch;
    if (d->epilogue & CUBLASLT_EPILOGUE_BIAS)
        product.bias = d->bias;
    if (d->epilogue == CUBLASLT_EPILOGUE_BGRADA)
        product.a_sums = const_cast<void *>(d->bias);
    if (d->epilogue == CUBLASLT_EPILOGUE_BGRADB)
        product.b_sums = const_cast<void *>(d->bias);
    product.bias_type = d->bias_type_set ? d->bias_type : result->type;
    product.relu = (d->epilogue & CUBLASLT_EPILOGUE_RELU) != 0;
    return product;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t d,
                                              cublasLtMatrixLayout_t A, cublasLtMatrixLayout_t B,
                                              cublasLtMatrixLayout_t C, cublasLtMatrixLayout_t D,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t results[], int *found)
{
    *found = 0;
    if (!handle || wanted < 1)
        return CUBLAS_STATUS_INVALID_VALUE;
    int injected;
    if (sim_injected("cublasLtMatmulAlgoGetHeuristic", CUBLAS_STATUS_NOT_SUPPORTED, &injected))
        return (cublasStatus_t)injected;
    const struct sim_product product = describe(d, NULL, A, NULL, B, NULL, C, NULL, D);
    const cublasStatus_t status = check(&product, d, A, B, C, D);
    if (status)
        return status;
    struct algorithm chosen = {
        ALGORITHM_MAGIC, product.result.rows, product.result.cols, product.a.cols, {}, 0};
    for (int i = 0; i < 4; i++)
        chosen.alignment[i] = preference->alignment[i];
    chosen.alignment[4] = 256;
    while (chosen.alignment[4] > 1 && (uintptr_t)d->bias % chosen.alignment[4])
        chosen.alignment[4] /= 2;
    chosen.workspace_bytes = preference->workspace_bytes < WORKSPACE_BYTES ? 0 : WORKSPACE_BYTES;
    memset(results, 0, sizeof *results);
    memcpy(&results[0].algo, &chosen, sizeof chosen);
    results[0].workspaceSize = chosen.workspace_bytes;
    results[0].state = CUBLAS_STATUS_SUCCESS;
    results[0].wavesCount = 1.0f;
    *found = 1;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t d, const void *alpha,
                              const void *A, cublasLtMatrixLayout_t Adesc, const void *B,
                              cublasLtMatrixLayout_t Bdesc, const void *beta, const void *C,
                              cublasLtMatrixLayout_t Cdesc, void *D, cublasLtMatrixLayout_t Ddesc,
                              const cublasLtMatmulAlgo_t *algo, void *workspace, size_t workspace_bytes,
                              cudaStream_t stream)
{
    if (!handle || !alpha || !beta)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (handle->device != sim_current_device()) {
        sim_report("cublasLtMatmul: the handle is one of device %d, and the thread's current device is %d",
                   handle->device, sim_current_device());
        return CUBLAS_STATUS_EXECUTION_FAILED;
    }
    struct sim_product product = describe(d, A, Adesc, B, Bdesc, C, Cdesc, D, Ddesc);
    const cublasStatus_t status = check(&product, d, Adesc, Bdesc, Cdesc, Ddesc);
    if (status)
        return status;
    if (((d->epilogue & CUBLASLT_EPILOGUE_BIAS) || wants_sums(d)) && !d->bias) {
        sim_report("cublasLtMatmul: a bias or its gradient is asked for, and none is given");
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    product.alpha = *(const float *)alpha;
    product.beta = *(const float *)beta;
    if (algo) {
        struct algorithm chosen;
        memcpy(&chosen, algo, sizeof chosen);
        if (chosen.magic != ALGORITHM_MAGIC || chosen.m != product.result.rows ||
            chosen.n != product.result.cols || chosen.k != product.a.cols) {
            sim_report("cublasLtMatmul: the algorithm was not chosen for this product");
            return CUBLAS_STATUS_INVALID_VALUE;
        }
        static const char *const names[] = {"A", "B", "C", "D", "the bias"};
        const void *addresses[] = {A, B, product.beta != 0.0f ? C : NULL, D, d->bias};
        for (int i = 0; i < 5; i++)
            if (chosen.alignment[i] && (uintptr_t)addresses[i] % chosen.alignment[i]) {
                sim_report("cublasLtMatmul: %s at %p has not the alignment of %u bytes that the algorithm "
                           "was chosen for",
                           names[i], addresses[i], chosen.alignment[i]);
                return CUBLAS_STATUS_INVALID_VALUE;
            }
        if (workspace_bytes < chosen.workspace_bytes || (chosen.workspace_bytes && !workspace)) {
            sim_report("cublasLtMatmul: the algorithm wants a workspace of %zu bytes",
                       (size_t)chosen.workspace_bytes);
            return CUBLAS_STATUS_INVALID_VALUE;
        }
        product.workspace = chosen.workspace_bytes ? workspace : NULL;
        product.workspace_bytes = chosen.workspace_bytes;
    }
    if (product.workspace && (uintptr_t)product.workspace % 16)
        return CUBLAS_STATUS_INVALID_VALUE;
    return sim_product_enqueue("cublasLtMatmul", &product, stream);
}
