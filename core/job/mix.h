/* dataset.mix, the one list of objects in a job. Inside core/job only. */
#ifndef MT_JOB_MIX_H
#define MT_JOB_MIX_H

#include "core/job/reader.h"

/* As mt_value_check: the canonical list (every entry with a weight), or NULL after errors were reported. */
json_t *mt_mix_check(struct mt_job_reader *reader, const char *pointer, const json_t *value);
void mt_mix_fill(struct mt_job_reader *reader, const json_t *value, struct mt_job_mix *mix);
/* JSON Schema of the list; new reference, NULL when out of memory. */
json_t *mt_mix_schema(void);

#endif
