/* Parquet files (parquet-format 2.11, parquet.thrift): the footer's metadata, and the values of one column
 * chunk after another. Memory: the footer, and of each column at hand a page and a dictionary.
 *
 * Read are all physical types; the encodings PLAIN, RLE, dictionaries, the three DELTA ones and
 * BYTE_STREAM_SPLIT; data pages of both versions; Snappy, gzip, Zstandard, LZ4. LZO, Brotli and encryption
 * are refused by name. */
#ifndef MT_FORMATS_PARQUET_H
#define MT_FORMATS_PARQUET_H

#include "core/base/arena.h"
#include "core/base/error.h"
#include "core/formats/codec.h"
#include "core/formats/data_file.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum mt_parquet_type {
    MT_PARQUET_BOOLEAN,
    MT_PARQUET_INT32,
    MT_PARQUET_INT64,
    MT_PARQUET_INT96,
    MT_PARQUET_FLOAT,
    MT_PARQUET_DOUBLE,
    MT_PARQUET_BYTES,
    MT_PARQUET_FIXED, /* `width` bytes */
};

enum mt_parquet_repetition {
    MT_PARQUET_REQUIRED,
    MT_PARQUET_OPTIONAL,
    MT_PARQUET_REPEATED,
};

/* What a value means, whichever of the two annotations says it. */
enum mt_parquet_meaning {
    MT_PARQUET_PLAIN,
    MT_PARQUET_STRING, /* also JSON and ENUM */
    MT_PARQUET_LIST,
    MT_PARQUET_MAP,
    MT_PARQUET_DECIMAL, /* integer x 10^-scale */
    MT_PARQUET_DATE,    /* days since 1970 */
    MT_PARQUET_TIME,    /* of a day, in `unit` */
    MT_PARQUET_TIMESTAMP,
    MT_PARQUET_UNSIGNED,
    MT_PARQUET_UUID,
    MT_PARQUET_FLOAT16,
};

/* A node of the schema; the root is a group without repetition. */
struct mt_parquet_node {
    const char *name;
    size_t name_bytes;
    enum mt_parquet_repetition repetition;
    enum mt_parquet_meaning meaning;
    int64_t units_per_second; /* of times */
    bool utc;
    int32_t scale;
    unsigned max_definition, max_repetition; /* of an entry in which this node is there */
    /* A leaf: */
    enum mt_parquet_type type;
    size_t width; /* of MT_PARQUET_FIXED */
    size_t leaf;  /* its number; of a group that of its first leaf */
    size_t num_leaves;
    /* A group: */
    size_t num_children; /* 0: a leaf */
    struct mt_parquet_node *children;
};

struct mt_parquet_chunk {
    uint64_t offset, bytes; /* all of its pages, within the file */
    uint64_t num_values;
    int codec; /* as parquet.thrift numbers them */
};

struct mt_parquet_group {
    uint64_t num_rows;
    struct mt_parquet_chunk *chunks; /* [num_leaves] */
};

struct mt_parquet {
    struct mt_arena *arena;
    struct mt_parquet_node root;
    const struct mt_parquet_node **leaves; /* [num_leaves] */
    size_t num_leaves;
    uint64_t num_rows;
    struct mt_parquet_group *groups;
    size_t num_groups;
};

/* Reads and checks the footer. MT_REASON_BAD_DATA with the file's name. */
int mt_parquet_open(const struct mt_data_file *file, struct mt_parquet *parquet, struct mt_error *error);
void mt_parquet_close(struct mt_parquet *parquet); /* {0} is fine */

/* --- the entries of a column chunk (parquet_column.c) -----------------------------------------------------
 */

/* A value; bytes live until the next call for this column. */
struct mt_parquet_value {
    const uint8_t *data; /* BYTES, FIXED, INT96 */
    size_t bytes;
    int64_t integer; /* BOOLEAN, INT32, INT64 */
    double real;     /* FLOAT, DOUBLE */
};

struct mt_parquet_column;

struct mt_parquet_column *mt_parquet_column_new(const struct mt_data_file *file,
                                                const struct mt_parquet_node *leaf); /* NULL: no memory */
void mt_parquet_column_free(struct mt_parquet_column *column);                       /* NULL is fine */
void mt_parquet_column_begin(struct mt_parquet_column *column, const struct mt_parquet_chunk *chunk);

/* The levels of the next entry: 1, or 0 at the chunk's end. Stays there until it is taken. */
int mt_parquet_column_peek(struct mt_parquet_column *column, unsigned *repetition, unsigned *definition,
                           struct mt_error *error);
/* Takes the entry that was looked at; a value only where its definition is the leaf's largest. */
int mt_parquet_column_take(struct mt_parquet_column *column, struct mt_parquet_value *value,
                           struct mt_error *error);

#endif
