/* Data sets larger than memory: arrays on the disk, the cache of samples, orders without tables, mixtures and
 * groups of equal length. */
#include "core/base/random.h"
#include "core/data/cache.h"
#include "core/data/shuffle.h"
#include "tests/unit/data/data_support.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* `count` documents of 3 to 40 bytes that begin with their number and end with `mark`. */
static const char *write_documents(void **state, const char *name, int count, char mark)
{
    const char *path = mt_test_path(state, name);
    FILE *file = fopen(path, "w");
    for (int i = 0; i < count; i++)
        fprintf(file, "{\"text\":\"%0*d%c\"}\n", 2 + i * 7919 % 38, i, mark);
    fclose(file);
    return path;
}

static struct mt_dataset_options cached_options(void **state)
{
    struct mt_dataset_options options = usual_options();
    options.cache_dir = mt_test_path(state, "cache");
    options.cache_memory_bytes = 1024;
    return options;
}

/* Everything that the batches of `steps` steps hold. */
static uint64_t hash_steps(const struct fixture *fixture, struct mt_sampler_options options, size_t steps)
{
    struct mt_error error = {0};
    struct mt_sampler *sampler;
    uint64_t hash = 1469598103934665603u;
    mt_assert_ok(mt_sampler_new(fixture->dataset, &options, &sampler, &error), &error);
    for (size_t s = 0; s < steps; s++) {
        struct mt_batch *batch;
        mt_assert_ok(mt_sampler_next(sampler, &batch, &error), &error);
        for (size_t i = 0; i < batch->num_sequences; i++)
            for (size_t t = 0; t < batch->sequences[i].tokens; t++)
                hash = (hash ^ (uint32_t)batch->sequences[i].ids[t]) * 1099511628211u ^
                       (uint32_t)batch->sequences[i].labels[t];
        mt_batch_free(batch);
    }
    mt_sampler_free(sampler);
    return hash;
}

static size_t count_entries(const char *folder, char *first)
{
    size_t count = 0;
    DIR *entries = opendir(folder);
    for (struct dirent *entry; entries && (entry = readdir(entries));) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (first)
            snprintf(first, 512, "%s/%s", folder, entry->d_name);
        count++;
    }
    if (entries)
        closedir(entries);
    return count;
}

static void arrays_on_the_disk_hold_what_those_in_memory_hold(void **state)
{
    const char *path = write_documents(state, "a.jsonl", 3000, '.');
    struct mt_dataset_options plain = usual_options(), cached = cached_options(state);
    plain.packing = cached.packing = true;
    plain.max_seq_len = cached.max_seq_len = 100;
    plain.val_size = cached.val_size = 0.1;
    const struct mt_sampler_options order = {.sequences_per_step = 7};
    struct fixture memory = open_dataset(plain, path);
    const uint64_t expected = hash_steps(&memory, order, 300);
    for (int time = 0; time < 2; time++) { /* made, then found */
        struct fixture disk = open_dataset(cached, path);
        assert_string_equal(mt_dataset_fingerprint(disk.dataset), mt_dataset_fingerprint(memory.dataset));
        assert_memory_equal(mt_dataset_stats(disk.dataset), mt_dataset_stats(memory.dataset),
                            sizeof(struct mt_dataset_stats));
        assert_true(hash_steps(&disk, order, 300) == expected);
        assert_int_equal(count_entries(cached.cache_dir, NULL), 1); /* nothing half made is left */
        free_fixture(&disk);
    }
    free_fixture(&memory);
}

static bool stop_at_once(void *context)
{
    (void)context;
    return true;
}

/* Reading ends at once with an error, so what opens was found. */
static bool is_cached(struct mt_dataset_options options, const char *path)
{
    struct mt_error error = {0};
    struct fixture fixture;
    options.should_stop = stop_at_once;
    const int r = try_open(&fixture, options, path, &error);
    if (r < 0)
        assert_int_equal(r, -ECANCELED);
    free_fixture(&fixture);
    return r == 0;
}

/* PAINS: a stale token cache after the tokenizer, template, length, mask or packing changed. Right: any
 * change rebuilds. (Packing, split and seed are no part of what is kept: they are made anew each time.) */
