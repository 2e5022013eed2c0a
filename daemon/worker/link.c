/* link.c: a reader thread that waits on the socket, on signals and on its own end; a sender that never
 * blocks.
 *
 * SIGTERM and SIGINT are caught, not blocked: libraries start threads of their own before main (OpenBLAS
 * does), and a blocked signal that such a thread does not block would end the process unsaved. */
#include "daemon/worker/link.h"

#include "core/base/cleanup.h"
#include "core/base/time.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#define LINE_BYTES ((size_t)64 << 10)
#define KEPT_BYTES ((size_t)1 << 20)

struct mt_link {
    int fd, end;
    pthread_t reader;
    bool reading;
    atomic_bool cancel, pause, stop, checkpoint;
    pthread_mutex_t sending;
    char *kept; /* bytes not sent yet */
    size_t kept_bytes;
};

static int stop_fd = -1; /* eventfd that the signals' handler writes to; one link a process */

static void on_stop(int signal_number)
{
    (void)signal_number;
    int saved = errno;
    ssize_t put = write(stop_fd, &(uint64_t){1}, sizeof(uint64_t));
    (void)put; /* full: it was told already */
    errno = saved;
}

static int catch_stops(struct mt_error *error)
{
    struct sigaction action = {.sa_handler = on_stop, .sa_flags = SA_RESTART};
    stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (stop_fd < 0 || sigaction(SIGTERM, &action, NULL) != 0 || sigaction(SIGINT, &action, NULL) != 0)
        return mt_error_set_errno(error, MT_REASON_INTERNAL, "cannot wait for signals");
    return 0;
}

static void take_line(struct mt_link *link, const char *line, size_t length)
{
    mt_autojson json_t *message = json_loadb(line, length, 0, NULL);
    const char *type = json_string_value(json_object_get(message, "type"));
    if (!type)
        return;
    if (strcmp(type, "cancel") == 0)
        atomic_store(&link->cancel, true);
    else if (strcmp(type, "pause") == 0)
        atomic_store(&link->pause, true);
    else if (strcmp(type, "checkpoint") == 0)
        atomic_store(&link->checkpoint, true);
}

/* Reads what is there; false when the daemon's end is closed. */
static bool read_lines(struct mt_link *link, char *buffer, size_t *held)
{
    ssize_t got = recv(link->fd, buffer + *held, LINE_BYTES - *held, MSG_DONTWAIT);
    if (got == 0)
        return false;
    if (got < 0)
        return errno == EAGAIN || errno == EINTR;
    *held += (size_t)got;
    char *newline;
    while ((newline = memchr(buffer, '\n', *held))) {
        size_t length = (size_t)(newline - buffer);
        take_line(link, buffer, length);
        *held -= length + 1;
        memmove(buffer, newline + 1, *held);
    }
    if (*held == LINE_BYTES)
        *held = 0; /* a line longer than the protocol allows: not from our daemon */
    return true;
}

static void *reader_main(void *context)
{
    struct mt_link *link = context;
    mt_autofree char *buffer = malloc(LINE_BYTES);
    size_t held = 0;
    bool open = link->fd >= 0 && buffer;
    for (;;) {
        struct pollfd wait[3] = {{.fd = link->end, .events = POLLIN},
                                 {.fd = stop_fd, .events = POLLIN},
                                 {.fd = open ? link->fd : -1, .events = POLLIN}};
        if (poll(wait, 3, -1) < 0)
            continue;
        if (wait[0].revents)
            return NULL;
        uint64_t count;
        if (wait[1].revents && read(stop_fd, &count, sizeof count) == (ssize_t)sizeof count)
            atomic_store(&link->stop, true);
        if (wait[2].revents && !read_lines(link, buffer, &held)) {
            open = false;
            atomic_store(&link->stop, true);
        }
    }
}

