/* Running kernels: block by block on the stream's thread, the threads of a block as fibers.
 *
 * A fiber runs one CUDA thread after another, so that a kernel in which nobody waits is a plain loop on one
 * fiber. Only when a thread has to wait (for a barrier, or for its warp) does another fiber go on: one that
 * can, or a new one for the next thread. When none can, the block hangs, and is reported.
 *
 * Under ThreadSanitizer with CUDASIM_RACECHECK each CUDA thread is a fiber of its own, told to
 * ThreadSanitizer as a thread: then barriers are edges, and what they do not order is a reported race.
 */
#include "tests/cudasim/fiber.h"
#include "tests/cudasim/sim.h"

#include <cudasim/builtins.h>
#include <new>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define MAX_THREADS 1024u
#define WARP 32u
#define MAX_WARPS (MAX_THREADS / WARP)
#define PAGE ((size_t)4096)
#define STATIC_SHARED_BYTES ((size_t)48 << 10)
#define SHARED_BYTES ((size_t)232 << 10)
#define MAX_DECLARED 16

CUDASIM_PLACE threadIdx, blockIdx, blockDim, gridDim;

struct fiber {
    struct sim_context context;
    unsigned thread; /* the CUDA thread that it runs */
    uint3 place;
    struct cudasim_site waits; /* where, while it does; call NULL: it does not */
};

struct warp {
    unsigned arrived, ended;
    unsigned phase;
    struct cudasim_site site;
    uint64_t values[2][WARP]; /* of two exchanges: a lane reads those of one while others enter the next */
    struct fiber *waiting[WARP];
    char edges[2]; /* addresses for ThreadSanitizer */
};

struct sim_runner {
    const struct cudasim_kernel *kernel;
    struct sim_context main;
    struct fiber *current;
    unsigned threads; /* of a block */
    unsigned started, ended;
    struct fiber *fibers[MAX_THREADS];
    unsigned num_fibers;
    struct fiber *idle[MAX_THREADS];
    unsigned num_idle;
    struct fiber *ready[MAX_THREADS]; /* a ring */
    unsigned ready_first, num_ready;
    /* The block's barrier. */
    unsigned arrived, phase;
    int sum, result;
    struct cudasim_site site;
    struct fiber *waiting[MAX_THREADS];
    char edges[2], block_begins, block_ends;
    struct warp warps[MAX_WARPS];
    /* Shared memory: static from the front, dynamic against the page behind it that faults. */
    char *shared;
    size_t static_bytes;
    /* Of the block's declarations, where each one's memory lies. They stand here and not in a variable of
     * each thread: a library that is loaded later has little room for those. */
    struct {
        const char *site;
        void *memory;
    } declared[MAX_DECLARED];
    unsigned num_declared;
};

static __thread struct sim_runner *runner __attribute__((tls_model("initial-exec")));

