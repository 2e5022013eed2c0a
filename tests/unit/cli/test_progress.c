/* The progress bar, plain progress, and tables. */
#include "daemon/cli/job_file.h"
#include "daemon/cli/progress.h"
#include "daemon/cli/table.h"
#include "tests/unit/support.h"

#include <math.h>

static struct mt_progress_state at_step(uint64_t step, uint64_t max_steps)
{
    return (struct mt_progress_state){.phase = "running",
                                      .step = step,
                                      .max_steps = max_steps,
                                      .loss = 3.25,
                                      .learning_rate = 1e-4,
                                      .grad_norm = 0.5,
                                      .tokens_per_second = 12345.6,
                                      .eta_seconds = 200,
                                      .val_loss = NAN};
}

static void counts_have_separators(void **state)
{
    char text[40];
    (void)state;
    assert_string_equal(mt_progress_count(0, text), "0");
    assert_string_equal(mt_progress_count(987.4, text), "987");
    assert_string_equal(mt_progress_count(12345.6, text), "12,346");
    assert_string_equal(mt_progress_count(1234567, text), "1,234,567");
    assert_string_equal(mt_progress_count(NAN, text), "0");
}

static void the_bar_never_wraps_and_fills_with_the_steps(void **state)
{
    char text[512];
    const struct mt_progress_state half = at_step(50, 100);
    (void)state;
    for (unsigned width = 20; width < 200; width++)
        assert_true(strlen(mt_progress_bar(&half, width, text, sizeof text)) < width);
    mt_progress_bar(&half, 120, text, sizeof text);
    mt_assert_mentions(text, " 50% [####################....................] 50/100  loss 3.2500  "
                             "12,346 tokens/s  ETA 3 min 20 s");
    const struct mt_progress_state done = at_step(100, 100);
    mt_progress_bar(&done, 120, text, sizeof text);
    mt_assert_mentions(text, "100% [########################################] 100/100");
    assert_null(strstr(text, "ETA"));
    const struct mt_progress_state none = {.phase = "loading", .loss = NAN, .val_loss = NAN};
    mt_assert_mentions(mt_progress_bar(&none, 80, text, sizeof text), "loading");
}

static void plain_progress_is_a_line_an_interval_and_holds_no_control_characters(void **state)
{
    char *text = NULL;
    size_t bytes = 0;
    const char *path = mt_test_path(state, "out");
    FILE *out = fopen(path, "w+");
    struct mt_progress progress;
    assert_non_null(out);
    mt_progress_init(&progress, out, 4);
    struct mt_progress_state loading = at_step(0, 10);
    loading.phase = "loading";
    mt_progress_show(&progress, &loading);
    mt_progress_show(&progress, &loading);
    for (uint64_t step = 1; step <= 10; step++) {
        struct mt_progress_state now = at_step(step, 10);
        if (step == 7)
            now.val_loss = 2;
        mt_progress_show(&progress, &now);
        mt_progress_show(&progress, &now);
    }
    mt_progress_line(&progress, "completed");
    mt_progress_end(&progress);
    fclose(out);
    struct mt_error error = {0};
    mt_assert_ok(mt_file_read(path, 1 << 16, &text, &bytes, &error), &error);
    assert_null(strpbrk(text, "\r\033"));
    assert_string_equal(text,
                        "loading\n"
                        "step 1/10  loss 3.2500  lr 0.0001  grad 0.5  12,346 tokens/s  ETA 3 min 20 s\n"
                        "step 4/10  loss 3.2500  lr 0.0001  grad 0.5  12,346 tokens/s  ETA 3 min 20 s\n"
                        "step 7/10  loss 3.2500  val_loss 2.0000  lr 0.0001  grad 0.5  12,346 tokens/s  "
                        "ETA 3 min 20 s\n"
                        "step 8/10  loss 3.2500  lr 0.0001  grad 0.5  12,346 tokens/s  ETA 3 min 20 s\n"
                        "step 10/10  loss 3.2500  lr 0.0001  grad 0.5  12,346 tokens/s\n"
                        "completed\n");
    free(text);
}

static void tables_align_and_keep_control_characters_from_the_terminal(void **state)
{
    const char *path = mt_test_path(state, "out");
    FILE *out = fopen(path, "w+");
    struct mt_table table = {.num_columns = 3, .titles = {"ID", "NAME", "STATE"}};
    const char *const one[] = {"1", "caf\xc3\xa9", "running"}, *const two[] = {"22", "a\x1b[2J", NULL};
    char *text = NULL;
    size_t bytes = 0;
    mt_table_add(&table, one);
    mt_table_add(&table, two);
    mt_table_print(&table, out);
    mt_table_free(&table);
    fclose(out);
    assert_int_equal(mt_file_read(path, 1 << 16, &text, &bytes, NULL), 0);
    assert_string_equal(text, "ID  NAME   STATE\n1   caf\xc3\xa9   running\n22  a?[2J  -\n");
    free(text);
}

static void a_job_is_named_after_its_file(void **state)
{
    static const char *const cases[][2] = {{"jobs/contracts.yaml", "contracts"},
                                           {"a b.v2.yml", "a-b.v2"},
                                           {".hidden", "-hidden"},
                                           {"plain", "plain"}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *name = mt_job_file_name(cases[i][0]);
        assert_string_equal(name, cases[i][1]);
        free(name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_have_separators),
        cmocka_unit_test(the_bar_never_wraps_and_fills_with_the_steps),
        mt_test_in_folder(plain_progress_is_a_line_an_interval_and_holds_no_control_characters),
        mt_test_in_folder(tables_align_and_keep_control_characters_from_the_terminal),
        cmocka_unit_test(a_job_is_named_after_its_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
