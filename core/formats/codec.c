#include "core/formats/codec.h"

#include <limits.h>
#include <lz4.h>
#include <lz4frame.h>
#include <snappy-c.h>
#include <stdbool.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

static bool unpack_snappy(const void *packed, size_t packed_bytes, void *data, size_t bytes)
{
    size_t length;
    return snappy_uncompressed_length(packed, packed_bytes, &length) == SNAPPY_OK && length == bytes &&
           snappy_uncompress(packed, packed_bytes, data, &length) == SNAPPY_OK;
}

static bool unpack_gzip(const void *packed, size_t packed_bytes, void *data, size_t bytes)
{
    z_stream stream = {
        .next_in = (Bytef *)(uintptr_t)packed,
        .avail_in = (uInt)packed_bytes,
        .next_out = data,
        .avail_out = (uInt)bytes,
    };
    if (packed_bytes > UINT_MAX || bytes > UINT_MAX || inflateInit2(&stream, 15 + 32) != Z_OK)
        return false;
    const int result = inflate(&stream, Z_FINISH);
    inflateEnd(&stream);
    return result == Z_STREAM_END && stream.avail_out == 0;
}

static bool unpack_lz4(const void *packed, size_t packed_bytes, void *data, size_t bytes)
{
    return packed_bytes <= INT_MAX && bytes <= INT_MAX &&
           LZ4_decompress_safe(packed, data, (int)packed_bytes, (int)bytes) == (int)bytes;
}

static uint32_t big_endian(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static bool unpack_hadoop(const uint8_t *packed, size_t packed_bytes, uint8_t *data, size_t bytes)
{
    while (packed_bytes >= 8) {
        const size_t whole = big_endian(packed), part = big_endian(packed + 4);
        if (part > packed_bytes - 8 || whole > bytes || !unpack_lz4(packed + 8, part, data, whole))
            return false;
        packed += 8 + part;
        packed_bytes -= 8 + part;
        data += whole;
        bytes -= whole;
    }
    return packed_bytes == 0 && bytes == 0;
}

static bool unpack_frames(const uint8_t *packed, size_t packed_bytes, uint8_t *data, size_t bytes)
{
    LZ4F_dctx *context;
    if (LZ4F_isError(LZ4F_createDecompressionContext(&context, LZ4F_VERSION)))
        return false;
    size_t more = 1;
    while (packed_bytes > 0) {
        size_t taken = packed_bytes, given = bytes;
        more = LZ4F_decompress(context, data, &given, packed, &taken, NULL);
        if (LZ4F_isError(more) || (taken == 0 && given == 0))
            break;
        packed += taken;
        packed_bytes -= taken;
        data += given;
        bytes -= given;
    }
    LZ4F_freeDecompressionContext(context);
    return more == 0 && packed_bytes == 0 && bytes == 0;
}

static bool unpack(enum mt_codec codec, const void *packed, size_t packed_bytes, void *data, size_t bytes)
{
    switch (codec) {
    case MT_CODEC_NONE:
        if (packed_bytes == bytes && bytes > 0)
            memcpy(data, packed, bytes);
        return packed_bytes == bytes;
    case MT_CODEC_SNAPPY:
        return unpack_snappy(packed, packed_bytes, data, bytes);
    case MT_CODEC_GZIP:
        return unpack_gzip(packed, packed_bytes, data, bytes);
    case MT_CODEC_ZSTD:
        return ZSTD_decompress(data, bytes, packed, packed_bytes) == bytes;
    case MT_CODEC_LZ4_RAW:
        return unpack_lz4(packed, packed_bytes, data, bytes);
    case MT_CODEC_LZ4_HADOOP:
        return unpack_hadoop(packed, packed_bytes, data, bytes) ||
               unpack_lz4(packed, packed_bytes, data, bytes);
    case MT_CODEC_LZ4_FRAME:
        return unpack_frames(packed, packed_bytes, data, bytes);
    }
    return false;
}

int mt_codec_unpack(enum mt_codec codec, const void *packed, size_t packed_bytes, void *data, size_t bytes,
                    struct mt_error *error)
{
    static const char *const names[] = {
        [MT_CODEC_NONE] = "plain",     [MT_CODEC_SNAPPY] = "Snappy", [MT_CODEC_GZIP] = "gzip",
        [MT_CODEC_ZSTD] = "Zstandard", [MT_CODEC_LZ4_RAW] = "LZ4",   [MT_CODEC_LZ4_HADOOP] = "LZ4",
        [MT_CODEC_LZ4_FRAME] = "LZ4",
    };
    if (unpack(codec, packed, packed_bytes, data, bytes))
        return 0;
    return mt_error_set(error, -EINVAL, MT_REASON_BAD_DATA,
                        "a %s block of %zu bytes does not unpack to the %zu bytes that it should hold",
                        names[codec], packed_bytes, bytes);
}
