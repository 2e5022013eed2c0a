/* plans.c: what a job would take. The daemon has a worker answer; this file speaks HTTP. */
#include "api/plans.h"

#include "api/problem.h"
#include "api/router.h"
#include "api/server.h"
#include "core/base/cleanup.h"

#include <stdlib.h>

/* The machine of the query; rates become numbers where they read as such. */
static json_t *machine_of(const struct mt_request *request)
{
    json_t *machine = json_object();
    for (const struct mt_route_parameter *parameter = request->route->parameters; parameter->name;
         parameter++) {
        const char *text = mt_request_parameter(request, parameter->name);
        if (!text)
            continue;
        char *end;
        const double number = strtod(text, &end);
        json_object_set_new(machine, parameter->name,
                            end != text && *end == '\0' && number > 0 && number < 1e15 ? json_real(number)
                                                                                       : json_string(text));
    }
    return machine;
}

void mt_plans_make(struct mt_request *request)
{
    const struct mt_control *control = request->listener->api->control;
    mt_autojson json_t *document = mt_request_document(request), *machine = NULL, *plan = NULL,
                       *errors = NULL;
    struct mt_error error = {0};
    if (!document)
        return;
    machine = machine_of(request);
    const struct mt_control_client client = mt_asks_client(request);
    enum mt_control_result result =
        control->plan(control->context, document, machine, &client, &plan, &errors, &error);
    if (result == MT_CONTROL_OK)
        mt_reply_json(request, 200, plan);
    else
        mt_problem_control(request, result, errors, &error);
}
