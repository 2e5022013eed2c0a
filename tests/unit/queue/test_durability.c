/* What was acknowledged is there after kill -9, and a disk or a file in trouble is an error that changes
 * nothing. */
#include "core/base/file.h"
#include "core/base/random.h"
#include "core/queue/database.h"
#include "core/queue/migrations.h"
#include "tests/unit/queue/queue_support.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Submits, runs and ends jobs for ever; writes an id to `acknowledged` once its submission has returned. */
static void work_until_killed(const char *path, int acknowledged)
{
    struct mt_queue *queue = NULL;
    if (mt_queue_open(path, &queue, NULL) < 0)
        _exit(2);
    for (int round = 0;; round++) {
        char id[MT_ID_BYTES];
        submit(queue, "job", 0, id);
        if (write(acknowledged, id, MT_ID_BYTES) != MT_ID_BYTES)
            _exit(3);
        struct mt_queue_job *job = NULL;
        if (mt_queue_claim(queue, &job, NULL) < 0)
            _exit(4);
        json_t *progress = json_pack("{s:i}", "step", round);
        struct mt_queue_progress record = {.id = job->id, .step = round, .progress = progress};
        struct mt_queue_change running = {.to = MT_QUEUE_RUNNING, .restarts = -1};
        struct mt_queue_change done = {.to = MT_QUEUE_COMPLETED, .restarts = -1};
        if (mt_queue_change(queue, job->id, &running, NULL) < 0 ||
            mt_queue_record(queue, &record, 1, NULL) < 0 ||
            (round % 3 && mt_queue_change(queue, job->id, &done, NULL) < 0))
            _exit(5);
        json_decref(progress);
        mt_queue_job_free(job);
    }
}

static size_t check_acknowledged(struct mt_queue *queue, int fd)
{
    char id[MT_ID_BYTES];
    size_t count = 0;
    while (read(fd, id, sizeof id) == (ssize_t)sizeof id) {
        struct mt_queue_job *job = NULL;
        if (mt_queue_get(queue, id, &job, NULL) < 0)
            fail_msg("job %s was acknowledged and is gone", id);
        mt_queue_job_free(job);
        count++;
    }
    return count;
}

static void nothing_acknowledged_is_lost_by_kill_9(void **state)
{
    struct fixture *fixture = *state;
    struct mt_random random = {.key = mt_random_key(1, "kill")};
    size_t total = 0;
    for (int trial = 0; trial < 12; trial++) {
        int ends[2];
        assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0)
            work_until_killed(fixture->path, ends[1]);
        close(ends[1]);
        /* Some jobs in, and then anywhere in the next one, however slow the machine is today. */
        char ids[8][MT_ID_BYTES];
        size_t heard = 1 + (size_t)mt_random_below(&random, 8);
        for (size_t i = 0; i < heard; i++)
            assert_int_equal(read(ends[0], ids[i], MT_ID_BYTES), MT_ID_BYTES);
        usleep((useconds_t)mt_random_below(&random, 20000));
        kill(child, SIGKILL);
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
        fixture_reopen(fixture);
        for (size_t i = 0; i < heard; i++)
            state_of(fixture->queue, ids[i]);
        total += heard + check_acknowledged(fixture->queue, ends[0]);
        close(ends[0]);
        mt_autostatement sqlite3_stmt *statement = NULL;
        assert_int_equal(mt_database_prepare(fixture->queue->db, "PRAGMA integrity_check", &statement, NULL),
                         0);
        assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
        assert_string_equal((const char *)sqlite3_column_text(statement, 0), "ok");
    }
    print_message("%zu acknowledged jobs over 12 kills\n", total);
    assert_true(total >= 12);
}

static void the_settings_are_those_that_were_promised(void **state)
{
    struct fixture *fixture = *state;
    const struct {
        const char *pragma, *value;
    } expected[] = {{"PRAGMA journal_mode", "wal"},
                    {"PRAGMA synchronous", "2"},
                    {"PRAGMA foreign_keys", "1"},
                    {"PRAGMA busy_timeout", "5000"}};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        mt_autostatement sqlite3_stmt *statement = NULL;
        assert_int_equal(mt_database_prepare(fixture->queue->db, expected[i].pragma, &statement, NULL), 0);
        assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
        assert_string_equal((const char *)sqlite3_column_text(statement, 0), expected[i].value);
    }
}

static int open_and_close(const char *path, struct mt_error *error)
{
    struct mt_queue *queue = NULL;
    memset(error, 0, sizeof *error);
    int r = mt_queue_open(path, &queue, error);
    mt_queue_close(queue);
    return r;
}

