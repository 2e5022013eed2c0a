/* The one thread pool of a process. Work is cut into tasks by shape alone; which thread runs a task is not
 * defined, so tasks must not depend on it. Several threads may run parallel regions at the same time; the
 * caller works on its own region's tasks too, so a pool of n threads has n - 1 helpers and mt_pool_run never
 * waits for a free one. */
#ifndef MT_BASE_POOL_H
#define MT_BASE_POOL_H

#include "core/base/cpu.h" /* mt_cpu_count */

#include <stddef.h>

struct mt_pool;

/* num_threads 0: the number of CPUs this process may use (affinity mask and cgroup quota). NULL: out of
 * memory. */
struct mt_pool *mt_pool_new(size_t num_threads);
void mt_pool_free(struct mt_pool *pool);
size_t mt_pool_threads(const struct mt_pool *pool);

/* Calls function(context, task) for each task in [0, num_tasks), in any order and on any thread, and returns
 * when all have returned. `worker` is below mt_pool_threads + number of concurrent callers; it is not passed:
 * use thread-local scratch where needed. */
void mt_pool_run(struct mt_pool *pool, size_t num_tasks, void (*function)(void *context, size_t task),
                 void *context);

#endif
