/* GET /: a small page for people. */
#ifndef MT_API_PAGE_H
#define MT_API_PAGE_H

#include "api/request.h"

void mt_page(struct mt_request *request);

#endif
