/* Real files and registries. What Python reads in the test data (rows, bytes of text in UTF-8, first and last
 * texts) stands here as numbers; see ../shared/data. */
#include "tests/unit/data/data_support.h"

static struct mt_dataset_options roomy_options(void)
{
    struct mt_dataset_options options = usual_options();
    options.max_seq_len = 65536;
    return options;
}

static struct mt_dataset_options named(const char *dataset_dir, const char *name)
{
    struct mt_dataset_options options = roomy_options();
    options.dataset_dir = dataset_dir;
    options.name = name;
    return options;
}

static void assert_begins(struct fixture *fixture, size_t i, const char *text)
{
    char *sample = sample_text(fixture, i, true);
    if (strncmp(sample, text, strlen(text)) != 0)
        fail_msg("sample %zu does not begin with \"%s\"", i, text);
    free(sample);
}

static void assert_ends(struct fixture *fixture, size_t i, const char *text)
{
    char *sample = sample_text(fixture, i, true);
    const size_t length = strlen(sample), expected = strlen(text);
    if (length < expected || strcmp(sample + length - expected, text) != 0)
        fail_msg("sample %zu does not end with \"%s\"", i, text);
    free(sample);
}

static size_t count_with(struct fixture *fixture, const char *text)
{
    size_t count = 0;
    for (size_t i = 0; i < mt_dataset_num_samples(fixture->dataset); i++) {
        char *sample = sample_text(fixture, i, false);
        count += strstr(sample, text) != NULL;
        free(sample);
    }
    return count;
}

static void alpaca_en_demo_is_what_python_reads(void **state)
{
    (void)state;
    char path[1024];
    mt_test_data("llamafactory/alpaca_en_demo.json", path);
    struct fixture fixture = open_dataset(roomy_options(), path);
    const struct mt_dataset_stats *stats = mt_dataset_stats(fixture.dataset);
    assert_int_equal(stats->rows, 999);
    assert_int_equal(stats->samples, 999);
    assert_int_equal(stats->target_tokens, 701777 + 999); /* bytes of the answers, and their end tokens */
    assert_int_equal(count_with(&fixture, "\n\n### Input:\n"), 412);
    assert_begins(&fixture, 0, "Making crepes is an easy and delicious process! Here are ste");
    assert_ends(&fixture, 998, "No one can stop time from moving forward.<|end|>");
    free_fixture(&fixture);
}

static void identity_is_what_python_reads(void **state)
{
    (void)state;
    char path[1024];
    mt_test_data("llamafactory/identity.json", path);
    struct fixture fixture = open_dataset(roomy_options(), path);
    const struct mt_dataset_stats *stats = mt_dataset_stats(fixture.dataset);
    assert_int_equal(stats->samples, 91);
    assert_int_equal(stats->target_tokens, 12062);
    assert_int_equal(count_with(&fixture, "### Input:"), 0);
    assert_begins(&fixture, 0, "Hello! I am {{name}}, an AI assistant developed by {{author}}.");
    assert_ends(
        &fixture, 90,
        "\xe6\x97\xa8\xe5\x9c\xa8\xe4\xb8\xba\xe7\x94\xa8\xe6\x88\xb7\xe6\x8f\x90\xe4\xbe\x9b\xe6\x99\xba"
        "\xe8\x83\xbd\xe5\x8c\x96\xe7\x9a\x84\xe5\x9b\x9e\xe7\xad\x94\xe5\x92\x8c\xe5\xb8\xae\xe5\x8a\xa9"
        "\xe3\x80\x82<|end|>");
    free_fixture(&fixture);
}

static void c4_demo_is_what_python_reads(void **state)
{
    (void)state;
    char path[1024];
    mt_test_data("llamafactory/c4_demo.jsonl", path);
    struct fixture fixture = open_dataset(roomy_options(), path);
    const struct mt_dataset_stats *stats = mt_dataset_stats(fixture.dataset);
    assert_int_equal(stats->samples, 300);
    assert_int_equal(stats->target_tokens, 740930);
    assert_int_equal(stats->tokens, 740930 + 300);
    assert_int_equal(stats->max_length, 37535 + 2);
    assert_begins(&fixture, 0, "Don\xe2\x80\x99t think you need all the bells and whistles? N");
    assert_ends(&fixture, 299, "uality and well researched to suit your functions.<|end|>");
    free_fixture(&fixture);
}

static void wiki_demo_is_one_document_in_windows(void **state)
{
    (void)state;
    char path[1024];
    mt_test_data("llamafactory/wiki_demo.txt", path);
    struct fixture fixture = open_dataset(usual_options(), path);
    const struct mt_dataset_stats *stats = mt_dataset_stats(fixture.dataset);
    assert_int_equal(stats->rows, 1);
    assert_int_equal(stats->samples, (1028326 + 1 + 1022) / 1023);
    assert_int_equal(stats->target_tokens, 1028326 + 1);
    assert_begins(&fixture, 0, "Anarchism is a political philosophy and ");
    assert_ends(&fixture, stats->samples - 1, " 1 tennis playersWriters from Las Vegas\n<|end|>");
    free_fixture(&fixture);
}

