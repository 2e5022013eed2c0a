/* Parsing, loading and saving of jobs. */
#include "core/job/job.h"

#include "core/base/cleanup.h"
#include "core/base/file.h"
#include "core/job/reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_JOB_BYTES ((size_t)16 << 20)

/* freeze.c fills a list and then its length. */
_Static_assert(offsetof(struct mt_job, dataset.num_paths) ==
                       offsetof(struct mt_job, dataset.paths) + sizeof(char **) &&
                   offsetof(struct mt_job, training.num_freeze) ==
                       offsetof(struct mt_job, training.freeze) + sizeof(char **) &&
                   offsetof(struct mt_job, num_notes) == offsetof(struct mt_job, notes) + sizeof(char **),
               "the count of a list stands behind it");

static int parse_with(struct mt_job_reader *reader, const json_t *document, struct mt_job *job)
{
    reader->arena = job->arena;
    reader->values = json_object();
    reader->origins = json_object();
    reader->failed = json_object();
    reader->notes = json_array();
    reader->extra = json_object();
    if (!reader->arena || !reader->values || !reader->origins || !reader->failed || !reader->notes)
        return -ENOMEM;
    mt_job_read(reader, document);
    if (json_is_object(document)) {
        mt_job_fill_defaults(reader);
        mt_job_check(reader);
        mt_job_place(reader);
    }
    if (reader->out_of_memory)
        return -ENOMEM;
    return reader->errors->count ? -EINVAL : mt_job_freeze(reader, job);
}

int mt_job_parse(const json_t *document, const struct mt_job_context *context, struct mt_job **job,
                 struct mt_job_errors *errors)
{
    struct mt_job *made = calloc(1, sizeof *made);
    struct mt_job_reader reader = {.context = context, .errors = errors};
    *job = NULL;
    if (!made)
        return -ENOMEM;
    made->arena = mt_arena_new();
    int result = parse_with(&reader, document, made);
    json_decref(reader.values);
    json_decref(reader.origins);
    json_decref(reader.failed);
    json_decref(reader.notes);
    json_decref(reader.extra);
    if (result == -ENOMEM)
        mt_job_errors_free(errors);
    if (result < 0)
        mt_job_free(made);
    else
        *job = made;
    return result;
}

void mt_job_free(struct mt_job *job)
{
    if (!job)
        return;
    json_decref(job->frozen);
    json_decref(job->config);
    mt_arena_free(job->arena);
    free(job);
}

int mt_job_load(const char *path, struct mt_job **job, struct mt_error *error)
{
    const struct mt_job_context context = {.purpose = MT_JOB_LOAD};
    struct mt_job_errors errors = {0};
    mt_autofree char *text = NULL;
    mt_autojson json_t *document = NULL;
    size_t bytes;
    *job = NULL;
    int result = mt_file_read(path, MAX_JOB_BYTES, &text, &bytes, error);
    if (result == 0)
        result = mt_json_parse(text, bytes, path, &document, error);
    if (result < 0)
        return result;
    result = mt_job_parse(document, &context, job, &errors);
    if (result == -ENOMEM)
        mt_error_set(error, result, MT_REASON_OUT_OF_MEMORY, "out of memory while reading %s", path);
    else if (result < 0) {
        mt_job_errors_report(&errors, error);
        mt_error_prefix(error, "%s", path);
    }
    mt_job_errors_free(&errors);
    return result;
}

const json_t *mt_job_frozen(const struct mt_job *job)
{
    return job->frozen;
}

/* 15 digits give back most numbers as people wrote them (0.1, not 0.10000000000000001); 17 give back all. */
char *mt_job_text(const struct mt_job *job)
{
    char *text = json_dumps(job->frozen, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
    mt_autojson json_t *again = text ? json_loads(text, 0, NULL) : NULL;
    if (again && json_equal(again, job->frozen))
        return text;
    free(text);
    return json_dumps(job->frozen, JSON_INDENT(2) | JSON_REAL_PRECISION(17));
}

int mt_job_save(const struct mt_job *job, const char *path, struct mt_error *error)
{
    char *text = mt_job_text(job);
    int result;
    if (!text)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory while writing %s", path);
    size_t bytes = strlen(text);
    text[bytes] = '\n'; /* in place of the zero byte: a text file ends with a newline */
    result = mt_file_write_atomic(path, text, bytes + 1, 0644, error);
    free(text);
    return result;
}

int mt_job_set_micro_batch_size(struct mt_job *job, size_t micro_batch_size)
{
    json_t *training = json_object_get(job->frozen, "training");
    if (json_object_set_new(training, "micro_batch_size", json_integer((json_int_t)micro_batch_size)) < 0)
        return -ENOMEM;
    job->training.micro_batch_size = micro_batch_size;
    return 0;
}

int mt_job_set_model_file(struct mt_job *job, const char *path)
{
    json_t *model = json_object_get(job->frozen, "model");
    const char *kept = mt_arena_strdup(job->arena, path);
    if (!kept || json_object_set_new(model, "path", json_string(path)) < 0)
        return -ENOMEM;
    json_object_del(model, "file");
    job->model.path = kept;
    job->model.file = NULL;
    return 0;
}
