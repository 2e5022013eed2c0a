/* From files to tokens. Rows are gathered into blocks as they stand in the file; those of a block are parsed,
 * rendered and tokenised in parallel, then judged and stored in the order of the file, so that nothing
 * depends on the number of threads. */
#include "core/base/cleanup.h"
#include "core/base/size.h"
#include "core/base/utf8_repair.h"
#include "core/data/dataset_internal.h"
#include "core/data/encode.h"
#include "core/data/reader.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define BLOCK_ROWS 512
#define BLOCK_BYTES ((size_t)4 << 20)
#define TASK_ROWS 8 /* with one arena */

/* A row on its way. */
struct job {
    struct mt_row row;
    struct mt_encoded encoded;
    int result; /* of mt_row_encode */
    struct mt_error error;
};

struct ingest {
    struct mt_dataset *dataset;
    const struct mt_dataset_options *options;
    const struct mt_source *source;
    const struct mt_source_file *file; /* at hand */
    struct mt_reader *reader;          /* of it */
    struct mt_layout layout;           /* of its rows, by the first one */
    struct mt_arena *arena;            /* of the block */
    struct job *jobs;                  /* [BLOCK_ROWS] */
    size_t num_jobs;
    size_t block_bytes;
    size_t first_row;                    /* of the source */
    size_t dropped_before[MT_NUM_DROPS]; /* of the sources before it */
};

const char *mt_drop_name(enum mt_drop reason)
{
    static const char *const names[] = {"empty", "no_target", "overlong", "turn_order", "template"};
    return names[reason];
}

static int no_memory(struct mt_error *error)
{
    return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY,
                        "out of memory for the rows of the data set");
}

/* --- parsing and tokenising, in parallel ---------------------------------------------------------------- */

/* One row from what stands in the file to tokens; what it needs in between lives in `arena`. */
static int encode_row(const struct ingest *ingest, struct job *job, struct mt_arena *arena)
{
    int r = mt_reader_parse(ingest->reader, arena, &job->row, &job->error);
    if (r < 0)
        return r;
    job->encoded.error = &job->error;
    r = mt_row_encode(ingest->options, &ingest->source->columns, &ingest->layout, &job->row, &job->encoded);
    return r < 0 ? mt_row_locate(&job->row, ingest->file->path, &job->error) : r;
}

static void encode_rows(void *context, size_t task)
{
    const struct ingest *ingest = context;
    const size_t first = task * TASK_ROWS, end = mt_size_min(first + TASK_ROWS, ingest->num_jobs);
    struct mt_arena *arena = mt_arena_new();
    for (size_t i = first; i < end; i++) {
        struct job *job = &ingest->jobs[i];
        job->result = arena ? encode_row(ingest, job, arena) : no_memory(&job->error);
    }
    mt_arena_free(arena);
}

/* --- judging and storing, in order ---------------------------------------------------------------------- */

static void drop(struct mt_dataset_stats *stats, enum mt_drop reason, size_t row, const char *why)
{
    if (!stats->dropped[reason]) {
        snprintf(stats->dropped_why[reason], MT_DROP_WHY_BYTES, "%.*s", MT_DROP_WHY_BYTES - 1, why);
        mt_utf8_repair(stats->dropped_why[reason]); /* cut in the middle of a character */
    }
    if (stats->dropped[reason] < MT_DROP_ROWS)
        stats->dropped_rows[reason][stats->dropped[reason]] = row;
    stats->dropped[reason]++;
}

static int refuse_overlong(const struct ingest *ingest, const struct job *job, struct mt_error *error)
{
    return mt_error_set(error, -EMSGSIZE, MT_REASON_BAD_DATA,
                        "%s: line %zu: row %zu has %zu tokens, more than max_seq_len %zu; raise "
                        "dataset.max_seq_len, or set dataset.overlong to truncate or drop",
                        ingest->file->path, job->row.line, job->row.number, job->encoded.ids.count,
                        ingest->options->max_seq_len);
}

