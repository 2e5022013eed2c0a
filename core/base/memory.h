/* How much memory this process may use. */
#ifndef MT_BASE_MEMORY_H
#define MT_BASE_MEMORY_H

#include <stddef.h>

/* The machine's memory, or the tightest limit of the control groups (v1, v2) around this process. SIZE_MAX
 * when nothing tells. */
size_t mt_memory_total(void);

/* What may still be taken now without swapping: MemAvailable, and what those limits leave. */
size_t mt_memory_available(void);

/* The tightest limit alone, from a file in the form of /proc/self/cgroup and the folder where cgroups are
 * mounted (/sys/fs/cgroup). SIZE_MAX when there is none. `left`: not NULL: the smallest distance from what is
 * in use to a limit; pages of files that can be dropped do not count as in use. */
size_t mt_memory_limit(const char *membership_path, const char *mount_path, size_t *left);

#endif
