/* A column chunk of a Parquet file, entry by entry: pages are read and unpacked as their turn comes. See
 * parquet.h. */
#include "core/base/size.h"
#include "core/formats/parquet.h"
#include "core/formats/parquet_encoding.h"
#include "core/formats/thrift.h"

#include <stdlib.h>
#include <string.h>

#define MAX_PAGE_BYTES ((size_t)512 << 20)
#define FIRST_HEADER_BYTES ((size_t)256)
#define MAX_HEADER_BYTES ((size_t)16 << 20)

enum encoding {
    PLAIN = 0,
    PLAIN_DICTIONARY = 2,
    RLE = 3,
    DELTA_BINARY = 5,
    DELTA_LENGTH = 6,
    DELTA_BYTES = 7,
    RLE_DICTIONARY = 8,
    BYTE_STREAM_SPLIT = 9,
};

enum page_type { DATA_PAGE, INDEX_PAGE, DICTIONARY_PAGE, DATA_PAGE_V2 };

struct page_header {
    int64_t type, bytes, packed_bytes;
    int64_t num_values, encoding, definition_encoding, repetition_encoding;
    int64_t definition_bytes, repetition_bytes; /* of DATA_PAGE_V2 */
    bool packed;
};

struct buffer {
    uint8_t *data;
    size_t capacity;
};

struct mt_parquet_column {
    const struct mt_data_file *file;
    const struct mt_parquet_node *leaf;
    struct mt_parquet_chunk chunk;
    uint64_t at, end;     /* of the file: the next page, the chunk's end */
    uint64_t values_left; /* of the chunk, in pages that are not read yet */

    struct buffer packed, page, dictionary, joined;
    struct mt_parquet_bytes *words; /* the dictionary's values */
    size_t num_words;

    /* The page at hand: */
    uint64_t entries; /* left */
    bool peeked;
    uint32_t repetition, definition;
    struct mt_parquet_rle repetitions, definitions;
    enum encoding encoding;
    struct mt_parquet_bytes values;
    struct mt_parquet_rle indices; /* of a dictionary, or booleans */
    struct mt_parquet_delta delta, suffixes;
    size_t bit;              /* of plain booleans */
    size_t split, num_split; /* BYTE_STREAM_SPLIT: next value, of how many */
    size_t joined_bytes;     /* DELTA_BYTES: the value before */
};

struct mt_parquet_column *mt_parquet_column_new(const struct mt_data_file *file,
                                                const struct mt_parquet_node *leaf)
{
    struct mt_parquet_column *column = calloc(1, sizeof *column);
    if (column) {
        column->file = file;
        column->leaf = leaf;
    }
    return column;
}

void mt_parquet_column_free(struct mt_parquet_column *column)
{
    if (!column)
        return;
    free(column->packed.data);
    free(column->page.data);
    free(column->dictionary.data);
    free(column->joined.data);
    free(column->words);
    free(column);
}

void mt_parquet_column_begin(struct mt_parquet_column *column, const struct mt_parquet_chunk *chunk)
{
    column->chunk = *chunk;
    column->at = chunk->offset;
    column->end = chunk->offset + chunk->bytes;
    column->values_left = chunk->num_values;
    column->num_words = 0;
    column->entries = 0;
    column->peeked = false;
}

static int damaged(const struct mt_parquet_column *column, const char *what, struct mt_error *error)
{
    return mt_error_set(error, -EINVAL, MT_REASON_BAD_DATA,
                        "%s: the Parquet file is damaged: column \"%.*s\", page before byte %llu: %s",
                        column->file->path, (int)mt_size_min(column->leaf->name_bytes, 100),
                        column->leaf->name, (unsigned long long)column->at, what);
}

static int not_supported(const struct mt_parquet_column *column, const char *what, long long which,
                         struct mt_error *error)
{
    return mt_error_set(error, -ENOTSUP, MT_REASON_BAD_DATA,
                        "%s: column \"%.*s\": %s %lld of Parquet is not supported", column->file->path,
                        (int)mt_size_min(column->leaf->name_bytes, 100), column->leaf->name, what, which);
}

