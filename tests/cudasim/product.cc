/* Matrix products by OpenBLAS on one thread: operands are widened to fp32 (exactly), summed in fp32 in an
 * order that shapes alone decide, and rounded once.
 *
 * OpenBLAS is not instrumented: what it reads and writes is announced to ThreadSanitizer, and its own locks
 * are no edges.
 */
#include "tests/cudasim/product.h"

#include <cblas.h>
#include <cuda_bf16.h>
#include <stdlib.h>
#include <string.h>

extern "C" void openblas_set_num_threads(int) __attribute__((weak));

/* ---- matrices ---- */

static size_t element_bytes(cudaDataType type)
{
    return type == CUDA_R_16BF ? 2 : 4;
}

static size_t extent_bytes(const struct sim_matrix *m, size_t batch)
{
    if (!m->rows || !m->cols || !batch)
        return 0;
    const size_t last =
        (batch - 1) * m->batch_step + (m->rows - 1) * m->row_step + (m->cols - 1) * m->col_step;
    return (last + 1) * element_bytes(m->type);
}

/* The matrix as lines of adjacent elements. */
struct lines {
    const char *first;
    size_t count, length, step_bytes;
};

static struct lines lines_of(const struct sim_matrix *m, size_t batch)
{
    const size_t element = element_bytes(m->type);
    const char *first = (const char *)m->address + batch * m->batch_step * element;
    if (m->row_step == 1)
        return {first, m->cols, m->rows, m->col_step * element};
    return {first, m->rows, m->cols, m->row_step * element};
}

static void announce(const struct sim_matrix *m, size_t batch, bool write)
{
    const struct lines lines = lines_of(m, batch);
    for (size_t i = 0; i < lines.count; i++) {
        const char *line = lines.first + i * lines.step_bytes;
        const size_t bytes = lines.length * element_bytes(m->type);
        if (write)
            SIM_WRITES(line, bytes);
        else
            SIM_READS(line, bytes);
    }
}

static float element_at(const void *address, cudaDataType type, size_t index)
{
    if (type == CUDA_R_16BF)
        return __bfloat162float(static_cast<const __nv_bfloat16 *>(address)[index]);
    return static_cast<const float *>(address)[index];
}

/* A matrix as sgemm takes it: fp32, its lines `step` apart. */
struct plain {
    const float *first;
    size_t step;
    float *owned;
};

static struct plain widen(const struct sim_matrix *m, size_t batch)
{
    const struct lines lines = lines_of(m, batch);
    if (m->type == CUDA_R_32F)
        return {(const float *)(const void *)lines.first, lines.step_bytes / sizeof(float), NULL};
    float *wide = (float *)malloc(lines.count * lines.length * sizeof(float) + 1);
    if (!wide)
        sim_fatal("out of host memory");
    for (size_t i = 0; i < lines.count; i++) {
        const uint16_t *line = (const uint16_t *)(const void *)(lines.first + i * lines.step_bytes);
        uint32_t *out = (uint32_t *)(void *)(wide + i * lines.length);
        for (size_t j = 0; j < lines.length; j++)
            out[j] = (uint32_t)line[j] << 16;
    }
    return {wide, lines.length, wide};
}

/* ---- one product ---- */

/* sum[cols][rows], by columns. */
static void multiply(const struct sim_product *p, size_t batch, float *sum)
{
    const size_t m = p->result.rows, n = p->result.cols, k = p->a.cols;
    const struct plain a = widen(&p->a, batch), b = widen(&p->b, batch);
    /* By columns, as sgemm takes it here: lines of a are its columns when its rows are adjacent. */
    const bool a_by_columns = p->a.row_step == 1, b_by_columns = p->b.row_step == 1;
    SIM_UNSYNCED(cblas_sgemm(CblasColMajor, a_by_columns ? CblasNoTrans : CblasTrans,
                             b_by_columns ? CblasNoTrans : CblasTrans, (blasint)m, (blasint)n, (blasint)k,
                             1.0f, a.first, (blasint)(a.step ? a.step : 1), b.first,
                             (blasint)(b.step ? b.step : 1), 0.0f, sum, (blasint)m));
    free(a.owned);
    free(b.owned);
}

static void put(void *to, cudaDataType type, size_t at, float value)
{
    if (type == CUDA_R_16BF)
        static_cast<__nv_bfloat16 *>(to)[at] = __float2bfloat16_rn(value);
    else
        static_cast<float *>(to)[at] = value;
}

static void store(const struct sim_product *p, size_t batch, const float *sum)
{
    const struct sim_matrix *r = &p->result, *c = &p->before;
    const size_t element = element_bytes(r->type), before_element = element_bytes(c->type);
    char *out = (char *)(uintptr_t)r->address + batch * r->batch_step * element;
    const char *before = (const char *)c->address + batch * c->batch_step * before_element;
    for (size_t j = 0; j < r->cols; j++)
        for (size_t i = 0; i < r->rows; i++) {
            float value = p->alpha * sum[j * r->rows + i];
            if (p->beta != 0.0f)
                value += p->beta * element_at(before, c->type, i * c->row_step + j * c->col_step);
            if (p->bias)
                value += element_at(p->bias, p->bias_type, i);
            if (p->relu)
                value = value > 0.0f ? value : 0.0f;
            put(out, r->type, i * r->row_step + j * r->col_step, value);
        }
}

