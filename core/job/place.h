/* Inside core/job: the files that a job names. */
#ifndef MT_JOB_PLACE_H
#define MT_JOB_PLACE_H

#include "core/job/reader.h"

/* A path that a job names, and whose fault it is when it is wrong. */
struct mt_place {
    struct mt_job_reader *reader;
    const char *pointer;
    enum mt_reason reason;
    const char *advice; /* where it is not there, behind what the system says; NULL: none */
};

/* The path by the context's rules (path.h); NULL after an error. */
const char *mt_place_resolve(const struct mt_place *place, const char *base, const char *text);

bool mt_names_pickle(const char *name);

/* model.path, name, file, download and tokenizer. */
void mt_place_model(struct mt_job_reader *reader);

#endif
