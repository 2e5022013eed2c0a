#include "core/stream/decoder.h"

#include "core/base/cleanup.h"
#include "core/base/size.h"
#include "core/stream/embedding.h"
#include "core/stream/internal.h"

#include <stdlib.h>
#include <string.h>

struct mt_decoder {
    struct mt_store *store;
    const struct mt_model *model;
    struct mt_decoder_options options;
    size_t element;
    bool in_place;
    bool broken;

    struct mt_rig rig;
    struct mt_blocks blocks;
    struct mt_weights *weights;
    struct mt_layer_cache *caches; /* [num_layers] */
    size_t *lengths;               /* [max_sequences] */
    /* Where the model turns positions otherwise once a sequence is long (longrope), the keys that are cached
     * then have to be made anew: [max_sequences], what is in the caches, and how it was turned. */
    struct history {
        int32_t *ids; /* [max_tokens]; NULL where that cannot happen */
        bool long_table;
    } * histories;
    char *stand[2], *beside, *activations, *scratch;
    char *staging;                 /* host: embeddings in, logits out */
    char *last, *logits;           /* device: last rows of the sequences; their logits of a tile */
    char *projected, *normed_rows; /* likewise, and a tile of the matrix; where the model has them */
    float *rows_rstd;
    int32_t *positions, *device_positions;
    struct mt_decode_sequence *sequences; /* [max_sequences] */
};

/* ---- tables that change while a sequence grows ---- */

static bool long_table(const struct mt_decoder *decoder, size_t longest)
{
    for (size_t i = 0; i < decoder->model->num_ropes; i++) {
        const struct mt_rope *rope = &decoder->model->ropes[i];
        if (rope->type == MT_ROPE_LONGROPE && mt_rope_length_class(rope, longest))
            return true;
    }
    return false;
}

static int make_histories(struct mt_decoder *decoder, struct mt_error *error)
{
    const struct mt_decoder_options *o = &decoder->options;
    if (!long_table(decoder, o->max_tokens))
        return 0;
    decoder->histories = calloc(o->max_sequences, sizeof *decoder->histories);
    for (size_t s = 0; decoder->histories && s < o->max_sequences; s++) {
        decoder->histories[s].ids = calloc(o->max_tokens, sizeof(int32_t));
        if (!decoder->histories[s].ids)
            break;
        if (s + 1 == o->max_sequences)
            return 0;
    }
    return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY,
                        "out of memory for %zu sequences of %zu tokens", o->max_sequences, o->max_tokens);
}

/* Notes the new tokens; whose cached keys were turned by the other table begins anew with all it has. */
static void write_histories(struct mt_decoder *decoder, struct mt_decoder_input *inputs, size_t num_inputs,
                            size_t longest)
{
    const bool table = long_table(decoder, longest);
    for (size_t i = 0; decoder->histories && i < num_inputs; i++) {
        struct mt_decoder_input *input = &inputs[i];
        struct history *history = &decoder->histories[input->sequence];
        size_t *length = &decoder->lengths[input->sequence];
        memcpy(history->ids + *length, input->ids, input->tokens * sizeof *input->ids);
        if (*length && history->long_table != table) {
            input->ids = history->ids;
            input->tokens += *length;
            *length = 0;
        }
        history->long_table = table;
    }
}

/* ---- making one ---- */

static int build_caches(struct mt_decoder *decoder, struct mt_error *error)
{
    const struct mt_model *model = decoder->model;
    decoder->caches = calloc(model->num_layers, sizeof *decoder->caches);
    if (!decoder->caches)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory");
    for (size_t i = 0; i < model->num_layers; i++) {
        const struct mt_layer *layer = &model->layers[i];
        size_t bytes;
        void *k, *v;
        if (!mt_size_mul(decoder->options.max_sequences, decoder->options.max_tokens, &bytes) ||
            !mt_size_mul(bytes, layer->num_kv_heads * layer->head_dim * decoder->element, &bytes))
            return mt_error_set(error, -EOVERFLOW, MT_REASON_BAD_JOB, "the key and value cache is too large");
        if (layer->shares_kv) {
            decoder->caches[i] = decoder->caches[layer->kv_source];
            continue;
        }
        MT_TRY(mt_blocks_device(&decoder->blocks, bytes, "the cache of keys", &k, error));
        MT_TRY(mt_blocks_device(&decoder->blocks, bytes, "the cache of values", &v, error));
        decoder->caches[i] = (struct mt_layer_cache){k, v, decoder->options.max_tokens};
    }
    return 0;
}

