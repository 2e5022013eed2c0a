/* core/base/log.h. Each case lets a child process log into a file, and reads that. */
#include "core/base/log.h"
#include "tests/unit/support.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* What function(argument) leaves on standard error, malloc'd. */
static char *capture(void **state, bool to_journal, void (*function)(void))
{
    const char *path = mt_test_path(state, "stderr");
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);
        dup2(fd, STDERR_FILENO);
        struct stat status;
        char stream[64];
        if (fstat(fd, &status) < 0)
            _exit(1);
        /* A stream that is not ours is what a program gets that was redirected under systemd. */
        snprintf(stream, sizeof stream, "%lu:%lu", (unsigned long)status.st_dev,
                 (unsigned long)status.st_ino + (to_journal ? 0 : 1));
        setenv("JOURNAL_STREAM", stream, 1);
        function();
        _exit(0);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    char *text;
    size_t bytes;
    struct mt_error error;
    mt_assert_ok(mt_file_read(path, 1 << 20, &text, &bytes, &error), &error);
    return text;
}

static void log_some(void)
{
    errno = ENOENT;
    mt_log(LOG_ERR, "worker %d: %m", 7);
    if (errno != ENOENT)
        _exit(2);
    mt_log(LOG_WARNING, "low");
    mt_log(LOG_DEBUG, "not shown");
    mt_log_set_level(LOG_DEBUG);
    mt_log(LOG_DEBUG, "shown");
    mt_log_set_level(LOG_ERR);
    mt_log(LOG_INFO, "not shown either");
}

static void lines_are_plain_where_standard_error_is_no_journal(void **state)
{
    char *text = capture(state, false, log_some);
    assert_string_equal(text, "worker 7: No such file or directory\nlow\nshown\n");
    free(text);
}

static void the_journal_gets_priorities(void **state)
{
    char *text = capture(state, true, log_some);
    assert_string_equal(text, "<3>worker 7: No such file or directory\n<4>low\n<7>shown\n");
    free(text);
}

static void log_forgery(void)
{
    mt_log(LOG_INFO, "job %s ended", "x\n<0>forged\r\x1b[2J");
}

static void a_message_cannot_forge_a_line(void **state)
{
    char *text = capture(state, true, log_forgery);
    assert_string_equal(text, "<6>job x <0>forged  [2J ended\n");
    free(text);
}

static void log_long(void)
{
    mt_log(LOG_INFO, "%*d", 10000, 1);
    mt_log(LOG_INFO, "after");
}

static void a_long_message_stays_one_line(void **state)
{
    char *text = capture(state, false, log_long);
    char *newline = strchr(text, '\n');
    assert_true(newline - text > 4000);
    assert_string_equal(newline, "\nafter\n");
    free(text);
}

static void levels_have_names(void **state)
{
    (void)state;
    assert_string_equal(mt_log_level_name(LOG_CRIT), "error");
    assert_string_equal(mt_log_level_name(LOG_NOTICE), "info");
    static const int levels[] = {LOG_ERR, LOG_WARNING, LOG_INFO, LOG_DEBUG};
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(mt_log_level_parse(mt_log_level_name(levels[i])), levels[i]);
    assert_int_equal(mt_log_level_parse("loud"), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        mt_test_in_folder(lines_are_plain_where_standard_error_is_no_journal),
        mt_test_in_folder(the_journal_gets_priorities),
        mt_test_in_folder(a_message_cannot_forge_a_line),
        mt_test_in_folder(a_long_message_stays_one_line),
        cmocka_unit_test(levels_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
