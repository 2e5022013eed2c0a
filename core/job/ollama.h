/* Inside core/job: models of a local Ollama store. */
#ifndef MT_JOB_OLLAMA_H
#define MT_JOB_OLLAMA_H

#include "core/base/error.h"

#include <stdbool.h>

#define MT_OLLAMA_PREFIX "ollama:"

bool mt_is_ollama(const char *text);

/* The GGUF file of "ollama:NAME[:TAG]", NAME being `name`, `namespace/name` or `host/namespace/name`
 * (hf.co/Org/Model), in capitals or not, as Ollama takes it: what the manifest
 * <store>/manifests/<host>/<namespace>/<name>/<tag> names, below <store>/blobs, links not followed out of the
 * store. malloc'd. *note, where `note` is not NULL, is a sentence about what of the model is left out, or
 * NULL. Errors: MT_REASON_BAD_JOB for what is no such name, MT_REASON_BAD_MODEL. */
int mt_ollama_find(const char *store, const char *text, char **path, const char **note,
                   struct mt_error *error);

#endif
