/* The `bytes` tokenizer: an id a byte, and three special tokens. */
#ifndef MT_TEXT_BYTES_H
#define MT_TEXT_BYTES_H

#include "core/text/tokenizer.h"

#include <jansson.h>

#define MT_BYTES_BEGIN 256
#define MT_BYTES_END 257
#define MT_BYTES_PAD 258
#define MT_BYTES_VOCAB 259

struct mt_tokenizer *mt_bytes_tokenizer_new(void); /* NULL when out of memory */

/* Is this parsed tokenizer.json the one that mt_tokenizer_save writes for `bytes`? */
bool mt_bytes_tokenizer_is(const json_t *document);

#endif
