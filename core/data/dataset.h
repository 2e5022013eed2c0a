/* A dataset: what the job names, read, rendered, tokenised, masked, cut, and split into training and
 * validation samples. That takes 4 bytes a token and one bit for "learned", 24 bytes a sample and 8 more for
 * its place, in memory while it is small, else in files of the cache folder (bulk.h, cache.h).
 *
 * Sources: a file, a list of files, a folder (walked recursively, in byte order of the paths; hidden files,
 * dataset_info.json and unknown extensions are passed over, links to folders are not followed), or an entry
 * of `dataset_dir`/dataset_info.json.
 * A file (core/data/reader.h) is a document, or rows of columns (core/data/conversation.h): a `text` column
 * (a document); the Alpaca columns `instruction`, `input`, `output`, `system`, `history` (list of [question,
 * answer]); a list of turns, `messages` or `conversations`; or what `columns` names. A null cell is an
 * empty string; so is an absent one, where a row can do without. A number is taken as it is written; a list
 * of parts ({"type": "text", "text": ...}) is its texts together. Columns that are not used are passed over
 * whatever they hold.
 *
 * A document is begin token, text, end token; all of it is learned. One longer than max_seq_len is cut into
 * windows that overlap by one token, so that every token but the first is predicted exactly once.
 * A conversation is rendered by the chat template; answers and their end tokens are learned, or everything
 * with train_on_prompt or the method `pretrain`.
 *
 * Only what has something to learn trains: rows without text, without an answer, or whose answer was cut off
 * are dropped and counted. */
#ifndef MT_DATA_DATASET_H
#define MT_DATA_DATASET_H

#include "core/base/error.h"
#include "core/base/pool.h"
#include "core/data/batch.h"
#include "core/data/source.h"
#include "core/job/job.h"
#include "core/text/chat.h"
#include "core/text/tokenizer.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mt_dataset_options {
    /* The source: paths, a name in a registry, or several of these. Borrowed during mt_dataset_open. */
    const char *const *paths;
    size_t num_paths;
    const char *name;
    const char *dataset_dir;
    const struct mt_job_mix_part *mix;
    size_t num_mix;
    enum mt_job_mix_strategy mix_strategy;

    bool data_may_come; /* in mt_dataset_probe: what is to be fetched from a hub first is passed over */

    /* Where tokens go that do not fit into a few MiB of memory, and stay for the next time (cache.h): a
     * folder, made when it is needed. NULL: everything in memory. */
    const char *cache_dir;
    size_t cache_memory_bytes; /* of one array; 0: MT_BULK_MEMORY */

    struct mt_columns columns; /* NULL members: the usual names */
    size_t max_rows; /* 0: all; else only the first ones are looked at, and the files' contents are no part
                        of the fingerprint: not to train on */

    size_t max_seq_len; /* at least 2 */
    bool packing;       /* documents laid together, up to max_seq_len tokens a sequence */
    /* Of conversations `truncate` cuts off the end, of documents it makes windows. A .txt file is cut into
     * windows in any case: nobody writes a corpus in one window. */
    enum mt_job_overlong overlong;
    bool train_on_prompt;
    double val_size; /* below 1: the share of samples (to the nearest, one is always left to train); else a
                        count; 0: none */
    uint64_t seed;   /* of the split, the packing and the order */

    const struct mt_tokenizer *tokenizer; /* must outlive the dataset */
    const struct mt_chat *chat;           /* may be NULL where all is plain text */
    struct mt_pool *pool;                 /* NULL: one thread */

    bool (*should_stop)(void *context); /* asked now and then; true ends with -ECANCELED,
                                           MT_REASON_INTERRUPTED; NULL: never */
    void *context;
};

enum mt_drop {
    MT_DROP_EMPTY,     /* a document without text */
    MT_DROP_NO_TARGET, /* no answer, or all of it cut off */
    MT_DROP_OVERLONG,  /* longer than max_seq_len with overlong: drop */
    MT_DROP_ORDER,     /* turns of a conversation out of order, or of an unknown role */
    MT_DROP_TEMPLATE,  /* refused by the chat template, in its own words */
    MT_NUM_DROPS,
};
/* "empty", "no_target", "overlong", "turn_order", "template" */
const char *mt_drop_name(enum mt_drop reason);

#define MT_DROP_ROWS 100 /* row numbers kept a reason */
#define MT_DROP_WHY_BYTES 256
#define MT_LENGTH_BUCKETS 32 /* bucket b: lengths in [2^b, 2^(b+1)) */