static bool reserve(struct buffer *buffer, size_t bytes)
{
    if (bytes <= buffer->capacity)
        return true;
    free(buffer->data);
    buffer->data = malloc(bytes);
    buffer->capacity = buffer->data ? bytes : 0;
    return buffer->data != NULL;
}

static int no_memory(const struct mt_parquet_column *column, struct mt_error *error)
{
    return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory for a page of %s",
                        column->file->path);
}

/* --- pages ------------------------------------------------------------------------------------------------
 */

static void read_page_kind(struct mt_thrift *thrift, int16_t kind, struct page_header *header)
{
    struct mt_thrift_field field = {0};
    while (mt_thrift_next(thrift, &field)) {
        int64_t ignored, *value = &ignored;
        if (field.id == 1)
            value = &header->num_values;
        else if (field.id == (kind == 8 ? 4 : 2))
            value = &header->encoding;
        else if (kind == 5 && field.id == 3)
            value = &header->definition_encoding;
        else if (kind == 5 && field.id == 4)
            value = &header->repetition_encoding;
        else if (kind == 8 && field.id == 5)
            value = &header->definition_bytes;
        else if (kind == 8 && field.id == 6)
            value = &header->repetition_bytes;
        if (kind == 8 && field.id == 7)
            header->packed = mt_thrift_integer(thrift, field.type) != 0;
        else if (value == &ignored)
            mt_thrift_skip(thrift, field.type);
        else
            *value = mt_thrift_integer(thrift, field.type);
    }
}

static size_t parse_header(const uint8_t *data, size_t bytes, struct page_header *header)
{
    struct mt_thrift thrift = {.at = data, .end = data + bytes};
    struct mt_thrift_field field = {0};
    *header = (struct page_header){
        .type = -1, .definition_encoding = RLE, .repetition_encoding = RLE, .packed = true};
    while (mt_thrift_next(&thrift, &field)) {
        if (field.id == 1)
            header->type = mt_thrift_integer(&thrift, field.type);
        else if (field.id == 2)
            header->bytes = mt_thrift_integer(&thrift, field.type);
        else if (field.id == 3)
            header->packed_bytes = mt_thrift_integer(&thrift, field.type);
        else if ((field.id == 5 || field.id == 7 || field.id == 8) && field.type == MT_THRIFT_STRUCT)
            read_page_kind(&thrift, field.id, header);
        else
            mt_thrift_skip(&thrift, field.type);
    }
    return thrift.bad ? 0 : (size_t)(thrift.at - data);
}

/* The header at column->at, which moves behind it. Headers say their length nowhere: read more until one is
 * whole. */
static int read_header(struct mt_parquet_column *column, struct page_header *header, struct mt_error *error)
{
    const uint64_t left = column->end - column->at;
    for (size_t bytes = FIRST_HEADER_BYTES;; bytes *= 4) {
        const size_t part = left < bytes ? (size_t)left : bytes;
        if (!reserve(&column->packed, part))
            return no_memory(column, error);
        int r = mt_data_file_read(column->file, column->packed.data, part, column->at, error);
        if (r < 0)
            return r;
        const size_t used = parse_header(column->packed.data, part, header);
        if (used) {
            column->at += used;
            break;
        }
        if (part == left || bytes >= MAX_HEADER_BYTES)
            return damaged(column, "its header makes no sense", error);
    }
    if (header->bytes < 0 || header->packed_bytes < 0 || header->num_values < 0 ||
        (uint64_t)header->packed_bytes > column->end - column->at)
        return damaged(column, "its sizes do not fit into the column", error);
    if ((size_t)header->bytes > MAX_PAGE_BYTES)
        return damaged(column, "it says that it holds more than 512 MiB", error);
    return 0;
}

