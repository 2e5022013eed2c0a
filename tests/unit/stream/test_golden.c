/* The engine against what transformers and PyTorch computed in fp64 (tests/golden/README.md): loss, logits,
 * every gradient, the parameters after three updates; on several settings of the schedule. */
#include "tests/unit/stream/stream_support.h"

#include <dirent.h>
#include <math.h>

#define LEARNING_RATE 1e-4

static float largest(const float *values, size_t count)
{
    float most = 0;
    for (size_t i = 0; i < count; i++)
        most = fmaxf(most, fabsf(values[i]));
    return most;
}

static float largest_gradient(const struct bed *bed, const struct mt_safetensors *golden)
{
    float most = 0;
    for (size_t i = 0; i < bed->model->num_parameters; i++) {
        const struct mt_safetensors_tensor *tensor =
            golden_tensor(golden, "grad.", bed->model->parameters[i].name);
        float *values = golden_values(tensor);
        most = fmaxf(most, largest(values, tensor->elements));
        free(values);
    }
    return most;
}

static void check_gradients(const struct bed *bed, const struct mt_safetensors *golden)
{
    const float floor = 1e-6f * largest_gradient(bed, golden);
    for (size_t i = 0; i < bed->model->num_parameters; i++) {
        const struct mt_parameter *p = &bed->model->parameters[i];
        float *wanted = golden_values(golden_tensor(golden, "grad.", p->name));
        float *seen = malloc(p->count * sizeof *seen);
        const float tolerance = 1e-4f * largest(wanted, p->count) + floor;
        assert_int_equal(mt_store_read(bed->store, p, MT_STORE_GRADIENT, 0, p->count, seen, NULL), 0);
        for (size_t k = 0; k < p->count; k++)
            if (!(fabsf(seen[k] - wanted[k]) <= tolerance))
                fail_msg("gradient of %s[%zu] is %.9g, must be %.9g (tolerance %.3g)", p->name, k,
                         (double)seen[k], (double)wanted[k], (double)tolerance);
        free(wanted);
        free(seen);
    }
}

static void check_logits(const struct bed *bed, const struct mt_safetensors *golden,
                         const struct mt_batch *batch)
{
    struct mt_error error = {0};
    const struct mt_safetensors_tensor *tensor = golden_tensor(golden, "", "logits");
    const size_t vocab = bed->model->vocab_size;
    float *wanted = golden_values(tensor), *seen = malloc(batch->tokens * vocab * sizeof *seen);
    const float tolerance = 1e-5f * largest(wanted, tensor->elements);
    mt_assert_ok(mt_executor_logits(bed->executor, batch, seen, &error), &error);
    const float *row = seen;
    for (size_t s = 0; s < batch->num_sequences; s++)
        for (size_t t = 0; t < batch->sequences[s].tokens; t++, row += vocab)
            for (size_t v = 0; v < vocab; v++)
                if (!(fabsf(row[v] - wanted[(s * tensor->shape[1] + t) * vocab + v]) <= tolerance))
                    fail_msg("logit %zu of token %zu of row %zu is off", v, t, s);
    free(wanted);
    free(seen);
}

/* Where the gradient is above the floor; below it Adam makes whole updates of rounding noise. */
static void check_parameters(const struct bed *bed, const struct mt_safetensors *golden, const float *before)
{
    const float floor = 1e-6f * largest_gradient(bed, golden);
    size_t count;
    float *after = bed_masters(bed, &count);
    size_t at = 0;
    for (size_t i = 0; i < bed->model->num_parameters; i++) {
        const struct mt_parameter *p = &bed->model->parameters[i];
        float *gradient = golden_values(golden_tensor(golden, "grad.", p->name));
        float *delta = golden_values(golden_tensor(golden, "delta3.", p->name));
        const float tensor_floor = 1e-4f * largest(gradient, p->count) + floor;
        for (size_t k = 0; k < p->count; k++, at++) {
            const double moved = (double)after[at] - (double)before[at];
            if (fabsf(gradient[k]) > tensor_floor &&
                !(fabs(moved - (double)delta[k]) <= 0.05 * LEARNING_RATE))
                fail_msg("%s[%zu] moved by %.9g, must by %.9g", p->name, k, moved, (double)delta[k]);
        }
        free(gradient);
        free(delta);
    }
    free(after);
}

