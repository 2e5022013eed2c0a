#include "core/text/vocab.h"

#include "core/base/size.h"
#include "core/text/text_map.h"

#include <stdlib.h>
#include <string.h>

int mt_vocab_init(struct mt_vocab *vocab, size_t size)
{
    *vocab = (struct mt_vocab){.size = size};
    size_t slots = 16;
    while (slots < 2 * size)
        slots *= 2;
    vocab->table_mask = slots - 1;
    vocab->table = malloc(slots * sizeof *vocab->table);
    vocab->offsets = malloc((size + 1) * sizeof *vocab->offsets);
    vocab->lengths = calloc(size + 1, sizeof *vocab->lengths);
    if (!vocab->table || !vocab->offsets || !vocab->lengths)
        return -ENOMEM;
    memset(vocab->table, 0xff, slots * sizeof *vocab->table);
    memset(vocab->offsets, 0xff, (size + 1) * sizeof *vocab->offsets);
    return 0;
}

void mt_vocab_free(struct mt_vocab *vocab)
{
    free(vocab->table);
    free(vocab->offsets);
    free(vocab->lengths);
    free(vocab->texts);
    *vocab = (struct mt_vocab){0};
}

/* The slot that holds the text, or the free one where it would go. */
static size_t find_slot(const struct mt_vocab *vocab, const char *text, size_t bytes)
{
    size_t slot = (size_t)mt_text_hash(text, bytes) & vocab->table_mask;
    for (; vocab->table[slot] != MT_TOKEN_NONE; slot = (slot + 1) & vocab->table_mask) {
        const int32_t id = vocab->table[slot];
        if (vocab->lengths[id] == bytes && memcmp(vocab->texts + vocab->offsets[id], text, bytes) == 0)
            break;
    }
    return slot;
}

static int store_text(struct mt_vocab *vocab, const char *text, size_t bytes)
{
    size_t needed;
    if (!mt_size_add(vocab->text_bytes, bytes, &needed) || needed >= UINT32_MAX)
        return -ENOMEM;
    if (needed > vocab->text_capacity) {
        const size_t capacity = mt_size_max(needed, 2 * vocab->text_capacity + 4096);
        char *texts = realloc(vocab->texts, capacity);
        if (!texts)
            return -ENOMEM;
        vocab->texts = texts;
        vocab->text_capacity = capacity;
    }
    if (bytes)
        memcpy(vocab->texts + vocab->text_bytes, text, bytes);
    vocab->text_bytes = needed;
    return 0;
}

int mt_vocab_add(struct mt_vocab *vocab, int32_t id, const char *text, size_t bytes, bool findable)
{
    if (mt_vocab_has(vocab, id))
        return -EEXIST;
    const size_t slot = findable ? find_slot(vocab, text, bytes) : 0;
    if (findable && vocab->table[slot] != MT_TOKEN_NONE)
        return -EEXIST;
    const size_t offset = vocab->text_bytes;
    if (store_text(vocab, text, bytes) < 0)
        return -ENOMEM;
    vocab->offsets[id] = (uint32_t)offset;
    vocab->lengths[id] = (uint32_t)bytes;
    if (findable)
        vocab->table[slot] = id;
    return 0;
}

int mt_vocab_replace(struct mt_vocab *vocab, int32_t id, const char *text, size_t bytes)
{
    const size_t offset = vocab->text_bytes;
    if (store_text(vocab, text, bytes) < 0)
        return -ENOMEM;
    vocab->offsets[id] = (uint32_t)offset;
    vocab->lengths[id] = (uint32_t)bytes;
    return 0;
}

int32_t mt_vocab_find(const struct mt_vocab *vocab, const char *text, size_t bytes)
{
    return vocab->table[find_slot(vocab, text, bytes)];
}
