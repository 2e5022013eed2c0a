/* Paths of a job: made absolute, kept inside the allowed folders. Inside core/job only. */
#ifndef MT_JOB_PATH_H
#define MT_JOB_PATH_H

#include "core/job/reader.h"

/* `text` made absolute against `base` (NULL: the current directory), without empty and `.` parts; `..` parts
 * are taken out only when `resolve_dots`, since they mean something else behind a link. In the arena. */
const char *mt_path_absolute(struct mt_arena *arena, const char *base, const char *text, bool resolve_dots);
/* Whether `path` is `folder` or lies below it; both absolute and without dots. */
bool mt_path_inside(const char *path, const char *folder);

enum mt_path_state {
    MT_PATH_GOOD,
    MT_PATH_MISSING, /* inside, but not there, or not readable */
    MT_PATH_OUTSIDE,
};

/* Resolves a path of a job by the context's rules: `*path` is absolute, and free of links when the job is
 * confined, but for the name of a part of a GGUF model, by which the others are found: in the hub's cache it
 * is a link. `*reason_text` says what the system said of a missing one. */
enum mt_path_state mt_path_resolve(const struct mt_job_context *context, struct mt_arena *arena,
                                   const char *base, const char *text, const char **path,
                                   const char **reason_text);

#endif
