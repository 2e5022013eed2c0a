/* Rows of Arrow's record batches: the value of a column at a row, wherever its parts lie. */
#include "core/base/size.h"
#include "core/base/utf8.h"
#include "core/data/reader_internal.h"
#include "core/data/value_build.h"
#include "core/formats/arrow.h"
#include "core/formats/safetensors.h"

#include <stdlib.h>
#include <string.h>

struct arrow {
    const struct mt_data_file *file;
    struct mt_arrow arrow;
    uint64_t row; /* next one of the batch at hand */
    bool begun;
    size_t row_bytes, row_values; /* of the row that is being read */
    struct mt_arena *arena;       /* ... and where it lives */
    const struct mt_reader *reader;
    struct mt_error *error;
};

static int damaged(const struct arrow *own, const struct mt_arrow_field *field, const char *what)
{
    return mt_error_set(own->error, -EINVAL, MT_REASON_BAD_DATA,
                        "%s: row %zu: the Arrow file is damaged: column \"%.*s\" %s", own->file->path,
                        own->reader->rows + 1, (int)mt_size_min(field->name_bytes, 100), field->name, what);
}

static int no_memory(const struct arrow *own)
{
    return mt_reader_no_memory(own->reader, own->error);
}

static int made(const struct arrow *own, int r)
{
    return r == -ENOMEM ? no_memory(own) : r;
}

static int failed(const struct arrow *own)
{
    return own->error && own->error->code < 0 ? own->error->code : -EINVAL;
}

static int check_names(const struct mt_reader *reader, const struct mt_arrow_field *field,
                       struct mt_error *error)
{
    if (mt_utf8_find_ill_formed(field->name, field->name_bytes) < field->name_bytes)
        return mt_error_set(error, -EINVAL, MT_REASON_BAD_DATA,
                            "%s: the Arrow file is damaged: a column's name is not UTF-8",
                            reader->file->path);
    int r = field->dictionary ? check_names(reader, field->dictionary, error) : 0;
    for (size_t i = 0; r == 0 && i < field->num_children; i++)
        r = check_names(reader, &field->children[i], error);
    return r;
}

static int open_arrow(struct mt_reader *reader, struct mt_error *error)
{
    struct arrow *own = calloc(1, sizeof *own);
    if (!own)
        return mt_reader_no_memory(reader, error);
    own->file = mt_input_file(reader->window.input);
    own->reader = reader;
    reader->own = own;
    int r = mt_arrow_open(own->file, &own->arrow, error);
    return r < 0 ? r : check_names(reader, &own->arrow.root, error);
}

static void close_arrow(struct mt_reader *reader)
{
    struct arrow *own = reader->own;
    if (!own)
        return;
    mt_arrow_close(&own->arrow);
    free(own);
}

static void select_columns(struct mt_reader *reader, const char *const *names, size_t count)
{
    struct mt_arrow_field *root = &((struct arrow *)reader->own)->arrow.root;
    for (size_t i = 0; i < root->num_children; i++) {
        struct mt_arrow_field *child = &root->children[i];
        if (!mt_reader_names(names, count, child->name, child->name_bytes))
            mt_arrow_leave_out(child);
    }
}

/* --- values -----------------------------------------------------------------------------------------------
 */

static int read_value(struct arrow *own, struct mt_arrow_field *field, uint64_t i, struct mt_value *value);

/* A number of `width` bytes at index i of a buffer. */
static int read_number(struct arrow *own, struct mt_arrow_buffer *buffer, uint64_t i, size_t width,
                       uint64_t *number)
{
    *number = 0;
    if (i > INT64_MAX / 16)
        return damaged(own, &own->arrow.root, "has an index that makes no sense");
    const uint8_t *at = mt_arrow_bytes(&own->arrow, buffer, i * width, width, own->error);
    if (!at)
        return failed(own);
    memcpy(number, at, width);
    return 0;
}

