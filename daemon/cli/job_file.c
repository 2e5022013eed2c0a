/* Reading the job document of a command line, and saying what is wrong with it. */
#include "daemon/cli/job_file.h"

#include "core/base/cleanup.h"
#include "daemon/cli/cli.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int mt_job_file_option(struct mt_job_file *from, const char *command, int option, const char *value)
{
    switch (option) {
    case MT_JOB_OPTION_CONFIG:
        from->file = value;
        return 0;
    case MT_JOB_OPTION_DATA_PATH:
        from->data_path = value;
        return 0;
    case MT_JOB_OPTION_ALLOW_DOWNLOAD:
        from->allow_download = true;
        return 0;
    case MT_JOB_OPTION_SET:
        if (from->num_sets == MT_JOB_FILE_SETS)
            return mt_cli_usage(command, "more than %d --set; write them into the document",
                                MT_JOB_FILE_SETS);
        from->sets[from->num_sets++] = value;
        return 0;
    default: /* complained of by mt_cli_option */
        return mt_reason_exit_code(MT_REASON_USAGE);
    }
}

/* A model, or a folder, where a job is expected: said as that, and not as a fault in its YAML. */
static int not_a_job(const char *file, int result, struct mt_error *error)
{
    unsigned char start[64];
    struct stat status;
    mt_autofd int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    const bool folder = fd >= 0 && fstat(fd, &status) == 0 && S_ISDIR(status.st_mode);
    const ssize_t got = fd >= 0 && !folder ? pread(fd, start, sizeof start, 0) : 0;
    if (!folder && (got <= 0 || !memchr(start, 0, (size_t)got)))
        return result;
    return mt_error_set(error, result, MT_REASON_BAD_JOB,
                        "%s is %s and no job: a job is a YAML or JSON file, which names a model's file or "
                        "folder as model.path",
                        file, folder ? "a folder" : "not a text");
}

int mt_job_file_document(const struct mt_job_file *from, json_t **document, struct mt_lines **lines)
{
    struct mt_error error = {0};
    *document = NULL;
    *lines = NULL;
    int result = 0;
    if (!from->document) {
        result = mt_document_read(from->file, document, lines, &error);
        if (result < 0)
            result = not_a_job(from->file, result, &error);
    }
    if (from->document && !(*document = json_deep_copy(from->document)))
        result = mt_error_set(&error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory");
    for (size_t i = 0; result == 0 && i < from->num_sets; i++)
        result = mt_job_set(*document, from->sets[i], &error);
    if (result == 0 && from->data_path)
        result = mt_job_set_data_path(*document, from->data_path, &error);
    if (result == 0)
        return 0;
    json_decref(*document);
    mt_lines_free(*lines);
    *document = NULL;
    *lines = NULL;
    return mt_cli_fail(&error);
}

int mt_job_file_parse(const struct mt_job_file *from, enum mt_job_purpose purpose, const char *name,
                      struct mt_job **job)
{
    mt_autojson json_t *document = NULL;
    struct mt_lines *lines = NULL;
    int code = mt_job_file_document(from, &document, &lines);
    if (code == 0) {
        mt_autofree char *hub_cache = mt_job_hub_cache();
        mt_autofree char *lm_studio = mt_job_lm_studio();
        mt_autofree char *ollama_store = mt_job_ollama_store();
        mt_autofree char *own_name = name ? strdup(name) : mt_job_file_name(from->file);
        const struct mt_job_context context = {.purpose = purpose,
                                               .allow_download = from->allow_download,
                                               .hub_cache = hub_cache,
                                               .lm_studio = lm_studio,
                                               .ollama_store = ollama_store,
                                               .default_name = own_name,
                                               .lines = lines};
        struct mt_job_errors errors = {0};
        if (mt_job_parse(document, &context, job, &errors) < 0)
            code = mt_job_file_complain(from, lines, &errors);
        mt_job_errors_free(&errors);
    }
    mt_lines_free(lines);
    return code;
}

char *mt_job_file_name(const char *file)
{
    const char *slash = strrchr(file, '/');
    char *name = strdup(slash ? slash + 1 : file);
    char *dot = name ? strrchr(name, '.') : NULL;
    if (dot && dot != name)
        *dot = '\0';
    for (char *c = name; c && *c; c++) {
        if (!isalnum((unsigned char)*c) && !strchr("._-", *c))
            *c = '-';
    }
    if (name && *name == '.')
        *name = '-';
    if (name && strlen(name) > 128)
        name[128] = '\0';
    return name;
}

/* Whether `key` of a --set, of so many bytes, gave what is at `place`: the value itself, one around it, or
 * one within it where the file has nothing at that place. */
static bool gave(const char *key, size_t bytes, const char *place, bool in_file)
{
    const size_t length = strlen(place);
    if (bytes <= length)
        return memcmp(key, place, bytes) == 0 && (place[bytes] == '.' || place[bytes] == '\0');
    return !in_file && length > 0 && memcmp(key, place, length) == 0 && key[length] == '.';
}

/* Whether the command line gave what is wrong at `pointer`, "/a/b": by an option, written into `option`. */
static bool set_by_option(const struct mt_job_file *from, const char *pointer, const struct mt_lines *lines,
                          char *option, size_t bytes)
{
    char place[256];
    const bool in_file = !lines || mt_lines_find(lines, pointer) > 0;
    snprintf(place, sizeof place, "%s", *pointer ? pointer + 1 : "");
    for (char *slash = place; (slash = strchr(slash, '/')) != NULL;)
        *slash = '.';
    if (from->data_path && strcmp(place, "dataset.path") == 0)
        return snprintf(option, bytes, "--data-path"), true;
    for (size_t i = from->num_sets; i-- > 0;) { /* the last one holds */
        const size_t length = strcspn(from->sets[i], "=");
        if (gave(from->sets[i], length, place, in_file))
            return snprintf(option, bytes, "--set %.*s", (int)length, from->sets[i]), true;
    }
    return false;
}

int mt_job_file_complain(const struct mt_job_file *from, const struct mt_lines *lines,
                         const struct mt_job_errors *errors)
{
    struct mt_error summary = {0};
    for (size_t i = 0; i < errors->count; i++) {
        const struct mt_job_error *item = &errors->items[i];
        char place[32] = "", option[300];
        if (set_by_option(from, item->pointer, lines, option, sizeof option)) {
            fprintf(stderr, "%s: %s\n", option, item->detail);
            continue;
        }
        if (item->line > 0)
            snprintf(place, sizeof place, ":%d", item->line);
        fprintf(stderr, "%s%s: %s%s%s\n", from->file ? from->file : "job", place, item->pointer,
                *item->pointer ? ": " : "", item->detail);
    }
    mt_job_errors_report(errors, &summary);
    mt_cli_complain("%zu error%s in the job", errors->count, errors->count == 1 ? "" : "s");
    return mt_reason_exit_code(summary.reason);
}
