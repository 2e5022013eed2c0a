/* Inside core/model: rotary positions as GGUF's metadata and tensors describe them. */
#ifndef MT_MODEL_GGUF_ROPE_H
#define MT_MODEL_GGUF_ROPE_H

#include "core/model/gguf_architecture.h"

/* Sets rope_theta, rope_scaling and the part of a head that rotates. Needs the sizes. */
int mt_gguf_rope_read(struct mt_gguf_config *reading, struct mt_error *error);

/* Tensors that only describe positions: no parameters. */
bool mt_gguf_rope_is_tensor(const char *name);

#endif
