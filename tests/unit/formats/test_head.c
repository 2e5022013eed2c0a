/* The beginning of a file, as far as somebody asks for it. */
#include "core/formats/head.h"
#include "tests/unit/support.h"

#include <sys/stat.h>

/* A file whose bytes say where they are. */
static const char *write_bytes(void **state, size_t bytes)
{
    const char *path = mt_test_path(state, "file");
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    for (size_t i = 0; i < bytes; i++)
        fputc((int)(i * 2654435761u >> 13 & 0xff), file);
    fclose(file);
    return path;
}

static void assert_bytes(const struct mt_head *head, size_t bytes)
{
    assert_true(head->filled >= bytes);
    for (size_t i = 0; i < bytes; i++)
        if (head->data[i] != (i * 2654435761u >> 13 & 0xff))
            fail_msg("byte %zu is %u", i, head->data[i]);
}

static void what_is_asked_for_is_there_and_stays_where_it_was(void **state)
{
    const size_t bytes = 300001;
    struct mt_error error = {0};
    struct mt_head head;
    mt_assert_ok(mt_head_open(write_bytes(state, bytes), 8, "test", &head, &error), &error);
    assert_int_equal(head.bytes, bytes);
    const unsigned char *data = head.data;
    for (size_t i = 1; i <= bytes; i += 9999) {
        assert_int_equal(mt_head_fill(&head, i), 0);
        assert_bytes(&head, i);
    }
    assert_int_equal(mt_head_fill(&head, bytes), 0);
    assert_bytes(&head, bytes);
    assert_ptr_equal(head.data, data);
    mt_head_close(&head);
}

static void a_file_that_becomes_shorter_is_an_error(void **state)
{
    struct mt_error error = {0};
    struct mt_head head;
    const char *path = write_bytes(state, 200000);
    mt_assert_ok(mt_head_open(path, 8, "test", &head, &error), &error);
    assert_int_equal(mt_head_fill(&head, 1000), 0);
    assert_int_equal(truncate(path, 100), 0);
    assert_bytes(&head, 1000); /* what was read stays */
    const int r = mt_head_fill(&head, 150000);
    assert_int_equal(r, -ENODATA);
    assert_int_equal(mt_head_error(&head, r, &error), -ENODATA);
    mt_assert_mentions(error.message, path);
    mt_assert_mentions(error.message, "became shorter");
    mt_head_close(&head);
}

static void there_is_a_bound_on_memory_and_none_on_the_file(void **state)
{
    struct mt_error error = {0};
    struct mt_head head;
    const char *path = write_bytes(state, 10);
    assert_int_equal(truncate(path, (off_t)1 << 40), 0);
    mt_assert_ok(mt_head_open(path, 8, "test", &head, &error), &error);
    assert_int_equal(mt_head_fill(&head, 10), 0);
    assert_bytes(&head, 10);
    const int r = mt_head_fill(&head, MT_HEAD_MAX_BYTES + 1);
    assert_int_equal(r, -EFBIG);
    mt_head_error(&head, r, &error);
    mt_assert_mentions(error.message, "bound");
    mt_head_close(&head);
}

static void what_is_no_file_or_too_short_is_refused(void **state)
{
    struct mt_error error = {0};
    struct mt_head head;
    assert_true(mt_head_open(write_bytes(state, 7), 8, "test", &head, &error) < 0);
    mt_assert_mentions(error.message, "has 7 bytes, too few for a test file");
    mt_head_close(&head);
    const char *path = mt_test_path(state, "fifo");
    assert_int_equal(mkfifo(path, 0600), 0);
    alarm(20); /* nobody will ever write to it */
    const char *const others[] = {path, "/dev/zero", "/"};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(mt_head_open(others[i], 8, "test", &head, &error), -EINVAL);
        mt_assert_mentions(error.message, "not a regular file");
        mt_head_close(&head);
    }
    alarm(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        mt_test_in_folder(what_is_asked_for_is_there_and_stays_where_it_was),
        mt_test_in_folder(a_file_that_becomes_shorter_is_an_error),
        mt_test_in_folder(there_is_a_bound_on_memory_and_none_on_the_file),
        mt_test_in_folder(what_is_no_file_or_too_short_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
