/* Messages and options of the command line. */
#include "core/base/cleanup.h"
#include "core/base/nearest.h"
#include "daemon/cli/cli.h"

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
    if (error->code == -ECONNREFUSED) /* of mt_client_send alone */
        return MT_EXIT_UNAVAILABLE;
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

/* The long option that was likely meant; NULL: none is near. */
static const char *nearest_option(const struct option *options, const char *text)
{
    const char *best = NULL;
    if (strncmp(text, "--", 2) != 0)
        return NULL;
    mt_autofree char *name = strndup(text + 2, strcspn(text + 2, "="));
    struct mt_nearest nearest = {name, name ? strlen(name) / 2 + 1 : 0};
    for (; name && options->name; options++) {
        if (mt_nearest_is(&nearest, options->name))
            best = options->name;
    }
    return best;
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
    if (letter == '?') {
        const char *nearest = nearest_option(options, argv[optind - 1]);
        mt_cli_usage(argv[0], nearest ? "unknown option %s (is --%s meant?)" : "unknown option %s",
                     argv[optind - 1], nearest);
    }
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

void mt_cli_tell_how_to_ask(FILE *out, const char *checkpoint)
{
    fprintf(out,
            "Ask it:\n"
            "  megatrain generate --model %s --prompt '...'    # goes on from a text\n"
            "  megatrain generate --model %s --message '...'   # answers, when it has learnt answers\n",
            checkpoint, checkpoint);
}
