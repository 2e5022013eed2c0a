/* What /proc says of processes. A process is known by its id *and* its start time: ids come back. */
#ifndef MT_MEGATRAIND_PROCESS_H
#define MT_MEGATRAIND_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The variable in a worker's environment that names its job, so that stray members of its group are known
 * even when its leader is gone and the group's number might be someone else's. */
#define MT_PROCESS_JOB_VARIABLE "MEGATRAIN_JOB_ID"

/* Field 22 of /proc/<pid>/stat, in clock ticks since boot; 0 when there is no such process or it is a zombie
 * already. */
uint64_t mt_process_start(pid_t pid);
/* Bytes of memory that are resident; 0 when unknown. */
size_t mt_process_resident(pid_t pid);

#define MT_PROCESS_BOOT_BYTES 40
/* The id of this boot of the machine, "" when unknown. */
void mt_process_boot(char boot[MT_PROCESS_BOOT_BYTES]);

/* Signals every process that belongs to the job by its environment and, unless 0, to this process group;
 * returns how many. */
size_t mt_process_signal_job(const char *job_id, pid_t group, int signal);

#endif