/* Of a token: what the embedding gives each layer beside the stream. */
static size_t side_bytes(const struct mt_decoder *decoder)
{
    return decoder->model->num_layers * decoder->model->layer_input_size * decoder->element;
}

static int build_workspaces(struct mt_decoder *decoder, struct mt_error *error)
{
    const struct mt_model *model = decoder->model;
    const size_t tokens = decoder->options.max_new_tokens_at_once,
                 row = model->hidden_size * decoder->element;
    const size_t sequences = decoder->options.max_sequences;
    struct mt_layer_layout largest = {0}, layout;
    void *address;
    for (size_t i = 0; i < model->num_layers; i++) {
        int r = mt_layer_layout(&decoder->rig.context, &model->layers[i], tokens, &layout);
        if (r)
            return mt_error_set(error, r, MT_REASON_BAD_JOB, "%zu tokens at once are too many", tokens);
        largest.activation_bytes = mt_size_max(largest.activation_bytes, layout.activation_bytes);
        largest.scratch_bytes = mt_size_max(largest.scratch_bytes, layout.scratch_bytes);
    }
    MT_TRY(mt_blocks_device(&decoder->blocks, largest.activation_bytes, "a layer's activations", &address,
                            error));
    decoder->activations = address;
    MT_TRY(mt_blocks_device(&decoder->blocks, largest.scratch_bytes, "a layer's scratch", &address, error));
    decoder->scratch = address;
    for (size_t i = 0; i < 2; i++) {
        MT_TRY(mt_blocks_device(&decoder->blocks, tokens * row, "the tokens between two layers", &address,
                                error));
        decoder->stand[i] = address;
    }
    MT_TRY(mt_blocks_device(&decoder->blocks, tokens * model->beside_size * decoder->element,
                            "what layers read beside the tokens", &address, error));
    decoder->beside = address;
    MT_TRY(mt_blocks_device(&decoder->blocks, sequences * row, "the last tokens", &address, error));
    decoder->last = address;
    if (model->embedding_size != model->hidden_size) {
        MT_TRY(mt_blocks_device(&decoder->blocks, sequences * row, "the last tokens", &address, error));
        decoder->projected = address;
    }
    if (model->norm_head) {
        const size_t rows = mt_weights_tile_rows(decoder->weights);
        MT_TRY(mt_blocks_device(&decoder->blocks, rows * model->embedding_size * decoder->element,
                                "normed rows", &address, error));
        decoder->normed_rows = address;
        MT_TRY(mt_blocks_device(&decoder->blocks, rows * sizeof(float), "normed rows", &address, error));
        decoder->rows_rstd = address;
    }
    const size_t tile_bytes = mt_weights_tile_rows(decoder->weights) * decoder->element * sequences;
    MT_TRY(mt_blocks_device(&decoder->blocks, tile_bytes, "logits", &address, error));
    decoder->logits = address;
    MT_TRY(mt_blocks_host(&decoder->blocks, mt_size_max(tokens * (row + side_bytes(decoder)), tile_bytes),
                          "embeddings", &address, error));
    decoder->staging = address;
    MT_TRY(mt_blocks_host(&decoder->blocks, tokens * sizeof(int32_t), "positions", &address, error));
    decoder->positions = decoder->device_positions = address;
    if (!decoder->in_place) {
        MT_TRY(mt_blocks_device(&decoder->blocks, tokens * sizeof(int32_t), "positions", &address, error));
        decoder->device_positions = address;
    }
    return 0;
}

int mt_decoder_new(struct mt_store *store, struct mt_device *device, struct mt_pool *pool,
                   const struct mt_decoder_options *options, struct mt_decoder **decoder_out,
                   struct mt_error *error)
{
    (void)pool; /* the device has it; kept for devices that leave work to the host */
    *decoder_out = NULL;
    struct mt_decoder *decoder = calloc(1, sizeof *decoder);
    struct mt_device_info info;
    if (!decoder)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory");
    device->api->info(device, &info);
    *decoder = (struct mt_decoder){
        .store = store,
        .model = mt_store_model(store),
        .options = *options,
        .element = mt_dtype_bytes(mt_store_compute_dtype(store)),
        .in_place = info.host_memory,
    };
    mt_blocks_init(&decoder->blocks, device);
    struct mt_decoder_options *o = &decoder->options;
    o->max_sequences = mt_size_max(o->max_sequences, 1);
    o->max_new_tokens_at_once = o->max_new_tokens_at_once ? o->max_new_tokens_at_once : 512;
    o->max_new_tokens_at_once = mt_size_max(o->max_sequences, o->max_new_tokens_at_once);
    decoder->lengths = calloc(o->max_sequences, sizeof *decoder->lengths);
    decoder->sequences = calloc(o->max_sequences, sizeof *decoder->sequences);
    int r =
        decoder->lengths && decoder->sequences && o->max_tokens && o->max_tokens <= INT32_MAX
            ? 0
            : mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY,
                           "out of memory for %zu sequences of %zu tokens", o->max_sequences, o->max_tokens);
    r = r ? r
          : mt_rig_open(&decoder->rig, device, decoder->model, mt_store_compute_dtype(store), o->max_tokens,
                        error);
    r = r ? r
          : mt_weights_new(store, device, decoder->rig.in, decoder->rig.compute,
                           &(struct mt_weights_options){0}, &decoder->weights, error);
    r = r ? r : make_histories(decoder, error);
    r = r ? r : build_caches(decoder, error);
    r = r ? r : build_workspaces(decoder, error);
    if (r) {
        mt_decoder_free(decoder);
        return r;
    }
    *decoder_out = decoder;
    return 0;
}

