#include "core/data/input.h"

#include "core/base/sha256.h"
#include "core/base/size.h"

#include <limits.h>
#include <stdlib.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#define PIECE_BYTES ((size_t)256 << 10)

struct mt_input {
    struct mt_data_file file;
    enum mt_compression compression;
    uint64_t offset; /* of the file, read so far */
    uint64_t given;  /* bytes handed out */
    struct mt_sha256 hash;
    unsigned char *piece; /* packed bytes that were read: [begin, end) is not unpacked yet */
    size_t begin, end;
    z_stream gzip;
    ZSTD_DStream *zstd;
    bool inside; /* of a gzip member or a Zstandard frame */
    bool full;   /* the last call filled all the room it had: more may wait inside the unpacker */
    bool ended;
};

static int no_memory(const char *path, struct mt_error *error)
{
    return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory while reading %s", path);
}

static int open_unpacker(struct mt_input *input, struct mt_error *error)
{
    if (input->compression == MT_COMPRESSION_NONE)
        return 0;
    input->piece = malloc(PIECE_BYTES);
    if (!input->piece)
        return no_memory(input->file.path, error);
    if (input->compression == MT_COMPRESSION_GZIP)
        return inflateInit2(&input->gzip, 15 + 16) == Z_OK ? 0 : no_memory(input->file.path, error);
    input->zstd = ZSTD_createDStream();
    if (!input->zstd)
        return no_memory(input->file.path, error);
    ZSTD_DCtx_setParameter(input->zstd, ZSTD_d_windowLogMax, MT_INPUT_MAX_WINDOW_LOG);
    return 0;
}

int mt_input_open(const char *path, enum mt_compression compression, struct mt_input **result,
                  struct mt_error *error)
{
    *result = NULL;
    struct mt_input *input = calloc(1, sizeof *input);
    if (!input)
        return no_memory(path, error);
    input->compression = compression;
    mt_sha256_init(&input->hash);
    int r = mt_data_file_open(path, &input->file, error);
    if (r == 0)
        r = open_unpacker(input, error);
    if (r < 0) {
        mt_input_close(input);
        return r;
    }
    *result = input;
    return 0;
}

void mt_input_close(struct mt_input *input)
{
    if (!input)
        return;
    if (input->compression == MT_COMPRESSION_GZIP)
        inflateEnd(&input->gzip);
    ZSTD_freeDStream(input->zstd);
    free(input->piece);
    mt_data_file_close(&input->file);
    free(input);
}

const struct mt_data_file *mt_input_file(const struct mt_input *input)
{
    return &input->file;
}

uint64_t mt_input_bytes(const struct mt_input *input)
{
    return input->given;
}

/* Bytes as they lie in the file, hashed as they pass. */
static int read_file(struct mt_input *input, void *data, size_t bytes, size_t *got, struct mt_error *error)
{
    const uint64_t left = input->file.identity.bytes - input->offset;
    *got = left < bytes ? (size_t)left : bytes;
    int r = mt_data_file_read(&input->file, data, *got, input->offset, error);
    if (r < 0)
        return r;
    mt_sha256_update(&input->hash, data, *got);
    input->offset += *got;
    return 0;
}

static int damaged(const struct mt_input *input, const char *what, struct mt_error *error)
{
    return mt_error_set(error, -EINVAL, MT_REASON_BAD_DATA, "%s: the %s data is damaged (%s)",
                        input->file.path, input->compression == MT_COMPRESSION_GZIP ? "gzip" : "zstd", what);
}

