/* job_files.c: pages of rows out of a job's files, and the list of its checkpoints. The rows go out as the
 * worker wrote them, byte for byte. */
#include "api/job_files.h"

#include "api/log_stream.h"
#include "api/problem.h"
#include "api/router.h"
#include "api/rows.h"
#include "api/server.h"
#include "core/base/cleanup.h"
#include "core/base/document.h"
#include "core/base/file.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define PAGE_BYTES ((size_t)8 << 20)      /* a page ends early here, with has_more */
#define MANIFEST_BYTES ((size_t)16 << 20) /* of a checkpoint */

/* The job's folder, malloc'd; NULL after answering. */
static char *folder_of(struct mt_request *request)
{
    const struct mt_control *control = request->listener->api->control;
    char *folder = control->job_folder(control->context, request->path_value);
    if (!folder)
        mt_problem(request, 404, "There is no job %s.", request->path_value);
    return folder;
}

static int open_rows(struct mt_request *request, struct mt_rows *rows, const char *folder, const char *name)
{
    int result = mt_rows_open(rows, folder, name);
    if (result < 0)
        mt_problem(request, 500, "Cannot read %s of the job: %s.", name, strerror(-result));
    return result;
}

static void append_row(struct mt_text *text, size_t count, const struct mt_row *row)
{
    mt_text_puts(text, count > 0 ? "," : "");
    mt_text_append(text, row->text, row->bytes);
}

void mt_job_metrics(struct mt_request *request)
{
    mt_autofree char *folder = folder_of(request);
    struct mt_rows rows;
    if (!folder || open_rows(request, &rows, folder, "metrics.jsonl") < 0)
        return;
    long long last_step = mt_router_number(request, "since_step");
    size_t limit = (size_t)mt_router_number(request, "limit"), count = 0;
    bool has_more = false;
    struct mt_text text = {0};
    struct mt_row row;
    mt_rows_seek_step(&rows, last_step);
    mt_text_puts(&text, "{\"data\":[");
    while (!has_more && mt_rows_next(&rows, &row)) {
        long long step = mt_row_step(&row);
        if (step > last_step) {
            has_more = count == limit || text.bytes > PAGE_BYTES;
            if (!has_more)
                append_row(&text, count++, &row);
            last_step = step;
        }
        json_decref(row.value);
    }
    mt_text_puts(&text, has_more ? "],\"has_more\":true}\n" : "],\"has_more\":false}\n");
    mt_rows_close(&rows);
    mt_reply_text(request, 200, "application/json", &text);
}

/* ---- logs ---- */

/* A cursor is the byte offset of the next line, with a letter before it so that nobody takes it for a number
 * of lines. */
static bool parse_cursor(const char *text, off_t *offset)
{
    if (text[0] != 'b' || text[1] == '\0' || strlen(text) > 18 || text[1 + strspn(text + 1, "0123456789")])
        return false;
    *offset = (off_t)strtoll(text + 1, NULL, 10);
    return true;
}

static void log_page(struct mt_request *request, struct mt_rows *rows)
{
    size_t limit = (size_t)mt_router_number(request, "limit"), count = 0;
    bool has_more = false;
    struct mt_text text = {0};
    struct mt_row row;
    off_t next = rows->offset;
    mt_text_puts(&text, "{\"data\":[");
    while (!has_more && mt_rows_next(rows, &row)) {
        has_more = count == limit || text.bytes > PAGE_BYTES;
        if (!has_more) {
            append_row(&text, count++, &row);
            next = rows->offset;
        }
        json_decref(row.value);
    }
    mt_text_printf(&text, "],\"has_more\":%s,\"next\":\"b%lld\"}\n", has_more ? "true" : "false",
                   (long long)next);
    mt_reply_text(request, 200, "application/json", &text);
}

void mt_job_logs(struct mt_request *request)
{
    static const char *const types[] = {"application/json", "text/plain", "application/x-ndjson", NULL};
    enum { JSON, PLAIN };
    mt_autofree char *folder = folder_of(request);
    const char *after = mt_request_parameter(request, "after");
    size_t type = mt_request_accepts(request, types);
    bool follow = mt_router_number(request, "follow") != 0;
    off_t offset = 0;
    struct mt_rows rows;
    if (!folder || open_rows(request, &rows, folder, "log.jsonl") < 0)
        return;
    if (after && (!parse_cursor(after, &offset) || !mt_rows_is_start(&rows, offset)))
        mt_problem(request, 400, "'after' is not a cursor that this log gave out.");
    mt_rows_seek(&rows, offset);
    if (!request->response && (follow || type != JSON)) {
        struct mt_stream stream;
        if (mt_log_stream_new(request->listener->api->control, request->path_value, &rows, type == PLAIN,
                              follow, &stream) == 0)
            mt_reply_stream(request, type == PLAIN ? "text/plain; charset=utf-8" : "application/x-ndjson",
                            &stream);
    } else if (!request->response) {
        log_page(request, &rows);
    }
    mt_rows_close(&rows);
}