/* Entry by entry, as far as what they ask for is there. */
static void the_registry_of_the_test_data_is_read_or_refused_by_name(void **state)
{
    (void)state;
    char folder[1024];
    mt_test_data("llamafactory", folder);
    static const struct {
        const char *name;
        size_t rows;
    } readable[] = {{"identity", 91}, {"alpaca_en_demo", 999}, {"wiki_demo", 1}, {"c4_demo", 300}};

    for (size_t i = 0; i < sizeof readable / sizeof *readable; i++) {
        struct mt_error error = {0};
        struct mt_dataset_options options = named(folder, readable[i].name);
        mt_assert_ok(mt_dataset_probe(&options, &error), &error);
        struct fixture fixture = open_dataset(options, NULL);
        assert_int_equal(mt_dataset_stats(fixture.dataset)->rows, readable[i].rows);
        free_fixture(&fixture);
    }
    assert_refused(named(folder, "alpaca_zh_demo"), NULL, "alpaca_zh_demo.json: No such file");
    assert_refused(named(folder, "mllm_audio_demo"), NULL, "the column audios is not supported yet");
    assert_refused(named(folder, "mllm_demo"), NULL, "the column images is not supported yet");
    setenv("HF_HUB_CACHE", "/does/not/exist", 1);
    assert_refused(
        named(folder, "alpaca_en"), NULL,
        "llamafactory/alpaca_en of the Hugging Face hub is not in the local cache /does/not/exist");
    assert_refused(named(folder, "dpo_en_demo"), NULL, "preference training (method: dpo), which is not");
    assert_refused(named(folder, "kto_en_demo"), NULL, "(kto_tag), not answers to learn");
    assert_refused(named(folder, "identitty"), NULL, "did you mean \"identity\"?");
}

static const char *write_registry(void **state, const char *text)
{
    write_file(state, "dataset_info.json", text);
    return ((struct mt_test_folder *)*state)->path;
}

static void columns_of_an_entry_are_those_that_it_names(void **state)
{
    write_file(state, "data.jsonl",
               "{\"query\":\"Q\",\"response\":\"A\",\"input\":\"not named\",\"who\":\"S\",\"system\":\"not "
               "named\"}");
    const char *folder = write_registry(
        state,
        "{\"x\":{\"file_name\":\"data.jsonl\",\"columns\":{\"prompt\":\"query\",\"response\":\"response\","
        "\"system\":\"who\"}},"
        "\"y\":{\"file_name\":\"data.jsonl\",\"columns\":{\"prompt\":\"query\"}},"
        "\"z\":{\"file_name\":\"data.jsonl\",\"columns\":{\"prompt\":7}}}");
    struct fixture fixture = open_dataset(named(folder, "x"), NULL);
    assert_sample(&fixture, 0, false, "<|begin|>S\n\n### Instruction:\nQ\n\n### Response:A<|end|>");
    free_fixture(&fixture);
    fixture = open_dataset(named(folder, "y"), NULL); /* a prompt alone is plain text */
    assert_sample(&fixture, 0, false, "<|begin|>Q<|end|>");
    free_fixture(&fixture);
    assert_refused(named(folder, "z"), NULL, "is not a text");
}

static void num_samples_takes_the_first_rows(void **state)
{
    write_file(state, "data.jsonl", "{\"text\":\"a\"}\n{\"text\":\"b\"}\n{\"text\":\"c\"}\n");
    const char *folder = write_registry(state, "{\"x\":{\"file_name\":\"data.jsonl\",\"num_samples\":2},"
                                               "\"y\":{\"file_name\":\"data.jsonl\",\"num_samples\":0}}");
    struct fixture fixture = open_dataset(named(folder, "x"), NULL);
    assert_int_equal(mt_dataset_stats(fixture.dataset)->rows, 2);
    free_fixture(&fixture);
    assert_refused(named(folder, "y"), NULL, "num_samples");
}

/* PAINS: `../` and absolute paths in any name. */
static void a_registry_does_not_lead_out_of_its_folder(void **state)
{
    const char *folder = write_registry(state, "{\"a\":{\"file_name\":\"/etc/hostname.txt\"},"
                                               "\"b\":{\"file_name\":\"../x.txt\"},"
                                               "\"c\":{\"file_name\":\"x/../../x.txt\"},"
                                               "\"d\":{\"file_name\":\"\"},\"e\":[],\"f\":{}}");
    assert_refused(named(folder, "a"), NULL, "leads out of the folder");
    assert_refused(named(folder, "b"), NULL, "leads out of the folder");
    assert_refused(named(folder, "c"), NULL, "leads out of the folder");
    assert_refused(named(folder, "d"), NULL, "leads out of the folder");
    assert_refused(named(folder, "e"), NULL, "not an object");
    assert_refused(named(folder, "f"), NULL, "no file_name");
}

static void a_damaged_or_missing_registry_is_refused(void **state)
{
    struct mt_test_folder *folder = *state;
    assert_refused(named(folder->path, "x"), NULL, "dataset_info.json is not there");
    write_registry(state, "{\"x\":");
    assert_refused(named(folder->path, "x"), NULL, "line 1");
    write_registry(state, "{\"x\":{\"file_name\":\"a\"},\"x\":{}}");
    assert_refused(named(folder->path, "x"), NULL, "duplicate");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alpaca_en_demo_is_what_python_reads),
        cmocka_unit_test(identity_is_what_python_reads),
        cmocka_unit_test(c4_demo_is_what_python_reads),
        cmocka_unit_test(wiki_demo_is_one_document_in_windows),
        cmocka_unit_test(the_registry_of_the_test_data_is_read_or_refused_by_name),
        mt_test_in_folder(columns_of_an_entry_are_those_that_it_names),
        mt_test_in_folder(num_samples_takes_the_first_rows),
        mt_test_in_folder(a_registry_does_not_lead_out_of_its_folder),
        mt_test_in_folder(a_damaged_or_missing_registry_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
