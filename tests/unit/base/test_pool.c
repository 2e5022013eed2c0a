/* core/base/pool.h. Under ThreadSanitizer (make tsan) the same cases show that the pool orders what it
 * promises. */
#include "core/base/pool.h"
#include "tests/unit/support.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/wait.h>

struct table {
    size_t count;
    unsigned *runs; /* per task; plain memory: ordered by the pool or a race */
};

static void count_run(void *context, size_t task)
{
    struct table *table = context;
    table->runs[task]++;
}

static void each_task_runs_exactly_once(void **state)
{
    (void)state;
    for (size_t threads = 1; threads <= 5; threads++) {
        struct mt_pool *pool = mt_pool_new(threads);
        assert_non_null(pool);
        assert_int_equal(mt_pool_threads(pool), threads);
        for (size_t count = 0; count < 300; count += 7) {
            struct table table = {count, calloc(count + 1, sizeof(unsigned))};
            for (int region = 0; region < 3; region++)
                mt_pool_run(pool, count, count_run, &table);
            for (size_t task = 0; task < count; task++)
                assert_int_equal(table.runs[task], 3);
            free(table.runs);
        }
        mt_pool_free(pool);
    }
    mt_pool_free(NULL);
}

static void zero_threads_means_the_cpus_of_this_process(void **state)
{
    (void)state;
    struct mt_pool *pool = mt_pool_new(0);
    assert_int_equal(mt_pool_threads(pool), mt_cpu_count());
    mt_pool_free(pool);
}

/* Two tasks that wait for each other: they end only if both run at once. */
static void meet(void *context, size_t task)
{
    (void)task;
    pthread_barrier_wait(context);
}

static void a_helper_wakes_for_each_region(void **state)
{
    (void)state;
    struct mt_pool *pool = mt_pool_new(2);
    pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, NULL, 2);
    /* Pauses around the time that helpers spin, so that some regions meet them falling asleep. */
    for (unsigned i = 0; i < 3000; i++) {
        mt_pool_run(pool, 2, meet, &barrier);
        if (i % 3 == 0)
            usleep(i % 100);
    }
    pthread_barrier_destroy(&barrier);
    mt_pool_free(pool);
}

struct nested {
    struct mt_pool *pool;
    size_t depth;
    unsigned leaves; /* atomic */
};

static void nest(void *context, size_t task)
{
    (void)task;
    struct nested *nested = context;
    if (nested->depth == 0) {
        __atomic_fetch_add(&nested->leaves, 1, __ATOMIC_RELAXED);
        return;
    }
    struct nested inner = {.pool = nested->pool, .depth = nested->depth - 1};
    mt_pool_run(nested->pool, 3, nest, &inner);
    __atomic_fetch_add(&nested->leaves, inner.leaves, __ATOMIC_RELAXED);
}

static void tasks_may_start_regions(void **state)
{
    (void)state;
    for (size_t threads = 1; threads <= 4; threads++) {
        struct nested outer = {.pool = mt_pool_new(threads), .depth = 5};
        for (int i = 0; i < 20; i++) {
            outer.leaves = 0;
            nest(&outer, 0);
            assert_int_equal(outer.leaves, 3 * 3 * 3 * 3 * 3);
        }
        mt_pool_free(outer.pool);
    }
}

struct caller {
    struct mt_pool *pool;
    unsigned runs[37];
    bool wrong;
};

static void *call_often(void *argument)
{
    struct caller *caller = argument;
    for (unsigned i = 1; i <= 2000; i++) {
        size_t count = 2 + i % 36;
        memset(caller->runs, 0, sizeof caller->runs);
        struct table table = {count, caller->runs};
        mt_pool_run(caller->pool, count, count_run, &table);
        for (size_t task = 0; task < 37; task++)
            caller->wrong |= caller->runs[task] != (task < count);
    }
    return NULL;
}

static void several_callers_share_the_helpers(void **state)
{
    (void)state;
    struct mt_pool *pool = mt_pool_new(3);
    static struct caller callers[4];
    pthread_t threads[4];
    for (size_t i = 0; i < 4; i++) {
        callers[i] = (struct caller){.pool = pool};
        assert_int_equal(pthread_create(&threads[i], NULL, call_often, &callers[i]), 0);
    }
    for (size_t i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        assert_false(callers[i].wrong);
    }
    mt_pool_free(pool);
}

