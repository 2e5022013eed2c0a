/* A SentencePiece `tokenizer.model`: the protocol buffer ModelProto of sentencepiece_model.proto. */
#ifndef MT_TEXT_SENTENCEPIECE_FILE_H
#define MT_TEXT_SENTENCEPIECE_FILE_H

#include "core/base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mt_sentencepiece_file_piece {
    const char *text; /* in the file's bytes */
    size_t bytes;
    float score;
    unsigned char type; /* enum mt_piece_type */
};

struct mt_sentencepiece_file {
    struct mt_sentencepiece_file_piece *pieces;
    size_t count, capacity;
    int64_t model_type; /* 1 unigram, 2 byte pair encoding */
    bool byte_fallback, add_dummy_prefix, remove_extra_whitespaces, escape_whitespaces;
    bool treat_whitespace_as_suffix;
    bool denormalizes; /* decoding goes by rules of its own */
    const char *charsmap;
    size_t charsmap_bytes;
    int64_t begin, end, pad; /* -1: none */
};

/* Reads it from the whole file's bytes, which must outlive it. MT_REASON_BAD_MODEL: damaged, too many pieces,
 * or no such file at all. */
int mt_sentencepiece_file_parse(const char *data, size_t bytes, struct mt_sentencepiece_file *file,
                                struct mt_error *error);
void mt_sentencepiece_file_free(struct mt_sentencepiece_file *file); /* leaves {0} */

#endif
