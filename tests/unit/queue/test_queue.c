/* What is put into the queue comes out of it: fields, order, pages, statistics, and all of it after a
 * restart. */
#include "core/base/time.h"
#include "core/queue/database.h"
#include "tests/unit/queue/queue_support.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static struct mt_queue_job *get(struct mt_queue *queue, const char *id)
{
    struct mt_queue_job *job = NULL;
    assert_int_equal(mt_queue_get(queue, id, &job, NULL), 0);
    return job;
}

static void a_job_keeps_every_field_over_a_restart(void **state)
{
    struct fixture *fixture = *state;
    char id[MT_ID_BYTES];
    mt_id_new(id);
    json_t *labels = json_pack("{s:s}", "team", "caf\xc3\xa9 \"quoted\"");
    json_t *document = json_pack("{s:s, s:{s:f, s:I}}", "name", "contracts", "training", "learning_rate",
                                 3e-4, "seed", (json_int_t)INT64_MAX);
    struct mt_queue_submission submission = {
        .id = id, .name = "contracts", .priority = -7, .labels = labels, .document = document};
    struct mt_queue_job *job = NULL;
    assert_int_equal(mt_queue_submit(fixture->queue, &submission, &job, NULL), 0);
    assert_int_equal(job->state, MT_QUEUE_QUEUED);
    mt_queue_job_free(job);
    claim(fixture->queue, id);
    assert_int_equal(mt_queue_set_worker(fixture->queue, id, 4711, 123456789012, "boot", NULL), 0);
    struct mt_queue_change died = {.to = MT_QUEUE_RUNNING,
                                   .reason = "signal",
                                   .error_message = "died",
                                   .error_detail = "SEGV",
                                   .restarts = 2};
    assert_int_equal(mt_queue_change(fixture->queue, id, &died, NULL), 0);
    json_t *progress = json_pack("{s:i, s:f}", "step", 12, "loss", 2.5);
    struct mt_queue_progress record = {.id = id, .step = 12, .device = "cpu", .progress = progress};
    assert_int_equal(mt_queue_record(fixture->queue, &record, 1, NULL), 0);
    struct mt_queue_checkpoint checkpoint = {.step = 10,
                                             .path = "/x/checkpoints/step-00000010",
                                             .bytes = 5000000000,
                                             .loss = NAN,
                                             .created_at = "2026-01-31T12:00:00.123Z",
                                             .verified = true};
    assert_int_equal(mt_queue_add_checkpoint(fixture->queue, id, &checkpoint, NULL), 0);

    fixture_reopen(fixture);
    job = get(fixture->queue, id);
    assert_string_equal(job->name, "contracts");
    assert_int_equal(job->state, MT_QUEUE_RUNNING);
    assert_string_equal(job->reason, "signal");
    assert_string_equal(job->error_message, "died");
    assert_string_equal(job->error_detail, "SEGV");
    assert_int_equal(job->priority, -7);
    assert_true(json_equal(job->labels, labels));
    assert_true(json_equal(job->document, document));
    assert_true(json_equal(job->progress, progress));
    assert_string_equal(job->device, "cpu");
    assert_int_equal(job->attempt, 1);
    assert_int_equal(job->restarts, 2);
    assert_int_equal(job->step, 12);
    assert_int_equal(job->best_step, 12);
    assert_int_equal(job->worker_pid, 4711);
    assert_int_equal(job->worker_start, 123456789012);
    assert_string_equal(job->worker_boot, "boot");
    assert_true(job->created_us > 0 && job->started_us >= job->created_us);
    assert_int_equal(job->finished_us, 0);
    assert_int_equal(json_integer_value(json_object_get(job->last_checkpoint, "step")), 10);
    assert_int_equal(json_integer_value(json_object_get(job->last_checkpoint, "bytes")), 5000000000);
    assert_true(json_is_null(json_object_get(job->last_checkpoint, "loss")));
    assert_true(json_is_true(json_object_get(job->last_checkpoint, "verified")));
    mt_queue_job_free(job);

    /* A loss comes back with every bit. */
    checkpoint.step = 11;
    checkpoint.loss = 0.1 + 0.2;
    assert_int_equal(mt_queue_add_checkpoint(fixture->queue, id, &checkpoint, NULL), 0);
    job = get(fixture->queue, id);
    assert_true(json_real_value(json_object_get(job->last_checkpoint, "loss")) == 0.1 + 0.2);
    mt_queue_job_free(job);

    /* The next attempt begins at the checkpoint: what was best stays, the worker is forgotten. */
    change(fixture->queue, id, MT_QUEUE_STARTING);
    record.step = 10;
    assert_int_equal(mt_queue_record(fixture->queue, &record, 1, NULL), 0);
    job = get(fixture->queue, id);
    assert_int_equal(job->step, 10);
    assert_int_equal(job->best_step, 12);
    assert_int_equal(job->worker_pid, 0);
    mt_queue_job_free(job);
    json_decref(labels);
    json_decref(document);
    json_decref(progress);
}

