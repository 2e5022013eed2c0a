/* Tiles over the pool, each a single-threaded sgemm. bf16 operands are widened, a block of the sum at a time,
 * into scratch space of the thread: exact products, fp32 sums, one rounding at the end.
 */
#include "core/device/cpu/blas.h"

#include "core/base/size.h"

#include <cblas.h>
#include <stdio.h>

/* Larger tiles repack less, smaller ones share the work out better. At 1,024 tokens of SmolLM2's shapes one
 * core does these at 0.95 of what it does a whole product at; the library's own two threads lose as much.
 * Tiles of 256 by 288, where there is too little work for larger ones, cost one hundredth more, and keep
 * eight cores busy. 48: a multiple of the widths of the library's AVX2 and AVX-512 kernels. */
#define TILE_ROWS 256u
#define TILE_COLS 768u
#define TILE_COLS_LEAST 256u
#define TILES_WANTED 8u
#define TILE_ROW_UNIT 16u
#define TILE_COL_UNIT 48u
/* Terms of the sum that are widened at a time. */
#define WIDEN_TERMS 1024u

#if defined(__SANITIZE_THREAD__)
/* The library is not instrumented: what it reads and writes is announced, its own locks are no edges. */
#include <sanitizer/tsan_interface.h>
void __tsan_read_range(void *address, long bytes);
void __tsan_write_range(void *address, long bytes);
void AnnotateIgnoreSyncBegin(const char *file, int line);
void AnnotateIgnoreSyncEnd(const char *file, int line);

static void announce(const float *matrix, size_t rows, size_t cols, size_t stride, bool write)
{
    for (size_t row = 0; row < rows; row++) {
        void *address = (void *)(uintptr_t)(matrix + row * stride);
        if (write)
            __tsan_write_range(address, (long)(cols * sizeof(float)));
        else
            __tsan_read_range(address, (long)(cols * sizeof(float)));
    }
}
#endif

void openblas_set_num_threads(int) __attribute__((weak));
char *openblas_get_corename(void) __attribute__((weak));

void mt_blas_single_threaded(void)
{
    if (openblas_set_num_threads)
        openblas_set_num_threads(1);
}

void mt_blas_name(char *name, size_t bytes)
{
    snprintf(name, bytes, "OpenBLAS-%.20s", openblas_get_corename ? openblas_get_corename() : "unknown");
}

void mt_blas_sgemm(bool transpose_a, bool transpose_b, size_t m, size_t n, size_t k, float alpha,
                   const float *a, size_t lda, const float *b, size_t ldb, float beta, float *c, size_t ldc)
{
#if defined(__SANITIZE_THREAD__)
    announce(a, transpose_a ? k : m, transpose_a ? m : k, lda, false);
    announce(b, transpose_b ? n : k, transpose_b ? k : n, ldb, false);
    announce(c, m, n, ldc, true);
    AnnotateIgnoreSyncBegin(__FILE__, __LINE__);
#endif
    cblas_sgemm(CblasRowMajor, transpose_a ? CblasTrans : CblasNoTrans,
                transpose_b ? CblasTrans : CblasNoTrans, (blasint)m, (blasint)n, (blasint)k, alpha, a,
                (blasint)lda, b, (blasint)ldb, beta, c, (blasint)ldc);
#if defined(__SANITIZE_THREAD__)
    AnnotateIgnoreSyncEnd(__FILE__, __LINE__);
#endif
}

/* `pieces` nearly equal parts of n, their bounds multiples of `unit`: the start of part i. */
static size_t part_start(size_t n, size_t unit, size_t pieces, size_t i)
{
    const size_t units = mt_size_ceil_div(n, unit);
    return mt_size_min(n, units * i / pieces * unit);
}

struct product_context {
    struct mt_stream *stream;
    const struct mt_cpu_product *product;
    size_t row_pieces, col_pieces;
};

/* to[rows, cols] (dense) = from, widened. */
MT_INLINE void widen(float *to, const uint16_t *from, size_t rows, size_t cols, size_t stride)
{
    for (size_t row = 0; row < rows; row++)
        for (size_t i = 0; i < cols; i += MT_LANES)
            mt_vf_store_part(to + row * cols + i, mt_data_load(from + row * stride, i, cols - i, true),
                             cols - i);
}

/* c = (accumulate ? c : 0) + sum + bias for a tile that has its sum in fp32 apart (or, sum == c, in place).
 */
MT_INLINE void finish_tile(const struct mt_cpu_product *p, const float *sum, size_t sum_stride, void *c,
                           const void *bias, size_t rows, size_t cols, bool accumulate)
{
    const bool narrow = p->result == MT_BF16, narrow_bias = p->operands == MT_BF16;
    for (size_t row = 0; row < rows; row++)
        for (size_t i = 0; i < cols; i += MT_LANES) {
            const size_t count = cols - i;
            mt_vf v = mt_vf_load_part(sum + row * sum_stride + i, count);
            if (bias)
                v += mt_data_load(bias, i, count, narrow_bias);
            if (accumulate)
                v += mt_data_load(c, row * p->ldc + i, count, narrow);
            mt_data_store(c, row * p->ldc + i, v, count, narrow);
        }
}

