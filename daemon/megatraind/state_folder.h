/* The state folder: made ready, locked against a second daemon, its paths known. */
#ifndef MT_MEGATRAIND_STATE_FOLDER_H
#define MT_MEGATRAIND_STATE_FOLDER_H

#include "daemon/megatraind/daemon.h"

/* Fills the daemon's folders and locks them; *lock_fd holds the lock as long as it is open. Errors: -EBUSY:
 * another daemon has it (exit 75); anything else: it cannot be used (exit 73). */
int mt_state_folder_open(struct mt_daemon *daemon, int *lock_fd, struct mt_error *error);

/* <state-dir>/listen: the addresses in use, one a line. */
int mt_state_folder_write_listen(const struct mt_daemon *daemon, const char *const *addresses, size_t count,
                                 struct mt_error *error);
void mt_state_folder_remove_listen(const struct mt_daemon *daemon);

#endif
