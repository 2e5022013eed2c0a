/* `megatrain models`: what can be trained. */
#include "core/model/family.h"
#include "daemon/cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "Usage: megatrain models --families [--markdown]\n"
    "\n"
    "  --families   the model families that can be trained: what `model_type` of a config.json may say,\n"
    "               one a line\n"
    "  --markdown   with what each is made of, as docs/models.md has it\n"
    "\n"
    "  megatrain models --families | grep qwen\n";

int mt_cli_models(int argc, char **argv)
{
    static const struct option options[] = {{"families", no_argument, NULL, 'f'},
                                            {"markdown", no_argument, NULL, 'm'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    bool families = false, markdown = false;
    for (int letter; (letter = mt_cli_option(argc, argv, "h", options)) != -1;) {
        if (letter == 'h')
            return fputs(help, stdout), 0;
        if (letter == '?')
            return 64;
        families = families || letter == 'f';
        markdown = markdown || letter == 'm';
    }
    if (optind < argc)
        return mt_cli_usage(argv[0], "unexpected argument \"%s\"", argv[optind]);
    if (!families)
        return mt_cli_usage(argv[0], "say --families");
    size_t count;
    const struct mt_family *const *table = mt_family_table(&count);
    char *text = markdown ? mt_family_markdown() : NULL;
    if (markdown && !text) {
        mt_cli_complain("out of memory");
        return 70;
    }
    if (markdown)
        fputs(text, stdout);
    for (size_t i = 0; i < count && !markdown; i++)
        if (i == 0 || strcmp(table[i]->model_type, table[i - 1]->model_type) != 0)
            puts(table[i]->model_type);
    free(text);
    return ferror(stdout) || fflush(stdout) == EOF ? 74 : 0;
}
