/* generator.c: one sequence at a time through core/stream's cached forward pass. */
#include "core/infer/generator.h"

#include "core/base/cleanup.h"
#include "core/base/document.h"
#include "core/base/file.h"
#include "core/base/size.h"
#include "core/base/time.h"
#include "core/device/open.h"
#include "core/model/open.h"
#include "core/store/files.h"
#include "core/store/store.h"
#include "core/stream/decoder.h"
#include "core/text/json_types.h"
#include "core/text/tokenizer.h"

#include <stdlib.h>
#include <string.h>

#define MAX_END_IDS 16

struct mt_generator {
    struct mt_model *model;
    struct mt_tokenizer *tokenizer;
    struct mt_chat *chat;
    struct mt_device *device;
    struct mt_store *store;
    struct mt_decoder *decoder;
    size_t max_tokens;
    int32_t end_ids[MAX_END_IDS]; /* any of them ends an answer */
    size_t num_end_ids;
    float *logits;                     /* [vocab_size] */
    struct mt_sampling_entry *scratch; /* [vocab_size] */
};

/* --- opening ------------------------------------------------------------------------------------------- */

static void add_end_id(struct mt_generator *generator, json_int_t id)
{
    if (id < 0 || id > INT32_MAX || generator->num_end_ids == MAX_END_IDS)
        return;
    generator->end_ids[generator->num_end_ids++] = (int32_t)id;
}

/* eos_token_id of a file: a number or a list of them. */
static void add_end_ids(struct mt_generator *generator, const json_t *config)
{
    const json_t *ids = json_object_get(config, "eos_token_id");
    if (json_is_integer(ids))
        add_end_id(generator, json_integer_value(ids));
    size_t i;
    json_t *id;
    json_array_foreach(ids, i, id)
    {
        if (json_is_integer(id))
            add_end_id(generator, json_integer_value(id));
    }
}

/* generation_config.json says where answers end: what is wrong with it would be missed. */
static int read_generation(struct mt_generator *generator, const char *folder, struct mt_error *error)
{
    mt_autojson json_t *generation = NULL;
    mt_autofree char *path = mt_path_join(folder, "generation_config.json");
    if (!path || !mt_path_exists(path))
        return 0;
    int result = mt_json_read(path, MT_REASON_BAD_MODEL, &generation, error);
    if (result == 0)
        result = mt_json_types_of_tokens(generation, path, error);
    if (result < 0)
        return mt_error_prefix(error, "generation_config.json tells where answers end; mend or remove it"),
               result;
    add_end_ids(generator, generation);
    return 0;
}

static int open_model(struct mt_generator *generator, const char *folder, struct mt_error *error)
{
    mt_autojson json_t *config = NULL;
    int result = mt_model_read_config(folder, &config, error);
    if (result == 0)
        result = mt_model_of_path(folder, config, &generator->model, error);
    if (result == 0)
        result = mt_tokenizer_load(folder, &generator->tokenizer, error);
    if (result == 0)
        result = mt_chat_open(NULL, folder, &generator->chat, error);
    if (result == 0)
        result = read_generation(generator, folder, error);
    if (result == 0)
        result = mt_json_types_of_tokens(config, folder, error);
    if (result < 0)
        return result;
    add_end_ids(generator, config);
    if (mt_tokenizer_end(generator->tokenizer) != MT_TOKEN_NONE)
        add_end_id(generator, mt_tokenizer_end(generator->tokenizer));
    return 0;
}

int mt_generator_open(const struct mt_generator_options *options, struct mt_pool *pool,
                      struct mt_generator **generator, struct mt_error *error)
{
    *generator = NULL;
    struct mt_generator *opened = calloc(1, sizeof *opened);
    if (!opened)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory to open '%s'",
                            options->folder);
    struct mt_tensors *weights = NULL;
    int result = open_model(opened, options->folder, error);
    if (result == 0)
        result = mt_store_open_files(opened->model, options->folder, &weights, error);
    if (result == 0) {
        struct mt_device_options device_options = {.pool = pool};
        result = mt_device_open(options->device ? options->device : "auto", &device_options, &opened->device,
                                error);
    }
    if (result == 0) {
        struct mt_device_info info;
        opened->device->api->info(opened->device, &info);
        struct mt_store_options store_options = {
            .compute_dtype = strncmp(info.kind, "cuda", 4) == 0 ? MT_BF16 : MT_F32,
            .weights_only = true,
            .pool = pool,
        };
        result = mt_store_new(opened->model, opened->device, &store_options, &opened->store, error);
    }
    if (result == 0)
        result = mt_store_load_opened(opened->store, weights, pool, error);
    mt_tensors_close(weights);
    if (result == 0) {
        size_t context = opened->model->max_position_embeddings;
        opened->max_tokens = options->max_tokens > 0 ? mt_size_min(options->max_tokens, context) : context;
        struct mt_decoder_options decoder_options = {.max_sequences = 1, .max_tokens = opened->max_tokens};
        result =
            mt_decoder_new(opened->store, opened->device, pool, &decoder_options, &opened->decoder, error);
    }
    if (result == 0) {
        opened->logits = calloc(opened->model->vocab_size, sizeof *opened->logits);
        opened->scratch = calloc(opened->model->vocab_size, sizeof *opened->scratch);
        if (!opened->logits || !opened->scratch)
            result = mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory for the logits");
    }
    if (result < 0) {
        mt_generator_close(opened);
        return result;
    }
    *generator = opened;
    return 0;
}

