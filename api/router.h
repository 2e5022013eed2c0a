/* The one table of what the API answers: requests are matched, checked and documented from it. */
#ifndef MT_API_ROUTER_H
#define MT_API_ROUTER_H

#include "api/request.h"

#include <stdbool.h>
#include <stddef.h>

enum mt_parameter_type {
    MT_PARAMETER_WORD,    /* one of `words`, or any text where there are none */
    MT_PARAMETER_INTEGER, /* from `minimum` to `maximum` */
    MT_PARAMETER_SWITCH,  /* 0, 1, true, false */
};

/* A query parameter. */
struct mt_route_parameter {
    const char *name; /* NULL ends a list */
    const char *summary;
    enum mt_parameter_type type;
    long long minimum, maximum;
    long long standard;       /* an integer's default */
    const char *const *words; /* NULL-terminated */
};

/* An answer, for the document. */
struct mt_route_answer {
    unsigned status;    /* 0 ends a list */
    const char *schema; /* a schema of openapi.c, or NULL: no JSON body */
    const char *type;   /* media type when it is not JSON */
    const char *summary;
};

enum mt_route_flags {
    MT_ROUTE_OPEN = 1,        /* answers without a token */
    MT_ROUTE_ANY_QUERY = 2,   /* query parameters that are not known are passed over */
    MT_ROUTE_BODY = 4,        /* needs a JSON body */
    MT_ROUTE_NO_BODY = 8,     /* an empty body or {} */
    MT_ROUTE_NOT_BUILT = 16,  /* 501; not in the document */
    MT_ROUTE_ANY_METHOD = 32, /* whatever the method */
    MT_ROUTE_IDEMPOTENT = 64, /* honours Idempotency-Key */
    MT_ROUTE_WAITS = 128,     /* for a process: the handler runs in a thread of its own (api/asks.h) */
    MT_ROUTE_KEEPS = 256,     /* and goes on when the client has gone away */
};

struct mt_route {
    const char *method;
    const char *pattern; /* "/jobs/{id}/logs"; {id} is a ULID, {name} one segment, {rest} one or more */
    void (*handler)(struct mt_request *request);
    unsigned flags;    /* of enum mt_route_flags */
    const char *alone; /* with MT_ROUTE_WAITS: one at a time, and what another is told (503); NULL: several */
    const char *summary;
    const char *body_schema;
    const struct mt_route_parameter *parameters;
    struct mt_route_answer answers[6]; /* those that are its own; openapi.c adds what all have */
};

const struct mt_route *mt_routes(size_t *count);

/* With the headers in: finds the route and refuses what the headers alone rule out. The request has an answer
 * afterwards, or a route. */
void mt_router_admit(struct mt_request *request);
/* With the body in: checks query and body, and calls the handler. False: the answer is made elsewhere, and
 * the request is not ours to touch until the server calls again. */
bool mt_router_dispatch(struct mt_request *request);

/* The value of an integer or switch of the route, or its default. */
long long mt_router_number(const struct mt_request *request, const char *name);

#endif
