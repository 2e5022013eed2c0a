#include "core/data/bulk.h"

#include "core/base/cleanup.h"
#include "core/base/file.h"
#include "core/base/size.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define JUST_MADE_SECONDS 60
#define WRITE_BYTES ((size_t)1 << 20) /* at a time, once there is a file */

static int no_memory(struct mt_error *error)
{
    return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory for the data set");
}

void mt_bulk_folder_remove(struct mt_bulk_folder *folder)
{
    if (*folder->path)
        mt_folder_remove(folder->path, NULL);
    mt_bulk_folder_keep(folder);
}

void mt_bulk_folder_keep(struct mt_bulk_folder *folder)
{
    *folder->path = '\0';
    if (folder->lock)
        close(folder->lock - 1);
    folder->lock = 0;
}

bool mt_bulk_folder_is_left(const char *path)
{
    struct stat status;
    mt_autofd int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd >= 0 && fstat(fd, &status) == 0 && time(NULL) - status.st_mtime > JUST_MADE_SECONDS &&
           flock(fd, LOCK_EX | LOCK_NB) == 0;
}

static int make_folder(struct mt_bulk_folder *folder, struct mt_error *error)
{
    if (*folder->path)
        return 0;
    int r = mt_folder_create(folder->parent, 0700, error);
    if (r < 0)
        return mt_error_prefix(error, "the tokens of the data set (MEGATRAIN_CACHE_DIR says where)");
    if (snprintf(folder->path, sizeof folder->path, "%s/.tmp-XXXXXX", folder->parent) >=
        (int)sizeof folder->path) {
        *folder->path = '\0';
        return mt_error_set(error, -ENAMETOOLONG, MT_REASON_IO, "the path %s is too long", folder->parent);
    }
    if (mkdtemp(folder->path)) {
        const int fd = open(folder->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
            folder->lock = fd + 1;
        else if (fd >= 0) /* a file system without locks, where nothing is taken for left */
            close(fd);
        return 0;
    }
    *folder->path = '\0';
    return mt_error_set_errno(
        error, MT_REASON_IO, "cannot write the tokens of the data set to %s (MEGATRAIN_CACHE_DIR says where)",
        folder->parent);
}

static int failed(const struct mt_bulk *bulk, int code, struct mt_error *error)
{
    errno = -code;
    return mt_error_set_errno(
        error, MT_REASON_IO, "cannot write the tokens of the data set to %s (MEGATRAIN_CACHE_DIR says where)",
        bulk->folder->path);
}

static int write_out(struct mt_bulk *bulk, const void *data, size_t bytes, struct mt_error *error)
{
    if (!bulk->fd) {
        int r = make_folder(bulk->folder, error);
        if (r < 0)
            return r;
        mt_autofree char *path = mt_path_join(bulk->folder->path, bulk->name);
        if (!path)
            return no_memory(error);
        const int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd < 0)
            return failed(bulk, -errno, error);
        bulk->fd = fd + 1;
    }
    const int r = mt_fd_write_all(bulk->fd - 1, data, bytes);
    return r < 0 ? failed(bulk, r, error) : 0;
}

static int grow(struct mt_bulk *bulk, size_t bytes, struct mt_error *error)
{
    const size_t capacity = mt_size_max(bytes, bulk->capacity + bulk->capacity / 2 + 4096);
    char *memory = realloc(bulk->memory, capacity);
    if (!memory)
        return no_memory(error);
    bulk->memory = memory;
    bulk->capacity = capacity;
    return 0;
}

int mt_bulk_append(struct mt_bulk *bulk, const void *data, size_t bytes, struct mt_error *error)
{
    const bool may_spill = bulk->folder && bulk->folder->parent;
    const size_t limit = bulk->fd                               ? WRITE_BYTES
                         : bulk->folder && bulk->folder->memory ? bulk->folder->memory
                                                                : MT_BULK_MEMORY;
    int r = 0;
    size_t needed;
    if (!mt_size_add(bulk->used, bytes, &needed))
        return no_memory(error);
    if (may_spill && needed > limit) {
        r = write_out(bulk, bulk->memory, bulk->used, error);
        bulk->used = 0;
        needed = bytes;
        if (r == 0 && bytes > limit) {
            r = write_out(bulk, data, bytes, error);
            bulk->bytes += bytes;
            return r;
        }
    }
    if (r == 0 && needed > bulk->capacity)
        r = grow(bulk, needed, error);
    if (r < 0)
        return r;
    if (bytes)
        memcpy(bulk->memory + bulk->used, data, bytes);
    bulk->used = needed;
    bulk->bytes += bytes;
    return 0;
}

