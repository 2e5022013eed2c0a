/* What is made of the table: its own soundness, docs/job.md, MegaTrain's own files, and documents of chance.
 */
#include "core/base/cleanup.h"
#include "core/base/random.h"
#include "core/job/table.h"
#include "tests/unit/job/parsing.h"

#include <dirent.h>

static void every_default_passes_its_own_check(void **state)
{
    const char *data = mt_test_job_data(state);
    for (size_t i = 0; i < mt_job_num_keys; i++) {
        const struct mt_job_key *key = &mt_job_keys[i];
        if (!key->default_json)
            continue;
        char assignment[256], dotted[128];
        struct mt_error error = {0};
        mt_autojson json_t *document = mt_test_job_document(data, "");
        snprintf(assignment, sizeof assignment, "%s=%s",
                 mt_job_key_dotted(key->pointer, dotted, sizeof dotted), key->default_json);
        mt_assert_ok(mt_job_set(document, assignment, &error), &error);
        mt_job_free(mt_test_job_parse(document, NULL));
    }
}

static void every_key_is_there_once_with_a_block_above_it_and_a_help(void **state)
{
    (void)state;
    for (size_t i = 0; i < mt_job_num_keys; i++) {
        const struct mt_job_key *key = &mt_job_keys[i];
        char block[128];
        assert_ptr_equal(mt_job_key_find(key->pointer), key);
        snprintf(block, sizeof block, "%s", key->pointer);
        *strrchr(block, '/') = '\0';
        if (*block && (!mt_job_key_find(block) || mt_job_key_find(block)->type != MT_KEY_BLOCK))
            fail_msg("%s stands in no block", key->pointer);
        if (key->flags & (MT_KEY_LATER | MT_KEY_NO_EFFECT))
            assert_non_null(key->note);
        else
            assert_non_null(key->help);
    }
    for (size_t i = 0; i < mt_job_num_aliases; i++) {
        assert_null(mt_job_key_find(mt_job_aliases[i].pointer));
        assert_non_null(mt_job_key_find(mt_job_aliases[i].canonical));
    }
}

static void the_committed_page_is_what_the_table_says(void **state)
{
    struct mt_error error = {0};
    mt_autofree char *committed = NULL, *made = mt_job_markdown();
    size_t bytes;
    (void)state;
    if (!mt_path_exists("docs/job.md"))
        mt_test_skip("not in the source folder");
    mt_assert_ok(mt_file_read("docs/job.md", 1 << 20, &committed, &bytes, &error), &error);
    if (strcmp(committed, made) != 0)
        fail_msg("docs/job.md is old: build/megatrain schema --markdown > docs/job.md");
}

/* Each of MegaTrain's own files, with the reason why it is refused; NULL: a plan of it is possible. */
static const struct {
    const char *file, *refusal;
} own_files[] = {
    {"glm4_flash.yaml", NULL},
    {"glm4v_flash.yaml", NULL},
    {"gpt_oss_20b.yaml", NULL},
    {"internvl2_8b.yaml", "/vlm: vlm: training vision-language models is not supported yet"},
    {"llama3_8b.yaml", NULL},
    {"llava_next_7b.yaml", "/vlm: vlm: training vision-language models is not supported yet"},
    {"qwen2_5_vl_7b.yaml", "/vlm: vlm: training vision-language models is not supported yet"},
    {"qwen3_5_27b.yaml", NULL},
    {"qwen3_5_27b_4gpu.yaml", "/model/devices: training on more than one device is not supported yet"},
    {"qwen3_8b.yaml", NULL},
    {"qwen3_next_80b.yaml", NULL},
    {"qwen3_vl_4b.yaml", "/vlm: vlm: training vision-language models is not supported yet"},
    {"qwen_7b.yaml", NULL},
    {"qwen_7b_1gpu.yaml", NULL},
    {"qwen_7b_4gpu.yaml", "/model/devices: training on more than one device is not supported yet"},
};

static void megatrains_own_files_are_read_or_refused_for_a_named_reason(void **state)
{
    char folder[1024], path[2048];
    (void)state;
    mt_test_data("megatrain-configs", folder);
    for (size_t i = 0; i < sizeof own_files / sizeof *own_files; i++) {
        const struct mt_job_context plan = {.purpose = MT_JOB_PLAN};
        struct mt_error error = {0};
        struct mt_job_errors errors = {0};
        struct mt_job *job = NULL;
        mt_autojson json_t *document = NULL;
        snprintf(path, sizeof path, "%s/%s", folder, own_files[i].file);
        mt_assert_ok(mt_document_read(path, &document, NULL, &error), &error);
        int result = mt_job_parse(document, &plan, &job, &errors);
        if (result < 0)
            mt_job_errors_report(&errors, &error);
        if (own_files[i].refusal) {
            assert_int_equal(result, -EINVAL);
            assert_string_equal(error.message, own_files[i].refusal);
        } else if (result < 0) {
            fail_msg("%s: %s", own_files[i].file, error.message);
        } else {
            assert_string_equal(job->device, "cuda:0");
            assert_int_equal(job->model.dtype, MT_JOB_DTYPE_BFLOAT16);
            assert_true(job->training.max_steps > 0 && job->training.num_epochs == 0);
            assert_non_null(job->model.name);
        }
        mt_job_free(job);
        mt_job_errors_free(&errors);
    }
    size_t files = 0;
    DIR *entries = opendir(folder);
    for (struct dirent *entry; (entry = readdir(entries)) != NULL;)
        files += strstr(entry->d_name, ".yaml") != NULL;
    closedir(entries);
    assert_int_equal(files, sizeof own_files / sizeof *own_files);
}

