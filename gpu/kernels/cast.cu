/* dst = src in another type: fp32 to bf16 to nearest even, bf16 to fp32 exactly. Eight elements a thread,
 * whatever the types: 16 bytes of the narrow one. */
#include "gpu/kernels/elementwise.h"

#define PACK 8

template <typename From, typename To, int V>
static __global__ void cast_kernel(const From *src, To *dst, size_t count)
{
    mt_each_of_all<V>(count, [&](auto width, size_t i) {
        constexpr int W = decltype(width)::count;
        float v[W];
        mt_load<From, W>(src + i, v);
        mt_store<To, W>(dst + i, v);
    });
}

template <typename From, typename To>
static void launch(struct mt_stream *stream, const struct mt_cast_args *a)
{
    const From *src = static_cast<const From *>(a->src);
    To *dst = static_cast<To *>(a->dst);
    const dim3 threads(MT_ELEMENTWISE_THREADS);
    if (mt_cuda_packs(a->src_dtype, {{src, 0}, {dst, 0}}))
        MT_LAUNCH((cast_kernel<From, To, PACK>), mt_elementwise_grid(a->count, PACK), threads, 0,
                  stream->handle, src, dst, a->count);
    else
        MT_LAUNCH((cast_kernel<From, To, 1>), mt_elementwise_grid(a->count, 1), threads, 0, stream->handle,
                  src, dst, a->count);
}

int mt_cuda_cast(struct mt_stream *stream, const struct mt_cast_args *a)
{
    if (!mt_cuda_data_dtype(a->src_dtype) || !mt_cuda_data_dtype(a->dst_dtype))
        return -EINVAL;
    if (!a->count)
        return 0;
    if (!a->src || !a->dst)
        return -EINVAL;
    const int code = mt_cuda_begin(stream);
    if (code)
        return code;
    mt_cuda_dispatch(a->src_dtype, true, [&](auto from) {
        mt_cuda_dispatch(a->dst_dtype, true, [&](auto to) {
            launch<typename decltype(from)::type, typename decltype(to)::type>(stream, a);
        });
    });
    return mt_cuda_end(stream, "cast");
}
