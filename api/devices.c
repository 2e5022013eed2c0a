/* devices.c: what this machine computes on. The daemon has a worker answer; this file speaks HTTP. */
#include "api/devices.h"

#include "api/problem.h"
#include "api/router.h"
#include "api/server.h"
#include "core/base/cleanup.h"

void mt_devices_list(struct mt_request *request)
{
    const struct mt_control *control = request->listener->api->control;
    mt_autojson json_t *devices = NULL;
    struct mt_error error = {0};
    const enum mt_control_result result = control->devices(control->context, &devices, &error);
    if (result == MT_CONTROL_OK)
        mt_reply_json(request, 200, devices);
    else
        mt_problem_control(request, result, NULL, &error);
}
