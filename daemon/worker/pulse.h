/* A sign of life to the daemon at least every 5 s while the trainer computes, though a step, a save or
 * reading the data takes longer than that: the last progress line again. A process that has stopped using the
 * processor (a deadlock, a device that never answers) gives none, and the daemon finds that it has stalled.
 */
#ifndef MT_WORKER_PULSE_H
#define MT_WORKER_PULSE_H

#include "core/base/error.h"
#include "daemon/worker/link.h"

#include <jansson.h>

struct mt_pulse;

/* `link` must outlive it. */
int mt_pulse_start(struct mt_link *link, struct mt_pulse **pulse, struct mt_error *error);
/* Sends a progress line (consumed) and keeps it for the next silence. */
void mt_pulse_progress(struct mt_pulse *pulse, json_t *line);
void mt_pulse_stop(struct mt_pulse *pulse); /* NULL is fine */

#endif
