/* The schemas of what the API answers, as JSON text; the job document's own comes from core/job. */
#ifndef MT_API_OPENAPI_SCHEMAS_H
#define MT_API_OPENAPI_SCHEMAS_H

/* {'Job': {...}, 'Problem': {...}, ...}: with apostrophes for quotation marks, so that it can be read here.
 */
extern const char mt_openapi_schemas[];

#endif
