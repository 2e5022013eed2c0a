/* A tokenizer from a folder with a SentencePiece model and no tokenizer.json (older Llama, Baichuan,
 * InternLM, ...). */
#ifndef MT_TEXT_SENTENCEPIECE_TOKENIZER_H
#define MT_TEXT_SENTENCEPIECE_TOKENIZER_H

#include "core/text/tokenizer.h"

/* `name`: of the model's file in `folder`, whose bytes are `data`. Text is tokenised as the library
 * `sentencepiece` does, and as the tokenizers of `transformers` that are built on it (their `legacy` setting,
 * true where it is not given, and added tokens included). MT_REASON_BAD_MODEL. */
int mt_sentencepiece_tokenizer_load(const char *folder, const char *name, const char *data, size_t bytes,
                                    struct mt_tokenizer **tokenizer, struct mt_error *error);

#endif
