/* Room for the library's buffers. OpenBLAS maps a buffer (128 MiB of addresses) for each product under way
 * and keeps it for the next one; where the address space is used up (ulimit -v, vm.overcommit_memory=2) it
 * tries again for ever, and a process that waits for one of its threads never ends. So where addresses are
 * limited, as many buffers as can be in use at once are mapped when a device is opened, and what cannot be
 * had is an error there. */
#include "core/base/cleanup.h"
#include "core/base/file.h"
#include "core/base/size.h"
#include "core/device/cpu/blas.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

/* The library's own functions behind each product. */
void *blas_memory_alloc(int position) __attribute__((weak));
void blas_memory_free(void *buffer) __attribute__((weak));
int openblas_get_parallel(void) __attribute__((weak));

/* What a buffer takes at most, and how many the library has at least. */
#define BUFFER_BYTES ((size_t)129 << 20)
#define MOST_BUFFERS 48u

static bool address_space_limit(size_t *bytes)
{
    struct rlimit limit;
    *bytes = 0;
    if (getrlimit(RLIMIT_AS, &limit) || limit.rlim_cur == RLIM_INFINITY)
        return false;
    *bytes = (size_t)limit.rlim_cur;
    return true;
}

/* Every page that could be written is counted, whether it ever is or not. */
static bool commits_strictly(void)
{
    mt_autofree char *text = NULL;
    size_t bytes;
    return mt_file_read("/proc/sys/vm/overcommit_memory", 64, &text, &bytes, NULL) == 0 && text[0] == '2';
}

int mt_blas_reserve(size_t products, struct mt_error *error)
{
    size_t limit;
    char room[32];
    const size_t count = mt_size_min(products, MOST_BUFFERS);
    const bool limited = address_space_limit(&limit);
    if (!blas_memory_alloc || !blas_memory_free || (!limited && !commits_strictly()))
        return 0;
    void *trial =
        mmap(NULL, count * BUFFER_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (trial == MAP_FAILED)
        return mt_error_set(
            error, -ENOMEM, MT_REASON_OUT_OF_MEMORY,
            "the library for matrix products (OpenBLAS) wants %s of addresses on %zu threads, and "
            "%s; raise %s, or give the process fewer CPUs (taskset)",
            mt_size_format(count * BUFFER_BYTES, room, sizeof room), products,
            limited ? "its address space is limited" : "the system promises no memory that it has not",
            limited ? "the limit (ulimit -v)" : "vm.overcommit_ratio");
    munmap(trial, count * BUFFER_BYTES);
    void *buffers[MOST_BUFFERS];
    for (size_t i = 0; i < count; i++)
        buffers[i] = blas_memory_alloc(0);
    for (size_t i = 0; i < count; i++)
        blas_memory_free(buffers[i]);
    return 0;
}

void mt_blas_start_alone(char **argv)
{
    const char *threads = getenv("OPENBLAS_NUM_THREADS");
    size_t limit;
    if (!openblas_get_parallel || openblas_get_parallel() == 0 || !address_space_limit(&limit) ||
        (threads && strcmp(threads, "1") == 0) || setenv("OPENBLAS_NUM_THREADS", "1", 1) != 0)
        return;
    execv("/proc/self/exe", argv); /* where it cannot, it goes on as it is */
}
