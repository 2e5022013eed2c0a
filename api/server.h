/* What the parts of the API share: the server's state. Only api/ includes this. */
#ifndef MT_API_SERVER_H
#define MT_API_SERVER_H

#include "api/asks.h"
#include "api/control.h"
#include "api/durations.h"
#include "api/watch.h"

#include <microhttpd.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct mt_listener {
    struct mt_api *api;
    int fd;
    struct MHD_Daemon *daemon;
    bool is_unix;     /* who may connect is decided by the file's mode */
    bool is_loopback; /* 127.0.0.0/8 or ::1 */
    char *path;       /* of a Unix socket */
    dev_t device;     /* of that file, so that only our own is removed */
    ino_t inode;
    char *address; /* "http://127.0.0.1:8642", "unix:/run/megatrain/api.sock" */
};

struct mt_api {
    const struct mt_control *control;
    char *token; /* or NULL */
    char *version;
    char **allow_hosts; /* names, beside this machine's own, by which clients may call; [num_allow_hosts] */
    size_t num_allow_hosts;
    struct mt_listener *listeners;
    const char **addresses; /* [num_listeners], borrowed from them */
    size_t num_listeners;
    struct mt_watch *watch;
    struct mt_asks *asks;
    struct mt_durations *durations;
    atomic_size_t reserved_bytes; /* request bodies and large answers in memory */
};

/* Takes `bytes` of the budget that bodies and large answers share; false when it is used up. */
bool mt_api_reserve(struct mt_api *api, size_t bytes);
void mt_api_release(struct mt_api *api, size_t bytes);

#endif