static void a_newer_or_foreign_database_is_refused(void **state)
{
    struct fixture *fixture = *state;
    struct mt_error error;
    char sql[64];
    snprintf(sql, sizeof sql, "PRAGMA user_version=%d", mt_migrations[mt_migrations_count - 1].number + 1);
    assert_int_equal(mt_database_exec(fixture->queue->db, sql, NULL), 0);
    assert_int_equal(open_and_close(fixture->path, &error), -EPROTO);
    assert_non_null(strstr(error.message, "newer MegaTrain"));

    char other[96];
    snprintf(other, sizeof other, "%s/other.db", fixture->folder);
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(other, &db), SQLITE_OK);
    assert_int_equal(mt_database_exec(db, "CREATE TABLE photos (id)", NULL), 0);
    sqlite3_close(db);
    assert_int_equal(open_and_close(other, &error), -EPROTO);
    assert_non_null(strstr(error.message, "another program"));
}

static void a_migration_that_fails_leaves_nothing_behind(void **state)
{
    struct fixture *fixture = *state;
    char path[96];
    struct mt_error error;
    snprintf(path, sizeof path, "%s/half.db", fixture->folder);
    /* A limit in the file's own header would do; a table in the way is simpler: the third statement fails. */
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(
        mt_database_exec(db, "PRAGMA application_id=1297371441; CREATE TABLE checkpoints (x)", NULL), 0);
    sqlite3_close(db);
    assert_true(open_and_close(path, &error) < 0);
    assert_non_null(strstr(error.message, "0001_"));
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    mt_autostatement sqlite3_stmt *statement = NULL;
    assert_int_equal(
        mt_database_prepare(db, "SELECT count(*) FROM sqlite_schema WHERE name = 'jobs'", &statement, NULL),
        0);
    assert_int_equal(sqlite3_step(statement), SQLITE_ROW);
    assert_int_equal(sqlite3_column_int(statement, 0), 0);
    sqlite3_finalize(statement);
    statement = NULL;
    sqlite3_close(db);
}

static void damage(const char *path, long offset, const char *junk, size_t bytes)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, junk, bytes, offset), (ssize_t)bytes);
    close(fd);
}

static void a_damaged_database_is_named_and_left_as_it_is(void **state)
{
    struct fixture *fixture = *state;
    struct mt_error error;
    char id[MT_ID_BYTES];
    for (int i = 0; i < 50; i++)
        submit(fixture->queue, "job", 0, id);
    mt_queue_close(fixture->queue);
    fixture->queue = NULL;

    /* A page of a table in the middle. */
    char junk[4096];
    memset(junk, 0xa5, sizeof junk);
    damage(fixture->path, 4096 * 3L, junk, sizeof junk);
    assert_int_equal(open_and_close(fixture->path, &error), -EUCLEAN);
    assert_non_null(strstr(error.message, "damaged"));
    /* The header. */
    damage(fixture->path, 0, junk, 100);
    assert_int_equal(open_and_close(fixture->path, &error), -EUCLEAN);
    assert_non_null(strstr(error.message, fixture->path));
    /* No database at all. */
    assert_int_equal(mt_file_write_atomic(fixture->path, "hello, world\n", 13, 0644, NULL), 0);
    assert_int_equal(open_and_close(fixture->path, &error), -EUCLEAN);
    char *content = NULL;
    size_t bytes;
    assert_int_equal(mt_file_read(fixture->path, 100, &content, &bytes, NULL), 0);
    assert_string_equal(content, "hello, world\n");
    free(content);
    /* A folder in its place. */
    assert_true(open_and_close(fixture->folder, &error) < 0);
}

static void a_full_disk_refuses_the_job_and_the_queue_lives_on(void **state)
{
    struct fixture *fixture = *state;
    struct mt_error error = {0};
    char id[MT_ID_BYTES], refused[MT_ID_BYTES];
    submit(fixture->queue, "before", 0, id);
    /* SQLite's own limit on the file's size reports what a full disk reports. */
    assert_int_equal(mt_database_exec(fixture->queue->db, "PRAGMA max_page_count=1", NULL), 0);
    char *text = malloc(100001);
    memset(text, 'x', 100000);
    text[100000] = '\0';
    json_t *document = json_pack("{s:s}", "name", text);
    mt_id_new(refused);
    struct mt_queue_submission submission = {.id = refused, .name = "large", .document = document};
    struct mt_queue_job *job = NULL;
    assert_int_equal(mt_queue_submit(fixture->queue, &submission, &job, &error), -ENOSPC);
    assert_int_equal(error.reason, MT_REASON_DISK_FULL);
    assert_null(job);
    assert_int_equal(mt_queue_get(fixture->queue, refused, &job, NULL), -ENOENT);
    assert_int_equal(state_of(fixture->queue, id), MT_QUEUE_QUEUED);
    /* Room again: the same submission goes through. */
    assert_int_equal(mt_database_exec(fixture->queue->db, "PRAGMA max_page_count=1000000", NULL), 0);
    assert_int_equal(mt_queue_submit(fixture->queue, &submission, &job, &error), 0);
    mt_queue_job_free(job);
    json_decref(document);
    free(text);
}

