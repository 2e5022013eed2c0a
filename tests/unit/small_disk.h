/* Runs a function in a child process that sees a tiny file system, to meet a full disk for real. */
#ifndef MT_TEST_SMALL_DISK_H
#define MT_TEST_SMALL_DISK_H

#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

/* Mounts a tmpfs of `bytes` on `folder` for a child alone and calls function(folder) there. The result is
 * what it returned (0 to 99), 100 when the child died, or -1 where this process may not mount. */
static inline int mt_test_on_small_disk(const char *folder, size_t bytes, int (*function)(const char *folder))
{
    fflush(NULL);
    pid_t child = fork();
    if (child < 0)
        return -1;
    if (child == 0) {
        char options[64];
        snprintf(options, sizeof options, "size=%zu", bytes);
        /* Root may do it; others may in a user namespace of their own, where the system lets them. */
        if (unshare(CLONE_NEWNS) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0)
            _exit(101);
        if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
            mount("small", folder, "tmpfs", 0, options) < 0)
            _exit(101);
        _exit(function(folder));
    }
    int status;
    if (waitpid(child, &status, 0) != child || !WIFEXITED(status))
        return 100;
    return WEXITSTATUS(status) == 101 ? -1 : WEXITSTATUS(status);
}

#endif
