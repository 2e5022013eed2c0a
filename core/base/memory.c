/* Memory that this process may use: see memory.h. */
#include "core/base/memory.h"

#include "core/base/cleanup.h"
#include "core/base/size.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Version 1 says "no limit" with a number near LONG_MAX, a multiple of the page. */
#define NO_LIMIT ((size_t)LLONG_MAX / 2)

/* The number that a file begins with; false for "max" and where there is no such file. */
static bool read_number(const char *folder, const char *name, size_t *number)
{
    char path[PATH_MAX];
    unsigned long long value;
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path)
        return false;
    mt_autofile FILE *file = fopen(path, "re");
    if (!file || fscanf(file, "%llu", &value) != 1)
        return false;
    *number = (size_t)value;
    return true;
}

/* A number of a file whose lines are "key number"; 0 when it is not there. */
static size_t read_key(const char *path, const char *key)
{
    mt_autofile FILE *file = fopen(path, "re");
    char line[256];
    const size_t bytes = strlen(key);
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, key, bytes) == 0 && (line[bytes] == ' ' || line[bytes] == ':'))
            return (size_t)strtoull(line + bytes + 1, NULL, 10);
    return 0;
}

/* The limit at one folder, and what it leaves. */
static void look_at(const char *folder, bool version_2, size_t *limit, size_t *left)
{
    size_t here, used, dropped;
    char path[PATH_MAX];
    if (!read_number(folder, version_2 ? "memory.max" : "memory.limit_in_bytes", &here) || here > NO_LIMIT)
        return;
    *limit = mt_size_min(*limit, here);
    if (!left || !read_number(folder, version_2 ? "memory.current" : "memory.usage_in_bytes", &used) ||
        snprintf(path, sizeof path, "%s/memory.stat", folder) >= (int)sizeof path)
        return;
    dropped = read_key(path, version_2 ? "inactive_file" : "total_inactive_file");
    used -= mt_size_min(used, dropped);
    *left = mt_size_min(*left, here - mt_size_min(here, used));
}

/* From `group` up to the root of the hierarchy. Inside a container the path may name folders that are not
 * mounted there; its ancestors, and so the mount itself, are still looked at. */
static void look_upwards(const char *mount, char *group, bool version_2, size_t *limit, size_t *left)
{
    for (;;) {
        char folder[PATH_MAX];
        if (snprintf(folder, sizeof folder, "%s%s", mount, group) < (int)sizeof folder)
            look_at(folder, version_2, limit, left);
        char *slash = strrchr(group, '/');
        if (!slash)
            return;
        *slash = '\0';
    }
}

/* Whether "memory" is one of the names in "cpuset,memory". */
static bool names_memory(const char *controllers)
{
    for (const char *name = controllers; *name; name += strcspn(name, ",")) {
        name += *name == ',';
        if (strcspn(name, ",") == 6 && strncmp(name, "memory", 6) == 0)
            return true;
    }
    return false;
}

size_t mt_memory_limit(const char *membership_path, const char *mount_path, size_t *left)
{
    mt_autofile FILE *file = fopen(membership_path, "re");
    mt_autofree char *line = NULL;
    size_t line_bytes = 0, limit = SIZE_MAX;
    if (left)
        *left = SIZE_MAX;
    while (file && getline(&line, &line_bytes, file) > 0) {
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':');
        char *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group)
            continue;
        *group++ = '\0';
        controllers++;
        const bool version_2 = *controllers == '\0';
        char mount[PATH_MAX];
        if ((!version_2 && !names_memory(controllers)) ||
            snprintf(mount, sizeof mount, version_2 ? "%s" : "%s/memory", mount_path) >= (int)sizeof mount)
            continue;
        look_upwards(mount, group, version_2, &limit, left);
    }
    return limit;
}

/* A line of /proc/meminfo, in bytes; SIZE_MAX when it is not there. */
static size_t meminfo(const char *key)
{
    const size_t kilobytes = read_key("/proc/meminfo", key);
    return kilobytes ? kilobytes * 1024 : SIZE_MAX;
}

size_t mt_memory_total(void)
{
    return mt_size_min(meminfo("MemTotal"), mt_memory_limit("/proc/self/cgroup", "/sys/fs/cgroup", NULL));
}

size_t mt_memory_available(void)
{
    size_t left;
    mt_memory_limit("/proc/self/cgroup", "/sys/fs/cgroup", &left);
    return mt_size_min(meminfo("MemAvailable"), left);
}
