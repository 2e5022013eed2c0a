/* A job's page for people: what `GET /jobs/{id}` answers a browser. */
#ifndef MT_API_JOB_PAGE_H
#define MT_API_JOB_PAGE_H

#include "api/request.h"

#include <jansson.h>

void mt_job_page(struct mt_request *request, const json_t *job);

#endif
