/* `megatrain data`: what of a job's data will be learned, before an hour of compute is spent on it. */
#include "core/base/cleanup.h"
#include "core/base/pool.h"
#include "core/train/preview.h"
#include "daemon/cli/cli.h"
#include "daemon/cli/job_file.h"
#include "daemon/cli/table.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
    "Usage: megatrain data [--config] JOB [--show N] [--rows N] [--data-path PATH]\n"
    "       [--set KEY=VALUE]... [--json]\n"
    "\n"
    "Reads the data of a job as the run would and shows it: samples, token by token, with the learned ones\n"
    "marked, their rendered text, what was dropped or cut and why, and how long the samples are. Needs the\n"
    "model's tokenizer and template; neither weights nor a GPU.\n"
    "\n"
    "  --config JOB       the job document\n"
    "  --show N           so many samples, the first ones (3; 0 for none)\n"
    "  --rows N           reads only the first N rows\n"
    "  --data-path PATH   a file or folder to read instead of the document's dataset\n"
    "  --set KEY=VALUE    a value of the document by its dotted key, as often as needed\n"
    "  --json             all of it as JSON, for programs\n"
    "\n"
    "Learned tokens are green on a terminal, and stand between [[ and ]] elsewhere; | parts one token from\n"
    "the next.\n"
    "\n"
    "Examples:\n"
    "  megatrain data job.yaml\n"
    "  megatrain data --config job.yaml --show 1 --set dataset.template=chatml\n"
    "  megatrain data job.yaml --show 0 --json | jq .dropped\n"
    "\n"
    "Exit: 0 there is something to learn, 64 usage, 65 bad data or model, 78 bad job document.\n";

enum {
    OPTION_SHOW = 256,
    OPTION_ROWS,
    OPTION_JSON,
};

