/* Unigram: of all ways to cut a word into tokens the one with the best sum of scores (Kudo, "Subword
 * regularization", 2018), by Viterbi's algorithm. */
#ifndef MT_TEXT_UNIGRAM_H
#define MT_TEXT_UNIGRAM_H

#include "core/text/tokenizer.h"
#include "core/text/vocab.h"

#include <jansson.h>

struct mt_unigram;

struct mt_unigram_model {
    double *scores;       /* [texts->size], malloc'd; the new object owns it */
    size_t count;         /* ids from here on are no part of the model */
    const bool *left_out; /* [count]: not to be found in a text; NULL: none */
    double unknown_score;
    int32_t unknown;         /* or MT_TOKEN_NONE */
    const int32_t *byte_ids; /* [256]: what is unknown becomes bytes; NULL: it does not */
    /* As the library `sentencepiece` has it, not `tokenizers`: sums in single precision, and what is unknown
     * is not looked up as a whole. */
    bool sentencepiece;
};

/* `texts` holds the tokens by id and must outlive it. MT_REASON_BAD_MODEL. */
int mt_unigram_new(const struct mt_unigram_model *model, const struct mt_vocab *texts,
                   struct mt_unigram **unigram, struct mt_error *error);

/* `model` of a tokenizer.json of type Unigram: `vocab` is a list of [text, score]. */
int mt_unigram_load(const json_t *model, const struct mt_vocab *texts, struct mt_unigram **unigram,
                    struct mt_error *error);
void mt_unigram_free(struct mt_unigram *unigram); /* NULL is fine */

/* Appends the ids of one word (UTF-8). Thread-safe. 0, -ENOMEM, or -EINVAL where the word needs an unknown
 * token and the model has none. */
int mt_unigram_encode(const struct mt_unigram *unigram, const char *word, size_t bytes, struct mt_ids *ids);

#endif