void mt_decoder_free(struct mt_decoder *decoder)
{
    if (!decoder)
        return;
    if (decoder->rig.device)
        mt_rig_synchronize(&decoder->rig, NULL);
    mt_weights_free(decoder->weights);
    mt_rig_close(&decoder->rig);
    mt_blocks_free(&decoder->blocks);
    free(decoder->caches);
    for (size_t s = 0; decoder->histories && s < decoder->options.max_sequences; s++)
        free(decoder->histories[s].ids);
    free(decoder->histories);
    free(decoder->lengths);
    free(decoder->sequences);
    free(decoder);
}

size_t mt_decoder_length(const struct mt_decoder *decoder, size_t sequence)
{
    return decoder->lengths[sequence];
}

void mt_decoder_truncate(struct mt_decoder *decoder, size_t sequence, size_t length)
{
    decoder->lengths[sequence] = mt_size_min(decoder->lengths[sequence], length);
}

/* ---- a pass over some rows ---- */

/* The rows of one pass: of each input the tokens from `done` on, as many as fit. */
struct pass {
    size_t tokens, count;
    size_t *done;   /* [num_inputs] */
    size_t input[]; /* [count]: whose tokens sequence i of the pass are */
};

static int embed(struct mt_decoder *decoder, const struct mt_decoder_input *inputs, const struct pass *pass)
{
    const struct mt_device_api *api = decoder->rig.device->api;
    const size_t bytes = pass->tokens * decoder->model->hidden_size * decoder->element;
    char *staging = decoder->in_place ? decoder->stand[0] : decoder->staging;
    char *beside = decoder->in_place ? decoder->beside : decoder->staging + bytes;
    mt_autofree int32_t *ids = malloc(pass->tokens * sizeof *ids);
    if (!ids)
        return -ENOMEM;
    for (size_t i = 0; i < pass->count; i++) {
        const struct mt_decode_sequence *s = &decoder->sequences[i];
        const struct mt_decoder_input *input = &inputs[pass->input[i]];
        memcpy(ids + s->first, input->ids + pass->done[pass->input[i]], s->tokens * sizeof *ids);
        for (size_t t = 0; t < s->tokens; t++)
            decoder->positions[s->first + t] = (int32_t)(s->past + t);
    }
    mt_embedding_gather(decoder->store, ids, pass->tokens, staging, beside);
    if (decoder->in_place)
        return 0;
    MT_TRY(api->copy_to_device(decoder->rig.compute, decoder->stand[0], staging, bytes));
    if (decoder->model->layer_input_size)
        MT_TRY(api->copy_to_device(decoder->rig.compute, decoder->beside, beside,
                                   pass->tokens * side_bytes(decoder)));
    return api->copy_to_device(decoder->rig.compute, decoder->device_positions, decoder->positions,
                               pass->tokens * sizeof(int32_t));
}

static int run_layers(struct mt_decoder *decoder, const struct pass *pass)
{
    const struct mt_model *model = decoder->model;
    const struct mt_decode_rows rows = {
        .tokens = pass->tokens,
        .num_sequences = pass->count,
        .sequences = decoder->sequences,
        .positions = decoder->device_positions,
        .beside = decoder->beside,
    };
    for (size_t i = 0; i < model->num_layers; i++) {
        const size_t cargo = mt_weights_layer(decoder->weights, i);
        const void *weights;
        MT_TRY(mt_weights_acquire(decoder->weights, cargo, &weights));
        if (i + 1 < model->num_layers)
            MT_TRY(mt_weights_prefetch(decoder->weights, mt_weights_layer(decoder->weights, i + 1), NULL));
        MT_TRY(mt_layer_decode(&decoder->rig.context, &model->layers[i], weights, &rows, &decoder->caches[i],
                               decoder->stand[i % 2], decoder->stand[(i + 1) % 2], decoder->activations,
                               decoder->scratch));
        MT_TRY(mt_weights_release(decoder->weights, cargo));
    }
    return 0;
}

