/* Words and their ids, remembered: most of a text is words that came before. Threads share one without
 * waiting for each other: a slot that is being written, or is another word's, is as if empty. */
#ifndef MT_TEXT_WORD_CACHE_H
#define MT_TEXT_WORD_CACHE_H

#include "core/text/tokenizer.h"

#define MT_WORD_CACHE_BYTES 48 /* longer words are not remembered */
#define MT_WORD_CACHE_IDS 16   /* nor those of more tokens */

struct mt_word_cache;

struct mt_word_cache *mt_word_cache_new(void);        /* NULL when out of memory */
void mt_word_cache_free(struct mt_word_cache *cache); /* NULL is fine */

/* Appends the word's ids: 1; 0 where it is not there, -ENOMEM. */
int mt_word_cache_find(struct mt_word_cache *cache, const char *word, size_t bytes, struct mt_ids *ids);
void mt_word_cache_store(struct mt_word_cache *cache, const char *word, size_t bytes, const int32_t *ids,
                         size_t count);

#endif
