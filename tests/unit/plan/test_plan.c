/* The planner: what it says is what a run takes, every preset plans, nothing is touched on the way. */
#include "core/base/cleanup.h"
#include "core/base/file.h"
#include "core/device/open.h"
#include "core/plan/plan.h"
#include "core/plan/preset.h"
#include "core/stream/from_job.h"
#include "tests/unit/support.h"

static const char presets[] = "etc/presets";

static struct mt_job *job_of(const char *text)
{
    struct mt_error error = {0};
    struct mt_job_errors errors = {0};
    const struct mt_job_context context = {.purpose = MT_JOB_PLAN, .default_name = "plan"};
    mt_autojson json_t *document = json_loads(text, 0, NULL);
    struct mt_job *job = NULL;
    assert_non_null(document);
    if (mt_job_parse(document, &context, &job, &errors) < 0) {
        mt_job_errors_report(&errors, &error);
        fail_msg("%s", error.message);
    }
    return job;
}

static struct mt_job *job_of_model(const char *name, const char *rest)
{
    char text[512];
    snprintf(text, sizeof text, "{\"model\": {\"name\": \"%s\"}, \"dataset\": {\"path\": \"data\"}%s}", name,
             rest);
    return job_of(text);
}

static void plan_of(const struct mt_job *job, const struct mt_plan_wish *wish, struct mt_plan *plan)
{
    struct mt_error error = {0};
    struct mt_plan_machine machine;
    if (mt_plan_machine_choose(job, wish, false, &machine, &error) < 0 ||
        mt_plan_make(job, &machine, presets, plan, &error) < 0)
        fail_msg("%s", error.message);
}

#define SCRATCH                                                                                              \
    "{\"device\": \"%s\", \"model\": {\"architecture\": \"llama\", \"hidden_size\": 64, \"num_layers\": 6,"  \
    "\"num_attention_heads\": 4, \"vocab_size\": %d%s}, \"dataset\": {\"path\": \"data\", "                  \
    "\"max_seq_len\": 48},"                                                                                  \
    "\"training\": {\"batch_size\": 6, \"micro_batch_size\": 2%s}, \"memory\": {\"device_limit\": "          \
    "\"20MiB\"%s}}"

/* The executor of the job on the real device: its memory, what is gone of the device's (under its limit), and
 * the traffic of a step. */
static void run_for_real(const struct mt_job *job, struct mt_executor_memory *memory, size_t *taken,
                         size_t *in, size_t *out)
{
    struct mt_error error = {0};
    struct mt_pool *pool = mt_pool_new(2);
    struct mt_device *device;
    struct mt_device_info info;
    struct mt_model *model;
    struct mt_store *store;
    struct mt_executor *executor;
    const struct mt_device_options device_options = {.pool = pool,
                                                     .memory_limit_bytes = job->memory.device_limit_bytes};
    struct mt_executor_options options = mt_executor_options_from_job(job);
    assert_int_equal(mt_device_open(job->device, &device_options, &device, &error), 0);
    device->api->info(device, &info);
    const struct mt_store_options store_options = mt_store_options_from_job(job, &options, &info);
    assert_int_equal(mt_model_from_keys(job->model.architecture, job->model.config, &model, &error), 0);
    if (job->training.num_freeze)
        assert_int_equal(mt_model_freeze(model, job->training.freeze, job->training.num_freeze, &error), 0);
    assert_int_equal(mt_store_new(model, device, &store_options, &store, &error), 0);
    assert_int_equal(mt_store_init(store, 1, pool, &error), 0);
    mt_assert_ok(mt_executor_settle(store, device, pool, &options, job->training.batch_size, info.total_bytes,
                                    &executor, &error),
                 &error);
    const size_t tokens = options.max_sequence_tokens;
    int32_t *ids = calloc(tokens, sizeof *ids), starts[2] = {0, (int32_t)tokens};
    struct mt_sequence sequences[6];
    for (size_t i = 0; i < 6; i++)
        sequences[i] = (struct mt_sequence){tokens, ids, ids, 1, starts, i};
    const struct mt_batch batch = {.num_sequences = 6, .sequences = sequences};
    struct mt_step_result result;
    size_t weights;
    if (mt_executor_step(executor, &batch, 1e-3, &result, &error) < 0)
        fail_msg("%s", error.message);
    mt_executor_memory(executor, memory);
    mt_executor_traffic(executor, &weights, in, out);
    device->api->info(device, &info);
    *taken = info.total_bytes - info.free_bytes;
    free(ids);
    mt_executor_free(executor);
    mt_store_free(store);
    mt_model_free(model);
    mt_device_close(device);
    mt_pool_free(pool);
}

struct planned {
    const char *device, *model, *training, *memory;
    int vocab_size;
};

