/* The job object of the API. */
#ifndef MT_MEGATRAIND_JOB_OBJECT_H
#define MT_MEGATRAIND_JOB_OBJECT_H

#include "core/queue/queue.h"

#include <jansson.h>

/* New references; NULL when out of memory. */
json_t *mt_job_object(const struct mt_queue_job *job);
json_t *mt_job_object_progress(const struct mt_queue_job *job);

#endif
