/* The beginning of a model's file, where its header is, read into memory of our own as far as somebody asks:
 * a header may be of any length, and only reading it tells. A mapping of the file would raise SIGBUS when
 * something cuts the file off meanwhile; this is an error like any other. */
#ifndef MT_FORMATS_HEAD_H
#define MT_FORMATS_HEAD_H

#include "core/base/error.h"

#include <stddef.h>

/* No header is longer: those of real models have up to some 30 MB. */
#define MT_HEAD_MAX_BYTES ((size_t)128 << 20)

struct mt_head {
    const char *path;    /* the caller's */
    unsigned char *data; /* the first `filled` bytes; stays where it is until it is closed */
    size_t filled;
    size_t bytes; /* of the whole file, when it was opened */
    int fd;       /* open for reading */
    size_t reserved;
};

/* `format` is for the message about a file of fewer bytes than `least`. A FIFO or a device is refused at
 * once. MT_REASON_BAD_MODEL, MT_REASON_IO. Either way, mt_head_close. */
int mt_head_open(const char *path, size_t least, const char *format, struct mt_head *head,
                 struct mt_error *error);

/* Sees to it that the first `bytes` (at most all of the file's) are there. Errors: -ENODATA, the file became
 * shorter; -EFBIG, beyond MT_HEAD_MAX_BYTES; those of pread. */
int mt_head_fill(struct mt_head *head, size_t bytes);
/* The sentence for such an error. */
int mt_head_error(const struct mt_head *head, int result, struct mt_error *error);

/* Gives the memory back; the file stays open. */
void mt_head_drop(struct mt_head *head);
void mt_head_close(struct mt_head *head);

#endif
