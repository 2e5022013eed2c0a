/* Opening devices by the name that jobs use. */
#ifndef MT_DEVICE_OPEN_H
#define MT_DEVICE_OPEN_H

#include "core/base/pool.h"
#include "core/device/device.h"

struct mt_device_options {
    struct mt_pool *pool;        /* the process's one pool; must outlive the device */
    size_t memory_limit_bytes;   /* cpu-discrete: its arena; 0: 1 GiB. cuda: what may be used; 0: all */
    double bus_bytes_per_second; /* cpu-discrete: speed of copies in each direction; 0: as fast as memory */
    double bus_latency_seconds;  /* cpu-discrete: added to each copy */
    /* Told, in a sentence, why "auto" took the CPU though a CUDA module is there, and what makes copies slow;
     * may be NULL. */
    void (*note)(void *context, const char *sentence);
    void *note_context;
    /* For tests of what stands above; the CPU devices only. */
    uint64_t test_delay_seed;         /* with the next: each operation starts after a random pause ... */
    unsigned test_delay_microseconds; /* ... of at most so long */
    size_t test_fail_allocation;      /* this call of allocate fails, from 1 */
    size_t test_fail_copy;            /* this copy fails the device, from 1 */
};

/* First thing in main of a program that opens devices, before it has threads. Where the address space is
 * limited (ulimit -v) the process starts itself again, so that the library for matrix products, once it is
 * loaded, has no threads that want memory of their own. */
void mt_blas_start_alone(char **argv);

/* `name`: "auto" (the first GPU that works, else the CPU), "cpu", "cpu-discrete", "cuda" (the first GPU that
 * works), "cuda:N" (that one). MT_REASON_DEVICE with what is missing and what to do. */
int mt_device_open(const char *name, const struct mt_device_options *options, struct mt_device **device,
                   struct mt_error *error);
/* Whether the GPU that the name asks for is there and can be used, before work is done that needs it; names
 * that ask for none are well. Errors as above. */
int mt_device_check(const char *name, struct mt_error *error);
/* The memory of the GPU that would be opened by this name, whether or not it is full now; 0: that would be
 * none, or fail. */
size_t mt_device_gpu_bytes(const char *name);
static inline void mt_device_close(struct mt_device *device)
{
    if (device)
        device->api->close(device);
}

#endif
