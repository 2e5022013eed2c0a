/* The job document of a command line: a file, then each --set in turn and --data-path. */
#ifndef MT_CLI_JOB_FILE_H
#define MT_CLI_JOB_FILE_H

#include "core/base/document.h"
#include "core/job/job.h"

#include <jansson.h>
#include <stddef.h>

#define MT_JOB_FILE_SETS 256

struct mt_job_file {        /* starts as {0} */
    const char *file;       /* YAML or JSON */
    const json_t *document; /* instead of the file's contents, or NULL */
    const char *sets[MT_JOB_FILE_SETS];
    size_t num_sets;
    const char *data_path; /* or NULL */
    bool allow_download;
};

/* The options of job files, for a command's table of long options, which may take any of them. */
enum {
    MT_JOB_OPTION_CONFIG = 160, /* past all letters, before a command's own, from 256 */
    MT_JOB_OPTION_DATA_PATH,
    MT_JOB_OPTION_SET,
    MT_JOB_OPTION_ALLOW_DOWNLOAD,
};

#define MT_JOB_OPTIONS_CHANGES                                                                               \
    {"data-path", required_argument, NULL, MT_JOB_OPTION_DATA_PATH},                                         \
    {                                                                                                        \
        "set", required_argument, NULL, MT_JOB_OPTION_SET                                                    \
    }

/* Takes one of them with its value. 0, or the exit code after a complaint, also for an option that is none of
 * them: the last word of a command's switch. */
int mt_job_file_option(struct mt_job_file *from, const char *command, int option, const char *value);

/* The document; `*lines` (may come back NULL) are the file's. 0 or, after a complaint, the exit code. */
int mt_job_file_document(const struct mt_job_file *from, json_t **document, struct mt_lines **lines);

/* The job; one without a name is called `name`, or with NULL after the file. 0 or, after all complaints, the
 * exit code. */
int mt_job_file_parse(const struct mt_job_file *from, enum mt_job_purpose purpose, const char *name,
                      struct mt_job **job);

/* All errors of a document, one a line with file and line or the option at fault; returns the exit code.
 * `lines` are the file's, or NULL. */
int mt_job_file_complain(const struct mt_job_file *from, const struct mt_lines *lines,
                         const struct mt_job_errors *errors);

/* "contracts" for "jobs/contracts.yaml", with what a name may not hold replaced; malloc'd or NULL. */
char *mt_job_file_name(const char *file);

#endif
