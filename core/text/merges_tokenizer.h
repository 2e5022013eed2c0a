/* A tokenizer of GPT-2's own files, where a folder has no tokenizer.json: vocab.json and merges.txt, as OPT's
 * models have them. */
#ifndef MT_TEXT_MERGES_TOKENIZER_H
#define MT_TEXT_MERGES_TOKENIZER_H

#include "core/text/tokenizer.h"

/* For the classes GPT2Tokenizer and Qwen2Tokenizer of tokenizer_config.json; GPT-2's where none is named.
 * MT_REASON_BAD_MODEL. */
int mt_merges_tokenizer_load(const char *folder, struct mt_tokenizer **tokenizer, struct mt_error *error);

#endif
