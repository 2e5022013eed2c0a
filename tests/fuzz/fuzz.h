/* What the fuzz targets share. libFuzzer calls LLVMFuzzerTestOneInput with bytes; whatever they are, readers
 * must give an error or values that can be read, under AddressSanitizer and UBSan. */
#ifndef MT_FUZZ_H
#define MT_FUZZ_H

#include "core/data/source.h"

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* A file in memory that holds the bytes, the same path for each input of a process. */
const char *mt_fuzz_file(const uint8_t *data, size_t bytes);

/* A folder with an empty file of this name, the same one for each input of a process; both go when it ends.
 * For loaders that keep a file to save it again: what is in it does not matter, the bytes come from
 * elsewhere. */
const char *mt_fuzz_folder(const char *name);

/* Reads all rows of the bytes as a file of this format, and each value of them. */
void mt_fuzz_rows(const uint8_t *data, size_t bytes, enum mt_format format, enum mt_compression compression);

/* Keeps the compiler from dropping reads of which nothing is done. */
void mt_fuzz_use(const void *data, size_t bytes);

#endif