static int codec_of(const struct mt_parquet_column *column, enum mt_codec *codec, struct mt_error *error)
{
    static const int codecs[] = {MT_CODEC_NONE,       MT_CODEC_SNAPPY, MT_CODEC_GZIP,   -1, -1,
                                 MT_CODEC_LZ4_HADOOP, MT_CODEC_ZSTD,   MT_CODEC_LZ4_RAW};
    const int which = column->chunk.codec;
    if (which < 0 || (size_t)which >= sizeof codecs / sizeof *codecs || codecs[which] < 0)
        return which == 3 || which == 4
                   ? mt_error_set(
                         error, -ENOTSUP, MT_REASON_BAD_DATA,
                         "%s: Parquet packed by %s is not supported; write it with Zstandard or Snappy",
                         column->file->path, which == 3 ? "LZO" : "Brotli")
                   : not_supported(column, "compression", which, error);
    *codec = (enum mt_codec)codecs[which];
    return 0;
}

/* Unpacks the page that `header` tells of; `plain` bytes at its beginning are not packed. */
static int load_page(struct mt_parquet_column *column, const struct page_header *header, size_t plain,
                     struct buffer *page, struct mt_error *error)
{
    const size_t packed_bytes = (size_t)header->packed_bytes, bytes = (size_t)header->bytes;
    enum mt_codec codec = MT_CODEC_NONE;
    int r = codec_of(column, &codec, error);
    if (r < 0)
        return r;
    if (plain > packed_bytes || plain > bytes)
        return damaged(column, "its levels do not fit into it", error);
    if (!header->packed)
        codec = MT_CODEC_NONE;
    if (!reserve(&column->packed, packed_bytes + 1))
        return no_memory(column, error);
    r = mt_data_file_read(column->file, column->packed.data, packed_bytes, column->at, error);
    if (r < 0)
        return r;
    column->at += packed_bytes;
    if (codec == MT_CODEC_NONE && packed_bytes != bytes)
        return damaged(column, "its sizes contradict each other", error);
    if (!reserve(page, bytes + 1))
        return no_memory(column, error);
    memcpy(page->data, column->packed.data, plain);
    if (bytes == plain) /* nothing but nulls: some writers pack nothing to nothing */
        return 0;
    r = mt_codec_unpack(codec, column->packed.data + plain, packed_bytes - plain, page->data + plain,
                        bytes - plain, error);
    return r < 0 ? damaged(column, "it does not unpack to the size that it names", error) : 0;
}

/* The next PLAIN value, as bytes; not for booleans. */
static bool plain_value(const struct mt_parquet_node *leaf, struct mt_parquet_bytes *from,
                        struct mt_parquet_bytes *value)
{
    static const uint8_t widths[] = {[MT_PARQUET_INT32] = 4,
                                     [MT_PARQUET_INT64] = 8,
                                     [MT_PARQUET_INT96] = 12,
                                     [MT_PARQUET_FLOAT] = 4,
                                     [MT_PARQUET_DOUBLE] = 8};
    uint64_t bytes;
    if (leaf->type == MT_PARQUET_BYTES) {
        if (!mt_parquet_fixed(from, 4, &bytes))
            return false;
    } else {
        bytes = leaf->type == MT_PARQUET_FIXED ? leaf->width : widths[leaf->type];
    }
    value->at = from->at;
    if (!mt_parquet_skip(from, (size_t)bytes))
        return false;
    value->end = from->at;
    return true;
}

static int load_dictionary(struct mt_parquet_column *column, const struct page_header *header,
                           struct mt_error *error)
{
    if (header->encoding != PLAIN && header->encoding != PLAIN_DICTIONARY)
        return not_supported(column, "the dictionary's encoding", header->encoding, error);
    if (column->leaf->type == MT_PARQUET_BOOLEAN)
        return damaged(column, "a dictionary of booleans", error);
    int r = load_page(column, header, 0, &column->dictionary, error);
    if (r < 0)
        return r;
    if (header->num_values > header->bytes) /* each takes a byte at least */
        return damaged(column, "its dictionary holds less than it says", error);
    free(column->words);
    column->num_words = 0;
    column->words = malloc(((size_t)header->num_values + 1) * sizeof *column->words);
    if (!column->words)
        return no_memory(column, error);
    struct mt_parquet_bytes from = {column->dictionary.data, column->dictionary.data + header->bytes};
    for (; column->num_words < (size_t)header->num_values; column->num_words++)
        if (!plain_value(column->leaf, &from, &column->words[column->num_words]))
            return damaged(column, "its dictionary holds less than it says", error);
    return 0;
}

