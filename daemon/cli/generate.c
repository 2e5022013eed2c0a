/* `megatrain generate`: asks a model's folder, a checkpoint or a run for text. */
#include "core/base/cleanup.h"
#include "core/infer/generator.h"
#include "core/job/job.h"
#include "core/train/checkpoint_list.h"
#include "daemon/cli/cli.h"

#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROMPT_MAX_BYTES ((size_t)16 << 20)

static const char usage[] =
    "Usage: megatrain generate --model MODEL [--prompt TEXT | --message TEXT | < TEXT] [options]\n"
    "\n"
    "Writes what the model says, as it comes. MODEL is a checkpoint, a Hugging Face folder, the folder of a\n"
    "run or job (its final checkpoint, else its newest one), the id of a job of the daemon (MEGATRAIN_URL), "
    "a\n"
    "GGUF file, ollama:NAME:TAG, or Org/Model or Org/Model:Q4_K_M in ./models, the local hub cache or LM\n"
    "Studio's folder. A checkpoint whose files are not those that were written is refused.\n"
    "\n"
    "  --prompt TEXT          go on from this text as it is (standard input when neither is given)\n"
    "  --message TEXT         ask with the model's chat template, as in training\n"
    "  --system TEXT          with --message: the system message\n"
    "  --max-new-tokens N     at most so many tokens (256)\n"
    "  --temperature T        0 takes the likeliest token each time (0)\n"
    "  --top-k N              sample from the N likeliest only (0: all)\n"
    "  --top-p P              sample from the likeliest that make up P of the probability (1)\n"
    "  --seed N               of the sampling (42)\n"
    "  --device NAME          auto, cpu, cuda:0 (auto)\n"
    "  --verbose              counts and speed, on standard error\n"
    "\n"
    "Examples:\n"
    "  megatrain generate --model runs/demo --prompt '412 ='\n"
    "  megatrain generate --model runs/contracts/checkpoints/step-00000050 --message 'Who are you?' "
    "--temperature 0.7\n";

enum {
    OPTION_MODEL = 256,
    OPTION_PROMPT,
    OPTION_MESSAGE,
    OPTION_SYSTEM,
    OPTION_MAX_NEW_TOKENS,
    OPTION_TEMPERATURE,
    OPTION_TOP_K,
    OPTION_TOP_P,
    OPTION_SEED,
    OPTION_DEVICE,
    OPTION_VERBOSE,
};

