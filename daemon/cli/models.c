/* `megatrain models`: what is there to train, and what can be trained. */
#include "core/base/cleanup.h"
#include "core/base/size.h"
#include "core/model/family.h"
#include "core/model/on_disk.h"
#include "daemon/cli/cli.h"
#include "daemon/cli/table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
    "Usage: megatrain models [--json | --families [--markdown]]\n"
    "\n"
    "Lists the models on this machine that a job or --model may name: in ./models, in the local hub cache, "
    "in LM\n"
    "Studio's folder and in Ollama's store. What cannot be trained says why. A daemon lists its own: GET "
    "/models.\n"
    "\n"
    "  --json       the list as the API gives it\n"
    "  --families   the model families that can be trained: what `model_type` of a config.json may say,\n"
    "               one a line\n"
    "  --markdown   with what each is made of, as docs/models.md has it\n"
    "\n"
    "Examples:\n"
    "  megatrain models\n"
    "  megatrain models --families | grep qwen\n";

static void add_row(struct mt_table *table, const json_t *model)
{
    char parameters[32] = "-", bytes[32] = "-";
    const json_t *count = json_object_get(model, "parameters");
    const json_int_t size = json_integer_value(json_object_get(model, "bytes"));
    if (json_is_integer(count))
        snprintf(parameters, sizeof parameters, "%.1f M", (double)json_integer_value(count) / 1e6);
    if (size > 0)
        mt_size_format((size_t)size, bytes, sizeof bytes);
    const char *const cells[] = {json_string_value(json_object_get(model, "id")),
                                 json_string_value(json_object_get(model, "model_type")), parameters, bytes,
                                 json_is_true(json_object_get(model, "usable")) ? "yes" : "no"};
    mt_table_add(table, cells);
}

static void print_models(const json_t *list)
{
    struct mt_table table = {.num_columns = 5, .titles = {"MODEL", "TYPE", "PARAMETERS", "SIZE", "USABLE"}};
    const json_t *models = json_object_get(list, "data");
    size_t i;
    json_t *model;
    if (json_array_size(models) == 0) {
        puts("No models in ./models, the local hub cache, LM Studio's folder or Ollama's store. A model "
             "elsewhere "
             "is named by its path.");
        return;
    }
    json_array_foreach(models, i, model) add_row(&table, model);
    mt_table_print(&table, stdout);
    mt_table_free(&table);
    json_array_foreach(models, i, model)
    {
        const char *reason = json_string_value(json_object_get(model, "reason"));
        char *line = NULL;
        if (!reason || asprintf(&line, "%s: %s", json_string_value(json_object_get(model, "id")), reason) < 0)
            continue;
        mt_text_make_safe(line, strlen(line), "");
        puts(line);
        free(line);
    }
}

static int list_models(bool as_json)
{
    mt_autojson json_t *list = NULL;
    struct mt_error error = {0};
    if (mt_models_on_disk("models", MT_MODELS_LISTED, &list, &error) < 0)
        return mt_cli_fail(&error);
    if (as_json) {
        mt_autofree char *text = json_dumps(list, JSON_INDENT(2));
        if (!text) {
            mt_cli_complain("out of memory");
            return 70;
        }
        puts(text);
    } else {
        print_models(list);
    }
    return ferror(stdout) || fflush(stdout) == EOF ? 74 : 0;
}

int mt_cli_models(int argc, char **argv)
{
    static const struct option options[] = {{"families", no_argument, NULL, 'f'},
                                            {"markdown", no_argument, NULL, 'm'},
                                            {"json", no_argument, NULL, 'j'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    bool families = false, markdown = false, as_json = false;
    for (int letter; (letter = mt_cli_option(argc, argv, "h", options)) != -1;) {
        if (letter == 'h')
            return fputs(help, stdout), 0;
        if (letter == '?')
            return 64;
        families = families || letter == 'f';
        markdown = markdown || letter == 'm';
        as_json = as_json || letter == 'j';
    }
    if (optind < argc)
        return mt_cli_usage(argv[0], "unexpected argument \"%s\"", argv[optind]);
    if (families ? as_json : markdown)
        return mt_cli_usage(argv[0], families ? "--json lists models, not families" : "say --families, too");
    if (!families)
        return list_models(as_json);
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