static unsigned level_width(unsigned max_level)
{
    return max_level ? 32 - (unsigned)__builtin_clz(max_level) : 0;
}

/* Levels of a data page of version 1: behind their length, where there are any. */
static bool begin_levels(struct mt_parquet_bytes *page, unsigned max_level, struct mt_parquet_rle *levels)
{
    uint64_t bytes;
    if (!max_level)
        return true;
    if (!mt_parquet_fixed(page, 4, &bytes))
        return false;
    const uint8_t *begin = page->at;
    if (!mt_parquet_skip(page, (size_t)bytes))
        return false;
    mt_parquet_rle_begin(levels, (struct mt_parquet_bytes){begin, page->at}, level_width(max_level));
    return true;
}

static int begin_values(struct mt_parquet_column *column, int64_t encoding, struct mt_error *error)
{
    const enum mt_parquet_type type = column->leaf->type;
    struct mt_parquet_bytes *values = &column->values;
    bool fine = true;
    column->encoding = (enum encoding)encoding;
    column->bit = 0;
    /* Those of the page before point into its bytes: a page without values has none. */
    column->indices = (struct mt_parquet_rle){0};
    column->delta = column->suffixes = (struct mt_parquet_delta){0};
    switch (encoding) {
    case PLAIN:
        return 0;
    case PLAIN_DICTIONARY:
    case RLE_DICTIONARY: {
        uint64_t width = 0;
        column->encoding = RLE_DICTIONARY;
        if (values->at < values->end) /* a page of nulls alone may have no width */
            fine = mt_parquet_fixed(values, 1, &width) && width <= 32;
        mt_parquet_rle_begin(&column->indices, *values, (unsigned)width);
        break;
    }
    case RLE:
        if (type != MT_PARQUET_BOOLEAN)
            return not_supported(column, "encoding", encoding, error);
        if (values->at < values->end)
            fine = begin_levels(values, 1, &column->indices);
        break;
    case DELTA_BINARY:
        fine = (type == MT_PARQUET_INT32 || type == MT_PARQUET_INT64) &&
               (values->at == values->end || mt_parquet_delta_begin(&column->delta, *values));
        break;
    case DELTA_LENGTH:
        fine = type == MT_PARQUET_BYTES &&
               (values->at == values->end || (mt_parquet_delta_begin(&column->delta, *values) &&
                                              mt_parquet_delta_end(column->delta, values)));
        break;
    case DELTA_BYTES:
        column->joined_bytes = 0;
        fine =
            (type == MT_PARQUET_BYTES || type == MT_PARQUET_FIXED) &&
            (values->at == values->end || (mt_parquet_delta_begin(&column->delta, *values) &&
                                           mt_parquet_delta_end(column->delta, values) &&
                                           mt_parquet_delta_begin(&column->suffixes, *values) &&
                                           mt_parquet_delta_end(column->suffixes, values) &&
                                           reserve(&column->joined, (size_t)(values->end - values->at) + 1)));
        break;
    case BYTE_STREAM_SPLIT: {
        const size_t width = type == MT_PARQUET_FIXED                                ? column->leaf->width
                             : type == MT_PARQUET_INT32 || type == MT_PARQUET_FLOAT  ? 4
                             : type == MT_PARQUET_INT64 || type == MT_PARQUET_DOUBLE ? 8
                                                                                     : 0;
        fine = width && (size_t)(values->end - values->at) % width == 0 && reserve(&column->joined, width);
        column->split = 0;
        column->num_split = fine ? (size_t)(values->end - values->at) / width : 0;
        column->joined_bytes = width;
        break;
    }
    default:
        return not_supported(column, "encoding", encoding, error);
    }
    return fine ? 0 : damaged(column, "its values make no sense", error);
}

