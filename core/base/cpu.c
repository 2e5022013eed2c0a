/* CPUs that this process may use: see cpu.h. */
#include "core/base/cpu.h"

#include "core/base/cleanup.h"
#include "core/base/size.h"

#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <string.h>

#define MAX_CPUS 8192

/* The first one or two whole numbers of a file; false when it does not begin with as many. */
static bool read_numbers(const char *folder, const char *name, long long *numbers, size_t count)
{
    char path[PATH_MAX], line[64];
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path)
        return false;
    mt_autofile FILE *file = fopen(path, "re");
    if (!file || !fgets(line, sizeof line, file))
        return false;
    char *rest = line;
    for (size_t i = 0; i < count; i++) {
        char *start = rest;
        numbers[i] = strtoll(start, &rest, 10);
        if (rest == start)
            return false; /* "max": no limit here */
    }
    return true;
}

/* The quota set at one folder of a v2 or v1 hierarchy; 0 when none is. */
static size_t quota_at(const char *folder, bool version_2)
{
    long long values[2] = {-1, -1}; /* quota, period */
    bool found = version_2 ? read_numbers(folder, "cpu.max", values, 2)
                           : read_numbers(folder, "cpu.cfs_quota_us", &values[0], 1) &&
                                 read_numbers(folder, "cpu.cfs_period_us", &values[1], 1);
    return found && values[0] > 0 && values[1] > 0 ? mt_size_ceil_div((size_t)values[0], (size_t)values[1])
                                                   : 0;
}

/* The tightest quota from `group` up to the root of the hierarchy. Inside a container the path may name
 * folders that are not mounted there; its ancestors, and so the mount itself, are still looked at. */
static size_t tightest_quota(const char *mount, char *group, bool version_2)
{
    size_t tightest = 0;
    for (;;) {
        char folder[PATH_MAX];
        if (snprintf(folder, sizeof folder, "%s%s", mount, group) < (int)sizeof folder) {
            size_t quota = quota_at(folder, version_2);
            if (quota > 0 && (tightest == 0 || quota < tightest))
                tightest = quota;
        }
        char *slash = strrchr(group, '/');
        if (!slash)
            return tightest;
        *slash = '\0';
    }
}

/* Whether "cpu" is one of the names in "cpu,cpuacct". */
static bool names_cpu(const char *controllers)
{
    for (const char *name = controllers; *name; name += strcspn(name, ",")) {
        name += *name == ',';
        if (strcspn(name, ",") == 3 && strncmp(name, "cpu", 3) == 0)
            return true;
    }
    return false;
}

size_t mt_cpu_quota(const char *membership_path, const char *mount_path)
{
    mt_autofile FILE *file = fopen(membership_path, "re");
    mt_autofree char *line = NULL;
    size_t line_bytes = 0, tightest = 0;
    while (file && getline(&line, &line_bytes, file) > 0) {
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':');
        char *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group)
            continue;
        *group++ = '\0';
        controllers++;
        bool version_2 = *controllers == '\0';
        if (!version_2 && !names_cpu(controllers))
            continue;
        char mount[PATH_MAX];
        if (snprintf(mount, sizeof mount, version_2 ? "%s" : "%s/cpu", mount_path) >= (int)sizeof mount)
            continue;
        size_t quota = tightest_quota(mount, group, version_2);
        if (quota > 0 && (tightest == 0 || quota < tightest))
            tightest = quota;
    }
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
    size_t quota = mt_cpu_quota("/proc/self/cgroup", "/sys/fs/cgroup");
    return quota > 0 ? mt_size_min(count, quota) : count;
}
