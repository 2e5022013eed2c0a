/* Planted faults: each is a program that is wrong on a real device, and must be reported here, by name and
 * place. The program is this test, started again with the fault's name. */
#include "tests/cudasim/testing.h"

#include <cublas_v2.h>

static __global__ void write_past(float *x, unsigned count)
{
    for (unsigned i = threadIdx.x; i < count; i += blockDim.x)
        x[i] = 1.0f;
}

/* Half of the block takes the other branch's barrier. */
static __global__ void two_barriers(int *x)
{
    if (threadIdx.x < 32)
        __syncthreads();
    else
        __syncthreads();
    x[threadIdx.x] = 1;
}

static __global__ void barrier_of_some(int *x)
{
    if (threadIdx.x % 2) {
        __syncthreads();
        x[threadIdx.x] = 1;
    } else {
        x[threadIdx.x] = __shfl_sync(0xffffffffu, 1, 0);
    }
}

static __global__ void diverging_shuffle(int *x)
{
    int value = (int)threadIdx.x;
    if (value < 16)
        value = __shfl_down_sync(0xffffffffu, value, 1u);
    else
        value = __shfl_down_sync(0xffffffffu, value, 2u);
    x[threadIdx.x] = value;
}

static __global__ void lane_ends_before_shuffle(int *x)
{
    if (threadIdx.x == 7)
        return;
    x[threadIdx.x] = __shfl_xor_sync(0xffffffffu, (int)threadIdx.x, 1);
}

static __global__ void partial_mask(int *x)
{
    x[threadIdx.x] = __shfl_xor_sync(0xffffu, (int)threadIdx.x, 1);
}

static __global__ void shuffle_whole(int *x)
{
    x[threadIdx.x] = __shfl_xor_sync(0xffffffffu, (int)threadIdx.x, 1);
}

static __global__ void vectors(float4 *x)
{
    x[threadIdx.x] = make_float4(1, 2, 3, 4);
}

static __global__ void past_shared(int *x, int index)
{
    MT_DYNAMIC_SHARED(int, all);
    all[index] = 1;
    x[0] = all[0];
}

static __global__ void too_much_shared(int *x)
{
    MT_SHARED(float, all, [13000]);
    all[threadIdx.x] = 1;
    x[0] = (int)all[0];
}

static int run_all(cudaStream_t stream)
{
    cudaStreamSynchronize(stream);
    return 0;
}

static int past_the_end(void)
{
    fixture<float> f(1000);
    MT_LAUNCH(write_past, 1, 32, 0, f.stream, f.device, 1024u + 1);
    return run_all(f.stream);
}

static int after_free(void)
{
    fixture<float> f(1000);
    float *other;
    cudaMalloc(&other, 4000);
    cudaFree(other);
    MT_LAUNCH(write_past, 1, 32, 0, f.stream, other, 1000u);
    return run_all(f.stream);
}

static int copy_after_free(void)
{
    fixture<float> f(1000);
    float *other;
    cudaMalloc(&other, 4000);
    cudaFree(other);
    return cudaMemcpyAsync(f.device, other, 4000, cudaMemcpyDeviceToDevice, f.stream) == cudaErrorInvalidValue
               ? 77
               : 0;
}

static int host_reads_freed(void)
{
    float *host;
    cudaStream_t stream;
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    cudaMallocHost(&host, 4000);
    cudaFreeHost(host);
    return *(volatile float *)host > 0;
}

static int host_memory_in_kernel(void)
{
    fixture<float> f(10);
    MT_LAUNCH(write_past, 1, 32, 0, f.stream, (float *)NULL, 10u);
    return run_all(f.stream);
}

static int misaligned_vector(void)
{
    fixture<float> f(1000);
    MT_LAUNCH(vectors, 1, 32, 0, f.stream, reinterpret_cast<float4 *>(f.device + 1));
    return run_all(f.stream);
}

static int unpinned_copy(void)
{
    fixture<float> f(1000);
    float *pageable = (float *)malloc(4000);
    const cudaError_t error = cudaMemcpyAsync(f.device, pageable, 4000, cudaMemcpyHostToDevice, f.stream);
    free(pageable);
    return error == cudaErrorInvalidValue ? 77 : 0;
}

template <void (*kernel)(int *), unsigned threads> static int with_ints(void)
{
    fixture<int> f(1024);
    MT_LAUNCH(kernel, 1, threads, 0, f.stream, f.device);
    return run_all(f.stream);
}

static int past_dynamic_shared(void)
{
    fixture<int> f(10);
    MT_LAUNCH(past_shared, 1, 1, 64, f.stream, f.device, 16);
    return run_all(f.stream);
}

static int default_stream(void)
{
    fixture<int> f(10);
    cudaMemsetAsync(f.device, 0, 40, NULL);
    return 0;
}

