/* core/base/file.h */
#include "core/base/cleanup.h"
#include "core/base/file.h"
#include "tests/unit/small_disk.h"
#include "tests/unit/support.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static size_t count_entries(const char *folder)
{
    size_t count = 0;
    DIR *stream = opendir(folder);
    for (struct dirent *entry; stream && (entry = readdir(stream));)
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    if (stream)
        closedir(stream);
    return count;
}

static void expect_content(const char *path, const char *text)
{
    struct mt_error error;
    char *data;
    size_t bytes;
    mt_assert_ok(mt_file_read(path, 1 << 20, &data, &bytes, &error), &error);
    assert_int_equal(bytes, strlen(text));
    assert_string_equal(data, text); /* which needs the zero byte after it */
    free(data);
}

static void put(void **state, const char *name, const char *text)
{
    struct mt_error error;
    mt_assert_ok(mt_file_write_atomic(mt_test_path(state, name), text, strlen(text), 0600, &error), &error);
}

static void a_file_is_read_whole_or_refused(void **state)
{
    struct mt_error error;
    char *data = NULL;
    size_t bytes;
    put(state, "a", "0123456789");
    expect_content(mt_test_path(state, "a"), "0123456789");
    mt_assert_ok(mt_file_read(mt_test_path(state, "a"), 10, &data, &bytes, &error), &error);
    free(data);
    assert_int_equal(mt_file_read(mt_test_path(state, "a"), 9, &data, &bytes, &error), -EFBIG);
    mt_assert_mentions(error.message, "larger than the 9 B");
    put(state, "empty", "");
    expect_content(mt_test_path(state, "empty"), "");
    assert_int_equal(mt_file_read(mt_test_path(state, "absent"), 9, &data, &bytes, &error), -ENOENT);
    mt_assert_mentions(error.message, "absent: No such file");
    assert_int_equal(error.reason, MT_REASON_IO);
    assert_int_equal(mt_file_read(mt_test_path(state, ""), 9, &data, &bytes, &error), -EISDIR);
    /* Nobody writes to this FIFO, and nobody waits for it. */
    assert_int_equal(mkfifo(mt_test_path(state, "fifo"), 0600), 0);
    alarm(20);
    expect_content(mt_test_path(state, "fifo"), "");
    alarm(0);
    /* A pipe is read to its end, as a shell's <(...) needs it. */
    int ends[2];
    char name[32];
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], "from a pipe", 11), 11);
    close(ends[1]);
    snprintf(name, sizeof name, "/dev/fd/%d", ends[0]);
    expect_content(name, "from a pipe");
    close(ends[0]);
    /* A file whose size says 0. */
    mt_assert_ok(mt_file_read("/proc/self/maps", 1 << 20, &data, &bytes, &error), &error);
    assert_true(bytes > 100);
    assert_int_equal(strlen(data), bytes);
    free(data);
}

static void an_atomic_write_replaces_and_leaves_nothing_behind(void **state)
{
    put(state, "f", "old content");
    put(state, "f", "new");
    expect_content(mt_test_path(state, "f"), "new");
    assert_int_equal(count_entries(mt_test_path(state, "")), 1);
    struct stat status;
    assert_int_equal(stat(mt_test_path(state, "f"), &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
}

static void a_name_without_a_folder_is_of_the_current_one(void **state)
{
    struct mt_error error;
    char before[4096];
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(mt_test_path(state, "")), 0);
    int result = mt_file_write_atomic("bare", "x", 1, 0600, &error);
    assert_int_equal(chdir(before), 0);
    assert_int_equal(result, 0);
    expect_content(mt_test_path(state, "bare"), "x");
}

static void a_failed_write_keeps_the_old_file(void **state)
{
    struct mt_error error;
    put(state, "f", "old");
    /* The file may not grow past 4 KiB: the write fails half-way with EFBIG. */
    struct rlimit before, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 4096;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    char *data = calloc(1, 10000);
    /* Standard output may be a file that is longer already; it is not written to under the limit. */
    fflush(NULL);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    int result = mt_file_write_atomic(mt_test_path(state, "f"), data, 10000, 0600, &error);
    setrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, handler);
    free(data);
    assert_int_equal(result, -EFBIG);
    expect_content(mt_test_path(state, "f"), "old");
    assert_int_equal(count_entries(mt_test_path(state, "")), 1);

    assert_int_equal(mt_file_write_atomic(mt_test_path(state, "no/such"), "x", 1, 0600, &error), -ENOENT);
    mt_assert_mentions(error.message, "no/such");
    struct mt_error folder_error;
    mt_assert_ok(mt_folder_create(mt_test_path(state, "folder"), 0700, &folder_error), &folder_error);
    assert_int_equal(mt_file_write_atomic(mt_test_path(state, "folder"), "x", 1, 0600, &error), -EISDIR);
    assert_int_equal(count_entries(mt_test_path(state, "")), 2);
}

