/* dtable[ids[t]] += dout[t], in token order, so that the bits are always the same (and the CPU's).
 *
 * Tokens are sorted by id, those of one id by place; then the first token of each id adds the rows of all its
 * fellows, one after another. Nothing is added by two threads, and nothing is atomic. The keys (id, place)
 * are all different, so the sorted order is one whatever sorts them:
 *
 *   tiles   of TILE keys, each key's place among its tile by counting the smaller ones
 *   merges  of RUNS runs each: a key's place is its place in its own run and, by binary search, that among
 *           the others; so 16 Ki tokens are two passes, and a million four
 *   sums    a block a key and a strip of columns; blocks whose key is not the first of its id end at once
 *
 * Keys lie in half of the stream's scratch at a time; more tokens than fit are added piece by piece, in
 * order. The sums read dout once; what else is read, 8 bytes a token and pass, is little beside a row of it.
 */
#include "gpu/kernels/elementwise.h"

#define TILE 256u
#define RUNS 8u
#define THREADS 128
#define AHEAD 4 /* rows of dout that are on their way at a time */
#define MOST (MT_CUDA_PARTS_BYTES / 2 / sizeof(uint64_t))

/* An id that is none (a fault is told) becomes the largest of all; it has no row. */
static __global__ void sort_tiles(const int32_t *ids, uint64_t *sorted, unsigned count, size_t place,
                                  size_t vocab_size, volatile unsigned long long *fault)
{
    MT_SHARED(uint64_t, keys, [TILE]);
    const unsigned first = blockIdx.x * TILE, own = first + threadIdx.x;
    const unsigned here = count - first < TILE ? count - first : TILE;
    uint64_t key = 0;
    if (own < count) {
        const int32_t id = ids[own];
        if (id < 0 || (size_t)id >= vocab_size)
            mt_fault(fault, MT_CUDA_FAULT_TOKEN, place + own, id);
        key = (uint64_t)(uint32_t)id << 32 | own;
        keys[threadIdx.x] = key;
    }
    __syncthreads();
    if (own >= count)
        return;
    unsigned smaller = 0;
    for (unsigned i = 0; i < here; i++)
        smaller += keys[i] < key;
    sorted[first + smaller] = key;
}

/* How many of `count` sorted keys are smaller. */
static __device__ unsigned smaller_of(const uint64_t *keys, unsigned count, uint64_t key)
{
    unsigned first = 0;
    while (count > 0) {
        const unsigned half = count / 2;
        if (keys[first + half] < key) {
            first += half + 1;
            count -= half + 1;
        } else {
            count = half;
        }
    }
    return first;
}

/* Runs of `length` become runs of RUNS times as many. */
static __global__ void merge_runs(const uint64_t *from, uint64_t *to, unsigned count, unsigned length)
{
    const unsigned own = blockIdx.x * blockDim.x + threadIdx.x;
    if (own >= count)
        return;
    const unsigned group = own / length / RUNS * RUNS; /* the first run of those that meet */
    const uint64_t key = from[own];
    unsigned place = group * length;
    for (unsigned run = group; run < group + RUNS && run * length < count; run++) {
        const unsigned first = run * length, there = count - first < length ? count - first : length;
        place += run == own / length ? own - first : smaller_of(from + first, there, key);
    }
    to[place] = key;
}

template <typename T, int V>
static __global__ void add_rows(const uint64_t *sorted, const T *dout, float *dtable, unsigned count,
                                size_t hidden, size_t vocab_size)
{
    const unsigned own = blockIdx.x;
    const uint64_t id = sorted[own] >> 32;
    const size_t i = ((size_t)blockIdx.y * blockDim.x + threadIdx.x) * V;
    if ((own && sorted[own - 1] >> 32 == id) || id >= vocab_size || i >= hidden)
        return;
    float sum[V], rows[AHEAD][V];
    float *to = dtable + (size_t)id * hidden + i;
    mt_load<float, V>(to, sum);
    for (unsigned at = own, ahead = AHEAD; ahead == AHEAD; at += AHEAD) {
        ahead = 0;
#pragma unroll
        for (unsigned r = 0; r < AHEAD; r++)
            if (at + r < count && sorted[at + r] >> 32 == id) {
                mt_load<T, V>(dout + (size_t)(uint32_t)sorted[at + r] * hidden + i, rows[r]);
                ahead = r + 1;
            }
#pragma unroll
        for (unsigned r = 0; r < AHEAD; r++)
            for (int j = 0; j < V && r < ahead; j++)
                sum[j] += rows[r][j];
    }
    mt_store<float, V>(to, sum);
}

/* At most MOST tokens, the first of which has place `place` in the batch. */
static void add_piece(struct mt_stream *stream, const struct mt_embedding_backward_args *a, uint64_t *keys,
                      size_t place, unsigned count)
{
    uint64_t *sorted = keys, *other = keys + MOST;
    const unsigned tiles = static_cast<unsigned>(mt_cuda_ceil_div(count, TILE));
    MT_LAUNCH(sort_tiles, dim3(tiles), dim3(TILE), 0, stream->handle, a->ids + place, sorted, count, place,
              a->vocab_size, stream->device->fault_word);
    for (unsigned length = TILE; length < count; length *= RUNS) {
        MT_LAUNCH(merge_runs, dim3(tiles), dim3(TILE), 0, stream->handle,
                  static_cast<const uint64_t *>(sorted), other, count, length);
        uint64_t *const merged = other;
        other = sorted;
        sorted = merged;
    }
    const void *dout = static_cast<const char *>(a->dout) + place * a->hidden * mt_dtype_bytes(a->dtype);
    const bool packs =
        mt_cuda_packs(a->dtype, {{dout, a->hidden}}) && mt_cuda_packs(MT_F32, {{a->dtable, 0}});
    mt_cuda_dispatch(a->dtype, packs, [&](auto kind) {
        typedef typename decltype(kind)::type T;
        constexpr int V = decltype(kind)::packs;
        const dim3 grid(count, static_cast<unsigned>(mt_cuda_ceil_div(a->hidden, (size_t)V * THREADS)));
        MT_LAUNCH((add_rows<T, V>), grid, dim3(THREADS), 0, stream->handle,
                  static_cast<const uint64_t *>(sorted), static_cast<const T *>(dout), a->dtable, count,
                  a->hidden, a->vocab_size);
    });
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
    uint64_t *keys = reinterpret_cast<uint64_t *>(mt_cuda_parts(stream));
    if (!keys)
        return mt_cuda_fault_code(stream->device);
    for (size_t place = 0; place < a->tokens; place += MOST)
        add_piece(stream, a, keys, place, static_cast<unsigned>(mt_size_min(MOST, a->tokens - place)));
    return mt_cuda_end(stream, "embedding_backward");
}
