/* datasets.h: POST /datasets/preview. */
#ifndef MT_API_DATASETS_H
#define MT_API_DATASETS_H

#include "api/request.h"

void mt_datasets_preview(struct mt_request *request);

#endif
