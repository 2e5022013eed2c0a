/* What a model's folder says beside its tokenizer: which tokens begin and end a text, and the files it says
 * it in. */
#ifndef MT_TEXT_TOKEN_NAMES_H
#define MT_TEXT_TOKEN_NAMES_H

#include "core/text/tokenizer.h"

#include <jansson.h>

/* A JSON file of the folder; *config stays NULL where there is none. MT_REASON_BAD_MODEL. */
int mt_token_config_read(const char *folder, const char *name, json_t **config, struct mt_error *error);

/* "<s>" of "bos_token": "<s>", or {"content": "<s>"}; NULL where there is none. */
const char *mt_token_config_text(const json_t *config, const char *name);

/* Sets begin, end and pad where they are not set: by name (`find` gives the id of a text, or MT_TOKEN_NONE),
 * or by the ids of config.json and generation_config.json. */
int mt_token_names_read(const char *folder, struct mt_tokenizer *tokenizer,
                        int32_t (*find)(void *context, const char *text), void *context,
                        struct mt_error *error);

/* Whether a tokenizer_class is of this name, with "Fast" at its end or without. */
bool mt_token_class_is(const char *name, const char *class_name);

#endif