/* The sums of a matrix's rows, or of its columns. */
static void store_sums(const struct sim_matrix *m, bool of_rows, void *to, cudaDataType type)
{
    const size_t count = of_rows ? m->rows : m->cols, terms = of_rows ? m->cols : m->rows;
    const size_t step = of_rows ? m->row_step : m->col_step, along = of_rows ? m->col_step : m->row_step;
    SIM_WRITES(to, count * element_bytes(type));
    for (size_t i = 0; i < count; i++) {
        float sum = 0;
        for (size_t t = 0; t < terms; t++)
            sum += element_at(m->address, m->type, i * step + t * along);
        put(to, type, i, sum);
    }
}

static void run_product(cudaStream_t, void *arguments)
{
    const struct sim_product *p = (const struct sim_product *)arguments;
    static uint32_t single;
    if (!__atomic_exchange_n(&single, 1, __ATOMIC_RELAXED) && openblas_set_num_threads)
        openblas_set_num_threads(1);
    int injected;
    if (sim_injected("product", cudaErrorLaunchFailure, &injected)) {
        sim_break((cudaError_t)injected);
        return;
    }
    const size_t m = p->result.rows, n = p->result.cols, k = p->a.cols;
    float *sum = (float *)calloc(m * n + 1, sizeof(float));
    if (!sum)
        sim_fatal("out of host memory");
    if (p->workspace) {
        SIM_WRITES(p->workspace, p->workspace_bytes);
        sim_fill_bytes(p->workspace, 0xff, p->workspace_bytes);
    }
    if (p->bias)
        SIM_READS(p->bias, m * element_bytes(p->bias_type));
    for (size_t batch = 0; batch < p->batch; batch++) {
        announce(&p->a, batch, false);
        announce(&p->b, batch, false);
        if (p->beta != 0.0f)
            announce(&p->before, batch, false);
        announce(&p->result, batch, true);
        if (k && p->alpha != 0.0f)
            multiply(p, batch, sum);
        store(p, batch, sum);
    }
    if (p->a_sums)
        store_sums(&p->a, true, p->a_sums, p->result.type);
    if (p->b_sums)
        store_sums(&p->b, false, p->b_sums, p->result.type);
    free(sum);
}

/* ---- at the call ---- */

static bool check(const char *call, const char *operand, const struct sim_matrix *m, size_t batch)
{
    const struct sim_memory memory = sim_memory_at(m->address);
    if (memory.kind == SIM_DEVICE && memory.device != sim_current_device()) {
        sim_report("%s: %s lies on device %d, and the product is device %d's", call, operand, memory.device,
                   sim_current_device());
        return false;
    }
    if ((uintptr_t)m->address % element_bytes(m->type)) {
        sim_report("%s: %s at %p is not aligned to its elements", call, operand, m->address);
        return false;
    }
    return sim_memory_on_device(call, operand, m->address, extent_bytes(m, batch));
}

static bool sums_on_device(const char *call, const struct sim_product *p)
{
    const size_t element = element_bytes(p->result.type);
    return (!p->a_sums || sim_memory_on_device(call, "the sums", p->a_sums, p->a.rows * element)) &&
           (!p->b_sums || sim_memory_on_device(call, "the sums", p->b_sums, p->b.cols * element));
}

/* The library has a kernel for each kind of product. */
static const void *code_of(const struct sim_product *p)
{
    static const char kinds[64] = {};
    return &kinds[(p->a.type == CUDA_R_16BF) + 2 * (p->result.type == CUDA_R_16BF) +
                  4 * (p->a.row_step == 1) + 8 * (p->b.row_step == 1) + 16 * (p->bias != NULL) +
                  32 * (p->a_sums || p->b_sums)];
}

cublasStatus_t sim_product_enqueue(const char *call, const struct sim_product *p, cudaStream_t stream)
{
    int injected;
    if (sim_injected(call, CUBLAS_STATUS_EXECUTION_FAILED, &injected))
        return (cublasStatus_t)injected;
    if (!p->result.rows || !p->result.cols || !p->batch)
        return CUBLAS_STATUS_SUCCESS;
    if (sim_stream_is_current(stream, call))
        return CUBLAS_STATUS_EXECUTION_FAILED;
    if (sim_code_load(sim_current_device(), code_of(p), call))
        return CUBLAS_STATUS_ALLOC_FAILED;
    if (!check(call, "A", &p->a, p->batch) || !check(call, "B", &p->b, p->batch) ||
        (p->beta != 0.0f && !check(call, "C", &p->before, p->batch)) ||
        !check(call, "the result", &p->result, p->batch) ||
        (p->bias &&
         !sim_memory_on_device(call, "the bias", p->bias, p->result.rows * element_bytes(p->bias_type))) ||
        !sums_on_device(call, p) ||
        !sim_memory_on_device(call, "the workspace", p->workspace, p->workspace ? p->workspace_bytes : 0))
        return CUBLAS_STATUS_EXECUTION_FAILED;
    return sim_enqueue(stream, call, run_product, false, p, sizeof *p) ? CUBLAS_STATUS_EXECUTION_FAILED
                                                                       : CUBLAS_STATUS_SUCCESS;
}
