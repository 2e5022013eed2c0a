/* What unit tests share: cmocka with its headers in order, a temporary folder, test data that may be absent.
 *
 *     static void writes_what_it_was_given(void **state)
 *     {
 *         const char *path = mt_test_path(state, "file"); // below the folder of this test
 *         ...
 *     }
 *     int main(void)
 *     {
 *         const struct CMUnitTest tests[] = {mt_test_in_folder(writes_what_it_was_given)};
 *         return cmocka_run_group_tests(tests, NULL, NULL);
 *     }
 */
#ifndef MT_TEST_SUPPORT_H
#define MT_TEST_SUPPORT_H

#include "core/base/error.h"
#include "core/base/file.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

struct mt_test_folder {
    char path[256];
    char *paths[16]; /* what mt_test_path gave out, used in turn */
    unsigned next_path;
};

static inline int mt_test_folder_setup(void **state)
{
    const char *parent = getenv("TMPDIR");
    struct mt_test_folder *folder = calloc(1, sizeof *folder);
    if (!folder)
        return -1;
    snprintf(folder->path, sizeof folder->path, "%s/megatrain-test-XXXXXX",
             parent && *parent ? parent : "/tmp");
    if (!mkdtemp(folder->path)) {
        free(folder);
        return -1;
    }
    *state = folder;
    return 0;
}

static inline int mt_test_folder_teardown(void **state)
{
    struct mt_test_folder *folder = *state;
    int result = mt_folder_remove(folder->path, NULL);
    for (unsigned i = 0; i < 16; i++)
        free(folder->paths[i]);
    free(folder);
    *state = NULL;
    return result;
}

/* A test with a fresh folder of its own, removed afterwards. */
#define mt_test_in_folder(function)                                                                          \
    cmocka_unit_test_setup_teardown(function, mt_test_folder_setup, mt_test_folder_teardown)

/* "<folder of the test>/<name>"; good for the next 15 calls. */
static inline const char *mt_test_path(void **state, const char *name)
{
    struct mt_test_folder *folder = *state;
    char **path = &folder->paths[folder->next_path++ % 16];
    free(*path);
    *path = mt_path_join(folder->path, name);
    assert_non_null(*path);
    return *path;
}

/* Bytes of an open file; malloc'd. */
static inline void *mt_test_bytes(int fd, uint64_t offset, size_t bytes)
{
    void *data = malloc(bytes + 1);
    assert_non_null(data);
    assert_int_equal(mt_fd_pread_all(fd, data, bytes, (off_t)offset), 0);
    return data;
}

/* Ends the test as skipped, with the reason in the report. */
#define mt_test_skip(...)                                                                                    \
    do {                                                                                                     \
        printf("# skip: " __VA_ARGS__);                                                                      \
        printf("\n");                                                                                        \
        skip();                                                                                              \
    } while (0)

/* Writes the path of test data ("llamafactory/wiki_demo.txt") to `path`; skips the test where it is not
 * there. */
static inline void mt_test_data(const char *name, char path[1024])
{
    const char *folder = getenv("MT_TEST_DATA");
    snprintf(path, 1024, "%s/%s", folder && *folder ? folder : "../shared/data", name);
    if (!mt_path_exists(path))
        mt_test_skip("no test data %s", path);
}

/* Checks a result that must be 0, and shows the error's sentence where it is not. */
#define mt_assert_ok(call, error)                                                                            \
    do {                                                                                                     \
        if ((call) != 0)                                                                                     \
            fail_msg("%s: %s", #call, (error)->message);                                                     \
    } while (0)

/* Checks that a message contains a text. */
#define mt_assert_mentions(message, text)                                                                    \
    do {                                                                                                     \
        if (!strstr((message), (text)))                                                                      \
            fail_msg("\"%s\" does not mention \"%s\"", (message), (text));                                   \
    } while (0)

#endif
