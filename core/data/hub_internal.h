/* What hub.c and hub_configs.c share. */
#ifndef MT_DATA_HUB_INTERNAL_H
#define MT_DATA_HUB_INTERNAL_H

#include "core/data/hub.h"

#include <stdbool.h>

/* Relative paths. Grows in the arena. */
struct mt_hub_list {
    const char **paths;
    size_t count, capacity;
};
int mt_hub_list_add(struct mt_hub_list *list, struct mt_arena *arena, const char *path);

/* A shell pattern: * within a part of the path, ** over parts, ?, [abc] and [a-c]. */
bool mt_hub_matches(const char *pattern, const char *path);

/* The files of the split by the front matter of README.md: 1 when it names data files (which `chosen` then
 * holds), 0 when it says nothing of them. */
int mt_hub_by_configs(const char *readme, const struct mt_hub_dataset *dataset, struct mt_arena *arena,
                      const struct mt_hub_list *files, struct mt_hub_list *chosen, struct mt_error *error);

#endif
