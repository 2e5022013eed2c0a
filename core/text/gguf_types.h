/* Inside core/text: keys of a GGUF file's tokenizer whose value is of a type that the key cannot have. Such a
 * value would pass for absent, and a default take its place. */
#ifndef MT_TEXT_GGUF_TYPES_H
#define MT_TEXT_GGUF_TYPES_H

#include "core/base/error.h"
#include "core/formats/gguf.h"

/* All but the arrays, whose readers check them. Errors: MT_REASON_BAD_MODEL, with file and key. */
int mt_gguf_types_of_tokenizer(const struct mt_gguf *file, struct mt_error *error);

#endif
