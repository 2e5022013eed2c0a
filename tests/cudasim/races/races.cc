/* Programs that test_races starts, always built under ThreadSanitizer: with all its waits each is clean,
 * without one of them it races.
 *
 *     races "all waits" | "copy before kernel" | ... | "both barriers" | ...
 *
 * Weights come in on one stream, are used on a second, results leave on a third, one buffer each, so that
 * every direction needs an event; every other round uses a library's product, which ThreadSanitizer cannot
 * see into.
 */
#include "tests/cudasim/testing.h"

#include <cublas_v2.h>

enum { ROUNDS = 8, DIM = 24, COUNT = DIM * DIM };

static const char *const waits[] = {"copy before kernel", "kernel before copy back",
                                    "kernel before next copy", "copy back before next kernel",
                                    "host before its buffer"};
enum { WAITS = sizeof waits / sizeof *waits };

static __global__ void add(const float *a, const float *b, float *y, int count)
{
    const int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < count)
        y[i] = a[i] + b[i];
}

static int pipeline(int without)
{
    cudaStream_t in, compute, out;
    cudaEvent_t arrived, computed, left;
    float *weights, *x, *y, *host_in, *host_out;
    cublasHandle_t blas;
    const float one = 1, zero = 0;
    GOOD(cudaStreamCreateWithFlags(&in, cudaStreamNonBlocking));
    GOOD(cudaStreamCreateWithFlags(&compute, cudaStreamNonBlocking));
    GOOD(cudaStreamCreateWithFlags(&out, cudaStreamNonBlocking));
    GOOD(cudaEventCreateWithFlags(&arrived, cudaEventDisableTiming));
    GOOD(cudaEventCreateWithFlags(&computed, cudaEventDisableTiming));
    GOOD(cudaEventCreateWithFlags(&left, cudaEventDisableTiming));
    GOOD(cublasCreate(&blas));
    GOOD(cublasSetStream(blas, compute));
    GOOD(cudaMalloc(&weights, COUNT * sizeof(float)));
    GOOD(cudaMalloc(&x, COUNT * sizeof(float)));
    GOOD(cudaMalloc(&y, COUNT * sizeof(float)));
    GOOD(cudaHostAlloc(&host_in, ROUNDS * COUNT * sizeof(float), 0));
    GOOD(cudaHostAlloc(&host_out, ROUNDS * COUNT * sizeof(float), 0));
    GOOD(cudaMemsetAsync(x, 0, COUNT * sizeof(float), compute));
    for (int i = 0; i < ROUNDS * COUNT; i++)
        host_in[i] = (float)(i % COUNT);
    for (int round = 0; round < ROUNDS; round++) {
        if (without != 2)
            GOOD(cudaStreamWaitEvent(in, computed, 0));
        GOOD(cudaMemcpyAsync(weights, host_in + round * COUNT, COUNT * sizeof(float), cudaMemcpyHostToDevice,
                             in));
        GOOD(cudaEventRecord(arrived, in));
        if (without != 0)
            GOOD(cudaStreamWaitEvent(compute, arrived, 0));
        if (without != 3)
            GOOD(cudaStreamWaitEvent(compute, left, 0));
        /* Every other round through the library, which ThreadSanitizer cannot see into. */
        if (round % 2)
            GOOD(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, DIM, DIM, DIM, &one, x, DIM, weights, DIM, &zero,
                             y, DIM));
        else
            MT_LAUNCH(add, (COUNT + 63) / 64, 64, 0, compute, x, weights, y, (int)COUNT);
        GOOD(cudaEventRecord(computed, compute));
        if (without != 1)
            GOOD(cudaStreamWaitEvent(out, computed, 0));
        GOOD(
            cudaMemcpyAsync(host_out + round * COUNT, y, COUNT * sizeof(float), cudaMemcpyDeviceToHost, out));
        GOOD(cudaEventRecord(left, out));
    }
    if (without != 4)
        GOOD(cudaEventSynchronize(left));
    double sum = 0;
    for (int i = 0; i < ROUNDS * COUNT; i++)
        sum += (double)host_out[i];
    cudaStreamDestroy(in);
    cudaStreamDestroy(compute);
    cudaStreamDestroy(out);
    return sum < 0;
}

/* ---- within a block ---- */

template <bool first, bool second> static __global__ void sums(const float *x, float *y)
{
    MT_SHARED(float, part, [4]);
    float value = x[blockIdx.x * blockDim.x + threadIdx.x];
    for (int step = 16; step; step /= 2)
        value += __shfl_xor_sync(0xffffffffu, value, step);
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = value;
    if (first)
        __syncthreads();
    if (threadIdx.x == 0)
        part[0] = part[0] + part[1] + part[2] + part[3];
    if (second)
        __syncthreads();
    y[blockIdx.x * blockDim.x + threadIdx.x] = part[0];
}

/* Shuffles order nothing: what a lane has written, another may not read before the warp has met. */
template <bool meet> static __global__ void within_warp(const float *x, float *y)
{
    MT_SHARED(float, line, [128]);
    line[threadIdx.x] = x[threadIdx.x];
    if (meet)
        __syncwarp();
    else
        y[threadIdx.x] = __shfl_sync(0xffffffffu, 1.0f, 0);
    y[threadIdx.x] = line[threadIdx.x ^ 31u];
}

template <void (*kernel)(const float *, float *)> static int in_block(void)
{
    fixture<float> x(256), y(256);
    for (int i = 0; i < 256; i++)
        x.host[i] = 1;
    x.push();
    GOOD(cudaStreamSynchronize(x.stream));
    MT_LAUNCH(kernel, 2, 128, 0, y.stream, x.device, y.device);
    y.pull();
    return 0;
}

static const struct {
    const char *name;
    int (*run)(void);
} blocks[] = {
    {"both barriers", in_block<sums<true, true>>},
    {"no first barrier", in_block<sums<false, true>>},
    {"no second barrier", in_block<sums<true, false>>},
    {"a warp that meets", in_block<within_warp<true>>},
    {"a warp that only exchanges", in_block<within_warp<false>>},
};

extern "C" const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
    return "history_size=7:halt_on_error=0:exitcode=66";
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 1;
    for (const auto &block : blocks)
        if (!strcmp(argv[1], block.name))
            return block.run();
    for (int without = 0; without < WAITS; without++)
        if (!strcmp(argv[1], waits[without]))
            return pipeline(without);
    return strcmp(argv[1], "all waits") ? 1 : pipeline(WAITS);
}
