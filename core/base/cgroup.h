/* The control groups (v1, v2) around this process: where their limits stand. */
#ifndef MT_BASE_CGROUP_H
#define MT_BASE_CGROUP_H

#include <stdbool.h>
#include <stddef.h>

/* Where the kernel tells them. Tests make files of their own. */
#define MT_CGROUP_MEMBERSHIP "/proc/self/cgroup"
#define MT_CGROUP_MOUNT "/sys/fs/cgroup"

/* Calls visit(context, folder, version_2) for the folder of the process's group, and each one above it up to
 * the mount, in every hierarchy that has `controller` ("cpu", "memory"). A folder need not exist: inside a
 * container the path names groups that are not mounted there, while the container's own limit stands at the
 * mount. */
void mt_cgroup_walk(const char *membership_path, const char *mount_path, const char *controller,
                    void (*visit)(void *context, const char *folder, bool version_2), void *context);

/* The first `count` numbers of <folder>/<name>; false when there is no such file, or it begins otherwise
 * ("max", which is no limit). */
bool mt_cgroup_numbers(const char *folder, const char *name, long long *numbers, size_t count);

#endif
