/* Which part of a word each of its tokens stands for, found out after encoding: nothing is lost on it where
 * nobody asks. */
#ifndef MT_TEXT_ALIGN_H
#define MT_TEXT_ALIGN_H

#include "core/text/bpe.h"
#include "core/text/mapped.h"
#include "core/text/vocab.h"

/* Appends a span for each of the word's ids. `affixes` may be NULL. 0 or -ENOMEM. */
int mt_align_word(const struct mt_vocab *vocab, const struct mt_bpe_affixes *affixes, struct mt_view word,
                  const int32_t *ids, size_t count, struct mt_spans *spans);

#endif
