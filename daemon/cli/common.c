/* Messages, options and documents of the command line. */
#include "core/base/cleanup.h"
#include "daemon/cli/cli.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void mt_cli_complain(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("megatrain: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
}

int mt_cli_fail(const struct mt_error *error)
{
    mt_cli_complain("%s", error->message);
    int code = mt_reason_exit_code(error->reason);
    return code ? code : 70;
}

int mt_cli_usage(const char *command, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    mt_cli_complain("%s: %s; see megatrain %s --help", command, text, command);
    return 64;
}

static const struct option *find_option(const struct option *options, int letter)
{
    for (; options->name; options++) {
        if (options->val == letter)
            return options;
    }
    return NULL;
}

int mt_cli_option(int argc, char **argv, const char *letters, const struct option *options)
{
    char quiet[64];
    snprintf(quiet, sizeof quiet, ":%s", letters); /* getopt keeps still, and tells ':' from '?' */
    int letter = getopt_long(argc, argv, quiet, options, NULL);
    if (letter == ':') {
        const struct option *option = find_option(options, optopt);
        mt_cli_usage(argv[0], "the option %s%s needs a value", option ? "--" : "",
                     option ? option->name : argv[optind - 1]);
        return '?';
    }
    if (letter == '?')
        mt_cli_usage(argv[0], "unknown option %s", argv[optind - 1]);
    return letter;
}

bool mt_cli_number(const char *option, const char *text, long minimum, long maximum, long *number)
{
    char *end;
    errno = 0;
    *number = strtol(text, &end, 10);
    if (errno == 0 && end != text && *end == '\0' && *number >= minimum && *number <= maximum)
        return true;
    mt_cli_complain("%s takes a whole number from %ld to %ld, found \"%s\"", option, minimum, maximum, text);
    return false;
}

int mt_cli_read_document(const struct mt_cli_document *from, json_t **document, struct mt_lines **lines)
{
    struct mt_error error = {0};
    *document = NULL;
    *lines = NULL;
    int result = 0;
    if (from->file)
        result = mt_document_read(from->file, document, lines, &error);
    else if (!(*document = json_object()))
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

char *mt_cli_name_of_file(const char *file)
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

/* Whether the command line gave the value at `pointer`, "/a/b": by an option (into `option`) and not in the
 * file. */
static bool set_by_option(const struct mt_cli_document *from, const char *pointer, char *option, size_t bytes)
{
    char key[256];
    snprintf(key, sizeof key, "%s", *pointer ? pointer + 1 : "");
    for (char *slash = key; (slash = strchr(slash, '/')) != NULL;)
        *slash = '.';
    if (from->data_path && strcmp(key, "dataset.path") == 0)
        return snprintf(option, bytes, "--data-path"), true;
    for (size_t i = 0; i < from->num_sets; i++) {
        size_t length = strcspn(from->sets[i], "=");
        if (strlen(key) == length && memcmp(key, from->sets[i], length) == 0)
            return snprintf(option, bytes, "--set %s", key), true;
    }
    return false;
}

int mt_cli_complain_about_job(const struct mt_cli_document *from, const struct mt_job_errors *errors)
{
    struct mt_error summary = {0};
    for (size_t i = 0; i < errors->count; i++) {
        const struct mt_job_error *item = &errors->items[i];
        char place[32] = "", option[300];
        if (set_by_option(from, item->pointer, option, sizeof option)) {
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
