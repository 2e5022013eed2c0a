/* `megatrain render`: a conversation as the trainer sees it. */
#include "core/base/cleanup.h"
#include "core/text/chat.h"
#include "daemon/cli/cli.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define CONVERSATION_MAX_BYTES ((size_t)64 << 20)

static const char usage[] =
    "Usage: megatrain render --model DIR|FILE.gguf [--template NAME] [--generation-prompt]\n"
    "       [--tokens | --learned] < CONVERSATION\n"
    "\n"
    "Writes a conversation as the model's chat template renders it, byte for byte. CONVERSATION is JSON: a "
    "list of\n"
    "messages as OpenAI's API has them, or an object with `messages` and, if wanted, `tools`, `documents` "
    "and\n"
    "other variables of the template.\n"
    "\n"
    "  --model DIR|FILE.gguf  a Hugging Face folder, a checkpoint or a GGUF file, for its template, special\n"
    "                         tokens and tokenizer\n"
    "  --template NAME        a named template instead of the model's own (alpaca, chatml, llama3, ...)\n"
    "  --generation-prompt    up to where the next answer begins\n"
    "  --tokens               the ids on one line, blank-separated, instead of the text\n"
    "  --learned              the parts that are learned in training, one JSON string a line\n"
    "\n"
    "Example:\n"
    "  echo '[{\"role\": \"user\", \"content\": \"Hello\"}]' | megatrain render --model DIR "
    "--generation-prompt\n";

enum { OPTION_MODEL = 256, OPTION_TEMPLATE, OPTION_GENERATION_PROMPT, OPTION_TOKENS, OPTION_LEARNED };

static const struct option long_options[] = {
    {"model", required_argument, NULL, OPTION_MODEL},
    {"template", required_argument, NULL, OPTION_TEMPLATE},
    {"generation-prompt", no_argument, NULL, OPTION_GENERATION_PROMPT},
    {"tokens", no_argument, NULL, OPTION_TOKENS},
    {"learned", no_argument, NULL, OPTION_LEARNED},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

struct request {
    const char *model, *template;
    bool generation_prompt, tokens, learned, help;
};

/* 0, or the exit code after a complaint. */
static int parse(int argc, char **argv, struct request *request)
{
    for (int option; (option = mt_cli_option(argc, argv, "h", long_options)) != -1;) {
        switch (option) {
        case OPTION_MODEL:
            request->model = optarg;
            break;
        case OPTION_TEMPLATE:
            request->template = optarg;
            break;
        case OPTION_GENERATION_PROMPT:
            request->generation_prompt = true;
            break;
        case OPTION_TOKENS:
            request->tokens = true;
            break;
        case OPTION_LEARNED:
            request->learned = true;
            break;
        case 'h':
            request->help = true;
            return 0;
        default:
            return mt_reason_exit_code(MT_REASON_USAGE);
        }
    }
    if (optind < argc)
        return mt_cli_usage("render",
                            "'%s' is one argument too many; the conversation is read from standard input",
                            argv[optind]);
    if (!request->model)
        return mt_cli_usage("render", "--model DIR is missing");
    if (request->tokens && request->learned)
        return mt_cli_usage("render", "--tokens and --learned exclude one another");
    return 0;
}

static int read_conversation(json_t **conversation, struct mt_error *error)
{
    mt_cleanup(mt_text_free) struct mt_text text = {0};
    char block[65536];
    for (size_t got; (got = fread(block, 1, sizeof block, stdin)) > 0;) {
        if (text.bytes + got > CONVERSATION_MAX_BYTES)
            return mt_error_set(error, -EFBIG, MT_REASON_BAD_DATA,
                                "the conversation on standard input is longer than 64 MiB");
        if (mt_text_append(&text, block, got) < 0)
            return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory for the conversation");
    }
    int r =
        mt_json_parse_exact(text.bytes ? text.data : "", text.bytes, "standard input", conversation, error);
    if (r < 0 && r != -ENOMEM)
        error->reason = MT_REASON_BAD_DATA;
    return r;
}

static int print_text(const struct request *request, const struct mt_chat *chat, const json_t *conversation,
                      struct mt_error *error)
{
    mt_cleanup(mt_chat_rendering_free) struct mt_chat_rendering rendering = {0};
    int r = mt_chat_render_json(chat, conversation, request->generation_prompt, &rendering, error);
    if (r < 0)
        return r;
    if (!request->learned) {
        fwrite(rendering.text.data, 1, rendering.text.bytes, stdout);
        return 0;
    }
    for (size_t i = 0; i < rendering.num_parts; i++) {
        const struct mt_chat_part *part = &rendering.parts[i];
        mt_autojson json_t *text = json_stringn(rendering.text.data + part->offset, part->bytes);
        mt_autofree char *line = text && part->answer ? json_dumps(text, JSON_ENCODE_ANY) : NULL;
        if (line)
            printf("%s\n", line);
    }
    return 0;
}

static int print_tokens(const struct request *request, const struct mt_chat *chat, const json_t *conversation,
                        struct mt_error *error)
{
    struct mt_tokenizer *tokenizer = NULL;
    mt_cleanup(mt_ids_free) struct mt_ids ids = {0};
    int r = mt_tokenizer_load(request->model, &tokenizer, error);
    if (r == 0)
        r = mt_chat_encode_json(chat, tokenizer, conversation, request->generation_prompt, &ids, NULL, error);
    for (size_t i = 0; r == 0 && i < ids.count; i++)
        printf("%s%" PRId32, i ? " " : "", ids.data[i]);
    if (r == 0)
        putchar('\n');
    mt_tokenizer_free(tokenizer);
    return r;
}

int mt_cli_render(int argc, char **argv)
{
    struct request request = {0};
    struct mt_error error = {0};
    struct mt_chat *chat = NULL;
    mt_autojson json_t *conversation = NULL;
    mt_autofree char *model = NULL;
    const int code = parse(argc, argv, &request);
    if (code != 0)
        return code;
    if (request.help) {
        fputs(usage, stdout);
        return 0;
    }
    int r = request.model ? mt_cli_find_model(request.model, &model, &error) : 0;
    request.model = model;
    if (r == 0)
        r = mt_chat_open(request.template, request.model, &chat, &error);
    if (r == 0)
        r = read_conversation(&conversation, &error);
    if (r == 0 && mt_chat_passes_over_tools(chat, conversation))
        mt_cli_complain("warning: the chat template does not write tools or calls of them");
    if (r == 0)
        r = request.tokens ? print_tokens(&request, chat, conversation, &error)
                           : print_text(&request, chat, conversation, &error);
    mt_chat_free(chat);
    return r < 0 ? mt_cli_fail(&error) : 0;
}
