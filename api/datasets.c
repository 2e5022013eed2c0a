/* datasets.c: a look at a job's data. The daemon has a worker read it; this file speaks HTTP. */
#include "api/datasets.h"

#include "api/problem.h"
#include "api/router.h"
#include "api/server.h"
#include "core/base/cleanup.h"

void mt_datasets_preview(struct mt_request *request)
{
    const struct mt_control *control = request->listener->api->control;
    const struct mt_control_preview wish = {.show = (size_t)mt_router_number(request, "show"),
                                            .rows = (size_t)mt_router_number(request, "rows")};
    mt_autojson json_t *document = mt_request_document(request), *preview = NULL, *errors = NULL;
    struct mt_error error = {0};
    if (!document)
        return;
    const struct mt_control_client client = mt_asks_client(request);
    enum mt_control_result result =
        control->preview(control->context, document, &wish, &client, &preview, &errors, &error);
    if (result == MT_CONTROL_OK)
        mt_reply_json(request, 200, preview);
    else
        mt_problem_control(request, result, errors, &error);
}
