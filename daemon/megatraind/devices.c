/* devices.c: `GET /devices`. Drivers and their libraries stay out of the daemon: a worker looks. */
#include "core/base/cleanup.h"
#include "daemon/megatraind/ask.h"
#include "daemon/megatraind/control.h"

/* A driver that sets itself up takes seconds. */
#define DEVICES_SECONDS 15.0

enum mt_control_result mt_devices(void *context, json_t **devices, struct mt_error *error)
{
    const struct mt_daemon *daemon = context;
    mt_autojson json_t *question = json_object();
    *devices = NULL;
    if (!question ||
        mt_ask_worker(daemon->worker_program, "devices", question, DEVICES_SECONDS, devices, error) < 0)
        return MT_CONTROL_FAILED;
    if (json_is_array(json_object_get(*devices, "data")))
        return MT_CONTROL_OK;
    json_decref(*devices);
    *devices = NULL;
    mt_error_set(error, -EBADMSG, MT_REASON_INTERNAL, "the worker's answer has another form");
    return MT_CONTROL_FAILED;
}
