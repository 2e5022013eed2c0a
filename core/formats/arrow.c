/* Messages of Arrow's IPC formats: schema, dictionaries and record batches. See arrow.h. */
#include "core/formats/arrow.h"

#include "core/base/bytes.h"
#include "core/base/size.h"
#include "core/formats/codec.h"
#include "core/formats/flatbuffer.h"

#include <stdlib.h>
#include <string.h>

#define MAGIC "ARROW1"
#define MAX_MESSAGE_BYTES ((uint64_t)64 << 20)
#define MAX_UNPACKED_BYTES ((uint64_t)512 << 20) /* of one packed buffer */
#define WINDOW_BYTES ((uint64_t)64 << 10)
#define MAX_DEPTH 64
#define MAX_FIELDS 100000

enum { HEADER_SCHEMA = 1, HEADER_DICTIONARY, HEADER_BATCH };

static int no_memory(const struct mt_arrow *arrow, struct mt_error *error)
{
    return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory while reading %s",
                        arrow->file->path);
}

static int damaged(const struct mt_arrow *arrow, const char *what, struct mt_error *error)
{
    return mt_error_set(error, -EINVAL, MT_REASON_BAD_DATA, "%s: the Arrow file is damaged: %s",
                        arrow->file->path, what);
}

static int not_supported(const struct mt_arrow *arrow, const char *what, struct mt_error *error)
{
    return mt_error_set(error, -ENOTSUP, MT_REASON_BAD_DATA,
                        "%s: Arrow's %s are not supported; write the data as Parquet", arrow->file->path,
                        what);
}

/* --- buffers ----------------------------------------------------------------------------------------------
 */

static bool reserve(struct mt_arrow_buffer *buffer, uint64_t bytes)
{
    if (bytes <= buffer->capacity)
        return true;
    free(buffer->data);
    buffer->data = malloc((size_t)bytes);
    buffer->capacity = buffer->data ? (size_t)bytes : 0;
    buffer->held = 0;
    return buffer->data != NULL;
}

const uint8_t *mt_arrow_bytes(const struct mt_arrow *arrow, struct mt_arrow_buffer *buffer, uint64_t offset,
                              uint64_t bytes, struct mt_error *error)
{
    static const uint8_t nothing[1];
    if (offset > buffer->bytes || bytes > buffer->bytes - offset) {
        damaged(arrow, "a value lies outside of its buffer", error);
        return NULL;
    }
    if (bytes == 0)
        return nothing;
    if (offset >= buffer->begin && offset - buffer->begin <= buffer->held &&
        bytes <= buffer->held - (offset - buffer->begin))
        return buffer->data + (offset - buffer->begin);
    uint64_t window = bytes > WINDOW_BYTES ? bytes : WINDOW_BYTES;
    if (window > buffer->bytes - offset)
        window = buffer->bytes - offset;
    if (!reserve(buffer, window)) {
        no_memory(arrow, error);
        return NULL;
    }
    if (mt_data_file_read(arrow->file, buffer->data, (size_t)window, buffer->offset + offset, error) < 0)
        return NULL;
    buffer->begin = offset;
    buffer->held = window;
    return buffer->data;
}

/* --- schema -----------------------------------------------------------------------------------------------
 */

struct schema {
    struct mt_arrow *arrow;
    const struct mt_flatbuffer *message;
    size_t num_fields;
    struct mt_error *error;
};

static int64_t units(int64_t unit)
{
    static const int64_t per_second[] = {1, 1000, 1000000, 1000000000};
    return unit >= 0 && unit < 4 ? per_second[unit] : 0;
}

