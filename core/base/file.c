/* Files: see file.h. */
#include "core/base/file.h"

#include "core/base/cleanup.h"
#include "core/base/sha256.h"
#include "core/base/size.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

int mt_fd_write_all(int fd, const void *data, size_t bytes)
{
    const char *next = data;
    while (bytes > 0) {
        ssize_t written = write(fd, next, bytes);
        if (written < 0) {
            if (errno == EINTR)
                continue;
            return -errno;
        }
        next += written;
        bytes -= (size_t)written;
    }
    return 0;
}

int mt_fd_pwrite_all(int fd, const void *data, size_t bytes, off_t offset)
{
    const char *next = data;
    while (bytes > 0) {
        ssize_t written = pwrite(fd, next, bytes, offset);
        if (written < 0) {
            if (errno == EINTR)
                continue;
            return -errno;
        }
        next += written;
        offset += written;
        bytes -= (size_t)written;
    }
    return 0;
}

int mt_fd_pread_all(int fd, void *data, size_t bytes, off_t offset)
{
    char *next = data;
    while (bytes > 0) {
        ssize_t got = pread(fd, next, bytes, offset);
        if (got < 0) {
            if (errno == EINTR)
                continue;
            return -errno;
        }
        if (got == 0)
            return -ENODATA;
        next += got;
        offset += got;
        bytes -= (size_t)got;
    }
    return 0;
}

/* Opens for reading; a folder is an error at once, not at the first read. */
static int open_to_read(const char *path, struct stat *status, struct mt_error *error)
{
    /* A FIFO that nobody writes to would hold open() for ever; without O_NONBLOCK it then reads as empty. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return mt_error_set_errno(error, MT_REASON_IO, "cannot open %s", path);
    if (fstat(fd, status) < 0 || fcntl(fd, F_SETFL, 0) < 0) {
        int result = mt_error_set_errno(error, MT_REASON_IO, "cannot read %s", path);
        close(fd);
        return result;
    }
    if (S_ISDIR(status->st_mode)) {
        close(fd);
        return mt_error_set(error, -EISDIR, MT_REASON_IO, "cannot read %s: it is a folder", path);
    }
    return fd;
}

int mt_file_read(const char *path, size_t max_bytes, char **data, size_t *bytes, struct mt_error *error)
{
    struct stat status;
    mt_autofd int fd = open_to_read(path, &status, error);
    if (fd < 0)
        return fd;
    /* The size is a hint only: files in /proc say 0, and a file may grow while it is read. */
    size_t capacity = status.st_size > 0 ? mt_size_min((size_t)status.st_size, max_bytes) : 0;
    if (!mt_size_add(capacity, 2, &capacity))
        return mt_error_set(error, -EFBIG, MT_REASON_IO, "%s is too large to be read whole", path);
    mt_autofree char *block = malloc(capacity);
    size_t used = 0;
    while (block) {
        ssize_t got = read(fd, block + used, capacity - 1 - used);
        if (got < 0) {
            if (errno == EINTR)
                continue;
            return mt_error_set_errno(error, MT_REASON_IO, "cannot read %s", path);
        }
        if (got == 0) {
            block[used] = '\0';
            *data = block;
            *bytes = used;
            block = NULL;
            return 0;
        }
        used += (size_t)got;
        if (used > max_bytes) {
            char text[32];
            return mt_error_set(error, -EFBIG, MT_REASON_IO, "%s is larger than the %s that are read of it",
                                path, mt_size_format(max_bytes, text, sizeof text));
        }
        if (used == capacity - 1) {
            char *larger = mt_size_mul(capacity, 2, &capacity) ? realloc(block, capacity) : NULL;
            if (!larger)
                break;
            block = larger;
        }
    }
    return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory while reading %s", path);
}

/* "folder" of "folder/name", "." of "name", "/" of "/name"; malloc'd. */
static char *parent_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash)
        return strdup(".");
    return slash == path ? strdup("/") : strndup(path, (size_t)(slash - path));
}

int mt_folder_sync(const char *path, struct mt_error *error)
{
    mt_autofd int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return mt_error_set_errno(error, MT_REASON_IO, "cannot open the folder %s", path);
    if (fsync(fd) < 0)
        return mt_error_set_errno(error, MT_REASON_IO, "cannot sync the folder %s", path);
    return 0;
}

int mt_file_write_atomic(const char *path, const void *data, size_t bytes, mode_t mode,
                         struct mt_error *error)
{
    static unsigned counter;
    mt_autofree char *folder = parent_of(path);
    mt_autofree char *temporary = NULL;
    if (!folder || asprintf(&temporary, "%s.tmp-%ld-%u", path, (long)getpid(),
                            __atomic_fetch_add(&counter, 1, __ATOMIC_RELAXED)) < 0) {
        temporary = NULL;
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory while writing %s", path);
    }
    /* A file of this name is what a process of the same number left when it was killed. */
    if (unlink(temporary) < 0 && errno != ENOENT)
        return mt_error_set_errno(error, MT_REASON_IO, "cannot write %s", path);
    int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (fd < 0)
        return mt_error_set_errno(error, MT_REASON_IO, "cannot write %s", path);
    int result = mt_fd_write_all(fd, data, bytes);
    if (result == 0 && fsync(fd) < 0)
        result = -errno;
    if (close(fd) < 0 && result == 0)
        result = -errno;
    if (result == 0 && rename(temporary, path) < 0)
        result = -errno;
    if (result < 0) {
        unlink(temporary);
        errno = -result;
        return mt_error_set_errno(error, MT_REASON_IO, "cannot write %s", path);
    }
    return mt_folder_sync(folder, error);
}

