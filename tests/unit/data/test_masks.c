/* What is learned, cut, dropped and counted. */
#include "tests/unit/data/data_support.h"

static const struct mt_dataset_stats *stats_of(const struct fixture *fixture)
{
    return mt_dataset_stats(fixture->dataset);
}

/* Rows "Q" with an answer of so many letters. */

static const char *write_answers(void **state, const char *name, const size_t *lengths, size_t count)
{
    const char *path = mt_test_path(state, name);
    FILE *file = fopen(path, "w");
    for (size_t i = 0; i < count; i++) {
        fputs("{\"instruction\":\"Q\",\"output\":\"", file);
        for (size_t k = 0; k < lengths[i]; k++)
            fputc('a' + (int)(k % 26), file);
        fputs("\"}\n", file);
    }
    fclose(file);
    return path;
}

static size_t prompt_tokens(void **state)
{
    struct fixture fixture =
        open_dataset(usual_options(), write_answers(state, "one.jsonl", (size_t[]){1}, 1));
    const size_t tokens = sample_of(&fixture, 0)->tokens - 2;
    free_fixture(&fixture);
    return tokens;
}

static void only_the_answer_and_its_end_token_are_learned(void **state)
{
    struct fixture fixture = open_dataset(
        usual_options(),
        write_file(state, "a.jsonl", "{\"instruction\":\"Q\",\"input\":\"I\",\"output\":\"A b\"}"));
    assert_sample(&fixture, 0, true, "A b<|end|>");
    assert_int_equal(stats_of(&fixture)->target_tokens, 4);
    free_fixture(&fixture);

    struct mt_dataset_options options = usual_options();
    options.train_on_prompt = true;
    fixture = open_dataset(options, mt_test_path(state, "a.jsonl"));
    const struct mt_sample *sample = sample_of(&fixture, 0);
    for (size_t t = 1; t < sample->tokens; t++)
        assert_true(sample->learned[t]);
    assert_false(sample->learned[0]);
    assert_int_equal(stats_of(&fixture)->target_tokens, sample->tokens - 1);
    free_fixture(&fixture);
}

static void all_of_a_document_is_learned(void **state)
{
    struct fixture fixture =
        open_dataset(usual_options(), write_file(state, "a.jsonl", "{\"text\":\"abc\"}"));
    assert_sample(&fixture, 0, false, "<|begin|>abc<|end|>");
    assert_sample(&fixture, 0, true, "abc<|end|>");
    free_fixture(&fixture);
}

/* PAINS: exactly one beginning-of-sequence token, also where the data brings one. */
static void a_document_has_exactly_one_begin_token(void **state)
{
    struct fixture fixture =
        open_dataset(usual_options(),
                     write_file(state, "a.jsonl", "{\"text\":\"<|begin|>abc<|end|>\"}\n{\"text\":\"abc\"}"));
    assert_sample(&fixture, 0, false, "<|begin|>abc<|end|>");
    assert_sample(&fixture, 1, false, "<|begin|>abc<|end|>");
    free_fixture(&fixture);
}

/* PAINS: padding id equal to end-of-sequence id masks the real end token. There is no padding here, and the
 * end token has a label. */
static void the_end_token_is_a_target(void **state)
{
    struct mt_error error = {0};
    struct fixture fixture = open_dataset(usual_options(), write_file(state, "a.jsonl", "{\"text\":\"ab\"}"));
    struct mt_sampler *sampler;
    struct mt_batch *batch;
    const struct mt_sampler_options options = {.sequences_per_step = 1};
    mt_assert_ok(mt_sampler_new(fixture.dataset, &options, &sampler, &error), &error);
    mt_assert_ok(mt_sampler_next(sampler, &batch, &error), &error);
    assert_int_equal(batch->tokens, 4);
    assert_int_equal(batch->target_tokens, 3);
    const int32_t ids[] = {256, 'a', 'b', 257}, labels[] = {'a', 'b', 257, -100};
    assert_memory_equal(batch->sequences[0].ids, ids, sizeof ids);
    assert_memory_equal(batch->sequences[0].labels, labels, sizeof labels);
    mt_batch_free(batch);
    mt_sampler_free(sampler);
    free_fixture(&fixture);
}