int mt_link_open(int fd, struct mt_link **link, struct mt_error *error)
{
    *link = NULL;
    struct mt_link *opened = calloc(1, sizeof *opened);
    if (!opened)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory for the link to the daemon");
    opened->fd = fd;
    pthread_mutex_init(&opened->sending, NULL);
    opened->end = eventfd(0, EFD_CLOEXEC);
    int result = catch_stops(error);
    if (result == 0 && opened->end < 0)
        result = mt_error_set_errno(error, MT_REASON_INTERNAL, "cannot wait for the end of the link");
    else if (result == 0 && fd >= 0 && fcntl(fd, F_SETFD, FD_CLOEXEC) != 0)
        result = mt_error_set_errno(error, MT_REASON_USAGE, "descriptor %d is not the daemon's socket", fd);
    else if (result == 0 && pthread_create(&opened->reader, NULL, reader_main, opened) != 0)
        result = mt_error_set(error, -EAGAIN, MT_REASON_OUT_OF_MEMORY,
                              "cannot start a thread for the daemon's requests");
    else
        opened->reading = result == 0;
    if (result < 0) {
        mt_link_close(opened);
        return result;
    }
    *link = opened;
    return 0;
}

void mt_link_close(struct mt_link *link)
{
    if (!link)
        return;
    if (link->reading) {
        uint64_t one = 1;
        while (write(link->end, &one, sizeof one) < 0 && errno == EINTR) {
        }
        pthread_join(link->reader, NULL);
    }
    if (link->end >= 0)
        close(link->end);
    if (link->fd >= 0)
        close(link->fd);
    pthread_mutex_destroy(&link->sending);
    free(link->kept);
    free(link);
}

/* Sends what is kept as far as the socket takes it; a daemon that is gone takes nothing more. */
static void send_kept(struct mt_link *link)
{
    size_t sent = 0;
    while (sent < link->kept_bytes) {
        ssize_t put = send(link->fd, link->kept + sent, link->kept_bytes - sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0 && errno != EAGAIN)
            sent = link->kept_bytes;
        if (put < 0)
            break;
        sent += (size_t)put;
    }
    link->kept_bytes -= sent;
    memmove(link->kept, link->kept + sent, link->kept_bytes);
}

void mt_link_send(struct mt_link *link, json_t *message, bool must)
{
    mt_autojson json_t *owned = message;
    if (!link || link->fd < 0)
        return;
    mt_autofree char *text = owned ? json_dumps(owned, JSON_COMPACT) : NULL;
    if (!text)
        return;
    size_t length = strlen(text);
    pthread_mutex_lock(&link->sending);
    if (!link->kept)
        link->kept = malloc(KEPT_BYTES);
    if (link->kept) {
        send_kept(link);
        bool fits = link->kept_bytes + length + 1 <= KEPT_BYTES;
        if (fits && length < LINE_BYTES && (must || link->kept_bytes == 0)) {
            memcpy(link->kept + link->kept_bytes, text, length);
            link->kept[link->kept_bytes + length] = '\n';
            link->kept_bytes += length + 1;
            send_kept(link);
        }
    }
    pthread_mutex_unlock(&link->sending);
}

void mt_link_flush(struct mt_link *link, double seconds)
{
    if (!link || link->fd < 0)
        return;
    double deadline = mt_time_monotonic() + seconds;
    for (;;) {
        pthread_mutex_lock(&link->sending);
        send_kept(link);
        size_t left = link->kept_bytes;
        pthread_mutex_unlock(&link->sending);
        double remaining = deadline - mt_time_monotonic();
        if (left == 0 || remaining <= 0)
            return;
        struct pollfd wait = {.fd = link->fd, .events = POLLOUT};
        poll(&wait, 1, (int)(remaining * 1000) + 1);
    }
}

enum mt_link_request mt_link_poll(struct mt_link *link)
{
    if (atomic_load(&link->cancel))
        return MT_LINK_CANCEL;
    if (atomic_load(&link->pause))
        return MT_LINK_PAUSE;
    if (atomic_load(&link->stop))
        return MT_LINK_STOP;
    return atomic_exchange(&link->checkpoint, false) ? MT_LINK_CHECKPOINT : MT_LINK_NOTHING;
}
