/* Reading Thrift's compact protocol (thrift-compact-protocol.md), in which Parquet keeps its metadata. What
 * is asked for after the data ends or makes no sense is 0, and `bad` stays set: one check at the end will do.
 */
#ifndef MT_FORMATS_THRIFT_H
#define MT_FORMATS_THRIFT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum mt_thrift_type {
    MT_THRIFT_STOP,
    MT_THRIFT_TRUE,
    MT_THRIFT_FALSE,
    MT_THRIFT_BYTE,
    MT_THRIFT_I16,
    MT_THRIFT_I32,
    MT_THRIFT_I64,
    MT_THRIFT_DOUBLE,
    MT_THRIFT_BINARY,
    MT_THRIFT_LIST,
    MT_THRIFT_SET,
    MT_THRIFT_MAP,
    MT_THRIFT_STRUCT,
};

struct mt_thrift {
    const uint8_t *at, *end;
    bool bad;
};

/* A field of the struct at hand; starts as {0}. */
struct mt_thrift_field {
    int16_t id;
    enum mt_thrift_type type;
};

/* Goes to the next field; false at the struct's end. The caller reads its value, or skips it. */
bool mt_thrift_next(struct mt_thrift *thrift, struct mt_thrift_field *field);
void mt_thrift_skip(struct mt_thrift *thrift, enum mt_thrift_type type);

/* A number of any width, or a bool field, as the field's type says; other types are bad. */
int64_t mt_thrift_integer(struct mt_thrift *thrift, enum mt_thrift_type type);
/* Points into the data. */
const char *mt_thrift_binary(struct mt_thrift *thrift, enum mt_thrift_type type, size_t *bytes);
/* The number of elements and their type. A list that cannot fit into the data is bad: 0. */
size_t mt_thrift_list(struct mt_thrift *thrift, enum mt_thrift_type type, enum mt_thrift_type *element);

#endif
