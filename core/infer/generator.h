/* Generation from a model's folder (a checkpoint is one): weights alone in memory, a key and value cache,
 * tokens one by one. */
#ifndef MT_INFER_GENERATOR_H
#define MT_INFER_GENERATOR_H

#include "core/base/error.h"
#include "core/base/pool.h"
#include "core/infer/sampling.h"
#include "core/text/chat.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mt_generator;

struct mt_generator_options {
    const char *folder; /* config.json, tokenizer files, safetensors */
    const char *device; /* as in a job; NULL: "auto" */
    size_t max_tokens;  /* prompt and answer; 0: what the model was made for (max_position_embeddings) */
};

/* Errors: MT_REASON_BAD_MODEL, MT_REASON_OUT_OF_MEMORY, MT_REASON_DEVICE. */
int mt_generator_open(const struct mt_generator_options *options, struct mt_pool *pool,
                      struct mt_generator **generator, struct mt_error *error);
void mt_generator_close(struct mt_generator *generator); /* NULL is fine */

struct mt_generation {
    /* What to go on from: a text as it is, or messages rendered by the model's chat template as in training.
     */
    const char *prompt;
    const struct mt_message *messages;
    size_t num_messages;

    size_t max_new_tokens; /* at least 1 */
    struct mt_sampling sampling;
    uint64_t seed;
    /* Gets the answer as UTF-8 as it grows; false stops. May be NULL. */
    bool (*piece)(void *context, const char *text, size_t bytes);
    void *context;
};

enum mt_generation_end {
    MT_GENERATION_STOP,      /* an end token */
    MT_GENERATION_LENGTH,    /* max_new_tokens, or the context is full */
    MT_GENERATION_CANCELLED, /* piece said no */
};

struct mt_generation_result {
    size_t prompt_tokens, new_tokens;
    enum mt_generation_end end;
    double prompt_seconds, answer_seconds;
};

/* Errors: MT_REASON_BAD_DATA for a prompt that is longer than the context or breaks the template's rules. */
int mt_generator_run(struct mt_generator *generator, const struct mt_generation *generation,
                     struct mt_generation_result *result, struct mt_error *error);

#endif
