/* The footer of a Parquet file: see parquet.h. Nothing in it is believed: every size is checked against the
 * file, every count against the bytes that are left. */
#include "core/formats/parquet.h"

#include "core/base/bytes.h"
#include "core/base/size.h"
#include "core/formats/thrift.h"

#include <stdlib.h>
#include <string.h>

#define MAX_FOOTER_BYTES ((uint64_t)64 << 20)
#define MAX_COLUMNS 100000
#define MAX_GROUPS 1000000
#define MAX_SCHEMA_DEPTH 64
#define MAX_LEVEL 255

static int no_memory(const struct mt_data_file *file, struct mt_error *error)
{
    return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory while reading %s",
                        file->path);
}

static int damaged(const struct mt_data_file *file, const char *what, struct mt_error *error)
{
    return mt_error_set(error, -EINVAL, MT_REASON_BAD_DATA, "%s: the Parquet file is damaged: %s", file->path,
                        what);
}

/* --- schema --------------------------------------------------------------------------------------------- */

struct schema {
    const struct mt_data_file *file;
    struct mt_parquet *parquet;
    struct mt_thrift *thrift;
    size_t elements_left;
    struct mt_error *error;
};

static int64_t time_unit(struct mt_thrift *thrift)
{
    struct mt_thrift_field field = {0};
    int64_t unit = 1000;
    while (mt_thrift_next(thrift, &field)) {
        unit = field.id == 1 ? 1000 : field.id == 2 ? 1000000 : 1000000000;
        mt_thrift_skip(thrift, field.type);
    }
    return unit;
}

/* The parameters of a logical type: DECIMAL, TIME, TIMESTAMP and INTEGER have some. */
static void read_logical_parameters(struct mt_thrift *thrift, int16_t kind, struct mt_parquet_node *node)
{
    struct mt_thrift_field field = {0};
    while (mt_thrift_next(thrift, &field)) {
        const bool time = kind == 7 || kind == 8;
        if (kind == 5 && field.id == 1)
            node->scale = (int32_t)mt_thrift_integer(thrift, field.type);
        else if (time && field.id == 1)
            node->utc = mt_thrift_integer(thrift, field.type) != 0;
        else if (time && field.id == 2 && field.type == MT_THRIFT_STRUCT)
            node->units_per_second = time_unit(thrift);
        else if (kind == 10 && field.id == 2)
            node->meaning = mt_thrift_integer(thrift, field.type) ? MT_PARQUET_PLAIN : MT_PARQUET_UNSIGNED;
        else
            mt_thrift_skip(thrift, field.type);
    }
}

static void read_logical(struct mt_thrift *thrift, struct mt_parquet_node *node)
{
    static const enum mt_parquet_meaning meanings[] = {
        [1] = MT_PARQUET_STRING, [2] = MT_PARQUET_MAP,       [3] = MT_PARQUET_LIST,
        [4] = MT_PARQUET_STRING, [5] = MT_PARQUET_DECIMAL,   [6] = MT_PARQUET_DATE,
        [7] = MT_PARQUET_TIME,   [8] = MT_PARQUET_TIMESTAMP, [12] = MT_PARQUET_STRING,
        [14] = MT_PARQUET_UUID,  [15] = MT_PARQUET_FLOAT16,
    };
    struct mt_thrift_field field = {0};
    while (mt_thrift_next(thrift, &field)) {
        if (field.type != MT_THRIFT_STRUCT) {
            mt_thrift_skip(thrift, field.type);
            continue;
        }
        if (field.id > 0 && (size_t)field.id < sizeof meanings / sizeof *meanings)
            node->meaning = meanings[field.id];
        read_logical_parameters(thrift, field.id, node);
    }
}

static void apply_converted(int64_t converted, struct mt_parquet_node *node)
{
    switch (converted) {
    case 0:  /* UTF8 */
    case 4:  /* ENUM */
    case 19: /* JSON */
        node->meaning = MT_PARQUET_STRING;
        break;
    case 1:
    case 2:
        node->meaning = MT_PARQUET_MAP;
        break;
    case 3:
        node->meaning = MT_PARQUET_LIST;
        break;
    case 5:
        node->meaning = MT_PARQUET_DECIMAL;
        break;
    case 6:
        node->meaning = MT_PARQUET_DATE;
        break;
    case 7:
    case 8:
        node->meaning = MT_PARQUET_TIME;
        node->units_per_second = converted == 7 ? 1000 : 1000000;
        break;
    case 9:
    case 10:
        node->meaning = MT_PARQUET_TIMESTAMP;
        node->units_per_second = converted == 9 ? 1000 : 1000000;
        node->utc = true;
        break;
    case 11:
    case 12:
    case 13:
    case 14:
        node->meaning = MT_PARQUET_UNSIGNED;
        break;
    default:
        break;
    }
}