struct sim_runner *sim_runner_new(void)
{
    struct sim_runner *made = new struct sim_runner();
    made->shared = (char *)mmap(NULL, SHARED_BYTES + PAGE, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (made->shared == MAP_FAILED)
        sim_fatal("out of host memory");
    mprotect(made->shared + SHARED_BYTES, PAGE, PROT_NONE);
    sim_context_of_thread(&made->main);
    runner = made;
    return made;
}

void sim_runner_free(struct sim_runner *old)
{
    for (unsigned i = 0; i < MAX_THREADS; i++)
        if (old->fibers[i]) {
            sim_context_destroy(&old->fibers[i]->context);
            delete old->fibers[i];
        }
    munmap(old->shared, SHARED_BYTES + PAGE);
    delete old;
    runner = NULL;
}

/* ---- who goes on ---- */

static void fiber_begin(void);

static struct fiber *fiber_at(struct sim_runner *r, unsigned index)
{
    if (!r->fibers[index]) {
        r->fibers[index] = new struct fiber();
        if (!sim_context_create(&r->fibers[index]->context, fiber_begin))
            sim_fatal("out of host memory for the stacks of a block's threads");
    }
    return r->fibers[index];
}

static void make_ready(struct sim_runner *r, struct fiber *fiber)
{
    fiber->waits.call = NULL;
    r->ready[(r->ready_first + r->num_ready++) % MAX_THREADS] = fiber;
}

static void report_hanging(struct sim_runner *r) __attribute__((noreturn));
static void report_hanging(struct sim_runner *r)
{
    unsigned told = 0;
    sim_report("%s: block (%u, %u, %u) hangs: %u of %u threads have ended, and no other can go on",
               r->kernel->name, blockIdx.x, blockIdx.y, blockIdx.z, r->ended, r->threads);
    for (unsigned i = 0; i < MAX_THREADS && told < 8; i++) {
        const struct fiber *fiber = r->fibers[i];
        if (!fiber || !fiber->waits.call)
            continue;
        told++;
        sim_report("thread (%u, %u, %u) waits in %s at %s:%d", fiber->place.x, fiber->place.y, fiber->place.z,
                   fiber->waits.call, fiber->waits.file, fiber->waits.line);
    }
    sim_fatal("a barrier or an exchange is not reached by all threads of its block or warp");
}

/* The context that goes on when the present one cannot. */
static struct sim_context *next_context(struct sim_runner *r)
{
    if (r->num_ready) {
        struct fiber *fiber = r->ready[r->ready_first];
        r->ready_first = (r->ready_first + 1) % MAX_THREADS;
        r->num_ready--;
        r->current = fiber;
        return &fiber->context;
    }
    if (r->started < r->threads) {
        const bool own = sim_env()->racecheck;
        struct fiber *fiber = own           ? fiber_at(r, r->started)
                              : r->num_idle ? r->idle[--r->num_idle]
                                            : fiber_at(r, r->num_fibers++);
        r->current = fiber;
        return &fiber->context;
    }
    if (r->ended == r->threads) {
        r->current = NULL;
        return &r->main;
    }
    report_hanging(r);
}

/* Until someone has made the present fiber ready. */
static void wait_here(struct sim_runner *r, struct fiber *self, struct cudasim_site site)
{
    self->waits = site;
    sim_context_switch(&self->context, next_context(r));
    threadIdx = self->place;
}

static void release_barrier(struct sim_runner *r)
{
    const unsigned waiting = r->arrived;
    r->arrived = 0;
    r->phase ^= 1;
    r->result = r->sum;
    r->sum = 0;
    for (unsigned i = 0; i < waiting; i++)
        if (r->waiting[i])
            make_ready(r, r->waiting[i]);
}

static void run_thread(struct sim_runner *r, struct fiber *self)
{
    const unsigned index = r->started++;
    const unsigned thread = sim_env()->backward ? r->threads - 1 - index : index;
    self->thread = thread;
    self->place.x = thread % blockDim.x;
    self->place.y = thread / blockDim.x % blockDim.y;
    self->place.z = thread / blockDim.x / blockDim.y;
    threadIdx = self->place;
    const bool racecheck = sim_env()->racecheck;
    if (racecheck)
        SIM_ACQUIRE(&r->block_begins);
    r->kernel->run(r->kernel->closure);
    if (racecheck)
        SIM_RELEASE(&r->block_ends);
    struct warp *warp = &r->warps[thread / WARP];
    warp->ended++;
    r->ended++;
    if (warp->arrived)
        sim_fatal("the thread ended while other lanes of its warp are in %s at %s:%d", warp->site.call,
                  warp->site.file, warp->site.line);
    if (r->arrived && r->arrived + r->ended == r->threads)
        release_barrier(r);
}

static void fiber_begin(void)
{
    sim_context_begun();
    struct sim_runner *r = runner; /* a fiber stays on its thread */
    for (;;) {
        struct fiber *self = r->current;
        if (sim_env()->racecheck) {
            run_thread(r, self);
        } else {
            while (r->started < r->threads && !r->num_ready) /* who can go on does so first */
                run_thread(r, self);
            r->idle[r->num_idle++] = self;
        }
        sim_context_switch(&self->context, next_context(r));
    }
}

/* ---- barriers and exchanges ---- */

static bool same_site(const struct cudasim_site &a, const struct cudasim_site &b)
{
    return a.number == b.number && a.line == b.line && !strcmp(a.file, b.file);
}

static void outside(const char *call)
{
    sim_fatal("%s is called outside a kernel", call);
}

int cudasim_block_barrier(struct cudasim_site site, int value)
{
    struct sim_runner *r = runner;
    if (!r || !r->current)
        outside(site.call);
    struct fiber *self = r->current;
    if (r->arrived && !same_site(site, r->site))
        sim_fatal("threads of one block wait in different barriers: %s at %s:%d, and %s at %s:%d",
                  r->site.call, r->site.file, r->site.line, site.call, site.file, site.line);
    const unsigned phase = r->phase;
    const bool racecheck = sim_env()->racecheck;
    if (racecheck)
        SIM_RELEASE(&r->edges[phase]);
    r->site = site;
    r->sum += value;
    r->waiting[r->arrived++] = self;
    if (r->arrived + r->ended == r->threads) {
        r->waiting[r->arrived - 1] = NULL; /* goes on itself */
        release_barrier(r);
    } else {
        wait_here(r, self, site);
    }
    if (racecheck)
        SIM_ACQUIRE(&r->edges[phase]);
    return r->result;
}

static const uint64_t *meet(struct cudasim_site site, unsigned int mask, uint64_t value, bool orders)
{
    struct sim_runner *r = runner;
    if (!r || !r->current)
        outside(site.call);
    struct fiber *self = r->current;
    struct warp *warp = &r->warps[self->thread / WARP];
    const unsigned lane = self->thread % WARP;
    if (mask != 0xffffffffu)
        sim_fatal("%s at %s:%d with the mask %#x: only full masks are simulated", site.call, site.file,
                  site.line, mask);
    if (self->thread - lane + WARP > r->threads)
        sim_fatal("%s at %s:%d in a warp of only %u threads", site.call, site.file, site.line,
                  r->threads - (self->thread - lane));
    if (warp->ended)
        sim_fatal("%s at %s:%d, where %u lanes of the warp have ended", site.call, site.file, site.line,
                  warp->ended);
    if (warp->arrived && !same_site(site, warp->site))
        sim_fatal("lanes of one warp are apart: in %s at %s:%d, and in %s at %s:%d", warp->site.call,
                  warp->site.file, warp->site.line, site.call, site.file, site.line);
    const unsigned phase = warp->phase;
    const bool edges = orders && sim_env()->racecheck;
    if (edges)
        SIM_RELEASE(&warp->edges[phase]);
    warp->site = site;
    warp->values[phase][lane] = value;
    if (++warp->arrived == WARP) {
        warp->arrived = 0;
        warp->phase ^= 1;
        for (unsigned i = 0; i < WARP; i++)
            if (i != lane)
                make_ready(r, warp->waiting[i]);
    } else {
        warp->waiting[lane] = self;
        wait_here(r, self, site);
    }
    if (edges)
        SIM_ACQUIRE(&warp->edges[phase]);
    return warp->values[phase];
}

const uint64_t *cudasim_warp_exchange(struct cudasim_site site, unsigned int mask, uint64_t value)
{
    return meet(site, mask, value, false);
}

void cudasim_warp_barrier(struct cudasim_site site, unsigned int mask)
{
    meet(site, mask, 0, true);
}

unsigned int cudasim_lane(void)
{
    return runner->current->thread % WARP;
}

void cudasim_trap(const char *file, int line)
{
    sim_fatal("__trap() at %s:%d", file, line);
}

/* ---- shared memory ---- */

void *cudasim_static_shared(const char *site, size_t bytes, const char *name)
{
    struct sim_runner *r = runner;
    if (!r || !r->current)
        outside("MT_SHARED");
    for (unsigned i = 0; i < r->num_declared; i++)
        if (r->declared[i].site == site)
            return r->declared[i].memory;
    const size_t start = (r->static_bytes + 15) / 16 * 16;
    if (bytes > STATIC_SHARED_BYTES || start + bytes > STATIC_SHARED_BYTES)
        sim_fatal("shared variable %s: %zu bytes of static shared memory, more than the %zu of a block", name,
                  start + bytes, STATIC_SHARED_BYTES);
    if (r->num_declared == MAX_DECLARED)
        sim_fatal("shared variable %s: more than %d of a block", name, MAX_DECLARED);
    r->static_bytes = start + bytes;
    r->declared[r->num_declared].site = site;
    r->declared[r->num_declared++].memory = r->shared + start;
    sim_fill_bytes(r->shared + start, 0xff, bytes);
    return r->shared + start;
}

void *cudasim_dynamic_shared(void)
{
    struct sim_runner *r = runner;
    if (!r || !r->current)
        outside("MT_DYNAMIC_SHARED");
    return r->shared + SHARED_BYTES - (r->kernel->shared_bytes + 15) / 16 * 16;
}

/* ---- a kernel ---- */

static void run_block(struct sim_runner *r)
{
    r->static_bytes = 0;
    r->num_declared = 0;
    r->started = r->ended = 0;
    const size_t dynamic = (r->kernel->shared_bytes + 15) / 16 * 16;
    sim_fill_bytes(r->shared + SHARED_BYTES - dynamic, 0xff, dynamic);
    for (unsigned warp = 0; warp * WARP < r->threads; warp++)
        r->warps[warp].ended = 0;
    SIM_RELEASE(&r->block_begins);
    sim_context_switch(&r->main, next_context(r));
    if (sim_env()->racecheck)
        SIM_ACQUIRE(&r->block_ends);
}

void sim_runner_run(struct sim_runner *r, const struct cudasim_kernel *kernel)
{
    const dim3 grid = kernel->grid;
    const uint64_t blocks = (uint64_t)grid.x * grid.y * grid.z;
    r->kernel = kernel;
    r->threads = kernel->block.x * kernel->block.y * kernel->block.z;
    blockDim = uint3{kernel->block.x, kernel->block.y, kernel->block.z};
    gridDim = uint3{grid.x, grid.y, grid.z};
    for (uint64_t i = 0; i < blocks; i++) {
        const uint64_t block = sim_env()->backward ? blocks - 1 - i : i;
        blockIdx.x = (unsigned)(block % grid.x);
        blockIdx.y = (unsigned)(block / grid.x % grid.y);
        blockIdx.z = (unsigned)(block / grid.x / grid.y);
        run_block(r);
    }
    r->kernel = NULL;
}

void sim_runner_place(char *text, size_t bytes)
{
    *text = 0;
    const struct sim_runner *r = runner;
    if (r && r->kernel)
        snprintf(text, bytes, "kernel %s, block (%u, %u, %u), thread (%u, %u, %u)", r->kernel->name,
                 blockIdx.x, blockIdx.y, blockIdx.z, threadIdx.x, threadIdx.y, threadIdx.z);
}
