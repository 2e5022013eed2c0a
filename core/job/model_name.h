/* Models by their names on the hub, and where on this machine they are looked for. */
#ifndef MT_JOB_MODEL_NAME_H
#define MT_JOB_MODEL_NAME_H

#include "core/job/job.h"

#define MT_MODEL_NAME_BYTES 256

struct mt_model_name {
    char name[MT_MODEL_NAME_BYTES]; /* Org/Model */
    char file[MT_MODEL_NAME_BYTES]; /* what stood behind a colon, as model.file takes it; "": nothing */
};

/* Org/Model or Model: letters, digits, '.', '_' and '-', no part that begins with a dot. */
bool mt_is_model_name(const char *name);

/* Such a name, with :FILE behind it or not, and before it "hf.co/", "huggingface.co/" or neither, as other
 * programs are told it. False: no such name. */
bool mt_model_name_read(const char *text, struct mt_model_name *name);

/* Where the models folder has Org/Model, whether it is there or not; NULL: out of memory. */
const char *mt_model_place(const struct mt_job_context *context, struct mt_arena *arena, const char *name);

/* The snapshot of Org/Model in a hub cache: of the commit that refs/main names, else any one; NULL: none. */
const char *mt_hub_snapshot(struct mt_arena *arena, const char *cache, const char *name);

/* Where a model of that name is; in the arena. */
struct mt_model_found {
    const char *path; /* its folder or GGUF file; NULL: nowhere */
    const char *part; /* where `path` is NULL: a folder of that name that holds no whole model; or NULL */
};

/* Looks for Org/Model, and there for `file` (model.file; NULL: whatever is there), in the models folder, in
 * the hub cache and in LM Studio's folder. The first that has it counts. -ENOENT, with what there is: the
 * model is there, but not this file; -EINVAL: which file is meant is open; -ENOMEM. */
int mt_model_locate(const struct mt_job_context *context, struct mt_arena *arena, const char *name,
                    const char *file, struct mt_model_found *found, struct mt_error *error);

#endif
