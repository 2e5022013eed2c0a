/* Locks, sleeping and plain copies without what ThreadSanitizer intercepts: its view of the program must hold
 * the edges of CUDA alone. */
#include "tests/cudasim/sim.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* 0 free, 1 taken, 2 taken with waiters (Drepper, "Futexes are tricky", 2011). */
void sim_take(struct sim_lock *lock)
{
    uint32_t free = 0;
    if (__atomic_compare_exchange_n(&lock->word, &free, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
        return;
    while (__atomic_exchange_n(&lock->word, 2, __ATOMIC_ACQUIRE) != 0)
        sim_futex_wait(&lock->word, 2);
}

void sim_give(struct sim_lock *lock)
{
    if (__atomic_exchange_n(&lock->word, 0, __ATOMIC_RELEASE) == 2)
        syscall(SYS_futex, &lock->word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

void sim_futex_wait(uint32_t *word, uint32_t seen)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

static struct timespec to_timespec(double seconds)
{
    struct timespec time;
    time.tv_sec = (time_t)seconds;
    time.tv_nsec = (long)((seconds - (double)time.tv_sec) * 1e9);
    return time;
}

void sim_futex_wait_for(uint32_t *word, uint32_t seen, double seconds)
{
    const struct timespec time = to_timespec(seconds);
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, &time, NULL, 0);
}

void sim_futex_wake(uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
}

double sim_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void sim_sleep_until(double time)
{
    for (double now = sim_now(); now < time; now = sim_now()) {
        const struct timespec pause = to_timespec(time - now);
        syscall(SYS_nanosleep, &pause, NULL);
    }
}

void sim_move_bytes(void *to, const void *from, size_t bytes)
{
#if defined(__x86_64__)
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
#else
    volatile unsigned char *out = (volatile unsigned char *)to;
    const unsigned char *in = (const unsigned char *)from;
    for (size_t i = 0; i < bytes; i++)
        out[i] = in[i];
#endif
}

void sim_fill_bytes(void *to, int value, size_t bytes)
{
#if defined(__x86_64__)
    __asm__ volatile("rep stosb" : "+D"(to), "+c"(bytes) : "a"(value) : "memory");
#else
    volatile unsigned char *out = (volatile unsigned char *)to;
    for (size_t i = 0; i < bytes; i++)
        out[i] = (unsigned char)value;
#endif
}