static int load_data(struct mt_parquet_column *column, const struct page_header *header,
                     struct mt_error *error)
{
    const struct mt_parquet_node *leaf = column->leaf;
    const bool second = header->type == DATA_PAGE_V2;
    if ((uint64_t)header->num_values > column->values_left)
        return damaged(column, "it holds more values than the column", error);
    if (!second && ((leaf->max_definition && header->definition_encoding != RLE) ||
                    (leaf->max_repetition && header->repetition_encoding != RLE)))
        return not_supported(column, "the levels' encoding", 4, error);
    if (header->definition_bytes < 0 || header->repetition_bytes < 0 ||
        header->definition_bytes > header->bytes || header->repetition_bytes > header->bytes)
        return damaged(column, "its levels do not fit into it", error);
    const size_t levels = second ? (size_t)(header->definition_bytes + header->repetition_bytes) : 0;
    int r = load_page(column, header, levels, &column->page, error);
    if (r < 0)
        return r;
    struct mt_parquet_bytes page = {column->page.data, column->page.data + header->bytes};
    if (second) {
        const uint8_t *definitions = page.at + header->repetition_bytes;
        mt_parquet_rle_begin(&column->repetitions, (struct mt_parquet_bytes){page.at, definitions},
                             level_width(leaf->max_repetition));
        mt_parquet_rle_begin(&column->definitions, (struct mt_parquet_bytes){definitions, page.at + levels},
                             level_width(leaf->max_definition));
        page.at += levels;
    } else if (!begin_levels(&page, leaf->max_repetition, &column->repetitions) ||
               !begin_levels(&page, leaf->max_definition, &column->definitions)) {
        return damaged(column, "its levels do not fit into it", error);
    }
    column->values = page;
    column->entries = (uint64_t)header->num_values;
    column->values_left -= column->entries;
    return begin_values(column, header->encoding, error);
}

/* Goes to the next data page that holds something: 1, or 0 at the chunk's end. */
static int next_page(struct mt_parquet_column *column, struct mt_error *error)
{
    while (!column->entries && column->values_left) {
        struct page_header header;
        if (column->at == column->end)
            return damaged(column, "the column ends early", error);
        int r = read_header(column, &header, error);
        if (r < 0)
            return r;
        if (header.type == DATA_PAGE || header.type == DATA_PAGE_V2)
            r = load_data(column, &header, error);
        else if (header.type == DICTIONARY_PAGE)
            r = load_dictionary(column, &header, error);
        else
            column->at += (uint64_t)header.packed_bytes;
        if (r < 0)
            return r;
    }
    return column->entries > 0;
}

/* --- entries ----------------------------------------------------------------------------------------------
 */

int mt_parquet_column_peek(struct mt_parquet_column *column, unsigned *repetition, unsigned *definition,
                           struct mt_error *error)
{
    const struct mt_parquet_node *leaf = column->leaf;
    if (!column->peeked) {
        if (!column->entries) {
            int r = next_page(column, error);
            if (r <= 0)
                return r;
        }
        column->repetition = column->definition = 0;
        if ((leaf->max_repetition && !mt_parquet_rle_next(&column->repetitions, &column->repetition)) ||
            (leaf->max_definition && !mt_parquet_rle_next(&column->definitions, &column->definition)) ||
            column->repetition > leaf->max_repetition || column->definition > leaf->max_definition)
            return damaged(column, "its levels make no sense", error);
        column->peeked = true;
    }
    *repetition = column->repetition;
    *definition = column->definition;
    return 1;
}

/* DELTA_BYTES: the beginning of the value before, and a rest of its own. */
static bool join_value(struct mt_parquet_column *column, struct mt_parquet_bytes *bytes)
{
    int64_t prefix, suffix;
    if (!mt_parquet_delta_next(&column->delta, &prefix) ||
        !mt_parquet_delta_next(&column->suffixes, &suffix) || prefix < 0 ||
        (uint64_t)prefix > column->joined_bytes || suffix < 0)
        return false;
    const uint8_t *rest = column->values.at;
    /* A value is never longer than all suffixes up to it: it fits. */
    if (!mt_parquet_skip(&column->values, (size_t)suffix))
        return false;
    memcpy(column->joined.data + prefix, rest, (size_t)suffix);
    column->joined_bytes = (size_t)prefix + (size_t)suffix;
    *bytes = (struct mt_parquet_bytes){column->joined.data, column->joined.data + column->joined_bytes};
    return true;
}

