/* Rows of a table: out[t] = table[ids[t]]. A block is a token; its threads take eight elements at a time,
 * whatever the types. */
#include "gpu/kernels/elementwise.h"

#define THREADS 128
#define PACK 8

template <typename From, typename To, int V>
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
        To *to = out + t * hidden;
        mt_each<V>(0, hidden, threadIdx.x, blockDim.x, [&](auto width, size_t i) {
            constexpr int W = decltype(width)::count;
            float v[W];
            mt_load<From, W>(row + i, v);
            mt_store<To, W>(to + i, v);
        });
    }
}

template <typename From, typename To>
static void launch(struct mt_stream *stream, const struct mt_embedding_args *a)
{
    const From *table = static_cast<const From *>(a->table);
    To *out = static_cast<To *>(a->out);
    const dim3 grid(mt_cuda_blocks(a->tokens, 65535)), threads(THREADS);
    if (mt_cuda_packs(a->table_dtype, {{table, a->hidden}}) && mt_cuda_packs(a->dtype, {{out, a->hidden}}))
        MT_LAUNCH((gather<From, To, PACK>), grid, threads, 0, stream->handle, a->ids, table, out, a->tokens,
                  a->hidden, a->vocab_size, stream->device->fault_word);
    else
        MT_LAUNCH((gather<From, To, 1>), grid, threads, 0, stream->handle, a->ids, table, out, a->tokens,
                  a->hidden, a->vocab_size, stream->device->fault_word);
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
    mt_cuda_dispatch(a->table_dtype, true, [&](auto from) {
        mt_cuda_dispatch(a->dtype, true, [&](auto to) {
            launch<typename decltype(from)::type, typename decltype(to)::type>(stream, a);
        });
    });
    return mt_cuda_end(stream, "embedding");
}