static int host_operand(void)
{
    fixture<float> f(100);
    cublasHandle_t handle;
    cublasCreate(&handle);
    cublasSetStream(handle, f.stream);
    const float one = 1, zero = 0;
    const cublasStatus_t status = cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, 5, 5, 5, &one, f.host, 5,
                                              f.device, 5, &zero, f.device + 50, 5);
    return status == CUBLAS_STATUS_EXECUTION_FAILED ? 77 : 0;
}

/* Ends itself (77: the call was refused) and says all of `says`. */
static const struct {
    const char *name;
    int (*run)(void);
    bool ends_process;
    const char *says[3];
} faults[] = {
    {"past the end",
     past_the_end,
     true,
     {"write_past", "past the end of 4000 bytes of device memory", "block (0, 0, 0)"}},
    {"kernel after free", after_free, true, {"write_past", "bytes that were freed", "thread (0, 0, 0)"}},
    {"copy after free", copy_after_free, false, {"cudaMemcpyAsync", "that were freed", "source"}},
    {"host after free", host_reads_freed, true, {"the host touches", "that were freed", ""}},
    {"kernel at NULL", host_memory_in_kernel, true, {"write_past", "NULL", ""}},
    {"misaligned vector", misaligned_vector, true, {"misaligned", "float4", "test_faults.cc"}},
    {"unpinned copy", unpinned_copy, false, {"cudaMemcpyAsync", "not pinned", "4000 bytes"}},
    {"two barriers",
     with_ints<two_barriers, 64>,
     true,
     {"different barriers", "test_faults.cc", "thread (32, 0, 0)"}},
    {"barrier of some", with_ints<barrier_of_some, 32>, true, {"hangs", "__syncthreads", "__shfl_sync"}},
    {"diverging shuffle",
     with_ints<diverging_shuffle, 32>,
     true,
     {"apart", "__shfl_down_sync", "test_faults.cc"}},
    {"lane ended",
     with_ints<lane_ends_before_shuffle, 32>,
     true,
     {"ended", "__shfl_xor_sync", "test_faults.cc"}},
    {"partial mask", with_ints<partial_mask, 32>, true, {"full masks", "0xffff", "test_faults.cc"}},
    {"partial warp", with_ints<shuffle_whole, 48>, true, {"warp of only 16 threads", "__shfl_xor_sync", ""}},
    {"past shared memory", past_dynamic_shared, true, {"illegal access", "past_shared", ""}},
    {"too much shared memory",
     with_ints<too_much_shared, 32>,
     true,
     {"static shared memory", "all", "52000"}},
    {"default stream", default_stream, true, {"cudaMemsetAsync", "default stream", ""}},
    {"operand on the host",
     host_operand,
     false,
     {"cublasSgemm", "A needs 100 bytes of device memory", "pinned host"}},
};

static void every_planted_fault_is_reported(void **)
{
    for (const auto &fault : faults) {
        char text[8192];
        const int status = run_again(fault.name, NULL, text, sizeof text);
        const bool ended =
            WIFSIGNALED(status) || (WIFEXITED(status) && WEXITSTATUS(status) == 1); /* a sanitizer's */
        if (fault.ends_process ? !ended : !WIFEXITED(status) || WEXITSTATUS(status) != 77)
            fail_msg("%s: status %#x: %s", fault.name, (unsigned)status, text);
        for (const char *what : fault.says)
            if (!strstr(text, what))
                fail_msg("%s: \"%s\" is not in: %s", fault.name, what, text);
    }
}

/* The same programs without the fault end well: it is the fault that is reported. */
static int nothing_wrong(void)
{
    fixture<float> f(1024);
    MT_LAUNCH(write_past, 1, 32, 0, f.stream, f.device, 1024u);
    MT_LAUNCH(vectors, 1, 32, 0, f.stream, reinterpret_cast<float4 *>(f.device));
    fixture<int> g(64);
    MT_LAUNCH(shuffle_whole, 1, 64, 0, g.stream, g.device);
    MT_LAUNCH(past_shared, 1, 1, 64, g.stream, g.device, 15);
    GOOD(cudaStreamSynchronize(f.stream));
    GOOD(cudaStreamSynchronize(g.stream));
    return 0;
}

static void sound_programs_end_well(void **)
{
    char text[4096];
    const int status = run_again("nothing wrong", NULL, text, sizeof text);
    if (!WIFEXITED(status) || WEXITSTATUS(status) || *text)
        fail_msg("status %#x: %s", (unsigned)status, text);
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "nothing wrong"))
        return nothing_wrong();
    for (const auto &fault : faults)
        if (argc > 1 && !strcmp(argv[1], fault.name))
            return fault.run();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_planted_fault_is_reported),
        cmocka_unit_test(sound_programs_end_well),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
