/* The watch: one thread that looks after what libmicrohttpd does not.
 *
 * Deadlines. libmicrohttpd knows only a time-out for inactivity, which a slow drip of bytes beats. The watch
 * keeps the state of every connection and cuts those whose headers are not in within 10 s or whose body comes
 * at less than 1 KiB/s; a client that is cut gets a 408 where it can still be sent.
 *
 * Streams. An answer that waits for something new (a log that is followed) suspends its connection; the watch
 * asks each suspended stream a few times a second whether it has anything, notices clients that went away,
 * and resumes. Nothing is ever done for a client that does not read. */
#ifndef MT_API_WATCH_H
#define MT_API_WATCH_H

#include <microhttpd.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct mt_watch;
struct mt_watched; /* a connection */

/* NULL: out of memory or no thread. */
struct mt_watch *mt_watch_start(void);
/* Stops the thread and resumes every suspended stream, each of which then ends. The connections are still
 * served; to be called before the servers stop. */
void mt_watch_stop(struct mt_watch *watch);
/* Waits until no request is under way, at most so long. */
void mt_watch_drain(struct mt_watch *watch, double seconds);
void mt_watch_free(struct mt_watch *watch); /* when no connection is left */

/* From the callbacks of the server, in the order in which a connection meets them. */
struct mt_watched *mt_watch_connected(struct mt_watch *watch, int fd);
void mt_watch_request_line(struct mt_watched *watched);
void mt_watch_headers(struct mt_watched *watched, bool body_follows);
void mt_watch_body(struct mt_watched *watched, size_t bytes);
void mt_watch_body_done(struct mt_watched *watched);
void mt_watch_completed(struct mt_watched *watched);
void mt_watch_closed(struct mt_watched *watched);

/* Whether the client has closed its end; while the connection is suspended, which it does not notice. */
bool mt_watch_hung_up(const struct mt_watched *watched);

/* What a stream does. While the connection is suspended only `due` runs, in the watch's thread; at any other
 * time only `read` does, in the server's: the context needs no lock. */
struct mt_stream {
    void *context;
    /* Up to `capacity` bytes; 0: nothing yet, wait; -1: the end. */
    ssize_t (*read)(void *context, char *buffer, size_t capacity);
    /* Whether `read` would now have something, or the end. Asked about every 0.25 s. May read files. */
    bool (*due)(void *context);
    void (*free)(void *context);
};

/* More than so many at a time are refused, so that connections are left for everybody else. */
#define MT_STREAM_LIMIT 256

/* An answer of unknown length that waits as needed; takes the stream over, also when it fails: -EBUSY as many
 * as may be are under way, -ENOMEM. */
int mt_watch_stream(struct mt_watched *watched, struct MHD_Connection *connection,
                    const struct mt_stream *stream, struct MHD_Response **response);

#endif
