/* series.c: metrics.jsonl and log.jsonl, append only. Resuming from step k keeps rows 1 to k and lets the run
 * write k + 1 again: one row a step, whatever happened in between. */
#include "core/train/series.h"

#include "core/base/cleanup.h"
#include "core/base/file.h"
#include "core/base/time.h"
#include "core/base/utf8_repair.h"

#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct mt_series {
    char *metrics_path, *log_path;
    int metrics_fd, log_fd;
};

/* Offset of the first line that is torn (no line end), not JSON, or of a step past `step`; rows are in order
 * of steps. */
static int keep_until(const char *path, size_t step, off_t *offset, struct mt_error *error)
{
    *offset = 0;
    mt_autofile FILE *file = fopen(path, "re");
    if (!file)
        return errno == ENOENT ? 0 : mt_error_set_errno(error, MT_REASON_IO, "cannot open '%s'", path);
    mt_autofree char *line = NULL;
    size_t capacity = 0;
    ssize_t length;
    while ((length = getline(&line, &capacity, file)) > 0) {
        if (line[length - 1] != '\n')
            break;
        mt_autojson json_t *row = json_loadb(line, (size_t)length, 0, NULL);
        json_t *number = json_object_get(row, "step");
        if (!json_is_integer(number) || json_integer_value(number) > (json_int_t)step)
            break;
        *offset += length;
    }
    return ferror(file) ? mt_error_set_errno(error, MT_REASON_IO, "cannot read '%s'", path) : 0;
}

/* Offset behind the last whole line. */
static int whole_lines(const char *path, off_t *offset, struct mt_error *error)
{
    *offset = 0;
    mt_autofd int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? 0 : mt_error_set_errno(error, MT_REASON_IO, "cannot open '%s'", path);
    off_t end = lseek(fd, 0, SEEK_END);
    char block[4096];
    while (end > 0) {
        size_t bytes = end < (off_t)sizeof block ? (size_t)end : sizeof block;
        if (mt_fd_pread_all(fd, block, bytes, end - (off_t)bytes) < 0)
            return mt_error_set_errno(error, MT_REASON_IO, "cannot read '%s'", path);
        const char *newline = memrchr(block, '\n', bytes);
        if (newline) {
            *offset = end - (off_t)bytes + (newline - block) + 1;
            return 0;
        }
        end -= (off_t)bytes;
    }
    return 0;
}

/* What is there already must be a file: a FIFO or a device would hang whoever reads it. */
static int check_kind(const char *path, struct mt_error *error)
{
    struct stat status;
    if (stat(path, &status) == 0 && !S_ISREG(status.st_mode))
        return mt_error_set(error, -EINVAL, MT_REASON_IO, "'%s' is not a regular file: take it away", path);
    return 0;
}

unsigned mt_series_last_attempt(const char *folder)
{
    mt_autofree char *path = mt_path_join(folder, "metrics.jsonl");
    mt_autofile FILE *file = path && check_kind(path, NULL) == 0 ? fopen(path, "re") : NULL;
    mt_autofree char *line = NULL;
    size_t capacity = 0;
    unsigned attempt = 0;
    for (ssize_t length; file && (length = getline(&line, &capacity, file)) > 0;) {
        mt_autojson json_t *row = json_loadb(line, (size_t)length, 0, NULL);
        json_int_t value = json_integer_value(json_object_get(row, "attempt"));
        if (value > 0 && value < INT_MAX)
            attempt = (unsigned)value;
    }
    return attempt;
}

static int open_at(const char *path, off_t offset, int *fd, struct mt_error *error)
{
    *fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (*fd < 0)
        return mt_error_set_errno(error, MT_REASON_IO, "cannot open '%s' for writing", path);
    if (ftruncate(*fd, offset) != 0)
        return mt_error_set_errno(error, MT_REASON_IO, "cannot cut '%s'", path);
    return 0;
}

