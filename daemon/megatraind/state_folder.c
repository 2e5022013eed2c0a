#include "daemon/megatraind/state_folder.h"

#include "core/base/cleanup.h"
#include "core/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static int make_subfolder(const struct mt_daemon *daemon, const char *name, mode_t mode, char **path,
                          struct mt_error *error)
{
    *path = mt_path_join(daemon->state_folder, name);
    if (!*path)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory");
    return mt_folder_create(*path, mode, error);
}

static int take_lock(const struct mt_daemon *daemon, int fd, struct mt_error *error)
{
    char holder[32] = "", mine[32];
    struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fcntl(fd, F_SETLK, &all) < 0) {
        if (errno != EACCES && errno != EAGAIN)
            return mt_error_set_errno(error, MT_REASON_IO, "cannot lock the state folder %s",
                                      daemon->state_folder);
        ssize_t got = pread(fd, holder, sizeof holder - 1, 0);
        holder[got > 0 ? strcspn(holder, "\n") : 0] = '\0';
        return mt_error_set(error, -EBUSY, MT_REASON_IO,
                            "another megatraind%s%s%s uses the state folder %s; stop it, or choose another "
                            "--state-dir",
                            *holder ? " (process " : "", holder, *holder ? ")" : "", daemon->state_folder);
    }
    /* Only for the sentence above; a full disk shows itself soon enough. */
    int length = snprintf(mine, sizeof mine, "%ld\n", (long)getpid());
    if (ftruncate(fd, 0) == 0)
        (void)mt_fd_pwrite_all(fd, mine, (size_t)length, 0);
    return 0;
}

/* The lock belongs to the process and goes with it, however that ends. flock's would go with the open file,
 * which a child that has not come to its exec when the daemon is killed holds for a moment longer: long
 * enough to keep the next daemon out. */
static int lock(const struct mt_daemon *daemon, int *lock_fd, struct mt_error *error)
{
    mt_autofree char *path = mt_path_join(daemon->state_folder, "lock");
    if (!path)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory");
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0640);
    if (fd < 0)
        return mt_error_set_errno(error, MT_REASON_IO, "cannot write to the state folder %s",
                                  daemon->state_folder);
    int r = take_lock(daemon, fd, error);
    if (r < 0)
        close(fd);
    else
        *lock_fd = fd;
    return r;
}

int mt_state_folder_open(struct mt_daemon *daemon, int *lock_fd, struct mt_error *error)
{
    const char *folder = daemon->options.state_dir;
    int r = mt_folder_create(folder, 0750, error);
    if (r < 0)
        return mt_error_prefix(error, "the state folder %s cannot be used", folder);
    daemon->state_folder = realpath(folder, NULL);
    if (!daemon->state_folder)
        return mt_error_set_errno(error, MT_REASON_IO, "the state folder %s cannot be used", folder);
    r = lock(daemon, lock_fd, error);
    if (r == -EBUSY)
        return r;
    if (r == 0)
        r = make_subfolder(daemon, "jobs", 0750, &daemon->jobs_folder, error);
    if (r == 0)
        r = make_subfolder(daemon, "models", 0755, &daemon->models_folder, error);
    if (r == 0)
        r = make_subfolder(daemon, "datasets", 0755, &daemon->datasets_folder, error);
    /* Workers keep tokenised data there; it need not exist yet, and another place may be set. */
    mt_autofree char *cache = r == 0 ? mt_path_join(daemon->state_folder, "cache") : NULL;
    if (cache)
        setenv("MEGATRAIN_CACHE_DIR", cache, 0);
    return r < 0 ? mt_error_prefix(error, "the state folder %s cannot be used", folder) : 0;
}

int mt_state_folder_write_listen(const struct mt_daemon *daemon, const char *const *addresses, size_t count,
                                 struct mt_error *error)
{
    mt_autofree char *path = mt_path_join(daemon->state_folder, "listen");
    char *text = NULL;
    size_t bytes = 0;
    FILE *stream = path ? open_memstream(&text, &bytes) : NULL;
    if (!stream)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory");
    for (size_t i = 0; i < count; i++)
        fprintf(stream, "%s\n", addresses[i]);
    int r = fclose(stream) == 0 ? mt_file_write_atomic(path, text, bytes, 0644, error)
                                : mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory");
    free(text);
    return r;
}

void mt_state_folder_remove_listen(const struct mt_daemon *daemon)
{
    mt_autofree char *path = mt_path_join(daemon->state_folder, "listen");
    if (path)
        unlink(path);
}