/* The type's own table at `type`. */
static bool read_type(const struct mt_flatbuffer *message, size_t type, struct mt_arrow_field *field)
{
    int64_t width = 0;
    switch (field->type) {
    case MT_ARROW_INT:
        width = mt_flat_integer(message, type, 0, 4, 0);
        field->is_signed = mt_flat_integer(message, type, 1, 1, 0);
        field->width = (size_t)width;
        return width == 8 || width == 16 || width == 32 || width == 64;
    case MT_ARROW_FLOAT:
        width = mt_flat_integer(message, type, 0, 2, 0);
        field->width = (size_t)16 << (width & 3);
        return width >= 0 && width <= 2;
    case MT_ARROW_DECIMAL:
        field->scale = (int32_t)mt_flat_integer(message, type, 1, 4, 0);
        width = mt_flat_integer(message, type, 2, 4, 128);
        field->width = (size_t)width;
        return field->scale >= 0 && (width == 32 || width == 64 || width == 128 || width == 256);
    case MT_ARROW_DATE:
        field->millis = mt_flat_integer(message, type, 0, 2, 1) == 1;
        field->width = field->millis ? 64 : 32;
        return true;
    case MT_ARROW_TIME:
        field->units_per_second = units(mt_flat_integer(message, type, 0, 2, 1));
        width = mt_flat_integer(message, type, 1, 4, 32);
        field->width = (size_t)width;
        return field->units_per_second && (width == 32 || width == 64);
    case MT_ARROW_TIMESTAMP:
        field->units_per_second = units(mt_flat_integer(message, type, 0, 2, 0));
        field->utc = mt_flat_table(message, type, 1) != 0;
        field->width = 64;
        return field->units_per_second;
    case MT_ARROW_DURATION:
        field->width = 64;
        field->is_signed = true;
        return true;
    case MT_ARROW_INTERVAL:
        width = mt_flat_integer(message, type, 0, 2, 0);
        field->width = width == 0 ? 4 : width == 1 ? 8 : 16;
        return width >= 0 && width <= 2;
    case MT_ARROW_FIXED_BINARY:
    case MT_ARROW_FIXED_LIST:
        width = mt_flat_integer(message, type, 0, 4, 0);
        field->width = (size_t)width;
        return width >= 0 && width <= 1 << 24;
    default:
        return true;
    }
}

static bool right_children(const struct mt_arrow_field *field)
{
    switch (field->type) {
    case MT_ARROW_LIST:
    case MT_ARROW_LARGE_LIST:
    case MT_ARROW_LIST_VIEW:
    case MT_ARROW_LARGE_LIST_VIEW:
    case MT_ARROW_FIXED_LIST:
        return field->num_children == 1;
    case MT_ARROW_MAP:
        return field->num_children == 1 && field->children[0].type == MT_ARROW_STRUCT &&
               field->children[0].num_children == 2;
    case MT_ARROW_STRUCT:
        return true;
    default:
        return field->num_children == 0;
    }
}

static int read_children(struct schema *schema, size_t table, unsigned which, struct mt_arrow_field *field,
                         unsigned depth);

/* A field of a dictionary is its indices; the values are a field beside it. */
static int split_dictionary(struct schema *schema, size_t encoding, struct mt_arrow_field *field)
{
    const struct mt_flatbuffer *message = schema->message;
    struct mt_arrow_field *values = mt_arena_alloc(schema->arrow->arena, 1, sizeof *values);
    if (!values)
        return no_memory(schema->arrow, schema->error);
    *values = *field;
    *field = (struct mt_arrow_field){
        .name = values->name,
        .name_bytes = values->name_bytes,
        .type = MT_ARROW_INT,
        .width = 32,
        .is_signed = true,
        .dictionary = values,
        .dictionary_id = mt_flat_integer(message, encoding, 0, 8, 0),
    };
    const size_t type = mt_flat_table(message, encoding, 1);
    if (type && !read_type(message, type, field))
        return damaged(schema->arrow, "the indices of a dictionary have an unknown type", schema->error);
    return 0;
}

static int read_field(struct schema *schema, size_t table, struct mt_arrow_field *field, unsigned depth)
{
    const struct mt_flatbuffer *message = schema->message;
    if (!table || depth == MAX_DEPTH || ++schema->num_fields > MAX_FIELDS)
        return damaged(schema->arrow, "its schema makes no sense", schema->error);
    const size_t name = mt_flat_vector(message, table, 0, 1, &field->name_bytes);
    field->name =
        name ? mt_arena_strndup(schema->arrow->arena, (const char *)message->data + name, field->name_bytes)
             : "";
    if (!field->name)
        return no_memory(schema->arrow, schema->error);
    field->type = (enum mt_arrow_type)mt_flat_integer(message, table, 2, 1, 0);
    if (field->type == MT_ARROW_UNION || field->type == MT_ARROW_RUN_ENDS)
        return not_supported(schema->arrow,
                             field->type == MT_ARROW_UNION ? "unions" : "run-end encoded columns",
                             schema->error);
    if (field->type < MT_ARROW_NULL || field->type > MT_ARROW_LARGE_LIST_VIEW ||
        !read_type(message, mt_flat_table(message, table, 3), field))
        return damaged(schema->arrow, "a column has an unknown type", schema->error);
    int r = read_children(schema, table, 5, field, depth);
    if (r < 0)
        return r;
    if (!right_children(field))
        return damaged(schema->arrow, "its schema makes no sense", schema->error);
    const size_t encoding = mt_flat_table(message, table, 4);
    return encoding ? split_dictionary(schema, encoding, field) : 0;
}

