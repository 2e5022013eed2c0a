/* What /metrics shows, as one JSON object. */
#include "core/base/cleanup.h"
#include "core/base/file.h"
#include "core/base/time.h"
#include "core/base/version.h"
#include "daemon/megatraind/control.h"
#include "daemon/megatraind/job_object.h"

#include <string.h>
#include <sys/statvfs.h>

static json_t *job_counts(const struct mt_daemon *daemon)
{
    int64_t counts[MT_QUEUE_NUM_STATES] = {0};
    json_t *object = json_object();
    mt_queue_counts(daemon->queue, counts, NULL);
    for (int state = 0; state < MT_QUEUE_NUM_STATES; state++)
        json_object_set_new(object, mt_queue_state_name((enum mt_queue_state)state),
                            json_integer(counts[state]));
    return object;
}

static void add_running(const struct mt_daemon *daemon, json_t *running, json_t *devices)
{
    struct mt_queue_page page;
    if (mt_queue_active(daemon->queue, &page, NULL) < 0)
        return;
    for (size_t i = 0; i < page.count; i++) {
        const struct mt_queue_job *job = page.jobs[i];
        if (job->state != MT_QUEUE_RUNNING)
            continue;
        json_array_append_new(running,
                              json_pack("{s:s, s:s?, s:s?, s:o}", "id", job->id, "name", job->name, "device",
                                        job->device, "progress", mt_job_object_progress(job)));
        /* Which devices are there only a worker can say; which are in use the daemon knows. */
        if (job->device)
            json_array_append_new(devices, json_pack("{s:s, s:s}", "name", job->device, "job", job->id));
    }
    mt_queue_page_free(&page);
}

/* A line "MemTotal:   12345 kB". */
static json_int_t meminfo(const char *text, const char *name)
{
    const char *line = strstr(text, name);
    return line ? (json_int_t)strtoll(line + strlen(name), NULL, 10) * 1024 : 0;
}

static json_t *memory(void)
{
    mt_autofree char *text = NULL;
    size_t bytes;
    bool read = mt_file_read("/proc/meminfo", 65536, &text, &bytes, NULL) == 0;
    return json_pack("{s:I, s:I, s:I}", "resident_bytes", (json_int_t)mt_process_resident(getpid()),
                     "total_bytes", read ? meminfo(text, "MemTotal:") : 0, "available_bytes",
                     read ? meminfo(text, "MemAvailable:") : 0);
}

static json_t *disk(const struct mt_daemon *daemon)
{
    struct statvfs status;
    if (statvfs(daemon->state_folder, &status) < 0)
        return json_pack("{s:n, s:n}", "total_bytes", "free_bytes");
    return json_pack("{s:I, s:I}", "total_bytes", (json_int_t)(status.f_blocks * status.f_frsize),
                     "free_bytes", (json_int_t)(status.f_bavail * status.f_frsize));
}

json_t *mt_snapshot(void *context)
{
    const struct mt_daemon *daemon = context;
    char now[MT_TIME_TEXT_BYTES];
    json_t *running = json_array(), *devices = json_array();
    add_running(daemon, running, devices);
    json_t *snapshot = json_pack("{s:s, s:s, s:o, s:o, s:o, s:o, s:o}", "time",
                                 mt_time_format(mt_time_unix_microseconds(), now), "version", MT_VERSION,
                                 "jobs", job_counts(daemon), "running", running, "devices", devices, "memory",
                                 memory(), "disk", disk(daemon));
    if (snapshot)
        mt_queue_statistics(daemon->queue, snapshot);
    return snapshot;
}
