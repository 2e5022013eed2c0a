/* GET /metrics: for Prometheus as text, for scripts and the dashboard as JSON. */
#ifndef MT_API_METRICS_H
#define MT_API_METRICS_H

#include "api/request.h"

void mt_metrics(struct mt_request *request);

#endif