static int64_t sign_extended(uint64_t number, size_t width_bits)
{
    return width_bits == 8    ? (int8_t)number
           : width_bits == 16 ? (int16_t)number
           : width_bits == 32 ? (int32_t)number
                              : (int64_t)number;
}

static int is_null(struct arrow *own, struct mt_arrow_field *field, uint64_t i, bool *null)
{
    *null = field->type == MT_ARROW_NULL;
    if (*null || field->nulls == 0 || field->buffers[0].bytes == 0)
        return 0;
    const uint8_t *byte = mt_arrow_bytes(&own->arrow, &field->buffers[0], i / 8, 1, own->error);
    if (!byte)
        return failed(own);
    *null = !(*byte >> i % 8 & 1);
    return 0;
}

static int count_bytes(struct arrow *own, uint64_t bytes)
{
    if (bytes > MT_WINDOW_MAX_BYTES || own->row_bytes + bytes > MT_WINDOW_MAX_BYTES)
        return mt_error_set(own->error, -EFBIG, MT_REASON_BAD_DATA, "%s: row %zu has more than %zu MiB",
                            own->file->path, own->reader->rows + 1, MT_WINDOW_MAX_BYTES >> 20);
    own->row_bytes += (size_t)bytes;
    return 0;
}

static int set_bytes(struct arrow *own, struct mt_arrow_field *field, struct mt_arrow_buffer *buffer,
                     uint64_t offset, uint64_t bytes, struct mt_value *value)
{
    const bool text = field->type == MT_ARROW_UTF8 || field->type == MT_ARROW_LARGE_UTF8 ||
                      field->type == MT_ARROW_UTF8_VIEW;
    int r = count_bytes(own, bytes);
    if (r < 0)
        return r;
    const uint8_t *at = mt_arrow_bytes(&own->arrow, buffer, offset, bytes, own->error);
    if (!at)
        return failed(own);
    if (text && mt_utf8_find_ill_formed((const char *)at, (size_t)bytes) < bytes)
        return damaged(own, field, "holds a text that is not UTF-8");
    return made(own, text ? mt_value_set_text(value, own->arena, at, (size_t)bytes)
                          : mt_value_set_bytes(value, own->arena, at, (size_t)bytes));
}

/* The range [begin, end) that two neighbouring offsets name. */
static int read_range(struct arrow *own, struct mt_arrow_field *field, uint64_t i, bool large,
                      uint64_t *begin, uint64_t *end)
{
    const size_t width = large ? 8 : 4;
    const uint8_t *at = mt_arrow_bytes(&own->arrow, &field->buffers[1], i * width, 2 * width, own->error);
    if (!at)
        return failed(own);
    *begin = *end = 0;
    memcpy(begin, at, width);
    memcpy(end, at + width, width);
    return *end < *begin ? damaged(own, field, "has offsets that make no sense") : 0;
}

static int set_view(struct arrow *own, struct mt_arrow_field *field, uint64_t i, struct mt_value *value)
{
    uint32_t view[4];
    const uint8_t *at = mt_arrow_bytes(&own->arrow, &field->buffers[1], i * 16, 16, own->error);
    if (!at)
        return failed(own);
    memcpy(view, at, sizeof view);
    if (view[0] <= 12) /* short ones stand in the view itself */
        return set_bytes(own, field, &field->buffers[1], i * 16 + 4, view[0], value);
    if (view[2] >= field->num_variadic)
        return damaged(own, field, "has offsets that make no sense");
    return set_bytes(own, field, &field->variadic[view[2]], view[3], view[0], value);
}

static int set_float(struct arrow *own, const struct mt_arrow_field *field, uint64_t bits,
                     struct mt_value *value)
{
    double number;
    float single;
    const uint32_t low = (uint32_t)bits;
    if (field->width == 64) {
        memcpy(&number, &bits, sizeof number);
    } else if (field->width == 32) {
        memcpy(&single, &low, sizeof single);
        number = (double)single;
    } else {
        number = (double)mt_f16_to_float((uint16_t)bits);
    }
    return mt_value_set_real(value, own->arena, number, field->width < 64);
}