static void any_change_makes_the_samples_anew(void **state)
{
    const char *path = write_documents(state, "a.jsonl", 3000, '.');
    const struct mt_dataset_options options = cached_options(state);
    assert_false(is_cached(options, path));
    struct fixture fixture = open_dataset(options, path);
    free_fixture(&fixture);
    assert_true(is_cached(options, path));

    struct mt_dataset_options changed = options;
    changed.max_seq_len = 20;
    assert_false(is_cached(changed, path));
    changed = options;
    changed.train_on_prompt = true;
    assert_false(is_cached(changed, path));
    changed = options;
    changed.overlong = MT_JOB_OVERLONG_DROP;
    assert_false(is_cached(changed, path));
    changed = options;
    changed.columns.text = "text";
    assert_false(is_cached(changed, path));
    changed = options;
    changed.seed = 43;
    changed.packing = true;
    changed.val_size = 5;
    assert_true(is_cached(changed, path));
}

/* The file changes between pause and resume: the samples are made anew, and the sampler's state says why it
 * does not fit. A file that was only touched is read again, and fits. */
static void a_file_that_changed_between_two_runs_is_read_again(void **state)
{
    struct mt_error error = {0};
    const char *path = write_documents(state, "a.jsonl", 3000, '.');
    const struct mt_dataset_options options = cached_options(state);
    const struct mt_sampler_options order = {.sequences_per_step = 7};
    struct mt_sampler *sampler;
    struct fixture fixture = open_dataset(options, path);
    mt_assert_ok(mt_sampler_new(fixture.dataset, &order, &sampler, &error), &error);
    json_t *saved = mt_sampler_state(sampler);
    mt_sampler_free(sampler);
    free_fixture(&fixture);
    for (int written = 0; written < 2; written++) {
        const struct timespec times[2] = {{.tv_sec = 1000 + written}, {.tv_sec = 1000 + written}};
        if (written) {
            FILE *file = fopen(path, "r+");
            fputs("{\"text\":\"X", file); /* the same size */
            fclose(file);
        }
        assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
        assert_false(is_cached(options, path));
        fixture = open_dataset(options, path);
        mt_assert_ok(mt_sampler_new(fixture.dataset, &order, &sampler, &error), &error);
        const int r = mt_sampler_restore(sampler, saved, &error);
        assert_int_equal(r, written ? -ESTALE : 0);
        if (written)
            mt_assert_mentions(error.message, "the files");
        mt_sampler_free(sampler);
        free_fixture(&fixture);
    }
    json_decref(saved);
}

/* Any byte of any file of an entry, and a cut one: never believed, always made anew. */
static void damaged_entries_are_made_anew(void **state)
{
    const char *path = write_documents(state, "a.jsonl", 3000, '.');
    const struct mt_dataset_options options = cached_options(state);
    const struct mt_sampler_options order = {.sequences_per_step = 7};
    struct fixture fixture = open_dataset(options, path);
    const uint64_t expected = hash_steps(&fixture, order, 50);
    free_fixture(&fixture);
    static const char *const names[] = {"ids", "learned", "ranges", "index"};
    struct mt_random random = {.key = 5};
    for (int i = 0; i < 24; i++) {
        char entry[512], file[600];
        assert_int_equal(count_entries(options.cache_dir, entry), 1);
        snprintf(file, sizeof file, "%s/%s", entry, names[i % 4]);
        struct stat status;
        assert_int_equal(stat(file, &status), 0);
        const off_t at = (off_t)mt_random_below(&random, (uint64_t)status.st_size);
        if (i % 3 == 0) {
            assert_int_equal(truncate(file, at), 0);
        } else {
            FILE *stream = fopen(file, "r+");
            fseek(stream, at, SEEK_SET);
            const int byte = fgetc(stream);
            fseek(stream, at, SEEK_SET);
            fputc(byte ^ 0x10, stream);
            fclose(stream);
        }
        assert_false(is_cached(options, path));
        fixture = open_dataset(options, path);
        assert_true(hash_steps(&fixture, order, 50) == expected);
        free_fixture(&fixture);
        assert_true(is_cached(options, path));
    }
}