static void higher_priority_goes_first_then_first_come(void **state)
{
    struct mt_queue *queue = ((struct fixture *)*state)->queue;
    char low[MT_ID_BYTES], first[MT_ID_BYTES], second[MT_ID_BYTES], high[MT_ID_BYTES];
    submit(queue, "low", -1, low);
    submit(queue, "first", 0, first);
    submit(queue, "second", 0, second);
    submit(queue, "high", 5, high);
    claim(queue, high);
    claim(queue, first);
    /* Asked to pause just as its worker had gone: the change that did not know of it is refused. */
    assert_int_equal(act(queue, first, MT_QUEUE_PAUSE), 0);
    struct mt_queue_change unaware = {.to = MT_QUEUE_QUEUED, .restarts = -1};
    assert_int_equal(mt_queue_change(queue, first, &unaware, NULL), -EAGAIN);
    assert_int_equal(state_of(queue, first), MT_QUEUE_STARTING);
    unaware.assumed = MT_QUEUE_REQUEST_PAUSE;
    assert_int_equal(mt_queue_change(queue, first, &unaware, NULL), 0);
    claim(queue, first);
    /* Interrupted, it is the oldest of its priority again. */
    change(queue, first, MT_QUEUE_QUEUED);
    claim(queue, first);
    claim(queue, second);
    claim(queue, low);
    struct mt_queue_job *job = NULL;
    assert_int_equal(mt_queue_claim(queue, &job, NULL), -ENOENT);
}

static void a_requested_cancel_survives_a_restart_and_ends_with_the_run(void **state)
{
    struct fixture *fixture = *state;
    char id[MT_ID_BYTES];
    submit(fixture->queue, "job", 0, id);
    claim(fixture->queue, id);
    assert_int_equal(act(fixture->queue, id, MT_QUEUE_CANCEL), 0);
    /* Neither the worker's first word nor its death and the next attempt make it forgotten. */
    change(fixture->queue, id, MT_QUEUE_RUNNING);
    change(fixture->queue, id, MT_QUEUE_STARTING);
    change(fixture->queue, id, MT_QUEUE_RUNNING);
    fixture_reopen(fixture);
    struct mt_queue_page page;
    assert_int_equal(mt_queue_active(fixture->queue, &page, NULL), 0);
    assert_int_equal(page.count, 1);
    assert_int_equal(page.jobs[0]->requested, MT_QUEUE_REQUEST_CANCEL);
    mt_queue_page_free(&page);
    change(fixture->queue, id, MT_QUEUE_CANCELLED);
    struct mt_queue_job *job = get(fixture->queue, id);
    assert_int_equal(job->requested, MT_QUEUE_REQUEST_NONE);
    assert_true(job->finished_us > 0);
    mt_queue_job_free(job);
}

static void the_same_key_gives_the_first_job_and_another_body_is_refused(void **state)
{
    struct fixture *fixture = *state;
    char first[MT_ID_BYTES], again[MT_ID_BYTES], other[MT_ID_BYTES];
    assert_int_equal(submit_with_key(fixture->queue, "k1", "aa", first), 0);
    assert_int_equal(submit_with_key(fixture->queue, "k1", "aa", again), -EEXIST);
    assert_string_equal(again, first);
    assert_int_equal(submit_with_key(fixture->queue, "k1", "bb", other), -EBADMSG);
    assert_int_equal(submit_with_key(fixture->queue, "k2", "aa", other), 0);
    assert_string_not_equal(other, first);
    fixture_reopen(fixture);
    struct mt_queue_job *job = NULL;
    assert_int_equal(mt_queue_find_key(fixture->queue, "k1", "aa", &job, NULL), -EEXIST);
    assert_string_equal(job->id, first);
    mt_queue_job_free(job);
    job = NULL;
    assert_int_equal(mt_queue_find_key(fixture->queue, "k1", "bb", &job, NULL), -EBADMSG);
    assert_int_equal(mt_queue_find_key(fixture->queue, "k3", "aa", &job, NULL), 0);
    assert_null(job);
}

struct submitter {
    struct mt_queue *queue;
    int key;
    int made;
    char id[MT_ID_BYTES];
};

static void *submit_same_key(void *argument)
{
    struct submitter *submitter = argument;
    char key[16];
    snprintf(key, sizeof key, "key-%d", submitter->key);
    submitter->made = submit_with_key(submitter->queue, key, "cc", submitter->id);
    return NULL;
}