void mt_generator_close(struct mt_generator *generator)
{
    if (!generator)
        return;
    if (generator->decoder)
        mt_decoder_free(generator->decoder);
    if (generator->store)
        mt_store_free(generator->store);
    if (generator->device)
        mt_device_close(generator->device);
    mt_chat_free(generator->chat);
    mt_tokenizer_free(generator->tokenizer);
    if (generator->model)
        mt_model_free(generator->model);
    free(generator->logits);
    free(generator->scratch);
    free(generator);
}

/* --- running ------------------------------------------------------------------------------------------- */

static int encode_prompt(const struct mt_generator *generator, const struct mt_generation *generation,
                         struct mt_ids *ids, struct mt_error *error)
{
    int result = generation->num_messages > 0
                     ? mt_chat_encode(generator->chat, generator->tokenizer, generation->messages,
                                      generation->num_messages, true, ids, NULL, error)
                     : mt_tokenizer_encode(generator->tokenizer, generation->prompt,
                                           strlen(generation->prompt), true, ids, error);
    if (result < 0)
        return result;
    if (ids->count == 0)
        return mt_error_set(error, -EINVAL, MT_REASON_BAD_DATA, "the prompt is empty");
    if (ids->count >= generator->max_tokens)
        return mt_error_set(
            error, -ERANGE, MT_REASON_BAD_DATA,
            "the prompt has %zu tokens, and the context holds %zu with at least one for the answer",
            ids->count, generator->max_tokens);
    return 0;
}

static bool ends(const struct mt_generator *generator, int32_t id)
{
    for (size_t i = 0; i < generator->num_end_ids; i++) {
        if (generator->end_ids[i] == id)
            return true;
    }
    return false;
}

static int forward(struct mt_generator *generator, const int32_t *ids, size_t count, struct mt_error *error)
{
    struct mt_decoder_input input = {.ids = ids, .tokens = count, .logits = generator->logits};
    return mt_decoder_forward(generator->decoder, &input, 1, error);
}

static bool give(const struct mt_generation *generation, const char *piece, size_t bytes)
{
    return bytes == 0 || !generation->piece || generation->piece(generation->context, piece, bytes);
}

static int answer(struct mt_generator *generator, const struct mt_generation *generation,
                  struct mt_detokenizer *text, struct mt_generation_result *result, struct mt_error *error)
{
    struct mt_random random = {.key = mt_random_key(generation->seed, "generate")};
    result->end = MT_GENERATION_LENGTH;
    while (result->new_tokens < generation->max_new_tokens) {
        int32_t id = mt_sampling_choose(&generation->sampling, generator->logits,
                                        generator->model->vocab_size, &random, generator->scratch);
        if (id < 0)
            return mt_error_set(
                error, -EDOM, MT_REASON_BAD_MODEL,
                "the model gives no finite logit: its weights are damaged or it was trained to pieces");
        result->new_tokens++;
        if (ends(generator, id)) {
            result->end = MT_GENERATION_STOP;
            return 0;
        }
        const char *piece;
        size_t bytes;
        int code = mt_detokenizer_push(text, id, &piece, &bytes, error);
        if (code < 0)
            return code;
        if (!give(generation, piece, bytes)) {
            result->end = MT_GENERATION_CANCELLED;
            return 0;
        }
        bool last = result->new_tokens == generation->max_new_tokens ||
                    mt_decoder_length(generator->decoder, 0) >= generator->max_tokens;
        if (last)
            return 0;
        code = forward(generator, &id, 1, error);
        if (code < 0)
            return code;
    }
    return 0;
}

int mt_generator_run(struct mt_generator *generator, const struct mt_generation *generation,
                     struct mt_generation_result *result, struct mt_error *error)
{
    *result = (struct mt_generation_result){0};
    struct mt_ids ids = {0};
    struct mt_detokenizer *text = NULL;
    int code = encode_prompt(generator, generation, &ids, error);
    if (code == 0)
        code = mt_detokenizer_new(generator->tokenizer, true, &text, error);
    double start = mt_time_monotonic();
    if (code == 0) {
        mt_decoder_truncate(generator->decoder, 0, 0);
        code = forward(generator, ids.data, ids.count, error);
    }
    double answer_start = mt_time_monotonic();
    if (code == 0) {
        result->prompt_tokens = ids.count;
        code = answer(generator, generation, text, result, error);
    }
    const char *piece;
    size_t bytes;
    if (code == 0)
        code = mt_detokenizer_finish(text, &piece, &bytes, error);
    if (code == 0 && result->end != MT_GENERATION_CANCELLED && !give(generation, piece, bytes))
        result->end = MT_GENERATION_CANCELLED;
    result->prompt_seconds = answer_start - start;
    result->answer_seconds = mt_time_monotonic() - answer_start;
    mt_detokenizer_free(text);
    mt_ids_free(&ids);
    return code;
}
