/* A folder of GGUF files, as LM Studio and downloads from the hub lay them. For core/job, lists, and where a
 * folder itself is opened.
 */
#ifndef MT_JOB_MODEL_FOLDER_H
#define MT_JOB_MODEL_FOLDER_H

#include "core/base/error.h"

#include <stdbool.h>

/* Whether a file of this name is one of several that hold a model (NAME-00002-of-00003.gguf). */
bool mt_gguf_names_part(const char *name);

/* Whether a file of this name is a GGUF model by itself: the first of a model in several files, and no
 * later one; no projector (mmproj-*) and no hidden file. */
bool mt_gguf_starts_model(const char *name);

/* The one GGUF model of a folder without config.json, malloc'd; NULL where the folder has a config.json or no
 * such file. Errors: MT_REASON_BAD_MODEL where there are several, which it names, and for a
 * folder models--Org--Name of the hub's cache, which is said Org/Name. */
int mt_gguf_in_folder(const char *folder, char **path, struct mt_error *error);

#endif