static int set_number(struct arrow *own, struct mt_arrow_field *field, uint64_t i, struct mt_value *value)
{
    uint64_t bits;
    int r = read_number(own, &field->buffers[1], i, field->width / 8, &bits);
    if (r < 0)
        return r;
    const int64_t number = sign_extended(bits, field->width);
    switch (field->type) {
    case MT_ARROW_FLOAT:
        return set_float(own, field, bits, value);
    case MT_ARROW_DATE:
        if (field->millis)
            return mt_value_set_date(value, own->arena, number / 86400000 - (number % 86400000 < 0));
        return mt_value_set_date(value, own->arena, number);
    case MT_ARROW_TIME:
        return mt_value_set_time(value, own->arena, number, field->units_per_second);
    case MT_ARROW_TIMESTAMP:
        return mt_value_set_timestamp(value, own->arena, number, field->units_per_second, field->utc);
    default:
        return field->is_signed ? mt_value_set_integer(value, own->arena, number)
                                : mt_value_set_unsigned(value, own->arena, bits);
    }
}

static int set_decimal(struct arrow *own, struct mt_arrow_field *field, uint64_t i, struct mt_value *value)
{
    uint8_t big_endian[32];
    const size_t width = field->width / 8;
    const uint8_t *at = mt_arrow_bytes(&own->arrow, &field->buffers[1], i * width, width, own->error);
    if (!at)
        return failed(own);
    for (size_t b = 0; b < width; b++)
        big_endian[b] = at[width - 1 - b];
    return mt_value_set_decimal(value, own->arena, big_endian, width, field->scale);
}

static int set_list(struct arrow *own, struct mt_arrow_field *list, uint64_t begin, uint64_t end,
                    struct mt_value *value)
{
    struct mt_arrow_field *child = &list->children[0];
    struct mt_value_tail tail = {&value->first};
    value->kind = MT_VALUE_LIST;
    if (end > child->length)
        return damaged(own, list, "has offsets that make no sense");
    for (uint64_t i = begin; i < end; i++) {
        struct mt_value *element = mt_value_append(own->arena, &tail);
        int r = element ? read_value(own, child, i, element) : no_memory(own);
        if (r < 0)
            return r;
    }
    return 0;
}

static int set_list_view(struct arrow *own, struct mt_arrow_field *field, uint64_t i, struct mt_value *value)
{
    const size_t width = field->type == MT_ARROW_LIST_VIEW ? 4 : 8;
    uint64_t begin, size, end;
    int r = read_number(own, &field->buffers[1], i, width, &begin);
    if (r == 0)
        r = read_number(own, &field->buffers[2], i, width, &size);
    if (r != 0)
        return r;
    if (__builtin_add_overflow(begin, size, &end))
        return damaged(own, field, "has offsets that make no sense");
    return set_list(own, field, begin, end, value);
}

static int set_struct(struct arrow *own, struct mt_arrow_field *field, uint64_t i, struct mt_value *value)
{
    struct mt_value_tail tail = {&value->first};
    value->kind = MT_VALUE_OBJECT;
    for (size_t c = 0; c < field->num_children; c++) {
        struct mt_arrow_field *child = &field->children[c];
        struct mt_value *member = mt_value_append(own->arena, &tail);
        if (!member)
            return no_memory(own);
        member->key = child->name; /* of the schema, which outlives the rows of the file */
        member->key_bytes = child->name_bytes;
        int r = child->unused ? 0 : read_value(own, child, i, member);
        if (r < 0)
            return r;
    }
    return 0;
}

static int set_indexed(struct arrow *own, struct mt_arrow_field *field, uint64_t i, struct mt_value *value)
{
    uint64_t index;
    int r = read_number(own, &field->buffers[1], i, field->width / 8, &index);
    return r < 0 ? r : read_value(own, field->dictionary, index, value);
}

