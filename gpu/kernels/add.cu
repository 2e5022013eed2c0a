/* y = a + scale * b, element by element; in place where y is a or b. Without a: y = scale * b. The scale may
 * be multiplied by a number that lies on the device. */
#include "gpu/kernels/elementwise.h"

template <typename T, int V> static __device__ void add_pack(const T *a, const T *b, T *y, float scale)
{
    float va[V], vb[V];
    mt_load<T, V>(b, vb);
    if (a)
        mt_load<T, V>(a, va);
    for (int i = 0; i < V; i++)
        vb[i] = a ? va[i] + scale * vb[i] : scale * vb[i];
    mt_store<T, V>(y, vb);
}

template <typename T, int V>
static __global__ void add_kernel(const T *a, const T *b, T *y, size_t count, float scale, const T *factor)
{
    if (factor)
        scale *= mt_widen(*factor);
    const size_t thread = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    const size_t threads = (size_t)gridDim.x * blockDim.x, whole = count / V;
    for (size_t i = thread; i < whole; i += threads)
        add_pack<T, V>(a ? a + i * V : a, b + i * V, y + i * V, scale);
    for (size_t i = whole * V + thread; i < count; i += threads)
        add_pack<T, 1>(a ? a + i : a, b + i, y + i, scale);
}

int mt_cuda_add(struct mt_stream *stream, const struct mt_add_args *a)
{
    if (!mt_cuda_data_dtype(a->dtype))
        return -EINVAL;
    if (!a->count)
        return 0;
    if (!a->b || !a->y)
        return -EINVAL;
    const int code = mt_cuda_begin(stream);
    if (code)
        return code;
    const size_t element = mt_dtype_bytes(a->dtype), n = 16 / element;
    const bool packs = mt_cuda_fits(a->a, element, 0, n) && mt_cuda_fits(a->b, element, 0, n) &&
                       mt_cuda_fits(a->y, element, 0, n);
    mt_cuda_dispatch(a->dtype, packs, [&](auto kind) {
        typedef typename decltype(kind)::type T;
        constexpr int V = decltype(kind)::packs;
        MT_LAUNCH((add_kernel<T, V>), mt_elementwise_grid(a->count, V), dim3(MT_ELEMENTWISE_THREADS), 0,
                  stream->handle, static_cast<const T *>(a->a), static_cast<const T *>(a->b),
                  static_cast<T *>(a->y), a->count, a->scale, static_cast<const T *>(a->factor));
    });
    return mt_cuda_end(stream, "add");
}
