/* The machine that a plan is made for: this one, or one that nobody here has. */
#ifndef MT_PLAN_MACHINE_H
#define MT_PLAN_MACHINE_H

#include "core/base/error.h"
#include "core/job/job.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* How fast it is. 0 in a request: measured on the CPU, assumed for a GPU. */
struct mt_plan_rates {
    double device_flops;            /* matrix products, a second */
    double device_bytes_per_second; /* the device's own memory */
    double bus_bytes_per_second;    /* each direction */
    double bus_latency_seconds;     /* added to each copy */
    double memory_bytes_per_second; /* the host's memory */
};

/* What is asked; zeros: this machine, and the job's device. */
struct mt_plan_wish {
    size_t gpu_bytes;  /* of a GPU with memory of its own; makes the job's device one */
    size_t host_bytes; /* that the job may use */
    struct mt_plan_rates rates;
};

struct mt_plan_machine {
    char kind[16];       /* "cpu", "cpu-discrete", "cuda" */
    bool host_memory;    /* the device computes in the host's memory */
    bool shares_cores;   /* updates and the device's operations run on the same processor */
    bool borrows_memory; /* the device's memory is taken from the host's */
    size_t device_bytes; /* of the device's memory */
    size_t
        reserved_bytes; /* of them that are not for the job: the driver's, what memory.device_limit leaves */
    size_t scratch_bytes;   /* that operations take beside what the job asks for; one compute stream's */
    size_t host_bytes;      /* that a job may use at most */
    size_t available_bytes; /* of them, now */
    struct mt_plan_rates rates;
    const char *rates_source; /* "given", "measured", "assumed"; the weakest of them */
};

/* {"gpu_memory": "24G", "host_memory": "128G", "bus_gbps", "bus_latency_us", "device_tflops", "device_gbps",
 * "dram_gbps"}: sizes as text or bytes, rates as numbers. Errors: MT_REASON_USAGE, naming the key. */
int mt_plan_wish_from_json(const json_t *object, struct mt_plan_wish *wish, struct mt_error *error);

/* The machine for a job: with the GPU that the job's device names, or that of the wish; one of which nothing
 * is known is assumed to have 24 GiB. `measure`: rates that are not given are measured, which takes some 50
 * ms. Errors: MT_REASON_DEVICE, MT_REASON_OUT_OF_MEMORY. */
int mt_plan_machine_choose(const struct mt_job *job, const struct mt_plan_wish *wish, bool measure,
                           struct mt_plan_machine *machine, struct mt_error *error);

#endif
