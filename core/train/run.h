/* What a training run stands on: model, tokenizer, data, device, store and executor, opened from a job in the
 * order in which mistakes are cheapest to find. */
#ifndef MT_TRAIN_RUN_H
#define MT_TRAIN_RUN_H

#include "core/base/error.h"
#include "core/base/pool.h"
#include "core/data/dataset.h"
#include "core/data/sampler.h"
#include "core/device/device.h"
#include "core/job/job.h"
#include "core/model/model.h"
#include "core/optim/schedule.h"
#include "core/store/store.h"
#include "core/stream/executor.h"
#include "core/text/chat.h"
#include "core/text/tokenizer.h"

#include <stdbool.h>
#include <stddef.h>

struct mt_run {
    struct mt_job *job; /* borrowed */
    struct mt_pool *pool;
    size_t max_rows;   /* a look at the data: only so many rows of it; 0: all */
    const char *trace; /* borrowed: where a trace of the device goes, or NULL */
    /* Told what is worth knowing of the device; may be NULL. */
    void (*note)(void *context, const char *sentence);
    void *note_context;
    struct mt_model *model;
    struct mt_tensors *weights; /* of the model's folder, checked; NULL before and after they are needed */
    struct mt_tokenizer *tokenizer;
    struct mt_chat *chat;
    struct mt_dataset *dataset;
    struct mt_sampler *sampler;    /* of the training split */
    struct mt_sampler *validation; /* NULL without a validation split */
    struct mt_device *device;
    struct mt_device_info device_info;
    struct mt_store *store;
    struct mt_executor *executor;
    size_t checkpoint_interval; /* the executor's: the job's, or less */
    size_t max_steps;
    struct mt_schedule schedule;
};

/* The folder whose chat template is the job's, unless it names one: the model's, else its tokenizer's; or
 * NULL. */
const char *mt_run_template_folder(const struct mt_job *job);
/* Model and tokenizer: what config.json or the job's keys say, checked against one another. */
int mt_run_open_model(struct mt_run *run, struct mt_error *error);
/* Whether the model's folder holds the model, before the data is read and memory taken: its files stay open
 * for mt_run_init_weights. */
int mt_run_check_weights(struct mt_run *run, struct mt_error *error);
/* The data, tokenised; max_steps and the schedule follow from it. `should_stop` as in struct
 * mt_dataset_options. */
int mt_run_open_data(struct mt_run *run, bool (*should_stop)(void *context), void *context,
                     struct mt_error *error);
/* Device, store and executor; settles micro_batch_size: auto in the job (*settled is then true), and lowers
 * run->checkpoint_interval where the job's does not fit. The masters are not set yet. */
int mt_run_open_engine(struct mt_run *run, bool *settled, struct mt_error *error);
/* Masters of a first start: the model folder's weights, or random ones. */
int mt_run_init_weights(struct mt_run *run, struct mt_error *error);
/* Frees whatever is open; leaves {0} but for what the caller had set. */
void mt_run_close(struct mt_run *run);

#endif
