/* Sockets that listen: TCP over IPv4 and IPv6, and Unix sockets. */
#ifndef MT_API_LISTENER_H
#define MT_API_LISTENER_H

#include "api/server.h"
#include "core/base/error.h"

#include <stdbool.h>

/* Opens `text`: "127.0.0.1:8642", "localhost:8642", "[::1]:0", "unix:/run/megatrain/api.sock". A Unix socket
 * that nobody listens on any more is removed first; the new one gets mode 0660. Any address but loopback
 * needs a token. Errors: -EADDRINUSE, -EINVAL (with the sentence), both as MT_REASON_USAGE. */
int mt_listener_open(struct mt_listener *listener, const char *text, bool have_token, struct mt_error *error);
/* Closes the socket and removes the file of a Unix socket when it is still ours; frees what it holds. */
void mt_listener_close(struct mt_listener *listener);

#endif
