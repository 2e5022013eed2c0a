/* Head and loss: in chunks of tokens and tiles of the vocabulary, both cut by shape alone. Where the device
 * has room for the output matrix, everything about a chunk is done at once, and the logits of one chunk
 * exist. Where it has not, the matrix is streamed tile by tile in two passes: first each token's log-sum-exp,
 * then, from logits computed again, the gradients; logits of one chunk and tile exist. The bits are the same.
 */
#include "core/base/size.h"
#include "core/stream/internal.h"

#include <string.h>

#define LOGITS_BYTES ((size_t)64 << 20)

/* A power of two from 64 to 1024 so that a chunk's fp32 logits stay near 64 MiB: a function of the shape
 * alone, since the gradient's summation order depends on it. */
static size_t choose_chunk(const struct mt_executor *executor)
{
    size_t tokens = 1024;
    while (tokens > 256 && tokens * executor->model->vocab_size * sizeof(float) > LOGITS_BYTES)
        tokens /= 2;
    return executor->options.head_chunk_tokens ? executor->options.head_chunk_tokens : tokens;
}

/* Where the model norms the output matrix's rows: those that come at a time. */
static int make_normed_rows(struct mt_executor *executor, size_t rows, struct mt_error *error)
{
    struct mt_head_buffers *head = &executor->head;
    const size_t count = rows * executor->model->embedding_size;
    void *address;
    if (!executor->model->norm_head)
        return 0;
    MT_TRY(mt_blocks_device(&executor->blocks, count * executor->element, "normed rows", &address, error));
    head->normed_rows = address;
    MT_TRY(mt_blocks_device(&executor->blocks, rows * sizeof(float), "normed rows", &address, error));
    head->rows_rstd = address;
    if (executor->element != sizeof(float)) {
        MT_TRY(mt_blocks_device(&executor->blocks, count * sizeof(float), "normed rows", &address, error));
        head->wide_rows = address;
    }
    return 0;
}

int mt_head_buffers_init(struct mt_executor *executor, struct mt_error *error)
{
    struct mt_head_buffers *head = &executor->head;
    const size_t tokens = executor->batches.max_tokens, hidden = executor->model->hidden_size;
    const size_t before = executor->blocks.device_bytes;
    const size_t cols = head->streamed ? head->tile_rows : executor->model->vocab_size;
    void *address;
    head->chunk_tokens = mt_size_min(choose_chunk(executor), executor->batches.max_micro_tokens);
    size_t logits_bytes, normed_bytes;
    if (!mt_size_mul(head->chunk_tokens * executor->element, cols, &logits_bytes) ||
        !mt_size_mul(head->chunk_tokens * executor->element, hidden, &normed_bytes))
        return mt_error_set(error, -EOVERFLOW, MT_REASON_BAD_JOB, "head_chunk_tokens is too large");
    MT_TRY(mt_blocks_device(&executor->blocks, logits_bytes, "a chunk of logits", &address, error));
    head->logits = address;
    MT_TRY(mt_blocks_device(&executor->blocks, normed_bytes, "the head", &address, error));
    head->normed = address;
    if (executor->model->embedding_size != hidden) {
        MT_TRY(mt_blocks_device(&executor->blocks, normed_bytes, "the head", &address, error));
        head->projected = address;
    }
    MT_TRY(make_normed_rows(executor, mt_weights_tile_rows(executor->weights), error));
    float **const arrays[] = {&head->rstd,   &head->mean, &head->max,   &head->sum,
                              &head->target, &head->lse,  &head->losses};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        MT_TRY(mt_blocks_device(&executor->blocks, tokens * sizeof(float), "the loss", &address, error));
        *arrays[i] = address;
    }
    MT_TRY(mt_blocks_device(&executor->blocks, sizeof(double), "the loss", &address, error));
    head->loss_sum = address;
    MT_TRY(mt_blocks_host(&executor->blocks, sizeof(double), "the loss", &address, error));
    head->host_loss_sum = address;
    executor->head_bytes_taken = executor->blocks.device_bytes - before;
    return 0;
}

