/* The manifest of a checkpoint folder: which files it holds, their sizes and hashes. docs/checkpoint.md has
 * the format. A folder without a readable manifest is not a checkpoint. */
#ifndef MT_TRAIN_MANIFEST_H
#define MT_TRAIN_MANIFEST_H

#include "core/base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MT_MANIFEST_NAME "megatrain/manifest.json"

/* Hashes every regular file below `folder` (the manifest apart) and writes the manifest durably. `loss` may
 * be NaN: null. *bytes: the sum of the files' sizes. Errors: MT_REASON_IO, MT_REASON_DISK_FULL. */
int mt_manifest_write(const char *folder, size_t step, double loss, uint64_t *bytes, struct mt_error *error);

/* Reads and checks the form of a manifest; new reference. Errors: MT_REASON_BAD_MODEL, naming the file. */
int mt_manifest_read(const char *folder, json_t **manifest, struct mt_error *error);

enum mt_manifest_look {
    MT_MANIFEST_SIZES,  /* of all files */
    MT_MANIFEST_HASHES, /* sizes and contents of all files */
    MT_MANIFEST_MODEL,  /* sizes and contents of those that make the model: not the state below megatrain/ */
};

/* Compares the files below `folder` with its manifest. A missing, truncated or changed file is named in the
 * sentence (MT_REASON_BAD_MODEL). */
int mt_manifest_verify(const char *folder, enum mt_manifest_look look, struct mt_error *error);

#endif
