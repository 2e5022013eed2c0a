/* cuBLAS and cuBLASLt of the simulated device against products written out: layouts, types, batches, bias
 * and its gradient, and what is refused. */
#include "tests/cudasim/testing.h"

#include <cublasLt.h>

static unsigned random_state = 1;
static float random_float(void)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (float)(random_state >> 8) / (float)(1 << 24) - 0.5f;
}

/* Pinned and device memory for one matrix, by columns, with its values in fp32. */
struct matrix {
    fixture<float> wide;
    fixture<__nv_bfloat16> narrow;
    bool bf16;
    size_t count;

    matrix(size_t elements, bool is_bf16) : wide(elements), narrow(elements), bf16(is_bf16), count(elements)
    {
        for (size_t i = 0; i < elements; i++) {
            narrow.host[i] = __float2bfloat16(random_float());
            wide.host[i] = bf16 ? __bfloat162float(narrow.host[i]) : random_float();
        }
        wide.push();
        narrow.push();
        GOOD(cudaStreamSynchronize(wide.stream));
        GOOD(cudaStreamSynchronize(narrow.stream));
    }
    void *device(void)
    {
        return bf16 ? (void *)narrow.device : (void *)wide.device;
    }
    cudaDataType type(void) const
    {
        return bf16 ? CUDA_R_16BF : CUDA_R_32F;
    }
    float at(size_t i) const
    {
        return wide.host[i];
    }
    void pull(void)
    {
        wide.pull();
        narrow.pull();
        if (bf16)
            for (size_t i = 0; i < count; i++)
                wide.host[i] = __bfloat162float(narrow.host[i]);
    }
};

struct shape {
    int m, n, k, batch;
    bool transpose_a, transpose_b, operands_bf16, result_bf16;
    float alpha, beta;
};

static const struct shape shapes[] = {
    {1, 1, 1, 1, false, false, false, false, 1, 0},   {5, 7, 3, 1, false, false, false, false, 1, 0},
    {5, 7, 3, 1, true, false, false, false, 2, 0.5f}, {17, 9, 33, 1, false, true, true, true, 1, 0},
    {17, 9, 33, 2, true, true, true, true, 1, 1},     {64, 31, 100, 3, true, false, true, false, 0.125f, 1},
    {3, 4, 0, 1, false, false, false, false, 1, 2},   {8, 8, 257, 4, false, true, false, false, 1, 0},
};

/* What it should be, in double, and the tolerance of its type. */
static double expected(const struct shape &s, const matrix &a, const matrix &b, const float *before, int i,
                       int j, int batch, size_t lda, size_t ldb, size_t ldc, size_t a_step, size_t b_step,
                       size_t c_step)
{
    double sum = 0;
    for (int t = 0; t < s.k; t++)
        sum += (double)a.at((size_t)batch * a_step +
                            (s.transpose_a ? (size_t)i * lda + (size_t)t : (size_t)t * lda + (size_t)i)) *
               (double)b.at((size_t)batch * b_step +
                            (s.transpose_b ? (size_t)t * ldb + (size_t)j : (size_t)j * ldb + (size_t)t));
    sum *= (double)s.alpha;
    if (s.beta != 0)
        sum += (double)s.beta * (double)before[(size_t)batch * c_step + (size_t)j * ldc + (size_t)i];
    return sum;
}

static void expect_near(double got, double want, bool bf16)
{
    const double tolerance = (bf16 ? 0.004 : 2e-6) * fabs(want) + 2e-6;
    if (!(fabs(got - want) <= tolerance))
        fail_msg("%.9g instead of %.9g", got, want);
}

