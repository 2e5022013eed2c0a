/* The thread pool: see pool.h.
 *
 * A region (one call of mt_pool_run) lives on its caller's stack and hangs in the pool's list while it has
 * tasks to give out. A helper enters a region under the list's lock, draws task numbers from its counter
 * until they are used up, and leaves; the caller draws too, takes the region off the list, and waits until
 * the last helper has left. A caller never waits for a thread to become free, so a task may start a region of
 * its own.
 *
 * Sleeping is on futexes: helpers on `published`, which counts regions, callers on `finished`, which counts
 * regions that the last helper left. Both follow one rule that loses no wake-up: the sleeper reads the word,
 * looks for work, counts itself as a sleeper, and lets the kernel compare the word; the waker changes the
 * word first and looks for sleepers after (all in one sequentially consistent order).
 *
 * Under ThreadSanitizer the pool orders what it promises and nothing else: caller before task, task before
 * the return of mt_pool_run. The lock and the sleeping words would order regions of different callers too,
 * and hide that a stream forgot to wait for another; so what touches them is not instrumented.
 */
#include "core/base/pool.h"

#include "core/base/size.h"

#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SPIN_NANOSECONDS 20000

/* Inlining into an instrumented function would bring the instrumentation back. */
#define unordered __attribute__((no_sanitize_thread, noinline))

struct region {
    void (*function)(void *context, size_t task);
    void *context;
    size_t num_tasks;
    size_t next_task; /* atomic; at least num_tasks when all are given out */
    uint32_t ready;   /* atomic; release by the caller, acquire by a helper: caller before task */
    uint32_t helpers; /* atomic; helpers inside; release by them, acquire by the caller: task before return */
    struct region *next; /* with `previous`: under the pool's lock */
    struct region *previous;
};

struct mt_pool {
    struct region list; /* head of the ring of open regions */
    uint32_t lock;      /* 0 free, 1 held, 2 held and somebody sleeps on it */
    uint32_t published;
    uint32_t helpers_asleep;
    uint32_t finished;
    uint32_t callers_asleep;
    uint32_t stopping;
    size_t num_helpers;
    pthread_t helpers[];
};

unordered static void futex_wait(uint32_t *word, uint32_t expected)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, NULL, NULL, 0);
}

unordered static void futex_wake(uint32_t *word, uint32_t count)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

