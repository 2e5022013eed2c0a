/* `megatrain inspect`: what a model's files hold. */
#include "core/plan/inspect.h"

#include "core/base/cleanup.h"
#include "core/base/size.h"
#include "daemon/cli/cli.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char usage[] =
    "Usage: megatrain inspect PATH [--json]\n"
    "\n"
    "Prints a model's tensors, types, metadata and tokenizer, and what of it is not supported. PATH is a "
    "Hugging\n"
    "Face folder, a checkpoint, the folder of a run or job (its final checkpoint, else its newest one), a "
    "GGUF\n"
    "file, a .safetensors file or its index; or ollama:NAME:TAG, or Org/Model in ./models or the local hub\n"
    "cache.\n"
    "\n"
    "  --json   all of it as one JSON object\n"
    "\n"
    "Exit: 0 when all of it is supported, 65 when not.\n"
    "\n"
    "Examples:\n"
    "  megatrain inspect SmolLM2-135M-Instruct.Q4_1.gguf\n"
    "  megatrain inspect runs/demo/checkpoints/final --json | jq '.model.parameters'\n";

static void print_value(const json_t *value)
{
    mt_autofree char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(9));
    puts(text ? text : "?");
}

/* An object, one key a line. */
static void print_object(const char *title, const json_t *object)
{
    const char *key;
    json_t *value;
    if (!json_object_size(object))
        return;
    printf("\n%s\n", title);
    json_object_foreach((json_t *)(uintptr_t)object, key, value)
    {
        printf("  %-40s ", key);
        print_value(value);
    }
}

static void print_tensors(const json_t *report)
{
    size_t i, k;
    json_t *tensor, *size, *type;
    const char *name;
    char bytes[32];
    printf("\ntensors\n");
    json_array_foreach(json_object_get(report, "tensors"), i, tensor)
    {
        char shape[96] = "";
        json_array_foreach(json_object_get(tensor, "shape"), k, size)
        {
            const size_t used = strlen(shape);
            snprintf(shape + used, sizeof shape - used, "%s%" JSON_INTEGER_FORMAT, k ? ", " : "",
                     json_integer_value(size));
        }
        printf("  %-56s %-5s [%s]\n", json_string_value(json_object_get(tensor, "name")),
               json_string_value(json_object_get(tensor, "type")), shape);
    }
    printf("\ntypes\n");
    json_object_foreach(json_object_get(report, "types"), name, type) printf(
        "  %-8s %5" JSON_INTEGER_FORMAT " tensor%s, %s%s\n", name,
        json_integer_value(json_object_get(type, "tensors")),
        json_integer_value(json_object_get(type, "tensors")) == 1 ? "" : "s",
        mt_size_format((size_t)json_integer_value(json_object_get(type, "bytes")), bytes, sizeof bytes),
        json_is_true(json_object_get(type, "supported")) ? "" : "; not supported");
}

static void print_list(const char *title, const json_t *list)
{
    size_t i;
    json_t *item;
    if (!json_array_size(list))
        return;
    printf("\n%s\n", title);
    json_array_foreach(list, i, item) printf("  %s\n", json_string_value(item));
}

static void print_report(const json_t *report)
{
    const char *path = json_string_value(json_object_get(report, "path"));
    printf("%s: %s\n", path, json_string_value(json_object_get(report, "kind")));
    print_object("model", json_object_get(report, "model"));
    print_object("tokenizer", json_object_get(report, "tokenizer"));
    print_object("checkpoint", json_object_get(report, "checkpoint"));
    print_object("config", json_object_get(report, "config"));
    print_object("metadata", json_object_get(report, "metadata"));
    print_tensors(report);
    print_list("parts", json_object_get(report, "parts"));
    print_list("notes", json_object_get(report, "notes"));
    print_list("not supported, or wrong", json_object_get(report, "problems"));
}

int mt_cli_inspect(int argc, char **argv)
{
    static const struct option options[] = {
        {"json", no_argument, NULL, 'j'}, {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};
    bool as_json = false;
    for (int letter; (letter = mt_cli_option(argc, argv, "h", options)) != -1;) {
        if (letter == 'h')
            return fputs(usage, stdout), 0;
        if (letter == '?')
            return 64;
        as_json = as_json || letter == 'j';
    }
    if (optind + 1 != argc)
        return mt_cli_usage(argv[0], optind < argc ? "one PATH at a time" : "PATH is missing");
    struct mt_error error = {0};
    mt_autofree char *path = NULL;
    mt_autojson json_t *report = NULL;
    int r = mt_cli_find_model(argv[optind], &path, &error);
    if (r == 0)
        r = mt_inspect(path, &report, &error);
    if (r < 0)
        return mt_cli_fail(&error);
    if (as_json) {
        mt_autofree char *text = json_dumps(report, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
        if (!text)
            return mt_cli_complain("out of memory"), 70;
        puts(text);
    } else {
        print_report(report);
    }
    if (ferror(stdout) || fflush(stdout) == EOF)
        return 74;
    return json_array_size(json_object_get(report, "problems")) ? 65 : 0;
}
