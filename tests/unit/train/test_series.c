/* metrics.jsonl and log.jsonl: one row a step whatever happened, and no half lines. */
#include "core/base/cleanup.h"
#include "core/base/file.h"
#include "core/train/series.h"
#include "tests/unit/support.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static void add_rows(const char *folder, size_t resume_step, size_t first, size_t last, unsigned attempt)
{
    struct mt_series *series;
    struct mt_error error = {0};
    assert_int_equal(mt_series_open(folder, resume_step, &series, &error), 0);
    for (size_t step = first; step <= last; step++) {
        struct mt_step_row row = {.step = step,
                                  .loss = 1.0 / (double)step,
                                  .tokens = 10,
                                  .step_seconds = 0.5,
                                  .attempt = attempt,
                                  .has_val_loss = step % 2 == 0,
                                  .val_loss = 3.25};
        assert_int_equal(mt_series_row(series, &row, &error), 0);
    }
    assert_int_equal(mt_series_log(series, "info", "hello \"you\"", NULL, &error), 0);
    assert_int_equal(mt_series_sync(series, &error), 0);
    mt_series_close(series);
}

/* Reads rows; asserts that steps count up from 1 without holes. Returns how many; the last one's attempt. */
static size_t check_rows(const char *folder, json_int_t *attempt)
{
    mt_autofree char *path = mt_path_join(folder, "metrics.jsonl");
    mt_autofile FILE *file = fopen(path, "r");
    assert_non_null(file);
    mt_autofree char *line = NULL;
    size_t capacity = 0, count = 0;
    while (getline(&line, &capacity, file) > 0) {
        mt_autojson json_t *row = json_loads(line, 0, NULL);
        assert_non_null(row);
        assert_int_equal(json_integer_value(json_object_get(row, "step")), ++count);
        assert_true((json_object_get(row, "val_loss") != NULL) == (count % 2 == 0));
        assert_true(json_number_value(json_object_get(row, "tokens_per_second")) == 20.0);
        *attempt = json_integer_value(json_object_get(row, "attempt"));
    }
    return count;
}

static void resuming_replaces_the_rows_past_the_checkpoint(void **state)
{
    struct mt_test_folder *folder = *state;
    json_int_t attempt;
    add_rows(folder->path, 0, 1, 212, 1);
    add_rows(folder->path, 200, 201, 220, 2); /* killed at 212, resumed from 200 */
    assert_int_equal(check_rows(folder->path, &attempt), 220);
    assert_int_equal(attempt, 2);
}

static void a_torn_last_line_is_cut_off(void **state)
{
    struct mt_test_folder *folder = *state;
    json_int_t attempt;
    add_rows(folder->path, 0, 1, 5, 1);
    FILE *file = fopen(mt_test_path(state, "metrics.jsonl"), "a");
    fputs("{\"step\": 6, \"lo", file);
    fclose(file);
    file = fopen(mt_test_path(state, "log.jsonl"), "a");
    fputs("{\"time\": ", file);
    fclose(file);
    add_rows(folder->path, SIZE_MAX / 2, 6, 7, 1);
    assert_int_equal(check_rows(folder->path, &attempt), 7);
    mt_autofile FILE *log = fopen(mt_test_path(state, "log.jsonl"), "r");
    mt_autofree char *line = NULL;
    size_t capacity = 0;
    int lines = 0;
    while (getline(&line, &capacity, log) > 0) {
        mt_autojson json_t *row = json_loads(line, 0, NULL);
        assert_string_equal(json_string_value(json_object_get(row, "message")), "hello \"you\"");
        lines++;
    }
    assert_int_equal(lines, 2);
}

static void a_full_disk_leaves_whole_lines(void **state)
{
    struct mt_test_folder *folder = *state;
    struct mt_series *series;
    struct mt_error error = {0};
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit old, limit;
    getrlimit(RLIMIT_FSIZE, &old);
    assert_int_equal(mt_series_open(folder->path, 0, &series, &error), 0);
    limit = old;
    limit.rlim_cur = 1000; /* a write past it is cut short, then fails */
    setrlimit(RLIMIT_FSIZE, &limit);
    int result = 0;
    size_t step = 0;
    while (result == 0 && step < 100) {
        step++;
        struct mt_step_row row = {
            .step = step, .tokens = 10, .step_seconds = 0.5, .has_val_loss = step % 2 == 0};
        result = mt_series_row(series, &row, &error);
    }
    setrlimit(RLIMIT_FSIZE, &old);
    assert_true(result < 0);
    assert_non_null(strstr(error.message, "metrics.jsonl"));
    mt_series_close(series);
    json_int_t attempt;
    assert_int_equal(check_rows(folder->path, &attempt), step - 1);
}

static void what_is_no_file_is_refused_at_once(void **state)
{
    struct mt_test_folder *folder = *state;
    struct mt_series *series;
    static const char *const names[] = {"metrics.jsonl", "log.jsonl"};
    for (size_t i = 0; i < 2; i++) {
        struct mt_error error = {0};
        mt_autofree char *path = mt_path_join(folder->path, names[i]);
        unlink(path);
        assert_int_equal(mkfifo(path, 0600), 0);
        alarm(20); /* reading it would take for ever */
        assert_int_equal(mt_series_last_attempt(folder->path), 0);
        assert_int_equal(mt_series_open(folder->path, 0, &series, &error), -EINVAL);
        alarm(0);
        assert_non_null(strstr(error.message, names[i]));
        unlink(path);
    }
}

static void a_line_about_bytes_that_are_no_text_is_written_all_the_same(void **state)
{
    struct mt_test_folder *folder = *state;
    struct mt_series *series;
    struct mt_error error = {0};
    assert_int_equal(mt_series_open(folder->path, 0, &series, &error), 0);
    assert_int_equal(mt_series_log(series, "warning", "\xff\xfe.jsonl is odd", NULL, &error), 0);
    mt_series_close(series);
    mt_autofree char *path = mt_path_join(folder->path, "log.jsonl");
    mt_autojson json_t *line = json_load_file(path, 0, NULL);
    assert_string_equal(json_string_value(json_object_get(line, "message")), "??.jsonl is odd");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        mt_test_in_folder(resuming_replaces_the_rows_past_the_checkpoint),
        mt_test_in_folder(a_torn_last_line_is_cut_off),
        mt_test_in_folder(a_full_disk_leaves_whole_lines),
        mt_test_in_folder(what_is_no_file_is_refused_at_once),
        mt_test_in_folder(a_line_about_bytes_that_are_no_text_is_written_all_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
