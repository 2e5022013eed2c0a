/* Matrix products by cuBLASLt, batches of them by cuBLAS.
 *
 * Our matrices are row-major and the library's column-major: c = op(a) op(b) is given to it as the transposed
 * product, b first. Sums are in fp32 (plain fp32 multiplication for fp32 operands, no TF32), results rounded
 * once. Each computing stream has handles and a workspace of its own, which stand in its scratch, and the
 * algorithm for a shape is asked for once and remembered, so that the same products in the same order give
 * the same bits. The handles are made when the device opens: they take memory of the device, which must be
 * known before the rest is given out, and time, which must not be a step's.
 *
 * What rides on a product: a bias (EPILOGUE_BIAS), or the sums of op(a)'s rows over k (EPILOGUE_BGRADB: our a
 * is the library's B). Of the latter cublasLt.h says that they are stored in the result's type, so in fp32
 * here, and not that they are added to what stands there: beta is for the product alone. Their order is the
 * library's, and among what the cuBLAS manual promises to have the same bits at each run ("Results
 * reproducibility": one version, one architecture, one number of multiprocessors). A combination that the
 * library has no algorithm for is remembered as such, and computed without.
 */
#include "gpu/cuda.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* Remembered algorithms a stream: a model has some dozen shapes. */
#define REMEMBERED 256u

/* What decides on an algorithm. Compared byte by byte, so without padding. */
struct shape {
    uint64_t m, n, k, lda, ldb, ldc;
    uint32_t a_alignment, b_alignment, c_alignment, ride_alignment;
    uint8_t transpose_a, transpose_b, bias, sums, beta, operands, result, unused[1];
};

struct remembered {
    struct shape shape;
    cublasLtMatmulAlgo_t algorithm;
    bool filled, refused;
};

struct mt_cuda_products {
    cublasLtHandle_t lt;
    cublasHandle_t blas;
    void *workspace;
    size_t workspace_bytes;
    bool plain; /* without cuBLASLt */
    struct remembered remembered[REMEMBERED];
};

static cudaDataType_t type_of(enum mt_dtype dtype)
{
    return dtype == MT_BF16 ? CUDA_R_16BF : CUDA_R_32F;
}

void mt_cuda_products_free(struct mt_cuda_products *products)
{
    if (!products)
        return;
    if (products->blas)
        cublasDestroy(products->blas);
    if (products->lt)
        cublasLtDestroy(products->lt);
    free(products);
}

