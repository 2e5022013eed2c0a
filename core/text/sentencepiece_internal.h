/* What the files of core/text/sentencepiece.h share. */
#ifndef MT_TEXT_SENTENCEPIECE_INTERNAL_H
#define MT_TEXT_SENTENCEPIECE_INTERNAL_H

#include "core/text/added.h"
#include "core/text/charsmap.h"
#include "core/text/mark.h"
#include "core/text/sentencepiece.h"
#include "core/text/unigram.h"
#include "core/text/word_cache.h"

struct mt_sentencepiece {
    const struct mt_vocab *pieces;
    float *scores;        /* [count] */
    unsigned char *types; /* [count] */
    size_t count;
    int32_t unknown;
    int32_t byte_ids[256];
    bool byte_fallback;
    bool prefix, remove_blanks, escape, suffix;
    bool whole;      /* some piece has a blank after other text: words are not apart */
    bool lines;      /* no piece has a newline: what is before and behind one is apart */
    bool has_unused; /* pieces that may be merged, but must be taken apart again */
    struct mt_added *users;
    struct mt_charsmap *charsmap;
    struct mt_unigram *unigram; /* NULL: byte pair encoding */
    struct mt_word_cache *cache;
};

/* Byte pair encoding of a normalised text. 0 or -ENOMEM. */
int mt_sentencepiece_merge(const struct mt_sentencepiece *model, struct mt_view text, struct mt_ids *ids);

#endif
