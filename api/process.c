/* process.c: reads /proc/self. */
#include "api/process.h"

#include "core/base/cleanup.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static double boot_seconds(void)
{
    char line[256];
    double seconds = 0;
    mt_autofile FILE *file = fopen("/proc/stat", "re");
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "btime %lf", &seconds) == 1)
            break;
    }
    return seconds;
}

static double count_fds(void)
{
    double count = 0;
    DIR *directory = opendir("/proc/self/fd");
    if (!directory)
        return 0;
    for (struct dirent *entry; (entry = readdir(directory));)
        count += entry->d_name[0] != '.';
    closedir(directory);
    return count - 1; /* the one that reads */
}

void mt_process_read(struct mt_process *process)
{
    *process = (struct mt_process){0};
    char text[1024] = "";
    mt_autofile FILE *file = fopen("/proc/self/stat", "re");
    if (file)
        text[fread(text, 1, sizeof text - 1, file)] = '\0';
    /* The name, field 2, may hold anything: count from its closing bracket (proc(5)). */
    const char *rest = strrchr(text, ')');
    double user, system, start, size, pages, ticks = (double)sysconf(_SC_CLK_TCK);
    if (rest &&
        sscanf(rest + 1,
               " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lf %lf %*d %*d %*d %*d %*d %*d %lf %lf %lf",
               &user, &system, &start, &size, &pages) == 5) {
        process->cpu_seconds = (user + system) / ticks;
        process->start_seconds = boot_seconds() + start / ticks;
        process->virtual_bytes = size;
        process->resident_bytes = pages * (double)sysconf(_SC_PAGESIZE);
    }
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
        process->max_fds = (double)limit.rlim_cur;
    process->open_fds = count_fds();
}
