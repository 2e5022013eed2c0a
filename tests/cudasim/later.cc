/* What a library does on a thread of its own after it has answered "in progress". */
#include "tests/cudasim/sim.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

struct later {
    double at;
    void (*run)(void *arguments);
    alignas(16) unsigned char arguments[SIM_LATER_BYTES];
};

static void *later_main(void *given)
{
    struct later *later = (struct later *)given;
    sim_sleep_until(later->at);
    later->run(later->arguments);
    const struct sim_unseen unseen;
    free(later);
    return NULL;
}

void sim_later(uint32_t microseconds, void (*run)(void *arguments), const void *arguments, size_t bytes)
{
    static uint64_t drawn;
    const struct sim_unseen unseen;
    struct later *later = (struct later *)malloc(sizeof *later);
    if (!later || bytes > sizeof later->arguments)
        sim_fatal("%zu bytes to be done later", bytes);
    const uint64_t number = __atomic_add_fetch(&drawn, 1, __ATOMIC_RELAXED);
    const uint64_t draw = (sim_env()->seed + number) * 6364136223846793005u + 1442695040888963407u;
    later->at = sim_now() + 1e-6 * (double)((draw >> 33) % (microseconds + 1u));
    later->run = run;
    sim_move_bytes(later->arguments, arguments, bytes);
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int code = pthread_create(&thread, NULL, later_main, later);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (code)
        sim_fatal("cannot start a thread");
    pthread_detach(thread);
}