static int read_children(struct schema *schema, size_t table, unsigned which, struct mt_arrow_field *field,
                         unsigned depth)
{
    size_t count;
    const size_t first = mt_flat_vector(schema->message, table, which, 4, &count);
    if (count > MAX_FIELDS)
        return damaged(schema->arrow, "its schema makes no sense", schema->error);
    field->children = mt_arena_alloc(schema->arrow->arena, count, sizeof *field->children);
    if (!field->children)
        return no_memory(schema->arrow, schema->error);
    int r = 0;
    for (; r == 0 && field->num_children < count; field->num_children++)
        r = read_field(schema, mt_flat_follow(schema->message, first + 4 * field->num_children),
                       &field->children[field->num_children], depth + 1);
    return r;
}

/* --- record batches ---------------------------------------------------------------------------------------
 */

struct batch {
    struct mt_arrow *arrow;
    const struct mt_flatbuffer *message;
    uint64_t body, body_bytes; /* in the file */
    size_t nodes, num_nodes, next_node;
    size_t buffers, num_buffers, next_buffer;
    size_t variadic, num_variadic, next_variadic;
    enum mt_codec codec;
    bool whole; /* everything into memory: dictionaries are looked up at random */
    struct mt_error *error;
};

static int load_packed(const struct batch *batch, struct mt_arrow_buffer *buffer, uint64_t packed_bytes)
{
    struct mt_arrow *arrow = batch->arrow;
    uint8_t *packed = malloc((size_t)packed_bytes);
    int64_t bytes;
    if (!packed)
        return no_memory(arrow, batch->error);
    int r = mt_data_file_read(arrow->file, packed, (size_t)packed_bytes, buffer->offset, batch->error);
    memcpy(&bytes, packed, sizeof bytes);
    const bool plain = bytes == -1;
    if (plain)
        bytes = (int64_t)packed_bytes - 8;
    if (r == 0 && (bytes < 0 || (uint64_t)bytes > MAX_UNPACKED_BYTES))
        r = damaged(arrow, "a packed buffer says that it holds more than 512 MiB", batch->error);
    if (r == 0 && !reserve(buffer, (uint64_t)bytes + 1))
        r = no_memory(arrow, batch->error);
    if (r == 0 && bytes > 0 &&
        mt_codec_unpack(plain ? MT_CODEC_NONE : batch->codec, packed + 8, (size_t)packed_bytes - 8,
                        buffer->data, (size_t)bytes, batch->error) < 0)
        r = damaged(arrow, "a buffer does not unpack to the size that it names", batch->error);
    free(packed);
    buffer->bytes = buffer->held = (uint64_t)bytes;
    buffer->begin = 0;
    return r;
}

static int next_buffer(struct batch *batch, const struct mt_arrow_field *field,
                       struct mt_arrow_buffer *buffer)
{
    struct mt_arrow *arrow = batch->arrow;
    if (batch->next_buffer == batch->num_buffers)
        return damaged(arrow, "a record batch has too few buffers", batch->error);
    const size_t at = batch->buffers + 16 * batch->next_buffer++;
    const uint64_t offset = mt_flat_number(batch->message, at, 8),
                   bytes = mt_flat_number(batch->message, at + 8, 8);
    if (offset > batch->body_bytes || bytes > batch->body_bytes - offset)
        return damaged(arrow, "a buffer lies outside of its record batch", batch->error);
    buffer->offset = batch->body + offset;
    buffer->bytes = bytes;
    buffer->begin = buffer->held = 0;
    if (field->unused)
        return 0;
    if (batch->codec != MT_CODEC_NONE && bytes > 0)
        return bytes < 8 ? damaged(arrow, "a packed buffer is too short", batch->error)
                         : load_packed(batch, buffer, bytes);
    if (!batch->whole)
        return 0;
    if (bytes > MAX_UNPACKED_BYTES)
        return damaged(arrow, "a dictionary of more than 512 MiB", batch->error);
    if (!reserve(buffer, bytes + 1))
        return no_memory(arrow, batch->error);
    buffer->held = bytes;
    return mt_data_file_read(arrow->file, buffer->data, (size_t)bytes, buffer->offset, batch->error);
}

