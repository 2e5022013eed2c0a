/* What the executor's tests share: small models, golden cases, batches, and a run that can be repeated with
 * another setting and compared bit by bit. */
#ifndef MT_TEST_STREAM_SUPPORT_H
#define MT_TEST_STREAM_SUPPORT_H

#include "core/device/open.h"
#include "core/formats/safetensors.h"
#include "core/stream/executor.h"
#include "tests/unit/support.h"

/* Everything that a training run needs, opened together. Zero where it is not open. */
struct bed {
    struct mt_pool *pool;
    struct mt_device *device;
    struct mt_model *model;
    struct mt_store *store;
    struct mt_executor *executor;
};

/* How to open it. Zeroed fields: plain CPU, two threads, fp32. */
struct setting {
    const char *device; /* NULL: "cpu" */
    size_t threads;
    enum mt_dtype dtype;
    struct mt_device_options device_options;
    struct mt_executor_options executor;
};

/* Model from keys, a JSON object as text, of a llama unless `architecture` says otherwise; values from
 * seed 7. */
void bed_open(struct bed *bed, const char *keys, const struct setting *setting);
/* Model and weights of tests/golden/<name>. */
void bed_open_golden(struct bed *bed, const char *name, const struct setting *setting);
/* Opens with whatever fails; 0 or the error. */
int bed_try(struct bed *bed, struct mt_model *model, const struct setting *setting, struct mt_error *error);
/* Loads the weights of a model's folder or GGUF file. */
void bed_load(const struct bed *bed, const char *path);
void bed_close(struct bed *bed);

/* Settings with usual numbers: AdamW's defaults, clipping at 1, 3 skipped steps, micro batches of 1 row, room
 * for `rows` rows of `tokens`. */
struct setting usual_setting(size_t rows, size_t tokens);

/* A batch of made-up rows: lengths from `lengths`, ids and some masked labels by seed. */
struct mt_batch *batch_new(size_t rows, const size_t *lengths, size_t vocab_size, uint64_t seed);
void batch_free(struct mt_batch *batch);
/* The batch of a golden case. */
struct mt_batch *batch_golden(const struct mt_safetensors *golden);

/* The tensor, or the test fails. Values as fp32 or fp64. */
const struct mt_safetensors_tensor *golden_tensor(const struct mt_safetensors *golden, const char *prefix,
                                                  const char *name);
double golden_number(const struct mt_safetensors *golden, const char *name, size_t index);
float *golden_values(const struct mt_safetensors_tensor *tensor);

/* All masters one after another, fp32, malloc'd; *count values. */
float *bed_masters(const struct bed *bed, size_t *count);
/* A hash of all masters' and moments' bits. */
uint64_t bed_hash(const struct bed *bed);

/* `steps` steps over batches by step number; losses out. Returns the hash at the end. */
uint64_t bed_run(struct bed *bed, struct mt_batch *const *batches, size_t num_batches, size_t steps,
                 double *losses);

#endif
