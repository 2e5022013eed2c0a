/* Decoding a stream of ids into text that is whole at every moment. */
#include "core/base/utf8.h"
#include "core/text/tokenizer.h"

#include <stdlib.h>
#include <string.h>

struct mt_detokenizer {
    const struct mt_tokenizer *tokenizer;
    bool skip_special;
    struct mt_decode_state state;
    struct mt_text pending; /* bytes not handed out yet: less than a character between calls */
    struct mt_text piece;   /* what the last call handed out */
};

static int out_of_memory(struct mt_error *error)
{
    return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY,
                        "out of memory for the text of a generation");
}

int mt_detokenizer_new(const struct mt_tokenizer *tokenizer, bool skip_special,
                       struct mt_detokenizer **result, struct mt_error *error)
{
    struct mt_detokenizer *detokenizer = *result = calloc(1, sizeof *detokenizer);
    if (!detokenizer)
        return out_of_memory(error);
    detokenizer->tokenizer = tokenizer;
    detokenizer->skip_special = skip_special;
    return 0;
}

void mt_detokenizer_free(struct mt_detokenizer *detokenizer)
{
    if (!detokenizer)
        return;
    mt_text_free(&detokenizer->pending);
    mt_text_free(&detokenizer->piece);
    free(detokenizer);
}

/* Bytes of an unfinished character at the end of a text (0 to 3). */
static size_t unfinished_bytes(const char *data, size_t bytes)
{
    for (size_t back = 1; back <= 3 && back <= bytes; back++) {
        const unsigned char byte = (unsigned char)data[bytes - back];
        if ((byte & 0xc0) == 0x80)
            continue;
        uint32_t character;
        return mt_utf8_next(data + bytes - back, back, &character) == MT_UTF8_INCOMPLETE ? back : 0;
    }
    return 0;
}

/* Hands out all of the pending bytes but the last `keep`. */
static int hand_out(struct mt_detokenizer *detokenizer, size_t keep, const char **piece, size_t *bytes,
                    struct mt_error *error)
{
    const size_t ready = detokenizer->pending.bytes - keep;
    detokenizer->piece.bytes = 0;
    if (mt_text_append_utf8(&detokenizer->piece, detokenizer->pending.data, ready) < 0)
        return out_of_memory(error);
    if (keep)
        memmove(detokenizer->pending.data, detokenizer->pending.data + ready, keep);
    detokenizer->pending.bytes = keep;
    *piece = detokenizer->piece.data;
    *bytes = detokenizer->piece.bytes;
    return 0;
}

int mt_detokenizer_push(struct mt_detokenizer *detokenizer, int32_t id, const char **piece, size_t *bytes,
                        struct mt_error *error)
{
    const struct mt_tokenizer *tokenizer = detokenizer->tokenizer;
    if (tokenizer->ops->piece(tokenizer, id, detokenizer->skip_special, &detokenizer->state,
                              &detokenizer->pending) < 0)
        return out_of_memory(error);
    return hand_out(detokenizer, unfinished_bytes(detokenizer->pending.data, detokenizer->pending.bytes),
                    piece, bytes, error);
}

int mt_detokenizer_finish(struct mt_detokenizer *detokenizer, const char **piece, size_t *bytes,
                          struct mt_error *error)
{
    return hand_out(detokenizer, 0, piece, bytes, error);
}