/* One epoch; its result. */
static int go_through(const struct fixture *fixture, struct mt_error *error)
{
    const struct mt_sampler_options order = {.sequences_per_step = 7, .group_by_length = true};
    struct mt_sampler *sampler;
    struct mt_batch *batch;
    mt_assert_ok(mt_sampler_new(fixture->dataset, &order, &sampler, error), error);
    const size_t steps = mt_sampler_steps_per_epoch(sampler);
    int r = 0;
    for (size_t s = 0; r == 0 && s < steps; s++) {
        r = mt_sampler_next(sampler, &batch, error);
        if (r == 0)
            mt_batch_free(batch);
    }
    mt_sampler_free(sampler);
    return r;
}

static void write_into(const char *path, off_t offset, const void *bytes, size_t count)
{
    const int fd = open(path, O_WRONLY | O_CLOEXEC);
    assert_int_equal(pwrite(fd, bytes, count, offset), (ssize_t)count);
    close(fd);
}

/* Each file, cut, emptied and filled with zeros again, and written to in one place: nothing of that is
 * trained on, and nothing ends the process. */
static void cache_files_that_change_while_in_use_are_an_error(void **state)
{
    static const char *const names[] = {"ids", "learned", "ranges"};
    const char *path = write_documents(state, "a.jsonl", 3000, '.');
    struct mt_dataset_options options = cached_options(state);
    options.packing = true;
    options.max_seq_len = 128;
    for (size_t i = 0; i < 3 * 3; i++) {
        struct mt_error error = {0};
        struct fixture fixture = open_dataset(options, path);
        char entry[512], file[600];
        assert_int_equal(count_entries(options.cache_dir, entry), 1);
        snprintf(file, sizeof file, "%s/%s", entry, names[i / 3]);
        struct stat status;
        assert_int_equal(stat(file, &status), 0);
        mt_assert_ok(go_through(&fixture, &error), &error);
        if (i % 3 == 0)
            assert_int_equal(truncate(file, status.st_size / 2), 0);
        else if (i % 3 == 1)
            assert_true(truncate(file, 0) == 0 && truncate(file, status.st_size) == 0);
        else
            write_into(file, status.st_size / 2, "\x5a", 1);
        assert_int_equal(go_through(&fixture, &error), -ESTALE);
        assert_int_equal(error.reason, MT_REASON_IO);
        mt_assert_mentions(error.message, entry);
        mt_assert_mentions(error.message, "was changed by another program while it was in use");
        free_fixture(&fixture);
    }
}

/* Whoever changes the ranges after they were found changes nothing of the sequence. */
static void what_a_sequence_is_made_of_is_read_once(void **state)
{
    const char *path = write_documents(state, "a.jsonl", 3000, '.');
    struct mt_dataset_options options = cached_options(state);
    options.packing = true;
    options.max_seq_len = 128;
    struct mt_error error = {0};
    struct fixture fixture = open_dataset(options, path);
    char entry[512], file[600];
    assert_int_equal(count_entries(options.cache_dir, entry), 1);
    snprintf(file, sizeof file, "%s/ranges", entry);
    struct mt_documents documents;
    mt_assert_ok(mt_dataset_find_documents(fixture.dataset, false, 3, &documents, &error), &error);
    assert_in_range(documents.tokens, 1, 128);
    int32_t ids[128], labels[128], starts[129];
    struct mt_sequence sequence = {.ids = ids, .labels = labels, .document_starts = starts};
    size_t targets;
    assert_int_equal(truncate(file, 0), 0);
    mt_assert_ok(mt_dataset_fill_sequence(fixture.dataset, &documents, &sequence, &targets, &error), &error);
    assert_int_equal(starts[documents.count], documents.tokens);
    assert_int_equal(targets, documents.tokens - documents.count);
    mt_documents_free(&documents);
    assert_int_equal(mt_dataset_find_documents(fixture.dataset, false, 3, &documents, &error), -ESTALE);
    free_fixture(&fixture);
}

/* As what counts and hashes the samples reads them. */
static void an_array_that_became_shorter_is_no_other_error(void **state)
{
    struct mt_error error = {0};
    struct mt_bulk bulk;
    const void *data;
    const char *path = mt_test_path(state, "ids");
    char folder[600];
    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(path, '/') - path), path);
    mt_assert_ok(mt_file_write_atomic(path, "0123456789", 10, 0666, &error), &error);
    mt_assert_ok(mt_bulk_open(&bulk, folder, "ids", 10, &error), &error);
    struct mt_bulk_view view = {.bulk = &bulk};
    mt_assert_ok(mt_bulk_view_at(&view, 0, 4, &data, &error), &error);
    assert_memory_equal(data, "0123", 4);
    mt_assert_ok(mt_bulk_view_at(&view, 6, 4, &data, &error), &error);
    assert_memory_equal(data, "6789", 4);
    mt_bulk_view_end(&view);
    view.bulk = &bulk;
    assert_int_equal(truncate(path, 5), 0);
    assert_int_equal(mt_bulk_view_at(&view, 0, 4, &data, &error), -ESTALE);
    mt_assert_mentions(error.message, "was changed by another program");
    mt_bulk_view_end(&view);
    mt_bulk_free(&bulk);
}