int mt_bulk_seal(struct mt_bulk *bulk, struct mt_error *error)
{
    if (!bulk->fd) {
        char *smaller = bulk->used ? realloc(bulk->memory, bulk->used) : NULL;
        bulk->memory = smaller ? smaller : bulk->memory;
        return 0;
    }
    int r = write_out(bulk, bulk->memory, bulk->used, error);
    free(bulk->memory);
    bulk->memory = NULL;
    bulk->used = bulk->capacity = 0;
    return r;
}

int mt_bulk_save(struct mt_bulk *bulk, struct mt_error *error)
{
    if (bulk->fd)
        return 0;
    int r = write_out(bulk, bulk->memory, (size_t)bulk->bytes, error);
    if (bulk->fd) /* it is read from memory */
        close(bulk->fd - 1);
    bulk->fd = 0;
    return r;
}

int mt_bulk_open(struct mt_bulk *bulk, const char *folder, const char *name, uint64_t bytes,
                 struct mt_error *error)
{
    *bulk = (struct mt_bulk){.name = name, .bytes = bytes};
    mt_autofree char *path = mt_path_join(folder, name);
    if (!path)
        return no_memory(error);
    const int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC); /* a pipe is not waited for */
    struct stat status;
    if (fd < 0)
        return mt_error_set_errno(error, MT_REASON_IO, "cannot read %s", path);
    bulk->fd = fd + 1;
    if (fstat(fd, &status) < 0 || !S_ISREG(status.st_mode) || (uint64_t)status.st_size != bytes)
        return mt_error_set(error, -EINVAL, MT_REASON_IO, "%s has another size than it should have", path);
    return 0;
}

/* Where the file lies now; it may have been renamed since it was opened. */
static void find_path(const struct mt_bulk *bulk, char *path, size_t path_bytes)
{
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", bulk->fd - 1);
    const ssize_t bytes = bulk->fd ? readlink(link, path, path_bytes - 1) : -1;
    if (bytes > 0)
        path[bytes] = '\0';
    else
        snprintf(path, path_bytes, "%s", bulk->name);
}

int mt_bulk_spoilt(const struct mt_bulk *bulk, struct mt_error *error)
{
    char path[600];
    find_path(bulk, path, sizeof path);
    return mt_error_set(
        error, -ESTALE, MT_REASON_IO,
        "%s, a file of the data set's cache, was changed by another program while it was in use; "
        "start again, or resume the job: the cache is then made anew, and the run stays the same",
        path);
}

int mt_bulk_read(const struct mt_bulk *bulk, uint64_t offset, void *data, size_t bytes,
                 struct mt_error *error)
{
    if (offset > bulk->bytes || bytes > bulk->bytes - offset)
        return mt_bulk_spoilt(bulk, error); /* by what another array of the cache says */
    if (!bulk->fd || bulk->memory) {
        if (bytes)
            memcpy(data, bulk->memory + offset, bytes);
        return 0;
    }
    const int r = mt_fd_pread_all(bulk->fd - 1, data, bytes, (off_t)offset);
    if (r == -ENODATA)
        return mt_bulk_spoilt(bulk, error);
    if (r < 0) {
        char path[600];
        find_path(bulk, path, sizeof path);
        errno = -r;
        return mt_error_set_errno(error, MT_REASON_IO, "cannot read %s", path);
    }
    return 0;
}

int mt_bulk_view_at(struct mt_bulk_view *view, uint64_t offset, size_t bytes, const void **data,
                    struct mt_error *error)
{
    const struct mt_bulk *bulk = view->bulk;
    const bool held = offset >= view->first && offset + bytes <= view->first + view->held;
    if (!view->buffer && !(view->buffer = malloc(MT_BULK_VIEW_BYTES)))
        return no_memory(error);
    if (!held) {
        const uint64_t left = offset < bulk->bytes ? bulk->bytes - offset : 0;
        view->first = offset;
        view->held = 0;
        const size_t more = mt_size_max(bytes, left < MT_BULK_VIEW_BYTES ? (size_t)left : MT_BULK_VIEW_BYTES);
        int r = mt_bulk_read(bulk, offset, view->buffer, more, error);
        if (r < 0)
            return r;
        view->held = more;
    }
    *data = view->buffer + (offset - view->first);
    return 0;
}

void mt_bulk_view_end(struct mt_bulk_view *view)
{
    free(view->buffer);
    *view = (struct mt_bulk_view){0};
}

void mt_bulk_free(struct mt_bulk *bulk)
{
    if (bulk->fd)
        close(bulk->fd - 1);
    free(bulk->memory);
    *bulk = (struct mt_bulk){0};
}
