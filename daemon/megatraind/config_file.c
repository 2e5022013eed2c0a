/* The configuration file: INI, read by inih, with errors that name the line. */
#include "core/base/cleanup.h"
#include "daemon/megatraind/options.h"

#include <errno.h>
#include <ini.h>
#include <stdio.h>
#include <string.h>

struct reading {
    struct mt_options *options;
    bool (*given)(const char *key, void *context);
    void *context;
    struct mt_options ignored; /* takes what a flag overrides, so that it is checked all the same */
    char single[32][32];       /* keys seen that may stand only once */
    size_t num_single;
    FILE *file;
    int line;
    int failed_line; /* 0: none */
    struct mt_error *error;
};

static int fail(struct reading *reading)
{
    if (!reading->failed_line)
        reading->failed_line = reading->line;
    return 0; /* inih's "error" */
}

static bool seen_before(struct reading *reading, const char *key)
{
    if (strcmp(key, "listen") == 0 || strncmp(key, "allow_", 6) == 0)
        return false;
    for (size_t i = 0; i < reading->num_single; i++)
        if (strcmp(reading->single[i], key) == 0)
            return true;
    if (reading->num_single < sizeof reading->single / sizeof *reading->single)
        snprintf(reading->single[reading->num_single++], sizeof *reading->single, "%s", key);
    return false;
}

static int on_value(void *context, const char *section, const char *name, const char *value)
{
    struct reading *reading = context;
    if (reading->failed_line)
        return 0;
    if (*section && strcmp(section, "megatraind") != 0) {
        mt_error_set(reading->error, -EINVAL, MT_REASON_BAD_JOB,
                     "unknown section [%s]; all keys stand in [megatraind]", section);
        return fail(reading);
    }
    if (seen_before(reading, name)) {
        mt_error_set(reading->error, -EINVAL, MT_REASON_BAD_JOB, "%s stands here a second time", name);
        return fail(reading);
    }
    bool given = reading->given && reading->given(name, reading->context);
    if (mt_options_set(given ? &reading->ignored : reading->options, name, value ? value : "",
                       reading->error) < 0)
        return fail(reading);
    return 1;
}

/* fgets that counts lines, since inih reports them only at its end, and refuses what inih would cut in two.
 */
static char *read_line(char *buffer, int size, void *stream)
{
    struct reading *reading = stream;
    if (reading->failed_line || !fgets(buffer, size, reading->file))
        return NULL;
    reading->line++;
    size_t length = strlen(buffer);
    if (length + 1 == (size_t)size && buffer[length - 1] != '\n') {
        mt_error_set(reading->error, -EINVAL, MT_REASON_BAD_JOB, "the line is longer than %d bytes",
                     size - 2);
        fail(reading);
        return NULL;
    }
    return buffer;
}

int mt_options_read_file(const char *path, struct mt_options *options, bool (*given)(const char *key, void *),
                         void *context, struct mt_error *error)
{
    mt_autofile FILE *file = fopen(path, "re");
    if (!file)
        return mt_error_set_errno(error, MT_REASON_BAD_JOB, "cannot read the configuration %s", path);
    struct mt_error local = {0};
    struct reading reading = {.options = options,
                              .given = given,
                              .context = context,
                              .file = file,
                              .error = error ? error : &local};
    int line = ini_parse_stream(read_line, &reading, on_value, &reading);
    mt_options_free(&reading.ignored);
    if (ferror(file))
        return mt_error_set(error, -EIO, MT_REASON_BAD_JOB, "cannot read the configuration %s: %s", path,
                            strerror(EIO));
    if (reading.failed_line)
        return mt_error_prefix(reading.error, "%s: line %d", path, reading.failed_line);
    if (line > 0)
        return mt_error_set(error, -EINVAL, MT_REASON_BAD_JOB,
                            "%s: line %d: neither a [section], nor key = value, nor a comment", path, line);
    if (line < 0)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory while reading %s", path);
    return 0;
}
