/* Removes the files of jobs that were deleted, in a thread of its own: a checkpoint of many gigabytes takes
 * longer to unlink than a client should wait. What it owes stands in the database until it is done. */
#ifndef MT_MEGATRAIND_JANITOR_H
#define MT_MEGATRAIND_JANITOR_H

#include "core/base/error.h"

struct mt_daemon;
struct mt_janitor;

/* Starts the thread; it begins with what an earlier daemon left undone. */
int mt_janitor_start(struct mt_daemon *daemon, struct mt_janitor **janitor, struct mt_error *error);
/* Waits for the removal at hand. */
void mt_janitor_stop(struct mt_janitor *janitor); /* NULL is fine */

/* The job's row is gone: takes its folder's name away at once and its contents soon. Thread-safe. */
void mt_janitor_take(struct mt_janitor *janitor, const char *id);

/* Removes the folders of submissions that never became jobs; before anything is submitted. */
void mt_janitor_remove_unborn(const struct mt_daemon *daemon);

#endif
