/* A request: the one thing that is carried from the request line to the end of the answer, and freed there.
 */
#ifndef MT_API_REQUEST_H
#define MT_API_REQUEST_H

#include "api/control.h"
#include "api/text.h"
#include "api/watch.h"

#include <jansson.h>
#include <microhttpd.h>
#include <stdbool.h>
#include <stddef.h>

#define MT_REQUEST_MAX_PARAMETERS 16
#define MT_REQUEST_ID_BYTES 65
#define MT_BODY_LIMIT_BYTES ((size_t)1 << 20)

struct mt_listener; /* api/server.h */
struct mt_route;    /* api/router.h */

struct mt_parameter {
    char *name, *value; /* percent-decoded, UTF-8 */
};

struct mt_request {
    struct mt_listener *listener;
    struct MHD_Connection *connection;
    struct mt_watched *watched;
    double started;               /* monotonic, when the headers were in; 0 before */
    char id[MT_REQUEST_ID_BYTES]; /* X-Request-Id */
    const char *method;           /* libmicrohttpd's, as is `version`; live as long as the request */
    const char *version;          /* "HTTP/1.1" */

    char *target; /* as sent, owned; `path` and `query` point into it */
    char *path;   /* still percent-encoded */
    char *query;  /* or NULL */
    struct mt_parameter parameters[MT_REQUEST_MAX_PARAMETERS];
    size_t num_parameters;

    const struct mt_route *route;
    char *path_value; /* of the route's {id} or {name}; NULL where there is none */

    char *body; /* zero-terminated once complete; NULL when empty */
    size_t body_bytes, body_capacity;
    size_t received_bytes; /* with what was thrown away */

    unsigned status; /* 0: not answered yet */
    struct MHD_Response *response;
    bool taken; /* its handler ran, or runs, in a thread of its own */
    bool queued;
    size_t reserved_bytes; /* of the API's budget, for body and answer */
};

/* NULL: out of memory. `target` is what stands in the request line. */
struct mt_request *mt_request_new(struct mt_listener *listener, const char *target);
void mt_request_free(struct mt_request *request); /* NULL is fine */

/* Percent-decodes `bytes` bytes of `text` into malloc'd text. NULL for a malformed escape, a zero byte, or
 * what is not UTF-8 afterwards. `plus_is_space`: in queries. */
char *mt_percent_decode(const char *text, size_t bytes, bool plus_is_space);
/* Printable ASCII stays, all else becomes '?', at most 80 characters: for showing in a message what a client
 * sent. Returns `shown`. */
const char *mt_request_show(const char *text, char shown[88]);

/* The one value of a header, or NULL. */
const char *mt_request_header(const struct mt_request *request, const char *name);
/* The JSON object in the body, a new reference; NULL, and the answer is given, where it is none. */
json_t *mt_request_document(struct mt_request *request);
/* How often a header was sent. */
size_t mt_request_header_count(const struct mt_request *request, const char *name);
/* A query parameter's value, or NULL. */
const char *mt_request_parameter(const struct mt_request *request, const char *name);
/* The index of the media type in `types` (NULL-terminated, "text/plain") that the Accept header prefers; 0
 * when there is no such header or none of them is in it. At equal weight the earlier one wins. */
size_t mt_request_accepts(const struct mt_request *request, const char *const *types);

/* ---- answers; each is the last word: one that comes after another is dropped ---- */

void mt_reply_json(struct mt_request *request, unsigned status, const json_t *value);
/* Takes `text` over. */
void mt_reply_text(struct mt_request *request, unsigned status, const char *content_type,
                   struct mt_text *text);
void mt_reply_empty(struct mt_request *request, unsigned status);
/* 200 with a body that goes on; takes `stream` over. */
void mt_reply_stream(struct mt_request *request, const char *content_type, const struct mt_stream *stream);
/* Adds a header to the answer given before. */
void mt_reply_header(struct mt_request *request, const char *name, const char *value);

#endif
