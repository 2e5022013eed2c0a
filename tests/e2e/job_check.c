/* Helper of job_schema.py: reads a job document a line from standard input, and answers each with the list of
 * its errors as the API would (an empty list: accepted). */
#include "core/job/job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void)
{
    char *line = NULL;
    size_t capacity = 0;
    for (ssize_t bytes; (bytes = getline(&line, &capacity, stdin)) > 0;) {
        const struct mt_job_context context = {0};
        struct mt_job_errors errors = {0};
        struct mt_error error = {0};
        struct mt_job *job = NULL;
        json_t *document = NULL;
        if (mt_json_parse(line, (size_t)bytes, "line", &document, &error) < 0) {
            fprintf(stderr, "%s\n", error.message);
            return 1;
        }
        mt_job_parse(document, &context, &job, &errors);
        json_t *list = mt_job_errors_json(&errors);
        char *text = json_dumps(list, JSON_COMPACT);
        puts(text);
        free(text);
        json_decref(list);
        json_decref(document);
        mt_job_errors_free(&errors);
        mt_job_free(job);
    }
    free(line);
    return 0;
}
