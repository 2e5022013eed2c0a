/* The bytes of a file from front to back, unpacked on the way: plain, gzip (RFC 1952, also several members
 * one after another) or Zstandard (RFC 8878, also several frames). Memory does not depend on the file: at
 * most MT_INPUT_MAX_WINDOW for Zstandard's window; a file that wants more is refused, and so is one that
 * unpacks to more than MT_INPUT_MAX_RATIO times its size (after the first MT_INPUT_FREE_BYTES). */
#ifndef MT_DATA_INPUT_H
#define MT_DATA_INPUT_H

#include "core/base/error.h"
#include "core/formats/data_file.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MT_INPUT_MAX_WINDOW_LOG 27 /* 128 MiB: what `zstd -19 --long` makes */
#define MT_INPUT_MAX_RATIO 1000
#define MT_INPUT_FREE_BYTES ((uint64_t)64 << 20)

enum mt_compression {
    MT_COMPRESSION_NONE,
    MT_COMPRESSION_GZIP,
    MT_COMPRESSION_ZSTD,
};

struct mt_input;

int mt_input_open(const char *path, enum mt_compression compression, struct mt_input **input,
                  struct mt_error *error);
void mt_input_close(struct mt_input *input); /* NULL is fine */

/* Up to `bytes` bytes; `*got` is 0 at the end alone. MT_REASON_BAD_DATA where the packed data is damaged,
 * ends early, or the file changed. */
int mt_input_read(struct mt_input *input, void *data, size_t bytes, size_t *got, struct mt_error *error);

/* The file itself, for formats that are not read from front to back; borrowed. */
const struct mt_data_file *mt_input_file(const struct mt_input *input);

/* Bytes handed out so far. */
uint64_t mt_input_bytes(const struct mt_input *input);

/* Reads what is left of the file without unpacking it: SHA-256 of all of its bytes as they lie on the disk.
 * -ESTALE when the file changed since it was opened. */
int mt_input_finish(struct mt_input *input, unsigned char digest[32], struct mt_error *error);

#endif
