/* What is refused, where, and with which words. */
#include "core/base/cleanup.h"
#include "tests/unit/job/parsing.h"

#include <time.h>

struct refusal {
    const char *set;        /* as --set, on top of a good document; several lines: several settings */
    const char *pointer;    /* of the one error */
    const char *detail;     /* a part of its sentence */
    const char *suggestion; /* or NULL: not looked at */
};

static const struct refusal refusals[] = {
    /* unknown keys, with the nearest */
    {"training.learning_rat=1", "/training/learning_rat", "unknown key \"learning_rat\"", "learning_rate"},
    {"modle=1", "/modle", "did you mean \"model\"", "model"},
    {"learning_rate=1", "/learning_rate", "unknown key", "training.learning_rate"},
    {"training.lr=1", "/training/lr", "unknown key", "learning_rate"},
    {"training.cutoff_len=1", "/training/cutoff_len", "unknown key", "dataset.max_seq_len"},
    {"model.hidden_sise=1", "/model/hidden_sise", "unknown key", "hidden_size"},
    {"model.layer_types=1", "/model/layer_types", "unknown key", NULL},
    {"zzzzzz=1", "/zzzzzz", "unknown key \"zzzzzz\"", NULL},
    {"optimizer.beta3=1", "/optimizer/beta3", "unknown key", "beta1"},
    {"model.config.hidden_size=1", "/model/config", "unknown key", NULL},
    /* types, saying what was found */
    {"training.batch_size='8'", "/training/batch_size", "found the string \"8\": leave the quotes out", NULL},
    {"training.batch_size=2.5", "/training/batch_size", "whole number", NULL},
    {"training.batch_size=[8]", "/training/batch_size", "found a list", NULL},
    {"training.batch_size=true", "/training/batch_size", "found true", NULL},
    {"training.learning_rate=fast", "/training/learning_rate", "found the string \"fast\"", NULL},
    {"dataset.packing=on", "/dataset/packing", "true or false", "true"},
    {"dataset.packing=1", "/dataset/packing", "found 1", NULL},
    {"training=fast", "/training", "must be an object", NULL},
    {"labels=[a]", "/labels", "object of strings", NULL},
    {"labels.run=3", "/labels/run", "a string", NULL},
    {"training.freeze='*.bias'", "/training/freeze", "list of strings", NULL},
    {"training.freeze=['a', 3]", "/training/freeze/1", "found 3", NULL},
    {"name=7", "/name", "found 7", NULL},
    {"name=a/b", "/name", "slashes", NULL},
    {"name=..", "/name", "dot", NULL},
    {"training.micro_batch_size=some", "/training/micro_batch_size", "or the word auto", NULL},
    {"memory.device_limit=64Mib!", "/memory/device_limit", "64MiB", NULL},
    {"device=gpu", "/device", "must be auto, cpu, cpu-discrete, cuda or cuda:N", NULL},
    /* ranges, not-a-number */
    {"training.batch_size=0", "/training/batch_size", "at least 1", NULL},
    {"training.batch_size=-3", "/training/batch_size", "found -3", NULL},
    {"training.batch_size=1e300", "/training/batch_size", "at most 1048576", NULL},
    {"training.seed=9223372036854775807", "/training/seed", "at most 9007199254740991", NULL},
    {"training.learning_rate=1e-46", "/training/learning_rate", "a size that makes sense", NULL},
    {"optimizer.eps=1e-300", "/optimizer/eps", "a size that makes sense", NULL},
    {"training.learning_rate=0", "/training/learning_rate", "above 0", NULL},
    {"training.learning_rate=-1e-5", "/training/learning_rate", "above 0", NULL},
    {"training.learning_rate=.nan", "/training/learning_rate", "not a finite number (.nan)", NULL},
    {"training.learning_rate=.inf", "/training/learning_rate", "not a finite number (.inf)", NULL},
    {"training.learning_rate=-.inf", "/training/learning_rate", "not a finite number", NULL},
    {"training.warmup_ratio=1.01", "/training/warmup_ratio", "at most 1", NULL},
    {"training.max_steps=0", "/training/max_steps", "at least 1", NULL},
    {"training.seed=-1", "/training/seed", "at least 0", NULL},
    {"optimizer.beta1=1", "/optimizer/beta1", "below 1", NULL},
    {"optimizer.beta2=-0.1", "/optimizer/beta2", "at least 0", NULL},
    {"optimizer.eps=0", "/optimizer/eps", "above 0", NULL},
    {"dataset.val_size=1.5", "/dataset/val_size", "whole number of samples", NULL},
    {"dataset.max_seq_len=1", "/dataset/max_seq_len", "at least 2", NULL},
    {"checkpoint.keep=0", "/checkpoint/keep", "at least 1", NULL},
    {"priority=1001", "/priority", "at most 1000", NULL},
    /* choices */
    {"method=sfft", "/method", "one of sft or pretrain", "sft"},
    {"memory.checkpoint_interval=65", "/memory/checkpoint_interval", "at most 64", NULL},
    {"training.lr_scheduler=cosin", "/training/lr_scheduler", "constant, linear, cosine or wsd", "cosine"},
    {"optimizer.type=adamv", "/optimizer/type", "must be adamw", "adamw"},
    /* known, not supported yet */
    {"method=dpo", "/method", "dpo is not supported yet", NULL},
    {"optimizer.type=muon", "/optimizer/type", "muon is not supported yet", NULL},
    {"memory.store=nvme", "/memory/store", "nvme is not supported yet", NULL},
    {"memory.nvme_path=/x", "/memory/nvme_path", "not supported yet", NULL},
    {"device=cuda:N", "/device", "cuda or cuda:N", NULL},
    {"model.devices=[0, 1]", "/model/devices", "more than one device is not supported yet", NULL},
    {"distributed.data_parallel_size=4", "/distributed/data_parallel_size", "not supported yet", NULL},
    {"distributed.tensor_parallel_size=2", "/distributed/tensor_parallel_size", "not supported yet", NULL},
    {"export=[{format: gguf}]", "/export/0", "export to gguf is not supported yet", NULL},
    {"vlm.freeze_vision_encoder=true", "/vlm", "vision-language models is not supported yet", NULL},
    {"model.architecture=mixtral", "/model/architecture", "mixtral is not supported yet", NULL},
    {"dataset.columns.images=m", "/dataset/columns/images", "not supported yet", NULL},
    /* several keys together */
    {"model.num_attention_heads=12", "/model/hidden_size",
     "hidden_size 64 is not divisible by num_attention_heads 12; make it 60", NULL},
    {"model.num_attention_heads=64", "/model/hidden_size", "must be even", NULL},
    {"model.head_dim=7", "/model/head_dim", "even", NULL},
    {"model.num_key_value_heads=3", "/model/num_key_value_heads",
     "4 is not divisible by num_key_value_heads 3", NULL},
    {"model.vocab_size=258", "/model/vocab_size", "too small for the tokenizer bytes", NULL},
    {"model.bos_token_id=259", "/model/bos_token_id", "outside of the vocabulary", NULL},
    {"training.micro_batch_size=9", "/training/micro_batch_size", "larger than a whole step", NULL},
    {"memory.recompute=never\nmemory.checkpoint_interval=2", "/memory/recompute", "leave one of them out",
     NULL},
    {"training.batch_size=1000000\ntraining.gradient_accumulation_steps=1000000", "/training/batch_size",
     "no machine holds so many", NULL},
    {"model.hidden_size=", "/model/hidden_size", "hidden_size is missing", NULL},
    {"model.num_layers=", "/model/num_layers", "num_layers is missing", NULL},
    {"model=", "/model", "the model is missing", NULL},
    {"dataset=", "/dataset", "the data is missing", NULL},
    {"dataset.path=", "/dataset", "the data is missing", NULL},
    {"dataset.path=[]", "/dataset/path", "empty list", NULL},
    {"dataset={mix: []}", "/dataset/mix", "list of 1 to 256 data sets", NULL},
    {"dataset={mix: [a]}", "/dataset/mix/0", "must be an object", NULL},
    {"dataset={mix: [{weight: 2}]}", "/dataset/mix/0", "either name or path", NULL},
    {"dataset={mix: [{name: a, weight: 0}]}", "/dataset/mix/0", "above 0", NULL},
    {"dataset={mix: [{name: a, wait: 2}]}", "/dataset/mix/0", "unknown key \"wait\"", NULL},
    {"dataset={mix: [{name: a, weight: 0}], mix_strategy: concat}", "/dataset/mix/0", "above 0", NULL},
    {"dataset.mix=[{path: /}]", "/dataset/mix", "exclude each other", NULL},
    {"dataset.mix_strategy=concat", "/dataset/mix_strategy", "there is no mix", NULL},
    {"dataset.group_by_length=true", "/dataset/group_by_length", "needs packing: false", NULL},
    {"dataset.path=/does/not/exist", "/dataset/path", "No such file", NULL},
    {"dataset.path=[/does/not/exist]", "/dataset/path/0", "No such file", NULL},
    {"dataset.path=/dev/null", "/dataset/path", "neither a file nor a folder", NULL},
    {"model.tokenizer=/does/not/exist", "/model/tokenizer", "No such file", NULL},
};

