/* auth.c: framing, Host, Origin, token. See auth.h. */
#include "api/auth.h"

#include "api/problem.h"
#include "api/server.h"
#include "core/base/sha256.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define HOST_BYTES 256

/* A proxy in front and we might each believe another one of two values. */
static bool framing_is_plain(struct mt_request *request)
{
    static const char *const once[] = {"Host",
                                       "Content-Length",
                                       "Transfer-Encoding",
                                       "Authorization",
                                       "Origin",
                                       "Idempotency-Key",
                                       "Content-Type",
                                       "Expect",
                                       "Last-Event-ID",
                                       NULL};
    for (size_t i = 0; once[i]; i++) {
        if (mt_request_header_count(request, once[i]) > 1) {
            mt_problem(request, 400, "The header %s was sent more than once.", once[i]);
            return false;
        }
    }
    const char *encoding = mt_request_header(request, "Transfer-Encoding");
    if (encoding && strcasecmp(encoding, "chunked") != 0) {
        mt_problem(request, 400, "The only Transfer-Encoding that is understood is 'chunked'.");
        return false;
    }
    if (encoding && mt_request_header(request, "Content-Length")) {
        mt_problem(request, 400, "Content-Length and Transfer-Encoding exclude each other.");
        return false;
    }
    return true;
}

/* The name in "name", "name:80", "[::1]", "[::1]:80", without brackets, in lower case; false when it is none
 * of these. */
static bool host_name(const char *text, char name[HOST_BYTES])
{
    const char *end;
    if (*text == '[') {
        end = strchr(++text, ']');
        if (!end || (end[1] != '\0' && end[1] != ':'))
            return false;
    } else {
        end = text + strcspn(text, ":");
    }
    const char *port = *end == ']' ? end + 1 : end;
    if (*port == ':' && port[1 + strspn(port + 1, "0123456789")] != '\0')
        return false;
    size_t bytes = (size_t)(end - text);
    if (bytes > 1 && text[bytes - 1] == '.')
        bytes--; /* the absolute form of a name */
    if (bytes == 0 || bytes >= HOST_BYTES)
        return false;
    for (size_t i = 0; i < bytes; i++)
        name[i] = (char)(text[i] >= 'A' && text[i] <= 'Z' ? text[i] | 0x20 : text[i]);
    name[bytes] = '\0';
    return true;
}

/* A web page of a stranger whose name was made to point here ("DNS rebinding") comes with that name as Host.
 * So names are taken only when they are this machine's or were configured; numbers cannot be rebound, but on
 * a loopback listener only loopback's own make sense. */
static bool host_is_ours(const struct mt_listener *listener, const char *host)
{
    char name[HOST_BYTES], machine[HOST_BYTES] = "";
    struct in_addr v4;
    struct in6_addr v6;
    if (!host_name(host, name))
        return false;
    if (strcmp(name, "localhost") == 0)
        return true;
    if (inet_pton(AF_INET, name, &v4) == 1)
        return !listener->is_loopback || ntohl(v4.s_addr) >> 24 == 127;
    if (inet_pton(AF_INET6, name, &v6) == 1)
        return !listener->is_loopback || IN6_IS_ADDR_LOOPBACK(&v6);
    for (size_t i = 0; i < listener->api->num_allow_hosts; i++) {
        if (strcasecmp(name, listener->api->allow_hosts[i]) == 0)
            return true;
    }
    if (gethostname(machine, sizeof machine - 1) != 0 || machine[0] == '\0')
        return false;
    size_t bytes = strlen(machine);
    return strcasecmp(name, machine) == 0 ||
           (strncasecmp(name, machine, bytes) == 0 && strcmp(name + bytes, ".local") == 0);
}

static bool host_is_admitted(struct mt_request *request)
{
    char shown[88];
    const char *host = mt_request_header(request, "Host");
    if (request->listener->is_unix)
        return true; /* no web page reaches a Unix socket */
    if (!host) {
        /* Fine in HTTP/1.0, which no browser speaks any more. */
        if (strcmp(request->version, MHD_HTTP_VERSION_1_0) == 0)
            return true;
        mt_problem(request, 400, "The header Host is missing.");
        return false;
    }
    if (host_is_ours(request->listener, host))
        return true;
    mt_problem(request, 421, "This server does not answer for the host '%s'; use localhost or its address.",
               mt_request_show(host, shown));
    return false;
}

static bool is_write(const struct mt_request *request)
{
    static const char *const reads[] = {"GET", "HEAD", "OPTIONS", NULL};
    for (size_t i = 0; reads[i]; i++) {
        if (strcmp(request->method, reads[i]) == 0)
            return false;
    }
    return true;
}

/* Browsers send Origin with every write that a page makes; it must be the page that we served. */
static bool origin_is_admitted(struct mt_request *request)
{
    const char *origin = mt_request_header(request, "Origin"), *host = mt_request_header(request, "Host");
    char shown[88];
    if (!origin || !is_write(request))
        return true;
    const char *authority = strncasecmp(origin, "http://", 7) == 0    ? origin + 7
                            : strncasecmp(origin, "https://", 8) == 0 ? origin + 8
                                                                      : NULL;
    if (authority && host && strcasecmp(authority, host) == 0)
        return true;
    mt_problem(request, 403, "A page from '%s' may not change anything here.",
               mt_request_show(origin, shown));
    return false;
}

/* In a time that does not depend on where the two differ, nor on the length of what was sent: the hashes are
 * compared, all of them. */
static bool token_is(const char *token, const char *sent)
{
    struct mt_sha256 hash;
    uint8_t wanted[32], given[32];
    unsigned difference = 0;
    mt_sha256_init(&hash);
    mt_sha256_update(&hash, token, strlen(token));
    mt_sha256_final(&hash, wanted);
    mt_sha256_init(&hash);
    mt_sha256_update(&hash, sent, strlen(sent));
    mt_sha256_final(&hash, given);
    for (size_t i = 0; i < sizeof wanted; i++)
        difference |= (unsigned)(wanted[i] ^ given[i]);
    return difference == 0;
}

static bool token_is_admitted(struct mt_request *request)
{
    const char *token = request->listener->api->token;
    if (!token || request->listener->is_unix)
        return true;
    const char *sent = mt_request_header(request, "Authorization");
    bool bearer = sent && strncasecmp(sent, "Bearer ", 7) == 0;
    if (bearer && token_is(token, sent + 7 + strspn(sent + 7, " ")))
        return true;
    mt_problem(request, 401,
               bearer ? "The bearer token is wrong."
                      : "This server needs a token: send 'Authorization: Bearer TOKEN'.");
    mt_reply_header(request, "WWW-Authenticate",
                    bearer ? "Bearer realm=\"megatrain\", error=\"invalid_token\""
                           : "Bearer realm=\"megatrain\"");
    return false;
}

bool mt_auth_admits(struct mt_request *request, bool open_to_all)
{
    return framing_is_plain(request) && host_is_admitted(request) && origin_is_admitted(request) &&
           (open_to_all || token_is_admitted(request));
}