/* false where the model is refused as not supported yet. */
static bool check_case(const char *name, const struct setting *setting)
{
    struct mt_error error = {0};
    struct mt_safetensors *golden;
    char path[320];
    struct bed bed;
    snprintf(path, sizeof path, "tests/golden/%s/golden.safetensors", name);
    mt_assert_ok(mt_safetensors_open(path, &golden, &error), &error);
    struct mt_batch *batch = batch_golden(golden);
    if (!bed_open_golden(&bed, name, setting)) {
        batch_free(batch);
        mt_safetensors_close(golden);
        return false;
    }
    size_t count;
    float *before = bed_masters(&bed, &count);
    double loss_sum;
    size_t targets;
    mt_assert_ok(mt_executor_evaluate(bed.executor, batch, &loss_sum, &targets, &error), &error);
    const double loss = golden_number(golden, "loss", 0);
    assert_true(fabs(loss_sum / (double)targets - loss) <= 1e-5 * loss);
    check_logits(&bed, golden, batch);

    for (size_t step = 0; step < 3; step++) {
        struct mt_step_result result;
        mt_assert_ok(mt_executor_step(bed.executor, batch, LEARNING_RATE, &result, &error), &error);
        const double wanted = golden_number(golden, "loss3", step),
                     norm = golden_number(golden, "grad_norm3", step);
        if (!(fabs(result.loss - wanted) <= 1e-5 * wanted) || !(fabs(result.grad_norm - norm) <= 1e-4 * norm))
            fail_msg("%s step %zu: loss %.9g must be %.9g, grad_norm %.9g must be %.9g", name, step,
                     result.loss, wanted, result.grad_norm, norm);
        if (step == 0)
            check_gradients(&bed, golden);
    }
    mt_assert_ok(mt_executor_finish(bed.executor, &error), &error);
    check_parameters(&bed, golden, before);
    free(before);
    bed_close(&bed);
    batch_free(batch);
    mt_safetensors_close(golden);
    return true;
}

/* Every case of the floor that is built: the llama family's. */
static void check_all(const struct setting *setting)
{
    DIR *folder = opendir("tests/golden");
    assert_non_null(folder);
    size_t cases = 0;
    for (struct dirent *entry; (entry = readdir(folder));)
        if (strncmp(entry->d_name, "llama", 5) == 0) {
            char path[320];
            snprintf(path, sizeof path, "tests/golden/%s/golden.safetensors", entry->d_name);
            cases += mt_path_exists(path) && check_case(entry->d_name, setting);
        }
    closedir(folder);
    assert_true(cases >= 9);
}

static void llama_is_golden_in_place(void **state)
{
    (void)state;
    struct setting setting = usual_setting(8, 64);
    check_all(&setting);
}

static void llama_is_golden_with_all_rows_in_one_micro_batch(void **state)
{
    (void)state;
    struct setting setting = usual_setting(8, 64);
    setting.executor.micro_batch_size = 8;
    setting.executor.recompute = MT_CHOICE_OFF;
    setting.executor.immediate_update = true;
    check_all(&setting);
}

static void llama_is_golden_on_a_device_apart(void **state)
{
    (void)state;
    struct setting setting = usual_setting(8, 64);
    setting.device = "cpu-discrete";
    setting.executor.activation_offload = MT_CHOICE_ON;
    check_all(&setting);
}

static void llama_is_golden_with_layers_visited_in_pairs_and_the_head_in_tiles(void **state)
{
    (void)state;
    struct setting setting = usual_setting(8, 64);
    setting.device = "cpu-discrete";
    setting.executor.checkpoint_interval = 2;
    setting.executor.head_tile_rows = 17;
    setting.executor.head_chunk_tokens = 5;
    check_all(&setting);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(llama_is_golden_in_place),
        cmocka_unit_test(llama_is_golden_with_all_rows_in_one_micro_batch),
        cmocka_unit_test(llama_is_golden_on_a_device_apart),
        cmocka_unit_test(llama_is_golden_with_layers_visited_in_pairs_and_the_head_in_tiles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