static void each_fault_has_its_pointer_and_its_sentence(void **state)
{
    const char *data = mt_test_job_data(state);
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        const struct refusal *refusal = &refusals[i];
        const struct mt_job_context context = {0};
        struct mt_job_errors errors = {0};
        struct mt_error error = {0};
        struct mt_job *job = NULL;
        mt_autojson json_t *document = mt_test_job_document(data, "");
        char settings[512], *rest = NULL;
        snprintf(settings, sizeof settings, "%s", refusal->set);
        for (char *one = strtok_r(settings, "\n", &rest); one; one = strtok_r(NULL, "\n", &rest))
            mt_assert_ok(mt_job_set(document, one, &error), &error);
        if (mt_job_parse(document, &context, &job, &errors) != -EINVAL || job)
            fail_msg("%s was accepted", refusal->set);
        if (errors.count != 1) {
            mt_job_errors_report(&errors, &error);
            fail_msg("%s: %zu errors:\n%s", refusal->set, errors.count, error.message);
        }
        if (strcmp(errors.items[0].pointer, refusal->pointer) != 0)
            fail_msg("%s: the pointer is %s", refusal->set, errors.items[0].pointer);
        mt_assert_mentions(errors.items[0].detail, refusal->detail);
        if (refusal->suggestion) {
            assert_non_null(errors.items[0].suggestion);
            assert_string_equal(errors.items[0].suggestion, refusal->suggestion);
        }
        mt_job_errors_free(&errors);
    }
}

