/* The quick look at a dataset when a job is submitted: the beginning of each file. */
#include "core/base/cleanup.h"
#include "core/data/conversation.h"
#include "core/data/dataset_internal.h"
#include "core/data/reader.h"

#define PROBE_BYTES ((size_t)1 << 20)

/* 1 when the file has a row, 0 when it is empty. */
static int probe_file(const struct mt_source *source, const struct mt_source_file *file,
                      struct mt_arena *arena, struct mt_error *error)
{
    struct mt_reader *reader;
    int r = mt_reader_open(file, PROBE_BYTES, &reader, error);
    if (r < 0)
        return r;
    struct mt_row row;
    struct mt_layout layout = {0};
    const char *names[MT_LAYOUT_MAX_COLUMNS];
    mt_reader_select(reader, names, mt_layout_columns(&source->columns, &layout, names));
    r = mt_reader_next(reader, arena, &row, error);
    if (r > 0) {
        mt_cleanup(mt_conversation_free) struct mt_conversation conversation = {0};
        r = mt_layout_decide(&source->columns, &row, &layout, error);
        if (r == 0)
            r = mt_conversation_read(&source->columns, &layout, &row, &conversation, error);
        if (r < 0 && r != -EPROTO && r != -ENODATA) /* such a row is passed over */
            mt_row_locate(&row, file->path, error);
        else
            r = 1;
    } else if (r == 0) {
        r = mt_reader_cut(reader); /* a row that is longer than the look */
    }
    mt_reader_free(reader);
    return r;
}

static int probe_source(const struct mt_source *source, struct mt_error *error)
{
    struct mt_arena *arena = mt_arena_new();
    size_t rows = 0;
    int r = arena ? 0 : mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory");
    for (size_t i = 0; r == 0 && i < source->num_files; i++) {
        r = probe_file(source, &source->files[i], arena, error);
        rows += r > 0;
        r = r > 0 ? 0 : r;
    }
    if (r == 0 && !rows)
        r = mt_error_set(error, -ENODATA, MT_REASON_BAD_DATA, "the data set is empty: %s holds no row",
                         source->num_files ? source->files[0].path : "(no file)");
    mt_arena_free(arena);
    return r;
}

int mt_dataset_probe(const struct mt_dataset_options *options, struct mt_error *error)
{
    struct mt_sources sources = {0};
    int r = mt_dataset_sources(options, &sources, error);
    for (size_t i = 0; r == 0 && i < sources.count; i++)
        if (sources.list[i].num_files || !options->data_may_come)
            r = probe_source(&sources.list[i], error);
    mt_sources_free(&sources);
    return r;
}
