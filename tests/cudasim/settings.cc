/* What the environment asks for; README.md lists it. Read once, at the first call. */
#include "tests/cudasim/sim.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_INJECTED 16

struct injected {
    char name[64];
    unsigned long from, count;
    unsigned long to; /* the last call that fails */
    int error;        /* 0: the usual one */
};

static struct injected injected[MAX_INJECTED];
static unsigned num_injected;

static double number(const char *name, double otherwise)
{
    const char *text = getenv(name);
    if (!text || !*text)
        return otherwise;
    char *end;
    const double value = strtod(text, &end);
    if (*end || !(value >= 0))
        sim_fatal("%s=%s is no number", name, text);
    return value;
}

/* "64M", "2G": powers of 1024. */
static size_t bytes(const char *name, size_t otherwise)
{
    const char *text = getenv(name);
    if (!text || !*text)
        return otherwise;
    char *end;
    double value = strtod(text, &end);
    const char *units = "KMGT", *unit = *end ? strchr(units, *end) : NULL;
    if (unit)
        value = ldexp(value, 10 * (int)(unit - units + 1));
    if ((*end && !unit) || (unit && end[1]) || !(value >= 0))
        sim_fatal("%s=%s is no number of bytes", name, text);
    return (size_t)value;
}

/* "cudaMalloc:3,kernel:10:716,ncclAllReduce:1-": the third call; the tenth, with that error; all calls. */
static void read_injected(const char *text)
{
    while (text && *text) {
        if (num_injected == MAX_INJECTED)
            sim_fatal("CUDASIM_FAIL names more than %d calls", MAX_INJECTED);
        struct injected *one = &injected[num_injected++];
        const size_t length = strcspn(text, ":,");
        if (text[length] != ':' || length >= sizeof one->name)
            sim_fatal("CUDASIM_FAIL: \"%s\" is not call:number[-[number]][:error]", text);
        memcpy(one->name, text, length);
        char *end;
        one->from = one->to = strtoul(text + length + 1, &end, 10);
        if (*end == '-') {
            one->to = strtoul(end + 1, &end, 10);
            one->to = one->to ? one->to : ~0ul;
        }
        if (*end == ':')
            one->error = (int)strtoul(end + 1, &end, 10);
        if (!one->from || (*end && *end != ','))
            sim_fatal("CUDASIM_FAIL: \"%s\" is not call:number[-[number]][:error]", text);
        text = *end ? end + 1 : end;
    }
}

static void read_settings(struct sim_settings *settings)
{
    settings->devices = (int)number("CUDASIM_DEVICES", 1);
    if (settings->devices > SIM_MAX_DEVICES)
        sim_fatal("CUDASIM_DEVICES: at most %d", SIM_MAX_DEVICES);
    settings->memory_bytes = bytes("CUDASIM_MEMORY", (size_t)1 << 30);
    settings->bus_bytes_per_second = number("CUDASIM_BUS_GBPS", 0) * 1e9;
    settings->latency_seconds = number("CUDASIM_LATENCY_US", 0) * 1e-6;
    settings->seed = (uint64_t)number("CUDASIM_SEED", 0);
    settings->delay_microseconds = (uint32_t)number("CUDASIM_DELAY_US", 0);
    settings->progress_microseconds = (uint32_t)number("CUDASIM_NCCL_PROGRESS_US", 0);
    settings->code_bytes = bytes("CUDASIM_CODE_MEMORY", (size_t)1 << 15);
    settings->code_capability = (int)number("CUDASIM_CODE", 0);
    settings->library_bytes = bytes("CUDASIM_LIBRARY_MEMORY", (size_t)1 << 18);
    settings->pinned_limit_bytes = bytes("CUDASIM_PINNED_LIMIT", SIZE_MAX);
    settings->backward = settings->seed % 2 == 1;
    settings->racecheck = number("CUDASIM_RACECHECK", 0) != 0;
    settings->driver_version = (int)number("CUDASIM_DRIVER", 13000);
    const double capability = number("CUDASIM_CAPABILITY", 80);
    settings->compute_major = (int)capability / 10;
    settings->compute_minor = (int)capability % 10;
    const char *pageable = getenv("CUDASIM_PAGEABLE");
    if (pageable && !strcmp(pageable, "copy"))
        settings->pageable = SIM_PAGEABLE_COPY;
    else if (pageable && strcmp(pageable, "refuse"))
        sim_fatal("CUDASIM_PAGEABLE=%s: refuse or copy", pageable);
    settings->launches = getenv("CUDASIM_LAUNCHES");
    read_injected(getenv("CUDASIM_FAIL"));
#if !defined(CUDASIM_TSAN)
    if (settings->racecheck)
        sim_fatal("CUDASIM_RACECHECK needs a build under ThreadSanitizer");
#endif
}

const struct sim_settings *sim_env(void)
{
    static struct sim_settings settings;
    static struct sim_lock lock;
    static bool done;
    if (!__atomic_load_n(&done, __ATOMIC_ACQUIRE)) {
        sim_take(&lock);
        if (!done)
            read_settings(&settings);
        __atomic_store_n(&done, true, __ATOMIC_RELEASE);
        sim_give(&lock);
    }
    return &settings;
}

bool sim_injected(const char *name, int usual_error, int *error)
{
    sim_env();
    for (unsigned i = 0; i < num_injected; i++) {
        struct injected *one = &injected[i];
        if (strcmp(one->name, name))
            continue;
        const unsigned long call = __atomic_add_fetch(&one->count, 1, __ATOMIC_RELAXED);
        if (call < one->from || call > one->to)
            continue;
        *error = one->error ? one->error : usual_error;
        sim_report("call %lu of %s fails, as CUDASIM_FAIL asks", call, name);
        return true;
    }
    return false;
}
