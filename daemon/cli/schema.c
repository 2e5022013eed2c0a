/* `megatrain schema`: what a job document may hold. */
#include "daemon/cli/cli.h"

#include <stdio.h>
#include <stdlib.h>

static const char help[] =
    "Usage: megatrain schema [--markdown]\n"
    "\n"
    "Prints the JSON Schema (2020-12) of the job document, for editors and validators:\n"
    "\n"
    "  megatrain schema > job.schema.json\n"
    "\n"
    "and at the top of a YAML file, for editors with yaml-language-server:\n"
    "\n"
    "  # yaml-language-server: $schema=job.schema.json\n"
    "\n"
    "  --markdown   the same for people, as docs/job.md has it\n";

int mt_cli_schema(int argc, char **argv)
{
    static const struct option options[] = {
        {"markdown", no_argument, NULL, 'm'}, {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};
    bool markdown = false;
    for (int letter; (letter = mt_cli_option(argc, argv, "h", options)) != -1;) {
        if (letter == 'h')
            return fputs(help, stdout), 0;
        if (letter == '?')
            return 64;
        markdown = true;
    }
    if (optind < argc)
        return mt_cli_usage(argv[0], "unexpected argument \"%s\"", argv[optind]);
    char *text = NULL;
    json_t *schema = NULL;
    if (markdown)
        text = mt_job_markdown();
    else if ((schema = mt_job_schema()) != NULL)
        text = json_dumps(schema, JSON_INDENT(2) | JSON_REAL_PRECISION(15));
    json_decref(schema);
    if (!text) {
        mt_cli_complain("out of memory");
        return 70;
    }
    printf(markdown ? "%s" : "%s\n", text);
    free(text);
    return ferror(stdout) || fflush(stdout) == EOF ? 74 : 0;
}