static void of_concurrent_submissions_with_one_key_one_makes_the_job(void **state)
{
    struct fixture *fixture = *state;
    /* Two connections, as if two processes: the database decides, not our mutex. */
    struct mt_queue *second = NULL;
    assert_int_equal(mt_queue_open(fixture->path, &second, NULL), 0);
    for (int key = 0; key < 10; key++) {
        struct submitter submitters[8];
        pthread_t threads[8];
        for (int i = 0; i < 8; i++) {
            submitters[i] = (struct submitter){.queue = i % 2 ? second : fixture->queue, .key = key};
            assert_int_equal(pthread_create(&threads[i], NULL, submit_same_key, &submitters[i]), 0);
        }
        int made = 0;
        for (int i = 0; i < 8; i++) {
            pthread_join(threads[i], NULL);
            assert_true(submitters[i].made == 0 || submitters[i].made == -EEXIST);
            made += submitters[i].made == 0;
            assert_string_equal(submitters[i].id, submitters[0].id);
        }
        assert_int_equal(made, 1);
    }
    mt_queue_close(second);
    int64_t counts[MT_QUEUE_NUM_STATES];
    assert_int_equal(mt_queue_counts(fixture->queue, counts, NULL), 0);
    assert_int_equal(counts[MT_QUEUE_QUEUED], 10);
}

static void pages_show_every_job_once_newest_first(void **state)
{
    struct mt_queue *queue = ((struct fixture *)*state)->queue;
    char ids[25][MT_ID_BYTES];
    for (int i = 0; i < 25; i++) {
        submit(queue, "job", 0, ids[i]);
        if (i % 2)
            change(queue, ids[i], MT_QUEUE_PAUSED);
    }
    char cursor[MT_QUEUE_CURSOR_BYTES] = "";
    int next = 24;
    bool more = true;
    while (more) {
        struct mt_queue_page page;
        assert_int_equal(mt_queue_list(queue, -1, cursor[0] ? cursor : NULL, 10, &page, NULL), 0);
        for (size_t i = 0; i < page.count; i++)
            assert_string_equal(page.jobs[i]->id, ids[next--]);
        more = page.has_more;
        strcpy(cursor, page.next);
        mt_queue_page_free(&page);
        /* What arrives meanwhile does not move what is still to be shown. */
        char newer[MT_ID_BYTES];
        submit(queue, "newer", 0, newer);
    }
    assert_int_equal(next, -1);

    struct mt_queue_page page;
    assert_int_equal(mt_queue_list(queue, MT_QUEUE_PAUSED, NULL, 12, &page, NULL), 0);
    assert_int_equal(page.count, 12);
    assert_false(page.has_more);
    assert_string_equal(page.next, "");
    mt_queue_page_free(&page);
}