/* ---- checkpoints ---- */

static bool parse_step(const char *name, long long *step)
{
    if (strncmp(name, "step-", 5) != 0 || name[5] < '0' || name[5] > '9')
        return false;
    char *end;
    errno = 0;
    *step = strtoll(name + 5, &end, 10);
    return errno == 0 && *end == '\0';
}

/* Every file that the manifest names is there at its size. The hashes are checked by who loads it. */
static bool files_are_there(const char *folder, const json_t *manifest)
{
    size_t i;
    json_t *file, *files = json_object_get(manifest, "files");
    if (!json_is_array(files))
        return false;
    json_array_foreach(files, i, file)
    {
        const char *name = json_string_value(json_object_get(file, "name"));
        json_t *bytes = json_object_get(file, "bytes");
        struct stat status;
        mt_autofree char *path = name ? mt_path_join(folder, name) : NULL;
        if (!path || !json_is_integer(bytes) || stat(path, &status) != 0 || !S_ISREG(status.st_mode) ||
            status.st_size != (off_t)json_integer_value(bytes))
            return false;
    }
    return true;
}

/* NULL when out of memory. */
static json_t *checkpoint_object(const char *folder, long long step)
{
    mt_autofree char *path = mt_path_join(folder, "megatrain/manifest.json");
    mt_autofree char *text = NULL;
    mt_autojson json_t *manifest = NULL;
    size_t bytes = 0;
    if (path && mt_file_read(path, MANIFEST_BYTES, &text, &bytes, NULL) == 0)
        mt_json_parse(text, bytes, "manifest.json", &manifest, NULL);
    json_t *size = json_object_get(manifest, "bytes"), *loss = json_object_get(manifest, "loss"),
           *created_at = json_object_get(manifest, "created_at");
    return json_pack("{s:I, s:s, s:O, s:O, s:O, s:b}", "step", (json_int_t)step, "path", folder, "bytes",
                     size ? size : json_null(), "loss", loss ? loss : json_null(), "created_at",
                     created_at ? created_at : json_null(), "verified",
                     manifest ? files_are_there(folder, manifest) : false);
}

static int newest_first(const void *a, const void *b)
{
    long long x = *(const long long *)a, y = *(const long long *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

/* The steps that have a checkpoint, newest first, malloc'd. */
static long long *checkpoint_steps(const char *folder, size_t *count)
{
    long long *steps = NULL, step;
    *count = 0;
    DIR *directory = opendir(folder);
    for (struct dirent *entry; directory && (entry = readdir(directory));) {
        if (!parse_step(entry->d_name, &step))
            continue;
        long long *grown = realloc(steps, (*count + 1) * sizeof *steps);
        if (!grown)
            break;
        steps = grown;
        steps[(*count)++] = step;
    }
    if (directory)
        closedir(directory);
    if (*count > 1)
        qsort(steps, *count, sizeof *steps, newest_first);
    return steps;
}

json_t *mt_job_checkpoint_list(const char *folder, size_t most)
{
    mt_autofree char *checkpoints = mt_path_join(folder, "checkpoints");
    if (!checkpoints)
        return NULL;
    size_t count;
    mt_autofree long long *steps = checkpoint_steps(checkpoints, &count);
    json_t *data = json_array();
    for (size_t i = 0; i < count && i < most; i++) {
        char name[40];
        snprintf(name, sizeof name, "step-%08lld", steps[i]);
        mt_autofree char *path = mt_path_join(checkpoints, name);
        json_array_append_new(data, path ? checkpoint_object(path, steps[i]) : NULL);
    }
    return data;
}

void mt_job_checkpoints(struct mt_request *request)
{
    mt_autofree char *folder = folder_of(request);
    mt_autojson json_t *data = folder ? mt_job_checkpoint_list(folder, SIZE_MAX) : NULL;
    if (!data)
        return;
    mt_autojson json_t *page = json_pack("{s:O, s:b, s:n}", "data", data, "has_more", 0, "next");
    mt_reply_json(request, 200, page);
}
