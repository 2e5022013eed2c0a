/* Figures of this process, as Prometheus' standard process_* series want them. */
#ifndef MT_API_PROCESS_H
#define MT_API_PROCESS_H

struct mt_process {
    double cpu_seconds;
    double open_fds, max_fds;
    double virtual_bytes, resident_bytes;
    double start_seconds; /* since 1970 */
};

/* What cannot be read is 0. */
void mt_process_read(struct mt_process *process);

#endif
