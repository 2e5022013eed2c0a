/* Address space is reserved for the longest header at once, so that nothing moves as more of it is read; it
 * becomes memory a step at a time. */
#include "core/formats/head.h"

#include "core/base/file.h"
#include "core/base/size.h"

#include <fcntl.h>
#include <inttypes.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define STEP ((size_t)1 << 16) /* a multiple of every page size */

int mt_head_open(const char *path, size_t least, const char *format, struct mt_head *head,
                 struct mt_error *error)
{
    *head = (struct mt_head){.path = path, .fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
    if (head->fd < 0)
        return mt_error_set_errno(error, errno == ENOENT ? MT_REASON_BAD_MODEL : MT_REASON_IO,
                                  "cannot open %s", path);
    struct stat status;
    if (fstat(head->fd, &status) < 0)
        return mt_error_set_errno(error, MT_REASON_IO, "cannot read %s", path);
    if (!S_ISREG(status.st_mode))
        return mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL, "%s is not a regular file", path);
    if (status.st_size < (off_t)least)
        return mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL, "%s has %jd bytes, too few for a %s file",
                            path, (intmax_t)status.st_size, format);
    head->bytes = (size_t)status.st_size;
    head->reserved = mt_size_ceil_div(mt_size_min(head->bytes, MT_HEAD_MAX_BYTES), STEP) * STEP;
    void *data = mmap(NULL, head->reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data == MAP_FAILED)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY,
                            "%s: out of memory while reading the header", path);
    head->data = data;
    return 0;
}

int mt_head_fill(struct mt_head *head, size_t bytes)
{
    if (bytes <= head->filled)
        return 0;
    if (bytes > head->reserved)
        return -EFBIG;
    const size_t end = mt_size_ceil_div(bytes, STEP) * STEP;
    const size_t begin = head->filled / STEP * STEP; /* of a part that is not whole, all is read again */
    const size_t wanted = mt_size_min(end, head->bytes) - begin;
    if (mprotect(head->data + begin, end - begin, PROT_READ | PROT_WRITE) < 0)
        return -ENOMEM;
    const int r = mt_fd_pread_all(head->fd, head->data + begin, wanted, (off_t)begin);
    if (r == 0)
        head->filled = begin + wanted;
    return r;
}

int mt_head_error(const struct mt_head *head, int result, struct mt_error *error)
{
    if (result == -ENODATA)
        return mt_error_set(error, result, MT_REASON_BAD_MODEL,
                            "%s became shorter while it was read: start again when nothing writes to it any "
                            "more",
                            head->path);
    if (result == -EFBIG)
        return mt_error_set(error, result, MT_REASON_BAD_MODEL,
                            "%s: a header beyond the bound of %zu bytes: the file is damaged", head->path,
                            MT_HEAD_MAX_BYTES);
    if (result == -ENOMEM)
        return mt_error_set(error, result, MT_REASON_OUT_OF_MEMORY,
                            "%s: out of memory while reading the header", head->path);
    errno = -result;
    return mt_error_set_errno(error, MT_REASON_IO, "cannot read %s", head->path);
}

void mt_head_drop(struct mt_head *head)
{
    if (head->data)
        munmap(head->data, head->reserved);
    head->data = NULL;
    head->filled = head->reserved = 0;
}

void mt_head_close(struct mt_head *head)
{
    mt_head_drop(head);
    if (head->fd >= 0)
        close(head->fd);
    head->fd = -1;
}
