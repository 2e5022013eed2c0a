/* The models that are on this machine, where jobs find them by name. */
#ifndef MT_MODEL_ON_DISK_H
#define MT_MODEL_ON_DISK_H

#include "core/base/error.h"

#include <jansson.h>
#include <stddef.h>

/* {"data": [{"id", "path", "source", "format", "model_type", "parameters", "bytes", "usable", "reason"}],
 * "has_more", "next": null}: the folders with a config.json and the GGUF models of `models_folder` (one in
 * several files once), three levels deep, then the hub's cache, LM Studio's folder and Ollama's store (as
 * jobs find them: mt_job_hub_cache, mt_job_lm_studio, mt_job_ollama_store); each sorted by name, `most` of
 * them in all. `id` is what model.name or model.path of a job may say. `source`: "models", "hub_cache",
 * "lm_studio" or "ollama"; `format`: "huggingface" or "gguf". What cannot be trained has usable false,
 * `reason` the sentence, and null for what is not known. Headers are read, no tensor. New reference; -ENOMEM.
 */
#define MT_MODELS_LISTED 1000 /* of what `megatrain models` and GET /models show */
int mt_models_on_disk(const char *models_folder, size_t most, json_t **list, struct mt_error *error);

#endif
