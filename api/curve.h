/* The loss curve of a job as an SVG picture: what `GET /jobs/{id}/chart.svg` gives, and the job's page has in
 * it. */
#ifndef MT_API_CURVE_H
#define MT_API_CURVE_H

#include "api/request.h"
#include "api/text.h"

#include <stdbool.h>

/* Draws the losses of the folder's step series. Of a long one some hundreds of rows are read, spread over all
 * of it, and those with a validation loss, for which at most 50 MiB are searched. `alone`: a picture of its
 * own, and not a part of an HTML page. False, with nothing written, where no two steps are there. */
bool mt_curve_draw(struct mt_text *text, const char *folder, bool alone);

void mt_job_chart(struct mt_request *request); /* GET /jobs/{id}/chart.svg */

#endif