static int store_document(struct ingest *ingest, const struct job *job, size_t row, struct mt_error *error)
{
    struct mt_samples *samples = &ingest->dataset->samples;
    struct mt_dataset_stats *stats = &ingest->dataset->stats;
    const size_t limit = ingest->options->max_seq_len, count = job->encoded.ids.count;
    const bool cut_freely = job->row.text != NULL; /* a .txt file: windows whatever `overlong` says */
    if (count > limit) {
        if (ingest->options->overlong == MT_JOB_OVERLONG_ERROR && !cut_freely)
            return refuse_overlong(ingest, job, error);
        if (ingest->options->overlong == MT_JOB_OVERLONG_DROP && !cut_freely) {
            char why[100];
            snprintf(why, sizeof why, "it has %zu tokens", count);
            drop(stats, MT_DROP_OVERLONG, row, why);
            return 0;
        }
        stats->windowed++;
    }
    const uint64_t first = samples->num_tokens;
    int r = mt_samples_add_tokens(samples, job->encoded.ids.data, NULL, count, error);
    /* The last token of a window is the first of the next: as a target it counts once. */
    for (size_t start = 0; r == 0 && start + 1 < count; start += limit - 1)
        r = mt_samples_add_range(samples, first + start, job->encoded.ids.data + start, NULL,
                                 (uint32_t)mt_size_min(limit, count - start), row, error);
    return r;
}

static bool has_target(const struct mt_encoded *encoded, size_t count)
{
    for (size_t i = 1; i < count; i++)
        if (!encoded->learned.count || encoded->learned.data[i])
            return true;
    return false;
}

static int store_conversation(struct ingest *ingest, const struct job *job, size_t row,
                              struct mt_error *error)
{
    const struct mt_dataset_options *options = ingest->options;
    struct mt_dataset_stats *stats = &ingest->dataset->stats;
    struct mt_samples *samples = &ingest->dataset->samples;
    const struct mt_encoded *encoded = &job->encoded;
    size_t count = encoded->ids.count;

    const bool overlong = count > options->max_seq_len;
    if (overlong && options->overlong == MT_JOB_OVERLONG_ERROR)
        return refuse_overlong(ingest, job, error);
    if (overlong && options->overlong == MT_JOB_OVERLONG_DROP) {
        char why[100];
        snprintf(why, sizeof why, "it has %zu tokens", count);
        drop(stats, MT_DROP_OVERLONG, row, why);
        return 0;
    }
    count = mt_size_min(count, options->max_seq_len);
    if (!has_target(encoded, count)) { /* all of it cut off, unless there was none before the cut */
        const bool unwanted = encoded->learned.count && !has_target(encoded, encoded->ids.count);
        char why[100] = "none of its answers is to be learned";
        if (!unwanted)
            snprintf(why, sizeof why, "it has %zu tokens, and its answer begins behind max_seq_len %zu",
                     encoded->ids.count, options->max_seq_len);
        drop(stats, MT_DROP_NO_TARGET, row, why);
        return 0;
    }
    stats->truncated += overlong;
    stats->tools_unwritten += encoded->tools_unwritten;
    const uint64_t first = samples->num_tokens;
    const int32_t *ids = encoded->ids.data, *learned = encoded->learned.count ? encoded->learned.data : NULL;
    int r = mt_samples_add_tokens(samples, ids, learned, count, error);
    return r < 0 ? r : mt_samples_add_range(samples, first, ids, learned, (uint32_t)count, row, error);
}

static int check_stop(const struct mt_dataset_options *options, struct mt_error *error)
{
    if (options->should_stop && options->should_stop(options->context))
        return mt_error_set(error, -ECANCELED, MT_REASON_INTERRUPTED, "stopped while reading the data set");
    return 0;
}