/* Every token of a long document but the first is a target exactly once. */
static void windows_learn_every_token_exactly_once(void **state)
{
    char text[200];
    for (size_t i = 0; i < 199; i++)
        text[i] = (char)('!' + i % 90);
    text[199] = '\0';
    const char *path = write_file(state, "a.txt", text);
    for (size_t limit = 2; limit < 210; limit++) {
        struct mt_dataset_options options = usual_options();
        options.max_seq_len = limit;
        struct fixture fixture = open_dataset(options, path);
        char learned[256] = "";
        for (size_t i = 0; i < mt_dataset_num_samples(fixture.dataset); i++) {
            assert_true(sample_of(&fixture, i)->tokens <= limit);
            assert_true(sample_of(&fixture, i)->tokens >= 2);
            char *part = sample_text(&fixture, i, true);
            strcat(learned, part);
            free(part);
        }
        char expected[256];
        snprintf(expected, sizeof expected, "%s<|end|>", text);
        assert_string_equal(learned, expected);
        assert_int_equal(stats_of(&fixture)->target_tokens, 200);
        assert_int_equal(stats_of(&fixture)->windowed, limit < 201);
        free_fixture(&fixture);
    }
}

static void overlong_answers_are_truncated_dropped_or_refused(void **state)
{
    const size_t prompt = prompt_tokens(state);
    const char *path = write_answers(state, "a.jsonl", (size_t[]){5, 50, 9}, 3);
    struct mt_dataset_options options = usual_options();
    options.max_seq_len = prompt + 10; /* the first and, exactly, the third fit */

    struct fixture fixture = open_dataset(options, path);
    assert_int_equal(stats_of(&fixture)->samples, 3);
    assert_int_equal(stats_of(&fixture)->truncated, 1);
    assert_sample(&fixture, 1, true, "abcdefghij");
    assert_sample(&fixture, 2, true, "abcdefghi<|end|>");
    free_fixture(&fixture);

    options.overlong = MT_JOB_OVERLONG_DROP;
    fixture = open_dataset(options, path);
    assert_int_equal(stats_of(&fixture)->samples, 2);
    assert_int_equal(stats_of(&fixture)->truncated, 0);
    assert_int_equal(stats_of(&fixture)->dropped[MT_DROP_OVERLONG], 1);
    assert_int_equal(stats_of(&fixture)->dropped_rows[MT_DROP_OVERLONG][0], 1);
    assert_int_equal(sample_of(&fixture, 1)->row, 2);
    free_fixture(&fixture);

    options.overlong = MT_JOB_OVERLONG_ERROR;
    assert_refused(options, path, "a.jsonl: line 2: row 2 has ");
}

static void overlong_rows_of_text_are_windowed_dropped_or_refused(void **state)
{
    const char *path = write_file(state, "a.jsonl", "{\"text\":\"abcdefghij\"}\n{\"text\":\"ab\"}");
    struct mt_dataset_options options = usual_options();
    options.max_seq_len = 8;
    struct fixture fixture = open_dataset(options, path);
    assert_int_equal(stats_of(&fixture)->samples, 3);
    free_fixture(&fixture);
    options.overlong = MT_JOB_OVERLONG_DROP;
    fixture = open_dataset(options, path);
    assert_int_equal(stats_of(&fixture)->samples, 1);
    assert_int_equal(stats_of(&fixture)->dropped[MT_DROP_OVERLONG], 1);
    free_fixture(&fixture);
    options.overlong = MT_JOB_OVERLONG_ERROR;
    assert_refused(options, path, "row 1 has 12 tokens, more than max_seq_len 8");
    /* A .txt file is a corpus: it is cut whatever `overlong` says. */
    fixture = open_dataset(options, write_file(state, "b.txt", "abcdefghij"));
    assert_int_equal(stats_of(&fixture)->samples, 2);
    free_fixture(&fixture);
}

/* PAINS: rows whose answer was truncated away are dropped and counted before training; all rows gone is an
 * error. */