static void free_array(struct mt_arrow_field *field);

static int load_views(struct batch *batch, struct mt_arrow_field *field)
{
    if (batch->next_variadic == batch->num_variadic)
        return damaged(batch->arrow, "a record batch has too few buffers", batch->error);
    const uint64_t count = mt_flat_number(batch->message, batch->variadic + 8 * batch->next_variadic++, 8);
    if (count > batch->num_buffers)
        return damaged(batch->arrow, "a record batch has too few buffers", batch->error);
    for (size_t i = 0; i < field->num_variadic; i++)
        free(field->variadic[i].data);
    free(field->variadic);
    field->num_variadic = 0;
    field->variadic = calloc((size_t)count + 1, sizeof *field->variadic);
    if (!field->variadic)
        return no_memory(batch->arrow, batch->error);
    int r = 0;
    for (; r == 0 && field->num_variadic < count; field->num_variadic++)
        r = next_buffer(batch, field, &field->variadic[field->num_variadic]);
    return r;
}

static size_t num_buffers(enum mt_arrow_type type)
{
    switch (type) {
    case MT_ARROW_NULL:
        return 0;
    case MT_ARROW_STRUCT:
    case MT_ARROW_FIXED_LIST:
        return 1;
    case MT_ARROW_BINARY:
    case MT_ARROW_UTF8:
    case MT_ARROW_LARGE_BINARY:
    case MT_ARROW_LARGE_UTF8:
    case MT_ARROW_LIST_VIEW:
    case MT_ARROW_LARGE_LIST_VIEW:
        return 3;
    default:
        return 2;
    }
}

/* The array of a field: nodes and buffers come depth first. */
static int load_array(struct batch *batch, struct mt_arrow_field *field)
{
    if (batch->next_node == batch->num_nodes)
        return damaged(batch->arrow, "a record batch has too few columns", batch->error);
    const size_t at = batch->nodes + 16 * batch->next_node++;
    field->length = mt_flat_number(batch->message, at, 8);
    field->nulls = mt_flat_number(batch->message, at + 8, 8);
    if (field->length > INT64_MAX || field->nulls > field->length)
        return damaged(batch->arrow, "a column has no length that makes sense", batch->error);
    int r = 0;
    for (size_t i = 0; r == 0 && i < num_buffers(field->type); i++)
        r = next_buffer(batch, field, &field->buffers[i]);
    if (r == 0 && (field->type == MT_ARROW_BINARY_VIEW || field->type == MT_ARROW_UTF8_VIEW))
        r = load_views(batch, field);
    for (size_t i = 0; r == 0 && i < field->num_children; i++)
        r = load_array(batch, &field->children[i]);
    return r;
}

static int begin_batch(struct batch *batch, size_t table)
{
    const struct mt_flatbuffer *message = batch->message;
    batch->nodes = mt_flat_vector(message, table, 1, 16, &batch->num_nodes);
    batch->buffers = mt_flat_vector(message, table, 2, 16, &batch->num_buffers);
    batch->variadic = mt_flat_vector(message, table, 4, 8, &batch->num_variadic);
    const size_t compression = mt_flat_table(message, table, 3);
    if (compression)
        batch->codec =
            mt_flat_integer(message, compression, 0, 1, 0) == 1 ? MT_CODEC_ZSTD : MT_CODEC_LZ4_FRAME;
    return table ? 0 : damaged(batch->arrow, "a record batch makes no sense", batch->error);
}

static int load_rows(struct batch *batch, size_t table)
{
    struct mt_arrow *arrow = batch->arrow;
    int r = begin_batch(batch, table);
    const int64_t rows = mt_flat_integer(batch->message, table, 0, 8, 0);
    if (r == 0 && rows < 0)
        r = damaged(arrow, "a record batch has no length that makes sense", batch->error);
    for (size_t i = 0; r == 0 && i < arrow->root.num_children; i++) {
        r = load_array(batch, &arrow->root.children[i]);
        if (r == 0 && arrow->root.children[i].length != (uint64_t)rows)
            r = damaged(arrow, "the columns of a record batch have different lengths", batch->error);
    }
    arrow->num_rows = (uint64_t)rows;
    return r;
}

