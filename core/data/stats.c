/* Counting a dataset, for the log, `megatrain data` and the preview. */
#include "core/data/dataset_internal.h"

#include <stdint.h>

int mt_dataset_count(struct mt_dataset *dataset, struct mt_error *error)
{
    struct mt_dataset_stats *stats = &dataset->stats;
    struct mt_samples_cursor cursor = {0};
    int r = 0;
    stats->samples = dataset->samples.count;
    stats->min_length = SIZE_MAX;
    for (size_t i = 0; i < stats->samples; i++) {
        struct mt_sample_range range;
        uint64_t targets;
        r = mt_samples_next(&dataset->samples, &cursor, i, &range, &targets, error);
        if (r < 0)
            break;
        stats->tokens += range.tokens;
        stats->target_tokens += targets;
        if (range.tokens < stats->min_length)
            stats->min_length = range.tokens;
        if (range.tokens > stats->max_length)
            stats->max_length = range.tokens;
        stats->lengths[31 - __builtin_clz(range.tokens)]++;
        stats->val_samples += mt_dataset_held_out(dataset, i);
    }
    mt_samples_cursor_end(&cursor);
    stats->train_samples = stats->samples - stats->val_samples;
    stats->train_sequences = dataset->packs[0].num_packs;
    stats->val_sequences = dataset->packs[1].num_packs;
    return r;
}

static json_t *dropped_json(const struct mt_dataset_stats *stats)
{
    json_t *dropped = json_array();
    for (int reason = 0; reason < MT_NUM_DROPS; reason++) {
        const size_t count = stats->dropped[reason];
        if (!count)
            continue;
        json_t *rows = json_array();
        for (size_t i = 0; i < count && i < MT_DROP_ROWS; i++)
            json_array_append_new(rows, json_integer((json_int_t)stats->dropped_rows[reason][i]));
        const char *why = stats->dropped_why[reason];
        json_array_append_new(dropped,
                              json_pack("{s:s, s:I, s:o, s:s*}", "reason", mt_drop_name((enum mt_drop)reason),
                                        "count", (json_int_t)count, "rows", rows, "why", *why ? why : NULL));
    }
    return dropped;
}

static json_t *lengths_json(const struct mt_dataset_stats *stats)
{
    json_t *histogram = json_array();
    for (int bucket = 0; bucket < MT_LENGTH_BUCKETS; bucket++)
        if (stats->lengths[bucket])
            json_array_append_new(
                histogram, json_pack("[I, I]", (json_int_t)1 << bucket, (json_int_t)stats->lengths[bucket]));
    return json_pack("{s:I, s:I, s:f, s:o}", "min", (json_int_t)stats->min_length, "max",
                     (json_int_t)stats->max_length, "mean", (double)stats->tokens / (double)stats->samples,
                     "histogram", histogram);
}

json_t *mt_dataset_stats_json(const struct mt_dataset *dataset)
{
    const struct mt_dataset_stats *stats = &dataset->stats;
    return json_pack("{s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:I, s:I, s:I, s:I, s:I, s:o}",
                     "complete", !stats->more_rows, "files", (json_int_t)stats->files, "skipped_files",
                     (json_int_t)stats->skipped_files, "rows", (json_int_t)stats->rows, "samples",
                     (json_int_t)stats->samples, "train_samples", (json_int_t)stats->train_samples,
                     "val_samples", (json_int_t)stats->val_samples, "train_sequences",
                     (json_int_t)stats->train_sequences, "val_sequences", (json_int_t)stats->val_sequences,
                     "dropped", dropped_json(stats), "truncated", (json_int_t)stats->truncated,
                     "tools_unwritten", (json_int_t)stats->tools_unwritten, "windowed",
                     (json_int_t)stats->windowed, "tokens", (json_int_t)stats->tokens, "target_tokens",
                     (json_int_t)stats->target_tokens, "lengths", lengths_json(stats));
}
