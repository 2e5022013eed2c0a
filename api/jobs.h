/* /jobs: the queue over HTTP. */
#ifndef MT_API_JOBS_H
#define MT_API_JOBS_H

#include "api/request.h"

void mt_jobs_submit(struct mt_request *request);     /* POST /jobs */
void mt_jobs_list(struct mt_request *request);       /* GET /jobs */
void mt_jobs_show(struct mt_request *request);       /* GET /jobs/{id} */
void mt_jobs_remove(struct mt_request *request);     /* DELETE /jobs/{id} */
void mt_jobs_cancel(struct mt_request *request);     /* POST /jobs/{id}/cancel */
void mt_jobs_pause(struct mt_request *request);      /* POST /jobs/{id}/pause */
void mt_jobs_resume(struct mt_request *request);     /* POST /jobs/{id}/resume */
void mt_jobs_checkpoint(struct mt_request *request); /* POST /jobs/{id}/checkpoint */

#endif
