/* The engine against what transformers and PyTorch computed in fp64 (tests/golden/README.md): loss, logits
 * (out of the cache too), every gradient, the parameters after three updates; every case on several settings
 * of the schedule, but for those that are refused by name.
 *
 * MT_GOLDEN_CASE: only cases whose names begin so. MT_GOLDEN_FAMILIES=1: one case of each family, the first
 * by name of those with its model_type; --families prints them. time limit: 300 s */
#include "core/base/cleanup.h"
#include "core/base/document.h"
#include "core/stream/decoder.h"
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
        if (bed->model->parameters[i].buffer)
            continue;
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
        if (p->buffer)
            continue;
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

/* Ropes that depend on the longest sequence seen give other logits while a sequence grows. */
static bool grows(const struct mt_model *model)
{
    for (size_t i = 0; i < model->num_ropes; i++)
        if (model->ropes[i].type == MT_ROPE_DYNAMIC || model->ropes[i].type == MT_ROPE_LONGROPE)
            return true;
    return false;
}

/* The same logits out of the cache: half of each row at once, then token by token, all rows side by side. */
static void check_decoding(const struct bed *bed, const struct mt_safetensors *golden,
                           const struct mt_batch *batch)
{
    struct mt_error error = {0};
    struct mt_decoder *decoder;
    const struct mt_safetensors_tensor *tensor = golden_tensor(golden, "", "logits");
    const size_t vocab = bed->model->vocab_size, rows = batch->num_sequences, length = tensor->shape[1];
    float *wanted = golden_values(tensor), *seen = malloc(rows * vocab * sizeof *seen);
    const float tolerance = 1e-5f * largest(wanted, tensor->elements);
    const struct mt_decoder_options options = {.max_sequences = rows, .max_tokens = 32};
    struct mt_decoder_input *inputs = calloc(rows, sizeof *inputs);
    mt_assert_ok(mt_decoder_new(bed->store, bed->device, bed->pool, &options, &decoder, &error), &error);
    for (size_t step = 0; step < length; step++) {
        size_t count = 0;
        for (size_t s = 0; s < rows; s++) {
            const struct mt_sequence *row = &batch->sequences[s];
            const size_t done = mt_decoder_length(decoder, s), left = row->tokens - done;
            const size_t tokens = step == 0 ? (left + 1) / 2 : left > 0;
            if (tokens)
                inputs[count++] = (struct mt_decoder_input){
                    .sequence = s, .ids = row->ids + done, .tokens = tokens, .logits = seen + s * vocab};
        }
        if (!count)
            break;
        mt_assert_ok(mt_decoder_forward(decoder, inputs, count, &error), &error);
        for (size_t i = 0; i < count; i++) {
            const size_t s = inputs[i].sequence, t = mt_decoder_length(decoder, s) - 1;
            for (size_t v = 0; v < vocab; v++)
                if (!(fabsf(seen[s * vocab + v] - wanted[(s * length + t) * vocab + v]) <= tolerance))
                    fail_msg("decoding: logit %zu of token %zu of row %zu is off", v, t, s);
        }
    }
    mt_decoder_free(decoder);
    free(inputs);
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
        if (p->buffer) {
            for (size_t k = 0; k < p->count; k++, at++)
                assert_true(after[at] == before[at]); /* not trained, and the very bits */
            continue;
        }
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

/* What is not supported yet: refused, and by name. */
static const struct {
    const char *name, *mention;
} refused[] = {
    {"granite_swa", "granite_swa"},
    {"minicpm3", "minicpm3"},
    {"youtu", "youtu"},
};

static const char *refusal_of(const char *name)
{
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (strcmp(refused[i].name, name) == 0)
            return refused[i].mention;
    return NULL;
}

struct golden_case {
    const char *name;
    size_t setting;
};

static void check_refused(const char *name, const char *mention)
{
    struct mt_error error = {0};
    struct mt_model *model;
    json_t *config;
    char path[320];
    snprintf(path, sizeof path, "tests/golden/%s/config.json", name);
    mt_assert_ok(mt_document_read(path, &config, NULL, &error), &error);
    assert_int_equal(mt_model_from_config(config, &model, &error), -ENOTSUP);
    mt_assert_mentions(error.message, mention);
    json_decref(config);
}

static struct setting in_place(void)
{
    return usual_setting(8, 64);
}

static struct setting all_rows_in_one_micro_batch(void)
{
    struct setting setting = usual_setting(8, 64);
    setting.executor.micro_batch_size = 8;
    setting.executor.recompute = MT_CHOICE_OFF;
    setting.executor.immediate_update = true;
    return setting;
}

static struct setting device_apart(void)
{
    struct setting setting = usual_setting(8, 64);
    setting.device = "cpu-discrete";
    setting.executor.activation_offload = MT_CHOICE_ON;
    return setting;
}

static struct setting layers_in_pairs_and_the_head_in_tiles(void)
{
    struct setting setting = usual_setting(8, 64);
    setting.device = "cpu-discrete";
    setting.executor.checkpoint_interval = 2;
    setting.executor.head_tile_rows = 17;
    setting.executor.stream_head = MT_CHOICE_ON;
    setting.executor.head_chunk_tokens = 5;
    return setting;
}

static struct setting on_cuda(void)
{
    struct setting setting = usual_setting(8, 64);
    setting.device = "cuda";
    return setting;
}

static struct setting on_cuda_offloaded_and_tiled(void)
{
    struct setting setting = layers_in_pairs_and_the_head_in_tiles();
    setting.device = "cuda";
    setting.executor.activation_offload = MT_CHOICE_ON;
    return setting;
}

static const struct {
    const char *name;
    struct setting (*make)(void);
    bool cuda; /* run where MEGATRAIN_CUDA_MODULE names a module, the others where it does not */
} settings[] = {
    {"in place", in_place, false},
    {"all rows in one micro-batch", all_rows_in_one_micro_batch, false},
    {"on a device apart", device_apart, false},
    {"layers in pairs, the head in tiles", layers_in_pairs_and_the_head_in_tiles, false},
    {"on CUDA", on_cuda, true},
    {"on CUDA, offloaded, in pairs and tiles", on_cuda_offloaded_and_tiled, true},
};
#define NUM_SETTINGS (sizeof settings / sizeof *settings)

static void agrees_with_transformers(void **state)
{
    const struct golden_case *which = *state;
    const struct setting setting = settings[which->setting].make();
    const char *name = which->name;
    if (refusal_of(name)) {
        check_refused(name, refusal_of(name));
        return;
    }
    struct mt_error error = {0};
    struct mt_safetensors *golden;
    char path[320];
    struct bed bed;
    snprintf(path, sizeof path, "tests/golden/%s/golden.safetensors", name);
    mt_assert_ok(mt_safetensors_open(path, &golden, &error), &error);
    struct mt_batch *batch = batch_golden(golden);
    bed_open_golden(&bed, name, &setting);
    size_t count;
    float *before = bed_masters(&bed, &count);
    double loss_sum;
    size_t targets;
    mt_assert_ok(mt_executor_evaluate(bed.executor, batch, &loss_sum, &targets, &error), &error);
    const double loss = golden_number(golden, "loss", 0);
    if (!(fabs(loss_sum / (double)targets - loss) <= 1e-5 * loss))
        fail_msg("loss is %.9g, must be %.9g", loss_sum / (double)targets, loss);
    check_logits(&bed, golden, batch);
    if (!grows(bed.model))
        check_decoding(&bed, golden, batch);

    for (size_t step = 0; step < 3; step++) {
        struct mt_step_result result;
        mt_assert_ok(mt_executor_step(bed.executor, batch, LEARNING_RATE, &result, &error), &error);
        const double wanted = golden_number(golden, "loss3", step),
                     norm = golden_number(golden, "grad_norm3", step);
        if (step == 0)
            check_gradients(&bed, golden);
        if (!(fabs(result.loss - wanted) <= 1e-5 * wanted) || !(fabs(result.grad_norm - norm) <= 1e-4 * norm))
            fail_msg("step %zu: loss %.9g must be %.9g, grad_norm %.9g must be %.9g", step, result.loss,
                     wanted, result.grad_norm, norm);
    }
    mt_assert_ok(mt_executor_finish(bed.executor, &error), &error);
    check_parameters(&bed, golden, before);
    free(before);
    bed_close(&bed);
    batch_free(batch);
    mt_safetensors_close(golden);
}

/* In bfloat16 numbers are held to eight bits: the loss to 1%, and the gradient, all parameters together, to a
 * tenth of its length. */
static void agrees_in_bfloat16(void **state)
{
    const struct golden_case *which = *state;
    struct setting setting = usual_setting(8, 64);
    struct mt_error error = {0};
    struct mt_safetensors *golden;
    struct mt_step_result result;
    char path[320];
    struct bed bed;
    if (refusal_of(which->name))
        return;
    setting.dtype = MT_BF16;
    setting.device = getenv("MEGATRAIN_CUDA_MODULE") ? "cuda" : "cpu";
    setting.executor.micro_batch_size = 2;
    snprintf(path, sizeof path, "tests/golden/%s/golden.safetensors", which->name);
    mt_assert_ok(mt_safetensors_open(path, &golden, &error), &error);
    struct mt_batch *batch = batch_golden(golden);
    bed_open_golden(&bed, which->name, &setting);
    mt_assert_ok(mt_executor_step(bed.executor, batch, LEARNING_RATE, &result, &error), &error);
    const double loss = golden_number(golden, "loss3", 0);
    double square = 0, off = 0;
    for (size_t i = 0; i < bed.model->num_parameters; i++) {
        const struct mt_parameter *p = &bed.model->parameters[i];
        if (p->buffer)
            continue;
        float *wanted = golden_values(golden_tensor(golden, "grad.", p->name));
        float *seen = malloc(p->count * sizeof *seen);
        assert_int_equal(mt_store_read(bed.store, p, MT_STORE_GRADIENT, 0, p->count, seen, NULL), 0);
        for (size_t k = 0; k < p->count; k++) {
            square += (double)wanted[k] * (double)wanted[k];
            off += ((double)seen[k] - (double)wanted[k]) * ((double)seen[k] - (double)wanted[k]);
        }
        free(wanted);
        free(seen);
    }
    /* gemma4's scores are not scaled down: its softmax feels the rounding of queries and keys most. */
    const double share = strncmp(which->name, "gemma4", 6) == 0 ? 0.2 : 0.1;
    if (!(fabs(result.loss - loss) <= 0.01 * loss) || !(sqrt(off) <= share * sqrt(square)))
        fail_msg("loss %.6g must be %.6g; gradient off by %.3g of its length", result.loss, loss,
                 sqrt(off / square));
    mt_assert_ok(mt_executor_finish(bed.executor, &error), &error);
    bed_close(&bed);
    batch_free(batch);
    mt_safetensors_close(golden);
}

/* Whether the folder is a case. */
static int choose(const struct dirent *entry)
{
    char path[320];
    snprintf(path, sizeof path, "tests/golden/%s/golden.safetensors", entry->d_name);
    return mt_path_exists(path);
}

static char *model_type(const char *name)
{
    struct mt_error error = {0};
    mt_autojson json_t *config = NULL;
    char path[320];
    snprintf(path, sizeof path, "tests/golden/%s/config.json", name);
    if (mt_document_read(path, &config, NULL, &error))
        return strdup(name);
    const char *type = json_string_value(json_object_get(config, "model_type"));
    return strdup(type ? type : name);
}

/* Keeps the first of each family; how many are left. */
static int keep_families(struct dirent **entries, int count)
{
    char **types = calloc((size_t)count, sizeof *types);
    int kept = 0;
    for (int i = 0; i < count; i++) {
        char *type = model_type(entries[i]->d_name);
        bool seen = false;
        for (int k = 0; k < kept; k++)
            seen = seen || strcmp(types[k], type) == 0;
        if (seen) {
            free(type);
            free(entries[i]);
        } else {
            types[kept] = type;
            entries[kept++] = entries[i];
        }
    }
    for (int k = 0; k < kept; k++)
        free(types[k]);
    free(types);
    return kept;
}

/* Every case, on every setting. */
int main(int argc, char **argv)
{
    struct dirent **entries;
    const char *only = getenv("MT_GOLDEN_CASE");
    const bool list = argc > 1 && strcmp(argv[1], "--families") == 0;
    int num_cases = scandir("tests/golden", &entries, choose, alphasort);
    if (num_cases <= 0)
        return 1;
    if (list || getenv("MT_GOLDEN_FAMILIES"))
        num_cases = keep_families(entries, num_cases);
    for (int i = 0; i < num_cases && list; i++)
        puts(entries[i]->d_name);
    if (list)
        return 0;
    struct CMUnitTest *tests = calloc((size_t)num_cases * (NUM_SETTINGS + 1), sizeof *tests);
    struct golden_case *cases = calloc((size_t)num_cases * (NUM_SETTINGS + 1), sizeof *cases);
    char(*names)[320] = calloc((size_t)num_cases * (NUM_SETTINGS + 1), sizeof *names);
    size_t count = 0;
    for (int i = 0; i < num_cases; i++)
        for (size_t k = 0; k <= NUM_SETTINGS; k++) { /* the last: in bfloat16 */
            const char *name = entries[i]->d_name;
            if ((only && strncmp(name, only, strlen(only)) != 0) ||
                (k < NUM_SETTINGS && settings[k].cuda != (getenv("MEGATRAIN_CUDA_MODULE") != NULL)))
                continue;
            snprintf(names[count], sizeof names[count], "%s: %s", name,
                     k < NUM_SETTINGS ? settings[k].name : "in bfloat16");
            cases[count] = (struct golden_case){name, k};
            tests[count] = (struct CMUnitTest){.name = names[count],
                                               .test_func = k < NUM_SETTINGS ? agrees_with_transformers
                                                                             : agrees_in_bfloat16,
                                               .initial_state = &cases[count]};
            count++;
        }
    const int failed = _cmocka_run_group_tests("golden", tests, count, NULL, NULL);
    for (int i = 0; i < num_cases; i++)
        free(entries[i]);
    free(entries);
    free(tests);
    free(cases);
    free(names);
    return failed;
}