/* Values that are odd in one way or another. */
static json_t *odd_value(struct mt_random *random, unsigned depth)
{
    static const char *const texts[] = {"",     "auto",    "8", ".nan",        "bytes",  "cuda:99999",
                                        "../x", "\x1b[2J", "é", "/etc/passwd", "%s%n%s", "64MiB"};
    json_t *value;
    switch (mt_random_below(random, depth ? 10 : 8)) {
    case 0:
        return json_null();
    case 1:
        return json_boolean(mt_random_below(random, 2));
    case 2:
        return json_integer((json_int_t)mt_random_u64(random));
    case 3:
        return json_integer((json_int_t)mt_random_below(random, 20) - 5);
    case 4:
        return json_real((mt_random_uniform(random) - 0.5) * 1e300);
    case 5:
        return json_real(mt_random_uniform(random));
    case 6:
        return json_string(texts[mt_random_below(random, sizeof texts / sizeof *texts)]);
    case 7:
        return json_stringn("a\0b", 3);
    case 8:
        value = json_array();
        for (uint64_t i = mt_random_below(random, 4); i > 0; i--)
            json_array_append_new(value, odd_value(random, depth - 1));
        return value;
    default:
        value = json_object();
        for (uint64_t i = mt_random_below(random, 4); i > 0; i--) {
            const struct mt_job_key *key = &mt_job_keys[mt_random_below(random, mt_job_num_keys)];
            json_object_set_new(value, mt_job_key_name(key->pointer), odd_value(random, depth - 1));
        }
        return value;
    }
}

/* Puts an odd value at a key of the table, or at one that is none. */
static void mutate(json_t *document, struct mt_random *random)
{
    const struct mt_job_key *key = &mt_job_keys[mt_random_below(random, mt_job_num_keys)];
    char pointer[128], *slash;
    json_t *block = document;
    snprintf(pointer, sizeof pointer, "%s", key->pointer);
    while ((slash = strchr(pointer + 1, '/')) != NULL) {
        *slash = '\0';
        json_t *next = json_object_get(block, pointer + 1);
        if (!json_is_object(next)) {
            next = json_object();
            json_object_set_new(block, pointer + 1, next);
        }
        block = next;
        memmove(pointer + 1, slash + 1, strlen(slash + 1) + 1);
    }
    if (mt_random_below(random, 8) == 0)
        snprintf(pointer + 1, sizeof pointer - 1, "%s", "some~key/with\x01odd\"letters");
    if (mt_random_below(random, 6) == 0)
        json_object_del(block, pointer + 1);
    else
        json_object_set_new(block, pointer + 1, odd_value(random, 2));
}

static void no_document_breaks_the_parser_and_what_passes_comes_back_the_same(void **state)
{
    struct mt_random random = {mt_random_key(7, "documents"), 0};
    const char *data = mt_test_job_data(state);
    const struct mt_job_context contexts[] = {
        {0},
        {.purpose = MT_JOB_PLAN},
        {.purpose = MT_JOB_LOAD},
        {.confined = true, .model_base = "/tmp", .dataset_base = "/tmp"},
    };
    size_t good = 0;
    for (unsigned round = 0; round < 4000; round++) {
        mt_autojson json_t *document = mt_test_job_document(data, "");
        for (uint64_t i = 1 + mt_random_below(&random, 4); i > 0; i--)
            mutate(document, &random);
        struct mt_job_errors errors = {0};
        struct mt_job *job = NULL;
        int result = mt_job_parse(document, &contexts[round % 4], &job, &errors);
        if (result < 0) {
            mt_autojson json_t *list = mt_job_errors_json(&errors);
            assert_int_equal(result, -EINVAL);
            assert_true(errors.count > 0);
            assert_int_equal(json_array_size(list), errors.count);
        } else {
            struct mt_job_context load = {.purpose = MT_JOB_LOAD};
            struct mt_job *again = NULL;
            struct mt_job_errors none = {0};
            good++;
            /* What was planned may name what cannot be run yet. */
            if (contexts[round % 4].purpose == MT_JOB_PLAN)
                load.purpose = MT_JOB_PLAN;
            assert_int_equal(mt_job_parse(mt_job_frozen(job), &load, &again, &none), 0);
            assert_true(json_equal(mt_job_frozen(job), mt_job_frozen(again)));
            mt_job_free(again);
        }
        mt_job_free(job);
        mt_job_errors_free(&errors);
    }
    assert_true(good > 100); /* or the mutations are too wild to tell anything */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        mt_test_in_folder(every_default_passes_its_own_check),
        cmocka_unit_test(every_key_is_there_once_with_a_block_above_it_and_a_help),
        cmocka_unit_test(the_committed_page_is_what_the_table_says),
        cmocka_unit_test(megatrains_own_files_are_read_or_refused_for_a_named_reason),
        mt_test_in_folder(no_document_breaks_the_parser_and_what_passes_comes_back_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
