/* A dataset as a whole: opening it, its fingerprint, and access to samples and sequences. */
#include "core/data/dataset.h"

#include "core/base/cleanup.h"
#include "core/data/cache.h"
#include "core/data/dataset_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Options as if this part were all there is. */
static struct mt_dataset_options part_options(const struct mt_dataset_options *options, size_t part)
{
    struct mt_dataset_options one = *options;
    if (options->num_mix) {
        one.name = options->mix[part].name;
        one.paths = options->mix[part].paths;
        one.num_paths = options->mix[part].num_paths;
    }
    return one;
}

/* Preference data is not trained on yet: -ENOTSUP. */
static int check_method(const struct mt_dataset_options *options, const struct mt_columns *columns,
                        struct mt_error *error)
{
    static const char *const marks[] = {
        [MT_PREFERENCE_RANKING] = "ranking: chosen and rejected ones", [MT_PREFERENCE_KTO] = "kto_tag"};
    if (columns->preference == MT_PREFERENCE_NONE)
        return 0;
    return mt_error_set(
        error, -ENOTSUP, MT_REASON_BAD_DATA,
        "the data set %s%s holds answers that are judged (%s), not answers to learn: it is for "
        "preference training (method: dpo), which is not supported yet; sft and pretrain "
        "take data without them",
        options->name        ? options->name
        : options->num_paths ? options->paths[0]
                             : "",
        options->num_paths > 1 ? " and others" : "", marks[columns->preference]);
}

static int open_source(const struct mt_dataset_options *options, struct mt_source *source,
                       struct mt_error *error)
{
    int r =
        options->name
            ? mt_source_from_registry(options->dataset_dir, options->name, &options->columns, source, error)
            : mt_source_from_paths(options->paths, options->num_paths, &options->columns, source, error);
    const bool known = r == 0 || r == -EREMOTE; /* nobody fetches what is refused then */
    const int refused = known ? check_method(options, &source->columns, error) : 0;
    return refused < 0 ? refused : r;
}

int mt_dataset_sources(const struct mt_dataset_options *options, struct mt_sources *sources,
                       struct mt_error *error)
{
    const size_t count = options->num_mix ? options->num_mix : 1;
    *sources = (struct mt_sources){.list = calloc(count, sizeof *sources->list)};
    if (!sources->list)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory for the data set");
    int r = 0;
    for (; r == 0 && sources->count < count; sources->count++) {
        const struct mt_dataset_options part = part_options(options, sources->count);
        r = open_source(&part, &sources->list[sources->count], error);
        if (r == -EREMOTE && options->data_may_come) {
            *error = (struct mt_error){0};
            r = 0;
        }
        if (r < 0 && options->num_mix)
            mt_error_prefix(error, "part %zu of dataset.mix", sources->count + 1);
    }
    return r;
}

int mt_dataset_fetch(const struct mt_dataset_options *options, mt_source_fetcher *fetch, void *context,
                     struct mt_error *error)
{
    int r = 0;
    for (size_t i = 0; r == 0 && i < (options->num_mix ? options->num_mix : 1); i++) {
        const struct mt_dataset_options part = part_options(options, i);
        struct mt_source source = {0};
        r = part.name ? open_source(&part, &source, error) : 0;
        mt_source_free(&source);
        if (r == -EREMOTE) {
            *error = (struct mt_error){0};
            r = mt_source_fetch(part.dataset_dir, part.name, fetch, context, error);
        }
        if (r < 0 && options->num_mix)
            mt_error_prefix(error, "part %zu of dataset.mix", i + 1);
    }
    return r;
}

void mt_sources_free(struct mt_sources *sources)
{
    for (size_t i = 0; i < sources->count; i++)
        mt_source_free(&sources->list[i]);
    free(sources->list);
    *sources = (struct mt_sources){0};
}

size_t mt_sources_num_files(const struct mt_sources *sources)
{
    size_t count = 0;
    for (size_t i = 0; i < sources->count; i++)
        count += sources->list[i].num_files;
    return count;
}

static void hash_text(struct mt_sha256 *hash, const char *text)
{
    const char *value = text ? text : "\1"; /* left open is not the same as empty */
    mt_sha256_update(hash, value, strlen(value) + 1);
}

static void hash_source(struct mt_sha256 *hash, const struct mt_source *source)
{
    const struct mt_columns *columns = &source->columns;
    const struct mt_job_tags *tags = &columns->tags;
    const char *const names[] = {columns->prompt,   columns->query, columns->response, columns->system,
                                 columns->history,  columns->text,  columns->messages, columns->tools,
                                 tags->role,        tags->content,  tags->user,        tags->assistant,
                                 tags->observation, tags->function, tags->system};
    const uint8_t formatting = (uint8_t)columns->formatting;
    mt_sha256_update(hash, &formatting, 1);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        hash_text(hash, names[i]);
    for (size_t i = 0; i < source->num_files; i++) {
        const uint8_t format = (uint8_t)source->files[i].format;
        mt_sha256_update(hash, &format, 1);
    }
}