static const struct option long_options[] = {
    {"model", required_argument, NULL, OPTION_MODEL},
    {"prompt", required_argument, NULL, OPTION_PROMPT},
    {"message", required_argument, NULL, OPTION_MESSAGE},
    {"system", required_argument, NULL, OPTION_SYSTEM},
    {"max-new-tokens", required_argument, NULL, OPTION_MAX_NEW_TOKENS},
    {"temperature", required_argument, NULL, OPTION_TEMPERATURE},
    {"top-k", required_argument, NULL, OPTION_TOP_K},
    {"top-p", required_argument, NULL, OPTION_TOP_P},
    {"seed", required_argument, NULL, OPTION_SEED},
    {"device", required_argument, NULL, OPTION_DEVICE},
    {"verbose", no_argument, NULL, OPTION_VERBOSE},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

struct request {
    const char *model, *prompt, *message, *system;
    struct mt_generator_options options;
    struct mt_generation generation;
    bool verbose, help;
};

static atomic_bool interrupted;

static void on_interrupt(int signal_number)
{
    (void)signal_number;
    atomic_store(&interrupted, true);
}

static bool write_piece(void *context, const char *text, size_t bytes)
{
    (void)context;
    fwrite(text, 1, bytes, stdout);
    return fflush(stdout) == 0 && !atomic_load(&interrupted);
}

static bool parse_real(const char *option, const char *text, double smallest, double largest, double *value)
{
    char *end;
    *value = strtod(text, &end);
    if (end != text && *end == '\0' && *value >= smallest && *value <= largest)
        return true;
    mt_cli_usage("generate", "--%s takes a number from %g to %g, not '%s'", option, smallest, largest, text);
    return false;
}

/* 0, or the exit code after a complaint. */
static int parse(int argc, char **argv, struct request *request)
{
    for (int option; (option = mt_cli_option(argc, argv, "h", long_options)) != -1;) {
        bool good = true;
        long count = 0;
        switch (option) {
        case OPTION_MODEL:
            request->model = optarg;
            break;
        case OPTION_PROMPT:
            request->prompt = optarg;
            break;
        case OPTION_MESSAGE:
            request->message = optarg;
            break;
        case OPTION_SYSTEM:
            request->system = optarg;
            break;
        case OPTION_MAX_NEW_TOKENS:
            good = mt_cli_number("--max-new-tokens", optarg, 1, LONG_MAX, &count);
            request->generation.max_new_tokens = (size_t)count;
            break;
        case OPTION_TEMPERATURE:
            good = parse_real("temperature", optarg, 0, 100, &request->generation.sampling.temperature);
            break;
        case OPTION_TOP_K:
            good = mt_cli_number("--top-k", optarg, 0, LONG_MAX, &count);
            request->generation.sampling.top_k = (size_t)count;
            break;
        case OPTION_TOP_P:
            good = parse_real("top-p", optarg, 0.000001, 1, &request->generation.sampling.top_p);
            break;
        case OPTION_SEED:
            good = mt_cli_number("--seed", optarg, 0, LONG_MAX, &count);
            request->generation.seed = (uint64_t)count;
            break;
        case OPTION_DEVICE:
            request->options.device = optarg;
            break;
        case OPTION_VERBOSE:
            request->verbose = true;
            break;
        case 'h':
            request->help = true;
            return 0;
        default:
            good = false;
        }
        if (!good)
            return mt_reason_exit_code(MT_REASON_USAGE);
    }
    if (optind < argc)
        return mt_cli_usage("generate", "'%s' is one argument too many; quote a prompt with blanks",
                            argv[optind]);
    if (!request->model)
        return mt_cli_usage("generate", "--model DIR is missing");
    if (request->prompt && request->message)
        return mt_cli_usage("generate", "--prompt and --message exclude one another");
    if (request->system && !request->message)
        return mt_cli_usage("generate", "--system goes with --message");
    return 0;
}

static int read_standard_input(char **text, struct mt_error *error)
{
    size_t capacity = 65536, used = 0;
    char *data = malloc(capacity);
    while (data) {
        size_t got = fread(data + used, 1, capacity - used - 1, stdin);
        used += got;
        if (got == 0)
            break;
        if (capacity - used > 1)
            continue;
        capacity *= 2;
        char *grown = capacity <= PROMPT_MAX_BYTES ? realloc(data, capacity) : NULL;
        if (!grown) {
            free(data);
            return mt_error_set(error, -EFBIG, MT_REASON_BAD_DATA,
                                "the prompt on standard input is longer than 16 MiB");
        }
        data = grown;
    }
    if (!data)
        return mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory for the prompt");
    data[used] = '\0';
    if (strlen(data) != used) {
        free(data);
        return mt_error_set(error, -EINVAL, MT_REASON_BAD_DATA,
                            "the prompt on standard input has a zero byte");
    }
    *text = data;
    return 0;
}

static int generate(struct request *request, struct mt_error *error)
{
    mt_autofree char *standard_input = NULL;
    mt_autofree char *folder = NULL;
    struct mt_message messages[2];
    int result = mt_cli_find_model(request->model, &folder, error);
    if (result == 0)
        result = mt_cli_check_model(folder, error);
    if (result == 0 && !request->prompt && !request->message)
        result = read_standard_input(&standard_input, error);
    if (result < 0)
        return result;
    if (request->system)
        messages[request->generation.num_messages++] = (struct mt_message){
            .role = MT_CHAT_SYSTEM, .text = request->system, .bytes = strlen(request->system)};
    if (request->message)
        messages[request->generation.num_messages++] = (struct mt_message){
            .role = MT_CHAT_USER, .text = request->message, .bytes = strlen(request->message)};
    request->generation.messages = messages;
    request->generation.prompt = request->prompt ? request->prompt : standard_input;
    request->generation.piece = write_piece;
    request->options.folder = folder;

    struct mt_pool *pool = mt_pool_new(0);
    struct mt_generator *generator = NULL;
    struct mt_generation_result answer = {0};
    result = pool ? mt_generator_open(&request->options, pool, &generator, error)
                  : mt_error_set(error, -ENOMEM, MT_REASON_OUT_OF_MEMORY, "no memory for threads");
    if (result == 0)
        result = mt_generator_run(generator, &request->generation, &answer, error);
    if (result == 0) {
        putchar('\n');
        if (request->verbose)
            fprintf(stderr, "%zu tokens of prompt in %.2f s, %zu of answer at %.1f tokens/s; ended by %s\n",
                    answer.prompt_tokens, answer.prompt_seconds, answer.new_tokens,
                    (double)answer.new_tokens / (answer.answer_seconds > 0 ? answer.answer_seconds : 1e-9),
                    answer.end == MT_GENERATION_STOP     ? "an end token"
                    : answer.end == MT_GENERATION_LENGTH ? "the limit"
                                                         : "request");
    }
    mt_generator_close(generator);
    mt_pool_free(pool);
    request->generation.messages = NULL; /* they were this function's */
    return result;
}

int mt_cli_generate(int argc, char **argv)
{
    struct request request = {
        .generation = {.max_new_tokens = 256, .sampling = {.top_p = 1}, .seed = 42},
    };
    int code = parse(argc, argv, &request);
    if (code != 0)
        return code;
    if (request.help) {
        fputs(usage, stdout);
        return 0;
    }
    struct mt_error error = {0};
    signal(SIGINT, on_interrupt);
    return generate(&request, &error) < 0 ? mt_cli_fail(&error) : 0;
}
