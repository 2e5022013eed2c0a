/* server.c: the HTTP server itself, on libmicrohttpd: one server a listener, each with a few epoll threads.
 *
 * A request meets the callbacks in this order: request_line, then `serve` once with the headers, once for
 * each piece of the body, and once more when all is in; then, with the answer sent or the connection lost,
 * request_completed. Nothing in them blocks longer than a database write:
 * what takes longer runs beside them, with the connection suspended (asks.h), and `serve` is called again. */
#include "api/server.h"

#include "api/listener.h"
#include "api/problem.h"
#include "api/request.h"
#include "api/router.h"
#include "core/base/cleanup.h"
#include "core/base/id.h"
#include "core/base/log.h"
#include "core/base/size.h"
#include "core/base/time.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#define THREADS_PER_LISTENER 4
#define CONNECTION_LIMIT 1024
#define CONNECTION_LIMIT_PER_ADDRESS 768
#define CONNECTION_MEMORY_BYTES ((size_t)32 << 10) /* bounds the headers, too */
#define INACTIVITY_SECONDS 60
#define STOP_SECONDS 2.0
/* A body that is refused is read to the end up to here, since a client that is still sending would otherwise
 * get a reset connection instead of the answer. */
#define DRAIN_BYTES ((size_t)64 << 20)
#define RESERVE_BYTES ((size_t)32 << 20)

bool mt_api_reserve(struct mt_api *api, size_t bytes)
{
    size_t before = atomic_load(&api->reserved_bytes), after;
    do {
        if (!mt_size_add(before, bytes, &after) || after > RESERVE_BYTES)
            return false;
    } while (!atomic_compare_exchange_weak(&api->reserved_bytes, &before, after));
    return true;
}

void mt_api_release(struct mt_api *api, size_t bytes)
{
    atomic_fetch_sub(&api->reserved_bytes, bytes);
}

/* ---- callbacks ---- */

static struct mt_watched *watched_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? info->socket_context : NULL;
}

/* A peer that lost power says no goodbye: the kernel asks after it. */
static void keep_alive(int fd)
{
    int on = 1, idle = 30, interval = 10, probes = 3;
    unsigned unacknowledged_ms = 60000;
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unacknowledged_ms, sizeof unacknowledged_ms);
}

static void connection_changed(void *context, struct MHD_Connection *connection, void **socket_context,
                               enum MHD_ConnectionNotificationCode what)
{
    struct mt_listener *listener = context;
    if (what == MHD_CONNECTION_NOTIFY_CLOSED) {
        if (*socket_context)
            mt_watch_closed(*socket_context);
        *socket_context = NULL;
        return;
    }
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    if (!listener->is_unix)
        keep_alive(info->connect_fd);
    *socket_context = mt_watch_connected(listener->api->watch, info->connect_fd);
}

/* What it returns becomes the request's context. */
static void *request_line(void *context, const char *target, struct MHD_Connection *connection)
{
    struct mt_watched *watched = watched_of(connection);
    struct mt_request *request = watched ? mt_request_new(context, target) : NULL;
    if (!request)
        return NULL;
    request->connection = connection;
    request->watched = watched;
    mt_watch_request_line(watched);
    return request;
}

static void request_completed(void *context, struct MHD_Connection *connection, void **request_context,
                              enum MHD_RequestTerminationCode how)
{
    (void)context;
    (void)connection;
    (void)how;
    struct mt_request *request = *request_context;
    if (!request)
        return;
    *request_context = NULL;
    mt_watch_completed(request->watched);
    mt_request_free(request);
}

/* Escapes are decoded by the router, segment by segment: decoded here, %2F would be a slash like any other.
 */
static size_t leave_escapes(void *context, struct MHD_Connection *connection, char *text)
{
    (void)context;
    (void)connection;
    return strlen(text);
}

static void log_server(void *context, const char *format, va_list arguments)
    __attribute__((format(printf, 2, 0)));

static void log_server(void *context, const char *format, va_list arguments)
{
    (void)context;
    char line[512];
    vsnprintf(line, sizeof line, format, arguments);
    line[strcspn(line, "\n")] = '\0';
    mt_log(LOG_DEBUG, "http: %s", line);
}

