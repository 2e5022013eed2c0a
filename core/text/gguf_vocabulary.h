/* Inside core/text: a GGUF file's vocabulary as the files of a Hugging Face folder. */
#ifndef MT_TEXT_GGUF_VOCABULARY_H
#define MT_TEXT_GGUF_VOCABULARY_H

#include "core/base/error.h"
#include "core/formats/gguf.h"

#include <jansson.h>

/* The tokenizer.json of a vocabulary of the kind gpt2 (byte-level BPE), llama (SentencePiece) or gemma4.
 * MT_REASON_BAD_MODEL with what is wrong, or not supported. */
int mt_gguf_vocabulary_document(const struct mt_gguf *file, json_t **document, struct mt_error *error);

/* tokenizer_config.json: special tokens by name. The file's chat template comes out apart, as a string for
 * chat_template.jinja; where there is another for conversations with tools, both stand in *config as a list
 * and *chat_template is NULL, as it is where there is none. */
int mt_gguf_vocabulary_config(const struct mt_gguf *file, json_t **config, json_t **chat_template,
                              struct mt_error *error);

/* Of "tokenizer.ggml.<name>", -1 where it is absent or no id of the vocabulary. */
int64_t mt_gguf_token_id(const struct mt_gguf *file, const char *name);

#endif
