/* The order of training: permutations, packs, epochs, and resuming anywhere. */
#include "core/base/random.h"
#include "core/data/pack.h"
#include "tests/unit/data/data_support.h"

/* `count` documents "0", "1", ... */
static const char *write_numbers(void **state, const char *name, int count)
{
    const char *path = mt_test_path(state, name);
    FILE *file = fopen(path, "w");
    for (int i = 0; i < count; i++)
        fprintf(file, "{\"text\":\"%d\"}\n", i);
    fclose(file);
    return path;
}

static struct mt_sampler *new_sampler(const struct fixture *fixture, size_t sequences_per_step)
{
    struct mt_error error = {0};
    struct mt_sampler *sampler;
    const struct mt_sampler_options options = {.sequences_per_step = sequences_per_step};
    mt_assert_ok(mt_sampler_new(fixture->dataset, &options, &sampler, &error), &error);
    return sampler;
}

static struct mt_batch *next(struct mt_sampler *sampler)
{
    struct mt_error error = {0};
    struct mt_batch *batch;
    mt_assert_ok(mt_sampler_next(sampler, &batch, &error), &error);
    return batch;
}

/* Rows of `steps` steps into `rows`; returns how many. */
static size_t draw(struct mt_sampler *sampler, size_t steps, uint64_t *rows)
{
    size_t count = 0;
    for (size_t s = 0; s < steps; s++) {
        struct mt_batch *batch = next(sampler);
        for (size_t i = 0; i < batch->num_sequences; i++)
            rows[count++] = batch->sequences[i].row;
        mt_batch_free(batch);
    }
    return count;
}

static void assert_permutation(const uint64_t *rows, size_t count)
{
    bool seen[1000] = {false};
    for (size_t i = 0; i < count; i++) {
        assert_true(rows[i] < count && !seen[rows[i]]);
        seen[rows[i]] = true;
    }
}

static void each_epoch_is_another_permutation(void **state)
{
    struct fixture fixture = open_dataset(usual_options(), write_numbers(state, "a.jsonl", 100));
    struct mt_sampler *sampler = new_sampler(&fixture, 10);
    uint64_t rows[300];
    assert_int_equal(draw(sampler, 30, rows), 300);
    for (int epoch = 0; epoch < 3; epoch++)
        assert_permutation(rows + 100 * epoch, 100);
    assert_memory_not_equal(rows, rows + 100, 100 * sizeof *rows);
    assert_memory_not_equal(rows + 100, rows + 200, 100 * sizeof *rows);
    mt_sampler_free(sampler);
    free_fixture(&fixture);

    struct mt_dataset_options options = usual_options();
    options.seed = 43;
    fixture = open_dataset(options, mt_test_path(state, "a.jsonl"));
    sampler = new_sampler(&fixture, 10);
    uint64_t others[100];
    draw(sampler, 10, others);
    assert_permutation(others, 100);
    assert_memory_not_equal(rows, others, sizeof others);
    mt_sampler_free(sampler);
    free_fixture(&fixture);
}

/* The order is part of what checkpoints rely on: it must not change between versions. */
static void the_order_of_seed_42_is_what_it_always_was(void **state)
{
    struct fixture fixture = open_dataset(usual_options(), write_numbers(state, "a.jsonl", 10));
    struct mt_sampler *sampler = new_sampler(&fixture, 10);
    uint64_t rows[20];
    draw(sampler, 2, rows);
    static const uint64_t expected[20] = {
        0, 7, 1, 9, 8, 2, 4, 6, 5, 3, 7, 3, 4, 0, 6, 1, 8, 9, 5, 2,
    };
    for (int i = 0; i < 20; i++)
        assert_int_equal(rows[i], expected[i]);
    mt_sampler_free(sampler);
    free_fixture(&fixture);
}

/* PAINS: the last, partial accumulation window is dropped. Right: 63 batches at accumulation 8 are 8 updates.
 */