static int fill_the_disk(const char *folder)
{
    struct mt_error error;
    char path[600];
    snprintf(path, sizeof path, "%s/f", folder);
    if (mt_file_write_atomic(path, "old", 3, 0600, &error) != 0)
        return 1;
    char *data = calloc(1, 1 << 20), *read;
    size_t bytes;
    if (mt_file_write_atomic(path, data, 1 << 20, 0600, &error) != -ENOSPC ||
        error.reason != MT_REASON_DISK_FULL)
        return 2;
    free(data);
    if (!strstr(error.message, path) || count_entries(folder) != 1)
        return 3;
    if (mt_file_read(path, 10, &read, &bytes, &error) != 0 || strcmp(read, "old") != 0)
        return 4;
    free(read);
    return mt_file_write_atomic(path, "new", 3, 0600, &error) == 0 ? 0 : 5;
}

static void a_full_disk_is_told_and_keeps_the_old_file(void **state)
{
    int result = mt_test_on_small_disk(mt_test_path(state, ""), 64 << 10, fill_the_disk);
    if (result < 0)
        mt_test_skip("this process may not mount a file system");
    assert_int_equal(result, 0);
}

static void reads_and_writes_by_descriptor_are_whole(void **state)
{
    mt_autofd int fd = open(mt_test_path(state, "f"), O_RDWR | O_CREAT, 0600);
    char text[8] = "";
    assert_int_equal(mt_fd_write_all(fd, "0123456789", 10), 0);
    assert_int_equal(mt_fd_pwrite_all(fd, "AB", 2, 4), 0);
    assert_int_equal(mt_fd_pread_all(fd, text, 6, 3), 0);
    assert_string_equal(text, "3AB678");
    assert_int_equal(mt_fd_pread_all(fd, text, 6, 5), -ENODATA);
    assert_int_equal(mt_fd_pread_all(-1, text, 6, 5), -EBADF);
    int full = open("/dev/full", O_WRONLY);
    assert_int_equal(mt_fd_write_all(full, "x", 1), -ENOSPC);
    close(full);
}

static volatile sig_atomic_t alarms;

static void count_alarm(int number)
{
    (void)number;
    alarms++;
}

static void signals_and_short_writes_lose_nothing(void **state)
{
    (void)state;
    /* A pipe that a slow child empties: every write is short, and a timer interrupts them. */
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    const size_t bytes = 1 << 20;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        close(ends[1]);
        size_t total = 0;
        unsigned char sum = 0, buffer[5000];
        for (ssize_t got; (got = read(ends[0], buffer, sizeof buffer)) > 0;) {
            for (ssize_t i = 0; i < got; i++)
                sum = (unsigned char)(sum * 31 + buffer[i]);
            total += (size_t)got;
            usleep(100);
        }
        unsigned char expected = 0;
        for (size_t i = 0; i < bytes; i++)
            expected = (unsigned char)(expected * 31 + (unsigned char)(i * 7 >> 3));
        _exit(total == bytes && sum == expected ? 0 : 1);
    }
    close(ends[0]);
    unsigned char *data = malloc(bytes);
    for (size_t i = 0; i < bytes; i++)
        data[i] = (unsigned char)(i * 7 >> 3);
    struct sigaction action = {.sa_handler = count_alarm}, before;
    sigaction(SIGALRM, &action, &before);
    ualarm(1000, 1000);
    int result = mt_fd_write_all(ends[1], data, bytes);
    ualarm(0, 0);
    sigaction(SIGALRM, &before, NULL);
    close(ends[1]);
    free(data);
    assert_int_equal(result, 0);
    assert_true(alarms > 0);
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void folders_are_made_with_their_parents(void **state)
{
    struct mt_error error;
    for (int again = 0; again < 2; again++)
        mt_assert_ok(mt_folder_create(mt_test_path(state, "a/b//c/"), 0700, &error), &error);
    assert_true(mt_path_exists(mt_test_path(state, "a/b/c")));
    assert_true(mt_folder_is_empty(mt_test_path(state, "a/b/c")));
    assert_false(mt_folder_is_empty(mt_test_path(state, "a")));
    assert_true(mt_folder_is_empty(mt_test_path(state, "absent")));
    mt_assert_ok(mt_folder_sync(mt_test_path(state, "a/b"), &error), &error);
    put(state, "file", "x");
    assert_false(mt_folder_is_empty(mt_test_path(state, "file")));
    assert_int_equal(mt_folder_create(mt_test_path(state, "file"), 0700, &error), -ENOTDIR);
    assert_int_equal(mt_folder_create(mt_test_path(state, "file/below"), 0700, &error), -ENOTDIR);
    mt_assert_mentions(error.message, "file/below");
    assert_int_equal(mt_folder_sync(mt_test_path(state, "file"), &error), -ENOTDIR);
}