static void products_are_what_they_should_be(void **)
{
    cublasHandle_t handle;
    GOOD(cublasCreate(&handle));
    for (const struct shape &s : shapes) {
        const size_t a_rows = (size_t)(s.transpose_a ? s.k : s.m),
                     a_cols = (size_t)(s.transpose_a ? s.m : s.k);
        const size_t b_rows = (size_t)(s.transpose_b ? s.n : s.k),
                     b_cols = (size_t)(s.transpose_b ? s.k : s.n);
        const size_t lda = a_rows + 3, ldb = b_rows + 1, ldc = (size_t)s.m + 2;
        const size_t a_step = lda * a_cols + 5, b_step = ldb * b_cols + 1, c_step = ldc * (size_t)s.n;
        matrix a(a_step * (size_t)s.batch + 1, s.operands_bf16),
            b(b_step * (size_t)s.batch + 1, s.operands_bf16);
        matrix c(c_step * (size_t)s.batch, s.result_bf16);
        float *before = (float *)malloc(c.count * sizeof(float));
        memcpy(before, c.wide.host, c.count * sizeof(float));
        GOOD(cublasSetStream(handle, c.wide.stream));
        GOOD(cublasGemmStridedBatchedEx(
            handle, s.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N, s.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N, s.m,
            s.n, s.k, &s.alpha, a.device(), a.type(), (int)lda, (long long)a_step, b.device(), b.type(),
            (int)ldb, (long long)b_step, &s.beta, c.device(), c.type(), (int)ldc, (long long)c_step, s.batch,
            CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
        c.pull();
        for (int batch = 0; batch < s.batch; batch++)
            for (int j = 0; j < s.n; j++) {
                for (int i = 0; i < s.m; i++)
                    expect_near((double)c.at((size_t)batch * c_step + (size_t)j * ldc + (size_t)i),
                                expected(s, a, b, before, i, j, batch, lda, ldb, ldc, a_step, b_step, c_step),
                                s.result_bf16);
                for (size_t i = (size_t)s.m; i < ldc; i++) /* between the columns nothing changes */
                    assert_true(c.at((size_t)batch * c_step + (size_t)j * ldc + i) ==
                                before[(size_t)batch * c_step + (size_t)j * ldc + i]);
            }
        free(before);
    }
    GOOD(cublasDestroy(handle));
}

/* ---- cuBLASLt ---- */

struct lt {
    cublasLtHandle_t handle;
    cublasLtMatmulDesc_t product;
    cublasLtMatrixLayout_t a, b, c;
    cublasLtMatmulPreference_t preference;

    lt(cudaDataType operands, cudaDataType result, uint64_t m, uint64_t n, uint64_t k)
    {
        GOOD(cublasLtCreate(&handle));
        GOOD(cublasLtMatmulDescCreate(&product, CUBLAS_COMPUTE_32F, CUDA_R_32F));
        GOOD(cublasLtMatrixLayoutCreate(&a, operands, m, k, (int64_t)m));
        GOOD(cublasLtMatrixLayoutCreate(&b, operands, k, n, (int64_t)k));
        GOOD(cublasLtMatrixLayoutCreate(&c, result, m, n, (int64_t)m));
        GOOD(cublasLtMatmulPreferenceCreate(&preference));
    }
    ~lt()
    {
        cublasLtMatmulPreferenceDestroy(preference);
        cublasLtMatrixLayoutDestroy(a);
        cublasLtMatrixLayoutDestroy(b);
        cublasLtMatrixLayoutDestroy(c);
        cublasLtMatmulDescDestroy(product);
        cublasLtDestroy(handle);
    }
    lt(const lt &) = delete;
    lt &operator=(const lt &) = delete;
    template <class T> void set(cublasLtMatmulDescAttributes_t attribute, T value)
    {
        GOOD(cublasLtMatmulDescSetAttribute(product, attribute, &value, sizeof value));
    }
    template <class T> void prefer(cublasLtMatmulPreferenceAttributes_t attribute, T value)
    {
        GOOD(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof value));
    }
    cublasLtMatmulHeuristicResult_t choose(void)
    {
        cublasLtMatmulHeuristicResult_t result;
        int found;
        GOOD(cublasLtMatmulAlgoGetHeuristic(handle, product, a, b, c, c, preference, 1, &result, &found));
        assert_int_equal(found, 1);
        return result;
    }
};

/* bf16 operands, fp32 result and bf16 bias; and both in bf16. */
static void a_bias_is_added_to_each_column(void **)
{
    enum { m = 13, n = 6, k = 21 };
    for (int result_bf16 = 0; result_bf16 < 2; result_bf16++) {
        matrix a(m * k, true), b(k * n, true), c(m * n, result_bf16), bias(m, true);
        lt d(CUDA_R_16BF, c.type(), m, n, k);
        d.set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
        d.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias.device());
        d.set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, CUDA_R_16BF);
        const cublasLtMatmulHeuristicResult_t chosen = d.choose();
        const float one = 1, zero = 0;
        GOOD(cublasLtMatmul(d.handle, d.product, &one, a.device(), d.a, b.device(), d.b, &zero, c.device(),
                            d.c, c.device(), d.c, &chosen.algo, NULL, 0, c.wide.stream));
        c.pull();
        const struct shape s = {m, n, k, 1, false, false, true, result_bf16 != 0, 1, 0};
        for (int j = 0; j < n; j++)
            for (int i = 0; i < m; i++)
                expect_near((double)c.at((size_t)(j * m + i)),
                            expected(s, a, b, NULL, i, j, 0, m, k, m, 0, 0, 0) + (double)bias.at((size_t)i),
                            result_bf16);
    }
}

