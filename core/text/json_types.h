/* Keys of JSON files whose value is of a type that the key cannot have. Such a value would pass for
 * absent, and a default take its place: "true" in quotes for false, for instance. */
#ifndef MT_TEXT_JSON_TYPES_H
#define MT_TEXT_JSON_TYPES_H

#include "core/base/error.h"

#include <jansson.h>

/* All of a tokenizer.json but its vocabulary and merges, whose readers check them. null is absent. Errors:
 * MT_REASON_BAD_MODEL, with the place of the key ("decoder.decoders.0.type"). */
int mt_json_types_of_tokenizer(const json_t *document, struct mt_error *error);

/* tokenizer_config.json, special_tokens_map.json, config.json or generation_config.json, found at `path`:
 * what is read of them about tokens. */
int mt_json_types_of_tokens(const json_t *document, const char *path, struct mt_error *error);

#endif