/* The client's own request id is kept when it is harmless in a header and a log. */
static void take_request_id(struct mt_request *request)
{
    static const char good[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.:";
    const char *sent = mt_request_header(request, "X-Request-Id");
    if (sent && *sent && strlen(sent) < MT_REQUEST_ID_BYTES && sent[strspn(sent, good)] == '\0') {
        strcpy(request->id, sent);
        return;
    }
    mt_id_new(request->id);
}

/* The length that Content-Length promises; 0 without one. */
static size_t promised_bytes(const struct mt_request *request)
{
    const char *text = mt_request_header(request, "Content-Length");
    return text ? (size_t)strtoull(text, NULL, 10) : 0;
}

static bool takes_body(const struct mt_request *request)
{
    return request->route && (request->route->flags & (MT_ROUTE_BODY | MT_ROUTE_NO_BODY));
}

static void refuse_size(struct mt_request *request)
{
    mt_problem(request, 413, "The body is larger than %zu bytes.", MT_BODY_LIMIT_BYTES);
}

static enum MHD_Result send_answer(struct mt_request *request)
{
    if (!request->response) {
        mt_log(LOG_ERR, "request %s: %s %s: no memory for the answer", request->id, request->method,
               request->path);
        return MHD_NO;
    }
    double seconds = mt_time_monotonic() - request->started;
    mt_durations_observe(request->listener->api->durations,
                         request->route ? request->route->pattern : "other", request->method, request->status,
                         seconds);
    mt_log(LOG_DEBUG, "%s %s %s %u %.1f ms", request->id, request->method, request->path, request->status,
           seconds * 1e3);
    request->queued = true;
    mt_watch_body_done(request->watched);
    return MHD_queue_response(request->connection, request->status, request->response);
}

/* The headers are in. */
static enum MHD_Result begin(struct mt_request *request)
{
    request->started = mt_time_monotonic();
    take_request_id(request);
    size_t promised = promised_bytes(request);
    const char *encoding = mt_request_header(request, "Transfer-Encoding");
    bool chunked = encoding != NULL;
    mt_router_admit(request);
    bool framed = mt_request_header_count(request, "Content-Length") <= 1 && !(chunked && promised > 0) &&
                  (!chunked || strcasecmp(encoding, "chunked") == 0);
    if (!request->response && takes_body(request) && promised > MT_BODY_LIMIT_BYTES)
        refuse_size(request);
    mt_watch_headers(request->watched, promised > 0 || chunked);
    /* An answer at this point closes the connection. It is right where the client waits for our go-ahead
     * before it sends the body, where there is too much to drain, and where we do not know what follows. */
    bool waits = mt_request_header(request, "Expect") != NULL;
    if (request->response && (promised > DRAIN_BYTES || !framed || (waits && (promised > 0 || chunked))))
        return send_answer(request);
    return MHD_YES;
}

static enum MHD_Result take_body(struct mt_request *request, const char *data, size_t bytes)
{
    mt_watch_body(request->watched, bytes);
    request->received_bytes += bytes;
    if (request->received_bytes > DRAIN_BYTES)
        return MHD_NO;
    if (request->response || !takes_body(request))
        return MHD_YES;
    if (request->received_bytes > MT_BODY_LIMIT_BYTES) {
        refuse_size(request);
        return MHD_YES;
    }
    if (request->received_bytes + 1 > request->body_capacity) {
        size_t capacity = mt_size_max(request->received_bytes + 1, request->body_capacity * 2);
        if (!mt_api_reserve(request->listener->api, capacity - request->body_capacity)) {
            mt_problem(request, 503, "Too many requests with a body are under way; try again.");
            mt_reply_header(request, "Retry-After", "1");
            return MHD_YES;
        }
        request->reserved_bytes += capacity - request->body_capacity;
        char *grown = realloc(request->body, capacity);
        if (!grown)
            return MHD_NO;
        request->body = grown;
        request->body_capacity = capacity;
    }
    memcpy(request->body + request->body_bytes, data, bytes);
    request->body_bytes += bytes;
    request->body[request->body_bytes] = '\0';
    return MHD_YES;
}

static enum MHD_Result serve(void *context, struct MHD_Connection *connection, const char *path,
                             const char *method, const char *version, const char *data, size_t *bytes,
                             void **request_context)
{
    (void)context;
    (void)connection;
    (void)path;
    struct mt_request *request = *request_context;
    if (!request)
        return MHD_NO;
    if (request->started == 0) {
        request->method = method;
        request->version = version;
        return begin(request);
    }
    if (*bytes > 0) {
        enum MHD_Result result = take_body(request, data, *bytes);
        *bytes = 0;
        return result;
    }
    if (request->queued)
        return MHD_YES;
    mt_watch_body_done(request->watched);
    if (!request->response && !request->taken && !mt_router_dispatch(request))
        return MHD_YES;
    return send_answer(request);
}

/* ---- start and stop ---- */

static struct MHD_Daemon *start_server(struct mt_listener *listener)
{
    unsigned flags =
        MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_ITC | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG;
    return MHD_start_daemon(
        flags, 0, NULL, NULL, serve, listener, MHD_OPTION_EXTERNAL_LOGGER, log_server, NULL,
        MHD_OPTION_LISTEN_SOCKET, listener->fd, MHD_OPTION_THREAD_POOL_SIZE, (unsigned)THREADS_PER_LISTENER,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTION_LIMIT, MHD_OPTION_PER_IP_CONNECTION_LIMIT,
        (unsigned)CONNECTION_LIMIT_PER_ADDRESS, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)INACTIVITY_SECONDS,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, CONNECTION_MEMORY_BYTES, MHD_OPTION_NOTIFY_CONNECTION,
        connection_changed, listener, MHD_OPTION_URI_LOG_CALLBACK, request_line, listener,
        MHD_OPTION_NOTIFY_COMPLETED, request_completed, listener, MHD_OPTION_UNESCAPE_CALLBACK, leave_escapes,
        NULL, MHD_OPTION_END);
}

