/* CPUs that this process may use: see cpu.h. */
#include "core/base/cpu.h"

#include "core/base/cgroup.h"
#include "core/base/size.h"

#include <sched.h>

#define MAX_CPUS 8192

/* Keeps the tightest quota. */
static void take_quota(void *context, const char *folder, bool version_2)
{
    size_t *tightest = context;
    long long values[2]; /* quota, period; a quota of -1 is none */
    bool found = version_2 ? mt_cgroup_numbers(folder, "cpu.max", values, 2)
                           : mt_cgroup_numbers(folder, "cpu.cfs_quota_us", &values[0], 1) &&
                                 mt_cgroup_numbers(folder, "cpu.cfs_period_us", &values[1], 1);
    if (!found || values[0] <= 0 || values[1] <= 0)
        return;
    size_t quota = mt_size_ceil_div((size_t)values[0], (size_t)values[1]);
    if (*tightest == 0 || quota < *tightest)
        *tightest = quota;
}

size_t mt_cpu_quota(const char *membership_path, const char *mount_path)
{
    size_t tightest = 0;
    mt_cgroup_walk(membership_path, mount_path, "cpu", take_quota, &tightest);
    return tightest;
}

size_t mt_cpu_count(void)
{
    size_t count = 1;
    cpu_set_t *mask = CPU_ALLOC(MAX_CPUS);
    if (mask) {
        size_t mask_bytes = CPU_ALLOC_SIZE(MAX_CPUS);
        CPU_ZERO_S(mask_bytes, mask);
        if (sched_getaffinity(0, mask_bytes, mask) == 0)
            count = mt_size_max(1, (size_t)CPU_COUNT_S(mask_bytes, mask));
        CPU_FREE(mask);
    }
    size_t quota = mt_cpu_quota(MT_CGROUP_MEMBERSHIP, MT_CGROUP_MOUNT);
    return quota > 0 ? mt_size_min(count, quota) : count;
}