void mt_arrow_leave_out(struct mt_arrow_field *field)
{
    field->unused = true;
    if (field->dictionary)
        mt_arrow_leave_out(field->dictionary);
    for (size_t i = 0; i < field->num_children; i++)
        mt_arrow_leave_out(&field->children[i]);
}

static bool same_type(const struct mt_arrow_field *a, const struct mt_arrow_field *b)
{
    if (a->type != b->type || a->width != b->width || a->is_signed != b->is_signed ||
        a->millis != b->millis || a->units_per_second != b->units_per_second || a->scale != b->scale ||
        a->num_children != b->num_children || a->dictionary_id != b->dictionary_id ||
        !a->dictionary != !b->dictionary)
        return false;
    for (size_t i = 0; i < a->num_children; i++)
        if (!same_type(&a->children[i], &b->children[i]))
            return false;
    return !a->dictionary || same_type(a->dictionary, b->dictionary);
}

/* Loads the dictionary into each field below `field` that has this id: several columns may share one, and
 * each holds its own. `first` is the field that was loaded first, NULL before. */
static int load_values(const struct batch *batch, int64_t id, struct mt_arrow_field *field,
                       const struct mt_arrow_field **first)
{
    int r = 0;
    struct mt_arrow_field *values = field->dictionary;
    if (values && field->dictionary_id == id) {
        if (*first && !same_type(*first, values))
            return damaged(batch->arrow, "columns of different types share a dictionary", batch->error);
        *first = values;
        struct batch own = *batch;
        r = load_array(&own, values);
    }
    if (r == 0 && values)
        r = load_values(batch, id, values, first);
    for (size_t i = 0; r == 0 && i < field->num_children; i++)
        r = load_values(batch, id, &field->children[i], first);
    return r;
}

static int load_dictionary(struct batch *batch, size_t table)
{
    const int64_t id = mt_flat_integer(batch->message, table, 0, 8, 0);
    const struct mt_arrow_field *first = NULL;
    if (mt_flat_integer(batch->message, table, 2, 1, 0))
        return not_supported(batch->arrow, "dictionaries that are added to", batch->error);
    batch->whole = true;
    int r = begin_batch(batch, mt_flat_table(batch->message, table, 1));
    if (r == 0)
        r = load_values(batch, id, &batch->arrow->root, &first);
    return r == 0 && !first ? damaged(batch->arrow, "a dictionary belongs to no column", batch->error) : r;
}

/* --- messages ---------------------------------------------------------------------------------------------
 */

/* The size of the message at arrow->at, which moves behind it: 0 at the end mark. */
static int read_length(struct mt_arrow *arrow, uint64_t *bytes, struct mt_error *error)
{
    uint8_t word[4];
    for (int i = 0; i < 2; i++) {
        if (arrow->end - arrow->at < sizeof word)
            return damaged(arrow, "it ends without an end mark; was it cut off?", error);
        int r = mt_data_file_read(arrow->file, word, sizeof word, arrow->at, error);
        if (r < 0)
            return r;
        arrow->at += sizeof word;
        *bytes = (uint32_t)mt_little_endian(word, 4);
        if (*bytes != UINT32_MAX) /* files before Arrow 0.15 have no such mark before the size */
            break;
    }
    if (*bytes > MAX_MESSAGE_BYTES || *bytes > arrow->end - arrow->at)
        return damaged(arrow, "a message does not fit into the file; was it cut off?", error);
    return 0;
}

