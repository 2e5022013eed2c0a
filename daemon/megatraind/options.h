/* The daemon's settings, from its command line and from its configuration file; one table has them all. */
#ifndef MT_MEGATRAIND_OPTIONS_H
#define MT_MEGATRAIND_OPTIONS_H

#include "core/base/error.h"

#include <stdbool.h>
#include <stddef.h>

#define MT_OPTIONS_DEFAULT_CONFIG "/etc/megatrain/megatraind.conf"
#define MT_OPTIONS_DEFAULT_TCP "127.0.0.1:8642"
#define MT_OPTIONS_DEFAULT_UNIX "unix:/run/megatrain/api.sock"

struct mt_string_list {
    char **items; /* [count] */
    size_t count;
};

struct mt_options {
    char *state_dir;
    struct mt_string_list listen; /* empty: the default listeners */
    struct mt_string_list allow_path;
    struct mt_string_list allow_host;
    bool allow_download; /* models and data that jobs name may be fetched from a hub */
    double workers;      /* whole: jobs that run at a time */
    char *token_file;
    double restart_limit; /* whole: deaths of a worker without a new step that are forgiven */
    double restart_delay; /* seconds before the first restart; doubles with each */
    double stall_timeout; /* seconds without a word from a worker; 0: for ever */
    double save_grace;    /* seconds that a worker has to save and end when asked to */
    double kill_grace;    /* seconds between SIGTERM and SIGKILL */
    double stop_grace;    /* seconds that the daemon has to stop */
    char *log_level;
};

enum mt_options_verdict {
    MT_OPTIONS_RUN,
    MT_OPTIONS_EXIT, /* --help or --version has been printed */
    MT_OPTIONS_FAIL, /* `error` says why: MT_REASON_USAGE (64) or MT_REASON_BAD_JOB (78) */
};

/* Reads the command line, then the configuration file under it: a flag wins over the file, except that
 * allow_path of both counts. */
enum mt_options_verdict mt_options_read(int argc, char **argv, struct mt_options *options,
                                        struct mt_error *error);
void mt_options_free(struct mt_options *options);

/* Sets one key ("state_dir") to a value as text; the error names neither file nor flag. */
int mt_options_set(struct mt_options *options, const char *key, const char *value, struct mt_error *error);

/* Reads an INI file into `options`; keys that `given` names (may be NULL) are checked and not taken. The
 * error begins with "<path>: line N: ". */
int mt_options_read_file(const char *path, struct mt_options *options, bool (*given)(const char *key, void *),
                         void *context, struct mt_error *error);

#endif
