/* Opening the CPU devices; core/device/open.h is the way in for everyone else. */
#ifndef MT_DEVICE_CPU_DEVICE_H
#define MT_DEVICE_CPU_DEVICE_H

#include "core/device/open.h"

int mt_cpu_device_open(bool discrete, const struct mt_device_options *options, struct mt_device **device,
                       struct mt_error *error);

#endif
