/* Inside core/model: one transfer. */
#ifndef MT_MODEL_DOWNLOAD_INTERNAL_H
#define MT_MODEL_DOWNLOAD_INTERNAL_H

#include "core/model/download.h"

#include <sys/types.h>

#define MT_TRANSFER_HASH_BYTES 65
#define MT_TRANSFER_ETAG_BYTES 256

struct mt_transfer {
    const struct mt_download *download;
    const char *url;
    /* What comes goes to `fd` (at its end), or, when that is -1, into `text`, at most `max_text` bytes. */
    int fd;
    char *text;
    size_t text_bytes, max_text;
    off_t have;   /* bytes that `fd` has: the request is for what follows */
    int64_t most; /* of the whole file, in `fd`: what goes on behind that ends the transfer; -1: no bound */
    bool checked; /* a checksum of the whole file is known: parts may be put together that no ETag ties
                     together */
    /* Of the answer that brought what `fd` has; "" where that is not known. Kept up to date. */
    char etag[MT_TRANSFER_ETAG_BYTES];
    int64_t room; /* as much of it may come before the disk counts as full; -1: no bound */

    /* What the server said. */
    long status;
    int64_t length;                      /* of the whole file; -1: not said */
    char sha256[MT_TRANSFER_HASH_BYTES]; /* of the whole file, lower case; "": not said */
    bool resumed;                        /* the body begins at `have`; else `fd` was emptied first */
    long retry_after;                    /* seconds that the server asks to be left alone for; 0: not said */
};

/* One request. 0 when an answer came, whatever its status, and its body to the end; -EINTR when should_stop
 * said so; -EAGAIN when the connection failed or broke off (the sentence says how); -EILSEQ when more than
 * `most` bytes came; -ESPIPE when they do not go on where `fd` ends, or may be another file's: it is to be
 * fetched from its beginning; else an error that trying again does not mend. */
int mt_transfer_run(struct mt_transfer *transfer, struct mt_error *error);

#endif
