/* From files to rows and columns: the shapes in which people's data comes, and what is wrong with it. */
#include "tests/unit/data/data_support.h"

#define PROMPT(instruction)                                                                                  \
    "<|begin|>Below is an instruction that describes a task. Write a response that appropriately completes " \
    "the request.\n\n### Instruction:\n" instruction "\n\n### Response:"

/* The file opens, and its samples are "Q" answered by "A". */
static void assert_one_row(void **state, const char *name, const char *text)
{
    struct fixture fixture = open_dataset(usual_options(), write_file(state, name, text));
    assert_int_equal(mt_dataset_num_samples(fixture.dataset), 1);
    assert_sample(&fixture, 0, false, PROMPT("Q") "A<|end|>");
    free_fixture(&fixture);
}

static void bom_crlf_and_a_missing_final_newline_do_not_matter(void **state)
{
    assert_one_row(state, "a.jsonl", "{\"instruction\":\"Q\",\"output\":\"A\"}");
    assert_one_row(state, "b.jsonl", "\xef\xbb\xbf{\"instruction\":\"Q\",\"output\":\"A\"}\r\n");
    assert_one_row(state, "c.jsonl", "\n\r\n  {\"instruction\":\"Q\",\"output\":\"A\"}  \r\n\r\n");
    assert_one_row(state, "d.json", "\xef\xbb\xbf[\r\n{\"instruction\":\"Q\",\r\n\"output\":\"A\"}\r\n]\r\n");
    assert_one_row(state, "e.json", "{\"instruction\":\"Q\",\n\"output\":\"A\"}");
    assert_one_row(state, "f.jsonl", "[{\"instruction\":\"Q\",\n\"output\":\"A\"}]");
}

static void crlf_in_plain_text_becomes_lf(void **state)
{
    struct fixture fixture = open_dataset(usual_options(), write_file(state, "a.txt",
                                                                      "\xef\xbb\xbf"
                                                                      "a\r\nb\rc\r\n"));
    assert_sample(&fixture, 0, false, "<|begin|>a\nb\rc\n<|end|>");
    free_fixture(&fixture);
}

/* PAINS: blank cells are an empty string, never the word "None". */
static void blank_null_and_absent_cells_are_empty(void **state)
{
    assert_one_row(state, "a.jsonl",
                   "{\"instruction\":\"Q\",\"input\":\"\",\"output\":\"A\",\"system\":\"\"}");
    assert_one_row(
        state, "b.jsonl",
        "{\"instruction\":\"Q\",\"input\":null,\"output\":\"A\",\"system\":null,\"history\":null}");
    assert_one_row(state, "c.jsonl", "{\"instruction\":\"Q\",\"output\":\"A\",\"history\":[]}");
}

/* PAINS: a field null for 100,000 rows and a string after. */
static void a_column_null_for_100000_rows_and_a_text_after(void **state)
{
    const char *path = mt_test_path(state, "a.jsonl");
    FILE *file = fopen(path, "w");
    for (int i = 0; i < 100000; i++)
        fputs("{\"instruction\":\"Q\",\"input\":null,\"output\":\"A\"}\n", file);
    fputs("{\"instruction\":\"Q\",\"input\":\"late\",\"output\":\"A\"}\n", file);
    fclose(file);
    struct fixture fixture = open_dataset(usual_options(), path);
    assert_int_equal(mt_dataset_num_samples(fixture.dataset), 100001);
    char *text = sample_text(&fixture, 100000, false);
    mt_assert_mentions(text, "### Input:\nlate\n\n");
    free(text);
    free_fixture(&fixture);
}

/* PAINS: unused fields never matter. */
static void columns_that_are_not_used_never_matter(void **state)
{
    assert_one_row(
        state, "a.jsonl",
        "{\"id\":123456789012345678901234567890,\"instruction\":\"Q\",\"x\":{\"a\":[true,NaN,-1.5e+300"
        ",{}]},\"score\":-Infinity,\"\":\"\",\"output\":\"A\",\"text\":7,\"input\":null}");
}

