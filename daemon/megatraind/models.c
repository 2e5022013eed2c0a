/* models.c: `GET /models`. Files of models are read by a worker alone. */
#include "core/base/cleanup.h"
#include "daemon/megatraind/ask.h"
#include "daemon/megatraind/control.h"

/* Headers of many files on a slow disk. */
#define MODELS_SECONDS 20.0

enum mt_control_result mt_models(void *context, json_t **models, struct mt_error *error)
{
    const struct mt_daemon *daemon = context;
    mt_autojson json_t *question = json_pack("{s:s}", "models_folder", daemon->models_folder);
    *models = NULL;
    if (!question ||
        mt_ask_worker(daemon->worker_program, "models", question, MODELS_SECONDS, models, error) < 0)
        return MT_CONTROL_FAILED;
    if (json_is_array(json_object_get(*models, "data")))
        return MT_CONTROL_OK;
    json_decref(*models);
    *models = NULL;
    mt_error_set(error, -EBADMSG, MT_REASON_INTERNAL, "the worker's answer has another form");
    return MT_CONTROL_FAILED;
}
