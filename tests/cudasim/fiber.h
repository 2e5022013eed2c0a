/* fiber.h: contexts of the simulated threads, switched by hand (about 10 ns; swapcontext, which saves signal
 * masks by system calls, takes 280) where there is a hand for it, by ucontext elsewhere. */
#ifndef CUDASIM_FIBER_H
#define CUDASIM_FIBER_H

#include <stddef.h>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

struct sim_context {
#if defined(__x86_64__)
    void *stack_pointer;
#else
    ucontext_t machine;
#endif
    char *stack; /* lowest address */
    size_t stack_bytes;
    void *fake_stack; /* AddressSanitizer's */
    void *tsan;       /* ThreadSanitizer's, in the mode that checks races within a block */
};

/* A context that begins in `begin`, which must not return; false: no memory. */
bool sim_context_create(struct sim_context *context, void (*begin)(void));
void sim_context_destroy(struct sim_context *context);
/* Of the calling thread's own stack. */
void sim_context_of_thread(struct sim_context *context);
void sim_context_switch(struct sim_context *from, struct sim_context *to);
/* The first thing that `begin` calls. */
void sim_context_begun(void);

#endif