static void content_may_be_a_list_of_parts(void **state)
{
    assert_one_row(state, "a.jsonl",
                   "{\"instruction\":[{\"type\":\"text\",\"text\":\"Q\"}],\"output\":[{\"type\":\"text\","
                   "\"value\":\"A\"},\"\"]}");
    assert_refused(usual_options(),
                   write_file(state, "b.jsonl", "{\"instruction\":[{\"type\":\"image\"}],\"output\":\"A\"}"),
                   "\"instruction\": holds a list with a part that is not text");
}

static void numbers_are_taken_as_they_are_written(void **state)
{
    struct fixture fixture = open_dataset(
        usual_options(), write_file(state, "a.jsonl", "{\"instruction\":\"Q\",\"output\":4.20}"));
    assert_sample(&fixture, 0, true, "4.20<|end|>");
    free_fixture(&fixture);
    assert_refused(usual_options(), write_file(state, "b.jsonl", "{\"instruction\":\"Q\",\"output\":true}"),
                   "the column \"output\": holds true where a text is expected");
    assert_refused(usual_options(), write_file(state, "c.jsonl", "{\"instruction\":\"Q\",\"output\":{}}"),
                   "line 1: row 1: the column \"output\": holds an object");
}

static void escapes_are_read_as_python_reads_them(void **state)
{
    struct fixture fixture =
        open_dataset(usual_options(), write_file(state, "a.jsonl",
                                                 "{\"instruction\":\"Q\",\"output\":\"\\\"\\\\\\/"
                                                 "\\b\\f\\n\\r\\t\\u00e9\\ud83e\\udd99\\ud800x\"}"));
    assert_sample(&fixture, 0, true, "\"\\/\b\f\n\r\t\xc3\xa9\xf0\x9f\xa6\x99\xef\xbf\xbdx<|end|>");
    free_fixture(&fixture);
}

static void system_and_history_are_earlier_messages(void **state)
{
    struct fixture fixture = open_dataset(
        usual_options(),
        write_file(state, "a.jsonl",
                   "{\"system\":\"S\",\"history\":[[\"q1\",\"a1\"],[\"q2\",\"a2\"]],\"instruction\":\"q3\","
                   "\"input\":\"i3\",\"output\":\"a3\"}"));
    assert_sample(
        &fixture, 0, false,
        "<|begin|>S\n\n### Instruction:\nq1\n\n### Response:a1<|end|>\n\n### Instruction:\nq2\n\n"
        "### Response:a2<|end|>\n\n### Instruction:\nq3\n\n### Input:\ni3\n\n### Response:a3<|end|>");
    assert_sample(&fixture, 0, true, "a1<|end|>a2<|end|>a3<|end|>");
    free_fixture(&fixture);
    assert_refused(usual_options(),
                   write_file(state, "b.jsonl",
                              "{\"instruction\":\"Q\",\"output\":\"A\",\"history\":[[\"a\",\"b\"],[\"c\"]]}"),
                   "turn 2 of the column \"history\" is not a pair");
    assert_refused(usual_options(),
                   write_file(state, "c.jsonl", "{\"instruction\":\"Q\",\"output\":\"A\",\"history\":\"x\"}"),
                   "\"history\" holds a text");
}

/* PAINS: a wrong column is reported at submission with the columns found and those expected. */
static void wrong_columns_are_reported_with_those_found_and_expected(void **state)
{
    struct mt_error error = {0};
    const char *const path =
        write_file(state, "a.jsonl", "\n{\"question\":\"Q\",\"answer\":\"A\",\"id\":1}\n");
    assert_refused(
        usual_options(), path,
        "a.jsonl: line 2: row 1: the row has the columns question, answer, id; expected are "
        "\"instruction\" and \"output\" (dataset.columns.prompt and .response give them other names), "
        "or \"messages\", or \"text\"");
    struct mt_dataset_options options = usual_options();
    options.paths = &path;
    options.num_paths = 1;
    assert_true(mt_dataset_probe(&options, &error) < 0); /* needs neither tokenizer nor template */
    mt_assert_mentions(error.message, "question, answer, id");
    assert_int_equal(error.reason, MT_REASON_BAD_DATA);

    options.columns = (struct mt_columns){.prompt = "question", .response = "answer"};
    mt_assert_ok(mt_dataset_probe(&options, &error), &error);
    struct fixture fixture = open_dataset(options, path);
    assert_sample(&fixture, 0, true, "A<|end|>");
    free_fixture(&fixture);

    options.columns = (struct mt_columns){.text = "body"};
    assert_refused(options, path, "expected is \"body\"");
}