/* In a mount namespace of its own (root), so that nothing is left behind; 77 when that is not permitted. */
static int in_namespace(int (*body)(const char *folder), const char *folder)
{
    pid_t child = fork();
    if (child == 0) {
        if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
            mount("tmpfs", folder, "tmpfs", 0, "size=1m") < 0)
            _exit(77);
        _exit(body(folder));
    }
    int status;
    if (waitpid(child, &status, 0) != child)
        return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int fill_a_small_disk(const char *folder)
{
    char path[128];
    snprintf(path, sizeof path, "%s/megatrain.db", folder);
    struct mt_queue *queue = NULL;
    struct mt_error error = {0};
    if (mt_queue_open(path, &queue, &error) < 0)
        return 1;
    size_t accepted = 0;
    char ids[400][MT_ID_BYTES];
    char long_name[4096];
    memset(long_name, 'n', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    json_t *document = json_pack("{s:s}", "name", long_name);
    int r = 0;
    while (accepted < 400) {
        mt_id_new(ids[accepted]);
        struct mt_queue_submission submission = {.id = ids[accepted], .document = document};
        struct mt_queue_job *job = NULL;
        r = mt_queue_submit(queue, &submission, &job, &error);
        mt_queue_job_free(job);
        if (r < 0)
            break;
        accepted++;
    }
    if (r != -ENOSPC || error.reason != MT_REASON_DISK_FULL || accepted == 0)
        return 2;
    /* Another process sees exactly what was accepted. */
    mt_queue_close(queue);
    if (mt_queue_open(path, &queue, &error) < 0)
        return 3;
    for (size_t i = 0; i < accepted; i++) {
        struct mt_queue_job *job = NULL;
        if (mt_queue_get(queue, ids[i], &job, NULL) < 0)
            return 4;
        mt_queue_job_free(job);
    }
    struct mt_queue_job *job = NULL;
    if (mt_queue_get(queue, ids[accepted], &job, NULL) != -ENOENT)
        return 5;
    mt_queue_close(queue);
    json_decref(document);
    return 0;
}

static int open_read_only(const char *folder)
{
    char path[128];
    snprintf(path, sizeof path, "%s/megatrain.db", folder);
    struct mt_queue *queue = NULL;
    struct mt_error error = {0};
    if (mt_queue_open(path, &queue, &error) < 0)
        return 1;
    char id[MT_ID_BYTES];
    submit(queue, "job", 0, id);
    mt_queue_close(queue);
    if (mount(NULL, folder, NULL, MS_REMOUNT | MS_RDONLY, NULL) < 0)
        return 77;
    int r = mt_queue_open(path, &queue, &error);
    return r < 0 && strstr(error.message, path) ? 0 : 2;
}

static void run_in_namespace(struct fixture *fixture, int (*body)(const char *folder))
{
    char folder[96];
    snprintf(folder, sizeof folder, "%s/mount", fixture->folder);
    assert_int_equal(mkdir(folder, 0755), 0);
    int result = in_namespace(body, folder);
    if (result == 77)
        mt_test_skip("mounting is not permitted");
    assert_int_equal(result, 0);
}

static void a_really_full_disk_loses_nothing_that_was_accepted(void **state)
{
    run_in_namespace(*state, fill_a_small_disk);
}

static void a_read_only_disk_is_refused(void **state)
{
    run_in_namespace(*state, open_read_only);
}

int main(void)
{
#define WITH_QUEUE(test) cmocka_unit_test_setup_teardown(test, fixture_set_up, fixture_tear_down)
    const struct CMUnitTest tests[] = {
        WITH_QUEUE(nothing_acknowledged_is_lost_by_kill_9),
        WITH_QUEUE(the_settings_are_those_that_were_promised),
        WITH_QUEUE(a_newer_or_foreign_database_is_refused),
        WITH_QUEUE(a_migration_that_fails_leaves_nothing_behind),
        WITH_QUEUE(a_damaged_database_is_named_and_left_as_it_is),
        WITH_QUEUE(a_full_disk_refuses_the_job_and_the_queue_lives_on),
        WITH_QUEUE(a_really_full_disk_loses_nothing_that_was_accepted),
        WITH_QUEUE(a_read_only_disk_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
