/* Who may ask: decided from the headers alone, before any of the body is read. */
#ifndef MT_API_AUTH_H
#define MT_API_AUTH_H

#include "api/request.h"

#include <stdbool.h>

/* Refuses, by answering: repeated or contradictory headers that frame or authorise a request (400), a foreign
 * Host (421), a foreign Origin on a write (403), and, unless `open_to_all`, a missing or wrong bearer token
 * where the daemon has one (401). A Unix socket asks for no token: its file's mode decides. True when the
 * request may go on. */
bool mt_auth_admits(struct mt_request *request, bool open_to_all);

#endif