static void all_errors_come_at_once_with_their_lines(void **state)
{
    static const char text[] = "modle: {}\n"
                               "method: dpo\n"
                               "model:\n"
                               "  architecture: llama\n"
                               "  hidden_size: 100\n"
                               "  num_layers: 2\n"
                               "  num_attention_heads: 12\n"
                               "training:\n"
                               "  learning_rate: .nan\n"
                               "  max_steps: 5\n"
                               "  num_steps: 6\n"
                               "  num_epochs: 1\n"
                               "dataset:\n"
                               "  path:\n"
                               "  - /does/not/exist\n";
    static const struct {
        const char *pointer;
        int line;
    } expected[] = {
        {"/modle", 1},
        {"/method", 2},
        {"/training/learning_rate", 9},
        {"/training/num_steps", 11},
        {"/model/hidden_size", 5},
        {"/training/num_epochs", 12},
        {"/dataset/path/0", 15},
    };
    struct mt_error error = {0};
    struct mt_lines *lines = NULL;
    mt_autojson json_t *document = NULL;
    struct mt_job_errors errors = {0};
    struct mt_job *job = NULL;
    (void)state;
    mt_assert_ok(mt_yaml_parse(text, sizeof text - 1, "job.yaml", &document, &lines, &error), &error);
    const struct mt_job_context context = {.lines = lines};
    assert_int_equal(mt_job_parse(document, &context, &job, &errors), -EINVAL);
    mt_job_errors_report(&errors, &error);
    if (errors.count != sizeof expected / sizeof *expected)
        fail_msg("%zu errors:\n%s", errors.count, error.message);
    for (size_t i = 0; i < errors.count; i++) {
        assert_string_equal(errors.items[i].pointer, expected[i].pointer);
        assert_int_equal(errors.items[i].line, expected[i].line);
    }
    assert_int_equal(error.reason, MT_REASON_BAD_JOB);
    mt_assert_mentions(error.message, "line 5: /model/hidden_size: ");
    mt_job_errors_free(&errors);
    mt_lines_free(lines);
}

