/* models.h: GET /models. */
#ifndef MT_API_MODELS_H
#define MT_API_MODELS_H

#include "api/request.h"

void mt_models_list(struct mt_request *request);

#endif
