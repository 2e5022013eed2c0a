/* The tokenizer and the chat template of a GGUF file. */
#ifndef MT_TEXT_GGUF_TOKENIZER_H
#define MT_TEXT_GGUF_TOKENIZER_H

#include "core/base/error.h"
#include "core/text/tokenizer.h"

#include <jansson.h>

struct mt_gguf;

/* Saving it writes what a Hugging Face folder has: tokenizer.json, tokenizer_config.json,
 * chat_template.jinja. MT_REASON_BAD_MODEL. */
int mt_gguf_tokenizer_load(const char *path, struct mt_tokenizer **tokenizer, struct mt_error *error);
/* Of a file that is open already; needed no more afterwards. */
int mt_gguf_tokenizer_of(const struct mt_gguf *file, struct mt_tokenizer **tokenizer, struct mt_error *error);

/* What chat_template.jinja (NULL: there is none) and tokenizer_config.json would hold. */
int mt_gguf_template_read(const char *path, json_t **chat_template, json_t **config, struct mt_error *error);

#endif