struct mt_dataset_stats {
    size_t files;
    size_t skipped_files; /* in folders, of unknown kind */
    size_t rows;          /* read */
    bool more_rows;       /* there are, beyond max_rows */
    size_t samples;       /* kept: rows, or windows of documents */
    size_t train_samples, val_samples;
    size_t train_sequences, val_sequences; /* packs when packing, else samples */
    size_t truncated;                      /* rows whose end was cut off */
    size_t tools_unwritten;                /* kept conversations with tools that the template passes over */
    size_t windowed;                       /* documents cut into windows */
    size_t dropped[MT_NUM_DROPS];
    size_t dropped_rows[MT_NUM_DROPS][MT_DROP_ROWS];   /* the first ones; row numbers count from 0 through all
                                                          files */
    char dropped_why[MT_NUM_DROPS][MT_DROP_WHY_BYTES]; /* of the first one; "" where the reason says all */
    uint64_t tokens, target_tokens;                    /* of the kept samples */
    size_t min_length, max_length;
    size_t lengths[MT_LENGTH_BUCKETS];
};

struct mt_dataset;

/* Reads everything. Errors: MT_REASON_BAD_DATA naming file, line and row, the columns found and those
 * expected; no row, or no target token in all rows, is one too. */
int mt_dataset_open(const struct mt_dataset_options *options, struct mt_dataset **dataset,
                    struct mt_error *error);
void mt_dataset_free(struct mt_dataset *dataset); /* NULL is fine */

/* The folder for mt_dataset_options.cache_dir: $MEGATRAIN_CACHE_DIR, else megatrain/data in $XDG_CACHE_HOME
 * or in
 * ~/.cache. malloc'd; NULL when there is none (no home), or out of memory. */
char *mt_dataset_cache_folder(void);

/* The quick look at submission: files there, readable, not empty, first row with the columns needed. Needs
 * neither tokenizer nor chat. */
int mt_dataset_probe(const struct mt_dataset_options *options, struct mt_error *error);

/* Calls `fetch` for each named data set of a hub that is not in the local hub cache (mt_source_fetch). */
int mt_dataset_fetch(const struct mt_dataset_options *options, mt_source_fetcher *fetch, void *context,
                     struct mt_error *error);

const struct mt_dataset_stats *mt_dataset_stats(const struct mt_dataset *dataset);
/* {samples, dropped: [{reason, count, rows}], truncated, tokens, target_tokens, lengths: {min, max, mean,
 * histogram: [[from, count], ...]}, ...}. New reference; NULL when out of memory. */
json_t *mt_dataset_stats_json(const struct mt_dataset *dataset);

/* 64 hexadecimal digits over what determines samples, packs and order: the files' formats and contents,
 * tokenizer, template, lengths, masks, packing, split, seed. Checkpoints keep it (it is in the sampler's
 * state). */
const char *mt_dataset_fingerprint(const struct mt_dataset *dataset);

/* One kept sample, in the order of the files, both splits together. */
struct mt_sample {
    int32_t *ids;     /* [tokens] */
    uint8_t *learned; /* [tokens]: 1 where the token is learned, as the target of the one before it; else 0 */
    size_t tokens;
    uint64_t row; /* from 0 through all files */
    bool validation;
};
size_t mt_dataset_num_samples(const struct mt_dataset *dataset);
/* Samples and sequences that lie in files are read from there: -ESTALE, MT_REASON_IO where another program
 * changed these since. */
int mt_dataset_sample(const struct mt_dataset *dataset, size_t i, struct mt_sample *sample,
                      struct mt_error *error);
void mt_sample_free(struct mt_sample *sample); /* {0} is fine; leaves {0} */

/* Sequences (packs when packing, else samples) of one split; the sampler puts them in order. */
size_t mt_dataset_num_sequences(const struct mt_dataset *dataset, bool validation);
/* The documents of one sequence, in order. */
struct mt_documents {
    struct mt_sample_range *ranges; /* [count] (samples.h) */
    size_t count, tokens;           /* of all together */
};
int mt_dataset_find_documents(const struct mt_dataset *dataset, bool validation, size_t i,
                              struct mt_documents *documents, struct mt_error *error);
void mt_documents_free(struct mt_documents *documents); /* {0} is fine; leaves {0} */
/* Fills ids, labels and document_starts, which have room for the documents, and the row; counts the target
 * tokens. */
int mt_dataset_fill_sequence(const struct mt_dataset *dataset, const struct mt_documents *documents,
                             struct mt_sequence *sequence, size_t *targets, struct mt_error *error);
uint64_t mt_dataset_seed(const struct mt_dataset *dataset);

/* A part of a mixture, or the one part that a data set is. Its training sequences are [first, first + count);
 * `draws` of them train in an epoch. */
struct mt_dataset_share {
    size_t first, count;
    uint64_t draws;
};
size_t mt_dataset_num_shares(const struct mt_dataset *dataset);
struct mt_dataset_share mt_dataset_share(const struct mt_dataset *dataset, size_t part);

#endif
