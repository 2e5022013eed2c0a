/* A plan as JSON. */
#include "core/plan/device.h"
#include "core/plan/plan.h"

static json_t *number(size_t value)
{
    return json_integer((json_int_t)value);
}

static json_t *device_json(const struct mt_plan *plan)
{
    return json_pack(
        "{s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "kind", plan->machine.kind, "total_bytes",
        number(plan->device_bytes), "limit_bytes", number(plan->machine.device_bytes), "reserved_bytes",
        number(plan->machine.reserved_bytes), "weights_bytes", number(plan->memory.device.weights),
        "gradients_bytes", number(plan->memory.device.gradients), "activations_bytes",
        number(plan->memory.device.activations), "boundaries_bytes", number(plan->memory.device.boundaries),
        "head_bytes", number(plan->memory.device.head), "tables_bytes", number(plan->memory.device.tables),
        "scratch_bytes", number(plan->device_bytes - plan->memory.device.total));
}

static json_t *host_json(const struct mt_plan *plan)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "total_bytes", number(plan->host_bytes),
                     "limit_bytes", number(plan->machine.host_bytes), "master_bytes",
                     number(plan->store.master), "moments_bytes", number(plan->store.moments),
                     "gradients_bytes", number(plan->store.gradients), "landing_bytes",
                     number(plan->memory.host.gradients), "boundaries_bytes",
                     number(plan->memory.host.boundaries), "staging_bytes", number(plan->memory.host.staging),
                     "device_bytes", number(plan->machine.borrows_memory ? plan->device_bytes : 0));
}

static json_t *disk_json(const struct mt_plan *plan)
{
    /* One more than are kept while the newest is written. */
    return json_pack("{s:o, s:o, s:o}", "total_bytes",
                     number(plan->checkpoint_bytes * (plan->num_checkpoints + 1)), "checkpoint_bytes",
                     number(plan->checkpoint_bytes), "checkpoints", number(plan->num_checkpoints));
}

static json_t *stages_json(const double *seconds)
{
    json_t *stages = json_object();
    for (size_t i = 0; stages && i < MT_NUM_STAGES; i++)
        if (seconds[i] > 0)
            json_object_set_new(stages, mt_plan_stage_name((enum mt_stage)i), json_real(seconds[i]));
    return stages;
}

static json_t *rates_json(const struct mt_plan_machine *machine)
{
    const struct mt_plan_rates *rates = &machine->rates;
    return json_pack("{s:s, s:f, s:f, s:f, s:f, s:f}", "source", machine->rates_source, "device_tflops",
                     rates->device_flops / 1e12, "device_gbps", rates->device_bytes_per_second / 1e9,
                     "bus_gbps", rates->bus_bytes_per_second / 1e9, "bus_latency_us",
                     rates->bus_latency_seconds * 1e6, "dram_gbps", rates->memory_bytes_per_second / 1e9);
}

static json_t *changes_json(const struct mt_plan *plan)
{
    json_t *changes = json_object();
    for (size_t i = 0; changes && i < plan->num_changes; i++) {
        json_t *value = json_loads(plan->changes[i].value, JSON_DECODE_ANY, NULL);
        json_object_set_new(changes, plan->changes[i].key,
                            value ? value : json_string(plan->changes[i].value));
    }
    return changes;
}

json_t *mt_plan_json(const struct mt_plan *plan)
{
    json_t *json = json_pack(
        "{s:b, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:{s:o, s:o}, s:f, s:o, s:o, s:s, s:f, s:f, "
        "s:o}",
        "fits", plan->fits, "compute_dtype", plan->compute_dtype == MT_BF16 ? "bfloat16" : "float32",
        "parameters", number(plan->parameters), "trainable_parameters", number(plan->trainable_parameters),
        "sequences_per_step", number(plan->sequences_per_step), "tokens_per_step",
        number(plan->tokens_per_step), "micro_batch_size", number(plan->micro_batch_size),
        "largest_micro_batch_size", number(plan->largest_micro_batch_size), "device", device_json(plan),
        "host", host_json(plan), "disk", disk_json(plan), "bus_bytes_per_step", "in", number(plan->bus_in),
        "out", number(plan->bus_out), "flops_per_step", plan->flops, "stages", stages_json(plan->stages),
        "critical_path", stages_json(plan->critical), "bound_by", mt_plan_stage_name(plan->bound_by),
        "step_seconds", plan->step_seconds, "tokens_per_second", plan->tokens_per_second, "rates",
        rates_json(&plan->machine));
    if (json) {
        json_object_set_new(json, "checkpoint_interval", number(plan->checkpoint_interval));
        json_object_set_new(json, "head_pieces", number(plan->head_pieces));
        if (plan->fits && plan->checkpoint_interval < plan->asked_interval)
            json_object_set_new(
                json, "lowered",
                json_pack("{s:o}", "memory.checkpoint_interval", number(plan->checkpoint_interval)));
    }
    if (json && !plan->fits) {
        json_object_set_new(json, "problem", json_string(plan->problem));
        const bool hopeless = plan->store.total > plan->machine.host_bytes;
        if (plan->num_changes > 0)
            json_object_set_new(json, hopeless ? "device_would_fit_with" : "would_fit_with",
                                changes_json(plan));
    }
    return json;
}
