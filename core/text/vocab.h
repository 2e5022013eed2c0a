/* The tokens of a vocabulary: texts (any bytes) by id, and ids by text. */
#ifndef MT_TEXT_VOCAB_H
#define MT_TEXT_VOCAB_H

#include "core/text/tokenizer.h"

#include <stddef.h>
#include <stdint.h>

#define MT_VOCAB_MAX_ID ((int64_t)1 << 24)
/* Of a token that is looked for byte by byte, or looked into: work is linear in texts and files, times this.
 * The longest tokens that models have are of some hundred bytes. */
#define MT_VOCAB_MAX_BYTES ((size_t)1024)

struct mt_vocab {
    size_t size;       /* largest id + 1 */
    uint32_t *offsets; /* [size]: into `texts`; UINT32_MAX where there is no token */
    uint32_t *lengths; /* [size] */
    char *texts;
    size_t text_bytes, text_capacity;
    int32_t *table; /* [table_mask + 1]: ids, MT_TOKEN_NONE where free */
    size_t table_mask;
};

/* Makes room for `size` ids and about as many tokens to be found. 0 or -ENOMEM. */
int mt_vocab_init(struct mt_vocab *vocab, size_t size);
void mt_vocab_free(struct mt_vocab *vocab);

/* Sets the text of an id below `size`; `findable`: mt_vocab_find shall give it. -EEXIST when the id has a
 * text, or when the text is found already; -ENOMEM. */
int mt_vocab_add(struct mt_vocab *vocab, int32_t id, const char *text, size_t bytes, bool findable);

/* Another text for an id that is not to be found by it. 0 or -ENOMEM. */
int mt_vocab_replace(struct mt_vocab *vocab, int32_t id, const char *text, size_t bytes);

int32_t mt_vocab_find(const struct mt_vocab *vocab, const char *text, size_t bytes); /* or MT_TOKEN_NONE */

static inline bool mt_vocab_has(const struct mt_vocab *vocab, int32_t id)
{
    return id >= 0 && (size_t)id < vocab->size && vocab->offsets[id] != UINT32_MAX;
}

static inline const char *mt_vocab_text(const struct mt_vocab *vocab, int32_t id, size_t *bytes)
{
    *bytes = vocab->lengths[id];
    return vocab->texts + vocab->offsets[id];
}

#endif
