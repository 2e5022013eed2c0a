#include "core/formats/data_file.h"

#include "core/base/file.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct mt_file_identity identity_of(const struct stat *status)
{
    return (struct mt_file_identity){
        .bytes = (uint64_t)status->st_size,
        .modified_ns = (int64_t)status->st_mtim.tv_sec * 1000000000 + status->st_mtim.tv_nsec,
        .device = status->st_dev,
        .inode = status->st_ino,
    };
}

int mt_file_identity_read(const char *path, struct mt_file_identity *identity, struct mt_error *error)
{
    struct stat status;
    if (stat(path, &status) < 0)
        return mt_error_set_errno(error, MT_REASON_BAD_DATA, "cannot read %s", path);
    *identity = identity_of(&status);
    return 0;
}

int mt_data_file_open(const char *path, struct mt_data_file *file, struct mt_error *error)
{
    *file = (struct mt_data_file){.path = path, .fd = open(path, O_RDONLY | O_CLOEXEC)};
    struct stat status;
    if (file->fd < 0 || fstat(file->fd, &status) < 0) {
        const int r = mt_error_set_errno(error, MT_REASON_BAD_DATA, "cannot read %s", path);
        mt_data_file_close(file);
        return r;
    }
    file->identity = identity_of(&status);
    return 0;
}

void mt_data_file_close(struct mt_data_file *file)
{
    if (file->fd >= 0)
        close(file->fd);
    file->fd = -1;
}

static int changed(const struct mt_data_file *file, const char *how, struct mt_error *error)
{
    return mt_error_set(error, -ESTALE, MT_REASON_BAD_DATA,
                        "%s changed while it was read (%s): start again when nothing writes to it any more",
                        file->path, how);
}

int mt_data_file_read(const struct mt_data_file *file, void *data, size_t bytes, uint64_t offset,
                      struct mt_error *error)
{
    const int r = mt_fd_pread_all(file->fd, data, bytes, (off_t)offset);
    if (r == -ENODATA)
        return changed(file, "it became shorter", error);
    if (r < 0) {
        errno = -r;
        return mt_error_set_errno(error, MT_REASON_BAD_DATA, "cannot read %s", file->path);
    }
    return 0;
}

int mt_data_file_check(const struct mt_data_file *file, struct mt_error *error)
{
    struct stat status;
    if (fstat(file->fd, &status) < 0)
        return mt_error_set_errno(error, MT_REASON_BAD_DATA, "cannot read %s", file->path);
    const struct mt_file_identity now = identity_of(&status);
    if (now.bytes != file->identity.bytes)
        return changed(file, now.bytes > file->identity.bytes ? "it became longer" : "it became shorter",
                       error);
    if (now.modified_ns != file->identity.modified_ns)
        return changed(file, "it was written to", error);
    return 0;
}
