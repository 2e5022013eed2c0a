/* Added tokens: texts that become one token before anything else looks at them. */
#ifndef MT_TEXT_ADDED_H
#define MT_TEXT_ADDED_H

#include "core/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mt_added_token {
    int32_t id;
    bool single_word;    /* not inside of a word */
    bool lstrip, rstrip; /* takes the white space before, after it along */
};

/* A set of tokens that are looked for together. */
struct mt_added;

struct mt_added *mt_added_new(void); /* NULL when out of memory */
void mt_added_free(struct mt_added *added);
/* An empty text is ignored, and one that is there already. Errors: -ENOMEM; MT_REASON_BAD_MODEL for one
 * longer than MT_VOCAB_MAX_BYTES. */
int mt_added_insert(struct mt_added *added, const char *text, size_t bytes, struct mt_added_token token,
                    struct mt_error *error);

/* The length of the longest token that begins a text, and its id; 0 when there is none. */
size_t mt_added_longest(const struct mt_added *added, const char *text, size_t bytes, int32_t *id);

/* Cuts a text into parts: calls `part` with the text between tokens (token MT_TOKEN_NONE, never empty) and
 * the tokens, in order; stops at the first result that is not 0 and returns it. Of tokens that begin at the
 * same place the longest counts. */
int mt_added_split(const struct mt_added *added, const char *text, size_t bytes,
                   int (*part)(void *context, const char *text, size_t offset, size_t bytes, int32_t token),
                   void *context);

#endif
