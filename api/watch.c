/* watch.c: deadlines of connections, and the streams that wait. See watch.h.
 *
 * One lock guards the lists and the states. libmicrohttpd's own lock is only ever taken inside it (suspend,
 * resume), never the other way round. A socket is touched under the lock and only until its close callback,
 * which comes before libmicrohttpd closes the descriptor, so a number is never cut that belongs to another
 * connection by then. */
#include "api/watch.h"

#include "core/base/time.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#define HEADER_SECONDS 10.0
#define BODY_GRACE_SECONDS 10.0
#define BODY_BYTES_PER_SECOND 1024.0
#define IDLE_SECONDS 60.0
#define BUSY_SECONDS 60.0
#define TICK_SECONDS 1.0
#define STREAM_TICK_SECONDS 0.25
#define STREAM_BLOCK_BYTES 16384

enum phase {
    PHASE_HEADERS, /* from the connect or the request line to the end of the headers */
    PHASE_BODY,
    PHASE_ANSWER, /* libmicrohttpd's time-out for inactivity rules here */
    PHASE_IDLE,   /* between two requests */
    PHASE_CUT,
};

struct mt_watched {
    struct mt_watch *watch;
    struct mt_watched *next, *previous;
    int fd;
    enum phase phase;
    double since;
    bool suspected; /* it was late at the last look */
    size_t body_bytes;
};

struct waiting {
    struct mt_watch *watch;
    struct waiting *next, *previous;
    struct MHD_Connection *connection;
    int fd;
    struct mt_stream stream;
    bool suspended;
    bool gone; /* the client went away */
};

struct mt_watch {
    pthread_mutex_t lock;
    pthread_cond_t wake;    /* something to watch, or stopping */
    pthread_cond_t settled; /* a request completed */
    pthread_t thread;
    bool stopping;
    bool joined;
    struct mt_watched *connections;
    struct waiting *streams;
    size_t num_streams;
    size_t num_requests; /* under way */
};

#define LATE_BODY                                                                                            \
    "{\"type\":\"urn:megatrain:problem:timeout\",\"title\":\"Request Timeout\",\"status\":408,"              \
    "\"detail\":\"The request came too slowly: headers must be in within 10 s, a body at 1 KiB/s or "        \
    "more.\"}\n"

static void send_late(int fd)
{
    char answer[512];
    int bytes = snprintf(answer, sizeof answer,
                         "HTTP/1.1 408 Request Timeout\r\nContent-Type: application/problem+json\r\n"
                         "Content-Length: %zu\r\nConnection: close\r\n\r\n%s",
                         sizeof LATE_BODY - 1, LATE_BODY);
    (void)!send(fd, answer, (size_t)bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void cut(struct mt_watched *watched)
{
    /* Before the answer's phase libmicrohttpd writes nothing, so this cannot land in the middle of one. */
    if (watched->phase == PHASE_HEADERS || watched->phase == PHASE_BODY)
        send_late(watched->fd);
    shutdown(watched->fd, SHUT_RDWR);
    watched->phase = PHASE_CUT;
}

/* Whether the client has sent what the server has not read: then it is the server that is late, whose threads
 * are busy or which slept. That excuse ends, too. */
static bool unread(const struct mt_watched *watched, double passed)
{
    int bytes = 0;
    return passed < BUSY_SECONDS && ioctl(watched->fd, FIONREAD, &bytes) == 0 && bytes > 0;
}

static bool late(const struct mt_watched *watched, double now)
{
    double passed = now - watched->since;
    switch (watched->phase) {
    case PHASE_HEADERS:
        return passed > HEADER_SECONDS && !unread(watched, passed);
    case PHASE_BODY:
        return passed > BODY_GRACE_SECONDS + (double)watched->body_bytes / BODY_BYTES_PER_SECOND &&
               !unread(watched, passed - (double)watched->body_bytes / BODY_BYTES_PER_SECOND);
    case PHASE_IDLE:
        return passed > IDLE_SECONDS;
    case PHASE_ANSWER:
    case PHASE_CUT:
        break;
    }
    return false;
}

/* What has been read may not have been looked at yet, so that a client is late only when it is so twice. */
static void judge(struct mt_watched *watched, double now)
{
    const bool is_late = late(watched, now);
    if (is_late && watched->suspected)
        cut(watched);
    watched->suspected = is_late;
}

static bool hung_up(int fd)
{
    struct pollfd poll_fd = {.fd = fd, .events = POLLRDHUP};
    return poll(&poll_fd, 1, 0) > 0 && (poll_fd.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL));
}

bool mt_watch_hung_up(const struct mt_watched *watched)
{
    return hung_up(watched->fd);
}

/* Asks every suspended stream. Called with the lock held, which is given up while a stream thinks: a
 * suspended one cannot go away, since this thread alone resumes. */
static void serve_streams(struct mt_watch *watch)
{
    size_t count = 0;
    struct waiting **asked = malloc(watch->num_streams * sizeof(struct waiting *));
    if (!asked)
        return; /* asked again at the next tick */
    for (struct waiting *stream = watch->streams; stream; stream = stream->next) {
        if (stream->suspended)
            asked[count++] = stream;
    }
    pthread_mutex_unlock(&watch->lock);
    for (size_t i = 0; i < count; i++) {
        asked[i]->gone = hung_up(asked[i]->fd);
        if (!asked[i]->gone && !asked[i]->stream.due(asked[i]->stream.context))
            asked[i] = NULL;
    }
    pthread_mutex_lock(&watch->lock);
    for (size_t i = 0; i < count; i++) {
        if (asked[i]) {
            asked[i]->suspended = false;
            MHD_resume_connection(asked[i]->connection);
        }
    }
    free(asked);
}

static void *watch_run(void *argument)
{
    struct mt_watch *watch = argument;
    pthread_mutex_lock(&watch->lock);
    while (!watch->stopping) {
        if (!watch->connections) {
            pthread_cond_wait(&watch->wake, &watch->lock); /* an idle daemon does not wake at all */
            continue;
        }
        double now = mt_time_monotonic();
        for (struct mt_watched *watched = watch->connections; watched; watched = watched->next)
            judge(watched, now);
        if (watch->num_streams > 0)
            serve_streams(watch);
        if (watch->stopping)
            break;
        double pause = watch->num_streams > 0 ? STREAM_TICK_SECONDS : TICK_SECONDS;
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        long nanoseconds = until.tv_nsec + (long)(pause * 1e9);
        until.tv_sec += nanoseconds / 1000000000L;
        until.tv_nsec = nanoseconds % 1000000000L;
        pthread_cond_timedwait(&watch->wake, &watch->lock, &until);
    }
    pthread_mutex_unlock(&watch->lock);
    return NULL;
}

struct mt_watch *mt_watch_start(void)
{
    struct mt_watch *watch = calloc(1, sizeof *watch);
    if (!watch)
        return NULL;
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&watch->lock, NULL);
    pthread_cond_init(&watch->wake, &attributes);
    pthread_cond_init(&watch->settled, &attributes);
    pthread_condattr_destroy(&attributes);
    if (pthread_create(&watch->thread, NULL, watch_run, watch) != 0) {
        watch->joined = true;
        mt_watch_free(watch);
        return NULL;
    }
    return watch;
}