static bool split_value(struct mt_parquet_column *column, struct mt_parquet_bytes *bytes)
{
    if (column->split == column->num_split)
        return false;
    for (size_t i = 0; i < column->joined_bytes; i++)
        column->joined.data[i] = column->values.at[i * column->num_split + column->split];
    column->split++;
    *bytes = (struct mt_parquet_bytes){column->joined.data, column->joined.data + column->joined_bytes};
    return true;
}

static bool boolean_value(struct mt_parquet_column *column, int64_t *value)
{
    uint32_t bit;
    if (column->encoding == RLE) {
        if (!mt_parquet_rle_next(&column->indices, &bit))
            return false;
        *value = bit;
        return true;
    }
    if (column->encoding != PLAIN || column->bit / 8 >= (size_t)(column->values.end - column->values.at))
        return false;
    *value = column->values.at[column->bit / 8] >> column->bit % 8 & 1;
    column->bit++;
    return true;
}

/* The bytes of the next value, by the page's encoding. */
static bool value_bytes(struct mt_parquet_column *column, struct mt_parquet_bytes *bytes)
{
    uint32_t index;
    int64_t length;
    switch (column->encoding) {
    case PLAIN:
        return plain_value(column->leaf, &column->values, bytes);
    case RLE_DICTIONARY:
        if (!mt_parquet_rle_next(&column->indices, &index) || index >= column->num_words)
            return false;
        *bytes = column->words[index];
        return true;
    case DELTA_LENGTH:
        if (!mt_parquet_delta_next(&column->delta, &length) || length < 0)
            return false;
        bytes->at = column->values.at;
        if (!mt_parquet_skip(&column->values, (size_t)length))
            return false;
        bytes->end = column->values.at;
        return true;
    case DELTA_BYTES:
        return join_value(column, bytes);
    case BYTE_STREAM_SPLIT:
        return split_value(column, bytes);
    case PLAIN_DICTIONARY:
    case RLE:
    case DELTA_BINARY:
        break;
    }
    return false;
}

static bool read_value(struct mt_parquet_column *column, struct mt_parquet_value *value)
{
    const enum mt_parquet_type type = column->leaf->type;
    struct mt_parquet_bytes bytes;
    if (type == MT_PARQUET_BOOLEAN)
        return boolean_value(column, &value->integer);
    if (column->encoding == DELTA_BINARY) {
        if (!mt_parquet_delta_next(&column->delta, &value->integer))
            return false;
        if (type == MT_PARQUET_INT32)
            value->integer = (int32_t)value->integer;
        return true;
    }
    if (!value_bytes(column, &bytes) ||
        (type == MT_PARQUET_FIXED && (size_t)(bytes.end - bytes.at) != column->leaf->width))
        return false;
    value->data = bytes.at;
    value->bytes = (size_t)(bytes.end - bytes.at);
    int32_t small;
    float single;
    switch (type) {
    case MT_PARQUET_INT32:
        memcpy(&small, bytes.at, sizeof small);
        value->integer = small;
        break;
    case MT_PARQUET_INT64:
        memcpy(&value->integer, bytes.at, sizeof value->integer);
        break;
    case MT_PARQUET_FLOAT:
        memcpy(&single, bytes.at, sizeof single);
        value->real = (double)single;
        break;
    case MT_PARQUET_DOUBLE:
        memcpy(&value->real, bytes.at, sizeof value->real);
        break;
    default:
        break;
    }
    return true;
}

int mt_parquet_column_take(struct mt_parquet_column *column, struct mt_parquet_value *value,
                           struct mt_error *error)
{
    *value = (struct mt_parquet_value){0};
    column->peeked = false;
    column->entries--;
    if (column->definition == column->leaf->max_definition && !read_value(column, value))
        return damaged(column, "its values end early, or make no sense", error);
    return 0;
}
