/* Parquet's columns put together to rows (Dremel's record assembly: Melnik et al., 2010). A row's entries
 * stand in each of its columns with two levels: at which list the entry continues (repetition), and down to
 * which node of the schema something is there (definition). */
#include "core/base/size.h"
#include "core/base/utf8.h"
#include "core/data/reader_internal.h"
#include "core/data/value_build.h"
#include "core/formats/parquet.h"
#include "core/formats/safetensors.h"

#include <stdlib.h>
#include <string.h>

struct parquet {
    struct mt_parquet parquet;
    struct mt_parquet_column **columns; /* [num_leaves]; NULL: nobody asked for it */
    size_t group;                       /* next one */
    uint64_t rows_left;                 /* of the group at hand */
    size_t row_bytes, row_values;       /* of the row that is being read */
    struct mt_arena *arena;             /* ... and where it lives */
};

static int read_value(struct mt_reader *reader, const struct mt_parquet_node *node, struct mt_value *value,
                      struct mt_error *error);

static int damaged(const struct mt_reader *reader, const struct mt_parquet_node *node, const char *what,
                   struct mt_error *error)
{
    return mt_error_set(error, -EINVAL, MT_REASON_BAD_DATA,
                        "%s: row %zu: the Parquet file is damaged: column \"%.*s\" %s", reader->file->path,
                        reader->rows + 1, (int)mt_size_min(node->name_bytes, 100), node->name, what);
}

static int close_or(int r, struct mt_reader *reader, struct mt_error *error)
{
    return r == -ENOMEM ? mt_reader_no_memory(reader, error) : r;
}

static int check_names(const struct mt_reader *reader, const struct mt_parquet_node *node,
                       struct mt_error *error)
{
    if (mt_utf8_find_ill_formed(node->name, node->name_bytes) < node->name_bytes)
        return mt_error_set(error, -EINVAL, MT_REASON_BAD_DATA,
                            "%s: the Parquet file is damaged: a column's name is not UTF-8",
                            reader->file->path);
    int r = 0;
    for (size_t i = 0; r == 0 && i < node->num_children; i++)
        r = check_names(reader, &node->children[i], error);
    return r;
}

static int open_parquet(struct mt_reader *reader, struct mt_error *error)
{
    struct parquet *own = calloc(1, sizeof *own);
    if (!own)
        return mt_reader_no_memory(reader, error);
    const struct mt_data_file *file = mt_input_file(reader->window.input);
    reader->own = own;
    int r = mt_parquet_open(file, &own->parquet, error);
    if (r == 0)
        r = check_names(reader, &own->parquet.root, error);
    if (r < 0)
        return r;
    own->columns = calloc(own->parquet.num_leaves, sizeof *own->columns);
    for (size_t i = 0; own->columns && i < own->parquet.num_leaves; i++) {
        own->columns[i] = mt_parquet_column_new(file, own->parquet.leaves[i]);
        if (!own->columns[i])
            return mt_reader_no_memory(reader, error);
    }
    return own->columns ? 0 : mt_reader_no_memory(reader, error);
}

static void close_parquet(struct mt_reader *reader)
{
    struct parquet *own = reader->own;
    if (!own)
        return;
    for (size_t i = 0; own->columns && i < own->parquet.num_leaves; i++)
        mt_parquet_column_free(own->columns[i]);
    free(own->columns);
    mt_parquet_close(&own->parquet);
    free(own);
}

/* A leaf that nobody asked for lets go of its pages. */
static void select_columns(struct mt_reader *reader, const char *const *names, size_t count)
{
    struct parquet *own = reader->own;
    for (size_t i = 0; i < own->parquet.root.num_children; i++) {
        const struct mt_parquet_node *child = &own->parquet.root.children[i];
        if (mt_reader_names(names, count, child->name, child->name_bytes))
            continue;
        for (size_t leaf = child->leaf; leaf < child->leaf + child->num_leaves; leaf++) {
            mt_parquet_column_free(own->columns[leaf]);
            own->columns[leaf] = NULL;
        }
    }
}

/* --- leaves -----------------------------------------------------------------------------------------------
 */