int mt_head_sums_init(struct mt_executor *executor, struct mt_error *error)
{
    struct mt_head_buffers *head = &executor->head;
    const size_t tokens = head->streamed ? executor->batches.max_tokens : head->chunk_tokens;
    const size_t before = executor->blocks.device_bytes;
    size_t bytes;
    void *address = executor->activations;
    if (executor->element == sizeof(float) || head->tile_rows >= executor->model->vocab_size)
        return 0;
    if (!mt_size_mul(tokens * sizeof(float), executor->model->embedding_size, &bytes))
        return mt_error_set(error, -EOVERFLOW, MT_REASON_BAD_JOB, "a step has too many tokens");
    if (bytes > executor->layout.activation_bytes * executor->interval)
        MT_TRY(mt_blocks_device(&executor->blocks, bytes, "the head", &address, error));
    head->wide = address;
    executor->head_bytes_taken += executor->blocks.device_bytes - before;
    return 0;
}

/* One chunk of a micro-batch. */
struct cut {
    size_t micro, first, tokens; /* first: among the step's tokens */
    struct mt_head_chunk chunk;
};

/* Starts before the first chunk. */
static struct cut no_cut(void)
{
    return (struct cut){.micro = SIZE_MAX};
}

/* The next chunk; false after the last. Chunks never cross micro-batches. */
static bool next_cut(const struct mt_executor *executor, struct cut *cut)
{
    const struct mt_microbatches *all = &executor->batches;
    const struct mt_head_buffers *head = &executor->head;
    size_t micro = cut->micro, first = cut->first + cut->tokens;
    if (micro == SIZE_MAX || first == all->items[micro].first + all->items[micro].rows.tokens) {
        micro = micro == SIZE_MAX ? 0 : micro + 1;
        if (micro == all->count)
            return false;
        first = all->items[micro].first;
    }
    const size_t left = all->items[micro].first + all->items[micro].rows.tokens - first;
    const size_t inside =
        (first - all->items[micro].first) * executor->model->hidden_size * executor->element;
    const size_t layers = executor->model->num_layers;
    *cut = (struct cut){
        .micro = micro,
        .first = first,
        .tokens = mt_size_min(left, head->chunk_tokens),
    };
    cut->chunk = (struct mt_head_chunk){
        .tokens = cut->tokens,
        .x = (char *)mt_boundaries_at(executor->boundaries, layers, micro) + inside,
        .labels = all->device_labels + first,
        .normed = head->normed,
        .projected = head->projected,
        .rstd = head->rstd + first,
        .mean = head->mean + first,
        .max = head->max + first,
        .sum = head->sum + first,
        .target = head->target + first,
        .lse = head->lse + first,
        .losses = head->losses + first,
        .logits = head->logits,
        .dx = (char *)mt_boundaries_gradient(executor->boundaries, micro) + inside,
        .wide =
            head->wide && head->streamed ? head->wide + first * executor->model->embedding_size : head->wide,
    };
    return true;
}

struct pass {
    struct mt_executor *executor;
    const struct mt_layer_context *context;
    const void *norm;      /* the head group's slab */
    float *norm_gradients; /* likewise, or NULL */
    float grad_scale;
    float *logits; /* host */
};

/* What has come to the device as one: a tile, or, unless streamed, all of the output matrix. */
static int open_tile(const struct pass *pass, size_t number, bool train, struct mt_head_tile *tile)
{
    struct mt_executor *executor = pass->executor;
    const size_t rows = mt_weights_tile_rows(executor->weights);
    *tile = (struct mt_head_tile){.first = number * rows};
    tile->rows = mt_size_min(rows, executor->model->vocab_size - tile->first);
    mt_head_bind_bias(pass->context, pass->norm, train ? pass->norm_gradients : NULL, tile);
    MT_TRY(mt_weights_acquire(executor->weights, mt_weights_tile(executor->weights, number), &tile->table));
    MT_TRY(mt_head_norm_rows(pass->context, tile, executor->head.normed_rows, executor->head.rows_rstd));
    return train ? mt_gradients_begin(executor->gradients, mt_weights_tile(executor->weights, number),
                                      &tile->gradient)
                 : 0;
}