/* Logits of one tile of the vocabulary for the `count` rows in `last`, to their places. `head`: the head
 * group's slab. */
static int tile_logits(struct mt_decoder *decoder, const struct mt_decoder_input *inputs, const void *head,
                       const size_t *wanted, size_t count, size_t number)
{
    const struct mt_device_api *api = decoder->rig.device->api;
    const size_t rows = mt_weights_tile_rows(decoder->weights),
                 cargo = mt_weights_tile(decoder->weights, number);
    struct mt_head_tile tile = {.first = number * rows};
    tile.rows = mt_size_min(rows, decoder->model->vocab_size - tile.first);
    mt_head_bind_bias(&decoder->rig.context, head, NULL, &tile);
    MT_TRY(mt_weights_acquire(decoder->weights, cargo, &tile.table));
    MT_TRY(mt_head_norm_rows(&decoder->rig.context, &tile, decoder->normed_rows, decoder->rows_rstd));
    const struct mt_head_chunk chunk = {
        .tokens = count, .normed = decoder->last, .projected = decoder->projected, .logits = decoder->logits};
    MT_TRY(mt_head_logits(&decoder->rig.context, &chunk, &tile));
    MT_TRY(mt_weights_release(decoder->weights, cargo));
    const size_t bytes = count * tile.rows * decoder->element;
    MT_TRY(api->copy_to_host(decoder->rig.compute, decoder->staging, decoder->logits, bytes));
    MT_TRY(api->stream_synchronize(decoder->rig.compute, NULL));
    for (size_t i = 0; i < count; i++) {
        float *out = inputs[wanted[i]].logits + tile.first;
        const size_t first = i * tile.rows;
        if (decoder->element == sizeof(float))
            memcpy(out, (float *)(void *)decoder->staging + first, tile.rows * sizeof(float));
        for (size_t v = 0; v < tile.rows && decoder->element == 2; v++)
            out[v] = mt_bf16_to_float(((uint16_t *)(void *)decoder->staging)[first + v]);
    }
    return 0;
}

/* Logits after the last token of each sequence that is complete in this pass. */
static int give_logits(struct mt_decoder *decoder, const struct mt_decoder_input *inputs,
                       const struct pass *pass, size_t *wanted)
{
    const struct mt_device_api *api = decoder->rig.device->api;
    const size_t row = decoder->model->hidden_size * decoder->element, layers = decoder->model->num_layers;
    size_t count = 0;
    for (size_t i = 0; i < pass->count; i++) {
        const struct mt_decode_sequence *s = &decoder->sequences[i];
        const struct mt_decoder_input *input = &inputs[pass->input[i]];
        if (!input->logits || pass->done[pass->input[i]] + s->tokens < input->tokens)
            continue;
        MT_TRY(api->copy(decoder->rig.compute, decoder->last + count * row,
                         decoder->stand[layers % 2] + (s->first + s->tokens - 1) * row, row));
        wanted[count++] = pass->input[i];
    }
    if (!count)
        return 0;
    const size_t norm = mt_weights_norm(decoder->weights);
    const void *weights;
    MT_TRY(mt_weights_acquire(decoder->weights, norm, &weights));
    const struct mt_head_chunk chunk = {
        .tokens = count, .x = decoder->last, .normed = decoder->last, .projected = decoder->projected};
    MT_TRY(mt_head_norm(&decoder->rig.context, weights, &chunk));
    for (size_t n = 0; n < mt_weights_num_tiles(decoder->weights); n++)
        MT_TRY(tile_logits(decoder, inputs, weights, wanted, count, n));
    return mt_weights_release(decoder->weights, norm);
}

/* Plans a pass: a share of each input that has tokens left. */
static void plan(struct mt_decoder *decoder, const struct mt_decoder_input *inputs, size_t num_inputs,
                 struct pass *pass)
{
    pass->tokens = pass->count = 0;
    for (size_t i = 0; i < num_inputs; i++) {
        const size_t room = decoder->options.max_new_tokens_at_once - pass->tokens;
        const size_t tokens = mt_size_min(inputs[i].tokens - pass->done[i], room);
        if (!tokens)
            continue;
        const size_t past = decoder->lengths[inputs[i].sequence];
        decoder->sequences[pass->count] = (struct mt_decode_sequence){
            .first = pass->tokens,
            .tokens = tokens,
            .past = past,
            .slot = inputs[i].sequence,
            .starts = {0, (int32_t)tokens},
            .key_starts = {0, (int32_t)(past + tokens)},
        };
        pass->input[pass->count++] = i;
        pass->tokens += tokens;
    }
}

