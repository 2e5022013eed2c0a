/* What a good document becomes. */
#include "core/base/cleanup.h"
#include "tests/unit/job/parsing.h"

static bool noted(const struct mt_job *job, const char *text)
{
    for (size_t i = 0; i < job->num_notes; i++) {
        if (strstr(job->notes[i], text))
            return true;
    }
    return false;
}

static void every_default_is_the_one_of_the_published_example(void **state)
{
    /* The example of the design, without model, data, name and export. */
    static const char example[] =
        "{\"method\": \"sft\", \"training\": {\"batch_size\": 8, \"gradient_accumulation_steps\": 1,"
        " \"micro_batch_size\": \"auto\", \"max_steps\": 100, \"learning_rate\": 1.0e-5, \"lr_scheduler\": "
        "\"cosine\", \"warmup_ratio\": 0.03, \"weight_decay\": 0.01, \"max_grad_norm\": 1.0, \"seed\": 42, "
        "\"max_skipped_steps\": 3, \"freeze\": []}, \"optimizer\": {\"type\": \"adamw\", \"beta1\": 0.9, "
        "\"beta2\": 0.999, \"eps\": 1.0e-8}, \"memory\": {\"store\": \"ram\", \"num_grad_slabs\": 4, "
        "\"checkpoint_interval\": 1, \"activation_offload\": \"auto\", \"recompute\": \"auto\"}, "
        "\"checkpoint\": {\"every_steps\": 50, \"keep\": 3}, \"export\": [], \"device\": \"auto\", "
        "\"distributed\": {\"backend\": \"nccl\", \"data_parallel_size\": 1, \"tensor_parallel_size\": 1, "
        "\"pipeline_parallel_size\": 1}, \"priority\": 0}";
    mt_autojson json_t *document = mt_test_job_document(mt_test_job_data(state), "");
    mt_autojson json_t *expected = json_loads(example, 0, NULL);
    struct mt_job *job = mt_test_job_parse(document, NULL);
    const char *key;
    json_t *value;
    json_object_foreach(expected, key, value)
    {
        if (!json_equal(value, json_object_get(mt_job_frozen(job), key)))
            fail_msg("the default of %s is not the published one", key);
    }
    assert_int_equal(job->dataset.max_seq_len, 1024);
    assert_true(job->dataset.packing);
    assert_int_equal(job->dataset.overlong, MT_JOB_OVERLONG_TRUNCATE);
    assert_false(job->dataset.train_on_prompt);
    assert_true(job->dataset.val_size == 0.05);
    assert_int_equal(job->training.micro_batch_size, 0);
    assert_int_equal(job->training.max_steps, 100);
    assert_true(job->training.num_epochs == 0);
    assert_int_equal(job->training.lr_scheduler, MT_JOB_LR_COSINE);
    assert_true(job->optimizer.beta2 == 0.999);
    assert_string_equal(job->device, "auto");
    assert_true(noted(job, "100 steps"));
    mt_job_free(job);
}

static void a_model_from_scratch_gets_the_shape_that_follows_from_its_keys(void **state)
{
    mt_autojson json_t *document = mt_test_job_document(mt_test_job_data(state), "training: {max_steps: 1}");
    struct mt_job *job = mt_test_job_parse(document, NULL);
    mt_autojson json_t *expected = json_loads(
        "{\"architecture\": \"llama\", \"hidden_size\": 64, \"num_hidden_layers\": 2, "
        "\"num_attention_heads\": 4, \"num_key_value_heads\": 4, \"head_dim\": 16, \"intermediate_size\": "
        "192, "
        "\"vocab_size\": 259, \"max_position_embeddings\": 2048, \"rms_norm_eps\": 1e-5, \"rope_theta\": "
        "10000.0, \"tie_word_embeddings\": false, \"attention_bias\": false, \"mlp_bias\": false, "
        "\"hidden_act\": \"silu\", \"initializer_range\": 0.02}",
        0, NULL);
    assert_true(json_equal(expected, job->model.config));
    assert_string_equal(job->model.tokenizer, "bytes");
    assert_null(job->model.path);
    assert_int_equal(job->num_notes, 0);
    assert_string_equal(job->name, "llama-data.txt");
    mt_job_free(job);
}

