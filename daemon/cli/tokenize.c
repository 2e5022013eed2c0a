/* `megatrain tokenize`: a text as the trainer sees it, and back. */
#include "core/base/cleanup.h"
#include "core/base/size.h"
#include "core/text/tokenizer.h"
#include "daemon/cli/cli.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INPUT_MAX_BYTES ((size_t)1 << 30)

static const char usage[] =
    "Usage: megatrain tokenize --model DIR|FILE.gguf [--no-special] < TEXT\n"
    "       megatrain tokenize --model DIR|FILE.gguf --decode [--no-special] < IDS\n"
    "\n"
    "Writes the ids that a model's tokenizer gives for the text on standard input, on one line, "
    "blank-separated: "
    "all of\n"
    "the text, its last newline too. Special tokens written out in the text count as such.\n"
    "\n"
    "  --model DIR|FILE.gguf  a Hugging Face folder, a checkpoint, or a GGUF file; `bytes` for an id a byte\n"
    "  --no-special           without what the tokenizer itself puts around a text (a begin token, mostly); "
    "with "
    "--decode,\n"
    "                         special tokens are left out\n"
    "  --decode               from ids (separated by white space or commas) back to the text\n"
    "\n"
    "Examples:\n"
    "  printf 'Hello, world' | megatrain tokenize --model DIR\n"
    "  printf 'Hello, world' | megatrain tokenize --model DIR | megatrain tokenize --model DIR --decode "
    "--no-special\n";

enum { OPTION_MODEL = 256, OPTION_NO_SPECIAL, OPTION_DECODE };

static const struct option long_options[] = {
    {"model", required_argument, NULL, OPTION_MODEL},
    {"no-special", no_argument, NULL, OPTION_NO_SPECIAL},
    {"decode", no_argument, NULL, OPTION_DECODE},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

struct request {
    const char *model;
    bool no_special, decode, help;
};

/* 0, or the exit code after a complaint. */
static int parse(int argc, char **argv, struct request *request)
{
    for (int option; (option = mt_cli_option(argc, argv, "h", long_options)) != -1;) {
        switch (option) {
        case OPTION_MODEL:
            request->model = optarg;
            break;
        case OPTION_NO_SPECIAL:
            request->no_special = true;
            break;
        case OPTION_DECODE:
            request->decode = true;
            break;
        case 'h':
            request->help = true;
            return 0;
        default:
            return mt_reason_exit_code(MT_REASON_USAGE);
        }
    }
    if (optind < argc)
        return mt_cli_usage("tokenize", "'%s' is one argument too many; the text is read from standard input",
                            argv[optind]);
    if (!request->model)
        return mt_cli_usage("tokenize", "--model DIR is missing");
    return 0;
}

static int read_input(struct mt_text *text, struct mt_error *error)
{
    char block[65536];
    int r = mt_text_append(text, "", 0);
    for (size_t got; r == 0 && (got = fread(block, 1, sizeof block, stdin)) > 0;) {
        if (text->bytes + got > INPUT_MAX_BYTES)
            return mt_error_set(error, -EFBIG, MT_REASON_BAD_DATA,
                                "the text on standard input is longer than 1 GiB");
        r = mt_text_append(text, block, got);
    }
    if (r == 0 && ferror(stdin))
        return mt_error_set_errno(error, MT_REASON_IO, "cannot read standard input");
    return r < 0 ? mt_error_set(error, r, MT_REASON_OUT_OF_MEMORY, "no memory for the text") : 0;
}

static int encode(const struct request *request, const struct mt_tokenizer *tokenizer,
                  const struct mt_text *text, struct mt_error *error)
{
    mt_cleanup(mt_ids_free) struct mt_ids ids = {0};
    int r = mt_tokenizer_encode(tokenizer, text->data, text->bytes, !request->no_special, &ids, error);
    if (r == 0)
        mt_tokenizer_single_begin(tokenizer, &ids, 0);
    for (size_t i = 0; r == 0 && i < ids.count; i++)
        printf("%s%" PRId32, i ? " " : "", ids.data[i]);
    if (r == 0)
        putchar('\n');
    return r;
}

static int read_ids(const struct mt_tokenizer *tokenizer, const struct mt_text *text, struct mt_ids *ids,
                    struct mt_error *error)
{
    const size_t size = mt_tokenizer_vocab_size(tokenizer);
    const char *const data = text->data ? text->data : "";
    for (const char *at = data;;) {
        at += strspn(at, " \t\r\n,[]");
        if (!*at)
            break;
        char *end;
        const long id = strtol(at, &end, 10);
        if (end == at || !strchr(" \t\r\n,[]", *end))
            return mt_error_set(error, -EINVAL, MT_REASON_BAD_DATA, "\"%.*s\" on standard input is not an id",
                                (int)mt_size_min(strcspn(at, " \t\r\n,[]"), 20), at);
        if (id < 0 || (size_t)id >= size)
            return mt_error_set(error, -EINVAL, MT_REASON_BAD_DATA,
                                "%ld is not an id of this tokenizer, which has 0 to %zu", id, size - 1);
        if (mt_ids_push(ids, (int32_t)id) < 0)
            return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory for the ids");
        at = end;
    }
    if (strlen(data) != text->bytes)
        return mt_error_set(error, -EINVAL, MT_REASON_BAD_DATA,
                            "standard input holds a zero byte, and no ids");
    return 0;
}

static int decode(const struct request *request, const struct mt_tokenizer *tokenizer,
                  const struct mt_text *text, struct mt_error *error)
{
    mt_cleanup(mt_ids_free) struct mt_ids ids = {0};
    mt_cleanup(mt_text_free) struct mt_text decoded = {0};
    int r = read_ids(tokenizer, text, &ids, error);
    if (r == 0)
        r = mt_tokenizer_decode(tokenizer, ids.data, ids.count, request->no_special, &decoded, error);
    if (r == 0)
        fwrite(decoded.data, 1, decoded.bytes, stdout);
    return r;
}

int mt_cli_tokenize(int argc, char **argv)
{
    struct request request = {0};
    struct mt_error error = {0};
    struct mt_tokenizer *tokenizer = NULL;
    mt_cleanup(mt_text_free) struct mt_text text = {0};
    const int code = parse(argc, argv, &request);
    if (code != 0)
        return code;
    if (request.help || !request.model) {
        fputs(usage, stdout);
        return 0;
    }
    mt_autofree char *model = NULL;
    int r = strcmp(request.model, "bytes") == 0 ? 0 : mt_cli_find_model(request.model, &model, &error);
    if (r == 0)
        r = mt_tokenizer_load(model ? model : request.model, &tokenizer, &error);
    if (r == 0)
        r = read_input(&text, &error);
    if (r == 0)
        r = request.decode ? decode(&request, tokenizer, &text, &error)
                           : encode(&request, tokenizer, &text, &error);
    mt_tokenizer_free(tokenizer);
    return r < 0 ? mt_cli_fail(&error) : 0;
}