static double cpu_seconds(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

static void nothing(void *context, size_t task)
{
    (void)context;
    (void)task;
}

static void idle_helpers_sleep(void **state)
{
    (void)state;
    struct mt_pool *pool = mt_pool_new(4);
    mt_pool_run(pool, 16, nothing, NULL);
    usleep(10000);
    double before = cpu_seconds();
    usleep(300000);
    assert_true(cpu_seconds() - before < 0.03); /* one spinning helper would take 0.3 */
    mt_pool_free(pool);
}

static void sleep_long(void *context, size_t task)
{
    (void)context;
    if (task == 0)
        usleep(200000);
}

static void a_waiting_caller_sleeps(void **state)
{
    (void)state;
    struct mt_pool *pool = mt_pool_new(2);
    for (int i = 0; i < 2; i++) { /* whichever thread draws the long task, the other one waits or idles */
        double before = cpu_seconds();
        mt_pool_run(pool, 2, sleep_long, NULL);
        assert_true(cpu_seconds() - before < 0.05);
    }
    mt_pool_free(pool);
}

static void helpers_take_no_signals(void **state)
{
    (void)state;
    /* Blocked in this thread, a signal to the process must stay pending: no helper may take it and die. */
    struct mt_pool *pool = mt_pool_new(3);
    sigset_t blocked, before, pending;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &blocked, &before);
    kill(getpid(), SIGUSR1);
    usleep(10000);
    sigpending(&pending);
    assert_true(sigismember(&pending, SIGUSR1));
    int taken;
    sigwait(&blocked, &taken);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    mt_pool_free(pool);
}

#ifdef __SANITIZE_THREAD__

struct meeting {
    struct mt_pool *pool;
    pthread_barrier_t barrier;
    unsigned *values; /* two */
    bool write;
};

static void touch(void *context, size_t task)
{
    struct meeting *meeting = context;
    pthread_barrier_wait(&meeting->barrier); /* one task each for the caller and the helper */
    if (meeting->write)
        meeting->values[task] = 1;
    else if (meeting->values[0] + meeting->values[1] > 2)
        abort();
}

static void *run_meeting(void *argument)
{
    struct meeting *meeting = argument;
    if (!meeting->write)
        usleep(50000); /* later, but ordered by nothing */
    mt_pool_run(meeting->pool, 2, touch, meeting);
    return NULL;
}

/* The pool must not order what its callers forgot to: a region of one caller writes, a later one of another
 * caller reads. The sanitizer has to report that race; its exit code tells. */
static void regions_of_different_callers_are_not_ordered(void **state)
{
    (void)state;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        if (!freopen("/dev/null", "w", stderr))
            exit(1);
        unsigned values[2] = {0};
        struct mt_pool *pool = mt_pool_new(2);
        struct meeting meetings[2] = {{.pool = pool, .values = values, .write = true},
                                      {.pool = pool, .values = values, .write = false}};
        pthread_t threads[2];
        for (size_t i = 0; i < 2; i++) {
            pthread_barrier_init(&meetings[i].barrier, NULL, 2);
            pthread_create(&threads[i], NULL, run_meeting, &meetings[i]);
        }
        for (size_t i = 0; i < 2; i++)
            pthread_join(threads[i], NULL);
        exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 66); /* what ThreadSanitizer makes of exit(0) after a report */
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_task_runs_exactly_once),
        cmocka_unit_test(zero_threads_means_the_cpus_of_this_process),
        cmocka_unit_test(a_helper_wakes_for_each_region),
        cmocka_unit_test(tasks_may_start_regions),
        cmocka_unit_test(several_callers_share_the_helpers),
        cmocka_unit_test(idle_helpers_sleep),
        cmocka_unit_test(a_waiting_caller_sleeps),
        cmocka_unit_test(helpers_take_no_signals),
#ifdef __SANITIZE_THREAD__
        cmocka_unit_test(regions_of_different_callers_are_not_ordered),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
