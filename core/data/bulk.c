#include "core/data/bulk.h"

#include "core/base/cleanup.h"
#include "core/base/file.h"
#include "core/base/size.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define WRITE_BYTES ((size_t)1 << 20) /* at a time, once there is a file */

static int no_memory(struct mt_error *error)
{
    return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory for the data set");
}

void mt_bulk_folder_remove(struct mt_bulk_folder *folder)
{
    if (*folder->path)
        mt_folder_remove(folder->path, NULL);
    *folder->path = '\0';
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
    if (mkdtemp(folder->path))
        return 0;
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

static int map(struct mt_bulk *bulk, struct mt_error *error)
{
    void *data = mmap(NULL, (size_t)bulk->bytes, PROT_READ, MAP_SHARED, bulk->fd - 1, 0);
    if (data == MAP_FAILED)
        return mt_error_set_errno(error, MT_REASON_IO, "cannot map the tokens of the data set");
    bulk->data = data;
    bulk->mapped = true;
    close(bulk->fd - 1);
    bulk->fd = 0;
    return 0;
}

int mt_bulk_seal(struct mt_bulk *bulk, struct mt_error *error)
{
    if (!bulk->fd) {
        char *smaller = bulk->used ? realloc(bulk->memory, bulk->used) : NULL;
        bulk->memory = smaller ? smaller : bulk->memory;
        bulk->data = bulk->memory;
        return 0;
    }
    int r = write_out(bulk, bulk->memory, bulk->used, error);
    free(bulk->memory);
    bulk->memory = NULL;
    bulk->used = bulk->capacity = 0;
    return r < 0 ? r : map(bulk, error);
}

int mt_bulk_save(struct mt_bulk *bulk, struct mt_error *error)
{
    if (bulk->mapped)
        return 0;
    int r = write_out(bulk, bulk->data, (size_t)bulk->bytes, error);
    if (bulk->fd)
        close(bulk->fd - 1);
    bulk->fd = 0;
    return r;
}

int mt_bulk_map(struct mt_bulk *bulk, const char *folder, const char *name, uint64_t bytes,
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
    return bytes ? map(bulk, error) : 0;
}

void mt_bulk_free(struct mt_bulk *bulk)
{
    if (bulk->mapped)
        munmap((void *)(uintptr_t)bulk->data, (size_t)bulk->bytes);
    if (bulk->fd)
        close(bulk->fd - 1);
    free(bulk->memory);
    *bulk = (struct mt_bulk){0};
}
