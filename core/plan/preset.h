/* Presets: what the config.json of well-known models says, so that they can be planned without being here.
 * A preset is a JSON file in a folder: {"names": ["Org/Model", ...], "parameters", "config": {...}}; its own
 * name is the file's. "unconfirmed" lists keys of the config that change no size and were written without a
 * source that shows them. */
#ifndef MT_PLAN_PRESET_H
#define MT_PLAN_PRESET_H

#include "core/base/error.h"

#include <jansson.h>

/* The folder of presets: $MEGATRAIN_PRESETS, or etc/presets beside the folder of this program, or
 * etc/megatrain/presets where `make install` put it with this program, or /etc/megatrain/presets; the first
 * that is there. malloc'd; NULL when none is. */
char *mt_preset_folder(void);

/* The preset of that name ("llama-3.1-8b", "meta-llama/Llama-3.1-8B"), capitals aside. New reference.
 * Errors: -ENOENT, MT_REASON_BAD_MODEL, listing the known ones; MT_REASON_IO. */
int mt_preset_find(const char *folder, const char *name, json_t **preset, struct mt_error *error);

/* The preset whose own name that is, one of mt_preset_list. New reference. Errors: MT_REASON_BAD_MODEL. */
int mt_preset_read(const char *folder, const char *name, json_t **preset, struct mt_error *error);

/* The names of all presets in order, as a JSON array; new reference. NULL when out of memory or without a
 * folder. */
json_t *mt_preset_list(const char *folder);

#endif
