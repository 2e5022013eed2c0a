/* devices.c: the devices of this machine, for `GET /devices`. */
#include "core/device/list.h"
#include "daemon/worker/question.h"
#include "daemon/worker/tasks.h"

static int answer(const json_t *question, json_t **reply, struct mt_error *error)
{
    (void)question;
    (void)error;
    *reply = mt_device_list();
    return 0;
}

int mt_worker_devices(void)
{
    return mt_worker_reply(NULL, answer);
}
