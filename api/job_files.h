/* What a job's folder holds, over HTTP: the step series, the log, the checkpoints. */
#ifndef MT_API_JOB_FILES_H
#define MT_API_JOB_FILES_H

#include "api/request.h"

void mt_job_metrics(struct mt_request *request);     /* GET /jobs/{id}/metrics */
void mt_job_logs(struct mt_request *request);        /* GET /jobs/{id}/logs */
void mt_job_checkpoints(struct mt_request *request); /* GET /jobs/{id}/checkpoints */

/* The checkpoints on disk, newest first, as the call lists them; a new reference or NULL. */
json_t *mt_job_checkpoint_list(const char *folder, size_t most);

#endif