static int read_present(struct arrow *own, struct mt_arrow_field *field, uint64_t i, struct mt_value *value)
{
    uint64_t begin = 0, end = 0;
    int r = 0;
    switch (field->type) {
    case MT_ARROW_BOOL: {
        const uint8_t *byte = mt_arrow_bytes(&own->arrow, &field->buffers[1], i / 8, 1, own->error);
        if (!byte)
            return failed(own);
        value->kind = *byte >> i % 8 & 1 ? MT_VALUE_TRUE : MT_VALUE_FALSE;
        return 0;
    }
    case MT_ARROW_BINARY:
    case MT_ARROW_UTF8:
    case MT_ARROW_LARGE_BINARY:
    case MT_ARROW_LARGE_UTF8:
        r = read_range(own, field, i, field->type >= MT_ARROW_LARGE_BINARY, &begin, &end);
        return r < 0 ? r : set_bytes(own, field, &field->buffers[2], begin, end - begin, value);
    case MT_ARROW_BINARY_VIEW:
    case MT_ARROW_UTF8_VIEW:
        return set_view(own, field, i, value);
    case MT_ARROW_INTERVAL:
    case MT_ARROW_FIXED_BINARY:
        return set_bytes(own, field, &field->buffers[1], i * field->width, field->width, value);
    case MT_ARROW_DECIMAL:
        return made(own, set_decimal(own, field, i, value));
    case MT_ARROW_LIST:
    case MT_ARROW_MAP:
    case MT_ARROW_LARGE_LIST:
        r = read_range(own, field, i, field->type == MT_ARROW_LARGE_LIST, &begin, &end);
        if (r == 0)
            r = set_list(own, field, begin, end, value);
        if (r == 0 && field->type == MT_ARROW_MAP)
            mt_value_make_object(value);
        return r;
    case MT_ARROW_LIST_VIEW:
    case MT_ARROW_LARGE_LIST_VIEW:
        return set_list_view(own, field, i, value);
    case MT_ARROW_FIXED_LIST:
        return set_list(own, field, i * field->width, (i + 1) * field->width, value);
    case MT_ARROW_STRUCT:
        return set_struct(own, field, i, value);
    default:
        return made(own, set_number(own, field, i, value));
    }
}

static int read_value(struct arrow *own, struct mt_arrow_field *field, uint64_t i, struct mt_value *value)
{
    bool null;
    if (++own->row_values > MT_VALUE_MAX)
        return mt_error_set(own->error, -EFBIG, MT_REASON_BAD_DATA, "%s: row %zu has more than %zu values",
                            own->file->path, own->reader->rows + 1, MT_VALUE_MAX);
    if (i >= field->length || i > INT64_MAX / ((uint64_t)64 << 20))
        return damaged(own, field, "is shorter than its batch");
    int r = is_null(own, field, i, &null);
    if (r < 0 || null)
        return r;
    return field->dictionary ? set_indexed(own, field, i, value) : read_present(own, field, i, value);
}

static int take(struct mt_reader *reader, struct mt_arena *arena, struct mt_row *row, struct mt_error *error)
{
    struct arrow *own = reader->own;
    struct mt_error unused = {0};
    own->error = error ? error : &unused;
    while (!own->begun || own->row == own->arrow.num_rows) {
        own->begun = true;
        own->row = 0;
        int r = mt_arrow_next(&own->arrow, own->error);
        if (r <= 0)
            return r;
    }
    own->arena = arena;
    own->row_bytes = own->row_values = 0;
    struct mt_value *object = mt_arena_alloc(arena, 1, sizeof *object);
    if (!object)
        return no_memory(own);
    int r = set_struct(own, &own->arrow.root, own->row, object);
    if (r < 0)
        return r;
    own->row++;
    row->object = object;
    row->raw_bytes = own->row_bytes;
    return 1;
}

const struct mt_reader_format mt_reader_arrow = {
    .open = open_arrow, .take = take, .select = select_columns, .close = close_arrow, .binary = true};