/* The gradients of a bias: sums over k of A's rows or of B's columns, stored in the result's type whatever
 * beta is; any other type is refused. */
static void sums_of_an_operand_are_stored_beside_the_product(void **)
{
    enum { m = 13, n = 6, k = 21 };
    for (int variant = 0; variant < 4; variant++) {
        const bool of_a = variant & 1, result_bf16 = variant & 2;
        matrix a(m * k, true), b(k * n, true), c(m * n, result_bf16), sums(of_a ? m : n, result_bf16);
        lt d(CUDA_R_16BF, c.type(), m, n, k);
        d.set(CUBLASLT_MATMUL_DESC_EPILOGUE, of_a ? CUBLASLT_EPILOGUE_BGRADA : CUBLASLT_EPILOGUE_BGRADB);
        d.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, sums.device());
        d.set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, result_bf16 ? CUDA_R_32F : CUDA_R_16BF);
        cublasLtMatmulHeuristicResult_t refused;
        int found;
        assert_int_equal(cublasLtMatmulAlgoGetHeuristic(d.handle, d.product, d.a, d.b, d.c, d.c, d.preference,
                                                        1, &refused, &found),
                         CUBLAS_STATUS_NOT_SUPPORTED);
        d.set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, c.type());
        const cublasLtMatmulHeuristicResult_t chosen = d.choose();
        const float one = 1, half = 0.5f;
        float before[m * n];
        memcpy(before, c.wide.host, sizeof before);
        GOOD(cublasLtMatmul(d.handle, d.product, &one, a.device(), d.a, b.device(), d.b, &half, c.device(),
                            d.c, c.device(), d.c, &chosen.algo, NULL, 0, c.wide.stream));
        GOOD(cudaStreamSynchronize(c.wide.stream));
        c.pull();
        sums.pull();
        const struct shape s = {m, n, k, 1, false, false, true, result_bf16, 1, 0.5f};
        for (int j = 0; j < n; j++)
            for (int i = 0; i < m; i++)
                expect_near((double)c.at((size_t)(j * m + i)),
                            expected(s, a, b, before, i, j, 0, m, k, m, 0, 0, 0), result_bf16);
        for (int i = 0; i < (of_a ? m : n); i++) {
            double sum = 0;
            for (int t = 0; t < k; t++)
                sum += (double)(of_a ? a.at((size_t)(t * m + i)) : b.at((size_t)(i * k + t)));
            expect_near((double)sums.at((size_t)i), sum, result_bf16);
        }
    }
}