static void rows_whose_answer_was_cut_off_are_dropped_and_counted(void **state)
{
    const size_t prompt = prompt_tokens(state);
    char text[1000];
    snprintf(text, sizeof text,
             "{\"instruction\":\"Q\",\"output\":\"A\"}\n{\"instruction\":\"a much longer "
             "question\",\"output\":\"A\"}\n"
             "{\"instruction\":\"Q\",\"output\":\"\"}\n{\"instruction\":\"Q\",\"output\":null}\n");
    const char *path = write_file(state, "a.jsonl", text);
    struct mt_dataset_options options = usual_options();
    options.max_seq_len = prompt + 2;
    struct fixture fixture = open_dataset(options, path);
    assert_int_equal(stats_of(&fixture)->rows, 4);
    assert_int_equal(stats_of(&fixture)->samples, 1);
    assert_int_equal(stats_of(&fixture)->truncated, 0);
    assert_int_equal(stats_of(&fixture)->dropped[MT_DROP_NO_TARGET], 3);
    assert_int_equal(stats_of(&fixture)->dropped_rows[MT_DROP_NO_TARGET][0], 1);
    assert_int_equal(stats_of(&fixture)->dropped_rows[MT_DROP_NO_TARGET][2], 3);
    assert_true(stats_of(&fixture)->target_tokens == 2);
    free_fixture(&fixture);

    options.max_seq_len = prompt;
    assert_refused(options, path, "none of the 4 rows has a token to learn");
}

/* The cut is blamed for what it cut off alone, and a row for itself alone. */
static void it_is_said_why_there_is_nothing_to_learn(void **state)
{
    static const char unwanted[] =
        "{\"messages\":[{\"role\":\"user\",\"content\":\"q\"},{\"role\":\"assistant\",\"content\":\"a\","
        "\"loss_weight\":0}]}\n";
    const char *path = write_file(state, "unwanted.jsonl", unwanted);
    assert_refused(usual_options(), path, "(the first: none of its answers is to be learned)");
    struct mt_dataset_options options = usual_options();
    options.max_seq_len = 8;
    options.overlong = MT_JOB_OVERLONG_ERROR; /* goes before */
    assert_refused(options, path, "more than max_seq_len 8");

    const char *empty = write_file(state, "empty.jsonl",
                                   "{\"instruction\":\"Q\",\"output\":\"\"}\n"
                                   "{\"instruction\":\"Q\",\"output\":\"A\"}\n");
    const struct mt_job_mix_part parts[] = {{.paths = &empty, .num_paths = 1, .weight = 1},
                                            {.paths = &path, .num_paths = 1, .weight = 1}};
    struct mt_error error = {0};
    struct fixture fixture;
    options = usual_options();
    options.mix = parts;
    options.num_mix = 2;
    assert_true(try_open(&fixture, options, NULL, &error) < 0);
    mt_assert_mentions(error.message, "unwanted.jsonl: none of the 1 rows has a token to learn");
    assert_null(strstr(error.message, "the last answer is empty")); /* of the other part */
    free_fixture(&fixture);
}

static void documents_without_text_are_dropped_and_counted(void **state)
{
    struct fixture fixture = open_dataset(
        usual_options(), write_file(state, "a.jsonl", "{\"text\":\"\"}\n{\"text\":null}\n{\"text\":\"a\"}"));
    assert_int_equal(stats_of(&fixture)->samples, 1);
    assert_int_equal(stats_of(&fixture)->dropped[MT_DROP_EMPTY], 2);
    free_fixture(&fixture);
    assert_refused(usual_options(), write_file(state, "b.jsonl", "{\"text\":\"\"}"), "1 without text");
}

