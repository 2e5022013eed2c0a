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
#include "gpu/kernels/parts.h"

#include <limits.h>

#define THREADS 256
#define SHORT_COLS 512
/* Parts of vectors at most, and vectors a part at least. */
#define PARTS 128u
#define LEAST 32u

struct norm {
    unsigned rows, groups;
    size_t cols, x_stride, y_stride, dx_stride; /* y: dy in the backward pass */
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
    const unsigned n = blockIdx.x * blockDim.y + threadIdx.y;
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

/* Vectors are counted in 32 bits: kernels divide by groups. */
static bool bad_shape(size_t rows, size_t groups, size_t width, size_t a, size_t b, size_t c)
{
    return rows > INT_MAX / groups || a < width || b < width || c < width;
}

int mt_cuda_rms_norm(struct mt_stream *stream, const struct mt_rms_norm_args *args)
{
    struct mt_rms_norm_args a = *args;
    a.groups = a.groups ? a.groups : 1;
    const size_t width = a.groups * a.cols;
    a.x_stride = a.x_stride ? a.x_stride : width;
    a.y_stride = a.y_stride ? a.y_stride : width;
    if (!mt_cuda_data_dtype(a.dtype) || bad_shape(a.rows, a.groups, width, a.x_stride, a.y_stride, width) ||
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
    s.rows = static_cast<unsigned>(a.rows);
    s.groups = static_cast<unsigned>(a.groups);
    s.cols = a.cols;
    s.x_stride = a.x_stride;
    s.y_stride = a.y_stride;
    s.eps = a.eps;
    s.offset = a.weight_offset;
    s.centered = a.centered;
    s.weight_per_group = a.weight_per_group;
    /* Whole packs, so that each group of a row begins with one. */
    const bool packs =
        mt_cuda_packs(a.dtype,
                      {{a.x, a.x_stride}, {a.y, a.y_stride}, {a.weight, a.cols}, {a.bias, a.cols}}) &&
        a.cols * mt_dtype_bytes(a.dtype) % 16 == 0;
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
    const unsigned n = blockIdx.x * blockDim.y + threadIdx.y;
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

/* dweight's and dbias's parts: of the rows' vectors, or of one group's where each has its weight. */
template <typename T, int V>
static __global__ void weight_parts(const T *x, const T *dy, const float *rstds, const float *means,
                                    float *parts, size_t own, struct mt_cut cut, struct norm s)
{
    const size_t i = ((size_t)blockIdx.x * blockDim.x + threadIdx.x) * V;
    const size_t vectors = s.weight_per_group ? s.rows : (size_t)s.rows * s.groups;
    float *part = parts + (size_t)blockIdx.y * 2 * own + (size_t)blockIdx.z * s.cols + i;
    mt_column_part<V, 2>(cut, vectors, i < s.cols, part, own, [&](size_t at, float(*sums)[V]) {
        const unsigned n = s.weight_per_group ? (unsigned)at * s.groups + blockIdx.z : (unsigned)at;
        const size_t row = n / s.groups, group = n % s.groups;
        float v[V], g[V];
        mt_load<T, V>(x + row * s.x_stride + group * s.cols + i, v);
        mt_load<T, V>(dy + row * s.y_stride + group * s.cols + i, g);
        const float rstd = rstds[n], mean = s.centered ? means[n] : 0;
        for (int j = 0; j < V; j++) {
            sums[0][j] += g[j] * (v[j] - mean) * rstd;
            sums[1][j] += g[j];
        }
    });
}

static int weight_gradient(struct mt_stream *stream, const struct mt_rms_norm_backward_args *a,
                           const struct norm *s, bool packs)
{
    float *parts = mt_cuda_parts(stream);
    if (!parts)
        return mt_cuda_fault_code(stream->device);
    const size_t own = a->weight_per_group ? a->groups * a->cols : a->cols;
    const size_t vectors = a->weight_per_group ? a->rows : a->rows * a->groups;
    const struct mt_cut cut = mt_cuda_cut_columns(vectors, 2, own, PARTS, LEAST);
    if (!cut.parts || (a->weight_per_group && a->groups > 65535)) {
        mt_cuda_fail(stream->device, -EIO, "rms_norm_backward: a weight of %zu elements is too long", own);
        return -EIO;
    }
    mt_cuda_dispatch(a->dtype, packs, [&](auto kind) {
        typedef typename decltype(kind)::type T;
        constexpr int V = decltype(kind)::packs;
        MT_LAUNCH((weight_parts<T, V>),
                  mt_parts_grid<V>(a->cols, cut.parts, a->weight_per_group ? a->groups : 1),
                  mt_parts_block<V>(a->cols), 0, stream->handle, static_cast<const T *>(a->x),
                  static_cast<const T *>(a->dy), a->rstd, a->mean, parts, own, cut, *s);
    });
    mt_cuda_add_parts(stream, parts, cut.parts, 2 * own, own, a->dweight, a->dbias, a->accumulate_dweight);
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
    if (!mt_cuda_data_dtype(a.dtype) ||
        bad_shape(a.rows, a.groups, width, a.x_stride, a.dy_stride, a.dx_stride) ||
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
    s.rows = static_cast<unsigned>(a.rows);
    s.groups = static_cast<unsigned>(a.groups);
    s.cols = a.cols;
    s.x_stride = a.x_stride;
    s.y_stride = a.dy_stride;
    s.dx_stride = a.dx_stride;
    s.offset = a.weight_offset;
    s.centered = a.centered;
    s.weight_per_group = a.weight_per_group;
    s.accumulate = a.accumulate_dx;
    const bool packs =
        mt_cuda_packs(a.dtype,
                      {{a.x, a.x_stride}, {a.dy, a.dy_stride}, {a.dx, a.dx_stride}, {a.weight, a.cols}}) &&
        a.cols * mt_dtype_bytes(a.dtype) % 16 == 0;
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
