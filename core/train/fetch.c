/* What a run stands on and what is not here yet: fetched from a hub, where that is allowed. */
#include "core/base/cleanup.h"
#include "core/base/file.h"
#include "core/data/from_job.h"
#include "core/job/model_folder.h"
#include "core/model/download.h"
#include "core/train/trainer_internal.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

static void report_file(void *context, const char *sentence)
{
    mt_trainer_log(context, LOG_INFO, "%s", sentence);
}

static struct mt_download download_of(struct trainer *trainer, const char *name)
{
    return (struct mt_download){
        .name = name, .should_stop = mt_trainer_should_stop, .log = report_file, .context = trainer};
}

/* "<models>/Org/Model", or a file of it: how many bytes of it are the folder. */
static size_t folder_bytes(const struct mt_job_model *model)
{
    const size_t bytes = strlen(model->download);
    size_t end = 0;
    for (const char *at = model->path; (at = strstr(at, model->download)) != NULL; at++)
        if ((at[bytes] == '/' || at[bytes] == '\0') && at > model->path && at[-1] == '/')
            end = (size_t)(at + bytes - model->path);
    return end;
}

static int download_model(struct trainer *trainer, struct mt_error *error)
{
    const struct mt_job_model *model = &trainer->run.job->model;
    const size_t bytes = folder_bytes(model);
    const char *file = bytes && model->path[bytes] ? model->path + bytes + 1 : model->file;
    mt_autofree char *folder = strndup(model->path, bytes);
    if (!folder)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory for a download");
    if (!bytes || !trainer->options->allow_download)
        return mt_error_set(
            error, -EPERM, MT_REASON_BAD_MODEL,
            "%s is not in %s, and downloads are not allowed (--allow-download; allow_download of the "
            "daemon)",
            model->download, model->path);
    mt_trainer_enter(trainer, "downloading");
    const struct mt_download download = download_of(trainer, model->download);
    return mt_model_download(&download, folder, file, error);
}

/* *settled: it is a GGUF file, which the job names from now on. */
static int fetch_model(struct trainer *trainer, bool *settled, struct mt_error *error)
{
    const struct mt_job_model *model = &trainer->run.job->model;
    mt_autofree char *gguf = NULL;
    *settled = false;
    if (!model->download || !model->path)
        return 0;
    int r = mt_model_is_to_come(model->path, model->file) ? download_model(trainer, error) : 0;
    if (r == 0)
        r = mt_gguf_in_repository(model->path, model->download, model->file, &gguf, error);
    *settled = r == 0 && gguf;
    if (*settled && mt_job_set_model_file(trainer->run.job, gguf) < 0)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory for the model's path");
    return r;
}

static int fetch_dataset(void *context, const struct mt_hub_dataset *dataset, struct mt_error *error)
{
    struct trainer *trainer = context;
    mt_autofree char *cache = mt_job_hub_cache();
    struct mt_arena *arena = mt_arena_new();
    const char *folder = arena && cache ? mt_hub_folder(cache, dataset->repository, arena) : NULL;
    int r;
    if (!folder) {
        r = mt_error_set(
            error, -EINVAL, MT_REASON_BAD_DATA, "the data set %s cannot be fetched: %s", dataset->repository,
            cache ? "this is not the name of one" : "there is no folder for it (HF_HOME, or HOME)");
    } else {
        mt_trainer_enter(trainer, "downloading");
        const struct mt_download download = download_of(trainer, dataset->repository);
        r = mt_dataset_download(&download, folder, mt_hub_wanted, (void *)(uintptr_t)dataset, error);
    }
    mt_arena_free(arena);
    return r;
}

int mt_trainer_fetch(struct trainer *trainer, bool *settled, struct mt_error *error)
{
    int r = fetch_model(trainer, settled, error);
    if (r == 0 && trainer->options->allow_download) {
        const struct mt_dataset_options options = mt_dataset_options_from_job(trainer->run.job);
        r = mt_dataset_fetch(&options, fetch_dataset, trainer, error);
    }
    return r == -EINTR ? -ECANCELED : r;
}
