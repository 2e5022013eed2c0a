/* Root mean square norm (Zhang and Sennrich, 2019) and, centered, layer norm (Ba, Kiros and Hinton, 2016).
 *
 *   forward   rstd = 1 / sqrt(mean(x^2) + eps); y = x * rstd * (offset + weight) + bias
 *   backward  g = dy * (offset + weight); dx (=|+=) rstd * (g - x * rstd^2 * mean(g * x));
 *             dweight (=|+=) sum over rows of dy * x * rstd; dbias (=|+=) sum over rows of dy
 *   centered  x less its mean in x's place; dx from g less its mean
 *
 * A vector is one group of one row. Short vectors (the heads of a token) are a warp's, eight to a block; long
 * ones a block's. dweight: parts of the vectors, each summed in a fixed order, then the parts in order; their
 * number comes from the shape alone.
 */
#include "gpu/kernels/kernel.h"

#define THREADS 256
#define SHORT_COLS 512
/* Parts of vectors at most, and vectors a part at least. */
#define PARTS 128u
#define LEAST 32u

struct norm {
    size_t rows, groups, cols, x_stride, y_stride, dx_stride; /* y: dy in the backward pass */
    float eps, offset;
    bool centered, weight_per_group, accumulate;
};

/* How a kernel with a vector a row of threads is started. */
static dim3 vector_block(size_t cols)
{
    return cols <= SHORT_COLS ? dim3(MT_WARP, THREADS / MT_WARP) : dim3(THREADS);
}

static dim3 vector_grid(size_t vectors, size_t cols)
{
    return dim3(mt_cuda_blocks(cols <= SHORT_COLS ? mt_cuda_ceil_div(vectors, THREADS / MT_WARP) : vectors,
                               (size_t)1 << 30));
}

/* offset + weight; the same for all of a pack where there is no weight. */
template <typename T, int V>
static __device__ void load_factor(const T *weight, float offset, size_t i, float *factor)
{
    if (weight)
        mt_load<T, V>(weight + i, factor);
    for (int j = 0; j < V; j++)
        factor[j] = weight ? offset + factor[j] : 1.0f;
}

template <typename T, int V>
static __global__ void norm_forward(const T *x, const T *weight, const T *bias, T *y, float *rstd_out,
                                    float *mean_out, struct norm s)
{
    const size_t n = (size_t)blockIdx.x * blockDim.y + threadIdx.y;
    if (n >= s.rows * s.groups)
        return;
    const size_t row = n / s.groups, group = n % s.groups, own = s.weight_per_group ? group * s.cols : 0;
    const T *from = x + row * s.x_stride + group * s.cols;
    T *to = y + row * s.y_stride + group * s.cols;
    const T *w = weight ? weight + own : weight, *b = bias ? bias + own : bias;
    const size_t step = (size_t)blockDim.x * V;
    float v[V], factor[V], shift[V], mean = 0, sum = 0;
    if (s.centered) {
        for (size_t i = (size_t)threadIdx.x * V; i < s.cols; i += step) {
            mt_load<T, V>(from + i, v);
            for (int j = 0; j < V; j++)
                mean += v[j];
        }
        mean = mt_row_sum(mean) / (float)s.cols;
    }
    for (size_t i = (size_t)threadIdx.x * V; i < s.cols; i += step) {
        mt_load<T, V>(from + i, v);
        for (int j = 0; j < V; j++)
            sum += (v[j] - mean) * (v[j] - mean);
    }
    const float rstd = 1.0f / sqrtf(mt_row_sum(sum) / (float)s.cols + s.eps);
    for (size_t i = (size_t)threadIdx.x * V; i < s.cols; i += step) {
        mt_load<T, V>(from + i, v);
        load_factor<T, V>(w, s.offset, i, factor);
        if (b)
            mt_load<T, V>(b + i, shift);
        for (int j = 0; j < V; j++)
            v[j] = (v[j] - mean) * rstd * factor[j] + (b ? shift[j] : 0.0f);
        mt_store<T, V>(to + i, v);
    }
    if (threadIdx.x == 0 && rstd_out)
        rstd_out[n] = rstd;
    if (threadIdx.x == 0 && mean_out)
        mean_out[n] = mean;
}

