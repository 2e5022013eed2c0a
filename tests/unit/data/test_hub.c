/* Data sets in the hub's local cache: which files of a repository are the data. */
#include "core/data/hub.h"
#include "tests/unit/data/data_support.h"

#include <sys/stat.h>

/* A file of the snapshot, as the hub's client leaves it: a link to a blob. */
static void add_file(void **state, const char *path, const char *text)
{
    static int number;
    struct mt_error error = {0};
    char blob[64], place[512], folder[512], target[512];
    snprintf(blob, sizeof blob, "hub/datasets--Org--Set/blobs/%d", ++number);
    mt_assert_ok(mt_folder_create(mt_test_path(state, "hub/datasets--Org--Set/blobs"), 0777, &error), &error);
    write_file(state, blob, text);
    snprintf(target, sizeof target, "%s", mt_test_path(state, blob));
    snprintf(place, sizeof place, "hub/datasets--Org--Set/snapshots/abc123/%s", path);
    snprintf(folder, sizeof folder, "%s", mt_test_path(state, place));
    *strrchr(folder, '/') = '\0';
    mt_assert_ok(mt_folder_create(folder, 0777, &error), &error);
    assert_int_equal(symlink(target, mt_test_path(state, place)), 0);
}

static void begin(void **state)
{
    struct mt_error error = {0};
    mt_assert_ok(mt_folder_create(mt_test_path(state, "hub/datasets--Org--Set/refs"), 0777, &error), &error);
    write_file(state, "hub/datasets--Org--Set/refs/main", "abc123");
}

/* The files relative to the snapshot, with a blank between them; or the error's message. */
static void assert_files(void **state, struct mt_hub_dataset dataset, const char *expected)
{
    struct mt_error error = {0};
    struct mt_arena *arena = mt_arena_new();
    const char *const *paths;
    size_t count;
    char found[2000] = "", cache[512];
    snprintf(cache, sizeof cache, "%s", mt_test_path(state, "hub"));
    dataset.repository = "Org/Set";
    if (mt_hub_files(cache, &dataset, arena, &paths, &count, &error) < 0) {
        assert_int_equal(error.reason, MT_REASON_BAD_DATA);
        mt_assert_mentions(error.message, expected);
    } else {
        for (size_t i = 0; i < count; i++) {
            const char *relative = strstr(paths[i], "/abc123/");
            assert_non_null(relative);
            snprintf(found + strlen(found), sizeof found - strlen(found), "%s%s", *found ? " " : "",
                     relative + 8);
        }
        assert_string_equal(found, expected);
    }
    mt_arena_free(arena);
}

#define ANY ((struct mt_hub_dataset){0})

static void shards_in_the_data_folder_go_before_all_other_names(void **state)
{
    begin(state);
    add_file(state, "data/train-00001-of-00002-abc.parquet", "x");
    add_file(state, "data/train-00000-of-00002-def.parquet", "x");
    add_file(state, "data/test-00000-of-00001.parquet", "x");
    add_file(state, "data/unseen-00000-of-00001.parquet", "x");
    add_file(state, "train.jsonl", "x");
    add_file(state, "README.md", "no front matter");
    assert_files(state, ANY, "data/train-00000-of-00002-def.parquet data/train-00001-of-00002-abc.parquet");
    assert_files(state, (struct mt_hub_dataset){.split = "test"}, "data/test-00000-of-00001.parquet");
    assert_files(state, (struct mt_hub_dataset){.split = "trian"},
                 "no data for the split \"trian\"; it has: test, train, unseen");
    assert_files(state, (struct mt_hub_dataset){.subset = "en"}, "names no subsets");
}

static void folders_and_then_file_names_say_the_split(void **state)
{
    begin(state);
    add_file(state, "my_train-2.json", "x");
    add_file(state, "training.jsonl", "x");
    add_file(state, "contest.jsonl", "x");
    add_file(state, "dev.jsonl", "x");
    add_file(state, ".hidden/train.jsonl", "x");
    assert_files(state, ANY, "training.jsonl"); /* .json and .jsonl: as common, the later format */
    assert_files(state, (struct mt_hub_dataset){.split = "validation"}, "dev.jsonl");
    assert_files(state, (struct mt_hub_dataset){.split = "test"}, "no data for the split \"test\"");
    add_file(state, "en/train/part.jsonl", "x"); /* folders go before */
    add_file(state, "en/valid/part.jsonl", "x");
    assert_files(state, ANY, "en/train/part.jsonl");
    assert_files(state, (struct mt_hub_dataset){.split = "validation"}, "en/valid/part.jsonl");
}