static int set_integer(const struct mt_parquet_node *leaf, struct mt_arena *arena, int64_t number,
                       struct mt_value *value)
{
    uint8_t big_endian[8];
    switch (leaf->meaning) {
    case MT_PARQUET_UNSIGNED:
        return mt_value_set_unsigned(value, arena,
                                     leaf->type == MT_PARQUET_INT32 ? (uint32_t)number : (uint64_t)number);
    case MT_PARQUET_DATE:
        return mt_value_set_date(value, arena, number);
    case MT_PARQUET_TIME:
        return mt_value_set_time(value, arena, number, leaf->units_per_second);
    case MT_PARQUET_TIMESTAMP:
        return mt_value_set_timestamp(value, arena, number, leaf->units_per_second, leaf->utc);
    case MT_PARQUET_DECIMAL:
        for (int i = 0; i < 8; i++)
            big_endian[i] = (uint8_t)((uint64_t)number >> (56 - 8 * i));
        return mt_value_set_decimal(value, arena, big_endian, 8, leaf->scale);
    default:
        return mt_value_set_integer(value, arena, number);
    }
}

/* The old timestamps: nanoseconds of a day, then its Julian day. */
static int set_int96(struct mt_arena *arena, const uint8_t *bytes, struct mt_value *value)
{
    uint64_t nanoseconds;
    uint32_t day;
    memcpy(&nanoseconds, bytes, sizeof nanoseconds);
    memcpy(&day, bytes + 8, sizeof day);
    int64_t time;
    const int64_t units = nanoseconds % 1000 ? 1000000000 : 1000000; /* microseconds reach further */
    if (nanoseconds >= UINT64_C(86400000000000) ||
        __builtin_mul_overflow((int64_t)day - 2440588, 86400 * units, &time) ||
        __builtin_add_overflow(time, (int64_t)nanoseconds / (1000000000 / units), &time))
        return mt_value_set_unsigned(value, arena, nanoseconds);
    return mt_value_set_timestamp(value, arena, time, units, false);
}

static int set_leaf(struct mt_reader *reader, const struct mt_parquet_node *leaf,
                    const struct mt_parquet_value *from, struct mt_value *value, struct mt_error *error)
{
    struct mt_arena *arena = ((struct parquet *)reader->own)->arena;
    switch (leaf->type) {
    case MT_PARQUET_BOOLEAN:
        value->kind = from->integer ? MT_VALUE_TRUE : MT_VALUE_FALSE;
        return 0;
    case MT_PARQUET_INT32:
    case MT_PARQUET_INT64:
        return set_integer(leaf, arena, from->integer, value);
    case MT_PARQUET_INT96:
        return set_int96(arena, from->data, value);
    case MT_PARQUET_FLOAT:
    case MT_PARQUET_DOUBLE:
        return mt_value_set_real(value, arena, from->real, leaf->type == MT_PARQUET_FLOAT);
    case MT_PARQUET_BYTES:
    case MT_PARQUET_FIXED:
        break;
    }
    if (leaf->meaning == MT_PARQUET_DECIMAL)
        return mt_value_set_decimal(value, arena, from->data, from->bytes, leaf->scale);
    if (leaf->meaning == MT_PARQUET_UUID && from->bytes == 16)
        return mt_value_set_uuid(value, arena, from->data);
    if (leaf->meaning == MT_PARQUET_FLOAT16 && from->bytes == 2)
        return mt_value_set_real(
            value, arena, (double)mt_f16_to_float((uint16_t)(from->data[0] | from->data[1] << 8)), true);
    if (leaf->meaning == MT_PARQUET_STRING &&
        mt_utf8_find_ill_formed((const char *)from->data, from->bytes) < from->bytes)
        return damaged(reader, leaf, "holds a text that is not UTF-8", error);
    return mt_value_set_bytes(value, arena, from->data, from->bytes);
}

/* --- rows ----------------------------------------------------------------------------------------------- */

/* The next entry of the node's first leaf. At the end of the column it has repetition 0, as a new row has. */
static int peek(struct mt_reader *reader, const struct mt_parquet_node *node, unsigned *repetition,
                unsigned *definition, struct mt_error *error)
{
    struct parquet *own = reader->own;
    *repetition = *definition = 0;
    return mt_parquet_column_peek(own->columns[node->leaf], repetition, definition, error);
}

