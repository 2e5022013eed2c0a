/* Arrow's IPC formats (arrow.apache.org, "Columnar format", Message.fbs, Schema.fbs): files (also Feather of
 * version 2) and streams, as Hugging Face's `datasets` and pyarrow write them. One record batch is at hand at
 * a time; its buffers are read through small windows, packed ones (LZ4, Zstandard) whole.
 *
 * Read are all types but unions and run-end encoded ones, with nulls and dictionaries. */
#ifndef MT_FORMATS_ARROW_H
#define MT_FORMATS_ARROW_H

#include "core/base/arena.h"
#include "core/base/error.h"
#include "core/formats/data_file.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum mt_arrow_type { /* as Schema.fbs numbers them */
                     MT_ARROW_NULL = 1,
                     MT_ARROW_INT,
                     MT_ARROW_FLOAT,
                     MT_ARROW_BINARY,
                     MT_ARROW_UTF8,
                     MT_ARROW_BOOL,
                     MT_ARROW_DECIMAL,
                     MT_ARROW_DATE,
                     MT_ARROW_TIME,
                     MT_ARROW_TIMESTAMP,
                     MT_ARROW_INTERVAL,
                     MT_ARROW_LIST,
                     MT_ARROW_STRUCT,
                     MT_ARROW_UNION,
                     MT_ARROW_FIXED_BINARY,
                     MT_ARROW_FIXED_LIST,
                     MT_ARROW_MAP,
                     MT_ARROW_DURATION,
                     MT_ARROW_LARGE_BINARY,
                     MT_ARROW_LARGE_UTF8,
                     MT_ARROW_LARGE_LIST,
                     MT_ARROW_RUN_ENDS,
                     MT_ARROW_BINARY_VIEW,
                     MT_ARROW_UTF8_VIEW,
                     MT_ARROW_LIST_VIEW,
                     MT_ARROW_LARGE_LIST_VIEW,
};

/* A buffer of the batch at hand. */
struct mt_arrow_buffer {
    uint64_t offset, bytes; /* in the file; of the buffer */
    uint8_t *data;          /* all of it, or a window: [begin, begin + held) */
    uint64_t begin, held;
    size_t capacity;
};

/* A column or a part of one: its type, and its array in the batch at hand. */
struct mt_arrow_field {
    const char *name;
    size_t name_bytes;
    enum mt_arrow_type type;
    size_t width; /* of a value in bits (INT, FLOAT, DECIMAL, times) or bytes (FIXED_BINARY); of
                     FIXED_LIST elements */
    bool is_signed, utc, millis; /* of INT; of TIMESTAMP; of DATE */
    int64_t units_per_second;    /* of times */
    int32_t scale;               /* of DECIMAL */
    struct mt_arrow_field *children;
    size_t num_children;
    struct mt_arrow_field *dictionary; /* of a dictionary: the values; then this field is an INT of indices */
    int64_t dictionary_id;
    bool unused; /* its buffers are passed over (mt_arrow_leave_out) */

    uint64_t length, nulls;            /* of the array */
    struct mt_arrow_buffer buffers[3]; /* validity; offsets, values or views; bytes or sizes */
    struct mt_arrow_buffer *variadic;  /* of views */
    size_t num_variadic;
};

struct mt_arrow {
    const struct mt_data_file *file;
    struct mt_arena *arena;     /* of the schema */
    struct mt_arrow_field root; /* a STRUCT of the columns, without an array of its own */
    uint64_t at, end;           /* of the file: the next message, the end of messages */
    uint64_t num_rows;          /* of the batch at hand */
    bool ended;
    uint8_t *message;
    size_t message_capacity;
};

/* Reads the schema. MT_REASON_BAD_DATA with the file's name. */
int mt_arrow_open(const struct mt_data_file *file, struct mt_arrow *arrow, struct mt_error *error);
void mt_arrow_close(struct mt_arrow *arrow); /* {0} is fine */
/* Nothing of this column is read from now on, nor of what it is made of. */
void mt_arrow_leave_out(struct mt_arrow_field *field);
/* Goes to the next record batch: 1, or 0 at the end. */
int mt_arrow_next(struct mt_arrow *arrow, struct mt_error *error);

/* `bytes` bytes of a buffer from `offset` on, until the next call for it; NULL after an error was set. */
const uint8_t *mt_arrow_bytes(const struct mt_arrow *arrow, struct mt_arrow_buffer *buffer, uint64_t offset,
                              uint64_t bytes, struct mt_error *error);

#endif