static void removal_follows_no_link(void **state)
{
    struct mt_error error;
    mt_assert_ok(mt_folder_create(mt_test_path(state, "kept"), 0700, &error), &error);
    put(state, "kept/file", "keep me");
    mt_assert_ok(mt_folder_create(mt_test_path(state, "gone/deep/er"), 0700, &error), &error);
    put(state, "gone/deep/er/file", "x");
    assert_int_equal(symlink(mt_test_path(state, "kept"), mt_test_path(state, "gone/deep/link")), 0);
    assert_int_equal(symlink("nowhere", mt_test_path(state, "gone/dangling")), 0);
    mt_assert_ok(mt_folder_remove(mt_test_path(state, "gone"), &error), &error);
    assert_false(mt_path_exists(mt_test_path(state, "gone")));
    expect_content(mt_test_path(state, "kept/file"), "keep me");
    mt_assert_ok(mt_folder_remove(mt_test_path(state, "gone"), &error), &error);
    /* A link to a folder, or a file, is no folder. */
    assert_int_equal(symlink(mt_test_path(state, "kept"), mt_test_path(state, "link")), 0);
    assert_true(mt_folder_remove(mt_test_path(state, "link"), &error) < 0);
    assert_true(mt_folder_remove(mt_test_path(state, "kept/file"), &error) < 0);
    expect_content(mt_test_path(state, "kept/file"), "keep me");
}

static void paths_are_joined_with_one_slash(void **state)
{
    (void)state;
    static const char *const cases[][3] = {{"a", "b", "a/b"}, {"a/", "b", "a/b"}, {"a//", "/b", "a/b"},
                                           {"/", "b", "/b"},  {"", "b", "b"},     {"a/b", "c/d", "a/b/c/d"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *path = mt_path_join(cases[i][0], cases[i][1]);
        assert_string_equal(path, cases[i][2]);
        free(path);
    }
}

static void a_file_is_hashed(void **state)
{
    struct mt_error error;
    char hex[65];
    put(state, "f", "abc");
    mt_assert_ok(mt_file_sha256(mt_test_path(state, "f"), hex, &error), &error);
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_int_equal(mt_file_sha256(mt_test_path(state, "absent"), hex, &error), -ENOENT);
}

static void the_end_of_a_name_is_found_in_any_case(void **state)
{
    (void)state;
    assert_true(mt_path_ends_with("a.json", ".json"));
    assert_true(mt_path_ends_with("a.JSON", ".json"));
    assert_false(mt_path_ends_with(".json", ".json")); /* a hidden file without an ending */
    assert_false(mt_path_ends_with("json", ".json"));
    assert_false(mt_path_ends_with("a.jsonl", ".json"));
    assert_true(mt_path_part_ends_with("a.json.gz", 6, ".json"));
    assert_false(mt_path_part_ends_with("a.json.gz", 5, ".json"));
}

static void paths_that_lead_out_of_their_folder_are_told(void **state)
{
    (void)state;
    static const char *const below[] = {"a", "a/b", "..a", "a..", "a/..b/c", "...", "a//b", "./a"};
    static const char *const outside[] = {"", "/", "/a", "..", "../a", "a/..", "a/../b", "a//..", "./.."};
    for (size_t i = 0; i < sizeof below / sizeof *below; i++)
        assert_true(mt_path_stays_below(below[i]));
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++)
        assert_false(mt_path_stays_below(outside[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        mt_test_in_folder(a_file_is_read_whole_or_refused),
        mt_test_in_folder(an_atomic_write_replaces_and_leaves_nothing_behind),
        mt_test_in_folder(a_name_without_a_folder_is_of_the_current_one),
        mt_test_in_folder(a_failed_write_keeps_the_old_file),
        mt_test_in_folder(a_full_disk_is_told_and_keeps_the_old_file),
        mt_test_in_folder(reads_and_writes_by_descriptor_are_whole),
        cmocka_unit_test(signals_and_short_writes_lose_nothing),
        mt_test_in_folder(folders_are_made_with_their_parents),
        mt_test_in_folder(removal_follows_no_link),
        cmocka_unit_test(paths_are_joined_with_one_slash),
        mt_test_in_folder(a_file_is_hashed),
        cmocka_unit_test(the_end_of_a_name_is_found_in_any_case),
        cmocka_unit_test(paths_that_lead_out_of_their_folder_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
