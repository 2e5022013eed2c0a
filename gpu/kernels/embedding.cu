/* Rows of a table.
 *
 *   forward   out[t] = table[ids[t]]
 *   backward  dtable[ids[t]] += dout[t], in token order: the first token with an id adds the rows of all
 *             tokens with that id, one after another, so nothing is added by two threads and nothing is
 * atomic
 */
#include "gpu/kernels/kernel.h"

#define THREADS 128

template <typename From, typename To>
static __global__ void gather(const int32_t *ids, const From *table, To *out, size_t tokens, size_t hidden,
                              size_t vocab_size, volatile unsigned long long *fault)
{
    for (size_t t = blockIdx.x; t < tokens; t += gridDim.x) {
        const int32_t id = ids[t];
        if (id < 0 || (size_t)id >= vocab_size) {
            if (threadIdx.x == 0)
                mt_fault(fault, MT_CUDA_FAULT_TOKEN, t, id);
            continue;
        }
        const From *row = table + (size_t)id * hidden;
        for (size_t i = threadIdx.x; i < hidden; i += blockDim.x)
            out[t * hidden + i] = mt_narrow<To>(mt_widen(row[i]));
    }
}

/* The same type on both sides, in packs. */
template <typename T, int V>
static __global__ void gather_packs(const int32_t *ids, const T *table, T *out, size_t tokens, size_t hidden,
                                    size_t vocab_size, volatile unsigned long long *fault)
{
    for (size_t t = blockIdx.x; t < tokens; t += gridDim.x) {
        const int32_t id = ids[t];
        if (id < 0 || (size_t)id >= vocab_size) {
            if (threadIdx.x == 0)
                mt_fault(fault, MT_CUDA_FAULT_TOKEN, t, id);
            continue;
        }
        const mt_pack<T, V> *row = reinterpret_cast<const mt_pack<T, V> *>(table + (size_t)id * hidden);
        mt_pack<T, V> *to = reinterpret_cast<mt_pack<T, V> *>(out + t * hidden);
        for (size_t i = threadIdx.x; i < hidden / V; i += blockDim.x)
            to[i] = row[i];
    }
}

template <typename T> static void launch_packs(struct mt_stream *stream, const struct mt_embedding_args *a)
{
    constexpr int V = mt_elements<T>::count;
    MT_LAUNCH((gather_packs<T, V>), dim3(mt_cuda_blocks(a->tokens, 65535)), dim3(THREADS), 0, stream->handle,
              a->ids, static_cast<const T *>(a->table), static_cast<T *>(a->out), a->tokens, a->hidden,
              a->vocab_size, stream->device->fault_word);
}

template <typename From, typename To>
static void launch_gather(struct mt_stream *stream, const struct mt_embedding_args *a)
{
    MT_LAUNCH((gather<From, To>), dim3(mt_cuda_blocks(a->tokens, 65535)), dim3(THREADS), 0, stream->handle,
              a->ids, static_cast<const From *>(a->table), static_cast<To *>(a->out), a->tokens, a->hidden,
              a->vocab_size, stream->device->fault_word);
}

int mt_cuda_embedding(struct mt_stream *stream, const struct mt_embedding_args *a)
{
    if (!mt_cuda_data_dtype(a->dtype) || !mt_cuda_data_dtype(a->table_dtype))
        return -EINVAL;
    if (!a->tokens || !a->hidden)
        return 0;
    if (!a->ids || !a->table || !a->out)
        return -EINVAL;
    const int code = mt_cuda_begin(stream);
    if (code)
        return code;
    const size_t element = mt_dtype_bytes(a->dtype), count = 16 / element;
    if (a->dtype == a->table_dtype && mt_cuda_fits(a->table, element, a->hidden, count) &&
        mt_cuda_fits(a->out, element, a->hidden, count)) {
        if (a->dtype == MT_BF16)
            launch_packs<mt_bf16>(stream, a);
        else
            launch_packs<float>(stream, a);
    } else if (a->dtype == MT_BF16) {
        if (a->table_dtype == MT_BF16)
            launch_gather<mt_bf16, mt_bf16>(stream, a);
        else
            launch_gather<float, mt_bf16>(stream, a);
    } else {
        if (a->table_dtype == MT_BF16)
            launch_gather<mt_bf16, float>(stream, a);
        else
            launch_gather<float, float>(stream, a);
    }
    return mt_cuda_end(stream, "embedding");
}

/* A block is a token and a strip of columns. */
template <typename T>
static __global__ void scatter(const int32_t *ids, const T *dout, float *dtable, size_t tokens, size_t hidden,
                               size_t vocab_size, volatile unsigned long long *fault)
{
    const size_t t = blockIdx.x, column = (size_t)blockIdx.y * blockDim.x + threadIdx.x;
    const int32_t id = ids[t];
    if (id < 0 || (size_t)id >= vocab_size) {
        if (threadIdx.x == 0)
            mt_fault(fault, MT_CUDA_FAULT_TOKEN, t, id);
        return;
    }
    for (size_t before = 0; before < t; before++)
        if (ids[before] == id)
            return;
    if (column >= hidden)
        return;
    float sum = dtable[(size_t)id * hidden + column];
    for (size_t other = t; other < tokens; other++)
        if (ids[other] == id)
            sum += mt_widen(dout[other * hidden + column]);
    dtable[(size_t)id * hidden + column] = sum;
}

int mt_cuda_embedding_backward(struct mt_stream *stream, const struct mt_embedding_backward_args *a)
{
    if (!mt_cuda_data_dtype(a->dtype))
        return -EINVAL;
    if (!a->tokens || !a->hidden)
        return 0;
    if (!a->ids || !a->dout || !a->dtable || a->tokens > 0x7fffffffu)
        return -EINVAL;
    const int code = mt_cuda_begin(stream);
    if (code)
        return code;
    const dim3 grid(static_cast<unsigned>(a->tokens),
                    static_cast<unsigned>(mt_cuda_ceil_div(a->hidden, THREADS)));
    if (a->dtype == MT_BF16)
        MT_LAUNCH((scatter<mt_bf16>), grid, dim3(THREADS), 0, stream->handle, a->ids,
                  static_cast<const mt_bf16 *>(a->dout), a->dtable, a->tokens, a->hidden, a->vocab_size,
                  stream->device->fault_word);
    else
        MT_LAUNCH((scatter<float>), grid, dim3(THREADS), 0, stream->handle, a->ids,
                  static_cast<const float *>(a->dout), a->dtable, a->tokens, a->hidden, a->vocab_size,
                  stream->device->fault_word);
    return mt_cuda_end(stream, "embedding_backward");
}