void mt_dataset_hash_options(struct mt_sha256 *hash, const struct mt_dataset_options *options,
                             const struct mt_sources *sources)
{
    char line[256];
    snprintf(line, sizeof line, "megatrain data 2: %zu %d %d %d %.17g %" PRIu64 " %zu", options->max_seq_len,
             options->packing, (int)options->overlong, options->train_on_prompt, options->val_size,
             options->seed, sources->list[0].max_rows);
    hash_text(hash, line);
    hash_text(hash, mt_tokenizer_fingerprint(options->tokenizer));
    hash_text(hash, options->chat ? mt_chat_fingerprint(options->chat) : NULL);
    hash_source(hash, &sources->list[0]);
    for (size_t i = 1; i < sources->count; i++) {
        snprintf(line, sizeof line, "part %zu: %zu", i, sources->list[i].max_rows);
        hash_text(hash, line);
        hash_source(hash, &sources->list[i]);
    }
    for (size_t i = 0; options->num_mix > 1 && i < options->num_mix; i++) {
        snprintf(line, sizeof line, "mix %d %.17g", (int)options->mix_strategy, options->mix[i].weight);
        hash_text(hash, line);
    }
}

static int check_options(const struct mt_dataset_options *options, struct mt_error *error)
{
    if (options->max_seq_len < 2 || options->max_seq_len > UINT32_MAX / 2)
        return mt_error_set(error, -EINVAL, MT_REASON_BAD_JOB,
                            "dataset.max_seq_len is %zu; it must be at least 2", options->max_seq_len);
    for (size_t i = 0; i < options->num_mix; i++)
        if (!(options->mix[i].weight > 0 && options->mix[i].weight < 1e9))
            return mt_error_set(error, -EINVAL, MT_REASON_BAD_JOB,
                                "dataset.mix: the weight of part %zu is %g; it must be above 0", i + 1,
                                options->mix[i].weight);
    if (!options->name && !options->num_paths && !options->num_mix)
        return mt_error_set(error, -EINVAL, MT_REASON_BAD_JOB,
                            "no data set: set dataset.path or dataset.name");
    return 0;
}

/* The samples: those of an earlier time, or read now. */
static int obtain(struct mt_dataset *dataset, const struct mt_dataset_options *options,
                  const struct mt_sources *sources, struct mt_error *error)
{
    struct mt_cache cache;
    int r = mt_cache_begin(&cache, options, sources, error);
    if (r == 0)
        r = mt_cache_find(&cache, dataset, error);
    if (r != 0) {
        mt_cache_end(&cache);
        return r < 0 ? r : 0;
    }
    mt_samples_begin(&dataset->samples, &cache.folder);
    r = mt_dataset_ingest(dataset, options, sources, error);
    if (r == 0)
        r = mt_cache_keep(&cache, dataset, error);
    mt_cache_end(&cache);
    return r;
}

static int build(struct mt_dataset *dataset, const struct mt_dataset_options *options,
                 const struct mt_sources *sources, struct mt_error *error)
{
    dataset->seed = options->seed;
    int r = obtain(dataset, options, sources, error);
    if (r == 0)
        r = mt_dataset_arrange(dataset, options, error);
    if (r < 0)
        return r;
    struct mt_sha256 hash;
    uint8_t digest[32];
    mt_sha256_init(&hash);
    mt_dataset_hash_options(&hash, options, sources);
    mt_sha256_update(&hash, dataset->digests, 32 * dataset->num_digests);
    mt_sha256_final(&hash, digest);
    mt_sha256_hex(digest, dataset->fingerprint);
    return mt_dataset_count(dataset, error);
}

int mt_dataset_open(const struct mt_dataset_options *options, struct mt_dataset **result,
                    struct mt_error *error)
{
    *result = NULL;
    int r = check_options(options, error);
    if (r < 0)
        return r;
    struct mt_dataset *dataset = calloc(1, sizeof *dataset);
    if (!dataset)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory for the data set");
    struct mt_sources sources = {0};
    r = mt_dataset_sources(options, &sources, error);
    if (r == 0)
        r = build(dataset, options, &sources, error);
    mt_sources_free(&sources);
    if (r < 0) {
        mt_dataset_free(dataset);
        return r;
    }
    *result = dataset;
    return 0;
}

void mt_dataset_free(struct mt_dataset *dataset)
{
    if (!dataset)
        return;
    mt_samples_free(&dataset->samples);
    mt_packs_free(&dataset->packs[0]);
    mt_packs_free(&dataset->packs[1]);
    free(dataset->parts);
    free(dataset->validation);
    free(dataset->digests);
    free(dataset);
}

