/* What a model's files hold, and what of it is not supported: for `megatrain inspect`. */
#ifndef MT_PLAN_INSPECT_H
#define MT_PLAN_INSPECT_H

#include "core/base/error.h"

#include <jansson.h>

/* Of a GGUF file, a .safetensors file or an index, a model's folder or a checkpoint. What is damaged or not
 * supported is no error but a sentence in `problems`, as long as anything of it can be shown:
 *
 *     {"path", "kind": "gguf" | "safetensors" | "folder" | "checkpoint",
 *      "bytes",                         of all tensors
 *      "model": null | {"model_type", "architecture", "parameters", "layers", "hidden_size", "vocab_size",
 * "tied", "dtype"}, "notes": [text],                 what the model's description says for the user "config":
 * null | {...},          config.json, or what it would say "tokenizer": null | {"kind", "vocab_size",
 * "begin", "end", "pad", "chat_template": bool}, "metadata": {...},               GGUF's (arrays as {"array":
 * type, "count"}), or of safetensors "checkpoint": null | {...},      trainer_state.json's numbers "types":
 * {type: {"tensors", "bytes", "supported"}}, "tensors": [{"name", "type", "shape", "bytes"}], "problems":
 * [text]}
 *
 * Errors: what can't be opened at all (MT_REASON_BAD_MODEL, MT_REASON_IO). */
int mt_inspect(const char *path, json_t **report, struct mt_error *error);

#endif
