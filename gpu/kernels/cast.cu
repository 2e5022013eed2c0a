/* dst = src in another type: fp32 to bf16 to nearest even, bf16 to fp32 exactly. Eight elements a thread,
 * whatever the types. */
#include "gpu/kernels/elementwise.h"

#define PACK 8

/* Eight elements as packs of at most 16 bytes. */
template <typename T> static __device__ void load_eight(const T *from, float *to)
{
    constexpr int V = mt_elements<T>::count;
    for (int i = 0; i < PACK; i += V)
        mt_load<T, V>(from + i, to + i);
}

template <typename T> static __device__ void store_eight(T *to, const float *from)
{
    constexpr int V = mt_elements<T>::count;
    for (int i = 0; i < PACK; i += V)
        mt_store<T, V>(to + i, from + i);
}

template <typename From, typename To>
static __global__ void cast_kernel(const From *src, To *dst, size_t count, size_t whole)
{
    const size_t thread = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    const size_t threads = (size_t)gridDim.x * blockDim.x;
    for (size_t i = thread; i < whole; i += threads) {
        float v[PACK];
        load_eight<From>(src + i * PACK, v);
        store_eight<To>(dst + i * PACK, v);
    }
    for (size_t i = whole * PACK + thread; i < count; i += threads)
        dst[i] = mt_narrow<To>(mt_widen(src[i]));
}

template <typename From, typename To>
static void launch(struct mt_stream *stream, const struct mt_cast_args *a)
{
    const bool packs =
        reinterpret_cast<uintptr_t>(a->src) % 16 == 0 && reinterpret_cast<uintptr_t>(a->dst) % 16 == 0;
    MT_LAUNCH((cast_kernel<From, To>), mt_elementwise_grid(a->count, packs ? PACK : 1),
              dim3(MT_ELEMENTWISE_THREADS), 0, stream->handle, static_cast<const From *>(a->src),
              static_cast<To *>(a->dst), a->count, packs ? a->count / PACK : 0);
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
    if (a->src_dtype == MT_BF16) {
        if (a->dst_dtype == MT_BF16)
            launch<mt_bf16, mt_bf16>(stream, a);
        else
            launch<mt_bf16, float>(stream, a);
    } else {
        if (a->dst_dtype == MT_BF16)
            launch<float, mt_bf16>(stream, a);
        else
            launch<float, float>(stream, a);
    }
    return mt_cuda_end(stream, "cast");
}
