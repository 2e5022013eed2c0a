/* x = min(max(x, -limit), limit) in place; or, for the gradient of that, x = 0 where |by| >= limit. NaN
 * stays. */
#include "gpu/kernels/elementwise.h"

template <typename T, int V>
static __global__ void clip_kernel(T *x, const T *by, size_t rows, size_t cols, size_t x_stride,
                                   size_t by_stride, float limit)
{
    const float high = mt_widen(mt_narrow<T>(limit)); /* as its type holds it: what was clipped equals it */
    mt_each_of_rows<V>(rows, cols, [&](auto width, size_t row, size_t i) {
        constexpr int W = decltype(width)::count;
        float v[W], clipped[W];
        mt_load<T, W>(x + row * x_stride + i, v);
        if (by)
            mt_load<T, W>(by + row * by_stride + i, clipped);
        for (int j = 0; j < W; j++) {
            if (by)
                v[j] = clipped[j] >= high || clipped[j] <= -high ? 0.0f : v[j];
            else
                v[j] = v[j] > high ? high : v[j] < -high ? -high : v[j];
        }
        mt_store<T, W>(x + row * x_stride + i, v);
    });
}

int mt_cuda_clip(struct mt_stream *stream, const struct mt_clip_args *args)
{
    struct mt_clip_args a = *args;
    a.x_stride = a.x_stride ? a.x_stride : a.cols;
    a.by_stride = a.by_stride ? a.by_stride : a.cols;
    if (!mt_cuda_data_dtype(a.dtype) || a.x_stride < a.cols || a.by_stride < a.cols || !(a.limit > 0))
        return -EINVAL;
    if (!a.rows || !a.cols)
        return 0;
    if (!a.x)
        return -EINVAL;
    const int code = mt_cuda_begin(stream);
    if (code)
        return code;
    const bool one = a.rows == 1; /* whose stride does not count */
    const bool packs = mt_cuda_packs(a.dtype, {{a.x, one ? 0 : a.x_stride}, {a.by, one ? 0 : a.by_stride}});
    mt_cuda_dispatch(a.dtype, packs, [&](auto kind) {
        typedef typename decltype(kind)::type T;
        constexpr int V = decltype(kind)::packs;
        MT_LAUNCH((clip_kernel<T, V>), mt_rows_grid(a.rows, a.cols, V), mt_rows_block(a.cols, V), 0,
                  stream->handle, static_cast<T *>(a.x), static_cast<const T *>(a.by), a.rows, a.cols,
                  a.x_stride, a.by_stride, a.limit);
    });
    return mt_cuda_end(stream, "clip");
}
