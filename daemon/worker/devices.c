/* devices.c: the devices of this machine, for `GET /devices`. */
#include "core/base/log.h"
#include "core/device/list.h"
#include "daemon/worker/tasks.h"

#include <stdio.h>
#include <stdlib.h>

int mt_worker_devices(void)
{
    json_t *list = mt_device_list();
    char *said = list ? json_dumps(list, JSON_COMPACT) : NULL;
    json_decref(list);
    if (!said) {
        mt_log(LOG_ERR, "no memory for the list of devices");
        return mt_reason_exit_code(MT_REASON_OUT_OF_MEMORY);
    }
    puts(said);
    free(said);
    return ferror(stdout) || fflush(stdout) == EOF ? mt_reason_exit_code(MT_REASON_IO) : 0;
}
