/* Logging to standard error: see log.h. Each message is one write(), so lines of several threads and
 * processes do not mix. */
#include "core/base/log.h"

#include "core/base/file.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINE_BYTES 4096

static int max_level = LOG_INFO;
static bool to_journal;

/* $JOURNAL_STREAM is "device:inode" of the stream that goes to the journal; a redirected standard error is
 * another. */
static void find_journal(void)
{
    const char *stream = getenv("JOURNAL_STREAM");
    struct stat status;
    char mine[64];
    if (!stream || fstat(STDERR_FILENO, &status) < 0)
        return;
    snprintf(mine, sizeof mine, "%ju:%ju", (uintmax_t)status.st_dev, (uintmax_t)status.st_ino);
    to_journal = strcmp(stream, mine) == 0;
}

void mt_log(int priority, const char *format, ...)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    int saved_errno = errno;
    priority = LOG_PRI(priority);
    if (priority > __atomic_load_n(&max_level, __ATOMIC_RELAXED))
        return;
    pthread_once(&once, find_journal);

    char line[LINE_BYTES];
    size_t used = to_journal ? (size_t)snprintf(line, sizeof line, "<%d>", priority) : 0;
    size_t start = used;
    va_list arguments;
    va_start(arguments, format);
    errno = saved_errno; /* for %m */
    int length = vsnprintf(line + used, sizeof line - used - 1, format, arguments);
    va_end(arguments);
    if (length > 0)
        used += (size_t)length < sizeof line - used - 1 ? (size_t)length : sizeof line - used - 2;
    /* One message, one line: what a job's name or a file brings along must not forge another. */
    for (size_t i = start; i < used; i++) {
        if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f)
            line[i] = ' ';
    }
    line[used++] = '\n';
    (void)mt_fd_write_all(STDERR_FILENO, line, used); /* nowhere left to report a failure to */
    errno = saved_errno;
}

void mt_log_set_level(int max_priority)
{
    __atomic_store_n(&max_level, LOG_PRI(max_priority), __ATOMIC_RELAXED);
}

const char *mt_log_level_name(int priority)
{
    switch (LOG_PRI(priority)) {
    case LOG_WARNING:
        return "warning";
    case LOG_NOTICE:
    case LOG_INFO:
        return "info";
    case LOG_DEBUG:
        return "debug";
    default:
        return "error";
    }
}

int mt_log_level_parse(const char *name)
{
    static const int levels[] = {LOG_ERR, LOG_WARNING, LOG_INFO, LOG_DEBUG};
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        if (strcmp(name, mt_log_level_name(levels[i])) == 0)
            return levels[i];
    }
    return -1;
}