static int close_tile(const struct pass *pass, size_t number, const struct mt_head_tile *tile, bool train)
{
    struct mt_executor *executor = pass->executor;
    const size_t cargo = mt_weights_tile(executor->weights, number);
    if (train)
        MT_TRY(mt_head_norm_rows_backward(pass->context, tile, executor->head.wide_rows));
    MT_TRY(mt_weights_release(executor->weights, cargo));
    return train ? mt_gradients_end(executor->gradients, cargo) : 0;
}

/* For whoever asks for logits: fp32 into their places on the host. */
static int give_logits(const struct pass *pass, const struct cut *cut, const struct mt_head_tile *tile)
{
    struct mt_executor *executor = pass->executor;
    const struct mt_device_api *api = executor->rig.device->api;
    if (!pass->logits)
        return 0;
    const size_t count = cut->tokens * tile->rows;
    void *host;
    MT_TRY(api->host_allocate(executor->rig.device, count * executor->element, &host, NULL, NULL));
    int r = api->copy_to_host(executor->rig.compute, host, cut->chunk.logits, count * executor->element);
    r = r ? r : api->stream_synchronize(executor->rig.compute, NULL);
    for (size_t t = 0; t < cut->tokens && !r; t++) {
        float *row = pass->logits + (cut->first + t) * executor->model->vocab_size + tile->first;
        for (size_t i = 0; i < tile->rows; i++)
            row[i] = executor->element == 2 ? mt_bf16_to_float(((uint16_t *)host)[t * tile->rows + i])
                                            : ((float *)host)[t * tile->rows + i];
    }
    api->host_release(executor->rig.device, host);
    return r;
}

/* The next tile of the whole matrix, and where its logits of this chunk stand; false after the last. Starts
 * from {0}. */
static bool next_tile(const struct pass *pass, const struct mt_head_tile *whole, struct mt_head_tile *tile,
                      struct cut *cut)
{
    const struct mt_executor *executor = pass->executor;
    const size_t element = executor->element, width = executor->model->embedding_size;
    const size_t first = tile->first + tile->rows;
    if (first == whole->rows)
        return false;
    *tile = (struct mt_head_tile){
        .table = (const char *)whole->table + first * width * element,
        .gradient = whole->gradient ? whole->gradient + first * width : NULL,
        .first = first,
        .rows = mt_size_min(executor->head.tile_rows, whole->rows - first),
        .bias = whole->bias ? (const char *)whole->bias + first * element : NULL,
        .bias_gradient = whole->bias_gradient ? whole->bias_gradient + first : NULL,
    };
    cut->chunk.logits = executor->head.logits + cut->tokens * first * element;
    return true;
}

/* The whole output matrix at hand: everything about a chunk at once. */
static int single_pass(const struct pass *pass, bool train)
{
    const struct mt_layer_context *context = pass->context;
    struct mt_head_tile whole;
    MT_TRY(open_tile(pass, 0, train, &whole));
    bool later = false;
    for (struct cut cut = no_cut(); next_cut(pass->executor, &cut); later = true) {
        MT_TRY(mt_head_norm(context, pass->norm, &cut.chunk));
        for (struct mt_head_tile tile = {0}; next_tile(pass, &whole, &tile, &cut);) {
            MT_TRY(mt_head_logits(context, &cut.chunk, &tile));
            MT_TRY(give_logits(pass, &cut, &tile));
            MT_TRY(mt_head_statistics(context, &cut.chunk, &tile));
        }
        MT_TRY(mt_head_finish(context, &cut.chunk, pass->executor->head.loss_sum, later));
        if (!train)
            continue;
        for (struct mt_head_tile tile = {0}; next_tile(pass, &whole, &tile, &cut);)
            MT_TRY(mt_head_backward(context, &cut.chunk, &tile, pass->grad_scale, later));
        MT_TRY(mt_head_norm_backward(context, pass->norm, pass->norm_gradients, &cut.chunk, later));
    }
    return close_tile(pass, 0, &whole, train);
}

