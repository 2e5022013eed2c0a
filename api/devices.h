/* devices.h: GET /devices. */
#ifndef MT_API_DEVICES_H
#define MT_API_DEVICES_H

#include "api/request.h"

void mt_devices_list(struct mt_request *request);

#endif
