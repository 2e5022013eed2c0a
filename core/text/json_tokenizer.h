/* A tokenizer read from a tokenizer.json, as the library `tokenizers` writes it. */
#ifndef MT_TEXT_JSON_TOKENIZER_H
#define MT_TEXT_JSON_TOKENIZER_H

#include "core/text/tokenizer.h"

#include <jansson.h>

/* `document`: the parsed tokenizer.json of `folder`. Without a folder (NULL) it has no begin, end and padding
 * ids, no fingerprint, and nothing to save: whoever made the document knows them. MT_REASON_BAD_MODEL. */
int mt_json_tokenizer_load(const char *folder, const json_t *document, struct mt_tokenizer **tokenizer,
                           struct mt_error *error);

#endif