static int inflate_some(struct mt_input *input, unsigned char *data, size_t bytes, size_t *got,
                        struct mt_error *error)
{
    z_stream *gzip = &input->gzip;
    gzip->next_in = input->piece + input->begin;
    gzip->avail_in = (uInt)(input->end - input->begin);
    gzip->next_out = data;
    gzip->avail_out = (uInt)mt_size_min(bytes, INT_MAX);
    const uInt room = gzip->avail_out;
    if (!input->inside) {
        if (gzip->next_in[0] == 0 && input->given > 0) { /* padding after the last member, as tar leaves it */
            input->begin++;
            *got = 0;
            return 0;
        }
        inflateReset(gzip);
        input->inside = true;
    }
    const int result = inflate(gzip, Z_NO_FLUSH);
    input->begin = input->end - gzip->avail_in;
    *got = room - gzip->avail_out;
    input->full = gzip->avail_out == 0;
    if (result == Z_STREAM_END)
        input->inside = false;
    else if (result == Z_MEM_ERROR)
        return no_memory(input->file.path, error);
    else if (result != Z_OK && result != Z_BUF_ERROR)
        return damaged(input, gzip->msg ? gzip->msg : "unknown block", error);
    return 0;
}

static int decompress_some(struct mt_input *input, unsigned char *data, size_t bytes, size_t *got,
                           struct mt_error *error)
{
    ZSTD_inBuffer in = {.src = input->piece, .size = input->end, .pos = input->begin};
    ZSTD_outBuffer out = {.dst = data, .size = bytes};
    const size_t result = ZSTD_decompressStream(input->zstd, &out, &in);
    input->begin = in.pos;
    *got = out.pos;
    input->full = out.pos == out.size;
    if (ZSTD_isError(result)) {
        if (ZSTD_getErrorCode(result) == ZSTD_error_frameParameter_windowTooLarge)
            return mt_error_set(error, -EFBIG, MT_REASON_BAD_DATA,
                                "%s: unpacking needs a window of more than 128 MiB; pack it again without "
                                "--ultra or with --long=27 at most",
                                input->file.path);
        return damaged(input, ZSTD_getErrorName(result), error);
    }
    input->inside = result != 0;
    return 0;
}

static int check_ratio(const struct mt_input *input, struct mt_error *error)
{
    if (input->given > MT_INPUT_FREE_BYTES && input->given / MT_INPUT_MAX_RATIO > input->offset)
        return mt_error_set(error, -EFBIG, MT_REASON_BAD_DATA,
                            "%s unpacks to more than %d times its size: this is no data but a decompression "
                            "bomb, or it must be unpacked first",
                            input->file.path, MT_INPUT_MAX_RATIO);
    return 0;
}

int mt_input_read(struct mt_input *input, void *data, size_t bytes, size_t *got, struct mt_error *error)
{
    *got = 0;
    int r = 0;
    if (input->compression == MT_COMPRESSION_NONE) {
        r = read_file(input, data, bytes, got, error);
        input->given += *got;
        return r;
    }
    while (*got == 0 && !input->ended && bytes > 0) {
        if (input->begin == input->end && !(input->inside && input->full)) {
            input->begin = input->end = 0;
            r = read_file(input, input->piece, PIECE_BYTES, &input->end, error);
            if (r < 0)
                return r;
            if (input->end == 0) {
                input->ended = true;
                return input->inside ? damaged(input, "it ends early: was it cut off?", error) : 0;
            }
        }
        r = input->compression == MT_COMPRESSION_GZIP ? inflate_some(input, data, bytes, got, error)
                                                      : decompress_some(input, data, bytes, got, error);
        if (r < 0)
            return r;
    }
    input->given += *got;
    return check_ratio(input, error);
}

int mt_input_finish(struct mt_input *input, unsigned char digest[32], struct mt_error *error)
{
    unsigned char *piece = malloc(PIECE_BYTES);
    if (!piece)
        return no_memory(input->file.path, error);
    size_t got = 1;
    int r = 0;
    while (r == 0 && got > 0)
        r = read_file(input, piece, PIECE_BYTES, &got, error);
    free(piece);
    if (r == 0)
        r = mt_data_file_check(&input->file, error);
    if (r == 0)
        mt_sha256_final(&input->hash, digest);
    return r;
}
