/* models.c: the models that are on this machine, for `GET /models`. */
#include "core/model/on_disk.h"
#include "daemon/worker/question.h"
#include "daemon/worker/tasks.h"

static int answer(const json_t *question, json_t **reply, struct mt_error *error)
{
    const char *folder = json_string_value(json_object_get(question, "models_folder"));
    if (!folder)
        return mt_error_set(error, -EINVAL, MT_REASON_USAGE, "the question names no models_folder");
    return mt_models_on_disk(folder, MT_MODELS_LISTED, reply, error);
}

int mt_worker_models(void)
{
    return mt_worker_reply(MT_WORKER_STDIN, answer);
}
