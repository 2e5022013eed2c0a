/* The checkpoints of a run's folder: which there are, which to resume from, which to remove. */
#ifndef MT_TRAIN_CHECKPOINT_LIST_H
#define MT_TRAIN_CHECKPOINT_LIST_H

#include "core/base/error.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct mt_checkpoint_entry {
    size_t step;
    char *path;       /* "<checkpoints>/step-00000050" */
    json_t *manifest; /* NULL where it cannot be read */
    bool is_folder;   /* else a stranger that has the name: never whole, and never removed */
};

struct mt_checkpoint_list {
    size_t count;
    struct mt_checkpoint_entry *entries; /* by step, ascending */
};

/* Lists what is named step-<digits> below `folder`; an absent folder is an empty list. */
int mt_checkpoint_list_read(const char *folder, struct mt_checkpoint_list *list, struct mt_error *error);
void mt_checkpoint_list_free(struct mt_checkpoint_list *list);

/* The name of a step's folder, "step-00000050", into `name` (32 bytes). */
void mt_checkpoint_folder_name(size_t step, char name[32]);

/* The checkpoint object of the API: step, path, bytes, loss, created_at, verified. New reference. */
json_t *mt_checkpoint_object(const struct mt_checkpoint_entry *entry, bool verified);

/* The newest checkpoint that is whole, hashes included: *path malloc'd, NULL when there is no checkpoint at
 * all. Damaged newer ones are reported through `report` (may be NULL) and passed over; only damaged ones:
 * MT_REASON_BAD_MODEL with the newest one's fault. */
int mt_checkpoint_newest_whole(const char *folder, char **path,
                               void (*report)(void *context, const char *sentence), void *context,
                               struct mt_error *error);

/* Before a save of this step: what has the checkpoint's name and is no folder gets another one, which is told
 * in *moved (malloc'd; NULL when there is none). */
int mt_checkpoint_make_way(const char *folder, size_t step, char **moved, struct mt_error *error);

/* Removes what saves that never finished left behind (".tmp-*"). */
int mt_checkpoint_remove_unfinished(const char *folder, struct mt_error *error);

/* Keeps the `keep` newest ones, and besides those of `kept_steps` whatever their age (the best one, the one
 * resumed from). */
int mt_checkpoint_prune(const char *folder, size_t keep, const size_t *kept_steps, size_t num_kept_steps,
                        struct mt_error *error);

/* The model that a user means by `folder`: itself where it has a config.json, else a run's or job's final
 * checkpoint, else its newest one. *path is malloc'd. Errors: MT_REASON_BAD_MODEL. */
int mt_checkpoint_resolve(const char *folder, char **path, struct mt_error *error);

#endif