unordered static void pool_lock(struct mt_pool *pool)
{
    uint32_t state = 0;
    if (__atomic_compare_exchange_n(&pool->lock, &state, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
        return;
    while (__atomic_exchange_n(&pool->lock, 2, __ATOMIC_ACQUIRE) != 0)
        futex_wait(&pool->lock, 2);
}

unordered static void pool_unlock(struct mt_pool *pool)
{
    if (__atomic_exchange_n(&pool->lock, 0, __ATOMIC_RELEASE) == 2)
        futex_wake(&pool->lock, 1);
}

unordered static uint32_t word_read(const uint32_t *word)
{
    return __atomic_load_n(word, __ATOMIC_SEQ_CST);
}

/* Waits until *word is not `seen`: awake for a moment, since most regions follow closely, then asleep. */
unordered static void word_wait(uint32_t *word, uint32_t seen, uint32_t *sleepers)
{
    struct timespec start, now;
    clock_gettime(CLOCK_MONOTONIC, &start);
    do {
        for (int i = 0; i < 32; i++) {
            if (__atomic_load_n(word, __ATOMIC_RELAXED) != seen)
                return;
            __builtin_ia32_pause();
        }
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((now.tv_sec - start.tv_sec) * 1000000000 + (now.tv_nsec - start.tv_nsec) < SPIN_NANOSECONDS);
    __atomic_fetch_add(sleepers, 1, __ATOMIC_SEQ_CST);
    futex_wait(word, seen);
    __atomic_fetch_sub(sleepers, 1, __ATOMIC_SEQ_CST);
}

unordered static void word_advance(uint32_t *word, const uint32_t *sleepers, size_t wake)
{
    __atomic_fetch_add(word, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(sleepers, __ATOMIC_SEQ_CST) > 0)
        futex_wake(word, (uint32_t)mt_size_min(wake, INT32_MAX));
}

unordered static void region_open(struct mt_pool *pool, struct region *region)
{
    pool_lock(pool);
    region->previous = pool->list.previous;
    region->next = &pool->list;
    region->previous->next = region;
    pool->list.previous = region;
    pool_unlock(pool);
    word_advance(&pool->published, &pool->helpers_asleep, region->num_tasks - 1);
}

unordered static void region_close(struct mt_pool *pool, struct region *region)
{
    pool_lock(pool);
    region->previous->next = region->next;
    region->next->previous = region->previous;
    pool_unlock(pool);
}

/* The oldest region that has tasks left, entered; NULL when there is none. */
unordered static struct region *region_enter(struct mt_pool *pool)
{
    struct region *found = NULL;
    pool_lock(pool);
    for (struct region *region = pool->list.next; region != &pool->list && !found; region = region->next) {
        if (__atomic_load_n(&region->next_task, __ATOMIC_RELAXED) < region->num_tasks) {
            __atomic_fetch_add(&region->helpers, 1, __ATOMIC_RELAXED);
            found = region;
        }
    }
    pool_unlock(pool);
    return found;
}

static void region_work(struct region *region)
{
    for (;;) {
        size_t task = __atomic_fetch_add(&region->next_task, 1, __ATOMIC_RELAXED);
        if (task >= region->num_tasks)
            return;
        region->function(region->context, task);
    }
}

static void *helper_main(void *argument)
{
    struct mt_pool *pool = argument;
    for (;;) {
        uint32_t seen = word_read(&pool->published);
        struct region *region = region_enter(pool);
        if (region) {
            (void)__atomic_load_n(&region->ready, __ATOMIC_ACQUIRE);
            region_work(region);
            /* From here on the region may be gone. */
            if (__atomic_sub_fetch(&region->helpers, 1, __ATOMIC_RELEASE) == 0)
                word_advance(&pool->finished, &pool->callers_asleep, INT32_MAX);
        } else if (word_read(&pool->stopping)) {
            return NULL;
        } else {
            word_wait(&pool->published, seen, &pool->helpers_asleep);
        }
    }
}

struct mt_pool *mt_pool_new(size_t num_threads)
{
    if (num_threads == 0)
        num_threads = mt_cpu_count();
    size_t bytes;
    if (!mt_size_mul(num_threads - 1, sizeof(pthread_t), &bytes) ||
        !mt_size_add(bytes, sizeof(struct mt_pool), &bytes))
        return NULL;
    struct mt_pool *pool = calloc(1, bytes);
    if (!pool)
        return NULL;
    pool->list.next = pool->list.previous = &pool->list;

    /* Signals are for the threads of the program, not for helpers. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (pool->num_helpers < num_threads - 1 &&
           pthread_create(&pool->helpers[pool->num_helpers], NULL, helper_main, pool) == 0)
        pool->num_helpers++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return pool;
}

void mt_pool_free(struct mt_pool *pool)
{
    if (!pool)
        return;
    __atomic_store_n(&pool->stopping, 1, __ATOMIC_SEQ_CST);
    word_advance(&pool->published, &pool->helpers_asleep, INT32_MAX);
    for (size_t i = 0; i < pool->num_helpers; i++)
        pthread_join(pool->helpers[i], NULL);
    free(pool);
}

size_t mt_pool_threads(const struct mt_pool *pool)
{
    return pool->num_helpers + 1;
}

void mt_pool_run(struct mt_pool *pool, size_t num_tasks, void (*function)(void *context, size_t task),
                 void *context)
{
    if (num_tasks <= 1 || pool->num_helpers == 0) {
        for (size_t task = 0; task < num_tasks; task++)
            function(context, task);
        return;
    }
    struct region region = {.function = function, .context = context, .num_tasks = num_tasks};
    __atomic_store_n(&region.ready, 1, __ATOMIC_RELEASE);
    region_open(pool, &region);
    region_work(&region);
    region_close(pool, &region);
    for (;;) {
        uint32_t seen = word_read(&pool->finished);
        if (__atomic_load_n(&region.helpers, __ATOMIC_ACQUIRE) == 0)
            return;
        word_wait(&pool->finished, seen, &pool->callers_asleep);
    }
}