static const struct option long_options[] = {
    {"config", required_argument, NULL, MT_JOB_OPTION_CONFIG},
    {"show", required_argument, NULL, OPTION_SHOW},
    {"rows", required_argument, NULL, OPTION_ROWS},
    MT_JOB_OPTIONS_CHANGES,
    {"json", no_argument, NULL, OPTION_JSON},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

struct command {
    struct mt_job_file job;
    long show, rows;
    bool as_json, help;
};

/* 0, or the exit code after a complaint. */
static int parse(int argc, char **argv, struct command *command)
{
    int code;
    for (int option; (option = mt_cli_option(argc, argv, "h", long_options)) != -1;) {
        switch (option) {
        case OPTION_SHOW:
            if (!mt_cli_number("--show", optarg, 0, MT_PREVIEW_MAX_SHOW, &command->show))
                return mt_reason_exit_code(MT_REASON_USAGE);
            break;
        case OPTION_ROWS:
            if (!mt_cli_number("--rows", optarg, 1, LONG_MAX, &command->rows))
                return mt_reason_exit_code(MT_REASON_USAGE);
            break;
        case OPTION_JSON:
            command->as_json = true;
            break;
        case 'h':
            command->help = true;
            return 0;
        default:
            code = mt_job_file_option(&command->job, "data", option, optarg);
            if (code)
                return code;
        }
    }
    if (optind < argc && !command->job.file)
        command->job.file = argv[optind++];
    if (optind < argc)
        return mt_cli_usage("data", "'%s' is one argument too many", argv[optind]);
    return command->job.file ? 0 : mt_cli_usage("data", "name a job document: megatrain data JOB");
}

/* --- printing ------------------------------------------------------------------------------------------ */

static json_int_t number(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

/* A text of others, safe for a terminal. */
static void print_safe(const json_t *text, const char *keep)
{
    mt_autofree char *copy = strdup(json_string_value(text) ? json_string_value(text) : "");
    if (copy)
        mt_text_make_safe(copy, strlen(copy), keep);
    fputs(copy ? copy : "", stdout);
}

/* A token on one line: a line end in it is shown, and then made. */
static void print_piece(const char *piece)
{
    for (; *piece; piece++) {
        if (*piece == '\n')
            fputs(piece[1] == '\n' ? "\\n" : "\\n\n    ", stdout);
        else if (*piece == '\t')
            fputs("\\t", stdout);
        else
            putchar((unsigned char)*piece < ' ' || *piece == 0x7f ? '?' : *piece);
    }
}

static void print_tokens(const json_t *sample, bool colour)
{
    const json_t *pieces = json_object_get(sample, "pieces"), *learned = json_object_get(sample, "learned");
    const char *begin = colour ? "\033[32m" : "[[", *end = colour ? "\033[0m" : "]]";
    bool marked = false;
    fputs("    ", stdout);
    for (size_t t = 0; t < json_array_size(pieces); t++) {
        const bool mark = json_integer_value(json_array_get(learned, t)) != 0;
        if (marked && !mark)
            fputs(end, stdout);
        if (t)
            fputs(colour ? "\033[2m|\033[22m" : "|", stdout);
        if (mark && !marked)
            fputs(begin, stdout);
        marked = mark;
        print_piece(json_string_value(json_array_get(pieces, t)));
    }
    printf("%s\n", marked ? end : "");
}

static void print_text(const json_t *text)
{
    mt_autofree char *copy = strdup(json_string_value(text) ? json_string_value(text) : "");
    if (!copy)
        return;
    mt_text_make_safe(copy, strlen(copy), "\n\t");
    for (char *line = copy, *next; line; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        printf("  > %s\n", line);
    }
}

static void print_sample(const json_t *sample, bool colour)
{
    size_t targets = 0;
    const json_t *learned = json_object_get(sample, "learned");
    for (size_t t = 0; t < json_array_size(learned); t++)
        targets += json_integer_value(json_array_get(learned, t)) != 0;
    printf("row %" JSON_INTEGER_FORMAT ": %zu tokens, %zu of them learned%s\n", number(sample, "row") + 1,
           json_array_size(learned), targets,
           json_is_true(json_object_get(sample, "validation")) ? " (held out to measure val_loss)" : "");
    print_tokens(sample, colour);
    print_text(json_object_get(sample, "text"));
    putchar('\n');
}

static void print_dropped(const json_t *dropped)
{
    size_t i;
    json_t *drop;
    json_array_foreach(dropped, i, drop)
    {
        const json_t *rows = json_object_get(drop, "rows"), *why = json_object_get(drop, "why");
        printf("dropped    %" JSON_INTEGER_FORMAT " (%s): row", number(drop, "count"),
               json_string_value(json_object_get(drop, "reason")));
        for (size_t k = 0; k < json_array_size(rows) && k < 10; k++)
            printf("%s %" JSON_INTEGER_FORMAT,
                   k                           ? ","
                   : json_array_size(rows) > 1 ? "s"
                                               : "",
                   json_integer_value(json_array_get(rows, k)) + 1);
        fputs(json_array_size(rows) > 10 ? ", ..." : "", stdout);
        if (why) {
            fputs("; the first: ", stdout);
            print_safe(why, "");
        }
        putchar('\n');
    }
}

#define BAR_WIDTH 40

static void print_lengths(const json_t *lengths)
{
    const json_t *histogram = json_object_get(lengths, "histogram");
    json_int_t most = 1;
    size_t i;
    json_t *bucket;
    json_array_foreach(histogram, i, bucket)
    {
        const json_int_t count = json_integer_value(json_array_get(bucket, 1));
        most = count > most ? count : most;
    }
    printf("lengths    %" JSON_INTEGER_FORMAT " to %" JSON_INTEGER_FORMAT " tokens, %.1f in the mean\n",
           number(lengths, "min"), number(lengths, "max"), json_real_value(json_object_get(lengths, "mean")));
    json_array_foreach(histogram, i, bucket)
    {
        const json_int_t from = json_integer_value(json_array_get(bucket, 0));
        const json_int_t count = json_integer_value(json_array_get(bucket, 1));
        const int width = (int)((count * BAR_WIDTH + most - 1) / most);
        printf("  %7" JSON_INTEGER_FORMAT " - %-7" JSON_INTEGER_FORMAT " %.*s%*s %" JSON_INTEGER_FORMAT "\n",
               from, 2 * from - 1, width, "########################################", BAR_WIDTH - width, "",
               count);
    }
}

static void print(const json_t *document, bool colour)
{
    size_t i;
    json_t *sample;
    json_array_foreach(json_object_get(document, "show"), i, sample)
    {
        print_sample(sample, colour);
    }
    printf("template   %s\n", json_string_value(json_object_get(document, "template")));
    printf("rows       %" JSON_INTEGER_FORMAT " in %" JSON_INTEGER_FORMAT " file%s%s\n",
           number(document, "rows"), number(document, "files"), number(document, "files") == 1 ? "" : "s",
           json_is_false(json_object_get(document, "complete")) ? "; there are more" : "");
    printf("samples    %" JSON_INTEGER_FORMAT ": %" JSON_INTEGER_FORMAT
           " to train on in %" JSON_INTEGER_FORMAT " sequences, %" JSON_INTEGER_FORMAT " to validate\n",
           number(document, "samples"), number(document, "train_samples"),
           number(document, "train_sequences"), number(document, "val_samples"));
    printf("tokens     %" JSON_INTEGER_FORMAT ", %" JSON_INTEGER_FORMAT " of them learned\n",
           number(document, "tokens"), number(document, "target_tokens"));
    if (number(document, "truncated"))
        printf("truncated  %" JSON_INTEGER_FORMAT " (dataset.max_seq_len)\n", number(document, "truncated"));
    if (number(document, "tools_unwritten"))
        printf("tools      %" JSON_INTEGER_FORMAT " conversations have tools or calls of them, which the "
               "template does not write:\n           the model sees and learns nothing of them\n",
               number(document, "tools_unwritten"));
    if (number(document, "windowed"))
        printf("windows    %" JSON_INTEGER_FORMAT " documents are longer than dataset.max_seq_len\n",
               number(document, "windowed"));
    print_dropped(json_object_get(document, "dropped"));
    print_lengths(json_object_get(document, "lengths"));
}

int mt_cli_data(int argc, char **argv)
{
    struct command command = {.show = 3};
    struct mt_error error = {0};
    struct mt_job *job = NULL;
    mt_autojson json_t *document = NULL;
    int code = parse(argc, argv, &command);
    if (code != 0)
        return code;
    if (command.help) {
        fputs(usage, stdout);
        return 0;
    }
    code = mt_job_file_parse(&command.job, MT_JOB_RUN, NULL, &job);
    if (code != 0)
        return code;
    struct mt_pool *pool = mt_pool_new(0);
    const struct mt_preview_options options = {.show = (size_t)command.show,
                                               .max_rows = (size_t)command.rows};
    int r = mt_preview_make(job, &options, pool, &document, &error);
    mt_pool_free(pool);
    mt_job_free(job);
    if (r < 0)
        return mt_cli_fail(&error);
    if (!command.as_json) {
        const char *plain = getenv("NO_COLOR");
        print(document, isatty(STDOUT_FILENO) && !(plain && *plain));
        return 0;
    }
    mt_autofree char *text = json_dumps(document, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    puts(text ? text : "");
    return text ? 0 : 70;
}
