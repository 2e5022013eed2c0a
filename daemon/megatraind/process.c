#include "daemon/megatraind/process.h"

#include "core/base/cleanup.h"
#include "core/base/file.h"

#include <ctype.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

struct stat_line {
    char state;
    long group;
    uint64_t start;
};

/* The command's name, in parentheses, may hold spaces and parentheses itself: fields count from the last one.
 */
static bool read_stat(pid_t pid, struct stat_line *line)
{
    char path[48];
    snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    mt_autofree char *text = NULL;
    size_t bytes;
    if (mt_file_read(path, 8192, &text, &bytes, NULL) < 0)
        return false;
    const char *rest = strrchr(text, ')');
    unsigned long long start;
    if (!rest ||
        sscanf(rest + 1, " %c %*d %ld %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
               &line->state, &line->group, &start) != 3)
        return false;
    line->start = start;
    return true;
}

uint64_t mt_process_start(pid_t pid)
{
    struct stat_line line;
    if (pid <= 0 || !read_stat(pid, &line) || line.state == 'Z' || line.state == 'X')
        return 0;
    return line.start;
}

size_t mt_process_resident(pid_t pid)
{
    char path[48];
    snprintf(path, sizeof path, "/proc/%ld/statm", (long)pid);
    mt_autofree char *text = NULL;
    size_t bytes;
    unsigned long long pages;
    if (mt_file_read(path, 8192, &text, &bytes, NULL) < 0 || sscanf(text, "%*u %llu", &pages) != 1)
        return 0;
    return (size_t)pages * (size_t)sysconf(_SC_PAGESIZE);
}

void mt_process_boot(char boot[MT_PROCESS_BOOT_BYTES])
{
    mt_autofree char *text = NULL;
    size_t bytes;
    boot[0] = '\0';
    if (mt_file_read("/proc/sys/kernel/random/boot_id", 8192, &text, &bytes, NULL) == 0) {
        text[strcspn(text, "\n")] = '\0';
        snprintf(boot, MT_PROCESS_BOOT_BYTES, "%.39s", text);
    }
}

static bool is_of_job(pid_t pid, const char *job_id)
{
    char path[48], wanted[128];
    snprintf(path, sizeof path, "/proc/%ld/environ", (long)pid);
    snprintf(wanted, sizeof wanted, "%s=%s", MT_PROCESS_JOB_VARIABLE, job_id);
    mt_autofree char *environment = NULL;
    size_t bytes;
    if (mt_file_read(path, 1 << 20, &environment, &bytes, NULL) < 0)
        return false;
    for (size_t i = 0; i < bytes; i += strlen(environment + i) + 1)
        if (strcmp(environment + i, wanted) == 0)
            return true;
    return false;
}

size_t mt_process_signal_job(const char *job_id, pid_t group, int signal)
{
    DIR *folder = opendir("/proc");
    if (!folder)
        return 0;
    size_t count = 0;
    for (struct dirent *entry; (entry = readdir(folder));) {
        if (!isdigit((unsigned char)entry->d_name[0]))
            continue;
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        struct stat_line line;
        if (pid == getpid() || !read_stat(pid, &line) || line.state == 'Z' ||
            (group && line.group != group) || !is_of_job(pid, job_id))
            continue;
        count += kill(pid, signal) == 0;
    }
    closedir(folder);
    return count;
}
