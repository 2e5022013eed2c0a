#include "daemon/megatraind/notify.h"

#include "core/base/cleanup.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

void mt_notify(const char *format, ...)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (!path || (*path != '/' && *path != '@') || strlen(path) >= sizeof address.sun_path)
        return;
    char message[1024];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    if (length < 0)
        return;
    size_t bytes = (size_t)length < sizeof message ? (size_t)length : sizeof message - 1;
    memcpy(address.sun_path, path, strlen(path));
    socklen_t address_bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
    if (*path == '@') /* an abstract socket */
        address.sun_path[0] = '\0';
    mt_autofd int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd >= 0)
        (void)sendto(fd, message, bytes, MSG_NOSIGNAL | MSG_DONTWAIT, (struct sockaddr *)&address,
                     address_bytes);
}

double mt_notify_watchdog(void)
{
    const char *interval = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    if (!interval || !getenv("NOTIFY_SOCKET") || (pid && strtol(pid, NULL, 10) != (long)getpid()))
        return 0;
    double microseconds = strtod(interval, NULL);
    return microseconds > 0 ? microseconds / 1e6 : 0;
}