static void without_names_of_splits_everything_is_train(void **state)
{
    begin(state);
    add_file(state, "a.jsonl", "x");
    add_file(state, "b.jsonl.gz", "x");
    add_file(state, "sub/c.jsonl", "x");
    add_file(state, "other.csv", "x");
    add_file(state, "dataset_infos.json", "x");
    add_file(state, "picture.png", "x");
    assert_files(state, ANY, "a.jsonl b.jsonl.gz sub/c.jsonl");
    assert_files(state, (struct mt_hub_dataset){.folder = "sub"}, "sub/c.jsonl");
    assert_files(state, (struct mt_hub_dataset){.folder = "none"},
                 "no file of a known format in the hub cache below none");
}

static void configs_of_the_readme_go_before_names(void **state)
{
    begin(state);
    add_file(state, "en/train.jsonl", "x");
    add_file(state, "en/extra/more.jsonl", "x");
    add_file(state, "de/train-1.parquet", "x");
    add_file(state, "de/train-2.parquet", "x");
    add_file(state, "de/test.parquet", "x");
    add_file(
        state, "README.md",
        "---\nlicense: mit\ntags: [<<weird: !x\nconfigs:\n- config_name: en\n  default: true\n  data_files:\n"
        "  - split: train\n    path: en/**\n  - split: test\n    path: [\"de/test.parquet\"]\n"
        "- config_name: de\n  data_dir: de\n  data_files: \"train-[0-9].parquet\"\n"
        "dataset_info:\n  x: 1\n---\n# Title\nconfigs: no\n");
    assert_files(state, ANY, "en/extra/more.jsonl en/train.jsonl");
    assert_files(state, (struct mt_hub_dataset){.split = "test"}, "de/test.parquet");
    assert_files(state, (struct mt_hub_dataset){.subset = "de"}, "de/train-1.parquet de/train-2.parquet");
    assert_files(state, (struct mt_hub_dataset){.subset = "fr"}, "has no subset \"fr\"; it has: en, de");
    assert_files(state, (struct mt_hub_dataset){.subset = "de", .split = "test"}, "no data for the split");
}

/* However many there are: twice would be trained on twice. */
static void overlapping_patterns_name_a_file_once(void **state)
{
    struct mt_error error = {0};
    struct mt_arena *arena = mt_arena_new();
    const char *const *paths;
    size_t count;
    char name[64], cache[512];
    begin(state);
    for (int i = 0; i < 1100; i++) {
        snprintf(name, sizeof name, "en/train-%04d.jsonl", i);
        add_file(state, name, "x");
    }
    add_file(state, "README.md",
             "---\nconfigs:\n- config_name: default\n  data_files: [\"en/**\", \"en/train-1*\"]\n---\n");
    snprintf(cache, sizeof cache, "%s", mt_test_path(state, "hub"));
    const struct mt_hub_dataset dataset = {.repository = "Org/Set"};
    mt_assert_ok(mt_hub_files(cache, &dataset, arena, &paths, &count, &error), &error);
    assert_int_equal(count, 1100);
    mt_arena_free(arena);
}

/* The hub has more than is here: what a download was told of it counts, and in the order of a walk. */
static void a_known_part_of_the_hub_is_not_taken_for_all(void **state)
{
    struct mt_error error = {0};
    static const char *const names[] = {"a.jsonl",         "setup.py",        ".x/a.jsonl", "a/z.jsonl",
                                        "b-1.csv",         "a/README.md",     "README.md",  "a-1/__b/c.jsonl",
                                        "a/b/train.jsonl", "a-1/b/dev.jsonl", "a0.jsonl",   "a/b.jsonl"};
    const size_t count = sizeof names / sizeof *names;
    struct mt_hub_dataset dataset = {.repository = "Org/Set", .folder = "a"};
    bool wanted[sizeof names / sizeof *names] = {0};
    char snapshot[512];
    begin(state);
    add_file(state, "a/b/train.jsonl", "x");
    add_file(state, "a/z.jsonl", "x");
    snprintf(snapshot, sizeof snapshot, "%s", mt_test_path(state, "hub/datasets--Org--Set/snapshots/abc123"));
    mt_assert_ok(mt_hub_wanted(&dataset, snapshot, names, count, wanted, &error), &error);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(wanted[i], i == 8); /* a word for a split stands in one of the names below a */
    assert_files(state, dataset, "a/b/train.jsonl");
    dataset.folder = "a-1";
    assert_files(state, dataset, "has no data for the split \"train\"; it has: validation");
    dataset.split = "validation";
    assert_files(state, dataset, "or not all of it: fetch it first");
    add_file(state, "a-1/b/dev.jsonl", "x");
    assert_files(state, dataset, "a-1/b/dev.jsonl");

    static const char *const plain[] = {"a0.jsonl", "a.jsonl", "a/z.jsonl", "a-1/y.jsonl", "a/b/x.jsonl"};
    memset(wanted, 0, sizeof wanted);
    mt_assert_ok(
        mt_hub_wanted(&(struct mt_hub_dataset){.repository = "Org/Set"}, snapshot, plain, 5, wanted, &error),
        &error);
    for (size_t i = 0; i < 5; i++) {
        assert_true(wanted[i]);
        if (i != 2)
            add_file(state, plain[i], "x");
    }
    static const char in_order[] = "a/b/x.jsonl a/z.jsonl a-1/y.jsonl a.jsonl a0.jsonl";
    assert_files(state, ANY, in_order);
    assert_int_equal(unlink(mt_test_path(state, "hub/datasets--Org--Set/listings/abc123.json")), 0);
    assert_int_equal(unlink(mt_test_path(state, "hub/datasets--Org--Set/snapshots/abc123/a/b/train.jsonl")),
                     0);
    assert_int_equal(unlink(mt_test_path(state, "hub/datasets--Org--Set/snapshots/abc123/a-1/b/dev.jsonl")),
                     0);
    assert_files(state, ANY, in_order); /* walked */
}

