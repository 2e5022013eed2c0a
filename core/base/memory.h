/* How much memory this process may use. */
#ifndef MT_BASE_MEMORY_H
#define MT_BASE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The machine's memory, or the tightest limit of the control groups (v1, v2) around this process. SIZE_MAX
 * when nothing tells. */
size_t mt_memory_total(void);

/* What may still be taken now without swapping: MemAvailable, and what those limits leave. */
size_t mt_memory_available(void);

/* The tightest limit alone, from a file in the form of /proc/self/cgroup and the folder where cgroups are
 * mounted (/sys/fs/cgroup). SIZE_MAX when there is none. `left`: not NULL: the smallest distance from what is
 * in use to a limit; pages of files that can be dropped do not count as in use. */
size_t mt_memory_limit(const char *membership_path, const char *mount_path, size_t *left);

/* How many processes the kernel has killed for want of memory: of the control group of this process (version
 * 2: memory.events, version 1: memory.oom_control), else of the whole machine (`vmstat_path`: /proc/vmstat).
 * What counts is whether it grows. False when nothing tells. */
bool mt_memory_kills(const char *membership_path, const char *mount_path, const char *vmstat_path,
                     uint64_t *kills);
#define MT_MEMORY_VMSTAT "/proc/vmstat"

#endif