static void an_error_in_the_api_answer_has_pointer_detail_and_suggestion(void **state)
{
    mt_autojson json_t *document = mt_test_job_document(mt_test_job_data(state), "trainng: {}\n");
    const struct mt_job_context context = {0};
    struct mt_job_errors errors = {0};
    struct mt_job *job = NULL;
    assert_int_equal(mt_job_parse(document, &context, &job, &errors), -EINVAL);
    mt_autojson json_t *list = mt_job_errors_json(&errors);
    mt_autojson json_t *expected =
        json_pack("[{s:s, s:s, s:s}]", "pointer", "/trainng", "detail",
                  "unknown key \"trainng\"; did you mean \"training\"?", "suggestion", "training");
    assert_true(json_equal(list, expected));
    mt_job_errors_free(&errors);
}

static void what_is_no_object_is_refused_as_a_whole(void **state)
{
    const struct mt_job_context context = {0};
    const char *const texts[] = {"3", "[]", "null", "\"job\"", "true"};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct mt_job_errors errors = {0};
        struct mt_job *job = NULL;
        mt_autojson json_t *document = json_loads(texts[i], JSON_DECODE_ANY, NULL);
        assert_int_equal(mt_job_parse(document, &context, &job, &errors), -EINVAL);
        assert_int_equal(errors.count, 1);
        assert_string_equal(errors.items[0].pointer, "");
        mt_job_errors_free(&errors);
    }
}

static void an_alias_beside_its_key_is_an_error(void **state)
{
    mt_autojson json_t *document =
        mt_test_job_document(mt_test_job_data(state), "training: {num_steps: 3, max_steps: 3}");
    const struct mt_job_context context = {0};
    struct mt_job_errors errors = {0};
    struct mt_job *job = NULL;
    assert_int_equal(mt_job_parse(document, &context, &job, &errors), -EINVAL);
    assert_int_equal(errors.count, 1);
    assert_string_equal(errors.items[0].pointer, "/training/max_steps");
    mt_assert_mentions(errors.items[0].detail,
                       "training.num_steps and training.max_steps say the same thing");
    mt_job_errors_free(&errors);
    /* across blocks */
    mt_autojson json_t *other = mt_test_job_document(mt_test_job_data(state), "device: cpu");
    json_object_set_new(json_object_get(other, "model"), "device", json_string("cpu"));
    assert_int_equal(mt_job_parse(other, &context, &job, &errors), -EINVAL);
    assert_int_equal(errors.count, 1);
    mt_assert_mentions(errors.items[0].detail, "say the same thing");
    mt_job_errors_free(&errors);
}