static void what_was_not_used_for_long_is_removed(void **state)
{
    struct mt_error error = {0};
    const struct mt_dataset_options options = cached_options(state);
    char old[600], index[700], left[600], kept[600];
    snprintf(old, sizeof old, "%s/%064d", options.cache_dir, 7);
    snprintf(index, sizeof index, "%s/index", old);
    snprintf(left, sizeof left, "%s/.tmp-killed", options.cache_dir);
    snprintf(kept, sizeof kept, "%s/notes.txt", options.cache_dir);
    mt_assert_ok(mt_folder_create(old, 0777, &error), &error);
    mt_assert_ok(mt_folder_create(left, 0777, &error), &error);
    mt_assert_ok(mt_file_write_atomic(index, "", 0, 0666, &error), &error);
    mt_assert_ok(mt_file_write_atomic(kept, "", 0, 0666, &error), &error);
    const struct timespec times[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    assert_int_equal(utimensat(AT_FDCWD, index, times, 0), 0);
    assert_int_equal(utimensat(AT_FDCWD, left, times, 0), 0);
    assert_int_equal(utimensat(AT_FDCWD, kept, times, 0), 0);
    /* One that is old as well, but still written: its process has it locked. */
    char written[600];
    snprintf(written, sizeof written, "%s/.tmp-written", options.cache_dir);
    mt_assert_ok(mt_folder_create(written, 0777, &error), &error);
    assert_int_equal(utimensat(AT_FDCWD, written, times, 0), 0);
    const int lock = open(written, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(flock(lock, LOCK_EX | LOCK_NB), 0);
    struct fixture fixture = open_dataset(options, write_documents(state, "a.jsonl", 3000, '.'));
    free_fixture(&fixture);
    assert_false(mt_path_exists(old));
    assert_false(mt_path_exists(left));
    assert_true(mt_path_exists(kept));
    assert_true(mt_path_exists(written));
    close(lock);
    fixture = open_dataset(options, write_documents(state, "b.jsonl", 3000, '.'));
    free_fixture(&fixture);
    assert_false(mt_path_exists(written));
}

/* 96 MiB of text whose tokens take five times as much: read, kept and sampled with 48 MiB of memory of the
 * process's own. tests/bench has the 4 GiB one. */
static void the_memory_for_a_data_set_is_bounded(void **state)
{
    const char *path = mt_test_path(state, "a.jsonl");
    FILE *file = fopen(path, "w");
    char text[1001];
    memset(text, 'a', 1000);
    text[1000] = '\0';
    for (int i = 0; i < 96 * 1024; i++)
        fprintf(file, "{\"text\":\"%d%s\"}\n", i, text);
    fclose(file);
    struct mt_dataset_options options = cached_options(state);
    options.cache_memory_bytes = 0;
    options.packing = true;
    options.max_seq_len = 4096;
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
    mt_test_skip("a sanitizer's own memory counts, too");
#endif
    const pid_t child = fork();
    if (child == 0) {
        const struct rlimit limit = {.rlim_cur = (rlim_t)48 << 20, .rlim_max = (rlim_t)48 << 20};
        struct mt_error error = {0};
        struct fixture fixture;
        struct mt_sampler *sampler;
        struct mt_batch *batch;
        const struct mt_sampler_options order = {.sequences_per_step = 64};
        if (setrlimit(RLIMIT_DATA, &limit) < 0 || try_open(&fixture, options, path, &error) < 0 ||
            mt_sampler_new(fixture.dataset, &order, &sampler, &error) < 0) {
            fprintf(stderr, "%s\n", error.message);
            _exit(1);
        }
        for (int i = 0; i < 200; i++) {
            if (mt_sampler_next(sampler, &batch, &error) < 0)
                _exit(2);
            mt_batch_free(batch);
        }
        _exit(mt_dataset_num_samples(fixture.dataset) == 96 * 1024 ? 0 : 3);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void a_computed_order_is_a_permutation_without_pattern(void **state)
{
    (void)state;
    static const size_t counts[] = {1, 2, 3, 5, 16, 17, 1000, 65536, 100001};
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        const size_t count = counts[c];
        const struct mt_order order = mt_order_computed(99 + c, count);
        uint8_t *seen = calloc(count, 1);
        size_t fixed = 0, rising = 0, last = 0;
        for (size_t i = 0; i < count; i++) {
            const size_t at = mt_order_at(&order, i);
            assert_true(at < count && !seen[at]);
            seen[at] = 1;
            fixed += at == i;
            rising += at > last;
            last = at;
        }
        if (count >=
            1000) { /* a random permutation has one fixed point on average, and rises half the time */
            assert_true(fixed < 10);
            assert_true(rising > count * 45 / 100 && rising < count * 55 / 100);
        }
        free(seen);
    }
    /* Beyond the table, and the same at any place whenever it is asked for. */
    struct mt_order large;
    assert_int_equal(mt_order_make(&large, 1, MT_SHUFFLE_TABLE * 3), 0);
    assert_null(large.table);
    const size_t once = mt_order_at(&large, 12345678);
    mt_order_at(&large, 3);
    assert_int_equal(mt_order_at(&large, 12345678), once);
    mt_order_free(&large);
}

/* --- mixtures ---------------------------------------------------------------------------------------------
 */

struct mixture {
    const char *paths[3];
    struct mt_job_mix_part parts[3];
    struct mt_dataset_options options;
};

/* 100 documents that end with "a", 10 with "b", 40 with "c". */
static void make_mixture(void **state, struct mixture *mixture, enum mt_job_mix_strategy strategy,
                         const double *weights)
{
    static const int counts[] = {100, 10, 40};
    static const char *const names[] = {"a.jsonl", "b.jsonl", "c.jsonl"};
    mixture->options = usual_options();
    for (int i = 0; i < 3; i++) {
        mixture->paths[i] = write_documents(state, names[i], counts[i], (char)('a' + i));
        mixture->parts[i] =
            (struct mt_job_mix_part){.paths = &mixture->paths[i], .num_paths = 1, .weight = weights[i]};
    }
    mixture->options.mix = mixture->parts;
    mixture->options.num_mix = 3;
    mixture->options.mix_strategy = strategy;
}

/* How often each document of each part is drawn in `steps` steps; the first token after the begin token is no
 * help, so documents are told by the row numbers 0-99, 100-109, 110-149. */
static void count_rows(struct mt_sampler *sampler, size_t steps, size_t counts[150])
{
    struct mt_error error = {0};
    memset(counts, 0, 150 * sizeof *counts);
    for (size_t s = 0; s < steps; s++) {
        struct mt_batch *batch;
        mt_assert_ok(mt_sampler_next(sampler, &batch, &error), &error);
        for (size_t i = 0; i < batch->num_sequences; i++)
            counts[batch->sequences[i].row]++;
        mt_batch_free(batch);
    }
}

static size_t sum(const size_t *counts, size_t first, size_t end)
{
    size_t total = 0;
    while (first < end)
        total += counts[first++];
    return total;
}

static void assert_spread(const size_t *counts, size_t first, size_t end, size_t low, size_t high)
{
    for (size_t i = first; i < end; i++)
        assert_true(counts[i] >= low && counts[i] <= high);
}

static void weights_are_shares_of_an_epoch(void **state)
{
    static const double weights[] = {2, 1, 1};
    struct mt_error error = {0};
    struct mixture mixture;
    size_t counts[150], total[150] = {0};
    const struct mt_sampler_options order = {.sequences_per_step = 10};
    struct mt_sampler *sampler;

    make_mixture(state, &mixture, MT_JOB_MIX_CONCAT, weights);
    struct fixture fixture = open_dataset(mixture.options, NULL);
    mt_assert_ok(mt_sampler_new(fixture.dataset, &order, &sampler, &error), &error);
    assert_int_equal(mt_sampler_steps_per_epoch(sampler), 15);
    count_rows(sampler, 15, counts);
    assert_spread(counts, 0, 150, 1, 1);
    mt_sampler_free(sampler);
    free_fixture(&fixture);

    /* Over: the part of 100 at half of an epoch makes it 200, and the others 50 each. */
    make_mixture(state, &mixture, MT_JOB_MIX_OVER, weights);
    fixture = open_dataset(mixture.options, NULL);
    mt_assert_ok(mt_sampler_new(fixture.dataset, &order, &sampler, &error), &error);
    assert_int_equal(mt_sampler_steps_per_epoch(sampler), 20);
    for (int epoch = 0; epoch < 4; epoch++) {
        count_rows(sampler, 20, counts);
        assert_spread(counts, 0, 100, 1, 1);
        assert_spread(counts, 100, 110, 5, 5);
        assert_int_equal(sum(counts, 110, 150), 50);
        assert_spread(counts, 110, 150, 0, 2);
        for (int i = 110; i < 150; i++)
            total[i] += counts[i];
    }
    assert_spread(total, 110, 150, 5, 5); /* a part goes on where the epoch before stopped */
    mt_sampler_free(sampler);
    free_fixture(&fixture);

    /* Under: the part of 10 at a quarter of an epoch makes it 40: 20, 10 and 10; five epochs see all of "a".
     */
    make_mixture(state, &mixture, MT_JOB_MIX_UNDER, weights);
    fixture = open_dataset(mixture.options, NULL);
    mt_assert_ok(mt_sampler_new(fixture.dataset, &order, &sampler, &error), &error);
    assert_int_equal(mt_sampler_steps_per_epoch(sampler), 4);
    count_rows(sampler, 20, counts);
    assert_spread(counts, 0, 100, 1, 1);
    assert_spread(counts, 100, 110, 5, 5);
    assert_int_equal(sum(counts, 110, 150), 50);
    mt_sampler_free(sampler);
    free_fixture(&fixture);
}

/* Weights and strategy are a matter of the order, which is made anew each time. */
static void weights_are_no_part_of_what_is_kept(void **state)
{
    static const double weights[] = {2, 1, 1}, others[] = {1, 3, 1};
    struct mixture mixture;
    make_mixture(state, &mixture, MT_JOB_MIX_OVER, weights);
    mixture.options.cache_dir = mt_test_path(state, "cache");
    mixture.options.cache_memory_bytes = 256;
    struct fixture fixture = open_dataset(mixture.options, NULL);
    free_fixture(&fixture);
    assert_true(is_cached(mixture.options, NULL));
    mixture.options.mix_strategy = MT_JOB_MIX_UNDER;
    for (int i = 0; i < 3; i++)
        mixture.parts[i].weight = others[i];
    assert_true(is_cached(mixture.options, NULL));
    fixture = open_dataset(mixture.options, NULL);
    assert_int_equal(mt_dataset_share(fixture.dataset, 0).draws, 3);
    assert_int_equal(mt_dataset_share(fixture.dataset, 1).draws, 10);
    free_fixture(&fixture);
    mixture.parts[2].paths = mixture.parts[0].paths;
    assert_false(is_cached(mixture.options, NULL));
}

static void a_weight_of_nothing_is_refused(void **state)
{
    static const double weights[] = {1, 0, 1};
    struct mixture mixture;
    struct mt_error error = {0};
    struct fixture fixture;
    make_mixture(state, &mixture, MT_JOB_MIX_OVER, weights);
    assert_int_equal(try_open(&fixture, mixture.options, NULL, &error), -EINVAL);
    mt_assert_mentions(error.message, "the weight of part 2 is 0");
    free_fixture(&fixture);
}

/* Issue 7: 300 random kills and resumes of the sampler give the undisturbed order: of a mixture, and of
 * groups of equal length, from the cache. */
static void random_kills_of_a_mixture_give_the_undisturbed_order(void **state)
{
    static const double weights[] = {2, 1, 1};
    struct mt_error error = {0};
    struct mixture mixture;
    struct mt_random random = {.key = 11};
    make_mixture(state, &mixture, MT_JOB_MIX_OVER, weights);
    mixture.options.cache_dir = mt_test_path(state, "cache");
    mixture.options.cache_memory_bytes = 256;
    mixture.options.val_size = 0.1;
    for (int grouped = 0; grouped < 2; grouped++) {
        const struct mt_sampler_options order = {.sequences_per_step = 3, .group_by_length = grouped};
        struct mt_sampler *sampler, *undisturbed;
        struct fixture whole = open_dataset(mixture.options, NULL),
                       fixture = open_dataset(mixture.options, NULL);
        mt_assert_ok(mt_sampler_new(whole.dataset, &order, &undisturbed, &error), &error);
        mt_assert_ok(mt_sampler_new(fixture.dataset, &order, &sampler, &error), &error);
        for (int kill = 0; kill < 300; kill++) {
            for (uint64_t steps = mt_random_below(&random, 5); steps > 0; steps--) {
                struct mt_batch *a, *b;
                mt_assert_ok(mt_sampler_next(undisturbed, &a, &error), &error);
                mt_assert_ok(mt_sampler_next(sampler, &b, &error), &error);
                assert_int_equal(a->num_sequences, b->num_sequences);
                for (size_t i = 0; i < a->num_sequences; i++)
                    assert_int_equal(a->sequences[i].row, b->sequences[i].row);
                mt_batch_free(a);
                mt_batch_free(b);
            }
            json_t *saved = mt_sampler_state(sampler);
            mt_sampler_free(sampler);
            free_fixture(&fixture);
            fixture = open_dataset(mixture.options, NULL);
            mt_assert_ok(mt_sampler_new(fixture.dataset, &order, &sampler, &error), &error);
            mt_assert_ok(mt_sampler_restore(sampler, saved, &error), &error);
            json_decref(saved);
        }
        mt_sampler_free(sampler);
        mt_sampler_free(undisturbed);
        free_fixture(&fixture);
        free_fixture(&whole);
    }
}

/* In a step of 8 the longest and the shortest are closer than anywhere in the file; each row comes once. */
static void groups_of_equal_length_hold_every_sequence_once(void **state)
{
    struct mt_error error = {0};
    struct fixture fixture = open_dataset(usual_options(), write_documents(state, "a.jsonl", 1003, '.'));
    const struct mt_sampler_options order = {.sequences_per_step = 8, .group_by_length = true};
    struct mt_sampler *sampler;
    mt_assert_ok(mt_sampler_new(fixture.dataset, &order, &sampler, &error), &error);
    for (int epoch = 0; epoch < 2; epoch++) {
        uint8_t seen[1003] = {0};
        size_t spread = 0, steps = mt_sampler_steps_per_epoch(sampler);
        for (size_t s = 0; s < steps; s++) {
            struct mt_batch *batch;
            size_t least = SIZE_MAX, most = 0;
            mt_assert_ok(mt_sampler_next(sampler, &batch, &error), &error);
            assert_int_equal(batch->num_sequences, s + 1 < steps ? 8 : 3);
            for (size_t i = 0; i < batch->num_sequences; i++) {
                assert_false(seen[batch->sequences[i].row]++);
                least = batch->sequences[i].tokens < least ? batch->sequences[i].tokens : least;
                most = batch->sequences[i].tokens > most ? batch->sequences[i].tokens : most;
            }
            spread += most - least;
            mt_batch_free(batch);
        }
        assert_true(spread < 2 * steps); /* of lengths from 4 to 43 */
    }
    mt_sampler_free(sampler);
    free_fixture(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        mt_test_in_folder(arrays_on_the_disk_hold_what_those_in_memory_hold),
        mt_test_in_folder(any_change_makes_the_samples_anew),
        mt_test_in_folder(a_file_that_changed_between_two_runs_is_read_again),
        mt_test_in_folder(damaged_entries_are_made_anew),
        mt_test_in_folder(cache_files_that_change_while_in_use_are_an_error),
        mt_test_in_folder(what_a_sequence_is_made_of_is_read_once),
        mt_test_in_folder(an_array_that_became_shorter_is_no_other_error),
        mt_test_in_folder(what_was_not_used_for_long_is_removed),
        mt_test_in_folder(the_memory_for_a_data_set_is_bounded),
        mt_test_in_folder(a_computed_order_is_a_permutation_without_pattern),
        mt_test_in_folder(weights_are_shares_of_an_epoch),
        mt_test_in_folder(weights_are_no_part_of_what_is_kept),
        mt_test_in_folder(a_weight_of_nothing_is_refused),
        mt_test_in_folder(random_kills_of_a_mixture_give_the_undisturbed_order),
        mt_test_in_folder(groups_of_equal_length_hold_every_sequence_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