/* One SchemaElement. `*children` is 0 for a leaf. */
static int read_element(const struct schema *schema, struct mt_parquet_node *node, int64_t *children)
{
    struct mt_thrift *thrift = schema->thrift;
    struct mt_thrift_field field = {0};
    int64_t type = -1, width = 0, repetition = 0, converted = -1;
    bool logical = false;
    *children = 0;
    while (mt_thrift_next(thrift, &field)) {
        if (field.id == 1)
            type = mt_thrift_integer(thrift, field.type);
        else if (field.id == 2)
            width = mt_thrift_integer(thrift, field.type);
        else if (field.id == 3)
            repetition = mt_thrift_integer(thrift, field.type);
        else if (field.id == 4)
            node->name = mt_thrift_binary(thrift, field.type, &node->name_bytes);
        else if (field.id == 5)
            *children = mt_thrift_integer(thrift, field.type);
        else if (field.id == 6)
            converted = mt_thrift_integer(thrift, field.type);
        else if (field.id == 7)
            node->scale = (int32_t)mt_thrift_integer(thrift, field.type);
        else if (field.id == 10 && field.type == MT_THRIFT_STRUCT) {
            read_logical(thrift, node);
            logical = true;
        } else
            mt_thrift_skip(thrift, field.type);
    }
    if (!logical)
        apply_converted(converted, node);
    if (thrift->bad || repetition < 0 || repetition > 2 || *children < 0 || node->scale < 0 ||
        (*children == 0 && (type < 0 || type > 7)) ||
        (type == MT_PARQUET_FIXED && (width < 1 || width > 1 << 20)))
        return damaged(schema->file, "its schema makes no sense", schema->error);
    node->type = (enum mt_parquet_type)type;
    node->width = (size_t)width;
    node->repetition = (enum mt_parquet_repetition)repetition;
    return 0;
}

/* The node whose element comes next, and all below it: the list is depth first. */
static int read_node(struct schema *schema, const struct mt_parquet_node *parent,
                     struct mt_parquet_node *node, unsigned depth)
{
    struct mt_parquet *parquet = schema->parquet;
    int64_t children;
    if (schema->elements_left == 0 || depth == MAX_SCHEMA_DEPTH)
        return damaged(schema->file, "its schema ends early, or is too deep", schema->error);
    schema->elements_left--;
    *node = (struct mt_parquet_node){.name = "", .units_per_second = 1000};
    int r = read_element(schema, node, &children);
    if (r < 0)
        return r;
    if (parent) {
        node->max_definition = parent->max_definition + (node->repetition != MT_PARQUET_REQUIRED);
        node->max_repetition = parent->max_repetition + (node->repetition == MT_PARQUET_REPEATED);
    } else {
        node->repetition = MT_PARQUET_REQUIRED;
    }
    node->leaf = parquet->num_leaves;
    if (children == 0) {
        node->num_leaves = 1;
        parquet->leaves[parquet->num_leaves++] = node;
        return 0;
    }
    if ((uint64_t)children > schema->elements_left)
        return damaged(schema->file, "its schema ends early", schema->error);
    node->num_children = (size_t)children;
    node->children = mt_arena_alloc(parquet->arena, node->num_children, sizeof *node->children);
    if (!node->children)
        return no_memory(schema->file, schema->error);
    for (size_t i = 0; i < node->num_children; i++) {
        r = read_node(schema, node, &node->children[i], depth + 1);
        if (r < 0)
            return r;
    }
    node->num_leaves = parquet->num_leaves - node->leaf;
    return 0;
}

static int read_schema(const struct mt_data_file *file, struct mt_parquet *parquet, struct mt_thrift *thrift,
                       enum mt_thrift_type type, struct mt_error *error)
{
    enum mt_thrift_type element;
    const size_t count = mt_thrift_list(thrift, type, &element);
    if (count == 0 || count > MAX_COLUMNS || element != MT_THRIFT_STRUCT || parquet->leaves)
        return damaged(file, "it has no schema", error);
    parquet->leaves = mt_arena_alloc(parquet->arena, count, sizeof *parquet->leaves);
    if (!parquet->leaves)
        return no_memory(file, error);
    struct schema schema = {
        .file = file, .parquet = parquet, .thrift = thrift, .elements_left = count, .error = error};
    int r = read_node(&schema, NULL, &parquet->root, 0);
    if (r == 0 && (schema.elements_left || !parquet->root.num_children))
        r = damaged(file, "its schema makes no sense", error);
    return r;
}