static void the_last_partial_window_of_an_epoch_is_a_step(void **state)
{
    struct mt_error error = {0};
    struct fixture fixture = open_dataset(usual_options(), write_numbers(state, "a.jsonl", 63));
    struct mt_sampler *sampler = new_sampler(&fixture, 8); /* batches of 1, accumulation 8 */
    assert_int_equal(mt_sampler_steps_per_epoch(sampler), 8);
    uint64_t max_steps;
    mt_assert_ok(mt_sampler_max_steps(sampler, 1, &max_steps, &error), &error);
    assert_int_equal(max_steps, 8);
    mt_assert_ok(mt_sampler_max_steps(sampler, 2.5, &max_steps, &error), &error);
    assert_int_equal(max_steps, 20);
    mt_assert_ok(mt_sampler_max_steps(sampler, 0.01, &max_steps, &error), &error);
    assert_int_equal(max_steps, 1);
    assert_int_equal(mt_sampler_max_steps(sampler, 1e300, &max_steps, &error), -ERANGE);
    for (int epoch = 0; epoch < 2; epoch++)
        for (int step = 0; step < 8; step++) {
            struct mt_batch *batch = next(sampler);
            assert_int_equal(batch->num_sequences, step < 7 ? 8 : 7);
            const double expected = epoch + (step < 7 ? 8.0 * (step + 1) / 63 : 1.0);
            assert_true(batch->epoch > expected - 1e-12 && batch->epoch < expected + 1e-12);
            if (step == 7)
                assert_true(batch->epoch == epoch + 1.0);
            mt_batch_free(batch);
        }
    mt_sampler_free(sampler);
    free_fixture(&fixture);
}

/* A sampler that stands where the other one's state says. */
static struct mt_sampler *resumed(const struct fixture *fixture, size_t per_step,
                                  const struct mt_sampler *from)
{
    struct mt_error error = {0};
    json_t *state = mt_sampler_state(from);
    char *text = json_dumps(state, JSON_COMPACT); /* as in trainer_state.json */
    json_t *read = json_loads(text, 0, NULL);
    struct mt_sampler *sampler = new_sampler(fixture, per_step);
    mt_assert_ok(mt_sampler_restore(sampler, read, &error), &error);
    json_decref(read);
    json_decref(state);
    free(text);
    return sampler;
}

/* PAINS: 10 samples, batch 2, 3 epochs, killed after any step k: the remaining sample ids are those of the
 * undisturbed run. Step 5, 10 and 15 are exact epoch boundaries. */
static void a_resume_after_any_step_gives_the_rest_of_the_undisturbed_run(void **state)
{
    struct fixture fixture = open_dataset(usual_options(), write_numbers(state, "a.jsonl", 10));
    struct mt_sampler *sampler = new_sampler(&fixture, 2);
    uint64_t undisturbed[40], rest[40];
    assert_int_equal(draw(sampler, 20, undisturbed), 40);
    mt_sampler_free(sampler);
    for (size_t k = 0; k <= 15; k++) {
        sampler = new_sampler(&fixture, 2);
        draw(sampler, k, rest);
        struct mt_sampler *second = resumed(&fixture, 2, sampler);
        assert_int_equal(draw(second, 20 - k, rest), 40 - 2 * k);
        assert_memory_equal(rest, undisturbed + 2 * k, (40 - 2 * k) * sizeof *rest);
        mt_sampler_free(second);
        mt_sampler_free(sampler);
    }
    free_fixture(&fixture);
}

static uint64_t hash_batch(uint64_t hash, const struct mt_batch *batch)
{
    for (size_t i = 0; i < batch->num_sequences; i++) {
        const struct mt_sequence *sequence = &batch->sequences[i];
        for (size_t t = 0; t < sequence->tokens; t++)
            hash = (hash ^ (uint32_t)sequence->ids[t]) * 1099511628211u ^ (uint32_t)sequence->labels[t];
        for (size_t d = 0; d <= sequence->num_documents; d++)
            hash = (hash ^ (uint32_t)sequence->document_starts[d]) * 1099511628211u;
    }
    return (hash ^ batch->num_sequences) * 1099511628211u;
}

/* 300 kills at random places, the dataset opened anew each time, with packing: the batches are those of the
 * undisturbed run. */
