/* Kernels on the simulated device: the grid, barriers, exchanges between lanes, shared memory, atomics,
 * rounding. */
#include "tests/cudasim/testing.h"

/* ---- the grid ---- */

static __global__ void mark(int *seen, unsigned width, unsigned height)
{
    const unsigned x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    const unsigned z = blockIdx.z * blockDim.z + threadIdx.z;
    atomicAdd(&seen[(z * height + y) * width + x], 1);
}

static void each_thread_of_each_block_runs_once(void **)
{
    const unsigned width = 3 * 5, height = 2 * 4, depth = 2 * 3;
    fixture<int> f(width * height * depth);
    GOOD(cudaMemsetAsync(f.device, 0, f.count * sizeof(int), f.stream));
    MT_LAUNCH(mark, dim3(3, 2, 2), dim3(5, 4, 3), 0, f.stream, f.device, width, height);
    f.pull();
    for (size_t i = 0; i < f.count; i++)
        assert_int_equal(f.host[i], 1);
}

/* ---- barriers ---- */

/* Each thread reads what another wrote before the barrier, many times over, in a block of odd size. */
static __global__ void rotate(int *values, int rounds)
{
    MT_SHARED(int, line, [2][193]);
    const unsigned n = blockDim.x, i = threadIdx.x;
    line[0][i] = values[blockIdx.x * n + i];
    __syncthreads();
    for (int round = 0; round < rounds; round++) {
        line[(round + 1) % 2][i] = line[round % 2][(i + 1) % n] + 1;
        __syncthreads();
    }
    values[blockIdx.x * n + i] = line[rounds % 2][i];
}

static void a_barrier_waits_for_the_whole_block(void **)
{
    const int n = 193, blocks = 3, rounds = 50;
    fixture<int> f((size_t)(n * blocks));
    for (int i = 0; i < n * blocks; i++)
        f.host[i] = i;
    f.push();
    MT_LAUNCH(rotate, blocks, n, 0, f.stream, f.device, rounds);
    f.pull();
    for (int block = 0; block < blocks; block++)
        for (int i = 0; i < n; i++)
            assert_int_equal(f.host[block * n + i], block * n + (i + rounds) % n + rounds);
}

