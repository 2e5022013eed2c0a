/* listener.c: opening and closing the sockets. See listener.h. */
#include "api/listener.h"

#include "core/base/cleanup.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#define BACKLOG 512

static int usage(struct mt_error *error, const char *text, const char *what)
{
    return mt_error_set(
        error, -EINVAL, MT_REASON_USAGE,
        "cannot listen on '%s': %s. Write ADDRESS:PORT (127.0.0.1:8642, [::1]:8642) or unix:PATH.", text,
        what);
}

/* Splits "host:port" and "[host]:port". */
static bool split_address(const char *text, char host[64], const char **port)
{
    const char *from = text, *to = strrchr(text, ':');
    if (!to || to[1] == '\0')
        return false;
    *port = to + 1;
    if (*from == '[') {
        from++;
        if (to[-1] != ']')
            return false;
        to--;
    } else if (memchr(from, ':', (size_t)(to - from))) {
        return false; /* an IPv6 address without brackets */
    }
    if (to == from || to - from >= 64)
        return false;
    memcpy(host, from, (size_t)(to - from));
    host[to - from] = '\0';
    return true;
}

static bool is_loopback(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr) >> 24 == 127;
    return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)address)->sin6_addr);
}

static char *tcp_url(int fd)
{
    struct sockaddr_storage address = {0};
    socklen_t bytes = sizeof address;
    char host[NI_MAXHOST], port[NI_MAXSERV], *url = NULL;
    if (getsockname(fd, (struct sockaddr *)&address, &bytes) != 0 ||
        getnameinfo((struct sockaddr *)&address, bytes, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        return NULL;
    if (asprintf(&url, address.ss_family == AF_INET6 ? "http://[%s]:%s" : "http://%s:%s", host, port) < 0)
        return NULL;
    return url;
}

static int open_tcp(struct mt_listener *listener, const char *text, bool have_token, struct mt_error *error)
{
    char host[64];
    const char *port;
    if (!split_address(text, host, &port))
        return usage(error, text, "it is not an address with a port");
    char *end;
    unsigned long number = strtoul(port, &end, 10);
    if (*port < '0' || *port > '9' || *end || number > 65535)
        return usage(error, text, "the port must be a number from 0 to 65535");
    struct addrinfo hints = {.ai_flags = AI_PASSIVE | AI_NUMERICHOST | AI_NUMERICSERV,
                             .ai_socktype = SOCK_STREAM},
                    *found = NULL;
    if (getaddrinfo(strcmp(host, "localhost") == 0 ? "127.0.0.1" : host, port, &hints, &found) != 0 || !found)
        return usage(error, text, "it names no IP address");

    int result = 0, one = 1;
    listener->is_loopback = is_loopback(found->ai_addr);
    if (!listener->is_loopback && !have_token) {
        freeaddrinfo(found);
        return mt_error_set(error, -EINVAL, MT_REASON_USAGE,
                            "listening on '%s' opens the daemon to the network, which needs a bearer token: "
                            "give one with --token-file, or listen on 127.0.0.1",
                            text);
    }
    listener->fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (listener->fd >= 0) {
        setsockopt(listener->fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
        if (found->ai_family == AF_INET6)
            setsockopt(listener->fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one);
    }
    if (listener->fd < 0 || bind(listener->fd, found->ai_addr, found->ai_addrlen) != 0 ||
        listen(listener->fd, BACKLOG) != 0) {
        result = errno == EADDRINUSE ? -EADDRINUSE : -EINVAL;
        mt_error_set(error, result, MT_REASON_USAGE, "cannot listen on '%s': %s%s", text, strerror(errno),
                     errno == EADDRINUSE ? "; stop the program that has it, or take another port (--listen)"
                                         : "");
    }
    freeaddrinfo(found);
    if (result == 0 && !(listener->address = tcp_url(listener->fd)))
        result = mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory to listen on '%s'", text);
    return result;
}

/* A socket file is stale when nobody accepts on it. */
static int remove_stale(const struct sockaddr_un *address, const char *text, struct mt_error *error)
{
    struct stat status;
    if (lstat(address->sun_path, &status) != 0)
        return 0;
    if (!S_ISSOCK(status.st_mode))
        return mt_error_set(error, -EINVAL, MT_REASON_USAGE,
                            "cannot listen on '%s': the file is there already and is not a socket", text);
    mt_autofd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return mt_error_set_errno(error, MT_REASON_IO, "cannot listen on '%s'", text);
    if (connect(fd, (const struct sockaddr *)address, sizeof *address) == 0 || errno == EAGAIN)
        return mt_error_set(error, -EADDRINUSE, MT_REASON_USAGE,
                            "cannot listen on '%s': another process listens there", text);
    if (errno != ECONNREFUSED)
        return mt_error_set(error, -EINVAL, MT_REASON_USAGE, "cannot listen on '%s': %s", text,
                            strerror(errno));
    unlink(address->sun_path);
    return 0;
}

static int open_unix(struct mt_listener *listener, const char *text, const char *path, struct mt_error *error)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    listener->is_unix = true;
    if (*path != '/')
        return usage(error, text, "the path of a Unix socket must be absolute");
    if (strlen(path) >= sizeof address.sun_path)
        return usage(error, text, "the path of a Unix socket can have 107 bytes at most");
    strcpy(address.sun_path, path);
    int result = remove_stale(&address, text, error);
    if (result < 0)
        return result;
    listener->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    /* The mode of the descriptor is what bind gives the file, so there is no moment with a wider one. */
    if (listener->fd < 0 || fchmod(listener->fd, 0660) != 0 ||
        bind(listener->fd, (struct sockaddr *)&address, sizeof address) != 0) {
        result = errno == EADDRINUSE ? -EADDRINUSE : -EINVAL;
        return mt_error_set(error, result, MT_REASON_USAGE, "cannot listen on '%s': %s", text,
                            strerror(errno));
    }
    struct stat status;
    listener->path = strdup(path);
    listener->address = strdup(text);
    if (!listener->path || !listener->address)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory to listen on '%s'", text);
    if (chmod(path, 0660) != 0 || lstat(path, &status) != 0 || listen(listener->fd, BACKLOG) != 0)
        return mt_error_set(error, -EINVAL, MT_REASON_USAGE, "cannot listen on '%s': %s", text,
                            strerror(errno));
    listener->device = status.st_dev;
    listener->inode = status.st_ino;
    return 0;
}

int mt_listener_open(struct mt_listener *listener, const char *text, bool have_token, struct mt_error *error)
{
    struct mt_api *api = listener->api;
    *listener = (struct mt_listener){.api = api, .fd = -1};
    int result = strncmp(text, "unix:", 5) == 0 ? open_unix(listener, text, text + 5, error)
                                                : open_tcp(listener, text, have_token, error);
    if (result < 0)
        mt_listener_close(listener);
    return result;
}

void mt_listener_close(struct mt_listener *listener)
{
    struct stat status;
    if (listener->fd >= 0)
        close(listener->fd);
    listener->fd = -1;
    if (listener->path && lstat(listener->path, &status) == 0 && status.st_dev == listener->device &&
        status.st_ino == listener->inode)
        unlink(listener->path);
    free(listener->path);
    free(listener->address);
    listener->path = NULL;
    listener->address = NULL;
}