static void declare_durations(struct mt_api *api)
{
    size_t count;
    const struct mt_route *routes = mt_routes(&count);
    for (size_t i = 0; i < count; i++) {
        if (!(routes[i].flags & MT_ROUTE_NOT_BUILT))
            mt_durations_declare(api->durations, routes[i].pattern, routes[i].method,
                                 routes[i].answers[0].status);
    }
}

static int copy_options(struct mt_api *api, const struct mt_api_options *options, struct mt_error *error)
{
    api->version = strdup(options->version);
    api->token = options->token ? strdup(options->token) : NULL;
    api->listeners = calloc(options->num_listen, sizeof *api->listeners);
    api->addresses = calloc(options->num_listen, sizeof *api->addresses);
    api->allow_hosts = calloc(options->num_allow_hosts + 1, sizeof *api->allow_hosts);
    api->watch = mt_watch_start();
    api->asks = mt_asks_new();
    api->durations = mt_durations_new();
    bool whole = api->version && (api->token || !options->token) && api->listeners && api->addresses &&
                 api->allow_hosts && api->watch && api->asks && api->durations;
    for (size_t i = 0; whole && i < options->num_allow_hosts; i++) {
        api->allow_hosts[i] = strdup(options->allow_hosts[i]);
        whole = api->allow_hosts[i] != NULL;
        api->num_allow_hosts += whole;
    }
    return whole ? 0 : mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory for the HTTP server");
}

int mt_api_start(const struct mt_control *control, const struct mt_api_options *options, struct mt_api **api,
                 struct mt_error *error)
{
    *api = NULL;
    if (options->num_listen == 0)
        return mt_error_set(error, -EINVAL, MT_REASON_USAGE, "there is no address to listen on");
    if (options->token && !*options->token)
        return mt_error_set(error, -EINVAL, MT_REASON_USAGE, "the bearer token is empty");
    struct mt_api *made = calloc(1, sizeof *made);
    if (!made)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory for the HTTP server");
    made->control = control;
    int result = copy_options(made, options, error);
    for (size_t i = 0; result == 0 && i < options->num_listen; i++) {
        struct mt_listener *listener = &made->listeners[i];
        listener->api = made;
        result = mt_listener_open(listener, options->listen[i], options->token != NULL, error);
        if (result == 0) {
            made->addresses[i] = listener->address;
            made->num_listeners++;
        }
    }
    if (result == 0)
        declare_durations(made);
    /* All sockets first: an address in use is found before anything is served. */
    for (size_t i = 0; result == 0 && i < made->num_listeners; i++) {
        made->listeners[i].daemon = start_server(&made->listeners[i]);
        if (!made->listeners[i].daemon)
            result = mt_error_set(error, -ENOMEM, MT_REASON_INTERNAL, "cannot start the HTTP server on '%s'",
                                  made->listeners[i].address);
    }
    if (result < 0) {
        mt_api_stop(made);
        return result;
    }
    *api = made;
    return 0;
}

size_t mt_api_addresses(const struct mt_api *api, const char *const **addresses)
{
    *addresses = api->addresses;
    return api->num_listeners;
}

void mt_api_stop(struct mt_api *api)
{
    if (!api)
        return;
    for (size_t i = 0; i < api->num_listeners; i++) {
        if (api->listeners[i].daemon)
            MHD_quiesce_daemon(api->listeners[i].daemon);
    }
    if (api->watch) {
        /* Suspended connections must be resumed first: libmicrohttpd panics over those it finds. */
        mt_asks_stop(api->asks);
        mt_watch_stop(api->watch);
        mt_watch_drain(api->watch, STOP_SECONDS);
    }
    for (size_t i = 0; i < api->num_listeners; i++) {
        if (api->listeners[i].daemon)
            MHD_stop_daemon(api->listeners[i].daemon);
        mt_listener_close(&api->listeners[i]);
    }
    mt_watch_free(api->watch);
    mt_asks_free(api->asks);
    mt_durations_free(api->durations);
    for (size_t i = 0; i < api->num_allow_hosts; i++)
        free(api->allow_hosts[i]);
    free(api->allow_hosts);
    free(api->listeners);
    free(api->addresses);
    free(api->version);
    if (api->token)
        explicit_bzero(api->token, strlen(api->token));
    free(api->token);
    free(api);
}