void mt_watch_stop(struct mt_watch *watch)
{
    pthread_mutex_lock(&watch->lock);
    watch->stopping = true; /* from here on no stream suspends */
    pthread_cond_broadcast(&watch->wake);
    pthread_mutex_unlock(&watch->lock);
    pthread_join(watch->thread, NULL);
    watch->joined = true;
    pthread_mutex_lock(&watch->lock);
    for (struct waiting *stream = watch->streams; stream; stream = stream->next) {
        if (stream->suspended) {
            stream->suspended = false;
            MHD_resume_connection(stream->connection);
        }
    }
    pthread_mutex_unlock(&watch->lock);
}

void mt_watch_drain(struct mt_watch *watch, double seconds)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    long nanoseconds = until.tv_nsec + (long)(seconds * 1e9);
    until.tv_sec += nanoseconds / 1000000000L;
    until.tv_nsec = nanoseconds % 1000000000L;
    pthread_mutex_lock(&watch->lock);
    while (watch->num_requests > 0) {
        if (pthread_cond_timedwait(&watch->settled, &watch->lock, &until) != 0)
            break;
    }
    pthread_mutex_unlock(&watch->lock);
}

void mt_watch_free(struct mt_watch *watch)
{
    if (!watch)
        return;
    if (!watch->joined)
        mt_watch_stop(watch);
    pthread_cond_destroy(&watch->wake);
    pthread_cond_destroy(&watch->settled);
    pthread_mutex_destroy(&watch->lock);
    free(watch);
}

struct mt_watched *mt_watch_connected(struct mt_watch *watch, int fd)
{
    struct mt_watched *watched = calloc(1, sizeof *watched);
    if (!watched)
        return NULL;
    *watched = (struct mt_watched){.watch = watch, .fd = fd, .since = mt_time_monotonic()};
    pthread_mutex_lock(&watch->lock);
    if (!watch->connections)
        pthread_cond_signal(&watch->wake);
    watched->next = watch->connections;
    if (watch->connections)
        watch->connections->previous = watched;
    watch->connections = watched;
    pthread_mutex_unlock(&watch->lock);
    return watched;
}

void mt_watch_request_line(struct mt_watched *watched)
{
    pthread_mutex_lock(&watched->watch->lock);
    watched->watch->num_requests++;
    if (watched->phase == PHASE_IDLE) {
        watched->phase = PHASE_HEADERS;
        watched->since = mt_time_monotonic();
        watched->suspected = false;
    }
    pthread_mutex_unlock(&watched->watch->lock);
}

