/* What the names of GGUF files say, on disk and on a hub: which are models, and which of several is meant. */
#ifndef MT_JOB_GGUF_NAMES_H
#define MT_JOB_GGUF_NAMES_H

#include "core/base/error.h"

#include <stdbool.h>
#include <stddef.h>

/* Names here may stand behind those of folders, "BF16/tiny-BF16.gguf". */

/* Whether a file of this name is one of several that hold a model (NAME-00002-of-00003.gguf). */
bool mt_gguf_names_part(const char *name);

/* Whether a file of this name is a GGUF model by itself: the first of a model in several files, and no
 * later one; no projector (mmproj), no importance matrix and no hidden file. */
bool mt_gguf_starts_model(const char *name);

/* Whether files of these names hold one model: the same file, or parts of it. */
bool mt_gguf_same_model(const char *a, const char *b);

/* How many files hold the model of a file with this name. */
size_t mt_gguf_parts_named(const char *name);

/* Whether `text` may be model.file: a file's name as below, or a word of one. */
bool mt_gguf_is_choice(const char *text);

/* Which of the models (mt_gguf_starts_model) `choice` means: the one of that name, with its folders, else
 * without, in any part; else the one that has `choice` as a word of its name, as quantisations are (Q4_K_M in
 * tiny-Q4_K_M.gguf), or stands in a folder named so. NULL: the only one. `where` is what holds them, and
 * `before` what stands before a file's name where a command line names it ("FOLDER/", "Org/Model:"), for the
 * sentence.
 *
 * Errors, MT_REASON_BAD_MODEL, which list what there is: -ENOENT there is none; -EINVAL more than one. */
int mt_gguf_choose(const char *where, const char *before, const char *const *names, size_t count,
                   const char *choice, size_t *chosen, struct mt_error *error);

#endif
