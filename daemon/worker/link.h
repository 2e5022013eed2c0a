/* The worker's end of the socket to its daemon (docs/worker-protocol.md): JSON objects, one a line. Sending
 * never holds a training step up; what the daemon asks for is read by a thread of its own and kept until it
 * is polled. */
#ifndef MT_WORKER_LINK_H
#define MT_WORKER_LINK_H

#include "core/base/error.h"

#include <jansson.h>
#include <stdbool.h>

enum mt_link_request {
    MT_LINK_NOTHING,
    MT_LINK_CHECKPOINT, /* polled once */
    MT_LINK_STOP,       /* SIGTERM, SIGINT, or the daemon is gone */
    MT_LINK_PAUSE,
    MT_LINK_CANCEL,
};

struct mt_link;

/* Takes over the descriptor. fd -1: no daemon (tests, by hand); sending does nothing, only signals are seen.
 * Catches SIGTERM and SIGINT from here to the end of the process; one link a process. */
int mt_link_open(int fd, struct mt_link **link, struct mt_error *error);
void mt_link_close(struct mt_link *link); /* NULL is fine */

/* Consumes `message`. must: a line that must arrive (checkpoint, config, done, failed) is kept and sent with
 * the next one when the socket is full; any other line is then dropped. */
void mt_link_send(struct mt_link *link, json_t *message, bool must);
/* Waits until everything kept is sent, at most `seconds`. */
void mt_link_flush(struct mt_link *link, double seconds);

/* The most urgent request so far: cancel before pause before stop before checkpoint. */
enum mt_link_request mt_link_poll(struct mt_link *link);

#endif
