/* A tokenizer from a vocabulary of the library `tiktoken`: a token a line, its bytes in base64 and its rank
 * (Qwen 1's qwen.tiktoken, GLM-4's tokenizer.model). */
#ifndef MT_TEXT_TIKTOKEN_H
#define MT_TEXT_TIKTOKEN_H

#include "core/text/tokenizer.h"

/* Does a file begin as such a one? */
bool mt_tiktoken_is(const char *data, size_t bytes);

/* `name`: of the file in `folder`, whose bytes are `data`. Pattern and special tokens, which are not in it,
 * are those of the `tokenizer_class` that tokenizer_config.json names. MT_REASON_BAD_MODEL. */
int mt_tiktoken_load(const char *folder, const char *name, const char *data, size_t bytes,
                     struct mt_tokenizer **tokenizer, struct mt_error *error);

#endif
