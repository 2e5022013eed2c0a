/* Messages to systemd: readiness, status, the watchdog. Without $NOTIFY_SOCKET nothing is sent. The protocol
 * is one datagram of lines to a Unix socket (sd_notify(3)); no library is needed for it. */
#ifndef MT_MEGATRAIND_NOTIFY_H
#define MT_MEGATRAIND_NOTIFY_H

#include <stdint.h>

/* "READY=1", "STOPPING=1\nSTATUS=...", "WATCHDOG=1". */
void mt_notify(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Seconds between two signs of life that the watchdog allows; 0: none is wanted from this process. */
double mt_notify_watchdog(void);

#endif
