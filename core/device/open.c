/* Devices by name. */
#include "core/device/open.h"

#include "core/device/cpu/device.h"

#include <string.h>

int mt_device_open(const char *name, const struct mt_device_options *options, struct mt_device **device,
                   struct mt_error *error)
{
    *device = NULL;
    if (!strcmp(name, "auto") || !strcmp(name, "cpu"))
        return mt_cpu_device_open(false, options, device, error);
    if (!strcmp(name, "cpu-discrete"))
        return mt_cpu_device_open(true, options, device, error);
    if (!strcmp(name, "cuda") || !strncmp(name, "cuda:", 5))
        return mt_error_set(error, -ENOTSUP, MT_REASON_DEVICE,
                            "device \"%s\" is not supported yet: use auto, cpu or cpu-discrete", name);
    return mt_error_set(error, -EINVAL, MT_REASON_BAD_JOB,
                        "there is no device \"%s\": use auto, cpu or cpu-discrete", name);
}
