/* What config.json would say of the model in a GGUF file. */
#ifndef MT_MODEL_GGUF_CONFIG_H
#define MT_MODEL_GGUF_CONFIG_H

#include "core/base/error.h"
#include "core/formats/gguf.h"

#include <jansson.h>

/* An object as mt_model_from_config takes it (the older form of rope settings, which every transformers
 * reads), with the special tokens' ids of the file's tokenizer. Errors (MT_REASON_BAD_MODEL): an architecture
 * that is not known, with those that are; metadata that may change the mathematics and is not understood, by
 * name. */
int mt_gguf_to_config(const struct mt_gguf *file, json_t **config, struct mt_error *error);

#endif