MT_INLINE void product_tile_body(void *context, size_t task)
{
    const struct product_context *ctx = context;
    const struct mt_cpu_product *p = ctx->product;
    const size_t row_piece = task / ctx->col_pieces, col_piece = task % ctx->col_pieces;
    const size_t row = part_start(p->m, TILE_ROW_UNIT, ctx->row_pieces, row_piece);
    const size_t col = part_start(p->n, TILE_COL_UNIT, ctx->col_pieces, col_piece);
    const size_t rows = part_start(p->m, TILE_ROW_UNIT, ctx->row_pieces, row_piece + 1) - row;
    const size_t cols = part_start(p->n, TILE_COL_UNIT, ctx->col_pieces, col_piece + 1) - col;
    if (!rows || !cols)
        return;
    const bool wide = p->operands == MT_F32, wide_result = p->result == MT_F32;
    void *c = mt_data_at_mutable(p->c, row * p->ldc + col, !wide_result);
    const void *bias = p->bias ? mt_data_at(p->bias, col, !wide) : NULL;
    if (wide && wide_result) {
        const float *a = (const float *)p->a + (p->transpose_a ? row : row * p->lda);
        const float *b = (const float *)p->b + (p->transpose_b ? col * p->ldb : col);
        mt_blas_sgemm(p->transpose_a, p->transpose_b, rows, cols, p->k, 1, a, p->lda, b, p->ldb,
                      p->accumulate ? 1 : 0, c, p->ldc);
        if (bias)
            finish_tile(p, c, p->ldc, c, bias, rows, cols, false);
        return;
    }
    const size_t terms = mt_size_min(p->k, WIDEN_TERMS);
    float *a_wide = mt_cpu_thread_scratch((terms * (rows + cols) + rows * cols) * sizeof(float));
    if (!a_wide) {
        mt_cpu_fail(mt_cpu_stream_device(ctx->stream), "linear: no host memory for the tiles of a product");
        return;
    }
    float *b_wide = a_wide + terms * rows, *sum = b_wide + terms * cols;
    for (size_t k = 0; k < p->k; k += terms) {
        const size_t some = mt_size_min(terms, p->k - k);
        const uint16_t *a = (const uint16_t *)p->a + (p->transpose_a ? k * p->lda + row : row * p->lda + k);
        const uint16_t *b = (const uint16_t *)p->b + (p->transpose_b ? col * p->ldb + k : k * p->ldb + col);
        const size_t a_rows = p->transpose_a ? some : rows, a_cols = p->transpose_a ? rows : some;
        const size_t b_rows = p->transpose_b ? cols : some, b_cols = p->transpose_b ? some : cols;
        widen(a_wide, a, a_rows, a_cols, p->lda);
        widen(b_wide, b, b_rows, b_cols, p->ldb);
        mt_blas_sgemm(p->transpose_a, p->transpose_b, rows, cols, some, 1, a_wide, a_cols, b_wide, b_cols,
                      k ? 1 : 0, sum, cols);
    }
    finish_tile(p, sum, cols, c, bias, rows, cols, p->accumulate);
}
MT_CPU_KERNEL(product_tile);

/* A product of few rows reads b once and has nothing to reuse: packing it would triple the traffic. One task
 * takes some columns of the result, each a dot product with a row of b (b transposed). */
#define FEW_ROWS 4u
#define FEW_COLS 64u

MT_INLINE void few_rows(const struct mt_cpu_product *p, size_t first, size_t last, const bool narrow)
{
    const bool narrow_result = p->result == MT_BF16;
    for (size_t col = first; col < last; col++) {
        const void *b = mt_data_at(p->b, col * p->ldb, narrow);
        for (size_t row = 0; row < p->m; row++) {
            const void *a = mt_data_at(p->a, row * p->lda, narrow);
            mt_vf sums[2] = {mt_vf_set(0), mt_vf_set(0)};
            size_t i = 0;
            for (; i + 2 * MT_LANES <= p->k; i += 2 * MT_LANES) {
                sums[0] += mt_data_load(a, i, MT_LANES, narrow) * mt_data_load(b, i, MT_LANES, narrow);
                sums[1] += mt_data_load(a, i + MT_LANES, MT_LANES, narrow) *
                           mt_data_load(b, i + MT_LANES, MT_LANES, narrow);
            }
            for (; i < p->k; i += MT_LANES)
                sums[0] += mt_data_load(a, i, p->k - i, narrow) * mt_data_load(b, i, p->k - i, narrow);
            mt_vf v = mt_vf_set(mt_vf_sum(sums[0] + sums[1]));
            if (p->bias)
                v += mt_data_load(p->bias, col, 1, narrow);
            if (p->accumulate)
                v += mt_data_load(p->c, row * p->ldc + col, 1, narrow_result);
            mt_data_store(p->c, row * p->ldc + col, v, 1, narrow_result);
        }
    }
}

MT_INLINE void few_rows_task_body(void *context, size_t task)
{
    const struct mt_cpu_product *p = ((const struct product_context *)context)->product;
    const size_t first = task * FEW_COLS, last = mt_size_min(p->n, first + FEW_COLS);
    if (p->operands == MT_BF16)
        few_rows(p, first, last, true);
    else
        few_rows(p, first, last, false);
}
MT_CPU_KERNEL(few_rows_task);

void mt_cpu_product(struct mt_stream *stream, const struct mt_cpu_product *product)
{
    struct product_context ctx = {.stream = stream, .product = product};
    const enum mt_cpu_level level = mt_cpu_level();
    if (product->m <= FEW_ROWS && !product->transpose_a && product->transpose_b) {
        mt_cpu_parallel(stream, mt_size_ceil_div(product->n, FEW_COLS), few_rows_task[level], &ctx);
        return;
    }
    ctx.row_pieces = mt_size_ceil_div(product->m, TILE_ROWS);
    ctx.col_pieces = mt_size_ceil_div(product->n, TILE_COLS);
    while (ctx.row_pieces * ctx.col_pieces < TILES_WANTED &&
           product->n / (ctx.col_pieces + 1) >= TILE_COLS_LEAST)
        ctx.col_pieces++;
    mt_cpu_parallel(stream, ctx.row_pieces * ctx.col_pieces, product_tile[level], &ctx);
}
