/* y = a + scale * b, element by element; in place where y is a or b. Without a: y = scale * b. The scale may
 * be multiplied by a number that lies on the device. */
#include "gpu/kernels/elementwise.h"

template <typename T, int V>
static __global__ void add_kernel(const T *a, const T *b, T *y, size_t count, float scale, const T *factor)
{
    if (factor)
        scale *= mt_widen(*factor);
    mt_each_of_all<V>(count, [&](auto width, size_t i) {
        constexpr int W = decltype(width)::count;
        float va[W], vb[W];
        mt_load<T, W>(b + i, vb);
        if (a)
            mt_load<T, W>(a + i, va);
        for (int j = 0; j < W; j++)
            vb[j] = a ? va[j] + scale * vb[j] : scale * vb[j];
        mt_store<T, W>(y + i, vb);
    });
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
    const bool packs = mt_cuda_packs(a->dtype, {{a->a, 0}, {a->b, 0}, {a->y, 0}});
    mt_cuda_dispatch(a->dtype, packs, [&](auto kind) {
        typedef typename decltype(kind)::type T;
        constexpr int V = decltype(kind)::packs;
        MT_LAUNCH((add_kernel<T, V>), mt_elementwise_grid(a->count, V), dim3(MT_ELEMENTWISE_THREADS), 0,
                  stream->handle, static_cast<const T *>(a->a), static_cast<const T *>(a->b),
                  static_cast<T *>(a->y), a->count, a->scale, static_cast<const T *>(a->factor));
    });
    return mt_cuda_end(stream, "add");
}
