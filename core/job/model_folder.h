/* A folder of GGUF files, as LM Studio and downloads from the hub lay them. For core/job, lists, and where a
 * folder itself is opened. */
#ifndef MT_JOB_MODEL_FOLDER_H
#define MT_JOB_MODEL_FOLDER_H

#include "core/base/error.h"

#include <stdbool.h>
#include <stddef.h>

struct mt_gguf_list {
    char **names; /* relative to the folder, sorted */
    size_t count;
};

/* The GGUF models (gguf_names.h) of a folder, and with `deep` of the folders in it, which repositories have
 * for their larger models: links to folders are not followed. Empty where there is no such folder. -ENOMEM.
 */
int mt_gguf_list_folder(const char *folder, bool deep, struct mt_gguf_list *list);
void mt_gguf_list_free(struct mt_gguf_list *list);

/* Whether a folder has a config.json and safetensors; a repository of GGUF files may have the former, too. */
bool mt_model_folder_is_whole(const char *folder);

/* The GGUF model that a folder stands for, malloc'd: the one that `file` means (model.file), or, with NULL,
 * its only one; NULL where that is asked for and the folder is a model's own (config.json and safetensors) or
 * holds no GGUF model. Without a file only what lies in the folder itself counts.
 * Errors: MT_REASON_BAD_MODEL, -ENOENT where `file` is none of them, -EINVAL where there are several, which
 * are named, and for a folder models--Org--Name of the hub's cache, which is said Org/Name. */
int mt_gguf_in_folder(const char *folder, const char *file, char **path, struct mt_error *error);

/* The same of a repository's folder: what lies in the folders in it counts, too. `name` is what the
 * repository is called (Org/Model), for the sentence. */
int mt_gguf_in_repository(const char *folder, const char *name, const char *file, char **path,
                          struct mt_error *error);

/* Whether the model that `path` stands for, a folder or file, has to be fetched first: it is not there, or a
 * folder without a model (`file`, where that is not NULL). */
bool mt_model_is_to_come(const char *path, const char *file);

#endif