static void an_algorithm_is_for_its_alignment_workspace_and_shape(void **)
{
    enum { m = 8, n = 8, k = 8 };
    matrix a(200, true), b(200, true), c(200, true), workspace(2000, false);
    lt d(CUDA_R_16BF, CUDA_R_16BF, m, n, k);
    const float one = 1, zero = 0;
    char *shifted = (char *)a.device() + 16;
    cublasLtMatmulHeuristicResult_t chosen = d.choose(); /* 256 bytes, if nothing else is said */
    assert_int_equal(cublasLtMatmul(d.handle, d.product, &one, shifted, d.a, b.device(), d.b, &zero,
                                    c.device(), d.c, c.device(), d.c, &chosen.algo, NULL, 0, c.wide.stream),
                     CUBLAS_STATUS_INVALID_VALUE);
    d.prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, (uint32_t)16);
    d.prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, (uint64_t)8000);
    chosen = d.choose();
    assert_true(chosen.workspaceSize > 0 && chosen.workspaceSize <= 8000);
    assert_int_equal(cublasLtMatmul(d.handle, d.product, &one, shifted, d.a, b.device(), d.b, &zero,
                                    c.device(), d.c, c.device(), d.c, &chosen.algo, NULL, 0, c.wide.stream),
                     CUBLAS_STATUS_INVALID_VALUE);
    GOOD(cublasLtMatmul(d.handle, d.product, &one, shifted, d.a, b.device(), d.b, &zero, c.device(), d.c,
                        c.device(), d.c, &chosen.algo, workspace.device(), 8000, c.wide.stream));
    GOOD(cudaStreamSynchronize(c.wide.stream));
    const uint64_t rows = 4;
    const int64_t ld = 4;
    GOOD(cublasLtMatrixLayoutSetAttribute(d.a, CUBLASLT_MATRIX_LAYOUT_ROWS, &rows, sizeof rows));
    assert_int_equal(cublasLtMatmul(d.handle, d.product, &one, shifted, d.a, b.device(), d.b, &zero,
                                    c.device(), d.c, c.device(), d.c, &chosen.algo, workspace.device(), 8000,
                                    c.wide.stream),
                     CUBLAS_STATUS_INVALID_VALUE);
    GOOD(cublasLtMatrixLayoutSetAttribute(d.a, CUBLASLT_MATRIX_LAYOUT_LD, &ld, sizeof ld));
    /* A value of the wrong size. */
    assert_int_equal(cublasLtMatrixLayoutSetAttribute(d.a, CUBLASLT_MATRIX_LAYOUT_LD, &rows, 4),
                     CUBLAS_STATUS_INVALID_VALUE);
}

/* cublasLt.h: what chooses an algorithm looks at the bias's pointer for the alignment to expect. */
static void an_algorithm_is_for_the_alignment_of_its_bias(void **)
{
    enum { m = 8, n = 8, k = 8 };
    matrix a(m * k, true), b(k * n, true), c(m * n, true), bias(200, true);
    lt d(CUDA_R_16BF, CUDA_R_16BF, m, n, k);
    const float one = 1, zero = 0;
    char *const shifted = (char *)bias.device() + 2;
    d.set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    d.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias.device());
    cublasLtMatmulHeuristicResult_t chosen = d.choose();
    d.set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, shifted);
    assert_int_equal(cublasLtMatmul(d.handle, d.product, &one, a.device(), d.a, b.device(), d.b, &zero,
                                    c.device(), d.c, c.device(), d.c, &chosen.algo, NULL, 0, c.wide.stream),
                     CUBLAS_STATUS_INVALID_VALUE);
    chosen = d.choose();
    GOOD(cublasLtMatmul(d.handle, d.product, &one, a.device(), d.a, b.device(), d.b, &zero, c.device(), d.c,
                        c.device(), d.c, &chosen.algo, NULL, 0, c.wide.stream));
    GOOD(cudaStreamSynchronize(c.wide.stream));
}

