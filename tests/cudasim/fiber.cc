#include "tests/cudasim/fiber.h"

#include "tests/cudasim/sim.h"

#include <pthread.h>
#include <sys/mman.h>

#define PAGE ((size_t)4096)

#if defined(__SANITIZE_ADDRESS__)
extern "C" {
void __sanitizer_start_switch_fiber(void **fake_stack, const void *bottom, size_t bytes);
void __sanitizer_finish_switch_fiber(void *fake_stack, const void **old_bottom, size_t *old_bytes);
}
#endif

#if defined(__SANITIZE_ADDRESS__) || defined(CUDASIM_TSAN)
#define STACK_BYTES ((size_t)256 << 10)
#else
#define STACK_BYTES ((size_t)64 << 10)
#endif

#if defined(__x86_64__)
/* Saves what the calling convention wants kept, and goes on where the other context stopped. */
extern "C" void cudasim_switch_stacks(void **saved, void *next);
__asm__(".text\n"
        ".globl cudasim_switch_stacks\n"
        ".hidden cudasim_switch_stacks\n"
        ".type cudasim_switch_stacks, @function\n"
        "cudasim_switch_stacks:\n"
        "    pushq %rbp\n"
        "    pushq %rbx\n"
        "    pushq %r12\n"
        "    pushq %r13\n"
        "    pushq %r14\n"
        "    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n"
        "    popq %r14\n"
        "    popq %r13\n"
        "    popq %r12\n"
        "    popq %rbx\n"
        "    popq %rbp\n"
        "    ret\n"
        ".size cudasim_switch_stacks, . - cudasim_switch_stacks\n");
#endif

bool sim_context_create(struct sim_context *context, void (*begin)(void))
{
    *context = sim_context();
    char *base = (char *)mmap(NULL, STACK_BYTES + PAGE, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        return false;
    mprotect(base, PAGE, PROT_NONE); /* what overruns its stack faults */
    context->stack = base + PAGE;
    context->stack_bytes = STACK_BYTES;
#if defined(__x86_64__)
    /* As if it had switched away: six registers, where to go on, and no one to return to (which stands where
     * a call would leave it: a function begins 8 bytes off a multiple of 16). */
    void **top = (void **)(context->stack + STACK_BYTES);
    *--top = NULL;
    *--top = (void *)begin;
    for (int i = 0; i < 6; i++)
        *--top = NULL;
    context->stack_pointer = top;
#else
    getcontext(&context->machine);
    context->machine.uc_stack.ss_sp = context->stack;
    context->machine.uc_stack.ss_size = STACK_BYTES;
    makecontext(&context->machine, begin, 0);
#endif
#if defined(CUDASIM_TSAN)
    if (sim_env()->racecheck)
        context->tsan = __tsan_create_fiber(0);
#endif
    return true;
}

#if defined(__SANITIZE_ADDRESS__)
/* A fiber that never ends keeps its fake stack, some MiB. It ends here on paper: AddressSanitizer is told
 * that this thread goes there, and from there comes back for good. */
static void drop_fake_stack(struct sim_context *context)
{
    struct sim_context here;
    sim_context_of_thread(&here);
    __sanitizer_start_switch_fiber(&here.fake_stack, context->stack, context->stack_bytes);
    __sanitizer_finish_switch_fiber(context->fake_stack, NULL, NULL);
    __sanitizer_start_switch_fiber(NULL, here.stack, here.stack_bytes);
    __sanitizer_finish_switch_fiber(here.fake_stack, NULL, NULL);
}
#endif

void sim_context_destroy(struct sim_context *context)
{
#if defined(__SANITIZE_ADDRESS__)
    if (context->fake_stack)
        drop_fake_stack(context);
#endif
#if defined(CUDASIM_TSAN)
    if (context->tsan)
        __tsan_destroy_fiber(context->tsan);
#endif
    if (context->stack)
        munmap(context->stack - PAGE, context->stack_bytes + PAGE);
}

void sim_context_of_thread(struct sim_context *context)
{
    *context = sim_context();
    pthread_attr_t attributes;
    void *stack;
    if (!pthread_getattr_np(pthread_self(), &attributes)) {
        pthread_attr_getstack(&attributes, &stack, &context->stack_bytes);
        pthread_attr_destroy(&attributes);
        context->stack = (char *)stack;
    }
#if defined(CUDASIM_TSAN)
    if (sim_env()->racecheck)
        context->tsan = __tsan_get_current_fiber();
#endif
}

void sim_context_switch(struct sim_context *from, struct sim_context *to)
{
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_start_switch_fiber(&from->fake_stack, to->stack, to->stack_bytes);
#endif
#if defined(CUDASIM_TSAN)
    if (to->tsan)
        __tsan_switch_to_fiber(to->tsan, 1 /* no edge */);
#endif
#if defined(__x86_64__)
    cudasim_switch_stacks(&from->stack_pointer, to->stack_pointer);
#else
    swapcontext(&from->machine, &to->machine);
#endif
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(from->fake_stack, NULL, NULL);
#endif
}

void sim_context_begun(void)
{
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(NULL, NULL, NULL);
#endif
}
