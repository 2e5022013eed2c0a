/* Forward passes with a key and value cache: what generation stands on. Weights come through the same door as
 * in training (weights.h): bound in place, or streamed a layer at a time. One thread calls it. */
#ifndef MT_STREAM_DECODER_H
#define MT_STREAM_DECODER_H

#include "core/base/error.h"
#include "core/base/pool.h"
#include "core/device/device.h"
#include "core/store/store.h"

#include <stddef.h>
#include <stdint.h>

struct mt_decoder;

struct mt_decoder_options {
    size_t max_sequences;          /* cached at a time, at least 1 */
    size_t max_tokens;             /* longest sequence, prompt and answer: the cache's capacity */
    size_t max_new_tokens_at_once; /* rows of one forward pass; longer prompts are cut; 0: 512 */
};

int mt_decoder_new(struct mt_store *store, struct mt_device *device, struct mt_pool *pool,
                   const struct mt_decoder_options *options, struct mt_decoder **decoder,
                   struct mt_error *error);
void mt_decoder_free(struct mt_decoder *decoder);

/* Tokens in the cache of a sequence; 0 at the start. */
size_t mt_decoder_length(const struct mt_decoder *decoder, size_t sequence);
/* Forgets all but the first `length` tokens. */
void mt_decoder_truncate(struct mt_decoder *decoder, size_t sequence, size_t length);

/* Appends tokens to some sequences and gives the logits after the last new token of each. */
struct mt_decoder_input {
    size_t sequence;    /* below max_sequences; each at most once in a call */
    const int32_t *ids; /* [tokens], at least one */
    size_t tokens;
    float *logits; /* out, [vocab_size], or NULL */
};
/* -ERANGE when a sequence would grow past max_tokens; -EINVAL for an id outside the vocabulary. */
int mt_decoder_forward(struct mt_decoder *decoder, const struct mt_decoder_input *inputs, size_t num_inputs,
                       struct mt_error *error);

#endif