int mt_folder_create(const char *path, mode_t mode, struct mt_error *error)
{
    mt_autofree char *part = strdup(path);
    if (!part)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory");
    /* Each parent in turn, then the whole. */
    for (char *end = part + 1; *part; end++) {
        if (*end != '/' && *end != '\0')
            continue;
        bool last = *end == '\0';
        *end = '\0';
        if (mkdir(part, mode) < 0 && errno != EEXIST)
            return mt_error_set_errno(error, MT_REASON_IO, "cannot create the folder %s", part);
        if (last)
            break;
        *end = '/';
    }
    struct stat status;
    if (stat(path, &status) < 0)
        return mt_error_set_errno(error, MT_REASON_IO, "cannot create the folder %s", path);
    if (!S_ISDIR(status.st_mode)) {
        errno = ENOTDIR;
        return mt_error_set_errno(error, MT_REASON_IO, "cannot create the folder %s", path);
    }
    return 0;
}

/* Removes what is in the folder `fd`, which is closed. -errno. */
static int remove_contents(int fd)
{
    DIR *folder = fdopendir(fd);
    if (!folder) {
        int result = -errno;
        close(fd);
        return result;
    }
    int result = 0;
    struct dirent *entry;
    while (result == 0 && (errno = 0, entry = readdir(folder))) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (unlinkat(dirfd(folder), entry->d_name, 0) == 0 || errno == ENOENT)
            continue;
        if (errno != EISDIR && errno != EPERM) {
            result = -errno;
            break;
        }
        int child = openat(dirfd(folder), entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        result = child < 0 ? -errno : remove_contents(child);
        if (result == 0 && unlinkat(dirfd(folder), entry->d_name, AT_REMOVEDIR) < 0 && errno != ENOENT)
            result = -errno;
    }
    if (result == 0 && errno != 0)
        result = -errno;
    closedir(folder);
    return result;
}

int mt_folder_remove(const char *path, struct mt_error *error)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return 0;
    int result = fd < 0 ? -errno : remove_contents(fd);
    if (result == 0 && rmdir(path) < 0 && errno != ENOENT)
        result = -errno;
    if (result < 0) {
        errno = -result;
        return mt_error_set_errno(error, MT_REASON_IO, "cannot remove the folder %s", path);
    }
    return 0;
}

bool mt_folder_is_empty(const char *path)
{
    DIR *folder = opendir(path);
    if (!folder)
        return errno == ENOENT;
    bool empty = true;
    struct dirent *entry;
    while (empty && (entry = readdir(folder)))
        empty = strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0;
    closedir(folder);
    return empty;
}

bool mt_path_exists(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0;
}

bool mt_path_part_ends_with(const char *path, size_t bytes, const char *end)
{
    const size_t end_bytes = strlen(end);
    return bytes > end_bytes && strncasecmp(path + bytes - end_bytes, end, end_bytes) == 0;
}

bool mt_path_ends_with(const char *path, const char *end)
{
    return mt_path_part_ends_with(path, strlen(path), end);
}

bool mt_path_stays_below(const char *path)
{
    if (*path == '/' || !*path)
        return false;
    while (*path) {
        const size_t length = strcspn(path, "/");
        if (length == 2 && memcmp(path, "..", 2) == 0)
            return false;
        path += length;
        path += *path == '/';
    }
    return true;
}

char *mt_path_join(const char *folder, const char *name)
{
    size_t length = strlen(folder);
    while (length > 1 && folder[length - 1] == '/')
        length--;
    while (*name == '/')
        name++;
    const char *slash = length > 0 && folder[length - 1] != '/' ? "/" : "";
    char *path;
    return asprintf(&path, "%.*s%s%s", (int)length, folder, slash, name) < 0 ? NULL : path;
}

int mt_file_sha256(const char *path, char hex[65], struct mt_error *error)
{
    struct stat status;
    mt_autofd int fd = open_to_read(path, &status, error);
    if (fd < 0)
        return fd;
    const size_t buffer_bytes = (size_t)1 << 20;
    mt_autofree uint8_t *buffer = malloc(buffer_bytes);
    if (!buffer)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory while reading %s", path);
    struct mt_sha256 hash;
    mt_sha256_init(&hash);
    for (;;) {
        ssize_t got = read(fd, buffer, buffer_bytes);
        if (got < 0) {
            if (errno == EINTR)
                continue;
            return mt_error_set_errno(error, MT_REASON_IO, "cannot read %s", path);
        }
        if (got == 0)
            break;
        mt_sha256_update(&hash, buffer, (size_t)got);
    }
    uint8_t digest[32];
    mt_sha256_final(&hash, digest);
    mt_sha256_hex(digest, hex);
    return 0;
}
