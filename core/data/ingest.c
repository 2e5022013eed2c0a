/* From files to tokens. Rows are gathered into blocks as they stand in the file; those of a block are parsed,
 * rendered and tokenised in parallel, then judged and stored in the order of the file, so that nothing
 * depends on the number of threads. */
#include "core/base/cleanup.h"
#include "core/base/size.h"
#include "core/data/columns.h"
#include "core/data/dataset_internal.h"
#include "core/data/reader.h"

#include <inttypes.h>
#include <string.h>

#define BLOCK_ROWS 512
#define BLOCK_BYTES ((size_t)4 << 20)
#define TASK_ROWS 8 /* with one arena */

/* A row on its way. */
struct job {
    struct mt_row row;
    struct mt_row_text text; /* lives while the row is encoded */
    bool answered;           /* a conversation whose answer says something */
    bool cut_freely;         /* a .txt file: windows whatever `overlong` says */
    struct mt_ids ids, learned;
    int result;
    struct mt_error error;
};

struct ingest {
    struct mt_dataset *dataset;
    const struct mt_dataset_options *options;
    const struct mt_source *source;
    const struct mt_source_file *file; /* at hand */
    struct mt_reader *reader;          /* of it */
    enum mt_row_kind kind;             /* of its rows, by the first one */
    struct mt_arena *arena;            /* of the block */
    struct job *jobs;                  /* [BLOCK_ROWS] */
    size_t num_jobs;
    size_t block_bytes;
};

const char *mt_drop_name(enum mt_drop reason)
{
    static const char *const names[] = {"empty", "no_target", "overlong"};
    return names[reason];
}

static int no_memory(struct mt_error *error)
{
    return mt_error_set(
        error, -ENOMEM, MT_REASON_OUT_OF_MEMORY,
        "out of memory for the tokens of the data set: they are held in memory, 4 bytes each");
}

/* --- parsing and tokenising, in parallel ---------------------------------------------------------------- */

/* A document: begin token, text, end token. */
static int encode_document(const struct mt_tokenizer *tokenizer, struct job *job)
{
    int r = mt_tokenizer_encode(tokenizer, job->text.text, job->text.bytes, true, &job->ids, &job->error);
    if (r < 0)
        return r;
    mt_tokenizer_single_begin(tokenizer, &job->ids, 0);
    const int32_t end = mt_tokenizer_end(tokenizer);
    const bool ended = job->ids.count && job->ids.data[job->ids.count - 1] == end;
    if (end != MT_TOKEN_NONE && !ended && mt_ids_push(&job->ids, end) < 0)
        return no_memory(&job->error);
    return 0;
}

/* One row from what stands in the file to tokens; what it needs in between lives in `arena`. */
static int encode_row(const struct ingest *ingest, struct job *job, struct mt_arena *arena)
{
    const struct mt_dataset_options *options = ingest->options;
    int r = mt_reader_parse(ingest->reader, arena, &job->row, &job->error);
    if (r < 0)
        return r;
    enum mt_row_kind kind = ingest->kind;
    r = mt_columns_read_row(ingest->source, ingest->file, &job->row, arena, &kind, &job->text, &job->error);
    if (r < 0)
        return r;
    job->cut_freely = job->row.text != NULL;
    if (kind == MT_ROW_DOCUMENT) {
        r = job->text.bytes ? encode_document(options->tokenizer, job) : 0;
    } else {
        job->answered = job->text.messages[job->text.num_messages - 1].bytes > 0;
        r = mt_chat_encode(options->chat, options->tokenizer, job->text.messages, job->text.num_messages,
                           false, &job->ids, &job->learned, &job->error);
    }
    return r < 0 ? mt_row_locate(&job->row, ingest->file->path, &job->error) : 0;
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

/* --- judging and storing, in order
 * -------------------------------------------------------------------------- */

static void drop(struct mt_dataset_stats *stats, enum mt_drop reason, size_t row)
{
    if (stats->dropped[reason] < MT_DROP_ROWS)
        stats->dropped_rows[reason][stats->dropped[reason]] = row;
    stats->dropped[reason]++;
}

static int refuse_overlong(const struct ingest *ingest, const struct job *job, struct mt_error *error)
{
    return mt_error_set(error, -EMSGSIZE, MT_REASON_BAD_DATA,
                        "%s: line %zu: row %zu has %zu tokens, more than max_seq_len %zu; raise "
                        "dataset.max_seq_len, or set dataset.overlong to truncate or drop",
                        ingest->file->path, job->row.line, job->row.number, job->ids.count,
                        ingest->options->max_seq_len);
}

static int store_document(struct ingest *ingest, const struct job *job, size_t row, struct mt_error *error)
{
    struct mt_samples *samples = &ingest->dataset->samples;
    struct mt_dataset_stats *stats = &ingest->dataset->stats;
    const size_t limit = ingest->options->max_seq_len, count = job->ids.count;
    if (count < 2) { /* nothing to predict */
        drop(stats, MT_DROP_EMPTY, row);
        return 0;
    }
    if (count > limit) {
        if (ingest->options->overlong == MT_OVERLONG_ERROR && !job->cut_freely)
            return refuse_overlong(ingest, job, error);
        if (ingest->options->overlong == MT_OVERLONG_DROP && !job->cut_freely) {
            drop(stats, MT_DROP_OVERLONG, row);
            return 0;
        }
        stats->windowed++;
    }
    const uint64_t first = samples->num_tokens;
    if (mt_samples_add_tokens(samples, job->ids.data, NULL, count) < 0)
        return no_memory(error);
    /* The last token of a window is the first of the next: as a target it counts once. */
    for (size_t start = 0; start + 1 < count; start += limit - 1)
        if (mt_samples_add_range(samples, first + start, (uint32_t)mt_size_min(limit, count - start), row) <
            0)
            return no_memory(error);
    return 0;
}

static bool has_target(const struct job *job, size_t count, bool train_on_prompt)
{
    for (size_t i = 1; i < count; i++)
        if (train_on_prompt || job->learned.data[i])
            return true;
    return false;
}

static int store_conversation(struct ingest *ingest, const struct job *job, size_t row,
                              struct mt_error *error)
{
    const struct mt_dataset_options *options = ingest->options;
    struct mt_dataset_stats *stats = &ingest->dataset->stats;
    struct mt_samples *samples = &ingest->dataset->samples;
    size_t count = job->ids.count;

    if (!job->answered && !options->train_on_prompt) { /* would teach to answer with nothing */
        drop(stats, MT_DROP_NO_TARGET, row);
        return 0;
    }
    const bool overlong = count > options->max_seq_len;
    if (overlong && options->overlong == MT_OVERLONG_ERROR)
        return refuse_overlong(ingest, job, error);
    if (overlong && options->overlong == MT_OVERLONG_DROP) {
        drop(stats, MT_DROP_OVERLONG, row);
        return 0;
    }
    count = mt_size_min(count, options->max_seq_len);
    if (!has_target(job, count, options->train_on_prompt)) {
        drop(stats, MT_DROP_NO_TARGET, row);
        return 0;
    }
    stats->truncated += overlong;
    const uint64_t first = samples->num_tokens;
    if (mt_samples_add_tokens(samples, job->ids.data, options->train_on_prompt ? NULL : job->learned.data,
                              count) < 0 ||
        mt_samples_add_range(samples, first, (uint32_t)count, row) < 0)
        return no_memory(error);
    return 0;
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
        if (r == 0)
            r = job->text.kind == MT_ROW_DOCUMENT ? store_document(ingest, job, row, error)
                                                  : store_conversation(ingest, job, row, error);
        mt_ids_free(&job->ids);
        mt_ids_free(&job->learned);
    }
    ingest->num_jobs = 0;
    ingest->block_bytes = 0;
    mt_arena_free(ingest->arena);
    ingest->arena = NULL;
    return r;
}