static void random_kills_and_resumes_give_the_undisturbed_batches(void **state)
{
    const char *path = write_numbers(state, "a.jsonl", 301);
    struct mt_dataset_options options = usual_options();
    options.packing = true;
    options.max_seq_len = 30;
    options.val_size = 0.1;
    struct fixture fixture = open_dataset(options, path);
    struct mt_sampler *sampler = new_sampler(&fixture, 7);
    uint64_t undisturbed = 0, disturbed = 0;
    size_t steps = 0;
    struct mt_random random = {.key = 7};
    uint64_t parts[301];
    for (int i = 0; i <= 300; i++)
        steps += parts[i] = mt_random_below(&random, 5);
    for (size_t s = 0; s < steps; s++) {
        struct mt_batch *batch = next(sampler);
        undisturbed = hash_batch(undisturbed, batch);
        mt_batch_free(batch);
    }
    mt_sampler_free(sampler);

    sampler = new_sampler(&fixture, 7);
    for (int kill = 0; kill <= 300; kill++) {
        for (size_t s = 0; s < parts[kill]; s++) {
            struct mt_batch *batch = next(sampler);
            disturbed = hash_batch(disturbed, batch);
            mt_batch_free(batch);
        }
        struct fixture again = open_dataset(options, path);
        struct mt_sampler *second = resumed(&again, 7, sampler);
        mt_sampler_free(sampler);
        free_fixture(&fixture);
        fixture = again;
        sampler = second;
    }
    assert_true(undisturbed == disturbed);
    mt_sampler_free(sampler);
    free_fixture(&fixture);
}

/* A position is in sequences, so it holds in the middle of what is a step for another batch size. */
static void a_resume_in_the_middle_of_an_accumulation_is_exact(void **state)
{
    struct fixture fixture = open_dataset(usual_options(), write_numbers(state, "a.jsonl", 20));
    struct mt_sampler *sampler = new_sampler(&fixture, 8);
    uint64_t undisturbed[24], rows[24];
    draw(sampler, 3, undisturbed);
    mt_sampler_free(sampler);
    sampler = new_sampler(&fixture, 1);
    draw(sampler, 11, rows);
    struct mt_sampler *second = resumed(&fixture, 8, sampler);
    assert_int_equal(draw(second, 2, rows + 11), 9);
    assert_memory_equal(rows, undisturbed, 20 * sizeof *rows);
    mt_sampler_free(second);
    mt_sampler_free(sampler);
    free_fixture(&fixture);
}

static void a_resume_with_other_data_is_refused(void **state)
{
    struct mt_error error = {0};
    struct fixture fixture = open_dataset(usual_options(), write_numbers(state, "a.jsonl", 20));
    struct mt_sampler *sampler = new_sampler(&fixture, 2);
    json_t *saved = mt_sampler_state(sampler);
    mt_sampler_free(sampler);
    free_fixture(&fixture);

    for (int change = 0; change < 9; change++) {
        struct mt_dataset_options options = usual_options();
        const char *path = mt_test_path(state, "a.jsonl");
        switch (change) {
        case 0:
            break; /* nothing: accepted */
        case 1:
            options.seed = 1;
            break;
        case 2:
            options.max_seq_len = 1023;
            break;
        case 3:
            options.packing = true;
            break;
        case 4:
            options.val_size = 0.1;
            break;
        case 5:
            options.train_on_prompt = true;
            break;
        case 6:
            options.overlong = MT_JOB_OVERLONG_DROP;
            break;
        case 7:
            options.columns.text = "text";
            break;
        case 8:
            path = write_numbers(state, "a.jsonl", 21);
            break;
        }
        fixture = open_dataset(options, path);
        sampler = new_sampler(&fixture, 2);
        const int r = mt_sampler_restore(sampler, saved, &error);
        assert_int_equal(r, change ? -ESTALE : 0);
        if (change)
            mt_assert_mentions(error.message, "other data");
        mt_sampler_free(sampler);
        free_fixture(&fixture);
    }
    json_decref(saved);
}

