/* What is on this machine: `GET /devices` and `GET /models`. */
#ifndef MT_API_MACHINE_H
#define MT_API_MACHINE_H

#include "api/request.h"

void mt_devices_list(struct mt_request *request);
void mt_models_list(struct mt_request *request);

#endif
