/* Layer templates: the code of one layer, without state. A template is bound to weights as they arrive and
 * forgotten after. It only puts operations into a stream; nothing here waits. */
#ifndef MT_MODEL_LAYER_H
#define MT_MODEL_LAYER_H

#include "core/device/device.h"
#include "core/model/model.h"

/* A rope's tables in device memory. */
struct mt_rope_table {
    const float *cos, *sin; /* [num_positions, rotary_dim / 2] */
    size_t num_positions;
};

/* Where and how a template computes. */
struct mt_layer_context {
    struct mt_device *device;
    struct mt_stream *stream;
    const struct mt_model *model;
    enum mt_dtype dtype;               /* of activations and weights */
    const struct mt_rope_table *ropes; /* [model->num_ropes] */
    const float *alibi;                /* device, [num_heads]; NULL where the model has none */
    const float *sines;                /* device, [num_positions, hidden_size]; likewise */
    size_t num_positions;
};

/* The tokens that run through a layer at a time: documents one after another. */
struct mt_rows {
    size_t tokens, num_documents;
    const int32_t *document_starts; /* HOST, [num_documents + 1]; lives until the operations have run */
    const int32_t *positions;       /* device, [tokens], from 0 in each document */
    /* Device, mt_model.beside_size * tokens elements each, NULL where that is 0; one for all layers. Before
     * the first layer `beside` holds each layer's part of the embedding; layers write their places forward,
     * and not again when they are recomputed. The gradient is 0 before the last layer's backward; after the
     * first one's it is that of the embedding's parts. */
    void *beside, *beside_gradient;
    bool recomputed; /* forward again for the backward pass: what is beside is there already */
};

/* Bytes that a layer needs for up to `tokens` tokens. Activations live from forward to backward; scratch is
 * free again when the call's operations have run, and is shared by all layers. Both aligned to 256. */
struct mt_layer_layout {
    size_t activation_bytes, scratch_bytes;
};

/* Key and value cache of one layer while decoding: [slots, capacity, num_kv_heads * head_dim], dense.
 */
struct mt_layer_cache {
    void *k, *v; /* device */
    size_t capacity;
};

/* New tokens of several sequences, one after another, each beside what its cache already holds. */
struct mt_decode_rows {
    size_t tokens, num_sequences;
    /* HOST, an entry a sequence; all of it lives until the operations have run. */
    const struct mt_decode_sequence {
        size_t first, tokens, past;       /* its new tokens among the rows; rows already in its cache */
        size_t slot;                      /* its place in the cache */
        int32_t starts[2], key_starts[2]; /* {0, tokens} and {0, past + tokens}, for attention */
    } * sequences;
    const int32_t *positions; /* device, [tokens] */
    void *beside;             /* as mt_rows.beside */
};

struct mt_layer_template {
    const char *name; /* "dense_attention" */
    int (*layout)(const struct mt_layer_context *context, const struct mt_layer *layer, size_t tokens,
                  struct mt_layer_layout *layout);
    int (*forward)(const struct mt_layer_context *context, const struct mt_layer *layer, const void *weights,
                   const struct mt_rows *rows, const void *x, void *y, void *activations, void *scratch);
    int (*backward)(const struct mt_layer_context *context, const struct mt_layer *layer, const void *weights,
                    float *gradients, bool accumulate, const struct mt_rows *rows, const void *x, void *dy,
                    void *activations, void *scratch);
    int (*decode)(const struct mt_layer_context *context, const struct mt_layer *layer, const void *weights,
                  const struct mt_decode_rows *rows, const struct mt_layer_cache *cache, const void *x,
                  void *y, void *activations, void *scratch);
};

/* Attention and an MLP on one residual stream, with what dense families differ in. */
extern const struct mt_layer_template mt_layer_dense_attention;

/* The calls. `weights` and `gradients` are the starts of the layer's slabs in device memory.
 *
 * layout: bytes for up to `tokens` tokens, for training and decoding alike.
 * forward: y[tokens, hidden] from x[tokens, hidden] (y may not be x); fills `activations`. y NULL: only what
 * backward needs, which spares the last product when a layer is recomputed. backward: dy becomes dx in place;
 * gradients are written, or added to when `accumulate`. `activations` as forward left them for the same x;
 * overwritten. Gradients NULL: only dx. decode: forward for generation; writes the new keys and values into
 * the cache behind the `past` rows; its
 * workspaces are the same two. */
static inline int mt_layer_layout(const struct mt_layer_context *context, const struct mt_layer *layer,
                                  size_t tokens, struct mt_layer_layout *layout)
{
    return layer->layer_template->layout(context, layer, tokens, layout);
}
static inline int mt_layer_forward(const struct mt_layer_context *context, const struct mt_layer *layer,
                                   const void *weights, const struct mt_rows *rows, const void *x, void *y,
                                   void *activations, void *scratch)
{
    return layer->layer_template->forward(context, layer, weights, rows, x, y, activations, scratch);
}
static inline int mt_layer_backward(const struct mt_layer_context *context, const struct mt_layer *layer,
                                    const void *weights, float *gradients, bool accumulate,
                                    const struct mt_rows *rows, const void *x, void *dy, void *activations,
                                    void *scratch)
{
    return layer->layer_template->backward(context, layer, weights, gradients, accumulate, rows, x, dy,
                                           activations, scratch);
}
static inline int mt_layer_decode(const struct mt_layer_context *context, const struct mt_layer *layer,
                                  const void *weights, const struct mt_decode_rows *rows,
                                  const struct mt_layer_cache *cache, const void *x, void *y,
                                  void *activations, void *scratch)
{
    return layer->layer_template->decode(context, layer, weights, rows, cache, x, y, activations, scratch);
}

#endif
