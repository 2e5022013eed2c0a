/* probes.c: alive (this very answer), ready (the daemon says so), and which version. */
#include "api/probes.h"

#include "api/problem.h"
#include "api/server.h"
#include "core/base/cleanup.h"

void mt_probe_health(struct mt_request *request)
{
    mt_autojson json_t *body = json_pack("{s:s}", "status", "ok");
    mt_reply_json(request, 200, body);
}

void mt_probe_ready(struct mt_request *request)
{
    const struct mt_control *control = request->listener->api->control;
    struct mt_error error = {0};
    if (!control->ready(control->context, &error)) {
        mt_problem(request, 503, "%s", error.message[0] ? error.message : "The daemon is not ready.");
        mt_reply_header(request, "Retry-After", "1");
        return;
    }
    mt_autojson json_t *body = json_pack("{s:s}", "status", "ready");
    mt_reply_json(request, 200, body);
}

void mt_probe_version(struct mt_request *request)
{
    mt_autojson json_t *body =
        json_pack("{s:s, s:s}", "name", "megatrain", "version", request->listener->api->version);
    mt_reply_json(request, 200, body);
}