/* Tokenises and stores the block. */
static int flush(struct ingest *ingest, struct mt_error *error)
{
    const size_t tasks = mt_size_ceil_div(ingest->num_jobs, TASK_ROWS);
    if (ingest->options->pool) {
        mt_pool_run(ingest->options->pool, tasks, encode_rows, ingest);
    } else {
        for (size_t task = 0; task < tasks; task++)
            encode_rows(ingest, task);
    }
    int r = check_stop(ingest->options, error);
    for (size_t i = 0; i < ingest->num_jobs; i++) {
        struct job *job = &ingest->jobs[i];
        const size_t row = ingest->dataset->stats.rows++;
        if (r == 0 && job->result < 0) {
            r = job->result;
            if (error)
                *error = job->error;
        }
        if (r == 0 && job->result > 0)
            drop(&ingest->dataset->stats, job->encoded.drop, row, job->error.message);
        else if (r == 0)
            r = job->encoded.kind == MT_ROW_DOCUMENT ? store_document(ingest, job, row, error)
                                                     : store_conversation(ingest, job, row, error);
        mt_encoded_free(&job->encoded);
    }
    ingest->num_jobs = 0;
    ingest->block_bytes = 0;
    mt_arena_free(ingest->arena);
    ingest->arena = NULL;
    return r;
}

/* --- reading -------------------------------------------------------------------------------------------- */

/* What is not used is not unpacked. */
static void select_columns(struct ingest *ingest)
{
    const char *names[MT_LAYOUT_MAX_COLUMNS];
    const size_t count = mt_layout_columns(&ingest->source->columns, &ingest->layout, names);
    mt_reader_select(ingest->reader, names, count);
}

/* The first row of a file says what all of them are. */
static int decide_layout(struct ingest *ingest, struct mt_row *row, struct mt_error *error)
{
    int r = mt_reader_parse(ingest->reader, ingest->arena, row, error);
    if (r < 0)
        return r;
    r = mt_layout_decide(&ingest->source->columns, row, &ingest->layout, error);
    if (r < 0)
        return mt_row_locate(row, ingest->file->path, error);
    select_columns(ingest);
    return 0;
}

static int ingest_rows(struct ingest *ingest, struct mt_error *error)
{
    ingest->layout = (struct mt_layout){.kind = MT_ROW_UNDECIDED};
    select_columns(ingest);
    for (;;) {
        const size_t rows = ingest->dataset->stats.rows + ingest->num_jobs;
        const bool seen_enough = ingest->options->max_rows && rows >= ingest->options->max_rows;
        if (!ingest->arena && !(ingest->arena = mt_arena_new()))
            return no_memory(error);
        if (rows - ingest->first_row >= ingest->source->max_rows)
            return flush(ingest, error);
        if (seen_enough) { /* damage beyond what is looked at is of no interest */
            struct mt_row beyond;
            ingest->dataset->stats.more_rows =
                mt_reader_take(ingest->reader, ingest->arena, &beyond, NULL) != 0;
            return flush(ingest, error);
        }
        struct job *job = &ingest->jobs[ingest->num_jobs];
        *job = (struct job){0};
        int r = mt_reader_take(ingest->reader, ingest->arena, &job->row, error);
        if (r < 0) { /* what stands before the damage may be damaged, too, and comes first */
            struct mt_error earlier = {0};
            const int before = flush(ingest, &earlier);
            if (before < 0 && error)
                *error = earlier;
            return before < 0 ? before : r;
        }
        if (r == 0)
            return flush(ingest, error);
        if (ingest->layout.kind == MT_ROW_UNDECIDED) {
            r = decide_layout(ingest, &job->row, error);
            if (r < 0)
                return r;
        }
        ingest->num_jobs++;
        ingest->block_bytes += job->row.raw_bytes;
        if (ingest->num_jobs == BLOCK_ROWS || ingest->block_bytes >= BLOCK_BYTES) {
            r = flush(ingest, error);
            if (r < 0)
                return r;
        }
    }
}

static int ingest_file(struct ingest *ingest, const struct mt_source_file *file, struct mt_error *error)
{
    int r = check_stop(ingest->options, error);
    if (r == 0)
        r = mt_reader_open(file, 0, &ingest->reader, error);
    if (r < 0)
        return r;
    ingest->file = file;
    ingest->dataset->stats.files++;
    unsigned char digest[32];
    r = ingest_rows(ingest, error);
    if (r == 0 && !ingest->options->max_rows)
        r = mt_reader_finish(ingest->reader, digest, error);
    if (r == 0 && !ingest->options->max_rows)
        memcpy(ingest->dataset->digests[ingest->dataset->num_digests++], digest, sizeof digest);
    mt_reader_free(ingest->reader);
    ingest->reader = NULL;
    return r;
}