const struct mt_dataset_stats *mt_dataset_stats(const struct mt_dataset *dataset)
{
    return &dataset->stats;
}

const char *mt_dataset_fingerprint(const struct mt_dataset *dataset)
{
    return dataset->fingerprint;
}

uint64_t mt_dataset_seed(const struct mt_dataset *dataset)
{
    return dataset->seed;
}

size_t mt_dataset_num_samples(const struct mt_dataset *dataset)
{
    return dataset->samples.count;
}

int mt_dataset_sample(const struct mt_dataset *dataset, size_t i, struct mt_sample *sample,
                      struct mt_error *error)
{
    struct mt_sample_range range;
    *sample = (struct mt_sample){0};
    int r = mt_samples_range(&dataset->samples, i, &range, error);
    if (r < 0)
        return r;
    *sample = (struct mt_sample){.ids = malloc(range.tokens * sizeof *sample->ids),
                                 .learned = malloc(range.tokens),
                                 .tokens = range.tokens,
                                 .row = range.row,
                                 .validation = mt_dataset_held_out(dataset, i)};
    if (!sample->ids || !sample->learned)
        r = mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory for a sample");
    if (r == 0)
        r = mt_samples_read(&dataset->samples, &range, sample->ids, sample->learned, error);
    if (r < 0)
        mt_sample_free(sample);
    else
        sample->learned[0] = 0; /* nothing predicts it */
    return r;
}

void mt_sample_free(struct mt_sample *sample)
{
    free(sample->ids);
    free(sample->learned);
    *sample = (struct mt_sample){0};
}

size_t mt_dataset_num_shares(const struct mt_dataset *dataset)
{
    return dataset->num_parts;
}

struct mt_dataset_share mt_dataset_share(const struct mt_dataset *dataset, size_t part)
{
    const struct mt_dataset_part *from = &dataset->parts[part];
    return (struct mt_dataset_share){
        .first = (size_t)from->first_sequence[0],
        .count = (size_t)from->num_sequences[0],
        .draws = from->draws,
    };
}

size_t mt_dataset_num_sequences(const struct mt_dataset *dataset, bool validation)
{
    return dataset->packs[validation].num_packs;
}

int mt_dataset_find_documents(const struct mt_dataset *dataset, bool validation, size_t i,
                              struct mt_documents *documents, struct mt_error *error)
{
    const struct mt_packs *packs = &dataset->packs[validation];
    mt_autofree uint32_t *members = NULL;
    *documents = (struct mt_documents){0};
    int r = mt_packs_read(packs, i, &members, &documents->count, error);
    if (r == 0 && !(documents->ranges = calloc(documents->count, sizeof *documents->ranges)))
        r = mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory for a sequence");
    for (size_t k = 0; r == 0 && k < documents->count; k++) {
        r = members[k] < dataset->samples.count
                ? mt_samples_range(&dataset->samples, members[k], &documents->ranges[k], error)
                : mt_bulk_spoilt(&packs->arrays[1], error);
        documents->tokens += documents->ranges[k].tokens;
    }
    if (r < 0)
        mt_documents_free(documents);
    return r;
}

void mt_documents_free(struct mt_documents *documents)
{
    free(documents->ranges);
    *documents = (struct mt_documents){0};
}

/* Ids and labels of one document; adds its target tokens to `*targets`. */
static int fill_document(const struct mt_samples *samples, const struct mt_sample_range *range, int32_t *ids,
                         int32_t *labels, size_t *targets, struct mt_error *error)
{
    /* At the end of the labels' room: made from the front on, they overwrite none before it was looked at. */
    uint8_t *learned = (uint8_t *)labels + 3 * (size_t)range->tokens;
    int r = mt_samples_read(samples, range, ids, learned, error);
    if (r < 0)
        return r;
    for (size_t t = 0; t + 1 < range->tokens; t++) {
        const bool is_target = learned[t + 1];
        labels[t] = is_target ? ids[t + 1] : -100;
        *targets += is_target;
    }
    labels[range->tokens - 1] = -100;
    return 0;
}

int mt_dataset_fill_sequence(const struct mt_dataset *dataset, const struct mt_documents *documents,
                             struct mt_sequence *sequence, size_t *targets, struct mt_error *error)
{
    size_t at = 0;
    int r = 0;
    *targets = 0;
    sequence->row = documents->ranges[0].row;
    for (size_t k = 0; r == 0 && k < documents->count; k++) {
        const struct mt_sample_range *range = &documents->ranges[k];
        sequence->document_starts[k] = (int32_t)at;
        r = fill_document(&dataset->samples, range, sequence->ids + at, sequence->labels + at, targets,
                          error);
        at += range->tokens;
    }
    sequence->document_starts[documents->count] = (int32_t)at;
    return r;
}