static void a_damaged_position_is_refused(void **state)
{
    struct mt_error error = {0};
    struct fixture fixture = open_dataset(usual_options(), write_numbers(state, "a.jsonl", 20));
    struct mt_sampler *sampler = new_sampler(&fixture, 2);
    static const char *const keys[] = {"epoch", "position", "fingerprint"};
    for (int i = 0; i < 3; i++)
        for (int way = 0; way < 3; way++) {
            json_t *saved = mt_sampler_state(sampler);
            if (way == 0)
                json_object_del(saved, keys[i]);
            else
                json_object_set_new(saved, keys[i], way == 1 ? json_integer(-1) : json_real(0.5));
            assert_true(mt_sampler_restore(sampler, saved, &error) < 0);
            json_decref(saved);
        }
    json_t *saved = mt_sampler_state(sampler);
    json_object_set_new(saved, "position", json_integer(21));
    assert_true(mt_sampler_restore(sampler, saved, &error) < 0);
    mt_assert_mentions(error.message, "beyond its end");
    json_decref(saved);
    assert_true(mt_sampler_restore(sampler, NULL, &error) < 0);
    mt_sampler_free(sampler);
    free_fixture(&fixture);
}

/* Each document of a pack is the sample itself, its last position without a label. */
static void packed_documents_are_kept_apart_and_none_is_lost(void **state)
{
    struct mt_dataset_options options = usual_options();
    options.packing = true;
    options.max_seq_len = 17;
    struct fixture fixture = open_dataset(options, write_numbers(state, "a.jsonl", 200));
    struct mt_sampler *sampler = new_sampler(&fixture, 1000);
    assert_int_equal(mt_sampler_steps_per_epoch(sampler), 1);
    struct mt_batch *batch = next(sampler);
    assert_int_equal(batch->num_sequences, mt_dataset_stats(fixture.dataset)->train_sequences);
    bool seen[200] = {false};
    size_t documents = 0, targets = 0, tokens = 0;
    for (size_t i = 0; i < batch->num_sequences; i++) {
        const struct mt_sequence *sequence = &batch->sequences[i];
        assert_true(sequence->tokens <= 17);
        assert_int_equal(sequence->document_starts[0], 0);
        assert_int_equal(sequence->document_starts[sequence->num_documents], sequence->tokens);
        for (size_t d = 0; d < sequence->num_documents; d++) {
            const int32_t first = sequence->document_starts[d], end = sequence->document_starts[d + 1];
            int number = 0;
            assert_int_equal(sequence->ids[first], 256);
            assert_int_equal(sequence->ids[end - 1], 257);
            assert_int_equal(sequence->labels[end - 1], -100);
            for (int32_t t = first; t < end - 1; t++)
                assert_int_equal(sequence->labels[t], sequence->ids[t + 1]);
            for (int32_t t = first + 1; t < end - 1; t++)
                number = 10 * number + sequence->ids[t] - '0';
            assert_true(number >= 0 && number < 200 && !seen[number]);
            seen[number] = true;
            targets += (size_t)(end - first) - 1;
        }
        documents += sequence->num_documents;
        tokens += sequence->tokens;
    }
    assert_int_equal(documents, 200);
    assert_int_equal(batch->tokens, tokens);
    assert_int_equal(batch->target_tokens, targets);
    mt_batch_free(batch);
    mt_sampler_free(sampler);
    free_fixture(&fixture);
}

static struct mt_packs make_packs(const uint32_t *order, const uint32_t *lengths, size_t count,
                                  uint32_t capacity)
{
    static const char *const names[] = {"starts", "members"};
    struct mt_error error = {0};
    struct mt_packs packs;
    mt_packs_begin(&packs, NULL, names);
    mt_assert_ok(mt_packs_add(&packs, order, lengths, count, capacity, &error), &error);
    mt_assert_ok(mt_packs_seal(&packs, &error), &error);
    return packs;
}

static void first_fit_takes_the_first_sequence_with_room(void **state)
{
    (void)state;
    const uint32_t order[] = {10, 11, 12, 13, 14, 15, 16}, lengths[] = {6, 5, 3, 5, 1, 10, 4};
    /* 0: 6+3+1, 1: 5+5, 2: 10, 3: 4 */
    const uint32_t starts[] = {0, 3, 5, 6, 7}, members[] = {10, 12, 14, 11, 13, 15, 16};
    struct mt_packs packs = make_packs(order, lengths, 7, 10);
    assert_int_equal(packs.num_packs, 4);
    assert_int_equal(packs.arrays[0].bytes, sizeof starts);
    assert_memory_equal(packs.arrays[0].memory, starts, sizeof starts);
    assert_int_equal(packs.arrays[1].bytes, sizeof members);
    assert_memory_equal(packs.arrays[1].memory, members, sizeof members);
    mt_packs_free(&packs);
    packs = make_packs(order, lengths, 7, 0);
    assert_int_equal(packs.num_packs, 7);
    mt_packs_free(&packs);
    packs = make_packs(order, lengths, 0, 10);
    assert_int_equal(packs.num_packs, 0);
    mt_packs_free(&packs);
}