static void the_validation_split_is_a_function_of_the_seed(void **state)
{
    const char *path = mt_test_path(state, "a.jsonl");
    FILE *file = fopen(path, "w");
    for (int i = 0; i < 100; i++)
        fprintf(file, "{\"text\":\"%d\"}\n", i);
    fclose(file);
    char chosen[3][101] = {"", "", ""};
    const uint64_t seeds[] = {42, 42, 43};
    for (size_t k = 0; k < 3; k++) {
        struct mt_dataset_options options = usual_options();
        options.seed = seeds[k];
        options.val_size = 0.05;
        options.packing = k == 1; /* packing changes nothing in the split */
        struct fixture fixture = open_dataset(options, path);
        assert_int_equal(stats_of(&fixture)->val_samples, 5);
        assert_int_equal(stats_of(&fixture)->train_samples, 95);
        for (size_t i = 0; i < 100; i++)
            chosen[k][i] = sample_of(&fixture, i)->validation ? 'v' : 't';
        free_fixture(&fixture);
    }
    assert_string_equal(chosen[0], chosen[1]);
    assert_string_not_equal(chosen[0], chosen[2]);

    struct mt_dataset_options options = usual_options();
    options.val_size = 7;
    struct fixture fixture = open_dataset(options, path);
    assert_int_equal(stats_of(&fixture)->val_samples, 7);
    free_fixture(&fixture);
    options.val_size = 100;
    assert_refused(options, path, "leaves nothing to train on");
    options.val_size = 0.999;
    fixture = open_dataset(options, path);
    assert_int_equal(stats_of(&fixture)->train_samples, 1);
    free_fixture(&fixture);
}

static void threads_change_nothing(void **state)
{
    const char *path = mt_test_path(state, "a.jsonl");
    FILE *file = fopen(path, "w");
    for (int i = 0; i < 3000; i++)
        fprintf(file, "{\"instruction\":\"number %d\",\"output\":\"%0*d\"}\n", i, 1 + i % 50, i);
    fclose(file);
    struct mt_dataset_options options = usual_options();
    options.packing = true;
    struct fixture one = open_dataset(options, path);
    options.pool = mt_pool_new(4);
    struct fixture four = open_dataset(options, path);
    assert_string_equal(mt_dataset_fingerprint(one.dataset), mt_dataset_fingerprint(four.dataset));
    assert_int_equal(mt_dataset_num_samples(one.dataset), mt_dataset_num_samples(four.dataset));
    for (size_t i = 0; i < mt_dataset_num_samples(one.dataset); i++) {
        const struct mt_sample *a = sample_of(&one, i), *b = sample_of(&four, i);
        assert_int_equal(a->tokens, b->tokens);
        assert_memory_equal(a->ids, b->ids, a->tokens * sizeof *a->ids);
        assert_memory_equal(a->learned, b->learned, a->tokens);
        assert_int_equal(a->row, b->row);
    }
    free_fixture(&one);
    free_fixture(&four);
    mt_pool_free(options.pool);
}

static bool stop_now(void *context)
{
    return ++*(int *)context > 1;
}

/* PAINS: no checkpoint on stop because a phase never looks at the flag. */
static void reading_stops_when_asked(void **state)
{
    const size_t lengths[] = {1, 2, 3};
    int calls = 0;
    struct mt_error error = {0};
    struct fixture fixture;
    struct mt_dataset_options options = usual_options();
    options.should_stop = stop_now;
    options.context = &calls;
    assert_int_equal(try_open(&fixture, options, write_answers(state, "a.jsonl", lengths, 3), &error),
                     -ECANCELED);
    assert_int_equal(error.reason, MT_REASON_INTERRUPTED);
    free_fixture(&fixture);
}

static void the_statistics_are_shown_as_json(void **state)
{
    struct fixture fixture = open_dataset(
        usual_options(),
        write_file(state, "a.jsonl", "{\"text\":\"ab\"}\n{\"text\":\"\"}\n{\"text\":\"abcdefgh\"}"));
    json_t *json = mt_dataset_stats_json(fixture.dataset);
    char *text = json_dumps(json, JSON_COMPACT);
    mt_assert_mentions(text, "\"samples\":2");
    mt_assert_mentions(text, "\"dropped\":[{\"reason\":\"empty\",\"count\":1,\"rows\":[1]}]");
    mt_assert_mentions(text, "\"tokens\":14,\"target_tokens\":12");
    mt_assert_mentions(text, "\"lengths\":{\"min\":4,\"max\":10,\"mean\":7.0,\"histogram\":[[4,1],[8,1]]}");
    free(text);
    json_decref(json);
    free_fixture(&fixture);
}