static bool bad_strides(size_t width, size_t a, size_t b, size_t c)
{
    return a < width || b < width || c < width;
}

int mt_cuda_rms_norm(struct mt_stream *stream, const struct mt_rms_norm_args *args)
{
    struct mt_rms_norm_args a = *args;
    a.groups = a.groups ? a.groups : 1;
    const size_t width = a.groups * a.cols;
    a.x_stride = a.x_stride ? a.x_stride : width;
    a.y_stride = a.y_stride ? a.y_stride : width;
    if (!mt_cuda_data_dtype(a.dtype) || bad_strides(width, a.x_stride, a.y_stride, width) ||
        (a.mean && !a.centered))
        return -EINVAL;
    if (!a.rows || !a.cols)
        return 0;
    if (!a.x || !a.y)
        return -EINVAL;
    const int code = mt_cuda_begin(stream);
    if (code)
        return code;
    struct norm s = {};
    s.rows = a.rows;
    s.groups = a.groups;
    s.cols = a.cols;
    s.x_stride = a.x_stride;
    s.y_stride = a.y_stride;
    s.eps = a.eps;
    s.offset = a.weight_offset;
    s.centered = a.centered;
    s.weight_per_group = a.weight_per_group;
    const size_t element = mt_dtype_bytes(a.dtype), n = 16 / element;
    const bool packs = a.cols % n == 0 && mt_cuda_fits(a.x, element, a.x_stride, n) &&
                       mt_cuda_fits(a.y, element, a.y_stride, n) && mt_cuda_fits(a.weight, element, 0, n) &&
                       mt_cuda_fits(a.bias, element, 0, n);
    mt_cuda_dispatch(a.dtype, packs, [&](auto kind) {
        typedef typename decltype(kind)::type T;
        constexpr int V = decltype(kind)::packs;
        MT_LAUNCH((norm_forward<T, V>), vector_grid(a.rows * a.groups, a.cols), vector_block(a.cols), 0,
                  stream->handle, static_cast<const T *>(a.x), static_cast<const T *>(a.weight),
                  static_cast<const T *>(a.bias), static_cast<T *>(a.y), a.rstd, a.mean, s);
    });
    return mt_cuda_end(stream, "rms_norm");
}

template <typename T, int V>
static __global__ void norm_backward(const T *x, const T *weight, const T *dy, const float *rstds,
                                     const float *means, T *dx, struct norm s)
{
    const size_t n = (size_t)blockIdx.x * blockDim.y + threadIdx.y;
    if (n >= s.rows * s.groups)
        return;
    const size_t row = n / s.groups, group = n % s.groups;
    const T *from = x + row * s.x_stride + group * s.cols, *gradient = dy + row * s.y_stride + group * s.cols;
    const T *w = weight && s.weight_per_group ? weight + group * s.cols : weight;
    T *to = dx + row * s.dx_stride + group * s.cols;
    const float rstd = rstds[n], mean = s.centered ? means[n] : 0;
    const size_t step = (size_t)blockDim.x * V;
    float v[V], g[V], factor[V], along = 0, whole = 0;
    for (size_t i = (size_t)threadIdx.x * V; i < s.cols; i += step) {
        mt_load<T, V>(from + i, v);
        mt_load<T, V>(gradient + i, g);
        load_factor<T, V>(w, s.offset, i, factor);
        for (int j = 0; j < V; j++) {
            along += g[j] * factor[j] * (v[j] - mean);
            whole += g[j] * factor[j];
        }
    }
    const float pull = mt_row_sum(along) / (float)s.cols * rstd * rstd;
    const float level = s.centered ? mt_row_sum(whole) / (float)s.cols : 0;
    for (size_t i = (size_t)threadIdx.x * V; i < s.cols; i += step) {
        mt_load<T, V>(from + i, v);
        mt_load<T, V>(gradient + i, g);
        load_factor<T, V>(w, s.offset, i, factor);
        for (int j = 0; j < V; j++)
            v[j] = rstd * (g[j] * factor[j] - level - (v[j] - mean) * pull);
        if (s.accumulate) {
            mt_load<T, V>(to + i, g);
            for (int j = 0; j < V; j++)
                v[j] += g[j];
        }
        mt_store<T, V>(to + i, v);
    }
}

