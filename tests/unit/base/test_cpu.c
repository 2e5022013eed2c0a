/* core/base/cpu.h, on folders made to look like cgroup hierarchies. */
#include "core/base/cpu.h"
#include "tests/unit/support.h"

#include <sched.h>

static void put(void **state, const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s", mt_test_path(state, name));
    *strrchr(path, '/') = '\0';
    struct mt_error error;
    mt_assert_ok(mt_folder_create(path, 0700, &error), &error);
    mt_assert_ok(mt_file_write_atomic(mt_test_path(state, name), text, strlen(text), 0600, &error), &error);
}

static size_t quota(void **state)
{
    return mt_cpu_quota(mt_test_path(state, "membership"), mt_test_path(state, "mount"));
}

static void version_2_takes_the_tightest_ancestor(void **state)
{
    put(state, "membership", "0::/system.slice/megatraind.service\n");
    put(state, "mount/system.slice/megatraind.service/cpu.max", "max 100000\n");
    assert_int_equal(quota(state), 0);
    put(state, "mount/system.slice/cpu.max", "350000 100000\n");
    assert_int_equal(quota(state), 4); /* three and a half, rounded up */
    put(state, "mount/system.slice/megatraind.service/cpu.max", "800000 100000\n");
    assert_int_equal(quota(state), 4);
    put(state, "mount/cpu.max", "50000 100000\n");
    assert_int_equal(quota(state), 1);
}

static void version_1_is_read_from_the_cpu_controller(void **state)
{
    put(state, "membership", "5:cpuset:/a\n4:memory:/a\n3:cpu,cpuacct:/a/b\n1:name=systemd:/a\n");
    put(state, "mount/cpu/a/b/cpu.cfs_quota_us", "-1\n");
    put(state, "mount/cpu/a/b/cpu.cfs_period_us", "100000\n");
    put(state, "mount/cpuset/a/cpu.cfs_quota_us", "100000\n");
    put(state, "mount/cpuset/a/cpu.cfs_period_us", "100000\n");
    assert_int_equal(quota(state), 0);
    put(state, "mount/cpu/a/cpu.cfs_quota_us", "200000\n");
    put(state, "mount/cpu/a/cpu.cfs_period_us", "100000\n");
    assert_int_equal(quota(state), 2);
}

static void a_container_sees_its_limit_at_the_mount(void **state)
{
    /* The path is the host's; inside, only the container's own folder is mounted. */
    put(state, "membership", "0::/docker/0123abcd\n");
    put(state, "mount/cpu.max", "300000 100000\n");
    assert_int_equal(quota(state), 3);
}

static void without_cgroups_there_is_no_quota(void **state)
{
    assert_int_equal(quota(state), 0);
    put(state, "membership", "nonsense\n\n:\n");
    assert_int_equal(quota(state), 0);
}

static void the_affinity_mask_counts(void **state)
{
    (void)state;
    cpu_set_t before, one;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    assert_in_range(mt_cpu_count(), 1, CPU_COUNT(&before));
    CPU_ZERO(&one);
    for (size_t i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++) {
        if (CPU_ISSET(i, &before))
            CPU_SET(i, &one);
    }
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(mt_cpu_count(), 1);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        mt_test_in_folder(version_2_takes_the_tightest_ancestor),
        mt_test_in_folder(version_1_is_read_from_the_cpu_controller),
        mt_test_in_folder(a_container_sees_its_limit_at_the_mount),
        mt_test_in_folder(without_cgroups_there_is_no_quota),
        cmocka_unit_test(the_affinity_mask_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