/* Streamed: the first pass. */
static int statistics_pass(const struct pass *pass)
{
    struct mt_weights *weights = pass->executor->weights;
    for (size_t n = 0; n < mt_weights_num_tiles(weights); n++) {
        struct mt_head_tile tile;
        MT_TRY(open_tile(pass, n, false, &tile));
        if (n + 1 < mt_weights_num_tiles(weights))
            MT_TRY(mt_weights_prefetch(weights, mt_weights_tile(weights, n + 1), NULL));
        for (struct cut cut = no_cut(); next_cut(pass->executor, &cut);) {
            MT_TRY(mt_head_norm(pass->context, pass->norm, &cut.chunk));
            MT_TRY(mt_head_logits(pass->context, &cut.chunk, &tile));
            MT_TRY(give_logits(pass, &cut, &tile));
            MT_TRY(mt_head_statistics(pass->context, &cut.chunk, &tile));
        }
        MT_TRY(close_tile(pass, n, &tile, false));
    }
    bool later = false;
    for (struct cut cut = no_cut(); next_cut(pass->executor, &cut); later = true)
        MT_TRY(mt_head_finish(pass->context, &cut.chunk, pass->executor->head.loss_sum, later));
    return 0;
}

/* And the second. */
static int gradient_pass(const struct pass *pass)
{
    struct mt_weights *weights = pass->executor->weights;
    for (size_t n = 0; n < mt_weights_num_tiles(weights); n++) {
        struct mt_head_tile tile;
        MT_TRY(open_tile(pass, n, true, &tile));
        if (n + 1 < mt_weights_num_tiles(weights))
            MT_TRY(mt_weights_prefetch(weights, mt_weights_tile(weights, n + 1), NULL));
        bool later = false;
        for (struct cut cut = no_cut(); next_cut(pass->executor, &cut); later = true) {
            MT_TRY(mt_head_norm(pass->context, pass->norm, &cut.chunk));
            MT_TRY(mt_head_logits(pass->context, &cut.chunk, &tile));
            MT_TRY(mt_head_backward(pass->context, &cut.chunk, &tile, pass->grad_scale, later));
        }
        MT_TRY(close_tile(pass, n, &tile, true));
    }
    bool later = false;
    for (struct cut cut = no_cut(); next_cut(pass->executor, &cut); later = true)
        MT_TRY(mt_head_norm_backward(pass->context, pass->norm, pass->norm_gradients, &cut.chunk, later));
    return 0;
}

/* No gradient comes from the head for what travels beside the stream. */
static int clear_beside(struct mt_executor *executor, size_t micro)
{
    const size_t bytes =
        executor->batches.items[micro].rows.tokens * executor->model->beside_size * executor->element;
    return bytes
               ? executor->rig.device->api->fill_zero(
                     executor->rig.compute, mt_boundaries_beside_gradient(executor->boundaries, micro), bytes)
               : 0;
}

int mt_head_pass(struct mt_executor *executor, bool train, float grad_scale, float *logits)
{
    const size_t norm = mt_weights_norm(executor->weights);
    struct pass pass = {
        .executor = executor, .context = &executor->rig.context, .grad_scale = grad_scale, .logits = logits};
    mt_stream_mark(executor->rig.device, executor->rig.compute, MT_STAGE_HEAD, 0);
    mt_updater_wait(executor->updater, mt_model_head_group(executor->model));
    mt_updater_wait(executor->updater, mt_model_output_table(executor->model)->group);

    MT_TRY(mt_weights_acquire(executor->weights, norm, &pass.norm));
    if (train) {
        MT_TRY(mt_gradients_begin(executor->gradients, norm, &pass.norm_gradients));
        for (size_t m = 0; m < executor->batches.count; m++) {
            MT_TRY(mt_boundaries_before_gradient(executor->boundaries, m));
            MT_TRY(clear_beside(executor, m));
        }
    }
    if (!executor->head.streamed) {
        MT_TRY(single_pass(&pass, train));
    } else {
        MT_TRY(statistics_pass(&pass));
        if (train)
            MT_TRY(gradient_pass(&pass));
    }
    MT_TRY(mt_weights_release(executor->weights, norm));
    if (train)
        MT_TRY(mt_gradients_end(executor->gradients, norm));
    return executor->rig.device->api->copy_to_host(executor->rig.compute, executor->head.host_loss_sum,
                                                   executor->head.loss_sum, sizeof(double));
}
