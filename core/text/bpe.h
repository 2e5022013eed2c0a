/* Byte pair encoding: a word begins as its characters (or bytes), and of all neighbours that a merge is known
 * for, the one with the lowest rank is merged first, from the left, until none is left. */
#ifndef MT_TEXT_BPE_H
#define MT_TEXT_BPE_H

#include "core/text/tokenizer.h"
#include "core/text/vocab.h"

#include <jansson.h>
#include <stdbool.h>

struct mt_bpe;

/* `model` of a tokenizer.json of type BPE. `byte_level`: words are bytes, and the vocabulary writes them in
 * the byte alphabet. `vocab` (already filled with the texts, not findable where they are no words) must
 * outlive it. MT_REASON_BAD_MODEL. */
int mt_bpe_load(const json_t *model, bool byte_level, const struct mt_vocab *vocab, struct mt_bpe **bpe,
                struct mt_error *error);
/* As `tiktoken` has it: the vocabulary's texts are bytes, its ids (below `count`) are ranks, and two
 * neighbours whose bytes together are a token may always be merged, the lowest rank first. A word that is a
 * token needs no merges. All single bytes must be tokens. */
int mt_bpe_new_from_ranks(const struct mt_vocab *vocab, size_t count, struct mt_bpe **bpe,
                          struct mt_error *error);
void mt_bpe_free(struct mt_bpe *bpe); /* NULL is fine */

/* What the model writes before a token inside of a word, and behind a word's last one; NULL: nothing. */
struct mt_bpe_affixes {
    char *prefix, *suffix;
};
const struct mt_bpe_affixes *mt_bpe_affixes(const struct mt_bpe *bpe);

/* May a word be cut before each U+2581 that follows another character, and before and behind newlines, to be
 * encoded in parts? No merge goes over such a place, then. */
bool mt_bpe_cuts_at_marks(const struct mt_bpe *bpe);
bool mt_bpe_cuts_at_lines(const struct mt_bpe *bpe);

/* Appends the ids of one word. Thread-safe. 0 or -ENOMEM. */
int mt_bpe_encode(const struct mt_bpe *bpe, const char *word, size_t bytes, struct mt_ids *ids);

#endif