static int check_inputs(const struct mt_decoder *decoder, const struct mt_decoder_input *inputs,
                        size_t num_inputs, struct mt_error *error)
{
    if (num_inputs > decoder->options.max_sequences)
        return mt_error_set(error, -EINVAL, MT_REASON_INTERNAL, "more inputs than sequences");
    for (size_t i = 0; i < num_inputs; i++) {
        const struct mt_decoder_input *input = &inputs[i];
        for (size_t k = 0; k < i; k++)
            if (inputs[k].sequence == input->sequence)
                return mt_error_set(error, -EINVAL, MT_REASON_INTERNAL, "a sequence twice in one call");
        if (input->sequence >= decoder->options.max_sequences || !input->tokens)
            return mt_error_set(error, -EINVAL, MT_REASON_INTERNAL, "no such sequence, or no tokens for it");
        if (input->tokens > decoder->options.max_tokens - decoder->lengths[input->sequence])
            return mt_error_set(error, -ERANGE, MT_REASON_BAD_DATA,
                                "a sequence of %zu tokens is longer than the limit of %zu",
                                decoder->lengths[input->sequence] + input->tokens,
                                decoder->options.max_tokens);
        for (size_t t = 0; t < input->tokens; t++)
            if (input->ids[t] < 0 || (size_t)input->ids[t] >= decoder->model->vocab_size)
                return mt_error_set(error, -EINVAL, MT_REASON_BAD_DATA,
                                    "token %d is outside the vocabulary of %zu", input->ids[t],
                                    decoder->model->vocab_size);
    }
    return 0;
}

static int run_pass(struct mt_decoder *decoder, const struct mt_decoder_input *inputs, struct pass *pass,
                    size_t *wanted)
{
    MT_TRY(embed(decoder, inputs, pass));
    MT_TRY(run_layers(decoder, pass));
    MT_TRY(give_logits(decoder, inputs, pass, wanted));
    return decoder->rig.device->api->stream_synchronize(decoder->rig.compute, NULL);
}

int mt_decoder_forward(struct mt_decoder *decoder, const struct mt_decoder_input *given, size_t num_inputs,
                       struct mt_error *error)
{
    if (decoder->broken)
        return mt_error_set(error, -EIO, MT_REASON_DEVICE, "the decoder failed before");
    MT_TRY(check_inputs(decoder, given, num_inputs, error));
    mt_autofree struct pass *pass = calloc(1, sizeof *pass + num_inputs * sizeof *pass->input);
    mt_autofree size_t *done = calloc(num_inputs + 1, sizeof *done);
    mt_autofree size_t *wanted = calloc(num_inputs + 1, sizeof *wanted);
    mt_autofree struct mt_decoder_input *inputs = calloc(num_inputs + 1, sizeof *inputs);
    if (!pass || !done || !wanted || !inputs)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory");
    memcpy(inputs, given, num_inputs * sizeof *inputs);
    size_t first = SIZE_MAX, longest = 0;
    for (size_t i = 0; i < num_inputs; i++)
        longest = mt_size_max(longest, decoder->lengths[inputs[i].sequence] + inputs[i].tokens);
    write_histories(decoder, inputs, num_inputs, longest);
    for (size_t i = 0; i < num_inputs; i++)
        first = mt_size_min(first, decoder->lengths[inputs[i].sequence]);
    int turned = mt_rig_set_longest(&decoder->rig, mt_size_min(first, longest), longest, error);
    if (turned) { /* histories and tables say what is not so */
        decoder->broken = true;
        return turned;
    }
    pass->done = done;
    for (plan(decoder, inputs, num_inputs, pass); pass->tokens; plan(decoder, inputs, num_inputs, pass)) {
        int r = run_pass(decoder, inputs, pass, wanted);
        if (r) {
            decoder->broken = true;
            return mt_device_report(decoder->rig.device, r, error);
        }
        for (size_t i = 0; i < pass->count; i++) {
            decoder->lengths[inputs[pass->input[i]].sequence] += decoder->sequences[i].tokens;
            done[pass->input[i]] += decoder->sequences[i].tokens;
        }
    }
    return 0;
}