/* Of this process, now. */
static size_t resident_bytes(void)
{
    size_t pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%*u %zu", &pages), 1);
    fclose(file);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* Also what a sanitizer keeps for each of them. */
static void threads_that_waited_leave_no_memory_behind(void **)
{
    size_t before = 0;
    for (int round = 0; round < 30; round++) {
        if (round == 5)
            before = resident_bytes();
        fixture<int> f(193);
        GOOD(cudaMemsetAsync(f.device, 0, f.count * sizeof(int), f.stream));
        MT_LAUNCH(rotate, 1, 193, 0, f.stream, f.device, 3);
        f.pull();
    }
    const size_t after = resident_bytes();
    assert_true(after < before + ((size_t)16 << 20));
}

static __global__ void leave_early(int *values)
{
    MT_SHARED(int, sum, );
    const int i = (int)threadIdx.x;
    if (i >= 40)
        return;
    if (i == 0)
        sum = 0;
    __syncthreads();
    atomicAdd(&sum, i);
    __syncthreads();
    values[i] = sum;
}

static void a_barrier_does_not_wait_for_threads_that_ended(void **)
{
    fixture<int> f(40);
    MT_LAUNCH(leave_early, 1, 100, 0, f.stream, f.device);
    f.pull();
    for (int i = 0; i < 40; i++)
        assert_int_equal(f.host[i], 780);
}

static __global__ void vote(int *values)
{
    const int i = (int)threadIdx.x;
    values[i * 3] = __syncthreads_count(i % 3 == 0);
    values[i * 3 + 1] = __syncthreads_or(i == 69);
    values[i * 3 + 2] = __syncthreads_and(i != 69);
}

static void barriers_count_votes(void **)
{
    fixture<int> f(210);
    MT_LAUNCH(vote, 1, 70, 0, f.stream, f.device);
    f.pull();
    for (int i = 0; i < 70; i++) {
        assert_int_equal(f.host[i * 3], 24);
        assert_int_equal(f.host[i * 3 + 1], 1);
        assert_int_equal(f.host[i * 3 + 2], 0);
    }
}

/* ---- lanes ---- */

enum { EXCHANGES = 8 };

static __global__ void exchange(int *values)
{
    const int i = (int)threadIdx.x;
    int *out = values + i * EXCHANGES;
    out[0] = __shfl_sync(0xffffffffu, i, 5);
    out[1] = __shfl_xor_sync(0xffffffffu, i, 3);
    out[2] = __shfl_down_sync(0xffffffffu, i, 4u);
    out[3] = __shfl_up_sync(0xffffffffu, i, 4u);
    out[4] = __shfl_down_sync(0xffffffffu, i, 4u, 8);
    out[5] = (int)__ballot_sync(0xffffffffu, i % 2);
    out[6] = __shfl_xor_sync(0xffffffffu, (double)i, 31) > 100.0;
    float sum = (float)i;
    for (int step = 16; step; step /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, step);
    out[7] = (int)sum;
}

static void lanes_exchange_values(void **)
{
    const int threads = 96;
    fixture<int> f(threads * EXCHANGES);
    MT_LAUNCH(exchange, 1, threads, 0, f.stream, f.device);
    f.pull();
    for (int i = 0; i < threads; i++) {
        const int *out = f.host + i * EXCHANGES, first = i / 32 * 32, lane = i % 32;
        assert_int_equal(out[0], first + 5);
        assert_int_equal(out[1], first + (lane ^ 3));
        assert_int_equal(out[2], lane < 28 ? i + 4 : i);
        assert_int_equal(out[3], lane >= 4 ? i - 4 : i);
        assert_int_equal(out[4], lane % 8 < 4 ? i + 4 : i);
        assert_int_equal(out[5], (int)0xaaaaaaaau);
        assert_int_equal(out[6], first + 31 - lane > 100);
        assert_int_equal(out[7], 32 * first + 496);
    }
}

/* Lanes write, meet, and read what others of the warp wrote, without a barrier of the block. */
static __global__ void within_warp(int *values)
{
    MT_SHARED(int, line, [64]);
    const unsigned i = threadIdx.x;
    line[i] = (int)i;
    __syncwarp();
    values[i] = line[i ^ 31u];
}

static void a_warp_can_wait_for_its_lanes(void **)
{
    fixture<int> f(64);
    MT_LAUNCH(within_warp, 1, 64, 0, f.stream, f.device);
    f.pull();
    for (int i = 0; i < 64; i++)
        assert_int_equal(f.host[i], i ^ 31);
}

/* ---- shared memory ---- */

static __global__ void unset(int *nan, unsigned dynamic_floats)
{
    MT_SHARED(float, fixed, [7][3]);
    MT_SHARED(double, one, );
    MT_DYNAMIC_SHARED(float, dynamic);
    int fresh = isnan(one);
    for (int i = 0; i < 21; i++)
        fresh += isnan(fixed[i / 3][i % 3]);
    for (unsigned i = 0; i < dynamic_floats; i++)
        fresh += isnan(dynamic[i]);
    fresh += (uintptr_t)dynamic % 16 == 0;
    nan[blockIdx.x] = fresh;
    for (int i = 0; i < 21; i++)
        fixed[i / 3][i % 3] = 1;
    one = 1;
    for (unsigned i = 0; i < dynamic_floats; i++)
        dynamic[i] = 1;
}

static void shared_memory_is_not_set_at_the_start_of_a_block(void **)
{
    fixture<int> f(3);
    MT_LAUNCH(unset, 3, 1, 13 * sizeof(float), f.stream, f.device, 13u);
    f.pull();
    for (int i = 0; i < 3; i++)
        assert_int_equal(f.host[i], 1 + 21 + 13 + 1);
}

template <class T> static __global__ void fill_shared(T *out, unsigned count)
{
    MT_DYNAMIC_SHARED(T, all);
    for (unsigned i = threadIdx.x; i < count; i += blockDim.x)
        all[i] = (T)i;
    __syncthreads();
    if (threadIdx.x == 0)
        *out = all[count - 1];
}

static void much_shared_memory_has_to_be_asked_for(void **)
{
    fixture<int> f(1);
    const unsigned count = 15000; /* 60 kB */
    MT_LAUNCH((fill_shared<int>), 1, 64, count * sizeof(int), f.stream, f.device, count);
    REFUSED(cudaGetLastError(), cudaErrorInvalidValue);
    REFUSED(cudaFuncSetAttribute(fill_shared<int>, cudaFuncAttributeMaxDynamicSharedMemorySize, 1 << 20),
            cudaErrorInvalidValue);
    GOOD(cudaFuncSetAttribute(fill_shared<int>, cudaFuncAttributeMaxDynamicSharedMemorySize, 60000));
    MT_LAUNCH((fill_shared<int>), 1, 64, count * sizeof(int), f.stream, f.device, count);
    GOOD(cudaGetLastError());
    f.pull();
    assert_int_equal(f.host[0], 14999);
}

static void grids_that_no_device_has_are_refused(void **)
{
    fixture<int> f(1);
    MT_LAUNCH((fill_shared<int>), 0, 32, 64, f.stream, f.device, 1u);
    REFUSED(cudaGetLastError(), cudaErrorInvalidConfiguration);
    MT_LAUNCH((fill_shared<int>), 1, 1025, 64, f.stream, f.device, 1u);
    REFUSED(cudaGetLastError(), cudaErrorInvalidConfiguration);
    MT_LAUNCH((fill_shared<int>), dim3(1, 65536), 32, 64, f.stream, f.device, 1u);
    REFUSED(cudaGetLastError(), cudaErrorInvalidConfiguration);
    GOOD(cudaStreamSynchronize(f.stream));
}

/* ---- atomics ---- */

static __global__ void add_up(float *sum, unsigned long long *count, int *largest)
{
    atomicAdd(sum, 0.5f);
    atomicAdd(count, 3ull);
    atomicMax(largest, (int)(blockIdx.x * blockDim.x + threadIdx.x));
}

/* From two streams at once. */
static void atomics_lose_nothing_between_streams(void **)
{
    struct results {
        float sum;
        int largest;
        unsigned long long count;
    };
    fixture<results> f(1);
    cudaStream_t other;
    GOOD(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    GOOD(cudaMemsetAsync(f.device, 0, sizeof(results), f.stream));
    GOOD(cudaStreamSynchronize(f.stream));
    for (int i = 0; i < 20; i++)
        MT_LAUNCH(add_up, 8, 64, 0, i % 2 ? other : f.stream, &f.device->sum, &f.device->count,
                  &f.device->largest);
    GOOD(cudaStreamSynchronize(other));
    f.pull();
    assert_true(f.host->sum == 20 * 512 * 0.5f);
    assert_int_equal(f.host->count, 20 * 512 * 3);
    assert_int_equal(f.host->largest, 511);
    GOOD(cudaStreamDestroy(other));
}

/* ---- bf16 ---- */

static __global__ void round_to_bf16(const float *from, __nv_bfloat16 *to, unsigned count)
{
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        to[i] = __float2bfloat16(from[i]);
}

static void bf16_is_rounded_to_nearest_even_and_every_nan_is_one(void **)
{
    const struct {
        unsigned bits;
        unsigned short expected;
    } cases[] = {{0x3f800000, 0x3f80}, {0x3f808000, 0x3f80}, {0x3f818000, 0x3f82}, {0x3f808001, 0x3f81},
                 {0x3f807fff, 0x3f80}, {0xbf818000, 0xbf82}, {0x7f7fffff, 0x7f80}, {0x7f800000, 0x7f80},
                 {0xff800000, 0xff80}, {0x7f800001, 0x7fff}, {0xffc12345, 0x7fff}, {0x80000000, 0x8000},
                 {0x00008000, 0x0000}, {0x00018000, 0x0002}, {0x007fffff, 0x0080}};
    const unsigned count = sizeof cases / sizeof *cases;
    fixture<float> f(count);
    fixture<__nv_bfloat16> to(count);
    for (unsigned i = 0; i < count; i++)
        memcpy(&f.host[i], &cases[i].bits, 4);
    f.push();
    GOOD(cudaStreamSynchronize(f.stream));
    MT_LAUNCH(round_to_bf16, 1, 32, 0, to.stream, f.device, to.device, count);
    to.pull();
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(__bfloat16_as_ushort(to.host[i]), cases[i].expected);
}

/* ---- many small blocks ---- */

static __global__ void add_one(float *x, size_t count)
{
    const size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count)
        x[i] += 1.0f;
}

static void kernels_of_a_stream_run_one_after_another(void **)
{
    fixture<float> f(100003);
    GOOD(cudaMemsetAsync(f.device, 0, f.count * sizeof(float), f.stream));
    for (int i = 0; i < 10; i++)
        MT_LAUNCH(add_one, (unsigned)((f.count + 255) / 256), 256, 0, f.stream, f.device, f.count);
    f.pull();
    for (size_t i = 0; i < f.count; i++)
        assert_true(f.host[i] == 10.0f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_thread_of_each_block_runs_once),
        cmocka_unit_test(a_barrier_waits_for_the_whole_block),
        cmocka_unit_test(threads_that_waited_leave_no_memory_behind),
        cmocka_unit_test(a_barrier_does_not_wait_for_threads_that_ended),
        cmocka_unit_test(barriers_count_votes),
        cmocka_unit_test(lanes_exchange_values),
        cmocka_unit_test(a_warp_can_wait_for_its_lanes),
        cmocka_unit_test(shared_memory_is_not_set_at_the_start_of_a_block),
        cmocka_unit_test(much_shared_memory_has_to_be_asked_for),
        cmocka_unit_test(grids_that_no_device_has_are_refused),
        cmocka_unit_test(atomics_lose_nothing_between_streams),
        cmocka_unit_test(bf16_is_rounded_to_nearest_even_and_every_nan_is_one),
        cmocka_unit_test(kernels_of_a_stream_run_one_after_another),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