/* A block: a strip of columns of one part of the rows (of one group of them where each has its weight). The
 * rows of threads take every blockDim.y-th vector; in the end they are added in order. */
template <typename T, int V>
static __global__ void weight_parts(const T *x, const T *dy, const float *rstds, const float *means,
                                    float *parts, size_t own, size_t a_part, struct norm s)
{
    MT_SHARED(float, sums, [2][THREADS][V]);
    const size_t i = ((size_t)blockIdx.x * blockDim.x + threadIdx.x) * V;
    const size_t vectors = s.weight_per_group ? s.rows : s.rows * s.groups;
    const size_t first = (size_t)blockIdx.y * a_part,
                 last = first + a_part < vectors ? first + a_part : vectors;
    const int thread = (int)(threadIdx.y * blockDim.x + threadIdx.x);
    float dweight[V], dbias[V], v[V], g[V];
    for (int j = 0; j < V; j++)
        dweight[j] = dbias[j] = 0;
    for (size_t at = first + threadIdx.y; i < s.cols && at < last; at += blockDim.y) {
        const size_t n = s.weight_per_group ? at * s.groups + blockIdx.z : at;
        const size_t row = n / s.groups, group = n % s.groups;
        mt_load<T, V>(x + row * s.x_stride + group * s.cols + i, v);
        mt_load<T, V>(dy + row * s.y_stride + group * s.cols + i, g);
        const float rstd = rstds[n], mean = s.centered ? means[n] : 0;
        for (int j = 0; j < V; j++) {
            dweight[j] += g[j] * (v[j] - mean) * rstd;
            dbias[j] += g[j];
        }
    }
    for (int j = 0; j < V; j++) {
        sums[0][thread][j] = dweight[j];
        sums[1][thread][j] = dbias[j];
    }
    __syncthreads();
    if (threadIdx.y || i >= s.cols)
        return;
    float *part = parts + (size_t)blockIdx.y * 2 * own + (size_t)blockIdx.z * s.cols + i;
    for (int j = 0; j < V; j++) {
        for (unsigned other = 1; other < blockDim.y; other++) {
            dweight[j] += sums[0][other * blockDim.x + threadIdx.x][j];
            dbias[j] += sums[1][other * blockDim.x + threadIdx.x][j];
        }
        part[j] = dweight[j];
        part[own + j] = dbias[j];
    }
}

static __global__ void sum_parts(const float *parts, float *to, size_t num_parts, size_t own, bool accumulate)
{
    const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= own)
        return;
    float sum = 0;
    for (size_t part = 0; part < num_parts; part++)
        sum += parts[part * 2 * own + i];
    to[i] = accumulate ? to[i] + sum : sum;
}

/* The smallest power of two of threads that holds a vector's packs, at most a warp. */
static unsigned threads_across(size_t packs)
{
    unsigned threads = 1;
    while (threads < MT_WARP && threads < packs)
        threads *= 2;
    return threads;
}

