/* Tokens that the files beside a vocabulary add to it: added_tokens_decoder of tokenizer_config.json,
 * added_tokens.json, and the special tokens that tokenizer_config.json and special_tokens_map.json name. */
#ifndef MT_TEXT_SIDE_TOKENS_H
#define MT_TEXT_SIDE_TOKENS_H

#include "core/text/added.h"
#include "core/text/text_map.h"
#include "core/text/tokenizer.h"

#include <jansson.h>

struct mt_side_token {
    const char *text; /* of the files' documents, below */
    size_t bytes;
    int64_t id; /* -1: wherever the vocabulary has it, else behind all others */
    bool special, single_word, lstrip, rstrip;
    bool named; /* by one of the files: bos_token, additional_special_tokens, ... */
};

struct mt_side_tokens {
    struct mt_side_token *list; /* each text once */
    size_t count, capacity;
    struct mt_text_map index; /* of the list, by text */
    json_t *config;           /* tokenizer_config.json; NULL: none */
    json_t *map, *added;      /* special_tokens_map.json, added_tokens.json */
};

/* Reads the files of the folder. MT_REASON_BAD_MODEL. */
int mt_side_tokens_read(const char *folder, struct mt_side_tokens *tokens, struct mt_error *error);
void mt_side_tokens_free(struct mt_side_tokens *tokens); /* leaves {0} */

/* Adds one more unless its text is there; `text` must outlive the list. 0 or -ENOMEM. */
int mt_side_tokens_add(struct mt_side_tokens *tokens, struct mt_side_token token);

/* The id of a text; MT_TOKEN_NONE where there is none. */
int32_t mt_side_tokens_find(const struct mt_side_tokens *tokens, const char *text, size_t bytes);

/* Gives an id to each that has none: `find`'s for its text, else the next one from `next` on and behind all
 * that have theirs. Returns the largest id + 1, at least `next`; -EINVAL, MT_REASON_BAD_MODEL: two have the
 * same. */
int64_t mt_side_tokens_number(struct mt_side_tokens *tokens, size_t next,
                              int32_t (*find)(const void *context, const char *text, size_t bytes),
                              const void *context, struct mt_error *error);

/* Appends all that determines ids, for a fingerprint. 0 or -ENOMEM. */
int mt_side_tokens_describe(const struct mt_side_tokens *tokens, struct mt_text *text);

#endif