static void a_row_of_another_shape_is_not_passed_over(void **state)
{
    assert_refused(
        usual_options(),
        write_file(state, "a.jsonl",
                   "{\"instruction\":\"Q\",\"output\":\"A\"}\n{\"prompt\":\"Q\",\"reply\":\"A\"}\n"),
        "line 2: row 2: the row has the columns prompt, reply");
    assert_refused(usual_options(), write_file(state, "b.jsonl", "{\"text\":\"T\"}\n{\"txt\":\"T\"}\n"),
                   "line 2: row 2");
    assert_refused(usual_options(), write_file(state, "c.jsonl", "{\"text\":\"T\"}\n\"T\"\n"),
                   "line 2, column 1: a row is a text where an object");
}

static void damaged_json_is_reported_with_line_and_column(void **state)
{
    static const struct {
        const char *name, *text, *why;
    } cases[] = {
        {"a.jsonl", "{\"text\":\"a\"}\n{\"text\":\"b\"\n{\"text\":\"c\"}\n", "a.jsonl: line 2, column 12"},
        {"b.jsonl", "{\"text\":\"a\"}\n{\"text\":\"b",
         "line 2, column 11: the text ends where the end of a string"},
        {"c.jsonl", "{\"text\":\"a\"} x\n", "line 1, column 14: something follows the row"},
        {"d.jsonl", "{\"text\":\"a\"}{\"text\":\"b\"}", "something follows the row"},
        {"e.jsonl", "{\"text\":\"a\nb\"}", "end of a string"},
        {"f.json", "[{\"text\":\"a\"},\n{\"text\":\"b\"}",
         "line 2, column 13: the text ends before the \"]\""},
        {"g.json", "[{\"text\":\"a\"}\n{\"text\":\"b\"}]", "line 2, column 1: \",\" or \"]\" is expected"},
        {"h.json", "[{\"text\":\"a\"}] []", "something follows the end of the list"},
        {"i.json", "[{\"text\":\"a\"},]", "column 15: a value is expected"},
        {"j.json", "[{\"text\":\"\\x\"}]", "the escape is unknown"},
        {"k.json", "[{\"text\":\"\\u12g4\"}]", "the escape is unknown"},
        {"l.json", "[{\"text\" \"a\"}]", "\":\" after a key"},
        {"m.json", "[{text:\"a\"}]", "a key in quotes"},
        {"n.json", "[{\"text\":01}]", "is expected"},
        {"o.json", "[{\"text\":1.}]", "a digit is expected"},
        {"p.json", "[{\"text\":nul}]", "a value is expected"},
        {"q.json", "[{\"text\":\"a\tb\"}]", "control character"},
        {"r.json", "[[{\"text\":\"a\"}]]", "a row is a list"},
        {"s.json", "[", "the text ends before"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_refused(usual_options(), write_file(state, cases[i].name, cases[i].text), cases[i].why);
}

static void nesting_without_end_is_refused(void **state)
{
    char text[2100] = "{\"text\":\"a\",\"x\":";
    memset(text + strlen(text), '[', 2000);
    assert_refused(usual_options(), write_file(state, "a.jsonl", text), "nested more than 256 deep");
}

static void text_that_is_not_utf8_is_refused_with_its_line(void **state)
{
    assert_refused(usual_options(), write_file(state, "a.txt", "caf\xc3\xa9\ncaf\xe9\n"),
                   "a.txt: line 2, column 4: the text is not UTF-8");
    assert_refused(usual_options(), write_file(state, "b.jsonl", "{\"text\":\"\xff\"}"), "not UTF-8");
    assert_refused(usual_options(),
                   write_file(state, "c.txt",
                              "\xff\xfe"
                              "a"),
                   "UTF-16");
    assert_refused(usual_options(), write_file(state, "d.txt", "cut \xe2\x82"), "not UTF-8");
}

static void an_empty_data_set_is_an_error(void **state)
{
    assert_refused(usual_options(), write_file(state, "a.txt", ""), "empty");
    assert_refused(usual_options(), write_file(state, "b.jsonl", "\xef\xbb\xbf\n \n"), "empty");
    assert_refused(usual_options(), write_file(state, "c.json", "[ ]"), "empty");
    const char *const paths[] = {mt_test_path(state, "a.txt"), mt_test_path(state, "c.json")};
    struct mt_dataset_options options = usual_options();
    options.paths = paths;
    options.num_paths = 2;
    struct mt_error error = {0};
    assert_true(mt_dataset_probe(&options, &error) < 0);
    mt_assert_mentions(error.message, "empty");
    assert_refused(usual_options(), mt_test_path(state, "absent.txt"), "cannot read the data set");
    assert_refused(usual_options(), "/dev/null", "neither a file nor a folder");
}

static void a_folder_is_read_in_order_and_what_is_not_data_is_passed_over(void **state)
{
    struct mt_error error = {0};
    struct mt_test_folder *folder = *state;
    mt_assert_ok(mt_folder_create(mt_test_path(state, "b/inner"), 0777, &error), &error);
    write_file(state, "c.txt", "three");
    write_file(state, "a.jsonl", "{\"text\":\"one\"}");
    write_file(state, "b/inner/x.TXT", "two");
    write_file(state, ".hidden.txt", "no");
    write_file(state, "dataset_info.json", "{\"x\":{}}");
    write_file(state, "README.md", "no");
    assert_int_equal(symlink(folder->path, mt_test_path(state, "b/loop")), 0);
    struct fixture fixture = open_dataset(usual_options(), folder->path);
    assert_int_equal(mt_dataset_num_samples(fixture.dataset), 3);
    assert_sample(&fixture, 0, false, "<|begin|>one<|end|>");
    assert_sample(&fixture, 1, false, "<|begin|>two<|end|>");
    assert_sample(&fixture, 2, false, "<|begin|>three<|end|>");
    assert_int_equal(mt_dataset_stats(fixture.dataset)->files, 3);
    assert_int_equal(mt_dataset_stats(fixture.dataset)->skipped_files, 3);
    assert_int_equal(sample_of(&fixture, 2)->row, 2);
    free_fixture(&fixture);

    write_file(state, "more.zip", "PK");
    assert_refused(usual_options(), folder->path, "more.zip: .zip files are not supported yet");
    assert_refused(usual_options(), mt_test_path(state, "b/loop2"), "cannot read");
    assert_refused(usual_options(), mt_test_path(state, "README.md"),
                   "must end in .txt, .json, .jsonl, .csv");
    mt_assert_ok(mt_folder_create(mt_test_path(state, "empty"), 0777, &error), &error);
    assert_refused(usual_options(), mt_test_path(state, "empty"), "holds no file that ends in .txt, .json");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        mt_test_in_folder(bom_crlf_and_a_missing_final_newline_do_not_matter),
        mt_test_in_folder(crlf_in_plain_text_becomes_lf),
        mt_test_in_folder(blank_null_and_absent_cells_are_empty),
        mt_test_in_folder(a_column_null_for_100000_rows_and_a_text_after),
        mt_test_in_folder(columns_that_are_not_used_never_matter),
        mt_test_in_folder(content_may_be_a_list_of_parts),
        mt_test_in_folder(numbers_are_taken_as_they_are_written),
        mt_test_in_folder(escapes_are_read_as_python_reads_them),
        mt_test_in_folder(system_and_history_are_earlier_messages),
        mt_test_in_folder(wrong_columns_are_reported_with_those_found_and_expected),
        mt_test_in_folder(a_row_of_another_shape_is_not_passed_over),
        mt_test_in_folder(damaged_json_is_reported_with_line_and_column),
        mt_test_in_folder(nesting_without_end_is_refused),
        mt_test_in_folder(text_that_is_not_utf8_is_refused_with_its_line),
        mt_test_in_folder(an_empty_data_set_is_an_error),
        mt_test_in_folder(a_folder_is_read_in_order_and_what_is_not_data_is_passed_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
