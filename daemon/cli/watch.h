/* Following a job of the daemon to its end; used by `watch` and by `submit --wait`. */
#ifndef MT_CLI_WATCH_H
#define MT_CLI_WATCH_H

#include "daemon/cli/client.h"

/* Shows progress on standard output until the job has ended or paused; returns the exit code: 0 completed, 70
 * failed, 1 cancelled, 75 paused, 66 gone, 69 when the daemon did not answer for `patience_seconds`. */
int mt_cli_watch_job(struct mt_client *client, const char *id, long patience_seconds);

#define MT_WATCH_PATIENCE_SECONDS 120L

#endif