/* Takes an entry of each leaf below a node that is not there. */
static int take_absent(struct mt_reader *reader, const struct mt_parquet_node *node, struct mt_error *error)
{
    struct parquet *own = reader->own;
    for (size_t i = node->leaf; i < node->leaf + node->num_leaves; i++) {
        unsigned repetition, definition;
        struct mt_parquet_value ignored;
        int r = mt_parquet_column_peek(own->columns[i], &repetition, &definition, error);
        if (r == 0 || (r > 0 && definition >= node->max_definition))
            r = damaged(reader, own->parquet.leaves[i], "does not fit the other columns", error);
        if (r > 0)
            r = mt_parquet_column_take(own->columns[i], &ignored, error);
        if (r < 0)
            return r;
    }
    return 0;
}

static int read_leaf(struct mt_reader *reader, const struct mt_parquet_node *leaf, struct mt_value *value,
                     struct mt_error *error)
{
    struct parquet *own = reader->own;
    struct mt_parquet_value from;
    unsigned repetition, definition;
    int r = peek(reader, leaf, &repetition, &definition, error);
    if (r == 0 || (r > 0 && definition != leaf->max_definition))
        return damaged(reader, leaf, "does not fit the other columns", error);
    if (r > 0)
        r = mt_parquet_column_take(own->columns[leaf->leaf], &from, error);
    if (r < 0)
        return r;
    own->row_bytes += from.bytes;
    if (own->row_bytes > MT_WINDOW_MAX_BYTES)
        return mt_error_set(error, -EFBIG, MT_REASON_BAD_DATA, "%s: row %zu has more than %zu MiB",
                            reader->file->path, reader->rows + 1, MT_WINDOW_MAX_BYTES >> 20);
    return close_or(set_leaf(reader, leaf, &from, value, error), reader, error);
}

/* What a LIST's elements are: the repeated node itself, or its one child (parquet-format, LogicalTypes.md,
 * "Lists", with the rules for old files). */
static const struct mt_parquet_node *element_of(const struct mt_parquet_node *list,
                                                const struct mt_parquet_node *repeated)
{
    if (repeated->num_children != 1)
        return repeated;
    const size_t bytes = list->name_bytes;
    if (repeated->name_bytes == 5 && memcmp(repeated->name, "array", 5) == 0)
        return repeated;
    if (repeated->name_bytes == bytes + 6 && memcmp(repeated->name, list->name, bytes) == 0 &&
        memcmp(repeated->name + bytes, "_tuple", 6) == 0)
        return repeated;
    return &repeated->children[0];
}

/* An element, or a group of members; what is around it is known to be there. */
static int read_present(struct mt_reader *reader, const struct mt_parquet_node *node, struct mt_value *value,
                        struct mt_error *error);

/* The elements of a repeated node. */
static int read_elements(struct mt_reader *reader, const struct mt_parquet_node *repeated,
                         const struct mt_parquet_node *element, struct mt_value *list, struct mt_error *error)
{
    struct parquet *own = reader->own;
    struct mt_value_tail tail = {&list->first};
    unsigned repetition, definition;
    list->kind = MT_VALUE_LIST;
    int r = peek(reader, repeated, &repetition, &definition, error);
    if (r == 0)
        return damaged(reader, repeated, "ends before the others", error);
    if (r > 0 && definition < repeated->max_definition)
        return take_absent(reader, repeated, error);
    while (r > 0) {
        struct mt_value *value = mt_value_append(own->arena, &tail);
        if (!value)
            return mt_reader_no_memory(reader, error);
        r = element == repeated ? read_present(reader, element, value, error)
                                : read_value(reader, element, value, error);
        if (r == 0)
            r = peek(reader, repeated, &repetition, &definition, error);
        if (r < 0 || repetition < repeated->max_repetition)
            break;
        if (repetition > repeated->max_repetition || definition < repeated->max_definition)
            return damaged(reader, repeated, "makes no sense", error);
    }
    return r < 0 ? r : 0;
}

static int read_members(struct mt_reader *reader, const struct mt_parquet_node *group,
                        struct mt_value *object, struct mt_error *error)
{
    struct parquet *own = reader->own;
    struct mt_value_tail tail = {&object->first};
    object->kind = MT_VALUE_OBJECT;
    for (size_t i = 0; i < group->num_children; i++) {
        const struct mt_parquet_node *child = &group->children[i];
        struct mt_value *value = mt_value_append(own->arena, &tail);
        if (!value)
            return mt_reader_no_memory(reader, error);
        value->key = child->name; /* in the footer, which outlives the rows of the file */
        value->key_bytes = child->name_bytes;
        int r = own->columns[child->leaf] ? read_value(reader, child, value, error) : 0;
        if (r < 0)
            return r;
    }
    return 0;
}

