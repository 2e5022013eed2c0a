/* The look at a submitted job's model and data, which the daemon itself never touches: a short-lived worker
 * (`megatrain-worker --task probe`) takes it. */
#ifndef MT_MEGATRAIND_PROBE_H
#define MT_MEGATRAIND_PROBE_H

#include "api/control.h"

#include <jansson.h>

/* Gives the frozen document to `program` and returns what it found, a list of {pointer, detail, suggestion?},
 * a new reference; empty when all is well. NULL, and a line in the log, when it did not answer within a few
 * seconds or not as it should: then the job shows what is wrong when it runs. */
json_t *mt_probe_job(const char *program, const json_t *frozen, const struct mt_control_client *client);

#endif
