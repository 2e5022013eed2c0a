/* Scheduler and supervisor in one: it gives free slots to the jobs whose turn it is, hears their workers,
 * passes on what clients ask, ends workers that hang, and writes what became of them. It lives in the main
 * thread. */
#ifndef MT_MEGATRAIND_SUPERVISOR_H
#define MT_MEGATRAIND_SUPERVISOR_H

#include "daemon/megatraind/daemon.h"

#include <poll.h>

struct mt_supervisor;

/* NULL: out of memory. */
struct mt_supervisor *mt_supervisor_new(struct mt_daemon *daemon);
/* Ends what still runs, at once. */
void mt_supervisor_free(struct mt_supervisor *supervisor);

/* Takes charge of the jobs that an earlier daemon left starting or running. A worker of it that still lives
 * is given time to save and end; nothing is ever attached to it again. */
int mt_supervisor_adopt(struct mt_supervisor *supervisor, struct mt_error *error);

/* The sockets to poll, for reading: at most `capacity`. */
size_t mt_supervisor_poll(const struct mt_supervisor *supervisor, struct pollfd *fds, size_t capacity);

/* Does everything that is due. `look` when clients may have asked for something. Returns the seconds after
 * which it must be called again at the latest. */
double mt_supervisor_turn(struct mt_supervisor *supervisor, bool look);

/* Workers are told to save and end; their jobs go back to the queue. A second call hurries. */
void mt_supervisor_stop(struct mt_supervisor *supervisor);
/* After a stop: nothing runs any more and all is written. */
bool mt_supervisor_is_idle(const struct mt_supervisor *supervisor);
/* After a stop: its time is up, whatever could not be written. */
bool mt_supervisor_is_overdue(const struct mt_supervisor *supervisor);

size_t mt_supervisor_running(const struct mt_supervisor *supervisor);

#endif