/* Nothing to train on: says why. */
static int check_not_empty(const struct ingest *ingest, const struct mt_dataset_part *part,
                           struct mt_error *error)
{
    static const char *const what[] = {
        [MT_DROP_EMPTY] = "without text",
        [MT_DROP_NO_TARGET] = "without an answer to learn within max_seq_len",
        [MT_DROP_OVERLONG] = "longer than max_seq_len",
        [MT_DROP_ORDER] = "with turns out of order",
        [MT_DROP_TEMPLATE] = "that the chat template refuses",
    };
    const struct mt_dataset_stats *stats = &ingest->dataset->stats;
    const struct mt_source *source = ingest->source;
    const size_t rows = stats->rows - ingest->first_row;
    size_t dropped[MT_NUM_DROPS];
    for (size_t i = 0; i < MT_NUM_DROPS; i++)
        dropped[i] = stats->dropped[i] - ingest->dropped_before[i];
    const char *first = source->num_files ? source->files[0].path : "(no file)";
    if (!rows)
        return mt_error_set(error, -ENODATA, MT_REASON_BAD_DATA, "the data set is empty: %s%s holds no row",
                            first, source->num_files > 1 ? " and the files beside it" : "");
    if (part->num_samples)
        return 0;
    char counts[MT_NUM_DROPS * (MT_DROP_WHY_BYTES + 100)] = "";
    for (size_t i = 0, used = 0; i < MT_NUM_DROPS; i++) {
        const char *why =
            ingest->dropped_before[i] ? "" : stats->dropped_why[i]; /* of another source's row */
        if (dropped[i])
            used += (size_t)snprintf(counts + used, sizeof counts - used, "%s%zu %s%s%s%s", used ? ", " : "",
                                     dropped[i], what[i], *why ? " (the first: " : "", why, *why ? ")" : "");
    }
    return mt_error_set(error, -ENODATA, MT_REASON_BAD_DATA,
                        "%s: none of the %zu rows has a token to learn: %s%s", first, rows, counts,
                        dropped[MT_DROP_NO_TARGET] || dropped[MT_DROP_OVERLONG]
                            ? "; where answers are cut off, make dataset.max_seq_len larger"
                            : "");
}

static int ingest_source(struct ingest *ingest, const struct mt_source *source, struct mt_dataset_part *part,
                         struct mt_error *error)
{
    struct mt_dataset *dataset = ingest->dataset;
    part->first_sample = dataset->samples.count;
    ingest->source = source;
    ingest->first_row = dataset->stats.rows;
    memcpy(ingest->dropped_before, dataset->stats.dropped, sizeof ingest->dropped_before);
    dataset->stats.skipped_files += source->skipped_files;
    int r = 0;
    for (size_t i = 0; r == 0 && i < source->num_files && !dataset->stats.more_rows; i++)
        r = ingest_file(ingest, &source->files[i], error);
    part->num_samples = dataset->samples.count - part->first_sample;
    return r < 0 ? r : check_not_empty(ingest, part, error);
}

int mt_dataset_ingest(struct mt_dataset *dataset, const struct mt_dataset_options *options,
                      const struct mt_sources *sources, struct mt_error *error)
{
    struct ingest ingest = {
        .dataset = dataset,
        .options = options,
        .jobs = calloc(BLOCK_ROWS, sizeof *ingest.jobs),
    };
    dataset->digests = calloc(mt_sources_num_files(sources) + 1, sizeof *dataset->digests);
    dataset->parts = calloc(sources->count, sizeof *dataset->parts);
    dataset->num_parts = sources->count;
    int r = ingest.jobs && dataset->digests && dataset->parts ? 0 : no_memory(error);
    for (size_t i = 0; r == 0 && i < sources->count && !dataset->stats.more_rows; i++)
        r = ingest_source(&ingest, &sources->list[i], &dataset->parts[i], error);
    mt_arena_free(ingest.arena);
    free(ingest.jobs);
    return r < 0 ? r : mt_samples_seal(&dataset->samples, error);
}
