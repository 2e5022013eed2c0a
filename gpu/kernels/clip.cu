/* x = min(max(x, -limit), limit) in place; or, for the gradient of that, x = 0 where |by| >= limit. NaN
 * stays. */
#include "gpu/kernels/kernel.h"

#define THREADS 128

template <typename T, int V>
static __global__ void clip_kernel(T *x, const T *by, size_t rows, size_t cols, size_t x_stride,
                                   size_t by_stride, float limit)
{
    const size_t i = ((size_t)blockIdx.x * blockDim.x + threadIdx.x) * V;
    if (i >= cols)
        return;
    const float high = mt_widen(mt_narrow<T>(limit)); /* as its type holds it: what was clipped equals it */
    for (size_t row = blockIdx.y; row < rows; row += gridDim.y) {
        float v[V], clipped[V];
        mt_load<T, V>(x + row * x_stride + i, v);
        if (by)
            mt_load<T, V>(by + row * by_stride + i, clipped);
        for (int j = 0; j < V; j++) {
            if (by)
                v[j] = clipped[j] >= high || clipped[j] <= -high ? 0.0f : v[j];
            else
                v[j] = v[j] > high ? high : v[j] < -high ? -high : v[j];
        }
        mt_store<T, V>(x + row * x_stride + i, v);
    }
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
    const size_t element = mt_dtype_bytes(a.dtype), n = 16 / element;
    const bool packs = a.cols % n == 0 && mt_cuda_fits(a.x, element, a.x_stride, n) &&
                       mt_cuda_fits(a.by, element, a.by_stride, n);
    mt_cuda_dispatch(a.dtype, packs, [&](auto kind) {
        typedef typename decltype(kind)::type T;
        constexpr int V = decltype(kind)::packs;
        const dim3 grid(static_cast<unsigned>(mt_cuda_ceil_div(a.cols, (size_t)V * THREADS)),
                        mt_cuda_blocks(a.rows, 65535));
        MT_LAUNCH((clip_kernel<T, V>), grid, dim3(THREADS), 0, stream->handle, static_cast<T *>(a.x),
                  static_cast<const T *>(a.by), a.rows, a.cols, a.x_stride, a.by_stride, a.limit);
    });
    return mt_cuda_end(stream, "clip");
}
