/* Memory that this process may use: see memory.h. */
#include "core/base/memory.h"

#include "core/base/cgroup.h"
#include "core/base/cleanup.h"
#include "core/base/size.h"

#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Version 1 says "no limit" with a number near LLONG_MAX, a multiple of the page. */
#define NO_LIMIT (LLONG_MAX / 2)

/* A number of a file whose lines are "key number". */
static bool find_key(const char *path, const char *key, uint64_t *number)
{
    mt_autofile FILE *file = fopen(path, "re");
    char line[256];
    const size_t bytes = strlen(key);
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, key, bytes) == 0 && (line[bytes] == ' ' || line[bytes] == ':')) {
            *number = strtoull(line + bytes + 1, NULL, 10);
            return true;
        }
    return false;
}

/* 0 when it is not there. */
static size_t read_key(const char *path, const char *key)
{
    uint64_t number;
    return find_key(path, key, &number) ? (size_t)number : 0;
}

struct limits {
    size_t limit, left;
};

/* Takes in the limit at one folder, and what it leaves. */
static void take_limit(void *context, const char *folder, bool version_2)
{
    struct limits *limits = context;
    long long limit, used;
    char path[PATH_MAX];
    if (!mt_cgroup_numbers(folder, version_2 ? "memory.max" : "memory.limit_in_bytes", &limit, 1) ||
        limit < 0 || limit > NO_LIMIT)
        return;
    limits->limit = mt_size_min(limits->limit, (size_t)limit);
    if (!mt_cgroup_numbers(folder, version_2 ? "memory.current" : "memory.usage_in_bytes", &used, 1) ||
        used < 0 || snprintf(path, sizeof path, "%s/memory.stat", folder) >= (int)sizeof path)
        return;
    const size_t dropped = read_key(path, version_2 ? "inactive_file" : "total_inactive_file");
    const size_t held = (size_t)used - mt_size_min((size_t)used, dropped);
    limits->left = mt_size_min(limits->left, (size_t)limit - mt_size_min((size_t)limit, held));
}

size_t mt_memory_limit(const char *membership_path, const char *mount_path, size_t *left)
{
    struct limits limits = {SIZE_MAX, SIZE_MAX};
    mt_cgroup_walk(membership_path, mount_path, "memory", take_limit, &limits);
    if (left)
        *left = limits.left;
    return limits.limit;
}

struct kills {
    bool known;
    uint64_t count;
};

/* The innermost group that tells: its count has those of the groups below it. */
static void take_kills(void *context, const char *folder, bool version_2)
{
    struct kills *kills = context;
    char path[PATH_MAX];
    if (!kills->known && snprintf(path, sizeof path, "%s/%s", folder,
                                  version_2 ? "memory.events" : "memory.oom_control") < (int)sizeof path)
        kills->known = find_key(path, "oom_kill", &kills->count);
}

bool mt_memory_kills(const char *membership_path, const char *mount_path, const char *vmstat_path,
                     uint64_t *kills)
{
    struct kills found = {0};
    mt_cgroup_walk(membership_path, mount_path, "memory", take_kills, &found);
    if (!found.known)
        found.known = find_key(vmstat_path, "oom_kill", &found.count);
    *kills = found.count;
    return found.known;
}

/* A line of /proc/meminfo, in bytes; SIZE_MAX when it is not there. */
static size_t meminfo(const char *key)
{
    const size_t kilobytes = read_key("/proc/meminfo", key);
    return kilobytes ? kilobytes * 1024 : SIZE_MAX;
}

size_t mt_memory_total(void)
{
    return mt_size_min(meminfo("MemTotal"), mt_memory_limit(MT_CGROUP_MEMBERSHIP, MT_CGROUP_MOUNT, NULL));
}

size_t mt_memory_available(void)
{
    size_t left;
    mt_memory_limit(MT_CGROUP_MEMBERSHIP, MT_CGROUP_MOUNT, &left);
    return mt_size_min(meminfo("MemAvailable"), left);
}
