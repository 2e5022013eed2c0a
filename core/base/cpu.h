/* How many CPUs this process may use. */
#ifndef MT_BASE_CPU_H
#define MT_BASE_CPU_H

#include <stddef.h>

/* Affinity mask and the tightest cgroup (v1, v2) CPU quota, rounded up, at least 1. */
size_t mt_cpu_count(void);

/* The quota alone, from a file in the form of /proc/self/cgroup and the folder where cgroups are mounted
 * (/sys/fs/cgroup); 0 when there is none. */
size_t mt_cpu_quota(const char *membership_path, const char *mount_path);

#endif
