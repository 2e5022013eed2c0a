/* Control groups: see cgroup.h. */
#include "core/base/cgroup.h"

#include "core/base/cleanup.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Whether `controller` is one of the names in "cpu,cpuacct". */
static bool names_controller(const char *names, const char *controller)
{
    const size_t bytes = strlen(controller);
    for (const char *name = names; *name; name += strcspn(name, ",")) {
        name += *name == ',';
        if (strcspn(name, ",") == bytes && strncmp(name, controller, bytes) == 0)
            return true;
    }
    return false;
}

void mt_cgroup_walk(const char *membership_path, const char *mount_path, const char *controller,
                    void (*visit)(void *context, const char *folder, bool version_2), void *context)
{
    mt_autofile FILE *file = fopen(membership_path, "re");
    mt_autofree char *line = NULL;
    size_t line_bytes = 0;
    /* "5:cpu,cpuacct:/path" is version 1, "0::/path" version 2. */
    while (file && getline(&line, &line_bytes, file) > 0) {
        line[strcspn(line, "\n")] = '\0';
        char *names = strchr(line, ':');
        char *group = names ? strchr(names + 1, ':') : NULL;
        if (!group)
            continue;
        *group++ = '\0';
        names++;
        const bool version_2 = *names == '\0';
        if (!version_2 && !names_controller(names, controller))
            continue;
        for (;;) {
            char folder[PATH_MAX];
            if (snprintf(folder, sizeof folder, "%s%s%s%s", mount_path, version_2 ? "" : "/",
                         version_2 ? "" : controller, group) < (int)sizeof folder)
                visit(context, folder, version_2);
            char *slash = strrchr(group, '/');
            if (!slash)
                break;
            *slash = '\0';
        }
    }
}

bool mt_cgroup_numbers(const char *folder, const char *name, long long *numbers, size_t count)
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
            return false;
    }
    return true;
}
