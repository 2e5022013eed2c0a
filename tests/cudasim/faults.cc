/* Faults explained: an access that the machine refuses, or that is not aligned, says which kernel made it and
 * what lies at its address. On a real device it would be cudaErrorIllegalAddress or
 * cudaErrorMisalignedAddress without a place; here it ends the process. */
#include "tests/cudasim/sim.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static struct sigaction before[2];
static const int signals[2] = {SIGSEGV, SIGBUS};

static void explain(int number, siginfo_t *info, void *context)
{
    char place[512], what[256], text[1024];
    sim_runner_place(place, sizeof place);
    if (info->si_code == SI_KERNEL) /* the machine does not say where */
        snprintf(what, sizeof what, "an address that no memory can have, or a vector that is not aligned");
    else
        sim_memory_describe(info->si_addr, what, sizeof what);
    const enum sim_memory_kind kind = sim_memory_at(info->si_addr).kind;
    if (*place)
        snprintf(text, sizeof text, "cudasim: illegal access: %s touches %p: %s\n", place, info->si_addr,
                 what);
    else if (kind == SIM_FREED || kind == SIM_DEVICE)
        snprintf(text, sizeof text, "cudasim: illegal access: the host touches %p: %s\n", info->si_addr,
                 what);
    else
        *text = 0;
    sim_write_raw(text);
    const struct sigaction *old = &before[number == SIGBUS];
    if (old->sa_flags & SA_SIGINFO)
        old->sa_sigaction(number, info, context);
    else if (old->sa_handler != SIG_DFL && old->sa_handler != SIG_IGN)
        old->sa_handler(number);
    else
        signal(number, SIG_DFL); /* the access is tried again, and ends the process */
}

void sim_faults_explain(void)
{
    static uint32_t done;
    if (__atomic_exchange_n(&done, 1, __ATOMIC_RELAXED))
        return;
    for (int i = 0; i < 2; i++) {
        struct sigaction action;
        memset(&action, 0, sizeof action);
        action.sa_sigaction = explain;
        action.sa_flags = SA_SIGINFO | SA_ONSTACK;
        sigemptyset(&action.sa_mask);
        sigaction(signals[i], &action, &before[i]);
    }
}

/* The handler needs a stack when a fiber's has run over. */
void sim_faults_explain_thread(void)
{
    static __thread bool done;
    if (done)
        return;
    done = true;
    const size_t bytes = (size_t)64 << 10;
    void *memory =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return;
    stack_t stack;
    memset(&stack, 0, sizeof stack);
    stack.ss_sp = memory;
    stack.ss_size = bytes;
    sigaltstack(&stack, NULL);
}

/* ---- alignment: gpu/ is compiled with -fsanitize=alignment, whose reports come here ---- */

struct source_location {
    const char *file;
    uint32_t line, column;
};
struct type_descriptor {
    uint16_t kind, info;
    char name[1];
};
struct type_mismatch {
    struct source_location location;
    const struct type_descriptor *type;
    unsigned char log_alignment, check_kind;
};

static void misaligned(const struct type_mismatch *data, uintptr_t address) __attribute__((noreturn));
static void misaligned(const struct type_mismatch *data, uintptr_t address)
{
    sim_fatal("misaligned access to %#lx as %s, which wants a multiple of %u, at %s:%u",
              (unsigned long)address, data->type->name, 1u << data->log_alignment, data->location.file,
              data->location.line);
}

/* With the types by which the compiler knows them. */
extern "C" {
void __ubsan_handle_type_mismatch_v1(void *data, void *address);
void __ubsan_handle_type_mismatch_v1_abort(void *data, void *address);
void __ubsan_handle_type_mismatch_v1(void *data, void *address)
{
    misaligned((const struct type_mismatch *)data, (uintptr_t)address);
}
void __ubsan_handle_type_mismatch_v1_abort(void *data, void *address)
{
    misaligned((const struct type_mismatch *)data, (uintptr_t)address);
}
}