static int weight_gradient(struct mt_stream *stream, const struct mt_rms_norm_backward_args *a,
                           const struct norm *s, bool packs)
{
    float *parts = mt_cuda_parts(stream);
    if (!parts)
        return -EIO;
    const size_t own = a->weight_per_group ? a->groups * a->cols : a->cols;
    const size_t vectors = a->weight_per_group ? a->rows : a->rows * a->groups;
    const size_t room = MT_CUDA_PARTS_BYTES / sizeof(float) / (2 * own);
    size_t num_parts = mt_size_min(mt_size_min(PARTS, room), mt_cuda_ceil_div(vectors, LEAST));
    if (!num_parts || (a->weight_per_group && a->groups > 65535)) {
        mt_cuda_fail(stream->device, "rms_norm_backward: a weight of %zu elements is too long", own);
        return -EIO;
    }
    const size_t a_part = mt_cuda_ceil_div(vectors, num_parts);
    num_parts = mt_cuda_ceil_div(vectors, a_part);
    mt_cuda_dispatch(a->dtype, packs, [&](auto kind) {
        typedef typename decltype(kind)::type T;
        constexpr int V = decltype(kind)::packs;
        const unsigned across = threads_across(mt_cuda_ceil_div(a->cols, V));
        const dim3 block(across, THREADS / across);
        const dim3 grid(static_cast<unsigned>(mt_cuda_ceil_div(a->cols, (size_t)across * V)),
                        static_cast<unsigned>(num_parts),
                        a->weight_per_group ? static_cast<unsigned>(a->groups) : 1);
        MT_LAUNCH((weight_parts<T, V>), grid, block, 0, stream->handle, static_cast<const T *>(a->x),
                  static_cast<const T *>(a->dy), a->rstd, a->mean, parts, own, a_part, *s);
    });
    const dim3 grid(static_cast<unsigned>(mt_cuda_ceil_div(own, THREADS)));
    if (a->dweight)
        MT_LAUNCH(sum_parts, grid, dim3(THREADS), 0, stream->handle, static_cast<const float *>(parts),
                  a->dweight, num_parts, own, a->accumulate_dweight);
    if (a->dbias)
        MT_LAUNCH(sum_parts, grid, dim3(THREADS), 0, stream->handle, static_cast<const float *>(parts + own),
                  a->dbias, num_parts, own, a->accumulate_dweight);
    return 0;
}

int mt_cuda_rms_norm_backward(struct mt_stream *stream, const struct mt_rms_norm_backward_args *args)
{
    struct mt_rms_norm_backward_args a = *args;
    a.groups = a.groups ? a.groups : 1;
    const size_t width = a.groups * a.cols;
    a.x_stride = a.x_stride ? a.x_stride : width;
    a.dy_stride = a.dy_stride ? a.dy_stride : width;
    a.dx_stride = a.dx_stride ? a.dx_stride : width;
    if (!mt_cuda_data_dtype(a.dtype) || bad_strides(width, a.x_stride, a.dy_stride, a.dx_stride) ||
        a.centered != (a.mean != NULL))
        return -EINVAL;
    if (!a.rows || !a.cols)
        return 0;
    if (!a.x || !a.dy || !a.dx || !a.rstd)
        return -EINVAL;
    int code = mt_cuda_begin(stream);
    if (code)
        return code;
    struct norm s = {};
    s.rows = a.rows;
    s.groups = a.groups;
    s.cols = a.cols;
    s.x_stride = a.x_stride;
    s.y_stride = a.dy_stride;
    s.dx_stride = a.dx_stride;
    s.offset = a.weight_offset;
    s.centered = a.centered;
    s.weight_per_group = a.weight_per_group;
    s.accumulate = a.accumulate_dx;
    const size_t element = mt_dtype_bytes(a.dtype), n = 16 / element;
    const bool packs = a.cols % n == 0 && mt_cuda_fits(a.x, element, a.x_stride, n) &&
                       mt_cuda_fits(a.dy, element, a.dy_stride, n) &&
                       mt_cuda_fits(a.dx, element, a.dx_stride, n) && mt_cuda_fits(a.weight, element, 0, n);
    /* The weight's gradient first: dx may take dy's place. */
    if (a.dweight || a.dbias)
        code = weight_gradient(stream, &a, &s, packs);
    if (code)
        return code;
    mt_cuda_dispatch(a.dtype, packs, [&](auto kind) {
        typedef typename decltype(kind)::type T;
        constexpr int V = decltype(kind)::packs;
        MT_LAUNCH((norm_backward<T, V>), vector_grid(a.rows * a.groups, a.cols), vector_block(a.cols), 0,
                  stream->handle, static_cast<const T *>(a.x), static_cast<const T *>(a.weight),
                  static_cast<const T *>(a.dy), a.rstd, a.mean, static_cast<T *>(a.dx), s);
    });
    return mt_cuda_end(stream, "rms_norm_backward");
}
