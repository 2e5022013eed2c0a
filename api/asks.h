/* Requests whose answer comes from another process and takes seconds. The threads of the HTTP server serve
 * everybody, so none of them may wait: such a request is suspended, its handler runs in a thread of its own,
 * and the server sends what it answered. How many are under way is bounded, each call for itself, so that one
 * that hangs does not keep another from its turn. */
#ifndef MT_API_ASKS_H
#define MT_API_ASKS_H

#include "api/control.h"

#include <stdbool.h>

struct mt_asks;
struct mt_request;

struct mt_asks *mt_asks_new(void); /* NULL: out of memory */
/* Has whoever is asked give up, and waits until every request has been answered and resumed. From then on
 * nothing is taken. */
void mt_asks_stop(struct mt_asks *asks);
void mt_asks_free(struct mt_asks *asks); /* after mt_asks_stop */

/* Runs the handler of the request's route, in a thread of its own; from within the server's handler. False:
 * too many are under way, and the request has its answer (503). True: it is to be left alone until the server
 * calls for it again, with `taken` set. */
bool mt_asks_take(struct mt_asks *asks, struct mt_request *request);

/* The client of a request that was taken, for the handler that asks the daemon on its behalf. That of a route
 * that keeps on without a client is gone only when asking stops. */
struct mt_control_client mt_asks_client(struct mt_request *request);

#endif
