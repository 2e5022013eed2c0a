/* One table has every setting: its key in the file, its flag, its range, its help. */
#include "daemon/megatraind/options.h"

#include "core/base/cleanup.h"
#include "core/base/log.h"
#include "core/base/nearest.h"
#include "core/base/version.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind { TEXT, LIST, WHOLE, SECONDS, SWITCH };

struct setting {
    const char *key; /* "state_dir"; the flag is --state-dir */
    enum kind kind;
    size_t offset;
    double minimum, maximum;
    const char *placeholder;
    const char *initial; /* NULL: nothing */
    const char *help;
};

#define FIELD(name) offsetof(struct mt_options, name)

static const struct setting settings[] = {
    {"state_dir", TEXT, FIELD(state_dir), 0, 0, "DIR", "/var/lib/megatrain",
     "where jobs, models, data sets and the database stand"},
    {"listen", LIST, FIELD(listen), 0, 0, "ADDRESS", NULL,
     "ADDRESS:PORT or unix:PATH; repeatable; replaces both default\n"
     "listeners (127.0.0.1:8642 and unix:/run/megatrain/api.sock);\n"
     "port 0 takes a free one, written to <state-dir>/listen"},
    {"allow_path", LIST, FIELD(allow_path), 0, 0, "DIR", NULL,
     "a folder in which jobs may name models and data sets, besides\n"
     "the state folder's own models/ and datasets/; repeatable"},
    {"allow_host", LIST, FIELD(allow_host), 0, 0, "NAME", NULL,
     "a name by which clients may call this machine (Host header),\n"
     "besides localhost, its own name and its addresses; repeatable"},
    {"allow_download", SWITCH, FIELD(allow_download), 0, 0, "", NULL,
     "models that jobs name as Org/Model and that are not here are\n"
     "fetched from the hub (HF_ENDPOINT, HF_TOKEN) into models/,\n"
     "data sets with hf_hub_url into the hub's cache (HF_HOME)"},
    {"workers", WHOLE, FIELD(workers), 1, 64, "N", "1", "jobs that run at the same time"},
    {"token_file", TEXT, FIELD(token_file), 0, 0, "FILE", NULL,
     "a file with the bearer token that clients must send; without\n"
     "one only loopback and Unix listeners are allowed"},
    {"restart_limit", WHOLE, FIELD(restart_limit), 0, 1000, "N", "5",
     "how often a worker that died is started again without having\n"
     "made a new step"},
    {"restart_delay", SECONDS, FIELD(restart_delay), 0, 3600, "SECONDS", "1",
     "before the first restart; doubles with each further one"},
    {"stall_timeout", SECONDS, FIELD(stall_timeout), 0, 604800, "SECONDS", "600",
     "a worker that says nothing for so long is ended and started\n"
     "again; 0: never"},
    {"save_grace", SECONDS, FIELD(save_grace), 0, 86400, "SECONDS", "120",
     "that a worker has to save and end after a pause"},
    {"kill_grace", SECONDS, FIELD(kill_grace), 0, 3600, "SECONDS", "3",
     "that a worker has between SIGTERM and SIGKILL"},
    {"stop_grace", SECONDS, FIELD(stop_grace), 0, 86400, "SECONDS", "30",
     "that the daemon has to stop: workers save in it"},
    {"log_level", TEXT, FIELD(log_level), 0, 0, "LEVEL", "info", "error, warning, info or debug"},
};
#define NUM_SETTINGS (sizeof settings / sizeof *settings)

static const struct setting *find_setting(const char *key)
{
    for (size_t i = 0; i < NUM_SETTINGS; i++)
        if (strcmp(settings[i].key, key) == 0)
            return &settings[i];
    return NULL;
}

static void *field_of(struct mt_options *options, const struct setting *setting)
{
    return (char *)options + setting->offset;
}

static int out_of_memory(struct mt_error *error)
{
    return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "out of memory");
}

static int append(struct mt_string_list *list, const char *value, struct mt_error *error)
{
    char **items = realloc(list->items, (list->count + 1) * sizeof *items);
    if (!items)
        return out_of_memory(error);
    list->items = items;
    items[list->count] = strdup(value);
    if (!items[list->count])
        return out_of_memory(error);
    list->count++;
    return 0;
}

