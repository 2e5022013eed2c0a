/* GET /openapi.json: the API's description, made from the router's table and the job document's. */
#ifndef MT_API_OPENAPI_H
#define MT_API_OPENAPI_H

#include "api/request.h"

void mt_openapi(struct mt_request *request);

#endif
