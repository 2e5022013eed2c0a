/* Protocol buffers are fields of a number and a wire type, in any order; what is not known is passed over. */
#include "core/text/sentencepiece_file.h"

#include "core/base/bytes.h"
#include "core/base/size.h"
#include "core/text/sentencepiece.h"

#include <stdlib.h>
#include <string.h>

#define MAX_PIECES ((size_t)1 << 24)

enum wire { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

struct reader {
    const char *data;
    size_t bytes, at;
};

struct field {
    uint64_t number;
    enum wire wire;
    uint64_t value; /* of a varint, or the bits of a fixed one */
    const char *data;
    size_t bytes;
};

static int read_varint(struct reader *reader, uint64_t *value)
{
    const size_t used = mt_varint_read(reader->data + reader->at, reader->bytes - reader->at, value);
    reader->at += used;
    return used ? 0 : -EINVAL;
}

static int take(struct reader *reader, uint64_t bytes, const char **data)
{
    if (bytes > reader->bytes - reader->at)
        return -EINVAL;
    *data = reader->data + reader->at;
    reader->at += (size_t)bytes;
    return 0;
}

/* 1, 0 at the end, -EINVAL. */
static int next_field(struct reader *reader, struct field *field)
{
    uint64_t tag;
    if (reader->at == reader->bytes)
        return 0;
    if (read_varint(reader, &tag) < 0 || tag >> 3 == 0)
        return -EINVAL;
    *field = (struct field){.number = tag >> 3, .wire = (enum wire)(tag & 7)};
    switch (field->wire) {
    case WIRE_VARINT:
        return read_varint(reader, &field->value) < 0 ? -EINVAL : 1;
    case WIRE_64:
    case WIRE_32: {
        const size_t width = field->wire == WIRE_64 ? 8 : 4;
        if (take(reader, width, &field->data) < 0)
            return -EINVAL;
        field->value = mt_little_endian(field->data, width);
        return 1;
    }
    case WIRE_BYTES:
        if (read_varint(reader, &field->value) < 0 || take(reader, field->value, &field->data) < 0)
            return -EINVAL;
        field->bytes = (size_t)field->value;
        return 1;
    default:
        return -EINVAL;
    }
}

static bool is(const struct field *field, uint64_t number, enum wire wire)
{
    return field->number == number && field->wire == wire;
}

static struct reader inside(const struct field *field)
{
    return (struct reader){.data = field->data, .bytes = field->bytes};
}

/* --- messages ---------------------------------------------------------------------------------------------
 */

static int read_piece(struct reader reader, struct mt_sentencepiece_file *file)
{
    struct mt_sentencepiece_file_piece piece = {.text = "", .type = MT_PIECE_NORMAL};
    struct field field;
    int r;
    while ((r = next_field(&reader, &field)) > 0) {
        if (is(&field, 1, WIRE_BYTES)) {
            piece.text = field.data;
            piece.bytes = field.bytes;
        } else if (is(&field, 2, WIRE_32)) {
            const uint32_t bits = (uint32_t)field.value;
            memcpy(&piece.score, &bits, sizeof bits);
        } else if (is(&field, 3, WIRE_VARINT)) {
            piece.type = field.value < 256 ? (unsigned char)field.value : 255;
        }
    }
    if (r < 0 || file->count == MAX_PIECES)
        return -EINVAL;
    if (file->count == file->capacity) {
        const size_t capacity = mt_size_max(2 * file->capacity, 4096);
        void *pieces = realloc(file->pieces, capacity * sizeof *file->pieces);
        if (!pieces)
            return -ENOMEM;
        file->pieces = pieces;
        file->capacity = capacity;
    }
    file->pieces[file->count++] = piece;
    return 0;
}

/* Negative numbers are written as if of 64 bits. */
static int64_t number_of(const struct field *field)
{
    return (int32_t)(uint32_t)field->value;
}

static int read_trainer(struct reader reader, struct mt_sentencepiece_file *file)
{
    struct field field;
    int r;
    while ((r = next_field(&reader, &field)) > 0) {
        if (field.wire != WIRE_VARINT)
            continue;
        switch (field.number) {
        case 3:
            file->model_type = number_of(&field);
            break;
        case 24:
            file->treat_whitespace_as_suffix = field.value;
            break;
        case 35:
            file->byte_fallback = field.value;
            break;
        case 41:
            file->begin = number_of(&field);
            break;
        case 42:
            file->end = number_of(&field);
            break;
        case 43:
            file->pad = number_of(&field);
            break;
        default:
            break;
        }
    }
    return r;
}

static int read_normalizer(struct reader reader, struct mt_sentencepiece_file *file)
{
    struct field field;
    int r;
    while ((r = next_field(&reader, &field)) > 0) {
        if (is(&field, 2, WIRE_BYTES)) {
            file->charsmap = field.data;
            file->charsmap_bytes = field.bytes;
        } else if (is(&field, 3, WIRE_VARINT)) {
            file->add_dummy_prefix = field.value;
        } else if (is(&field, 4, WIRE_VARINT)) {
            file->remove_extra_whitespaces = field.value;
        } else if (is(&field, 5, WIRE_VARINT)) {
            file->escape_whitespaces = field.value;
        }
    }
    return r;
}

static int read_denormalizer(struct reader reader, struct mt_sentencepiece_file *file)
{
    struct field field;
    int r;
    while ((r = next_field(&reader, &field)) > 0)
        file->denormalizes = file->denormalizes || (is(&field, 2, WIRE_BYTES) && field.bytes);
    return r;
}

static int read_model(struct reader reader, struct mt_sentencepiece_file *file)
{
    struct field field;
    int r, inner = 0;
    while (inner == 0 && (r = next_field(&reader, &field)) > 0) {
        if (is(&field, 1, WIRE_BYTES))
            inner = read_piece(inside(&field), file);
        else if (is(&field, 2, WIRE_BYTES))
            inner = read_trainer(inside(&field), file);
        else if (is(&field, 3, WIRE_BYTES))
            inner = read_normalizer(inside(&field), file);
        else if (is(&field, 5, WIRE_BYTES))
            inner = read_denormalizer(inside(&field), file);
    }
    return inner < 0 ? inner : r;
}

int mt_sentencepiece_file_parse(const char *data, size_t bytes, struct mt_sentencepiece_file *file,
                                struct mt_error *error)
{
    *file = (struct mt_sentencepiece_file){
        .model_type = 1,
        .add_dummy_prefix = true,
        .remove_extra_whitespaces = true,
        .escape_whitespaces = true,
        .begin = 1,
        .end = 2,
        .pad = -1,
    };
    int r = read_model((struct reader){.data = data, .bytes = bytes}, file);
    if (r == 0 && file->count)
        return 0;
    mt_sentencepiece_file_free(file);
    if (r == -ENOMEM)
        return mt_error_set(error, r, MT_REASON_OUT_OF_MEMORY, "out of memory for the tokenizer");
    return mt_error_set(error, -EINVAL, MT_REASON_BAD_MODEL,
                        "the file is damaged, or is no SentencePiece model");
}

void mt_sentencepiece_file_free(struct mt_sentencepiece_file *file)
{
    free(file->pieces);
    *file = (struct mt_sentencepiece_file){0};
}
