/* From files to tokens. Rows are gathered into blocks; the rows of a block are rendered and tokenised in
 * parallel, then judged and stored in the order of the file, so that nothing depends on the number of
 * threads.
 */
#include "core/base/cleanup.h"
#include "core/base/size.h"
#include "core/data/columns.h"
#include "core/data/dataset_internal.h"
#include "core/data/reader.h"

#include <inttypes.h>
#include <string.h>

#define BLOCK_ROWS 512
#define BLOCK_BYTES ((size_t)4 << 20)

/* A row on its way. */
struct job {
    struct mt_row_text row;
    size_t number, line; /* in its file, from 1 */
    bool cut_freely;     /* a .txt file: windows whatever `overlong` says */
    struct mt_ids ids, learned;
    int result;
    struct mt_error error;
};

struct ingest {
    struct mt_dataset *dataset;
    const struct mt_dataset_options *options;
    const struct mt_source *source;
    const struct mt_source_file *file; /* at hand */
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

/* --- tokenising, in parallel -------------------------------------------------------------------------------
 */

/* A document: begin token, text, end token. */
static int encode_document(const struct mt_tokenizer *tokenizer, struct job *job)
{
    int r = mt_tokenizer_encode(tokenizer, job->row.text, job->row.bytes, true, &job->ids, &job->error);
    if (r < 0)
        return r;
    mt_tokenizer_single_begin(tokenizer, &job->ids, 0);
    const int32_t end = mt_tokenizer_end(tokenizer);
    const bool ended = job->ids.count && job->ids.data[job->ids.count - 1] == end;
    if (end != MT_TOKEN_NONE && !ended && mt_ids_push(&job->ids, end) < 0)
        return no_memory(&job->error);
    return 0;
}

static void encode(void *context, size_t task)
{
    const struct ingest *ingest = context;
    const struct mt_dataset_options *options = ingest->options;
    struct job *job = &ingest->jobs[task];
    if (job->row.kind == MT_ROW_DOCUMENT)
        job->result = job->row.bytes ? encode_document(options->tokenizer, job) : 0;
    else
        job->result = mt_chat_encode(options->chat, options->tokenizer, job->row.messages,
                                     job->row.num_messages, false, &job->ids, &job->learned, &job->error);
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
                        ingest->file->path, job->line, job->number, job->ids.count,
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
    const struct mt_message *answer = &job->row.messages[job->row.num_messages - 1];
    size_t count = job->ids.count;

    if (!answer->bytes && !options->train_on_prompt) { /* would teach to answer with nothing */
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
    if (ingest->options->pool) {
        mt_pool_run(ingest->options->pool, ingest->num_jobs, encode, ingest);
    } else {
        for (size_t i = 0; i < ingest->num_jobs; i++)
            encode(ingest, i);
    }
    int r = check_stop(ingest->options, error);
    for (size_t i = 0; i < ingest->num_jobs; i++) {
        struct job *job = &ingest->jobs[i];
        const size_t row = ingest->dataset->stats.rows++;
        if (r == 0 && job->result < 0) {
            r = job->result;
            if (error)
                *error = job->error;
            mt_error_prefix(error, "%s: line %zu: row %zu", ingest->file->path, job->line, job->number);
        }
        if (r == 0)
            r = job->row.kind == MT_ROW_DOCUMENT ? store_document(ingest, job, row, error)
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

/* --- reading
 * ------------------------------------------------------------------------------------------------ */

static size_t text_bytes(const struct mt_row_text *row)
{
    size_t bytes = row->bytes;
    for (size_t i = 0; i < row->num_messages; i++)
        bytes += row->messages[i].bytes + row->messages[i].input_bytes;
    return bytes;
}

static int ingest_rows(struct ingest *ingest, struct mt_reader *reader, struct mt_error *error)
{
    enum mt_row_kind kind = MT_ROW_UNDECIDED;
    for (;;) {
        if (ingest->dataset->stats.rows + ingest->num_jobs >= ingest->source->max_rows)
            return ingest->num_jobs ? flush(ingest, error) : 0;
        if (!ingest->arena && !(ingest->arena = mt_arena_new()))
            return no_memory(error);
        struct mt_row row;
        int r = mt_reader_next(reader, ingest->arena, &row, error);
        if (r < 0)
            return r;
        if (r == 0)
            return flush(ingest, error);

        struct job *job = &ingest->jobs[ingest->num_jobs];
        *job = (struct job){.number = row.number, .line = row.line, .cut_freely = row.text != NULL};
        r = mt_columns_read_row(ingest->source, ingest->file, &row, ingest->arena, &kind, &job->row, error);
        if (r < 0)
            return r;
        if (kind == MT_ROW_CONVERSATION && !ingest->options->chat)
            return mt_error_set(error, -EINVAL, MT_REASON_INTERNAL,
                                "the rows are conversations, and no chat template was given");
        ingest->num_jobs++;
        ingest->block_bytes += text_bytes(&job->row);
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
    struct mt_reader *reader = NULL;
    if (r == 0)
        r = mt_reader_open(file, 0, &reader, error);
    if (r < 0)
        return r;
    unsigned char digest[32];
    mt_reader_hash(reader, digest);
    mt_sha256_update(&ingest->dataset->hash, digest, sizeof digest);
    ingest->file = file;
    ingest->dataset->stats.files++;
    r = ingest_rows(ingest, reader, error);
    mt_reader_free(reader);
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