/* --- row groups -------------------------------------------------------------------------------------------
 */

struct chunk_metadata {
    int64_t codec, num_values, bytes, data_offset, dictionary_offset;
    bool encrypted, elsewhere, there;
};

static void read_column_metadata(struct mt_thrift *thrift, struct chunk_metadata *metadata)
{
    struct mt_thrift_field field = {0};
    metadata->there = true;
    while (mt_thrift_next(thrift, &field)) {
        int64_t *value = field.id == 4    ? &metadata->codec
                         : field.id == 5  ? &metadata->num_values
                         : field.id == 7  ? &metadata->bytes
                         : field.id == 9  ? &metadata->data_offset
                         : field.id == 11 ? &metadata->dictionary_offset
                                          : NULL;
        if (value)
            *value = mt_thrift_integer(thrift, field.type);
        else
            mt_thrift_skip(thrift, field.type);
    }
}

static int read_chunk(const struct mt_data_file *file, struct mt_thrift *thrift,
                      struct mt_parquet_chunk *chunk, struct mt_error *error)
{
    struct mt_thrift_field field = {0};
    struct chunk_metadata metadata = {0};
    while (mt_thrift_next(thrift, &field)) {
        if (field.id == 3 && field.type == MT_THRIFT_STRUCT) {
            read_column_metadata(thrift, &metadata);
            continue;
        }
        metadata.elsewhere |= field.id == 1;
        metadata.encrypted |= field.id == 8 || field.id == 9;
        mt_thrift_skip(thrift, field.type);
    }
    if (metadata.encrypted)
        return mt_error_set(error, -ENOTSUP, MT_REASON_BAD_DATA, "%s: encrypted Parquet is not supported",
                            file->path);
    if (metadata.elsewhere)
        return mt_error_set(error, -ENOTSUP, MT_REASON_BAD_DATA,
                            "%s: a Parquet file whose columns lie in other files is not supported",
                            file->path);
    if (!thrift->bad && metadata.there && metadata.num_values == 0) { /* no rows, and no pages */
        *chunk = (struct mt_parquet_chunk){0};
        return 0;
    }
    const int64_t begin = metadata.dictionary_offset > 0 && metadata.dictionary_offset < metadata.data_offset
                              ? metadata.dictionary_offset
                              : metadata.data_offset;
    if (thrift->bad || !metadata.there || begin < 4 || metadata.bytes < 0 || metadata.num_values < 0 ||
        (uint64_t)begin > file->identity.bytes ||
        (uint64_t)metadata.bytes > file->identity.bytes - (uint64_t)begin)
        return damaged(file, "a column lies outside of the file", error);
    *chunk = (struct mt_parquet_chunk){
        .offset = (uint64_t)begin,
        .bytes = (uint64_t)metadata.bytes,
        .num_values = (uint64_t)metadata.num_values,
        .codec = (int)metadata.codec,
    };
    return 0;
}

static int read_group(const struct mt_data_file *file, struct mt_parquet *parquet, struct mt_thrift *thrift,
                      struct mt_parquet_group *group, struct mt_error *error)
{
    struct mt_thrift_field field = {0};
    int64_t num_rows = -1;
    while (mt_thrift_next(thrift, &field)) {
        if (field.id == 3) {
            num_rows = mt_thrift_integer(thrift, field.type);
        } else if (field.id == 1) {
            enum mt_thrift_type element;
            const size_t count = mt_thrift_list(thrift, field.type, &element);
            if (count != parquet->num_leaves || element != MT_THRIFT_STRUCT || group->chunks)
                return damaged(file, "a row group has other columns than the schema", error);
            group->chunks = mt_arena_alloc(parquet->arena, count, sizeof *group->chunks);
            if (!group->chunks)
                return no_memory(file, error);
            for (size_t i = 0; i < count; i++) {
                int r = read_chunk(file, thrift, &group->chunks[i], error);
                if (r < 0)
                    return r;
            }
        } else {
            mt_thrift_skip(thrift, field.type);
        }
    }
    if (thrift->bad || num_rows < 0 || !group->chunks)
        return damaged(file, "a row group makes no sense", error);
    group->num_rows = (uint64_t)num_rows;
    return 0;
}

