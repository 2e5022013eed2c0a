/* Unpacking of one block of known size, as Parquet's pages and Arrow's buffers are packed. */
#ifndef MT_FORMATS_CODEC_H
#define MT_FORMATS_CODEC_H

#include "core/base/error.h"

#include <stddef.h>
#include <stdint.h>

enum mt_codec {
    MT_CODEC_NONE,
    MT_CODEC_SNAPPY,
    MT_CODEC_GZIP, /* also zlib's own wrapping */
    MT_CODEC_ZSTD,
    MT_CODEC_LZ4_RAW,    /* a bare block */
    MT_CODEC_LZ4_HADOOP, /* blocks behind their sizes, big-endian; what Parquet calls LZ4. A bare block, too
                          */
    MT_CODEC_LZ4_FRAME,  /* frames, as Arrow packs */
};

/* Unpacks exactly `bytes` bytes into `data`. -EINVAL, MT_REASON_BAD_DATA when the block is damaged or holds
 * another number of bytes. */
int mt_codec_unpack(enum mt_codec codec, const void *packed, size_t packed_bytes, void *data, size_t bytes,
                    struct mt_error *error);

#endif
