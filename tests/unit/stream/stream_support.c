#include "tests/unit/stream/stream_support.h"

#include "core/base/document.h"
#include "core/base/random.h"
#include "core/store/files.h"

int bed_try(struct bed *bed, struct mt_model *model, const struct setting *setting, struct mt_error *error)
{
    struct mt_device_options device_options = setting->device_options;
    bed->model = model;
    bed->pool = mt_pool_new(setting->threads ? setting->threads : 2);
    device_options.pool = bed->pool;
    int r = mt_device_open(setting->device ? setting->device : "cpu", &device_options, &bed->device, error);
    struct mt_store_options store_options = {
        .compute_dtype = setting->dtype,
        .no_gradients = mt_executor_updates_in_backward(&setting->executor),
    };
    r = r ? r : mt_store_new(model, bed->device, &store_options, &bed->store, error);
    r = r ? r : mt_store_init(bed->store, 7, bed->pool, error);
    return r ? r
             : mt_executor_new(bed->store, bed->device, bed->pool, &setting->executor, &bed->executor, error);
}

void bed_open(struct bed *bed, const char *keys, const struct setting *setting)
{
    struct mt_error error = {0};
    struct mt_model *model;
    json_t *object = json_loads(keys, 0, NULL);
    assert_non_null(object);
    const char *family = json_string_value(json_object_get(object, "architecture"));
    mt_assert_ok(mt_model_from_keys(family ? family : "llama", object, &model, &error), &error);
    json_decref(object);
    *bed = (struct bed){0};
    mt_assert_ok(bed_try(bed, model, setting, &error), &error);
}

void bed_open_golden(struct bed *bed, const char *name, const struct setting *setting)
{
    struct mt_error error = {0};
    char path[256];
    struct mt_model *model;
    json_t *config;
    snprintf(path, sizeof path, "tests/golden/%s/config.json", name);
    mt_assert_ok(mt_document_read(path, &config, NULL, &error), &error);
    mt_assert_ok(mt_model_from_config(config, &model, &error), &error);
    json_decref(config);
    *bed = (struct bed){0};
    struct setting fitting = *setting; /* no longer sequences than the model has positions for */
    if (model->positions == MT_POSITIONS_LEARNED &&
        fitting.executor.max_sequence_tokens > model->max_position_embeddings)
        fitting.executor.max_sequence_tokens = model->max_position_embeddings;
    mt_assert_ok(bed_try(bed, model, &fitting, &error), &error);

    struct mt_safetensors *weights;
    snprintf(path, sizeof path, "tests/golden/%s/model.safetensors", name);
    mt_assert_ok(mt_safetensors_open(path, &weights, &error), &error);
    assert_int_equal(mt_safetensors_count(weights), model->num_parameters);
    for (size_t i = 0; i < model->num_parameters; i++) {
        const struct mt_parameter *p = &model->parameters[i];
        const struct mt_safetensors_tensor *tensor = golden_tensor(weights, "", p->name);
        assert_int_equal(tensor->rank, p->rank);
        for (size_t d = 0; d < p->rank; d++)
            assert_int_equal(tensor->shape[d], p->shape[d]);
        float *values = golden_values(tensor);
        mt_assert_ok(mt_store_write(bed->store, p, MT_STORE_MASTER, 0, p->count, values, &error), &error);
        free(values);
    }
    mt_safetensors_close(weights);
}

void bed_load(const struct bed *bed, const char *path)
{
    struct mt_error error = {0};
    struct mt_tensors *file;
    mt_assert_ok(mt_store_open_files(bed->model, path, &file, &error), &error);
    mt_assert_ok(mt_store_load_opened(bed->store, file, bed->pool, &error), &error);
    mt_tensors_close(file);
}

void bed_close(struct bed *bed)
{
    mt_executor_free(bed->executor);
    mt_store_free(bed->store);
    mt_device_close(bed->device);
    mt_pool_free(bed->pool);
    mt_model_free(bed->model);
    *bed = (struct bed){0};
}

struct setting usual_setting(size_t rows, size_t tokens)
{
    return (struct setting){
        .executor =
            {
                .micro_batch_size = 1,
                .max_sequences = rows,
                .max_sequence_tokens = tokens,
                .recompute = MT_CHOICE_ON,
                .max_grad_norm = 1,
                .max_skipped_steps = 3,
                .adamw = {.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.01},
            },
    };
}

static struct mt_batch *batch_room(size_t rows)
{
    struct mt_batch *batch = calloc(1, sizeof *batch);
    assert_non_null(batch);
    assert_true(rows > 0);
    batch->num_sequences = rows;
    batch->sequences = calloc(rows, sizeof *batch->sequences);
    return batch;
}

static void sequence_room(struct mt_sequence *sequence, size_t row, size_t tokens)
{
    assert_true(tokens > 0);
    *sequence = (struct mt_sequence){
        .tokens = tokens,
        .ids = calloc(tokens, sizeof(int32_t)),
        .labels = calloc(tokens, sizeof(int32_t)),
        .num_documents = 1,
        .document_starts = calloc(2, sizeof(int32_t)),
        .row = row,
    };
    sequence->document_starts[1] = (int32_t)tokens;
}

struct mt_batch *batch_new(size_t rows, const size_t *lengths, size_t vocab_size, uint64_t seed)
{
    struct mt_batch *batch = batch_room(rows);
    struct mt_random random = {.key = mt_random_key(seed, "batch")};
    for (size_t r = 0; r < rows; r++) {
        struct mt_sequence *s = &batch->sequences[r];
        sequence_room(s, r, lengths[r]);
        for (size_t t = 0; t < s->tokens; t++)
            s->ids[t] = (int32_t)mt_random_below(&random, vocab_size);
        for (size_t t = 0; t < s->tokens; t++) {
            const bool target = t + 1 < s->tokens && mt_random_below(&random, 4) != 0;
            s->labels[t] = target ? s->ids[t + 1] : MT_LABEL_IGNORED;
            batch->target_tokens += target;
        }
        batch->tokens += s->tokens;
    }
    return batch;
}