static void a_cursor_that_is_not_ours_is_refused(void **state)
{
    struct mt_queue *queue = ((struct fixture *)*state)->queue;
    char id[MT_ID_BYTES];
    for (int i = 0; i < 3; i++)
        submit(queue, "job", 0, id);
    struct mt_queue_page page;
    assert_int_equal(mt_queue_list(queue, -1, NULL, 1, &page, NULL), 0);
    char cursor[MT_QUEUE_CURSOR_BYTES];
    strcpy(cursor, page.next);
    mt_queue_page_free(&page);
    const char *bad[] = {"", "0", "x", id, "ffffffffffffffffff-00000000", "-1-00000000", "3-00000000"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(mt_queue_list(queue, -1, bad[i], 1, &page, NULL), -EBADMSG);
    assert_int_equal(mt_queue_list(queue, MT_QUEUE_QUEUED, cursor, 1, &page, NULL), -EBADMSG);
    cursor[strlen(cursor) - 1] ^= 1;
    assert_int_equal(mt_queue_list(queue, -1, cursor, 1, &page, NULL), -EBADMSG);
}

static void thirty_thousand_jobs_list_in_milliseconds(void **state)
{
    struct mt_queue *queue = ((struct fixture *)*state)->queue;
    /* Made by SQL in one transaction: 30,000 durable ones would only measure the disk. */
    char id[MT_ID_BYTES];
    submit(queue, "first", 0, id);
    assert_int_equal(
        mt_database_exec(
            queue->db,
            "INSERT INTO jobs (id, state, document_json, created_us, queued_us) "
            "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 30000) "
            "SELECT printf('%026d', i), 'completed', json_object('name', hex(randomblob(1000))), i, i "
            "FROM n",
            NULL),
        0);
    double begin = mt_time_monotonic();
    char cursor[MT_QUEUE_CURSOR_BYTES] = "";
    size_t seen = 0, pages = 0;
    double worst = 0;
    for (bool more = true; more; pages++) {
        double page_begin = mt_time_monotonic();
        struct mt_queue_page page;
        assert_int_equal(
            mt_queue_list(queue, MT_QUEUE_COMPLETED, cursor[0] ? cursor : NULL, 100, &page, NULL), 0);
        seen += page.count;
        more = page.has_more;
        strcpy(cursor, page.next);
        mt_queue_page_free(&page);
        double seconds = mt_time_monotonic() - page_begin;
        worst = seconds > worst ? seconds : worst;
    }
    int64_t counts[MT_QUEUE_NUM_STATES];
    assert_int_equal(mt_queue_counts(queue, counts, NULL), 0);
    assert_int_equal(counts[MT_QUEUE_COMPLETED], (int64_t)seen);
    assert_int_equal(seen, 30000);
    claim(queue, id);
    print_message("%zu pages in %.3f s, the slowest %.1f ms\n", pages, mt_time_monotonic() - begin,
                  worst * 1e3);
    assert_true(worst < 0.5);
}

static void statistics_survive_a_restart(void **state)
{
    struct fixture *fixture = *state;
    char id[MT_ID_BYTES];
    submit(fixture->queue, "job", 0, id);
    claim(fixture->queue, id);
    change(fixture->queue, id, MT_QUEUE_RUNNING);
    mt_queue_count_steps(fixture->queue, 3, 3000);
    mt_queue_count_restart(fixture->queue, "out_of_memory");
    mt_queue_count_restart(fixture->queue, "never heard of");
    mt_queue_observe(fixture->queue, MT_QUEUE_STEP_DURATION, 0.02);
    mt_queue_observe(fixture->queue, MT_QUEUE_STEP_DURATION, 5000);
    mt_queue_observe(fixture->queue, MT_QUEUE_STEP_DURATION, NAN);
    change(fixture->queue, id, MT_QUEUE_COMPLETED);
    /* Counted but not written: lost, and nothing else with it. */
    mt_queue_count_steps(fixture->queue, 1, 1);
    fixture_reopen(fixture);
    json_t *object = json_object();
    assert_int_equal(mt_queue_statistics(fixture->queue, object), 0);
    json_t *counters = json_object_get(object, "counters");
    assert_int_equal(json_integer_value(json_object_get(counters, "steps_total")), 3);
    assert_int_equal(json_integer_value(json_object_get(counters, "trained_tokens_total")), 3000);
    json_t *restarts = json_object_get(counters, "worker_restarts_total");
    assert_int_equal(json_integer_value(json_object_get(restarts, "out_of_memory")), 1);
    assert_int_equal(json_integer_value(json_object_get(restarts, "other")), 1);
    assert_int_equal(json_integer_value(json_object_get(restarts, "signal")), 0);
    json_t *histograms = json_object_get(object, "histograms");
    json_t *steps = json_object_get(histograms, "step_duration_seconds");
    assert_int_equal(json_integer_value(json_object_get(steps, "count")), 2);
    assert_true(fabs(json_real_value(json_object_get(steps, "sum")) - 5000.02) < 1e-9);
    size_t index;
    json_t *bucket;
    json_array_foreach(json_object_get(steps, "buckets"), index, bucket)
    {
        double bound = json_number_value(json_array_get(bucket, 0));
        assert_int_equal(json_integer_value(json_array_get(bucket, 1)), bound >= 0.02 ? 1 : 0);
    }
    json_t *durations = json_object_get(histograms, "job_duration_seconds");
    assert_int_equal(json_integer_value(json_object_get(json_object_get(durations, "completed"), "count")),
                     1);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(durations, "failed"), "count")), 0);
    json_t *waits = json_object_get(histograms, "queue_wait_seconds");
    assert_int_equal(json_integer_value(json_object_get(waits, "count")), 1);
    json_decref(object);
}

int main(void)
{
#define WITH_QUEUE(test) cmocka_unit_test_setup_teardown(test, fixture_set_up, fixture_tear_down)
    const struct CMUnitTest tests[] = {
        WITH_QUEUE(a_job_keeps_every_field_over_a_restart),
        WITH_QUEUE(higher_priority_goes_first_then_first_come),
        WITH_QUEUE(a_requested_cancel_survives_a_restart_and_ends_with_the_run),
        WITH_QUEUE(the_same_key_gives_the_first_job_and_another_body_is_refused),
        WITH_QUEUE(of_concurrent_submissions_with_one_key_one_makes_the_job),
        WITH_QUEUE(pages_show_every_job_once_newest_first),
        WITH_QUEUE(a_cursor_that_is_not_ours_is_refused),
        WITH_QUEUE(thirty_thousand_jobs_list_in_milliseconds),
        WITH_QUEUE(statistics_survive_a_restart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
