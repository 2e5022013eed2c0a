/* Parsing of job documents in tests. */
#ifndef MT_TEST_JOB_PARSING_H
#define MT_TEST_JOB_PARSING_H

#include "core/job/job.h"
#include "tests/unit/support.h"

/* A from-scratch job on the data file `data`, with `more` (YAML, may be "") behind it. */
static inline json_t *mt_test_job_document(const char *data, const char *more)
{
    char text[8192];
    struct mt_error error = {0};
    json_t *document = NULL;
    snprintf(text, sizeof text,
             "model: {architecture: llama, hidden_size: 64, num_layers: 2, num_attention_heads: 4}\n"
             "dataset: {path: %s}\n%s",
             data, more);
    mt_assert_ok(mt_yaml_parse(text, strlen(text), "test", &document, NULL, &error), &error);
    return document;
}

static inline struct mt_job *mt_test_job_parse(const json_t *document, const struct mt_job_context *context)
{
    static const struct mt_job_context plain = {0};
    struct mt_job_errors errors = {0};
    struct mt_error error = {0};
    struct mt_job *job = NULL;
    if (mt_job_parse(document, context ? context : &plain, &job, &errors) < 0) {
        mt_job_errors_report(&errors, &error);
        fail_msg("%s", error.message);
    }
    assert_int_equal(errors.count, 0);
    return job;
}

static inline const char *mt_test_job_data(void **state)
{
    const char *path = mt_test_path(state, "data.txt");
    assert_int_equal(mt_file_write_atomic(path, "some text\n", 10, 0644, NULL), 0);
    return path;
}

#endif
