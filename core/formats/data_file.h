/* A file of data, open for reading: its identity is remembered, so that a change while it is read is an error
 * instead of a mixture. It is read by pread: a file that becomes shorter is an error, too, never a signal. */
#ifndef MT_FORMATS_DATA_FILE_H
#define MT_FORMATS_DATA_FILE_H

#include "core/base/error.h"

#include <stddef.h>
#include <stdint.h>

/* What tells one state of a file from another. */
struct mt_file_identity {
    uint64_t bytes;
    int64_t modified_ns; /* since the epoch */
    uint64_t device, inode;
};

struct mt_data_file {
    const char *path; /* borrowed */
    int fd;
    struct mt_file_identity identity;
};

int mt_file_identity_read(const char *path, struct mt_file_identity *identity, struct mt_error *error);

/* MT_REASON_BAD_DATA where the file cannot be read. */
int mt_data_file_open(const char *path, struct mt_data_file *file, struct mt_error *error);
void mt_data_file_close(struct mt_data_file *file);

/* Exactly `bytes` from `offset`, all within the size that the file had when it was opened; -ESTALE when the
 * file has become shorter since. */
int mt_data_file_read(const struct mt_data_file *file, void *data, size_t bytes, uint64_t offset,
                      struct mt_error *error);

/* -ESTALE with a sentence when the file is not what was opened any more. */
int mt_data_file_check(const struct mt_data_file *file, struct mt_error *error);

#endif
