/* From the job document to an executor. Training and planning both come through here, so that what is planned
 * is what runs. */
#ifndef MT_STREAM_FROM_JOB_H
#define MT_STREAM_FROM_JOB_H

#include "core/job/job.h"
#include "core/stream/executor.h"

/* micro_batch_size is 0 where the job says auto. */
struct mt_executor_options mt_executor_options_from_job(const struct mt_job *job);

/* The store that these options and this device want. */
struct mt_store_options mt_store_options_from_job(const struct mt_job *job,
                                                  const struct mt_executor_options *options,
                                                  const struct mt_device_info *device);

/* Makes the executor. Where the device has no room for options->checkpoint_interval layers together, that is
 * lowered (halved, until it fits) in *options: whoever calls says so. With options->micro_batch_size 0 it
 * takes the largest of `most`, half of it rounded up and so on that the device has room for and that leaves
 * half of `available_bytes` of host memory alone, and writes it there; that is found out on paper
 * (core/device/paper.h), so that the device's memory is taken once. */
int mt_executor_settle(struct mt_store *store, struct mt_device *device, struct mt_pool *pool,
                       struct mt_executor_options *options, size_t most, size_t available_bytes,
                       struct mt_executor **executor, struct mt_error *error);

#endif