void batch_free(struct mt_batch *batch)
{
    for (size_t r = 0; r < batch->num_sequences; r++) {
        free(batch->sequences[r].ids);
        free(batch->sequences[r].labels);
        free(batch->sequences[r].document_starts);
    }
    free(batch->sequences);
    free(batch);
}

static int64_t integer_at(const struct mt_safetensors_tensor *tensor, size_t index)
{
    int64_t value;
    assert_int_equal(tensor->dtype, MT_I64);
    assert_int_equal(pread(tensor->fd, &value, sizeof value, (off_t)(tensor->offset + index * sizeof value)),
                     sizeof value);
    return value;
}

struct mt_batch *batch_golden(const struct mt_safetensors *golden)
{
    const struct mt_safetensors_tensor *ids = golden_tensor(golden, "", "input_ids");
    const struct mt_safetensors_tensor *mask = golden_tensor(golden, "", "attention_mask");
    const struct mt_safetensors_tensor *labels = golden_tensor(golden, "", "labels");
    const size_t rows = ids->shape[0], length = ids->shape[1];
    struct mt_batch *batch = batch_room(rows);
    for (size_t r = 0; r < rows; r++) {
        size_t tokens = 0;
        while (tokens < length && integer_at(mask, r * length + tokens))
            tokens++;
        struct mt_sequence *s = &batch->sequences[r];
        sequence_room(s, r, tokens);
        for (size_t t = 0; t < tokens; t++) {
            s->ids[t] = (int32_t)integer_at(ids, r * length + t);
            s->labels[t] =
                t + 1 < tokens ? (int32_t)integer_at(labels, r * length + t + 1) : MT_LABEL_IGNORED;
            batch->target_tokens += s->labels[t] != MT_LABEL_IGNORED;
        }
        batch->tokens += tokens;
    }
    return batch;
}

const struct mt_safetensors_tensor *golden_tensor(const struct mt_safetensors *golden, const char *prefix,
                                                  const char *name)
{
    char full[256];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    const struct mt_safetensors_tensor *tensor = mt_safetensors_find(golden, full);
    static const char bare[] = "transformer."; /* which files of the bare model leave out */
    if (!tensor && strncmp(name, bare, sizeof bare - 1) == 0) {
        snprintf(full, sizeof full, "%s%s", prefix, name + sizeof bare - 1);
        tensor = mt_safetensors_find(golden, full);
    }
    if (!tensor)
        fail_msg("no tensor %s", full);
    return tensor;
}

double golden_number(const struct mt_safetensors *golden, const char *name, size_t index)
{
    const struct mt_safetensors_tensor *tensor = golden_tensor(golden, "", name);
    double value;
    assert_int_equal(tensor->dtype, MT_F64);
    assert_true(index < tensor->elements);
    assert_int_equal(pread(tensor->fd, &value, sizeof value, (off_t)(tensor->offset + index * sizeof value)),
                     sizeof value);
    return value;
}

float *golden_values(const struct mt_safetensors_tensor *tensor)
{
    float *values = malloc((tensor->elements + 1) * sizeof *values);
    assert_non_null(values);
    assert_int_equal(mt_safetensors_read_f32(tensor, 0, tensor->elements, values), 0);
    return values;
}

float *bed_masters(const struct bed *bed, size_t *count)
{
    const struct mt_model *model = bed->model;
    float *values = malloc(model->total_count * sizeof *values);
    *count = 0;
    assert_non_null(values);
    for (size_t i = 0; i < model->num_parameters; i++) {
        const struct mt_parameter *p = &model->parameters[i];
        assert_int_equal(mt_store_read(bed->store, p, MT_STORE_MASTER, 0, p->count, values + *count, NULL),
                         0);
        *count += p->count;
    }
    return values;
}

uint64_t bed_hash(const struct bed *bed)
{
    const struct mt_model *model = bed->model;
    uint64_t hash = 14695981039346656037u;
    float *values = malloc(model->total_count * sizeof *values);
    assert_non_null(values);
    for (enum mt_store_part part = MT_STORE_MASTER; part <= MT_STORE_MOMENT2; part++)
        for (size_t i = 0; i < model->num_parameters; i++) {
            const struct mt_parameter *p = &model->parameters[i];
            if (p->frozen && part != MT_STORE_MASTER)
                continue;
            assert_int_equal(mt_store_read(bed->store, p, part, 0, p->count, values, NULL), 0);
            for (size_t k = 0; k < p->count; k++) {
                uint32_t bits;
                memcpy(&bits, &values[k], sizeof bits);
                hash = (hash ^ bits) * 1099511628211u;
            }
        }
    free(values);
    return hash;
}

uint64_t bed_run(struct bed *bed, struct mt_batch *const *batches, size_t num_batches, size_t steps,
                 double *losses)
{
    struct mt_error error = {0};
    for (size_t s = 0; s < steps; s++) {
        struct mt_step_result result;
        mt_assert_ok(mt_executor_step(bed->executor, batches[s % num_batches], 1e-3, &result, &error),
                     &error);
        assert_false(result.skipped);
        if (losses)
            losses[s] = result.loss;
    }
    mt_assert_ok(mt_executor_finish(bed->executor, &error), &error);
    return bed_hash(bed);
}
