/* What a job's own files say beyond what the daemon heard: after a daemon that died, or lines that were
 * dropped, the files are right. Only their ends are read, so that a long job costs no more than a short one.
 */
#include "core/base/cleanup.h"
#include "core/base/document.h"
#include "core/base/file.h"
#include "core/base/log.h"
#include "core/base/time.h"
#include "daemon/megatraind/run.h"

#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#define TAIL_BYTES ((off_t)1 << 20)

/* The last whole lines of a file: malloc'd, "" when it has none; NULL when it is not there. */
static char *read_tail(const char *path)
{
    mt_autofd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    struct stat status;
    if (fd < 0 || fstat(fd, &status) < 0 || !S_ISREG(status.st_mode))
        return NULL;
    off_t begin = status.st_size > TAIL_BYTES ? status.st_size - TAIL_BYTES : 0;
    size_t bytes = (size_t)(status.st_size - begin);
    mt_autofree char *text = malloc(bytes + 1);
    if (!text || mt_fd_pread_all(fd, text, bytes, begin) < 0)
        return NULL;
    text[bytes] = '\0';
    char *last = memrchr(text, '\n', bytes);
    if (last)
        last[1] = '\0';
    else
        text[0] = '\0'; /* one torn line */
    char *first = begin > 0 ? strchr(text, '\n') : NULL;
    char *lines = strdup(first ? first + 1 : text);
    return lines;
}

static int64_t integer_of(const json_t *row, const char *key)
{
    return (int64_t)json_integer_value(json_object_get(row, key));
}

static void take_row(struct mt_run *run, const json_t *row)
{
    static const char *const copied[] = {
        "step",          "epoch",   "loss", "learning_rate", "grad_norm", "step_seconds", "tokens_per_second",
        "skipped_steps", "val_loss"};
    for (size_t i = 0; i < sizeof copied / sizeof *copied; i++) {
        json_t *value = json_object_get(row, copied[i]);
        if (json_is_number(value))
            json_object_set(run->progress, copied[i], value);
    }
    run->step = integer_of(row, "step");
    run->dirty = true;
}

static void take_metrics(struct mt_run *run)
{
    mt_autofree char *path = mt_path_join(run->folder, "metrics.jsonl");
    mt_autofree char *lines = path ? read_tail(path) : NULL;
    if (!lines)
        return;
    mt_autojson json_t *newest = NULL;
    int64_t steps = 0, tokens = 0, known = run->step;
    for (char *line = lines, *end; (end = strchr(line, '\n')); line = end + 1) {
        json_t *row = NULL;
        if (mt_json_parse(line, (size_t)(end - line), "metrics.jsonl", &row, NULL) < 0)
            continue;
        if (!json_is_integer(json_object_get(row, "step"))) {
            json_decref(row);
            continue;
        }
        if (integer_of(row, "step") > known && integer_of(row, "attempt") == run->attempt) {
            double seconds = json_number_value(json_object_get(row, "step_seconds"));
            steps++;
            tokens += integer_of(row, "tokens") > 0 ? integer_of(row, "tokens") : 0;
            mt_queue_observe(run->daemon->queue, MT_QUEUE_STEP_DURATION, seconds);
        }
        json_decref(newest);
        newest = row;
    }
    if (steps > 0) {
        int64_t before = integer_of(run->progress, "trained_tokens");
        json_object_set_new(run->progress, "trained_tokens", json_integer(before + tokens));
        mt_queue_count_steps(run->daemon->queue, steps, tokens);
    }
    if (newest && integer_of(newest, "step") != known)
        take_row(run, newest);
}

/* "step-00000050" to 50, -1 for any other name. */
static int64_t step_of_name(const char *name)
{
    if (strncmp(name, "step-", 5) != 0 || strlen(name) < 13 || strlen(name) > 20 ||
        strspn(name + 5, "0123456789") != strlen(name + 5))
        return -1;
    return strtoll(name + 5, NULL, 10);
}

/* Nobody has told us that its hashes agree; that every file is there and of its size can be seen. */
static bool files_are_there(const char *folder, const json_t *files)
{
    size_t index;
    json_t *file;
    json_array_foreach(files, index, file)
    {
        const char *name = json_string_value(json_object_get(file, "name"));
        mt_autofree char *path = name ? mt_path_join(folder, name) : NULL;
        struct stat status;
        if (!path || stat(path, &status) < 0 || status.st_size != integer_of(file, "bytes"))
            return false;
    }
    return json_array_size(files) > 0;
}

static void add_checkpoint(struct mt_run *run, const char *folder, int64_t step)
{
    struct mt_error error = {0};
    mt_autofree char *path = mt_path_join(folder, "megatrain/manifest.json");
    mt_autofree char *text = NULL;
    mt_autojson json_t *manifest = NULL;
    size_t bytes;
    if (!path || mt_file_read(path, 16 << 20, &text, &bytes, &error) < 0 ||
        mt_json_parse(text, bytes, path, &manifest, &error) < 0)
        return; /* no checkpoint without a manifest */
    json_t *loss = json_object_get(manifest, "loss");
    const char *created = json_string_value(json_object_get(manifest, "created_at"));
    char now[MT_TIME_TEXT_BYTES];
    struct mt_queue_checkpoint checkpoint = {
        .step = step,
        .path = folder,
        .bytes = integer_of(manifest, "bytes"),
        .loss = json_is_number(loss) ? json_number_value(loss) : NAN,
        .created_at = created ? created : mt_time_format(mt_time_unix_microseconds(), now),
        .verified = files_are_there(folder, json_object_get(manifest, "files")),
    };
    if (mt_queue_add_checkpoint(run->daemon->queue, run->worker.job_id, &checkpoint, &error) < 0)
        mt_log(LOG_WARNING, "job %s: %s", run->worker.job_id, error.message);
}

static bool list_has_step(const json_t *list, int64_t step)
{
    size_t index;
    json_t *entry;
    json_array_foreach(list, index, entry)
    {
        if (integer_of(entry, "step") == step)
            return true;
    }
    return false;
}

void mt_run_reconcile_checkpoints(struct mt_run *run)
{
    struct mt_error error = {0};
    mt_autojson json_t *known = NULL;
    mt_autofree char *folder = mt_path_join(run->folder, "checkpoints");
    if (!folder || mt_queue_checkpoints(run->daemon->queue, run->worker.job_id, &known, &error) < 0)
        return;
    size_t index;
    json_t *entry;
    json_array_foreach(known, index, entry)
    {
        const char *path = json_string_value(json_object_get(entry, "path"));
        if (path && !mt_path_exists(path))
            mt_queue_drop_checkpoint(run->daemon->queue, run->worker.job_id, integer_of(entry, "step"), NULL);
    }
    DIR *directory = opendir(folder);
    if (!directory)
        return;
    for (struct dirent *item; (item = readdir(directory));) {
        int64_t step = step_of_name(item->d_name);
        if (step < 0 || list_has_step(known, step))
            continue;
        mt_autofree char *path = mt_path_join(folder, item->d_name);
        if (path)
            add_checkpoint(run, path, step);
    }
    closedir(directory);
}

void mt_run_take_over_files(struct mt_run *run)
{
    take_metrics(run);
    mt_run_reconcile_checkpoints(run);
}
