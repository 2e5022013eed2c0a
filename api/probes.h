/* /healthz, /readyz, /version: for supervisors and scripts. */
#ifndef MT_API_PROBES_H
#define MT_API_PROBES_H

#include "api/request.h"

void mt_probe_health(struct mt_request *request);
void mt_probe_ready(struct mt_request *request);
void mt_probe_version(struct mt_request *request);

#endif
