/* plans.h: POST /plan. */
#ifndef MT_API_PLANS_H
#define MT_API_PLANS_H

#include "api/request.h"

void mt_plans_make(struct mt_request *request);

#endif
