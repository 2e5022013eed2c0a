/* models.c: what models are on this machine. The daemon has a worker answer; this file speaks HTTP. */
#include "api/models.h"

#include "api/problem.h"
#include "api/router.h"
#include "api/server.h"
#include "core/base/cleanup.h"

void mt_models_list(struct mt_request *request)
{
    const struct mt_control *control = request->listener->api->control;
    mt_autojson json_t *models = NULL;
    struct mt_error error = {0};
    const enum mt_control_result result = control->models(control->context, &models, &error);
    if (result == MT_CONTROL_OK)
        mt_reply_json(request, 200, models);
    else
        mt_problem_control(request, result, NULL, &error);
}
