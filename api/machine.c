/* machine.c: what this machine computes on, and the models on it. The daemon has a worker answer; this file
 * speaks HTTP. */
#include "api/machine.h"

#include "api/problem.h"
#include "api/server.h"
#include "core/base/cleanup.h"

typedef enum mt_control_result question(void *context, const struct mt_control_client *client, json_t **list,
                                        struct mt_error *error);

static void answer(struct mt_request *request, question *ask)
{
    const struct mt_control_client client = mt_asks_client(request);
    mt_autojson json_t *list = NULL;
    struct mt_error error = {0};
    const enum mt_control_result result =
        ask(request->listener->api->control->context, &client, &list, &error);
    if (result == MT_CONTROL_OK)
        mt_reply_json(request, 200, list);
    else
        mt_problem_control(request, result, NULL, &error);
}

void mt_devices_list(struct mt_request *request)
{
    answer(request, request->listener->api->control->devices);
}

void mt_models_list(struct mt_request *request)
{
    answer(request, request->listener->api->control->models);
}