static void fingerprint_of(struct mt_dataset_options options, const char *path, const char *template,
                           const char *tokenizer, char fingerprint[65])
{
    struct mt_error error = {0};
    struct fixture fixture = {0};
    mt_assert_ok(mt_tokenizer_load(tokenizer, &fixture.tokenizer, &error), &error);
    mt_assert_ok(mt_chat_open(template, NULL, &fixture.chat, &error), &error);
    options.paths = &path;
    options.num_paths = 1;
    options.tokenizer = fixture.tokenizer;
    options.chat = fixture.chat;
    mt_assert_ok(mt_dataset_open(&options, &fixture.dataset, &error), &error);
    snprintf(fingerprint, 65, "%s", mt_dataset_fingerprint(fixture.dataset));
    free_fixture(&fixture);
}

/* PAINS: a stale token cache after the tokenizer, template, length, mask or packing changed. What was kept
 * goes by the fingerprint. */
static void each_change_of_what_makes_samples_is_another_fingerprint(void **state)
{
    static const char tokenizer[] =
        "{\"model\":{\"type\":\"BPE\",\"unk_token\":\"u\",\"vocab\":{\"u\":0,\"a\":1},\"merges\":[]}}";
    struct mt_test_folder *folder = *state;
    const char *path = write_file(state, "a.jsonl", "{\"instruction\":\"a\",\"output\":\"a a a\"}");
    const char *other = write_file(state, "b.jsonl", "{\"instruction\":\"a\",\"output\":\"a a b\"}");
    write_file(state, "tokenizer.json", tokenizer);
    char found[12][65];
    size_t count = 0;
    struct mt_dataset_options options = usual_options();
    fingerprint_of(options, path, NULL, "bytes", found[count++]);
    fingerprint_of(options, other, NULL, "bytes", found[count++]);
    fingerprint_of(options, path, "chatml", "bytes", found[count++]);
    fingerprint_of(options, path, "qwen", "bytes", found[count++]);
    fingerprint_of(options, path, NULL, folder->path, found[count++]);
    options.max_seq_len--;
    fingerprint_of(options, path, NULL, "bytes", found[count++]);
    options = usual_options();
    options.train_on_prompt = true;
    fingerprint_of(options, path, NULL, "bytes", found[count++]);
    options = usual_options();
    options.packing = true;
    fingerprint_of(options, path, NULL, "bytes", found[count++]);
    options = usual_options();
    options.overlong = MT_JOB_OVERLONG_DROP;
    fingerprint_of(options, path, NULL, "bytes", found[count++]);
    options = usual_options();
    options.seed++;
    fingerprint_of(options, path, NULL, "bytes", found[count++]);
    options = usual_options();
    options.columns.system = "other";
    fingerprint_of(options, path, NULL, "bytes", found[count++]);
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(found[i], found[k]);
    fingerprint_of(usual_options(), path, NULL, "bytes", found[count]);
    assert_string_equal(found[count], found[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        mt_test_in_folder(only_the_answer_and_its_end_token_are_learned),
        mt_test_in_folder(all_of_a_document_is_learned),
        mt_test_in_folder(a_document_has_exactly_one_begin_token),
        mt_test_in_folder(the_end_token_is_a_target),
        mt_test_in_folder(windows_learn_every_token_exactly_once),
        mt_test_in_folder(overlong_answers_are_truncated_dropped_or_refused),
        mt_test_in_folder(overlong_rows_of_text_are_windowed_dropped_or_refused),
        mt_test_in_folder(rows_whose_answer_was_cut_off_are_dropped_and_counted),
        mt_test_in_folder(it_is_said_why_there_is_nothing_to_learn),
        mt_test_in_folder(documents_without_text_are_dropped_and_counted),
        mt_test_in_folder(the_validation_split_is_a_function_of_the_seed),
        mt_test_in_folder(threads_change_nothing),
        mt_test_in_folder(reading_stops_when_asked),
        mt_test_in_folder(the_statistics_are_shown_as_json),
        mt_test_in_folder(each_change_of_what_makes_samples_is_another_fingerprint),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