static int read_groups(const struct mt_data_file *file, struct mt_parquet *parquet, struct mt_thrift *thrift,
                       enum mt_thrift_type type, struct mt_error *error)
{
    enum mt_thrift_type element;
    const size_t count = mt_thrift_list(thrift, type, &element);
    if (!parquet->leaves || parquet->groups || count > MAX_GROUPS || (count && element != MT_THRIFT_STRUCT))
        return damaged(file, "its row groups make no sense", error);
    parquet->groups = mt_arena_alloc(parquet->arena, count, sizeof *parquet->groups);
    if (!parquet->groups)
        return no_memory(file, error);
    for (; parquet->num_groups < count; parquet->num_groups++) {
        int r = read_group(file, parquet, thrift, &parquet->groups[parquet->num_groups], error);
        if (r < 0)
            return r;
    }
    return 0;
}

/* --- the file ---------------------------------------------------------------------------------------------
 */

static int read_footer(const struct mt_data_file *file, struct mt_parquet *parquet, const uint8_t *footer,
                       size_t bytes, struct mt_error *error)
{
    struct mt_thrift thrift = {.at = footer, .end = footer + bytes};
    struct mt_thrift_field field = {0};
    int64_t num_rows = -1;
    int r = 0;
    while (r == 0 && mt_thrift_next(&thrift, &field)) {
        if (field.id == 2)
            r = read_schema(file, parquet, &thrift, field.type, error);
        else if (field.id == 3)
            num_rows = mt_thrift_integer(&thrift, field.type);
        else if (field.id == 4)
            r = read_groups(file, parquet, &thrift, field.type, error);
        else
            mt_thrift_skip(&thrift, field.type);
    }
    if (r < 0)
        return r;
    uint64_t rows = 0;
    for (size_t i = 0; i < parquet->num_groups; i++)
        if (__builtin_add_overflow(rows, parquet->groups[i].num_rows, &rows))
            return damaged(file, "it counts too many rows", error);
    if (thrift.bad || !parquet->leaves || num_rows < 0 || rows != (uint64_t)num_rows)
        return damaged(file, "its footer makes no sense", error);
    parquet->num_rows = rows;
    for (size_t i = 0; i < parquet->num_leaves; i++)
        if (parquet->leaves[i]->max_definition > MAX_LEVEL)
            return damaged(file, "its schema is too deep", error);
    return 0;
}

int mt_parquet_open(const struct mt_data_file *file, struct mt_parquet *parquet, struct mt_error *error)
{
    *parquet = (struct mt_parquet){0};
    const uint64_t bytes = file->identity.bytes;
    uint8_t tail[8];
    if (bytes < 12)
        return damaged(file, "it is too short; was it cut off?", error);
    int r = mt_data_file_read(file, tail, sizeof tail, bytes - sizeof tail, error);
    if (r < 0)
        return r;
    if (memcmp(tail + 4, "PARE", 4) == 0)
        return mt_error_set(error, -ENOTSUP, MT_REASON_BAD_DATA, "%s: encrypted Parquet is not supported",
                            file->path);
    if (memcmp(tail + 4, "PAR1", 4) != 0)
        return damaged(file, "its end is not that of a Parquet file; was it cut off?", error);
    const uint64_t footer_bytes = mt_little_endian(tail, 4);
    if (footer_bytes > bytes - 12 || footer_bytes > MAX_FOOTER_BYTES)
        return damaged(file, "its footer does not fit into it", error);
    parquet->arena = mt_arena_new();
    /* Names are borrowed from the footer: it lives as long as they do. */
    uint8_t *footer = parquet->arena ? mt_arena_alloc(parquet->arena, (size_t)footer_bytes, 1) : NULL;
    r = footer ? mt_data_file_read(file, footer, (size_t)footer_bytes, bytes - 8 - footer_bytes, error)
               : no_memory(file, error);
    if (r == 0)
        r = read_footer(file, parquet, footer, (size_t)footer_bytes, error);
    if (r < 0)
        mt_parquet_close(parquet);
    return r;
}

void mt_parquet_close(struct mt_parquet *parquet)
{
    mt_arena_free(parquet->arena);
    *parquet = (struct mt_parquet){0};
}