/* The same packs as trying every sequence in turn. */
static void first_fit_by_tree_is_first_fit_by_search(void **state)
{
    (void)state;
    enum { COUNT = 500, CAPACITY = 100 };
    struct mt_random random = {.key = 3};
    uint32_t order[COUNT], lengths[COUNT], room[COUNT] = {0}, bins[COUNT];
    size_t num_bins = 0;
    for (uint32_t i = 0; i < COUNT; i++) {
        order[i] = i;
        lengths[i] = 1 + (uint32_t)mt_random_below(&random, CAPACITY);
        uint32_t bin = 0;
        while (bin < num_bins && room[bin] < lengths[i])
            bin++;
        if (bin == num_bins)
            room[num_bins++] = CAPACITY;
        room[bin] -= lengths[i];
        bins[i] = bin;
    }
    struct mt_packs packs = make_packs(order, lengths, COUNT, CAPACITY);
    assert_int_equal(packs.num_packs, num_bins);
    size_t packed = 0;
    for (uint32_t b = 0; b < num_bins; b++) {
        struct mt_error error = {0};
        uint32_t *members;
        size_t count;
        mt_assert_ok(mt_packs_read(&packs, b, &members, &count, &error), &error);
        for (size_t k = 0; k < count; k++)
            assert_int_equal(bins[members[k]], b);
        packed += count;
        free(members);
    }
    assert_int_equal(packed, COUNT);
    mt_packs_free(&packs);
}

static void validation_goes_through_its_split_in_order(void **state)
{
    struct mt_error error = {0};
    struct mt_dataset_options options = usual_options();
    options.val_size = 10;
    struct fixture fixture = open_dataset(options, write_numbers(state, "a.jsonl", 50));
    struct mt_sampler *sampler;
    const struct mt_sampler_options validation = {.validation = true, .sequences_per_step = 4};
    mt_assert_ok(mt_sampler_new(fixture.dataset, &validation, &sampler, &error), &error);
    assert_int_equal(mt_sampler_steps_per_epoch(sampler), 3);
    uint64_t rows[20] = {0};
    assert_int_equal(draw(sampler, 3, rows), 10);
    for (int i = 0; i < 10; i++) {
        assert_true(i == 0 || rows[i] > rows[i - 1]);
        assert_true(sample_of(&fixture, rows[i])->validation);
    }
    mt_sampler_free(sampler);
    sampler = new_sampler(&fixture, 40);
    uint64_t train[40];
    draw(sampler, 1, train);
    for (int i = 0; i < 40; i++)
        assert_false(sample_of(&fixture, train[i])->validation);
    mt_sampler_free(sampler);
    free_fixture(&fixture);

    fixture = open_dataset(usual_options(), mt_test_path(state, "a.jsonl"));
    assert_int_equal(mt_sampler_new(fixture.dataset, &validation, &sampler, &error), -ENODATA);
    free_fixture(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        mt_test_in_folder(each_epoch_is_another_permutation),
        mt_test_in_folder(the_order_of_seed_42_is_what_it_always_was),
        mt_test_in_folder(the_last_partial_window_of_an_epoch_is_a_step),
        mt_test_in_folder(a_resume_after_any_step_gives_the_rest_of_the_undisturbed_run),
        mt_test_in_folder(random_kills_and_resumes_give_the_undisturbed_batches),
        mt_test_in_folder(a_resume_in_the_middle_of_an_accumulation_is_exact),
        mt_test_in_folder(a_resume_with_other_data_is_refused),
        mt_test_in_folder(a_damaged_position_is_refused),
        mt_test_in_folder(packed_documents_are_kept_apart_and_none_is_lost),
        cmocka_unit_test(first_fit_takes_the_first_sequence_with_room),
        cmocka_unit_test(first_fit_by_tree_is_first_fit_by_search),
        mt_test_in_folder(validation_goes_through_its_split_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