/* From dataset_info.json to samples, by HF_HUB_CACHE. */
static void an_entry_with_hf_hub_url_is_read_from_the_cache(void **state)
{
    struct mt_error error = {0};
    begin(state);
    add_file(state, "train.jsonl", "{\"text\":\"one\"}\n{\"text\":\"two\"}\n");
    add_file(state, "test.jsonl", "{\"text\":\"three\"}\n");
    write_file(
        state, "dataset_info.json",
        "{\"a\":{\"hf_hub_url\":\"Org/Set\"},\"b\":{\"hf_hub_url\":\"Org/Set\",\"split\":\"test\"},"
        "\"c\":{\"hf_hub_url\":\"Org/Other\"},\"d\":{\"hf_hub_url\":\"Org/Set\",\"folder\":\"../../x\"},"
        "\"e\":{\"hf_hub_url\":\"../../etc\"},\"f\":{\"hf_hub_url\":\"Org/Set\",\"split\":7}}");
    struct mt_dataset_options options = usual_options();
    struct mt_test_folder *folder = *state;
    char cache[512];
    snprintf(cache, sizeof cache, "%s", mt_test_path(state, "hub"));
    setenv("HF_HUB_CACHE", cache, 1);
    options.dataset_dir = folder->path;
    options.name = "a";
    mt_assert_ok(mt_dataset_probe(&options, &error), &error);
    struct fixture fixture = open_dataset(options, NULL);
    assert_int_equal(mt_dataset_num_samples(fixture.dataset), 2);
    free_fixture(&fixture);
    options.name = "b";
    fixture = open_dataset(options, NULL);
    assert_sample(&fixture, 0, false, "<|begin|>three<|end|>");
    free_fixture(&fixture);
    options.name = "c";
    assert_refused(options, NULL, "hf download --repo-type dataset Org/Other");
    options.name = "d";
    assert_refused(options, NULL, "leads out of the repository");
    options.name = "e";
    assert_refused(options, NULL, "not in the local cache");
    options.name = "f";
    assert_refused(options, NULL, "split is not a text");
    unsetenv("HF_HUB_CACHE");
}

static int count_fetch(void *context, const struct mt_hub_dataset *dataset, struct mt_error *error)
{
    (void)dataset, (void)error;
    ++*(int *)context;
    return 0;
}

static void what_would_be_refused_is_not_fetched_first(void **state)
{
    struct mt_error error = {0};
    struct mt_test_folder *folder = *state;
    int fetched = 0;
    write_file(state, "dataset_info.json",
               "{\"a\":{\"hf_hub_url\":\"Org/Set\"},\"b\":{\"hf_hub_url\":\"Org/Set\",\"ranking\":true}}");
    setenv("HF_HUB_CACHE", mt_test_path(state, "hub"), 1);
    struct mt_dataset_options options = usual_options();
    options.dataset_dir = folder->path;
    options.data_may_come = true;
    options.name = "a";
    mt_assert_ok(mt_dataset_probe(&options, &error), &error);
    mt_assert_ok(mt_dataset_fetch(&options, count_fetch, &fetched, &error), &error);
    assert_int_equal(fetched, 1);
    options.name = "b";
    assert_int_equal(mt_dataset_probe(&options, &error), -ENOTSUP);
    mt_assert_mentions(error.message, "preference training (method: dpo), which is not supported yet");
    assert_int_equal(mt_dataset_fetch(&options, count_fetch, &fetched, &error), -ENOTSUP);
    assert_int_equal(fetched, 1);
    unsetenv("HF_HUB_CACHE");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        mt_test_in_folder(shards_in_the_data_folder_go_before_all_other_names),
        mt_test_in_folder(folders_and_then_file_names_say_the_split),
        mt_test_in_folder(without_names_of_splits_everything_is_train),
        mt_test_in_folder(configs_of_the_readme_go_before_names),
        mt_test_in_folder(overlapping_patterns_name_a_file_once),
        mt_test_in_folder(a_known_part_of_the_hub_is_not_taken_for_all),
        mt_test_in_folder(an_entry_with_hf_hub_url_is_read_from_the_cache),
        mt_test_in_folder(what_would_be_refused_is_not_fetched_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