static void feed_forward_width_is_eight_thirds_rounded_up_to_64(void **state)
{
    static const struct {
        int hidden, width;
    } cases[] = {{24, 64}, {72, 192}, {96, 256}, {100, 320}, {768, 2048}, {576, 1536}, {4096, 10944}};
    const char *data = mt_test_job_data(state);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mt_autojson json_t *document = mt_test_job_document(data, "");
        json_t *model = json_object_get(document, "model");
        json_object_set_new(model, "hidden_size", json_integer(cases[i].hidden));
        json_object_set_new(model, "num_attention_heads", json_integer(2));
        struct mt_job *job = mt_test_job_parse(document, NULL);
        assert_int_equal(json_integer_value(json_object_get(job->model.config, "intermediate_size")),
                         cases[i].width);
        mt_job_free(job);
    }
}

static void the_well_known_config_test_works_as_it_is(void **state)
{
    static const char text[] =
        "model:\n  architecture: llama\n  hidden_size: 768\n  num_layers: 12\n  num_attention_heads: 12\n"
        "  vocab_size: 32000\ntraining:\n  batch_size: 4\n  gradient_accumulation_steps: 8\n"
        "  learning_rate: 3e-4\n  max_steps: 100\ndistributed:\n  backend: nccl\n"
        "  data_parallel_size: 1\n  tensor_parallel_size: 1\n  pipeline_parallel_size: 1\n";
    struct mt_error error = {0};
    mt_autojson json_t *document = NULL;
    mt_assert_ok(mt_yaml_parse(text, sizeof text - 1, "config_test.yaml", &document, NULL, &error), &error);
    mt_assert_ok(mt_job_set_data_path(document, mt_test_job_data(state), &error), &error);
    const struct mt_job_context context = {.default_name = "config_test"};
    struct mt_job *job = mt_test_job_parse(document, &context);
    assert_true(job->training.learning_rate == 3e-4);
    assert_int_equal(job->training.gradient_accumulation_steps, 8);
    assert_int_equal(json_integer_value(json_object_get(job->model.config, "vocab_size")), 32000);
    assert_string_equal(job->name, "config_test");
    assert_int_equal(job->dataset.num_paths, 1);
    mt_job_free(job);
}

static void other_names_mean_the_canonical_key(void **state)
{
    mt_autojson json_t *document =
        mt_test_job_document(mt_test_job_data(state), "training: {num_steps: 7}\n"
                                                      "optimizer: {type: deepspeed_adam}\n"
                                                      "logging: {log_interval: 5, enable_timing: true}\n");
    json_t *model = json_object_get(document, "model"), *dataset = json_object_get(document, "dataset");
    json_object_del(model, "num_layers");
    json_object_set_new(model, "num_hidden_layers", json_integer(3));
    json_object_set_new(model, "device", json_string("cpu"));
    json_object_set_new(model, "attn_implementation", json_string("flash_attention_2"));
    json_object_set_new(model, "trust_remote_code", json_true());
    json_object_set_new(dataset, "num_workers", json_integer(4));
    json_object_set_new(dataset, "query_field", json_string("question"));
    json_object_set_new(dataset, "response_field", json_string("answer"));
    struct mt_job *job = mt_test_job_parse(document, NULL);
    assert_int_equal(job->training.max_steps, 7);
    assert_int_equal(job->optimizer.type, MT_JOB_ADAMW);
    assert_int_equal(job->logging.log_interval, 5);
    assert_int_equal(json_integer_value(json_object_get(job->model.config, "num_hidden_layers")), 3);
    assert_string_equal(job->device, "cpu");
    assert_string_equal(job->dataset.columns.prompt, "question");
    assert_string_equal(job->dataset.columns.response, "answer");
    assert_int_equal(job->num_notes, 4);
    assert_true(noted(job, "model.attn_implementation") && noted(job, "model.trust_remote_code") &&
                noted(job, "dataset.num_workers") && noted(job, "logging.enable_timing"));
    json_t *frozen = (json_t *)(uintptr_t)mt_job_frozen(job);
    assert_null(mt_pointer_get(frozen, "/training/num_steps"));
    assert_null(mt_pointer_get(frozen, "/model/trust_remote_code"));
    assert_string_equal(json_string_value(mt_pointer_get(frozen, "/optimizer/type")), "adamw");
    mt_job_free(job);
}

