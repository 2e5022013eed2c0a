/* core/base/memory.h, on folders made to look like cgroup hierarchies. */
#include "core/base/memory.h"
#include "tests/unit/support.h"

static void put(void **state, const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s", mt_test_path(state, name));
    *strrchr(path, '/') = '\0';
    struct mt_error error;
    mt_assert_ok(mt_folder_create(path, 0700, &error), &error);
    mt_assert_ok(mt_file_write_atomic(mt_test_path(state, name), text, strlen(text), 0600, &error), &error);
}

static size_t limit(void **state, size_t *left)
{
    return mt_memory_limit(mt_test_path(state, "membership"), mt_test_path(state, "mount"), left);
}

static void version_2_takes_the_tightest_ancestor(void **state)
{
    size_t left;
    put(state, "membership", "0::/system.slice/megatraind.service\n");
    put(state, "mount/system.slice/megatraind.service/memory.max", "max\n");
    assert_int_equal(limit(state, &left), SIZE_MAX);
    assert_int_equal(left, SIZE_MAX);
    put(state, "mount/system.slice/memory.max", "4000\n");
    put(state, "mount/system.slice/memory.current", "3500\n");
    put(state, "mount/system.slice/memory.stat", "anon 1000\ninactive_file 500\nactive_file 7\n");
    assert_int_equal(limit(state, &left), 4000);
    assert_int_equal(left, 1000); /* pages of files that nobody uses count as left */
    put(state, "mount/memory.max", "5000\n");
    put(state, "mount/memory.current", "4900\n");
    assert_int_equal(limit(state, &left), 4000);
    assert_int_equal(left, 100); /* the ancestor's, though its limit is wider */
}

static void version_1_is_read_from_the_memory_controller(void **state)
{
    size_t left;
    put(state, "membership", "5:cpuset:/a\n4:hugetlb,memory:/a/b\n3:cpu,cpuacct:/a\n");
    put(state, "mount/memory/a/b/memory.limit_in_bytes", "9223372036854771712\n");
    put(state, "mount/cpuset/a/memory.limit_in_bytes", "10\n");
    assert_int_equal(limit(state, NULL), SIZE_MAX);
    put(state, "mount/memory/a/memory.limit_in_bytes", "8192\n");
    put(state, "mount/memory/a/memory.usage_in_bytes", "9000\n");
    put(state, "mount/memory/a/memory.stat", "inactive_file 1\ntotal_inactive_file 4096\n");
    assert_int_equal(limit(state, &left), 8192);
    assert_int_equal(left, 8192 - (9000 - 4096));
}

static void a_container_sees_its_limit_at_the_mount(void **state)
{
    put(state, "membership", "0::/docker/0123abcd\n");
    put(state, "mount/memory.max", "123456\n");
    assert_int_equal(limit(state, NULL), 123456);
}

static void what_makes_no_sense_is_no_limit(void **state)
{
    size_t left;
    assert_int_equal(limit(state, &left), SIZE_MAX);
    put(state, "membership", "nonsense\n\n:\n");
    assert_int_equal(limit(state, &left), SIZE_MAX);
    assert_true(mt_memory_total() > 0 && mt_memory_available() <= mt_memory_total());
}

static void kills_are_those_of_the_group_else_of_the_machine(void **state)
{
    uint64_t kills;
    const char *membership = "membership", *mount = "mount";
    char paths[3][512];
    const char *names[3] = {membership, mount, "vmstat"};
    for (size_t i = 0; i < 3; i++)
        snprintf(paths[i], sizeof paths[i], "%s", mt_test_path(state, names[i]));
    assert_false(mt_memory_kills(paths[0], paths[1], paths[2], &kills));
    put(state, "vmstat", "nr_free_pages 5\noom_kill 9\noom_killer 7\n");
    assert_true(mt_memory_kills(paths[0], paths[1], paths[2], &kills));
    assert_int_equal(kills, 9);
    put(state, "membership", "4:memory:/a/b\n");
    put(state, "mount/memory/a/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 4\n");
    assert_true(mt_memory_kills(paths[0], paths[1], paths[2], &kills));
    assert_int_equal(kills, 4);
    put(state, "membership", "0::/service\n");
    put(state, "mount/service/memory.events", "low 0\nhigh 0\nmax 3\noom 2\noom_kill 1\noom_group_kill 0\n");
    assert_true(mt_memory_kills(paths[0], paths[1], paths[2], &kills));
    assert_int_equal(kills, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        mt_test_in_folder(version_2_takes_the_tightest_ancestor),
        mt_test_in_folder(version_1_is_read_from_the_memory_controller),
        mt_test_in_folder(a_container_sees_its_limit_at_the_mount),
        mt_test_in_folder(what_makes_no_sense_is_no_limit),
        mt_test_in_folder(kills_are_those_of_the_group_else_of_the_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