int mt_series_open(const char *folder, size_t step, struct mt_series **series, struct mt_error *error)
{
    *series = NULL;
    struct mt_series *opened = calloc(1, sizeof *opened);
    if (!opened)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory for the step series");
    opened->metrics_fd = opened->log_fd = -1;
    opened->metrics_path = mt_path_join(folder, "metrics.jsonl");
    opened->log_path = mt_path_join(folder, "log.jsonl");
    off_t metrics_end, log_end;
    int result = opened->metrics_path && opened->log_path
                     ? 0
                     : mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory for the step series");
    if (result == 0)
        result = check_kind(opened->metrics_path, error);
    if (result == 0)
        result = check_kind(opened->log_path, error);
    if (result == 0)
        result = keep_until(opened->metrics_path, step, &metrics_end, error);
    if (result == 0)
        result = whole_lines(opened->log_path, &log_end, error);
    if (result == 0)
        result = open_at(opened->metrics_path, metrics_end, &opened->metrics_fd, error);
    if (result == 0)
        result = open_at(opened->log_path, log_end, &opened->log_fd, error);
    if (result == 0)
        result = mt_folder_sync(folder, error); /* the names of new files last, too */
    if (result < 0) {
        mt_series_close(opened);
        return result;
    }
    *series = opened;
    return 0;
}

void mt_series_close(struct mt_series *series)
{
    if (!series)
        return;
    if (series->metrics_fd >= 0)
        close(series->metrics_fd);
    if (series->log_fd >= 0)
        close(series->log_fd);
    free(series->metrics_path);
    free(series->log_path);
    free(series);
}

/* One line; a line that the disk cut short is taken back, so that the file never holds half of one. */
static int append_line(int fd, const char *path, const json_t *value, struct mt_error *error)
{
    mt_autofree char *text = value ? json_dumps(value, JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL;
    size_t length = text ? strlen(text) : 0;
    mt_autofree char *line = text ? malloc(length + 1) : NULL;
    if (!line)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory for a line of '%s'", path);
    memcpy(line, text, length);
    line[length] = '\n';
    off_t end = lseek(fd, 0, SEEK_END);
    int result = mt_fd_write_all(fd, line, length + 1);
    if (result < 0) {
        errno = -result;
        result = mt_error_set_errno(error, MT_REASON_IO, "cannot write to '%s'", path);
        if (end >= 0 && ftruncate(fd, end) != 0)
            mt_error_prefix(error, "the line could not be taken back");
    }
    return result;
}

int mt_series_row(struct mt_series *series, const struct mt_step_row *row, struct mt_error *error)
{
    char time[MT_TIME_TEXT_BYTES];
    mt_time_format(mt_time_unix_microseconds(), time);
    double rate = row->step_seconds > 0 ? (double)row->tokens / row->step_seconds : 0;
    mt_autojson json_t *value = json_pack(
        "{s:I, s:f, s:f, s:f, s:f, s:I, s:I, s:f, s:f, s:s, s:I, s:i}", "step", (json_int_t)row->step,
        "epoch", row->epoch, "loss", row->loss, "grad_norm", row->grad_norm, "learning_rate",
        row->learning_rate, "tokens", (json_int_t)row->tokens, "target_tokens",
        (json_int_t)row->target_tokens, "tokens_per_second", rate, "step_seconds", row->step_seconds, "time",
        time, "skipped_steps", (json_int_t)row->skipped_steps, "attempt", (int)row->attempt);
    if (value && row->has_val_loss && isfinite(row->val_loss))
        json_object_set_new(value, "val_loss", json_real(row->val_loss));
    return append_line(series->metrics_fd, series->metrics_path, value, error);
}

int mt_series_log(struct mt_series *series, const char *level, const char *message, const json_t *fields,
                  struct mt_error *error)
{
    char time[MT_TIME_TEXT_BYTES];
    mt_time_format(mt_time_unix_microseconds(), time);
    mt_autofree char *text = strdup(message); /* it may name a file whose name is not UTF-8 */
    mt_autojson json_t *value =
        text ? json_pack("{s:s, s:s, s:s}", "time", time, "level", level, "message", mt_utf8_repair(text))
             : NULL;
    if (value && fields)
        json_object_update_missing(value, (json_t *)(uintptr_t)fields);
    return append_line(series->log_fd, series->log_path, value, error);
}

int mt_series_sync(struct mt_series *series, struct mt_error *error)
{
    if (fdatasync(series->metrics_fd) != 0)
        return mt_error_set_errno(error, MT_REASON_IO, "cannot sync '%s'", series->metrics_path);
    if (fdatasync(series->log_fd) != 0)
        return mt_error_set_errno(error, MT_REASON_IO, "cannot sync '%s'", series->log_path);
    return 0;
}