static void a_frozen_document_gives_the_same_job_again(void **state)
{
    mt_autojson json_t *document = mt_test_job_document(
        mt_test_job_data(state), "name: again\nmethod: pretrain\nlabels: {team: red}\npriority: -3\n"
                                 "training: {num_epochs: 1.5, learning_rate: 0.1, lr_scheduler: wsd, freeze: "
                                 "['*.bias'], micro_batch_size: 2}\nmemory: {device_limit: 64MiB, bus_gbps: "
                                 "12.5}\ndevice: cpu-discrete\n");
    struct mt_error error = {0};
    struct mt_job *job = mt_test_job_parse(document, NULL), *again = NULL, *third;
    const char *path = mt_test_path(state, "job.json");
    mt_assert_ok(mt_job_save(job, path, &error), &error);
    mt_assert_ok(mt_job_load(path, &again, &error), &error);
    assert_true(json_equal(mt_job_frozen(job), mt_job_frozen(again)));
    assert_true(json_equal(job->model.config, again->model.config));
    assert_int_equal(again->memory.device_limit_bytes, (size_t)64 << 20);
    assert_string_equal(again->training.freeze[0], "*.bias");
    assert_int_equal(again->priority, -3);
    assert_true(again->training.num_epochs == 1.5 && again->training.max_steps == 0);
    assert_null(json_object_get(json_object_get(mt_job_frozen(job), "training"), "max_steps"));
    assert_string_equal(json_string_value(json_object_get(again->labels, "team")), "red");
    /* It is a document that can be submitted, too. */
    third = mt_test_job_parse(mt_job_frozen(job), NULL);
    assert_true(json_equal(mt_job_frozen(job), mt_job_frozen(third)));
    mt_job_free(job);
    mt_job_free(again);
    mt_job_free(third);
}

static void numbers_stay_as_short_as_they_were_written(void **state)
{
    mt_autojson json_t *document =
        mt_test_job_document(mt_test_job_data(state), "training: {learning_rate: 3e-4, max_grad_norm: 0.1}");
    struct mt_job *job = mt_test_job_parse(document, NULL);
    mt_autofree char *text = mt_job_text(job);
    mt_assert_mentions(text, "\"learning_rate\": 0.0003,");
    mt_assert_mentions(text, "\"max_grad_norm\": 0.1,");
    mt_job_free(job);
    json_object_set_new(json_object_get(document, "training"), "learning_rate", json_real(0.1 + 0.2));
    job = mt_test_job_parse(document, NULL);
    mt_autofree char *precise = mt_job_text(job);
    mt_assert_mentions(precise, "0.30000000000000004");
    mt_job_free(job);
}

static void a_settled_micro_batch_size_is_frozen(void **state)
{
    mt_autojson json_t *document = mt_test_job_document(mt_test_job_data(state), "");
    struct mt_job *job = mt_test_job_parse(document, NULL);
    assert_int_equal(mt_job_set_micro_batch_size(job, 3), 0);
    struct mt_job *again = mt_test_job_parse(mt_job_frozen(job), NULL);
    assert_int_equal(again->training.micro_batch_size, 3);
    mt_job_free(job);
    mt_job_free(again);
}

static void whole_numbers_may_be_written_as_3_0_and_1e3(void **state)
{
    mt_autojson json_t *document = mt_test_job_document(
        mt_test_job_data(state), "training: {batch_size: 3.0, max_steps: 1e3, weight_decay: 0}");
    struct mt_job *job = mt_test_job_parse(document, NULL);
    assert_int_equal(job->training.batch_size, 3);
    assert_int_equal(job->training.max_steps, 1000);
    assert_true(job->training.weight_decay == 0);
    mt_job_free(job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        mt_test_in_folder(every_default_is_the_one_of_the_published_example),
        mt_test_in_folder(a_model_from_scratch_gets_the_shape_that_follows_from_its_keys),
        mt_test_in_folder(feed_forward_width_is_eight_thirds_rounded_up_to_64),
        mt_test_in_folder(the_well_known_config_test_works_as_it_is),
        mt_test_in_folder(other_names_mean_the_canonical_key),
        mt_test_in_folder(a_frozen_document_gives_the_same_job_again),
        mt_test_in_folder(numbers_stay_as_short_as_they_were_written),
        mt_test_in_folder(a_settled_micro_batch_size_is_frozen),
        mt_test_in_folder(whole_numbers_may_be_written_as_3_0_and_1e3),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
