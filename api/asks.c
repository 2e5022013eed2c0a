/* asks.c: a thread a request. See asks.h.
 *
 * One lock guards the counts. A connection is suspended and resumed under it, so that it is never resumed
 * before it was suspended; libmicrohttpd's own lock is only ever taken inside it. */
#include "api/asks.h"

#include "api/problem.h"
#include "api/router.h"
#include "api/server.h"
#include "core/base/time.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#define RETRY_SECONDS "2"

/* Of one call: how many run at a time (each is a process, with a model's headers or some data in it), how
 * many run or wait, and how long one waits for its turn. Who submits is not to be turned away as long as all
 * goes well. */
static const struct bounds {
    size_t running, under_way;
    double turn_seconds;
} questions = {4, 32, 10}, submissions = {4, 256, 60}, alone = {1, 1, 0};

struct count {
    size_t running, under_way;
};

struct mt_asks {
    pthread_mutex_t lock;
    pthread_cond_t turn; /* one has ended */
    atomic_bool stopping;
    size_t under_way;     /* of all */
    struct count *counts; /* [routes] */
};

struct mt_asks *mt_asks_new(void)
{
    size_t num_routes;
    mt_routes(&num_routes);
    struct mt_asks *asks = calloc(1, sizeof *asks);
    struct count *counts = calloc(num_routes, sizeof *counts);
    if (!asks || !counts) {
        free(asks);
        free(counts);
        return NULL;
    }
    asks->counts = counts;
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&asks->lock, NULL);
    pthread_cond_init(&asks->turn, &attributes);
    pthread_condattr_destroy(&attributes);
    return asks;
}

void mt_asks_stop(struct mt_asks *asks)
{
    if (!asks)
        return;
    pthread_mutex_lock(&asks->lock);
    asks->stopping = true;
    pthread_cond_broadcast(&asks->turn);
    while (asks->under_way > 0)
        pthread_cond_wait(&asks->turn, &asks->lock);
    pthread_mutex_unlock(&asks->lock);
}

void mt_asks_free(struct mt_asks *asks)
{
    if (!asks)
        return;
    pthread_cond_destroy(&asks->turn);
    pthread_mutex_destroy(&asks->lock);
    free(asks->counts);
    free(asks);
}

static const struct bounds *bounds_of(const struct mt_request *request)
{
    if (request->route->alone)
        return &alone;
    return request->route->flags & MT_ROUTE_KEEPS ? &submissions : &questions;
}

static struct count *count_of(struct mt_asks *asks, const struct mt_request *request)
{
    size_t num_routes;
    return &asks->counts[request->route - mt_routes(&num_routes)];
}

/* A client that is gone is told nothing, so nothing need be found out, unless the call changes something. */
static bool is_gone(void *context)
{
    const struct mt_request *request = context;
    return request->listener->api->asks->stopping ||
           (!(request->route->flags & MT_ROUTE_KEEPS) && mt_watch_hung_up(request->watched));
}

struct mt_control_client mt_asks_client(struct mt_request *request)
{
    return (struct mt_control_client){.gone = is_gone, .context = request};
}

/* Waits, with the lock held, until the request may run; false when that takes too long. */
static bool wait_for_turn(struct mt_asks *asks, struct mt_request *request, const struct count *count)
{
    const struct bounds *bounds = bounds_of(request);
    const double deadline = mt_time_monotonic() + bounds->turn_seconds;
    while (count->running >= bounds->running) {
        if (mt_time_monotonic() > deadline || is_gone(request))
            return false;
        struct timespec until; /* soon, since nothing tells that a client went away */
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += 250000000L;
        until.tv_sec += until.tv_nsec / 1000000000L;
        until.tv_nsec %= 1000000000L;
        pthread_cond_timedwait(&asks->turn, &asks->lock, &until);
    }
    return true;
}

static void refuse(struct mt_request *request)
{
    static const char crowd[] = "Too many of these calls are under way, and they take long; try again.";
    mt_problem(request, 503, "%s", request->route->alone ? request->route->alone : crowd);
    mt_reply_header(request, "Retry-After", RETRY_SECONDS);
}

static void *run(void *context)
{
    struct mt_request *request = context;
    struct mt_asks *asks = request->listener->api->asks;
    struct count *count = count_of(asks, request);
    pthread_mutex_lock(&asks->lock); /* so it has been suspended */
    const bool turn = wait_for_turn(asks, request, count);
    count->running += turn;
    pthread_mutex_unlock(&asks->lock);
    if (turn)
        request->route->handler(request);
    else
        refuse(request);
    pthread_mutex_lock(&asks->lock);
    count->running -= turn;
    count->under_way--;
    asks->under_way--;
    pthread_cond_broadcast(&asks->turn);
    MHD_resume_connection(request->connection);
    pthread_mutex_unlock(&asks->lock);
    return NULL;
}

/* With the lock held. */
static bool start(struct mt_request *request)
{
    pthread_attr_t attributes;
    pthread_t thread;
    if (pthread_attr_init(&attributes) != 0)
        return false;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    const bool started = pthread_create(&thread, &attributes, run, request) == 0;
    pthread_attr_destroy(&attributes);
    return started;
}

bool mt_asks_take(struct mt_asks *asks, struct mt_request *request)
{
    struct count *count = count_of(asks, request);
    pthread_mutex_lock(&asks->lock);
    request->taken = true;
    const bool taken = !asks->stopping && count->under_way < bounds_of(request)->under_way && start(request);
    if (taken) {
        count->under_way++;
        asks->under_way++;
        MHD_suspend_connection(request->connection);
    }
    pthread_mutex_unlock(&asks->lock);
    if (!taken)
        refuse(request);
    return taken;
}