static void a_workspace_that_is_too_small_is_told(void **)
{
    matrix a(16, false), b(16, false), c(16, false), workspace(16 << 10, false);
    cublasHandle_t handle;
    const float one = 1, zero = 0;
    GOOD(cublasCreate(&handle));
    for (int small = 0; small < 2; small++) {
        GOOD(cublasSetStream(handle, c.wide.stream)); /* takes the workspace away again */
        GOOD(cublasSetWorkspace(handle, workspace.device(), (size_t)(small ? 4 : 16) << 10));
        assert_int_equal(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, 4, 4, 4, &one, a.wide.device, 4,
                                     b.wide.device, 4, &zero, c.wide.device, 4),
                         small ? CUBLAS_STATUS_ALLOC_FAILED : CUBLAS_STATUS_SUCCESS);
    }
    GOOD(cudaStreamSynchronize(c.wide.stream));
    GOOD(cublasDestroy(handle));
}

static void operands_past_their_allocation_are_refused(void **)
{
    matrix a(100, false), b(100, false), c(100, false);
    cublasHandle_t handle;
    const float one = 1, zero = 0;
    GOOD(cublasCreate(&handle));
    GOOD(cublasSetStream(handle, c.wide.stream));
    GOOD(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, 10, 10, 10, &one, a.wide.device, 10, b.wide.device, 10,
                     &zero, c.wide.device, 10));
    assert_int_equal(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, 10, 10, 10, &one, a.wide.device, 11,
                                 b.wide.device, 10, &zero, c.wide.device, 10),
                     CUBLAS_STATUS_EXECUTION_FAILED);
    assert_int_equal(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, 10, 10, 10, &one, a.wide.device, 9,
                                 b.wide.device, 10, &zero, c.wide.device, 10),
                     CUBLAS_STATUS_INVALID_VALUE);
    GOOD(cudaStreamSynchronize(c.wide.stream));
    GOOD(cublasDestroy(handle));
}

/* beta 0: what stood there, NaN even, does not matter; alpha 0 or beta 1: it does. */
static void beta_of_zero_reads_nothing(void **)
{
    matrix a(16, false), b(16, false);
    fixture<float> c(16); /* NaN */
    cublasHandle_t handle;
    const float one = 1, zero = 0;
    GOOD(cublasCreate(&handle));
    GOOD(cublasSetStream(handle, c.stream));
    GOOD(cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, 4, 4, 4, &one, a.wide.device, 4, b.wide.device, 4,
                     &zero, c.device, 4));
    c.pull();
    for (int i = 0; i < 16; i++)
        assert_false(isnan(c.host[i]));
    GOOD(cublasDestroy(handle));
}

static void the_same_products_give_the_same_bits(void **)
{
    matrix a(300 * 257, true), b(257 * 100, true), c(300 * 100, false);
    cublasHandle_t handle;
    const float one = 1, zero = 0;
    float *first = (float *)malloc(c.count * sizeof(float));
    GOOD(cublasCreate(&handle));
    GOOD(cublasSetStream(handle, c.wide.stream));
    for (int round = 0; round < 2; round++) {
        GOOD(cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, 300, 100, 257, &one, a.device(), CUDA_R_16BF, 300,
                          b.device(), CUDA_R_16BF, 257, &zero, c.device(), CUDA_R_32F, 300,
                          CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
        c.pull();
        if (!round)
            memcpy(first, c.wide.host, c.count * sizeof(float));
    }
    assert_memory_equal(first, c.wide.host, c.count * sizeof(float));
    free(first);
    GOOD(cublasDestroy(handle));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_are_what_they_should_be),
        cmocka_unit_test(a_bias_is_added_to_each_column),
        cmocka_unit_test(sums_of_an_operand_are_stored_beside_the_product),
        cmocka_unit_test(an_algorithm_is_for_its_alignment_workspace_and_shape),
        cmocka_unit_test(an_algorithm_is_for_the_alignment_of_its_bias),
        cmocka_unit_test(a_workspace_that_is_too_small_is_told),
        cmocka_unit_test(operands_past_their_allocation_are_refused),
        cmocka_unit_test(beta_of_zero_reads_nothing),
        cmocka_unit_test(the_same_products_give_the_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
