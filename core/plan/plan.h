/* The planner: what a job will take of a machine, and how long a step will last, by a dry run of the real
 * store and executor on the planning device (core/plan/device.h). It needs neither weights nor data nor the
 * machine itself. */
#ifndef MT_PLAN_PLAN_H
#define MT_PLAN_PLAN_H

#include "core/base/error.h"
#include "core/job/job.h"
#include "core/plan/machine.h"
#include "core/store/store.h"
#include "core/stream/executor.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* One change of the job that would make it fit. */
struct mt_plan_change {
    const char *key; /* "training.micro_batch_size" */
    char value[24];
};
#define MT_PLAN_MAX_CHANGES 8

struct mt_plan {
    struct mt_plan_machine machine;
    enum mt_dtype compute_dtype;
    size_t parameters, trainable_parameters;
    size_t sequences_per_step, tokens_per_step; /* tokens: as if every sequence were full */

    /* Where `fits` is false these are what the job would take if the device had no end. */
    bool fits, device_fits, host_fits;
    size_t micro_batch_size;         /* the job's, or what auto becomes */
    size_t largest_micro_batch_size; /* that fits; 0 when none does */
    size_t checkpoint_interval;      /* what a run would take: the job's, or less where that does not fit */
    size_t asked_interval;           /* the job's */
    size_t head_pieces;              /* in which the output matrix comes to the device; 1: as a whole */
    struct mt_executor_memory memory;
    struct mt_store_bytes store;
    size_t host_bytes;   /* all of the host's, the device's part where that is borrowed from it */
    size_t device_bytes; /* memory.device.total; on a GPU all that is taken */
    size_t checkpoint_bytes, num_checkpoints;

    size_t bus_in, bus_out; /* bytes a step */
    double flops;           /* a step */
    double stages[MT_NUM_STAGES];
    enum mt_stage bound_by; /* the stage with the largest part of the critical path */
    double critical[MT_NUM_STAGES];
    double step_seconds, tokens_per_second;

    char problem[512];  /* where it does not fit: what is missing, and what would do */
    size_t num_changes; /* all of them together would make it fit; 0: no change was found */
    struct mt_plan_change changes[MT_PLAN_MAX_CHANGES];
};

/* `presets`: the folder of presets, or NULL. Not fitting is no error. Errors: MT_REASON_BAD_MODEL (a model
 * that is not known yet), MT_REASON_BAD_JOB, MT_REASON_OUT_OF_MEMORY (of this process). */
int mt_plan_make(const struct mt_job *job, const struct mt_plan_machine *machine, const char *presets,
                 struct mt_plan *plan, struct mt_error *error);

/* The same as JSON; docs/plan.md has the keys. New reference, NULL when out of memory. */
json_t *mt_plan_json(const struct mt_plan *plan);

#endif