/* --- reading -------------------------------------------------------------------------------------------- */

/* The first row of a file says what all of them are. */
static int decide_kind(struct ingest *ingest, struct mt_row *row, struct mt_error *error)
{
    struct mt_row_text text;
    int r = mt_reader_parse(ingest->reader, ingest->arena, row, error);
    if (r == 0)
        r = mt_columns_read_row(ingest->source, ingest->file, row, ingest->arena, &ingest->kind, &text,
                                error);
    if (r == 0 && ingest->kind == MT_ROW_CONVERSATION && !ingest->options->chat)
        r = mt_error_set(error, -EINVAL, MT_REASON_INTERNAL,
                         "the rows are conversations, and no chat template was given");
    return r;
}

static int ingest_rows(struct ingest *ingest, struct mt_error *error)
{
    ingest->kind = MT_ROW_UNDECIDED;
    for (;;) {
        if (ingest->dataset->stats.rows + ingest->num_jobs >= ingest->source->max_rows)
            return ingest->num_jobs ? flush(ingest, error) : 0;
        if (!ingest->arena && !(ingest->arena = mt_arena_new()))
            return no_memory(error);
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
        if (ingest->kind == MT_ROW_UNDECIDED) {
            r = decide_kind(ingest, &job->row, error);
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
    if (r == 0)
        r = mt_reader_finish(ingest->reader, digest, error);
    if (r == 0)
        mt_sha256_update(&ingest->dataset->hash, digest, sizeof digest);
    mt_reader_free(ingest->reader);
    ingest->reader = NULL;
    return r;
}

/* Nothing to train on: says why. */
static int check_not_empty(const struct mt_dataset *dataset, const struct mt_source *source,
                           size_t max_seq_len, struct mt_error *error)
{
    const struct mt_dataset_stats *stats = &dataset->stats;
    const char *first = source->num_files ? source->files[0].path : "(no file)";
    if (!stats->rows)
        return mt_error_set(error, -ENODATA, MT_REASON_BAD_DATA, "the data set is empty: %s%s holds no row",
                            first, source->num_files > 1 ? " and the files beside it" : "");
    if (!dataset->samples.count)
        return mt_error_set(error, -ENODATA, MT_REASON_BAD_DATA,
                            "%s: none of the %zu rows has a token to learn: %zu without text, %zu without an "
                            "answer within max_seq_len (%zu tokens), %zu longer than max_seq_len%s",
                            first, stats->rows, stats->dropped[MT_DROP_EMPTY],
                            stats->dropped[MT_DROP_NO_TARGET], max_seq_len, stats->dropped[MT_DROP_OVERLONG],
                            stats->dropped[MT_DROP_EMPTY] < stats->rows
                                ? "; where answers are cut off, make dataset.max_seq_len larger"
                                : "");
    return 0;
}

int mt_dataset_ingest(struct mt_dataset *dataset, const struct mt_dataset_options *options,
                      const struct mt_source *source, struct mt_error *error)
{
    struct ingest ingest = {
        .dataset = dataset,
        .options = options,
        .source = source,
        .jobs = calloc(BLOCK_ROWS, sizeof *ingest.jobs),
    };
    int r = ingest.jobs ? 0 : no_memory(error);
    for (size_t i = 0; r == 0 && i < source->num_files; i++)
        r = ingest_file(&ingest, &source->files[i], error);
    mt_arena_free(ingest.arena);
    free(ingest.jobs);
    if (r == 0)
        r = check_not_empty(dataset, source, options->max_seq_len, error);
    mt_samples_trim(&dataset->samples);
    return r;
}