static void keys_of_a_new_model_beside_a_path_are_refused(void **state)
{
    static const char text[] = "model: {path: /does/not/exist, hidden_size: 64, vocab_size: 300}\n"
                               "dataset: {path: /tmp}\n";
    struct mt_error error = {0};
    mt_autojson json_t *document = NULL;
    const struct mt_job_context context = {.purpose = MT_JOB_PLAN};
    struct mt_job_errors errors = {0};
    struct mt_job *job = NULL;
    (void)state;
    mt_assert_ok(mt_yaml_parse(text, sizeof text - 1, "job.yaml", &document, NULL, &error), &error);
    assert_int_equal(mt_job_parse(document, &context, &job, &errors), -EINVAL);
    assert_int_equal(errors.count, 2);
    assert_string_equal(errors.items[0].pointer, "/model/hidden_size");
    mt_assert_mentions(errors.items[1].detail, "its own config.json");
    mt_job_errors_free(&errors);
}

static void only_missing_data_is_bad_data_not_a_bad_job(void **state)
{
    mt_autojson json_t *document = mt_test_job_document("/does/not/exist", "");
    const struct mt_job_context context = {0};
    struct mt_job_errors errors = {0};
    struct mt_error error = {0};
    struct mt_job *job = NULL;
    (void)state;
    assert_int_equal(mt_job_parse(document, &context, &job, &errors), -EINVAL);
    mt_job_errors_report(&errors, &error);
    assert_int_equal(error.reason, MT_REASON_BAD_DATA);
    mt_job_errors_free(&errors);
    json_object_set_new(document, "priority", json_string("high"));
    assert_int_equal(mt_job_parse(document, &context, &job, &errors), -EINVAL);
    mt_job_errors_report(&errors, &error);
    assert_int_equal(error.reason, MT_REASON_BAD_JOB);
    mt_job_errors_free(&errors);
}

/* Details are cut to a bound of bytes, and JSON takes no half character. */
static void a_sentence_cut_within_a_character_is_told_all_the_same(void **state)
{
    (void)state;
    for (size_t shift = 0; shift < 2; shift++) {
        char path[1600] = "/x";
        for (size_t used = 1 + shift; used + 2 < sizeof path; used += 2)
            memcpy(path + used, "\xc3\xa4", 3);
        mt_autojson json_t *document = mt_test_job_document("/does/not/exist", "");
        json_object_set_new(json_object_get(document, "dataset"), "path", json_string(path));
        const struct mt_job_context context = {0};
        struct mt_job_errors errors = {0};
        struct mt_job *job = NULL;
        assert_int_equal(mt_job_parse(document, &context, &job, &errors), -EINVAL);
        mt_autojson json_t *list = mt_job_errors_json(&errors);
        assert_int_equal(json_array_size(list), 1);
        mt_job_errors_free(&errors);
    }
}

static void a_document_full_of_unknown_keys_is_refused_soon(void **state)
{
    (void)state;
    mt_autojson json_t *document = json_object();
    for (int i = 0; i < 80000; i++) {
        char key[32];
        snprintf(key, sizeof key, "learning_rat%d", i);
        json_object_set_new(document, key, json_true());
    }
    const struct mt_job_context context = {0};
    struct mt_job_errors errors = {0};
    struct mt_job *job = NULL;
    struct timespec before, after;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
    assert_int_equal(mt_job_parse(document, &context, &job, &errors), -EINVAL);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
    assert_int_equal(errors.count, 100);
    assert_true(after.tv_sec - before.tv_sec <= 1); /* it was 5 s and more */
    mt_job_errors_free(&errors);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        mt_test_in_folder(each_fault_has_its_pointer_and_its_sentence),
        cmocka_unit_test(all_errors_come_at_once_with_their_lines),
        mt_test_in_folder(an_error_in_the_api_answer_has_pointer_detail_and_suggestion),
        cmocka_unit_test(what_is_no_object_is_refused_as_a_whole),
        mt_test_in_folder(an_alias_beside_its_key_is_an_error),
        cmocka_unit_test(keys_of_a_new_model_beside_a_path_are_refused),
        cmocka_unit_test(a_sentence_cut_within_a_character_is_told_all_the_same),
        cmocka_unit_test(a_document_full_of_unknown_keys_is_refused_soon),
        cmocka_unit_test(only_missing_data_is_bad_data_not_a_bad_job),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
