/* Copies and zeros. On cpu-discrete a copy between host and device takes as long as the bus of the given
 * speed would: copies of one direction share its bandwidth, one behind another in the order in which their
 * streams came, and each has its latency on top.
 */
#include "core/base/size.h"
#include "core/device/cpu/cpu.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define PIECE_BYTES ((size_t)1 << 20)
#define NANOSECONDS 1000000000

struct copy {
    void *to;
    const void *from; /* NULL: zeros */
    size_t bytes;
    int direction; /* 0 to the device, 1 to the host, -1 within the device */
};

static int64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * NANOSECONDS + time.tv_nsec;
}

/* Takes the bus for this copy and says when it ends. Relaxed: the bus orders no memory. */
static int64_t take_bus(struct mt_cpu_device *device, const struct copy *copy)
{
    const double busy = device->bus_bytes_per_second > 0
                            ? (double)copy->bytes / device->bus_bytes_per_second * NANOSECONDS
                            : 0;
    int64_t *free_at = &device->bus_free_at[copy->direction];
    int64_t seen = __atomic_load_n(free_at, __ATOMIC_RELAXED), end;
    const int64_t start = now();
    do
        end = (seen > start ? seen : start) + (int64_t)busy;
    while (!__atomic_compare_exchange_n(free_at, &seen, end, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    return end + (int64_t)(device->bus_latency_seconds * NANOSECONDS);
}

static void sleep_until(int64_t end)
{
    const struct timespec time = {.tv_sec = end / NANOSECONDS, .tv_nsec = end % NANOSECONDS};
    while (now() < end)
        syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL);
}

static void copy_piece(void *context, size_t task)
{
    const struct copy *copy = context;
    const size_t first = task * PIECE_BYTES, bytes = mt_size_min(PIECE_BYTES, copy->bytes - first);
    if (copy->from)
        memmove((char *)copy->to + first, (const char *)copy->from + first, bytes);
    else
        memset((char *)copy->to + first, 0, bytes);
}

static void run_copy(struct mt_stream *stream, const void *args)
{
    struct mt_cpu_device *device = mt_cpu_stream_device(stream);
    struct copy copy = *(const struct copy *)args;
    if (copy.from && __atomic_load_n(&device->fail_copy, __ATOMIC_RELAXED) > 0 &&
        __atomic_sub_fetch(&device->fail_copy, 1, __ATOMIC_RELAXED) == 0) {
        mt_cpu_fail(device, "a copy of %zu bytes failed (a failure that was asked for)", copy.bytes);
        return;
    }
    const bool bus = device->memory && copy.direction >= 0;
    if (!bus) {
        mt_cpu_parallel(stream, mt_size_ceil_div(copy.bytes, PIECE_BYTES), copy_piece, &copy);
        return;
    }
    const int64_t end = take_bus(device, &copy);
    memmove(copy.to, copy.from, copy.bytes); /* a bus has no share in the processors: no pool */
    sleep_until(end);
}

static int submit(struct mt_stream *stream, const char *operation, const struct copy *copy)
{
    if (!copy->bytes)
        return 0;
    const struct mt_cpu_operand operands[] = {
        {.name = "to", .address = copy->to, .bytes = copy->bytes, .host = copy->direction == 1},
        {.name = "from", .address = copy->from, .bytes = copy->bytes, .host = copy->direction == 0},
    };
    return mt_cpu_submit(stream, operation, run_copy, copy, sizeof *copy, operands, copy->from ? 2 : 1);
}

int mt_cpu_copy_to_device(struct mt_stream *stream, void *to, const void *from_host, size_t bytes)
{
    if (bytes && !from_host)
        return -EINVAL;
    return submit(stream, "copy_to_device", &(struct copy){to, from_host, bytes, 0});
}

int mt_cpu_copy_to_host(struct mt_stream *stream, void *to_host, const void *from, size_t bytes)
{
    if (bytes && !from)
        return -EINVAL;
    return submit(stream, "copy_to_host", &(struct copy){to_host, from, bytes, 1});
}

int mt_cpu_copy(struct mt_stream *stream, void *to, const void *from, size_t bytes)
{
    if (bytes && !from)
        return -EINVAL;
    return submit(stream, "copy", &(struct copy){to, from, bytes, -1});
}

int mt_cpu_fill_zero(struct mt_stream *stream, void *address, size_t bytes)
{
    return submit(stream, "fill_zero", &(struct copy){address, NULL, bytes, -1});
}
