/* Files: whole reads, durable writes, folders. Errors: MT_REASON_IO or MT_REASON_DISK_FULL with the path in
 * the sentence. */
#ifndef MT_BASE_FILE_H
#define MT_BASE_FILE_H

#include "core/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Reads a whole file of at most `max_bytes` (else -EFBIG) into a malloc'd block that ends with an extra zero
 * byte. */
int mt_file_read(const char *path, size_t max_bytes, char **data, size_t *bytes, struct mt_error *error);

/* Durable replacement: writes `<path>.tmp-<pid>-<n>`, fsyncs, renames over `path`, fsyncs the folder. On
 * failure the old file stays as it was and the temporary one is removed. */
int mt_file_write_atomic(const char *path, const void *data, size_t bytes, mode_t mode,
                         struct mt_error *error);

/* Writes all bytes, whatever the number of short writes and EINTR. -errno on failure. */
int mt_fd_write_all(int fd, const void *data, size_t bytes);
int mt_fd_pwrite_all(int fd, const void *data, size_t bytes, off_t offset);
/* Reads exactly `bytes`; -ENODATA when the file ends before. */
int mt_fd_pread_all(int fd, void *data, size_t bytes, off_t offset);

int mt_folder_create(const char *path, mode_t mode,
                     struct mt_error *error); /* with parents; fine when it is there */
int mt_folder_sync(const char *path, struct mt_error *error);
int mt_folder_remove(const char *path,
                     struct mt_error *error); /* recursive, follows no link; fine when absent */
bool mt_folder_is_empty(const char *path);    /* true when absent, too */

bool mt_path_exists(const char *path);
/* Whether the end of the name is `end`, which is not all of it; in any case of letters. The second looks at
 * the first `bytes` of the path alone. */
bool mt_path_ends_with(const char *path, const char *end);

bool mt_path_part_ends_with(const char *path, size_t bytes, const char *end);
/* Whether a relative path stays below the folder it is joined to: not empty, not absolute, no part "..".
 * Paths that come with files from elsewhere are asked this. */
bool mt_path_stays_below(const char *path);
/* malloc'd "folder/name" (one slash), NULL when out of memory. */
char *mt_path_join(const char *folder, const char *name);

/* SHA-256 of a file as 64 lower-case hexadecimal digits and a zero byte. */
int mt_file_sha256(const char *path, char hex[65], struct mt_error *error);

#endif
