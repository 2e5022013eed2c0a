/* datasets.c: a look at a job's data. The daemon has a worker read it; this file speaks HTTP. */
#include "api/datasets.h"

#include "api/problem.h"
#include "api/router.h"
#include "api/server.h"
#include "core/base/cleanup.h"
#include "core/base/document.h"

void mt_datasets_preview(struct mt_request *request)
{
    const struct mt_control *control = request->listener->api->control;
    const struct mt_control_preview wish = {.show = (size_t)mt_router_number(request, "show"),
                                            .rows = (size_t)mt_router_number(request, "rows")};
    mt_autojson json_t *document = NULL, *preview = NULL, *errors = NULL;
    struct mt_error error = {0};
    if (mt_json_parse(request->body, request->body_bytes, "request body", &document, &error) < 0) {
        mt_problem(request, 400, "%s", error.message);
        return;
    }
    if (!json_is_object(document)) {
        errors = json_pack("[{s:s, s:s}]", "pointer", "", "detail", "A job document is an object.");
        mt_problem_invalid(request, errors, "The job document has 1 error.");
        return;
    }
    enum mt_control_result result =
        control->preview(control->context, document, &wish, &preview, &errors, &error);
    if (result == MT_CONTROL_OK)
        mt_reply_json(request, 200, preview);
    else
        mt_problem_control(request, result, errors, &error);
}
