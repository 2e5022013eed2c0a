/* Models from GGUF files that llama.cpp's converter made of golden ones (tests/golden/gguf/make_models.py):
 * the same parameters, to the bit but for the 1 that the format adds to some norms, and the same loss, so
 * that config.json's every number came through. */
#include "core/base/document.h"
#include "core/model/open.h"
#include "core/model/tensors.h"
#include "tests/unit/stream/stream_support.h"

#include <dirent.h>
#include <math.h>

/* What the format has no place for: taken from the golden config.json before losses are compared. */
static const struct {
    const char *name;
    const char *keys[3];
} lost[] = {
    {"gemma2", {"query_pre_attn_scalar"}},
    {"gemma3_text", {"query_pre_attn_scalar", "layer_types"}},
    {"nemotron",
     {"rope_parameters", "partial_rotary_factor"}}, /* its converter takes heads for hidden / heads wide */
    {"nemotron_bias", {"rope_parameters", "partial_rotary_factor"}},
    {"phi", {"num_key_value_heads", "intermediate_size"}}, /* the published models have as many as heads */
    {"smollm3", {"no_rope_layers"}},
    {"starcoder2", {"sliding_window"}},
};

static json_t *golden_config(const char *name)
{
    char path[320];
    json_t *config;
    struct mt_error error = {0};
    snprintf(path, sizeof path, "tests/golden/%s/config.json", name);
    mt_assert_ok(mt_json_read(path, MT_REASON_BAD_MODEL, &config, &error), &error);
    return config;
}

static struct mt_model *open_model(const char *name, const char *path)
{
    struct mt_error error = {0};
    json_t *config, *golden = golden_config(name);
    struct mt_model *model;
    mt_assert_ok(mt_model_read_config(path, &config, &error), &error);
    for (size_t i = 0; i < sizeof lost / sizeof *lost; i++)
        for (size_t k = 0; strcmp(lost[i].name, name) == 0 && k < 3 && lost[i].keys[k]; k++)
            json_object_set(config, lost[i].keys[k], json_object_get(golden, lost[i].keys[k]));
    if (mt_model_from_config(config, &model, &error) < 0)
        fail_msg("%s: %s", json_dumps(config, 0), error.message);
    json_decref(config);
    json_decref(golden);
    return model;
}

static void check_values(const struct bed *bed, const char *name)
{
    char path[320];
    struct mt_error error = {0};
    struct mt_safetensors *file;
    snprintf(path, sizeof path, "tests/golden/%s/model.safetensors", name);
    mt_assert_ok(mt_safetensors_open(path, &file, &error), &error);
    assert_int_equal(mt_safetensors_count(file), bed->model->num_parameters);
    for (size_t i = 0; i < bed->model->num_parameters; i++) {
        const struct mt_parameter *p = &bed->model->parameters[i];
        float *wanted = golden_values(golden_tensor(file, "", p->name));
        float *values = malloc(p->count * sizeof *values);
        const bool shifted = bed->model->norm_weight_offset != 0 && strstr(p->name, "norm");
        assert_non_null(values);
        mt_assert_ok(mt_store_read(bed->store, p, MT_STORE_MASTER, 0, p->count, values, &error), &error);
        for (size_t k = 0; k < p->count; k++)
            if (!(fabsf(values[k] - wanted[k]) <= (shifted ? 2e-7f : 0.0f)))
                fail_msg("%s[%zu] is %.9g, must be %.9g", p->name, k, (double)values[k], (double)wanted[k]);
        free(values);
        free(wanted);
    }
    mt_safetensors_close(file);
}

static void is_the_golden_model(void **state)
{
    const char *name = *state;
    char path[320];
    struct mt_error error = {0};
    struct bed bed = {0};
    snprintf(path, sizeof path, "tests/golden/gguf/%s.gguf", name);
    struct mt_model *model = open_model(name, path);
    const size_t positions = model->max_position_embeddings;
    const struct setting setting = usual_setting(8, positions < 64 ? positions : 64);
    mt_assert_ok(bed_try(&bed, model, &setting, &error), &error);
    bed_load(&bed, path);
    check_values(&bed, name);

    struct mt_safetensors *golden;
    snprintf(path, sizeof path, "tests/golden/%s/golden.safetensors", name);
    mt_assert_ok(mt_safetensors_open(path, &golden, &error), &error);
    struct mt_batch *batch = batch_golden(golden);
    double loss_sum;
    size_t targets;
    mt_assert_ok(mt_executor_evaluate(bed.executor, batch, &loss_sum, &targets, &error), &error);
    const double loss = golden_number(golden, "loss", 0);
    if (!(fabs(loss_sum / (double)targets - loss) <= 1e-5 * loss))
        fail_msg("loss is %.9g, must be %.9g", loss_sum / (double)targets, loss);
    batch_free(batch);
    mt_safetensors_close(golden);
    bed_close(&bed);
}

static int choose(const struct dirent *entry)
{
    const char *end = strrchr(entry->d_name, '.');
    return end && strcmp(end, ".gguf") == 0 && strcmp(entry->d_name, "dequantise.gguf") != 0;
}

int main(void)
{
    struct dirent **entries;
    const int count = scandir("tests/golden/gguf", &entries, choose, alphasort);
    if (count <= 0)
        return 1;
    struct CMUnitTest *tests = calloc((size_t)count, sizeof *tests);
    for (int i = 0; i < count; i++) {
        *strrchr(entries[i]->d_name, '.') = '\0';
        tests[i] = (struct CMUnitTest){.name = entries[i]->d_name,
                                       .test_func = is_the_golden_model,
                                       .initial_state = entries[i]->d_name};
    }
    const int failed = _cmocka_run_group_tests("gguf models", tests, (size_t)count, NULL, NULL);
    for (int i = 0; i < count; i++)
        free(entries[i]);
    free(entries);
    free(tests);
    return failed;
}
