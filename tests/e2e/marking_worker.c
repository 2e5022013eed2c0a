/* The worker itself, which leaves a mark while it updates a layer: in a file that outlives it, so that a test
 * can kill it in the middle of an update and see afterwards that it did. The linker puts this in front of the
 * optimizer
 * (--wrap). MT_TEST_MARK names the file, of 4 numbers of 8 bytes: whether an update is being made, which one,
 * of which group of parameters, and how many were made. */
#include "core/optim/adamw.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct mark {
    uint64_t inside, update, group, made;
};

/* Names that the linker gives. */
bool __real_mt_adamw_update(const struct mt_adamw *adamw, const struct mt_adamw_step *step,
                            struct mt_store *store, size_t group, const float *gradient,
                            struct mt_pool *pool);
bool __wrap_mt_adamw_update(const struct mt_adamw *adamw, const struct mt_adamw_step *step,
                            struct mt_store *store, size_t group, const float *gradient,
                            struct mt_pool *pool);

static volatile struct mark *open_mark(void)
{
    const char *path = getenv("MT_TEST_MARK");
    const int fd = path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (fd < 0 || ftruncate(fd, sizeof(struct mark)) < 0)
        abort();
    void *address = mmap(NULL, sizeof(struct mark), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (address == MAP_FAILED)
        abort();
    return address;
}

/* One thread makes all updates. */
bool __wrap_mt_adamw_update(const struct mt_adamw *adamw, const struct mt_adamw_step *step,
                            struct mt_store *store, size_t group, const float *gradient, struct mt_pool *pool)
{
    static volatile struct mark *mark;
    if (!mark)
        mark = open_mark();
    mark->update = step->update;
    mark->group = group;
    mark->inside = 1;
    const bool finite = __real_mt_adamw_update(adamw, step, store, group, gradient, pool);
    mark->inside = 0;
    mark->made++;
    return finite;
}