static int set_number(const struct setting *setting, const char *value, double *number,
                      struct mt_error *error)
{
    char *end;
    errno = 0;
    double parsed = strtod(value, &end);
    if (end == value || *end != '\0' || errno || !isfinite(parsed))
        return mt_error_set(error, -EINVAL, MT_REASON_BAD_JOB, "%s takes a number, not \"%s\"", setting->key,
                            value);
    if (setting->kind == WHOLE && parsed != floor(parsed))
        return mt_error_set(error, -EINVAL, MT_REASON_BAD_JOB, "%s takes a whole number, not \"%s\"",
                            setting->key, value);
    if (parsed < setting->minimum || parsed > setting->maximum)
        return mt_error_set(error, -ERANGE, MT_REASON_BAD_JOB, "%s must be from %g to %g, not %s",
                            setting->key, setting->minimum, setting->maximum, value);
    *number = parsed;
    return 0;
}

static int set_switch(const struct setting *setting, const char *value, bool *on, struct mt_error *error)
{
    static const char *const words[][2] = {{"yes", "no"}, {"true", "false"}, {"on", "off"}, {"1", "0"}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        for (size_t k = 0; k < 2; k++)
            if (strcmp(value, words[i][k]) == 0) {
                *on = k == 0;
                return 0;
            }
    return mt_error_set(error, -EINVAL, MT_REASON_BAD_JOB, "%s takes yes or no, not \"%s\"", setting->key,
                        value);
}

static const struct setting *nearest_setting(const char *key)
{
    const struct setting *best = NULL;
    struct mt_nearest nearest = {key, 4};
    for (size_t i = 0; i < NUM_SETTINGS; i++) {
        if (mt_nearest_is(&nearest, settings[i].key))
            best = &settings[i];
    }
    return best;
}

int mt_options_set(struct mt_options *options, const char *key, const char *value, struct mt_error *error)
{
    const struct setting *setting = find_setting(key);
    if (!setting) {
        const struct setting *nearest = nearest_setting(key);
        return mt_error_set(error, -EINVAL, MT_REASON_BAD_JOB, "unknown key \"%s\"%s%s%s", key,
                            nearest ? "; did you mean \"" : "", nearest ? nearest->key : "",
                            nearest ? "\"?" : "");
    }
    if (setting->kind == SWITCH)
        return set_switch(setting, value, field_of(options, setting), error);
    if (setting->kind == WHOLE || setting->kind == SECONDS)
        return set_number(setting, value, field_of(options, setting), error);
    if (!*value)
        return mt_error_set(error, -EINVAL, MT_REASON_BAD_JOB, "%s needs a value", key);
    if (setting->kind == LIST)
        return append(field_of(options, setting), value, error);
    if (strcmp(key, "log_level") == 0 && mt_log_level_parse(value) < 0)
        return mt_error_set(error, -EINVAL, MT_REASON_BAD_JOB,
                            "log_level is error, warning, info or debug, not \"%s\"", value);
    char **field = field_of(options, setting);
    free(*field);
    *field = strdup(value);
    return *field ? 0 : out_of_memory(error);
}

void mt_options_free(struct mt_options *options)
{
    for (size_t i = 0; i < NUM_SETTINGS; i++) {
        if (settings[i].kind == TEXT) {
            free(*(char **)field_of(options, &settings[i]));
        } else if (settings[i].kind == LIST) {
            struct mt_string_list *list = field_of(options, &settings[i]);
            for (size_t k = 0; k < list->count; k++)
                free(list->items[k]);
            free(list->items);
        }
    }
    memset(options, 0, sizeof *options);
}

static int set_defaults(struct mt_options *options, struct mt_error *error)
{
    memset(options, 0, sizeof *options);
    for (size_t i = 0; i < NUM_SETTINGS; i++) {
        int r =
            settings[i].initial ? mt_options_set(options, settings[i].key, settings[i].initial, error) : 0;
        if (r < 0)
            return r;
    }
    return 0;
}

/* "state_dir" to "state-dir". */
static void flag_of(const struct setting *setting, char flag[32])
{
    snprintf(flag, 32, "%s", setting->key);
    for (char *c = flag; *c; c++)
        if (*c == '_')
            *c = '-';
}

static void print_help(void)
{
    printf("Usage: megatraind [OPTION]...\n"
           "\n"
           "The MegaTrain daemon: queues training jobs, runs each in a worker process of its\n"
           "own, and serves the HTTP API. Runs in the foreground and logs to standard error.\n"
           "\n"
           "  --config FILE             settings, one key a line (default " MT_OPTIONS_DEFAULT_CONFIG ",\n"
           "                            where it exists); every option below is also a key\n"
           "                            there, with _ for -\n");
    for (size_t i = 0; i < NUM_SETTINGS; i++) {
        char flag[32], head[64];
        flag_of(&settings[i], flag);
        snprintf(head, sizeof head, "--%s%s%s", flag, *settings[i].placeholder ? " " : "",
                 settings[i].placeholder);
        printf("  %-25s ", head);
        for (const char *line = settings[i].help; line;) {
            size_t length = strcspn(line, "\n");
            bool last = line[length] == '\0';
            printf("%.*s%s", (int)length, line, last ? "" : "\n                            ");
            line = last ? NULL : line + length + 1;
        }
        if (settings[i].initial)
            printf(" (default %s)", settings[i].initial);
        putchar('\n');
    }
    printf("  --help                    this text\n"
           "  --version                 the version\n"
           "\n"
           "SIGTERM and SIGINT: workers save, their jobs go back to the queue, exit 0; a second\n"
           "one hurries. Exit: 64 usage, 69 an address is in use, 73 the state folder cannot be\n"
           "used, 75 another daemon has it, 78 bad configuration.\n"
           "\n"
           "Example: megatraind --state-dir ~/megatrain --listen 127.0.0.1:8642 --allow-path /srv/models\n");
}

/* Which keys the command line gave. */
struct given {
    bool keys[NUM_SETTINGS];
};

/* What is allowed adds up; everything else on the command line replaces what the file says. */
static bool is_given(const char *key, void *context)
{
    const struct given *given = context;
    const struct setting *setting = find_setting(key);
    return setting && given->keys[setting - settings] && strncmp(key, "allow_", 6) != 0;
}

static enum mt_options_verdict read_flags(int argc, char **argv, struct mt_options *options,
                                          struct given *given, const char **config, struct mt_error *error)
{
    struct option flags[NUM_SETTINGS + 4];
    char names[NUM_SETTINGS][32];
    memset(flags, 0, sizeof flags);
    for (size_t i = 0; i < NUM_SETTINGS; i++) {
        flag_of(&settings[i], names[i]);
        flags[i] = (struct option){names[i], settings[i].kind == SWITCH ? no_argument : required_argument,
                                   NULL, (int)(1000 + i)};
    }
    flags[NUM_SETTINGS] = (struct option){"config", required_argument, NULL, 'c'};
    flags[NUM_SETTINGS + 1] = (struct option){"help", no_argument, NULL, 'h'};
    flags[NUM_SETTINGS + 2] = (struct option){"version", no_argument, NULL, 'v'};
    optind = 1;
    opterr = 0;
    for (int c; (c = getopt_long(argc, argv, ":", flags, NULL)) != -1;) {
        if (c == 'h') {
            print_help();
            return MT_OPTIONS_EXIT;
        }
        if (c == 'v') {
            printf("megatraind %s\n", MT_VERSION);
            return MT_OPTIONS_EXIT;
        }
        if (c == 'c') {
            *config = optarg;
        } else if (c >= 1000) {
            const struct setting *setting = &settings[c - 1000];
            if (mt_options_set(options, setting->key, optarg ? optarg : "yes", error) < 0) {
                if (error)
                    error->reason = MT_REASON_USAGE;
                mt_error_prefix(error, "--%s", names[c - 1000]);
                return MT_OPTIONS_FAIL;
            }
            given->keys[c - 1000] = true;
        } else {
            const char *word = argv[optind - 1];
            mt_error_set(error, -EINVAL, MT_REASON_USAGE,
                         c == ':' ? "%s needs a value; megatraind --help lists the options"
                                  : "unknown option %s; megatraind --help lists the options",
                         word);
            return MT_OPTIONS_FAIL;
        }
    }
    if (optind < argc) {
        mt_error_set(error, -EINVAL, MT_REASON_USAGE,
                     "unexpected \"%s\"; megatraind --help lists the options", argv[optind]);
        return MT_OPTIONS_FAIL;
    }
    return MT_OPTIONS_RUN;
}

enum mt_options_verdict mt_options_read(int argc, char **argv, struct mt_options *options,
                                        struct mt_error *error)
{
    struct given given = {0};
    const char *config = NULL;
    if (set_defaults(options, error) < 0)
        return MT_OPTIONS_FAIL;
    enum mt_options_verdict verdict = read_flags(argc, argv, options, &given, &config, error);
    if (verdict != MT_OPTIONS_RUN)
        return verdict;
    if (!config && access(MT_OPTIONS_DEFAULT_CONFIG, F_OK) < 0 && errno == ENOENT)
        return MT_OPTIONS_RUN;
    if (mt_options_read_file(config ? config : MT_OPTIONS_DEFAULT_CONFIG, options, is_given, &given, error) <
        0)
        return MT_OPTIONS_FAIL;
    return MT_OPTIONS_RUN;
}