static int read_present(struct mt_reader *reader, const struct mt_parquet_node *node, struct mt_value *value,
                        struct mt_error *error)
{
    if (node->num_children == 0)
        return read_leaf(reader, node, value, error);
    const struct mt_parquet_node *child = &node->children[0];
    if (node->num_children == 1 && child->repetition == MT_PARQUET_REPEATED &&
        (node->meaning == MT_PARQUET_LIST || node->meaning == MT_PARQUET_MAP)) {
        const bool map = node->meaning == MT_PARQUET_MAP;
        int r = read_elements(reader, child, map ? child : element_of(node, child), value, error);
        if (r == 0 && map)
            mt_value_make_object(value);
        return r;
    }
    return read_members(reader, node, value, error);
}

static int read_value(struct mt_reader *reader, const struct mt_parquet_node *node, struct mt_value *value,
                      struct mt_error *error)
{
    struct parquet *own = reader->own;
    if (++own->row_values > MT_VALUE_MAX)
        return mt_error_set(error, -EFBIG, MT_REASON_BAD_DATA, "%s: row %zu has more than %zu values",
                            reader->file->path, reader->rows + 1, MT_VALUE_MAX);
    if (node->repetition == MT_PARQUET_REPEATED) /* without LIST around it */
        return read_elements(reader, node, node, value, error);
    if (node->repetition == MT_PARQUET_OPTIONAL) {
        unsigned repetition, definition;
        int r = peek(reader, node, &repetition, &definition, error);
        if (r == 0)
            return damaged(reader, node, "ends before the others", error);
        if (r < 0 || definition < node->max_definition)
            return r < 0 ? r : take_absent(reader, node, error); /* null */
    }
    return read_present(reader, node, value, error);
}

/* All columns must end together, and a row begins in each of them anew. */
static int check_ends(struct mt_reader *reader, bool at_end, struct mt_error *error)
{
    struct parquet *own = reader->own;
    for (size_t i = 0; i < own->parquet.num_leaves; i++) {
        unsigned repetition, definition;
        if (!own->columns[i])
            continue;
        int r = mt_parquet_column_peek(own->columns[i], &repetition, &definition, error);
        if (r < 0)
            return r;
        if (r == 0 ? !at_end : at_end || repetition != 0)
            return damaged(reader, own->parquet.leaves[i], "has another number of rows than its row group",
                           error);
    }
    return 0;
}

static int next_group(struct mt_reader *reader, struct mt_error *error)
{
    struct parquet *own = reader->own;
    while (own->rows_left == 0 && own->group < own->parquet.num_groups) {
        if (own->group > 0) {
            int r = check_ends(reader, true, error);
            if (r < 0)
                return r;
        }
        const struct mt_parquet_group *group = &own->parquet.groups[own->group++];
        own->rows_left = group->num_rows;
        for (size_t i = 0; i < own->parquet.num_leaves; i++)
            if (own->columns[i])
                mt_parquet_column_begin(own->columns[i], &group->chunks[i]);
    }
    if (own->rows_left)
        return 1;
    if (own->group == 0)
        return 0;
    int r = check_ends(reader, true, error);
    return r < 0 ? r : 0;
}

static int take(struct mt_reader *reader, struct mt_arena *arena, struct mt_row *row, struct mt_error *error)
{
    struct parquet *own = reader->own;
    int r = next_group(reader, error);
    if (r <= 0)
        return r;
    r = check_ends(reader, false, error);
    if (r < 0)
        return r;
    own->rows_left--;
    own->row_bytes = own->row_values = 0;
    own->arena = arena;
    struct mt_value *object = mt_arena_alloc(arena, 1, sizeof *object);
    if (!object)
        return mt_reader_no_memory(reader, error);
    r = read_members(reader, &own->parquet.root, object, error);
    if (r < 0)
        return r;
    row->object = object;
    row->raw_bytes = own->row_bytes;
    return 1;
}

const struct mt_reader_format mt_reader_parquet = {
    .open = open_parquet, .take = take, .select = select_columns, .close = close_parquet, .binary = true};
