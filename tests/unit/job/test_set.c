/* --set and --data-path. */
#include "core/base/cleanup.h"
#include "tests/unit/job/parsing.h"

static void expect(const char *before, const char *assignment, const char *after)
{
    struct mt_error error = {0};
    mt_autojson json_t *document = json_loads(before, 0, NULL);
    mt_autojson json_t *expected = json_loads(after, 0, NULL);
    mt_assert_ok(mt_job_set(document, assignment, &error), &error);
    if (!json_equal(document, expected)) {
        mt_autofree char *text = json_dumps(document, 0);
        fail_msg("%s: %s", assignment, text);
    }
}

static void values_are_read_as_yaml(void **state)
{
    (void)state;
    expect("{}", "training.learning_rate=3e-4", "{\"training\": {\"learning_rate\": 3e-4}}");
    expect("{}", "dataset.packing=false", "{\"dataset\": {\"packing\": false}}");
    expect("{}", "name=a=b", "{\"name\": \"a=b\"}");
    expect("{}", "memory.activation_offload=on", "{\"memory\": {\"activation_offload\": \"on\"}}");
    expect("{}", "training.freeze=['*.bias', x]", "{\"training\": {\"freeze\": [\"*.bias\", \"x\"]}}");
    expect("{}", "optimizer={type: adamw}", "{\"optimizer\": {\"type\": \"adamw\"}}");
    expect("{\"a\": {\"b\": 1}}", "a.c=2", "{\"a\": {\"b\": 1, \"c\": 2}}");
    expect("{\"a\": {\"b\": 1}}", "a.b=", "{\"a\": {}}");
}

static void a_setting_takes_the_place_of_what_it_contradicts(void **state)
{
    (void)state;
    expect("{\"training\": {\"num_steps\": 5}}", "training.max_steps=9",
           "{\"training\": {\"max_steps\": 9}}");
    expect("{\"training\": {\"max_steps\": 5}}", "training.num_steps=9",
           "{\"training\": {\"num_steps\": 9}}");
    expect("{\"training\": {\"max_steps\": 5}}", "training.num_epochs=1",
           "{\"training\": {\"num_epochs\": 1}}");
    expect("{\"dataset\": {\"name\": \"x\"}}", "dataset.path=y", "{\"dataset\": {\"path\": \"y\"}}");
    expect("{\"model\": {\"device\": 0, \"name\": \"x\"}}", "device=cpu",
           "{\"model\": {\"name\": \"x\"}, \"device\": \"cpu\"}");
}

static void what_is_no_assignment_is_a_usage_error(void **state)
{
    static const char *const bad[] = {"training", "=3", "", ".a=1", "a.=1", "a..b=1", "a/b=1", "a={", "a=[1"};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct mt_error error = {0};
        mt_autojson json_t *document = json_object();
        if (mt_job_set(document, bad[i], &error) >= 0)
            fail_msg("\"%s\" was accepted", bad[i]);
        assert_int_equal(error.reason, MT_REASON_USAGE);
    }
    struct mt_error error = {0};
    mt_autojson json_t *document = json_loads("{\"training\": 3}", 0, NULL);
    assert_true(mt_job_set(document, "training.max_steps=1", &error) < 0);
    mt_assert_mentions(error.message, "not a block");
}

static void data_path_replaces_the_data(void **state)
{
    struct mt_error error = {0};
    mt_autojson json_t *document =
        json_loads("{\"dataset\": {\"name\": \"x\", \"packing\": false}}", 0, NULL);
    mt_autojson json_t *expected =
        json_loads("{\"dataset\": {\"path\": \"./sample_data\", \"packing\": false}}", 0, NULL);
    (void)state;
    mt_assert_ok(mt_job_set_data_path(document, "./sample_data", &error), &error);
    assert_true(json_equal(document, expected));
    assert_true(mt_job_set_data_path(document, "\xff\xfe", &error) < 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_read_as_yaml),
        cmocka_unit_test(a_setting_takes_the_place_of_what_it_contradicts),
        cmocka_unit_test(what_is_no_assignment_is_a_usage_error),
        cmocka_unit_test(data_path_replaces_the_data),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