static void enter(struct mt_watched *watched, enum phase phase)
{
    pthread_mutex_lock(&watched->watch->lock);
    if (watched->phase != PHASE_CUT) {
        watched->phase = phase;
        watched->since = mt_time_monotonic();
        watched->suspected = false;
    }
    pthread_mutex_unlock(&watched->watch->lock);
}

void mt_watch_headers(struct mt_watched *watched, bool body_follows)
{
    watched->body_bytes = 0;
    enter(watched, body_follows ? PHASE_BODY : PHASE_ANSWER);
}

void mt_watch_body(struct mt_watched *watched, size_t bytes)
{
    pthread_mutex_lock(&watched->watch->lock);
    watched->body_bytes += bytes;
    pthread_mutex_unlock(&watched->watch->lock);
}

void mt_watch_body_done(struct mt_watched *watched)
{
    enter(watched, PHASE_ANSWER);
}

void mt_watch_completed(struct mt_watched *watched)
{
    enter(watched, PHASE_IDLE);
    pthread_mutex_lock(&watched->watch->lock);
    watched->watch->num_requests--;
    pthread_cond_broadcast(&watched->watch->settled);
    pthread_mutex_unlock(&watched->watch->lock);
}

void mt_watch_closed(struct mt_watched *watched)
{
    struct mt_watch *watch = watched->watch;
    pthread_mutex_lock(&watch->lock);
    if (watched->previous)
        watched->previous->next = watched->next;
    else
        watch->connections = watched->next;
    if (watched->next)
        watched->next->previous = watched->previous;
    pthread_mutex_unlock(&watch->lock);
    free(watched);
}

static ssize_t stream_read(void *context, uint64_t position, char *buffer, size_t capacity)
{
    (void)position;
    struct waiting *waiting = context;
    struct mt_watch *watch = waiting->watch;
    /* Not END_WITH_ERROR: after that libmicrohttpd 0.9.75 closes the connection but looks at it again, and
     * frees it, only much later. The end of the answer runs into the closed socket at once. */
    if (waiting->gone)
        return MHD_CONTENT_READER_END_OF_STREAM;
    ssize_t bytes = waiting->stream.read(waiting->stream.context, buffer, capacity);
    if (bytes > 0)
        return bytes;
    if (bytes < 0)
        return MHD_CONTENT_READER_END_OF_STREAM;
    /* Nothing yet. A reader that answers 0 without suspending would be asked again at once, for ever. */
    pthread_mutex_lock(&watch->lock);
    bool stopping = watch->stopping;
    if (!stopping) {
        waiting->suspended = true;
        MHD_suspend_connection(waiting->connection);
    }
    pthread_mutex_unlock(&watch->lock);
    return stopping ? MHD_CONTENT_READER_END_OF_STREAM : 0;
}

static void stream_free(void *context)
{
    struct waiting *waiting = context;
    struct mt_watch *watch = waiting->watch;
    pthread_mutex_lock(&watch->lock);
    if (waiting->previous)
        waiting->previous->next = waiting->next;
    else
        watch->streams = waiting->next;
    if (waiting->next)
        waiting->next->previous = waiting->previous;
    watch->num_streams--;
    pthread_mutex_unlock(&watch->lock);
    waiting->stream.free(waiting->stream.context);
    free(waiting);
}

/* Lists a stream, unless there are as many as may be. */
static bool stream_list(struct waiting *waiting)
{
    struct mt_watch *watch = waiting->watch;
    pthread_mutex_lock(&watch->lock);
    const bool room = watch->num_streams < MT_STREAM_LIMIT;
    if (room) {
        waiting->next = watch->streams;
        if (watch->streams)
            watch->streams->previous = waiting;
        watch->streams = waiting;
        if (watch->num_streams++ == 0)
            pthread_cond_signal(&watch->wake); /* from now on it ticks faster */
    }
    pthread_mutex_unlock(&watch->lock);
    return room;
}

int mt_watch_stream(struct mt_watched *watched, struct MHD_Connection *connection,
                    const struct mt_stream *stream, struct MHD_Response **response)
{
    struct waiting *waiting = calloc(1, sizeof *waiting);
    *response = NULL;
    if (!waiting) {
        stream->free(stream->context);
        return -ENOMEM;
    }
    *waiting = (struct waiting){
        .watch = watched->watch, .connection = connection, .fd = watched->fd, .stream = *stream};
    if (!stream_list(waiting)) {
        stream->free(stream->context);
        free(waiting);
        return -EBUSY;
    }
    *response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, STREAM_BLOCK_BYTES, stream_read, waiting,
                                                  stream_free);
    if (!*response)
        stream_free(waiting);
    return *response ? 0 : -ENOMEM;
}
