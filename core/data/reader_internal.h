/* What the readers of the formats share. */
#ifndef MT_DATA_READER_INTERNAL_H
#define MT_DATA_READER_INTERNAL_H

#include "core/data/reader.h"
#include "core/data/window.h"

/* A format: each function as the one of reader.h. */
struct mt_reader_format {
    int (*open)(struct mt_reader *reader, struct mt_error *error);
    int (*take)(struct mt_reader *reader, struct mt_arena *arena, struct mt_row *row, struct mt_error *error);
    /* NULL: `take` gives whole rows. */
    int (*parse)(const struct mt_reader *reader, struct mt_arena *arena, struct mt_row *row,
                 struct mt_error *error);
    void (*select)(struct mt_reader *reader, const char *const *names, size_t count); /* NULL: reads all */
    void (*close)(struct mt_reader *reader);
    bool binary; /* read by its own means from mt_input_file(reader->window.input) */
};

struct mt_reader {
    const struct mt_reader_format *format;
    const struct mt_source_file *file;
    struct mt_window window; /* of a binary format its input alone */
    size_t rows;
    size_t max_bytes;
    void *own;    /* of the format */
    bool partial; /* the part that is read ended in the middle of a row */
};

extern const struct mt_reader_format mt_reader_text, mt_reader_json, mt_reader_csv, mt_reader_parquet,
    mt_reader_arrow;

int mt_reader_no_memory(const struct mt_reader *reader, struct mt_error *error);

/* Is `name` one of the names? */
bool mt_reader_names(const char *const *names, size_t count, const char *name, size_t bytes);

/* A row of the next `bytes` of the window, which are taken; `raw` is a copy in the arena. */
int mt_reader_take_raw(struct mt_reader *reader, size_t bytes, struct mt_arena *arena, struct mt_row *row,
                       struct mt_error *error);

/* "FILE: line L, column C" of byte `offset` of the row's raw text before the message; returns error->code. */
int mt_reader_locate(const struct mt_reader *reader, const struct mt_row *row, size_t offset,
                     struct mt_error *error);

/* -EILSEQ, located, where the raw text of the row is not UTF-8. */
int mt_reader_check_utf8(const struct mt_reader *reader, const struct mt_row *row, struct mt_error *error);

#endif