static void compare(const struct planned *one)
{
    char text[1024];
    struct mt_plan plan;
    struct mt_executor_memory memory;
    size_t taken, in, out;
    snprintf(text, sizeof text, SCRATCH, one->device, one->vocab_size, one->model, one->training,
             one->memory);
    struct mt_job *job = job_of(text);
    plan_of(job, &(struct mt_plan_wish){0}, &plan);
    run_for_real(job, &memory, &taken, &in, &out);
    assert_true(plan.fits);
    assert_memory_equal(&plan.memory.device, &memory.device, sizeof memory.device);
    assert_memory_equal(&plan.memory.host, &memory.host, sizeof memory.host);
    assert_int_equal(plan.bus_in, in);
    assert_int_equal(plan.bus_out, out);
    assert_true((plan.bus_in > 0) == (strcmp(one->device, "cpu") != 0));
    assert_int_equal(plan.head_pieces > 1, one->vocab_size > 300);
    if (strcmp(one->device, "cuda") == 0)
        assert_int_equal(plan.device_bytes, taken);
    mt_job_free(job);
}

static void a_plan_takes_what_a_run_takes(void **state)
{
    (void)state;
    static const struct planned cases[] = {
        {"cpu-discrete", "", "", "", 300},
        {"cpu-discrete", ", \"tie_word_embeddings\": true", "", ", \"activation_offload\": \"on\"", 300},
        {"cpu-discrete", "", ", \"max_grad_norm\": 0, \"max_skipped_steps\": 0",
         ", \"recompute\": \"always\"", 300},
        {"cpu-discrete", ", \"dtype\": \"bfloat16\"", "", ", \"checkpoint_interval\": 3", 300},
        {"cpu-discrete", "", ", \"freeze\": [\"model.layers.0.*\"]", ", \"num_grad_slabs\": 1", 300},
        {"cpu", "", "", ", \"recompute\": \"always\"", 300},
        /* Nothing of this fits at once: layers one by one, the output matrix in tiles, inputs on the host. */
        {"cpu-discrete", "", "",
         ", \"checkpoint_interval\": 6, \"num_grad_slabs\": 1, \"recompute\": \"always\"", 40000},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        compare(&cases[i]);
}

/* The CUDA backend's workspaces and scratch are planned without it. */
static void a_plan_takes_what_a_run_takes_on_cuda(void **state)
{
    (void)state;
    static const struct planned cases[] = {
        {"cuda", "", "", "", 300},
        {"cuda", ", \"dtype\": \"float32\"", "", ", \"recompute\": \"always\"", 300},
        {"cuda", ", \"num_key_value_heads\": 2", "", ", \"activation_offload\": \"on\"", 300},
        {"cuda", "", "", ", \"checkpoint_interval\": 3, \"num_grad_slabs\": 1", 300},
        {"cuda", "", ", \"max_grad_norm\": 0, \"max_skipped_steps\": 0", "", 300},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        compare(&cases[i]);
}

static size_t resident_bytes(void)
{
    mt_autofile FILE *file = fopen("/proc/self/statm", "re");
    size_t all, resident;
    return file && fscanf(file, "%zu %zu", &all, &resident) == 2 ? resident * 4096 : 0;
}

static void every_preset_plans_with_its_published_size(void **state)
{
    (void)state;
    mt_autojson json_t *list = mt_preset_list(presets);
    const struct mt_plan_wish wish = {.gpu_bytes = (size_t)80 << 30, .host_bytes = (size_t)2 << 40};
    /* What transformers' models count on the meta device (tests/golden/count_parameters.py). */
    mt_autojson json_t *file = json_load_file("tests/golden/parameters.json", 0, NULL);
    const json_t *counts = json_object_get(file, "parameters");
    size_t i, compared = 0;
    json_t *name;
    assert_true(json_array_size(list) >= 100);
    const size_t before = resident_bytes();
    json_array_foreach(list, i, name)
    {
        struct mt_error error = {0};
        struct mt_plan plan;
        json_t *preset;
        struct mt_job *job = job_of_model(json_string_value(name), "");
        assert_int_equal(mt_preset_find(presets, json_string_value(name), &preset, &error), 0);
        plan_of(job, &wish, &plan);
        assert_int_equal(plan.parameters, json_integer_value(json_object_get(preset, "parameters")));
        const json_t *counted = json_object_get(counts, json_string_value(name));
        if (counted && (json_int_t)plan.parameters != json_integer_value(counted))
            fail_msg("%s has %zu parameters here, %" JSON_INTEGER_FORMAT " in transformers",
                     json_string_value(name), plan.parameters, json_integer_value(counted));
        compared += counted != NULL;
        if (!plan.fits)
            fail_msg("%s: %s", json_string_value(name), plan.problem);
        assert_true(plan.device_bytes < wish.gpu_bytes);
        /* bf16 halves, remainders, moments, gradients: 16 bytes a parameter, and little else. */
        assert_true(plan.store.total >= 16 * plan.parameters &&
                    plan.store.total < 16 * plan.parameters + plan.parameters / 100);
        assert_true(plan.largest_micro_batch_size >= plan.micro_batch_size);
        assert_true(plan.tokens_per_second > 0 && plan.tokens_per_second < 1e9);
        json_decref(preset);
        mt_job_free(job);
    }
    assert_true(compared >= 100);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    assert_true(resident_bytes() < before + ((size_t)96 << 20)); /* terabytes were planned */
#else
    (void)before;
#endif
}

static void a_step_obeys_the_bounds_of_its_parts(void **state)
{
    (void)state;
    /* DESIGN section 6, with numbers that make each part the bound in turn. */
    static const struct {
        struct mt_plan_rates rates;
        enum mt_stage bound;
    } cases[] = {
        {{1e12, 800e9, 1000e9, 1e-9, 1000e9}, MT_STAGE_BACKWARD},
        {{1e17, 1e15, 1e9, 1e-9, 1000e9}, MT_STAGE_GRADIENTS_OUT},
        {{1e17, 1e15, 1000e9, 1e-9, 1e9}, MT_STAGE_UPDATE},
    };
    for (size_t i = 0; i < 3; i++) {
        const struct mt_plan_wish wish = {(size_t)24 << 30, (size_t)256 << 30, cases[i].rates};
        struct mt_job *job = job_of_model("llama-3.2-3b", ", \"memory\": {\"recompute\": \"always\"}");
        struct mt_plan plan;
        double slowest = 0;
        plan_of(job, &wish, &plan);
        const double n = (double)plan.parameters, t = (double)plan.tokens_per_step;
        assert_int_equal(plan.bound_by, cases[i].bound);
        assert_string_equal(plan.machine.rates_source, "given");
        for (size_t stage = 0; stage < MT_NUM_STAGES; stage++)
            slowest = plan.stages[stage] > slowest ? plan.stages[stage] : slowest;
        assert_true(plan.step_seconds >= slowest * 0.999);
        /* 8N a token without the head, which is not recomputed, and attention above. */
        assert_true(plan.flops > 6 * n * t && plan.flops < 9.5 * n * t);
        if (cases[i].bound == MT_STAGE_BACKWARD)
            assert_true(plan.step_seconds < 1.3 * plan.flops / cases[i].rates.device_flops);
        mt_job_free(job);
    }
}

static void layers_that_do_not_fit_together_are_fewer_and_it_says_so(void **state)
{
    (void)state;
    struct mt_job *job = job_of_model("llama-3.1-8b", ", \"memory\": {\"checkpoint_interval\": 8}");
    struct mt_plan_wish wish = {.gpu_bytes = (size_t)12 << 30, .host_bytes = (size_t)256 << 30};
    struct mt_plan plan;
    plan_of(job, &wish, &plan);
    assert_true(plan.fits);
    assert_true(plan.checkpoint_interval > 1 && plan.checkpoint_interval < 8);
    mt_autojson json_t *json = mt_plan_json(&plan);
    const json_t *lowered = json_object_get(json_object_get(json, "lowered"), "memory.checkpoint_interval");
    assert_int_equal(json_integer_value(lowered), plan.checkpoint_interval);
    wish.gpu_bytes = (size_t)80 << 30;
    plan_of(job, &wish, &plan);
    assert_true(plan.fits);
    assert_int_equal(plan.checkpoint_interval, 8);
    mt_autojson json_t *whole = mt_plan_json(&plan);
    assert_null(json_object_get(whole, "lowered"));
    mt_job_free(job);
}

static void what_does_not_fit_says_what_would(void **state)
{
    (void)state;
    struct mt_job *job =
        job_of_model("llama-3.1-8b", ", \"memory\": {\"checkpoint_interval\": 4, \"num_grad_slabs\": 8}");
    struct mt_plan_wish wish = {.gpu_bytes = (size_t)6 << 30, .host_bytes = (size_t)128 << 30};
    struct mt_plan plan;
    plan_of(job, &wish, &plan);
    assert_false(plan.fits);
    assert_false(plan.device_fits);
    assert_true(plan.host_fits);
    assert_true(plan.device_bytes > wish.gpu_bytes);
    assert_true(plan.num_changes > 0);
    assert_non_null(strstr(plan.problem, "memory.num_grad_slabs"));
    assert_int_equal(plan.largest_micro_batch_size, 0);
    wish = (struct mt_plan_wish){.gpu_bytes = (size_t)80 << 30, .host_bytes = (size_t)64 << 30};
    plan_of(job, &wish, &plan);
    assert_true(!plan.fits && plan.device_fits && !plan.host_fits);
    assert_int_equal(plan.num_changes, 0);
    assert_non_null(strstr(plan.problem, "machine with more memory"));
    mt_job_free(job);

    /* With the changes it does fit. */
    job = job_of_model("llama-3.1-8b", ", \"memory\": {\"checkpoint_interval\": 1, \"num_grad_slabs\": 1},"
                                       "\"training\": {\"micro_batch_size\": 1}");
    wish = (struct mt_plan_wish){.gpu_bytes = (size_t)6 << 30, .host_bytes = (size_t)128 << 30};
    plan_of(job, &wish, &plan);
    assert_true(plan.fits);
    mt_job_free(job);
}

static void json_has_the_keys_that_clients_read(void **state)
{
    (void)state;
    static const char *const keys[] = {"fits",
                                       "parameters",
                                       "trainable_parameters",
                                       "tokens_per_step",
                                       "micro_batch_size",
                                       "device",
                                       "host",
                                       "disk",
                                       "largest_micro_batch_size",
                                       "bus_bytes_per_step",
                                       "stages",
                                       "flops_per_step",
                                       "bound_by",
                                       "step_seconds",
                                       "tokens_per_second"};
    struct mt_job *job = job_of_model("HuggingFaceTB/SmolLM2-135M", "");
    struct mt_plan plan;
    plan_of(job, &(struct mt_plan_wish){.gpu_bytes = (size_t)8 << 30, .host_bytes = (size_t)16 << 30}, &plan);
    mt_autojson json_t *json = mt_plan_json(&plan);
    assert_non_null(json);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!json_object_get(json, keys[i]))
            fail_msg("no %s", keys[i]);
    const json_t *device = json_object_get(json, "device"),
                 *bus = json_object_get(json, "bus_bytes_per_step");
    const char *key;
    json_t *value;
    json_int_t sum = 0;
    json_object_foreach((json_t *)(uintptr_t)device, key, value)
    {
        if (json_is_integer(value) && strcmp(key, "total_bytes") && strcmp(key, "limit_bytes") &&
            strcmp(key, "reserved_bytes"))
            sum += json_integer_value(value);
    }
    assert_int_equal(sum, json_integer_value(json_object_get(device, "total_bytes")));
    assert_true(json_integer_value(json_object_get(bus, "in")) > 0);
    const char *bound = json_string_value(json_object_get(json, "bound_by"));
    assert_non_null(json_object_get(json_object_get(json, "stages"), bound));
    mt_job_free(job);
}

static void unknown_models_and_machines_are_named(void **state)
{
    (void)state;
    struct mt_error error = {0};
    struct mt_plan_machine machine;
    struct mt_plan plan;
    struct mt_plan_wish wish;
    struct mt_job *job = job_of_model("Org/Nobody-7B", "");
    assert_int_equal(mt_plan_machine_choose(job, &(struct mt_plan_wish){0}, false, &machine, &error), 0);
    assert_int_equal(mt_plan_make(job, &machine, presets, &plan, &error), -ENOENT);
    assert_int_equal(error.reason, MT_REASON_BAD_MODEL);
    assert_non_null(strstr(error.message, "Org/Nobody-7B is not known yet"));
    mt_job_free(job);
    static const char *const bad[][2] = {
        {"{\"gpu_memory\": \"lots\"}", "gpu_memory"}, {"{\"bus_gbps\": -1}", "bus_gbps"},
        {"{\"bus_gbps\": \"24\"}", "bus_gbps"},       {"{\"gpu\": 1}", "\"gpu\""},
        {"{\"host_memory\": 0}", "host_memory"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        mt_autojson json_t *object = json_loads(bad[i][0], 0, NULL);
        assert_int_equal(mt_plan_wish_from_json(object, &wish, &error), -EINVAL);
        assert_non_null(strstr(error.message, bad[i][1]));
    }
}

int main(void)
{
    const struct CMUnitTest on_cuda[] = {
        cmocka_unit_test(a_plan_takes_what_a_run_takes_on_cuda),
    };
    if (getenv("MEGATRAIN_CUDA_MODULE"))
        return cmocka_run_group_tests(on_cuda, NULL, NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_takes_what_a_run_takes),
        cmocka_unit_test(every_preset_plans_with_its_published_size),
        cmocka_unit_test(a_step_obeys_the_bounds_of_its_parts),
        cmocka_unit_test(layers_that_do_not_fit_together_are_fewer_and_it_says_so),
        cmocka_unit_test(what_does_not_fit_says_what_would),
        cmocka_unit_test(json_has_the_keys_that_clients_read),
        cmocka_unit_test(unknown_models_and_machines_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
