#include "daemon/megatraind/daemon.h"

#include "core/base/file.h"

#include <stdint.h>
#include <unistd.h>

void mt_daemon_wake(struct mt_daemon *daemon)
{
    const uint64_t one = 1;
    ssize_t ignored = write(daemon->wake_fd, &one, sizeof one); /* full: it is awake anyway */
    (void)ignored;
}

char *mt_daemon_job_folder(const struct mt_daemon *daemon, const char *id)
{
    return mt_path_join(daemon->jobs_folder, id);
}