struct mt_cuda_products *mt_cuda_products_open(struct mt_cuda_device *device, void *workspace,
                                               struct mt_error *error)
{
    struct mt_cuda_products *products = static_cast<struct mt_cuda_products *>(calloc(1, sizeof *products));
    if (!products) {
        mt_cuda_error(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory for the handles of cuBLAS");
        return NULL;
    }
    products->workspace = workspace;
    products->workspace_bytes = device->blas_bytes;
    const char *way = getenv("MEGATRAIN_CUDA_PRODUCTS");
    products->plain = way && !strcmp(way, "plain");
    const bool failed =
        mt_cuda_check_blas(device, cublasLtCreate(&products->lt), "opening cuBLASLt") ||
        mt_cuda_check_blas(device, cublasCreate(&products->blas), "opening cuBLAS") ||
        mt_cuda_check_blas(
            device,
            cublasSetMathMode(products->blas,
                              static_cast<cublasMath_t>(CUBLAS_DEFAULT_MATH |
                                                        CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION)),
            "opening cuBLAS");
    if (failed) {
        mt_cuda_products_free(products);
        mt_cuda_report(device, error);
        return NULL;
    }
    return products;
}

int mt_cuda_products_use(struct mt_cuda_products *products, struct mt_stream *stream)
{
    struct mt_cuda_device *device = stream->device;
    /* A new stream makes cuBLAS take its own workspace again. */
    const int code =
        mt_cuda_check_blas(device, cublasSetStream(products->blas, stream->handle), "giving cuBLAS a stream");
    return code ? code
                : mt_cuda_check_blas(
                      device,
                      cublasSetWorkspace(products->blas, products->workspace, products->workspace_bytes),
                      "giving cuBLAS its workspace");
}

void mt_cuda_products_leave(struct mt_cuda_products *products, struct mt_cuda_device *device)
{
    mt_cuda_check_blas(device, cublasSetStream(products->blas, NULL), "taking cuBLAS out of a stream");
}

/* The largest power of two up to 256 that divides an address. */
static uint32_t alignment_of(const void *address)
{
    const uintptr_t bits = reinterpret_cast<uintptr_t>(address);
    uint32_t alignment = 256;
    while (bits % alignment)
        alignment /= 2;
    return alignment;
}

struct descriptors {
    cublasLtMatmulDesc_t product;
    cublasLtMatrixLayout_t a, b, c;
    cublasLtMatmulPreference_t preference;
};

static void free_descriptors(struct descriptors *d)
{
    if (d->preference)
        cublasLtMatmulPreferenceDestroy(d->preference);
    if (d->c)
        cublasLtMatrixLayoutDestroy(d->c);
    if (d->b)
        cublasLtMatrixLayoutDestroy(d->b);
    if (d->a)
        cublasLtMatrixLayoutDestroy(d->a);
    if (d->product)
        cublasLtMatmulDescDestroy(d->product);
}

template <typename value>
static cublasStatus_t set(cublasLtMatmulDesc_t product, cublasLtMatmulDescAttributes_t what, const value &to)
{
    return cublasLtMatmulDescSetAttribute(product, what, &to, sizeof to);
}

template <typename value>
static cublasStatus_t prefer(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t what,
                             const value &to)
{
    return cublasLtMatmulPreferenceSetAttribute(preference, what, &to, sizeof to);
}

#define RETURN_IF_FAILED(call)                                                                               \
    do {                                                                                                     \
        const cublasStatus_t status_of_call = (call);                                                        \
        if (status_of_call != CUBLAS_STATUS_SUCCESS)                                                         \
            return status_of_call;                                                                           \
    } while (0)

/* In the library's terms: its first operand is our b, its second our a, its rows our columns. */
static cublasStatus_t describe(const struct mt_cuda_product *p, struct descriptors *d)
{
    const cublasOperation_t first = p->transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t second = p->transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    RETURN_IF_FAILED(cublasLtMatmulDescCreate(&d->product, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    RETURN_IF_FAILED(set(d->product, CUBLASLT_MATMUL_DESC_TRANSA, first));
    RETURN_IF_FAILED(set(d->product, CUBLASLT_MATMUL_DESC_TRANSB, second));
    if (p->bias) {
        RETURN_IF_FAILED(set(d->product, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS));
        RETURN_IF_FAILED(set(d->product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, p->bias));
        RETURN_IF_FAILED(set(d->product, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type_of(p->operands)));
    } else if (p->a_sums) {
        RETURN_IF_FAILED(set(d->product, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BGRADB));
        RETURN_IF_FAILED(set(d->product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, p->a_sums));
        RETURN_IF_FAILED(set(d->product, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type_of(p->result)));
    }
    RETURN_IF_FAILED(cublasLtMatrixLayoutCreate(&d->a, type_of(p->operands), p->transpose_b ? p->k : p->n,
                                                p->transpose_b ? p->n : p->k, static_cast<int64_t>(p->ldb)));
    RETURN_IF_FAILED(cublasLtMatrixLayoutCreate(&d->b, type_of(p->operands), p->transpose_a ? p->m : p->k,
                                                p->transpose_a ? p->k : p->m, static_cast<int64_t>(p->lda)));
    return cublasLtMatrixLayoutCreate(&d->c, type_of(p->result), p->n, p->m, static_cast<int64_t>(p->ldc));
}

static cublasStatus_t choose(struct mt_cuda_products *products, const struct shape *shape,
                             struct descriptors *d, cublasLtMatmulAlgo_t *algorithm)
{
    cublasLtMatmulHeuristicResult_t result;
    int found = 0;
    RETURN_IF_FAILED(cublasLtMatmulPreferenceCreate(&d->preference));
    RETURN_IF_FAILED(prefer(d->preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                            static_cast<uint64_t>(products->workspace_bytes)));
    /* Parts of sums may meet in fp32 alone, not in the result's bf16. */
    RETURN_IF_FAILED(prefer(d->preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                            static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE)));
    RETURN_IF_FAILED(prefer(d->preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, shape->b_alignment));
    RETURN_IF_FAILED(prefer(d->preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, shape->a_alignment));
    RETURN_IF_FAILED(prefer(d->preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, shape->c_alignment));
    RETURN_IF_FAILED(prefer(d->preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, shape->c_alignment));
    RETURN_IF_FAILED(cublasLtMatmulAlgoGetHeuristic(products->lt, d->product, d->a, d->b, d->c, d->c,
                                                    d->preference, 1, &result, &found));
    if (!found)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    *algorithm = result.algo;
    return result.state;
}

/* The place of a shape: where it stands, or a free one, or the one that it would have had first. */
static struct remembered *place_of(struct mt_cuda_products *products, const struct shape *shape)
{
    const unsigned char *bytes = reinterpret_cast<const unsigned char *>(shape);
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < sizeof *shape; i++)
        hash = (hash ^ bytes[i]) * 16777619u;
    for (uint32_t i = 0; i < 8; i++) {
        struct remembered *place = &products->remembered[(hash + i) % REMEMBERED];
        if (!place->filled || !memcmp(&place->shape, shape, sizeof *shape))
            return place;
    }
    struct remembered *first = &products->remembered[hash % REMEMBERED];
    first->filled = false;
    return first;
}

static cublasStatus_t multiply_one(struct mt_stream *stream, struct mt_cuda_products *products,
                                   const struct mt_cuda_product *p, struct descriptors *d)
{
    struct shape shape;
    memset(&shape, 0, sizeof shape);
    shape.m = p->m;
    shape.n = p->n;
    shape.k = p->k;
    shape.lda = p->lda;
    shape.ldb = p->ldb;
    shape.ldc = p->ldc;
    shape.a_alignment = alignment_of(p->a);
    shape.b_alignment = alignment_of(p->b);
    shape.c_alignment = alignment_of(p->c);
    /* What rides has no preference of its own: the library looks at the pointer that stands in the
     * description when it chooses. */
    const void *rides = p->bias ? p->bias : p->a_sums;
    shape.ride_alignment = rides ? alignment_of(rides) : 0;
    if (rides && shape.ride_alignment < shape.c_alignment)
        shape.c_alignment = shape.ride_alignment;
    shape.transpose_a = p->transpose_a;
    shape.transpose_b = p->transpose_b;
    shape.bias = p->bias != NULL;
    shape.sums = p->a_sums != NULL;
    shape.beta = p->beta != 0;
    shape.operands = static_cast<uint8_t>(p->operands);
    shape.result = static_cast<uint8_t>(p->result);
    RETURN_IF_FAILED(describe(p, d));
    struct remembered *place = place_of(products, &shape);
    if (!place->filled) {
        const cublasStatus_t status = choose(products, &shape, d, &place->algorithm);
        /* In which words sums are refused is not documented. */
        if (status != CUBLAS_STATUS_SUCCESS && status != CUBLAS_STATUS_NOT_SUPPORTED && !p->a_sums)
            return status;
        place->shape = shape;
        place->refused = status != CUBLAS_STATUS_SUCCESS;
        place->filled = true;
    }
    if (place->refused)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    return cublasLtMatmul(products->lt, d->product, &p->alpha, p->b, d->a, p->a, d->b, &p->beta, p->c, d->c,
                          p->c, d->c, &place->algorithm, products->workspace, products->workspace_bytes,
                          stream->handle);
}

static cublasStatus_t multiply_batch(struct mt_cuda_products *products, const struct mt_cuda_product *p)
{
    return cublasGemmStridedBatchedEx(
        products->blas, p->transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N,
        p->transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N, static_cast<int>(p->n), static_cast<int>(p->m),
        static_cast<int>(p->k), &p->alpha, p->b, type_of(p->operands), static_cast<int>(p->ldb),
        static_cast<long long>(p->b_step), p->a, type_of(p->operands), static_cast<int>(p->lda),
        static_cast<long long>(p->a_step), &p->beta, p->c, type_of(p->result), static_cast<int>(p->ldc),
        static_cast<long long>(p->c_step), static_cast<int>(p->batch), CUBLAS_COMPUTE_32F,
        CUBLAS_GEMM_DEFAULT);
}

static cublasStatus_t try_one(struct mt_stream *stream, const struct mt_cuda_product *p)
{
    struct descriptors descriptors = {};
    const cublasStatus_t status = multiply_one(stream, stream->scratch->products, p, &descriptors);
    free_descriptors(&descriptors);
    return status;
}

/* What cuBLASLt has no algorithm for is tried without what rides on it; what it has none for even so (odd
 * strides, on some devices), cuBLAS computes, and all of it with MEGATRAIN_CUDA_PRODUCTS=plain, for tests and
 * to look for faults. *alone: nothing rode. */
static cublasStatus_t multiply(struct mt_stream *stream, const struct mt_cuda_product *p, bool *alone)
{
    struct mt_cuda_products *products = stream->scratch->products;
    if (p->batch > 1)
        return multiply_batch(products, p);
    cublasStatus_t status = products->plain ? CUBLAS_STATUS_NOT_SUPPORTED : try_one(stream, p);
    if (status != CUBLAS_STATUS_NOT_SUPPORTED)
        return status;
    struct mt_cuda_product bare = *p;
    bare.batch = 1;
    bare.bias = NULL;
    bare.a_sums = NULL;
    *alone = true;
    if (!products->plain && (p->bias || p->a_sums))
        status = try_one(stream, &bare);
    return status == CUBLAS_STATUS_NOT_SUPPORTED ? multiply_batch(products, &bare) : status;
}

int mt_cuda_multiply(struct mt_stream *stream, const struct mt_cuda_product *product, const char *operation)
{
    bool sums_left;
    return mt_cuda_multiply_and_sum(stream, product, &sums_left, operation);
}

int mt_cuda_multiply_and_sum(struct mt_stream *stream, const struct mt_cuda_product *product, bool *sums_left,
                             const char *operation)
{
    if (!mt_cuda_parts(stream))
        return mt_cuda_fault_code(stream->device);
    bool alone = false;
    pthread_mutex_lock(&stream->lock);
    const int code = mt_cuda_check_blas(stream->device, multiply(stream, product, &alone), operation);
    pthread_mutex_unlock(&stream->lock);
    *sums_left = alone;
    return code || !alone || !product->bias ? code : mt_cuda_add_bias(stream, product, operation);
}
