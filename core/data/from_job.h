/* The part of a job document that says what the data is. */
#ifndef MT_DATA_FROM_JOB_H
#define MT_DATA_FROM_JOB_H

#include "core/data/dataset.h"
#include "core/data/sampler.h"
#include "core/job/job.h"

/* Options for mt_dataset_open and mt_dataset_probe; texts are borrowed from the job. The caller adds
 * tokenizer, chat, pool, cache_dir and should_stop. */
struct mt_dataset_options mt_dataset_options_from_job(const struct mt_job *job);

/* Sampler of the training split, or of the validation split in the same number of sequences a step. */
struct mt_sampler_options mt_sampler_options_from_job(const struct mt_job *job, bool validation);

#endif