/* The next message: its kind, and its header's table. 1, or 0 at the end. */
static int next_message(struct mt_arrow *arrow, struct mt_flatbuffer *message, struct batch *batch,
                        int64_t *kind, size_t *header, struct mt_error *error)
{
    uint64_t bytes;
    if (arrow->ended)
        return 0;
    int r = read_length(arrow, &bytes, error);
    if (r < 0)
        return r;
    if (bytes == 0) {
        arrow->ended = true;
        return 0;
    }
    if (bytes > arrow->message_capacity) {
        free(arrow->message);
        arrow->message = malloc((size_t)bytes);
        arrow->message_capacity = arrow->message ? (size_t)bytes : 0;
        if (!arrow->message)
            return no_memory(arrow, error);
    }
    r = mt_data_file_read(arrow->file, arrow->message, (size_t)bytes, arrow->at, error);
    if (r < 0)
        return r;
    arrow->at += bytes;
    *message = (struct mt_flatbuffer){arrow->message, (size_t)bytes};
    const size_t root = mt_flat_root(message);
    const int64_t body = mt_flat_integer(message, root, 3, 8, 0);
    *kind = mt_flat_integer(message, root, 1, 1, 0);
    *header = mt_flat_table(message, root, 2);
    if (!*header || body < 0 || (uint64_t)body > arrow->end - arrow->at)
        return damaged(arrow, "a message does not fit into the file; was it cut off?", error);
    *batch = (struct batch){
        .arrow = arrow, .message = message, .body = arrow->at, .body_bytes = (uint64_t)body, .error = error};
    arrow->at += (uint64_t)body;
    return 1;
}

int mt_arrow_next(struct mt_arrow *arrow, struct mt_error *error)
{
    struct mt_flatbuffer message;
    struct batch batch;
    int64_t kind;
    size_t header;
    int r;
    while ((r = next_message(arrow, &message, &batch, &kind, &header, error)) > 0) {
        if (kind == HEADER_BATCH) {
            r = load_rows(&batch, header);
            return r < 0 ? r : 1;
        }
        if (kind != HEADER_DICTIONARY)
            return damaged(arrow, "a message of an unknown kind", error);
        r = load_dictionary(&batch, header);
        if (r < 0)
            return r;
    }
    return r;
}

/* Where messages begin and end: a file has marks at both ends and a footer, a stream has nothing around them.
 */
static int find_messages(struct mt_arrow *arrow, struct mt_error *error)
{
    uint8_t begin[8], tail[10];
    arrow->end = arrow->file->identity.bytes;
    if (arrow->end < 16)
        return damaged(arrow, "it is too short; was it cut off?", error);
    int r = mt_data_file_read(arrow->file, begin, sizeof begin, 0, error);
    if (r < 0 || memcmp(begin, MAGIC, 6) != 0)
        return r;
    r = mt_data_file_read(arrow->file, tail, sizeof tail, arrow->end - sizeof tail, error);
    if (r < 0)
        return r;
    const uint64_t footer = (uint32_t)mt_little_endian(tail, 4);
    if (memcmp(tail + 4, MAGIC, 6) != 0 || footer > arrow->end - 18)
        return damaged(arrow, "its end is not that of an Arrow file; was it cut off?", error);
    arrow->at = 8;
    arrow->end -= sizeof tail + footer;
    return 0;
}

int mt_arrow_open(const struct mt_data_file *file, struct mt_arrow *arrow, struct mt_error *error)
{
    struct mt_flatbuffer message;
    struct batch batch;
    int64_t kind = 0;
    size_t header = 0;
    *arrow = (struct mt_arrow){
        .file = file, .arena = mt_arena_new(), .root = {.name = "", .type = MT_ARROW_STRUCT}};
    int r = arrow->arena ? find_messages(arrow, error) : no_memory(arrow, error);
    if (r == 0)
        r = next_message(arrow, &message, &batch, &kind, &header, error);
    if (r >= 0 && (r == 0 || kind != HEADER_SCHEMA))
        r = damaged(arrow, "it does not begin with a schema", error);
    if (r > 0 && mt_flat_integer(&message, header, 0, 2, 0) != 0)
        r = not_supported(arrow, "big-endian files", error);
    if (r > 0) {
        struct schema schema = {.arrow = arrow, .message = &message, .error = error};
        r = read_children(&schema, header, 1, &arrow->root, 0);
    }
    if (r < 0)
        mt_arrow_close(arrow);
    return r;
}

static void free_array(struct mt_arrow_field *field)
{
    for (size_t i = 0; i < 3; i++)
        free(field->buffers[i].data);
    for (size_t i = 0; i < field->num_variadic; i++)
        free(field->variadic[i].data);
    free(field->variadic);
    if (field->dictionary)
        free_array(field->dictionary);
    for (size_t i = 0; i < field->num_children; i++)
        free_array(&field->children[i]);
}

void mt_arrow_close(struct mt_arrow *arrow)
{
    free_array(&arrow->root);
    free(arrow->message);
    mt_arena_free(arrow->arena);
    *arrow = (struct mt_arrow){0};
}
