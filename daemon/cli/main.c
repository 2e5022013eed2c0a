/* `megatrain`: the command line. Works alone, or as the daemon's client. */
#include "core/base/nearest.h"
#include "core/base/version.h"
#include "core/device/open.h"
#include "daemon/cli/cli.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help;
    bool client; /* talks to the daemon */
} commands[] = {
    {"train", mt_cli_train, "train a job in this process", false},
    {"plan", mt_cli_plan, "what a job takes and how long its steps last, without running it", false},
    {"data", mt_cli_data, "show what of a job's data will be learned, before the first step", false},
    {"generate", mt_cli_generate, "ask a model or a checkpoint for text", false},
    {"tokenize", mt_cli_tokenize, "show a text's token ids, or the text of token ids", false},
    {"render", mt_cli_render, "show a conversation as the model's chat template renders it", false},
    {"inspect", mt_cli_inspect, "show a model's tensors, metadata and tokenizer, and what is not supported",
     false},
    {"schema", mt_cli_schema, "print what a job document may hold, as JSON Schema or Markdown", false},
    {"devices", mt_cli_devices, "list what this machine computes on", false},
    {"models", mt_cli_models, "list the models on this machine, or the families that can be trained", false},
    {"submit", mt_cli_submit, "give a job to the daemon", true},
    {"jobs", mt_cli_jobs, "list jobs", true},
    {"show", mt_cli_show, "show one job", true},
    {"watch", mt_cli_watch, "follow a job to its end; exit code for CI", true},
    {"logs", mt_cli_logs, "print a job's log", true},
    {"pause", mt_cli_pause, "save a checkpoint and free the device", true},
    {"resume", mt_cli_resume, "go on with a paused or failed job", true},
    {"checkpoint", mt_cli_checkpoint, "have a running job save a checkpoint, and go on", true},
    {"cancel", mt_cli_cancel, "end a job for good", true},
    {"delete", mt_cli_delete, "remove a job that has ended, and its files", true},
};

#define NUM_COMMANDS (sizeof commands / sizeof *commands)

static void print_commands(bool client)
{
    for (size_t i = 0; i < NUM_COMMANDS; i++) {
        if (commands[i].client == client)
            printf("  %-10s %s\n", commands[i].name, commands[i].help);
    }
}

static void print_help(void)
{
    puts("Usage: megatrain COMMAND [ARGUMENTS]\n"
         "\n"
         "Trains large language models at full precision on one machine.\n"
         "\n"
         "On its own:");
    print_commands(false);
    puts("\nWith the daemon, megatraind (MEGATRAIN_URL, http://127.0.0.1:8642 without; MEGATRAIN_TOKEN):");
    print_commands(true);
    puts("\nmegatrain COMMAND --help tells more, with examples. A first job:\n"
         "\n"
         "  cat > job.yaml <<END\n"
         "  model: {architecture: llama, hidden_size: 256, num_layers: 4, num_attention_heads: 4}\n"
         "  dataset: {path: texts, max_seq_len: 256}\n"
         "  training: {max_steps: 200, learning_rate: 1e-3}\n"
         "  END\n"
         "  megatrain train job.yaml\n"
         "\n"
         "Exit codes: 0 done, 64 wrong usage, 65 bad data or model, 69 no daemon, 70 failed, 74 I/O error,\n"
         "75 stopped and resumable, 78 bad job document.");
}

static const struct command *find_command(const char *name)
{
    for (size_t i = 0; i < NUM_COMMANDS; i++) {
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    }
    return NULL;
}

static int unknown_command(const char *name)
{
    const char *best = NULL;
    struct mt_nearest nearest = {name, 3};
    for (size_t i = 0; i < NUM_COMMANDS; i++) {
        if (mt_nearest_is(&nearest, commands[i].name))
            best = commands[i].name;
    }
    if (best)
        mt_cli_complain("unknown command \"%s\"; did you mean \"%s\"?", name, best);
    else
        mt_cli_complain("unknown command \"%s\"; megatrain --help lists them", name);
    return 64;
}

/* What was printed must have come where it should, unless its reader has gone, as that of `| head` does. */
static int written(int code)
{
    struct stat status;
    const bool piped =
        fstat(STDOUT_FILENO, &status) == 0 && (S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode));
    if ((fflush(stdout) == 0 && !ferror(stdout)) || piped)
        return code;
    mt_cli_complain("the output could not be written whole; is the disk full?");
    return code ? code : 74;
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : NULL;
    mt_blas_start_alone(argv);
    signal(SIGPIPE, SIG_IGN); /* a closed pipe is a write error like any other */
    signal(SIGXFSZ, SIG_IGN); /* and so is a file that may not grow */
    if (!name) {
        print_help();
        return 64;
    }
    if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0)
        return puts("megatrain " MT_VERSION), 0;
    if (strcmp(name, "help") == 0 && argc > 2) {
        static char option[] = "--help";
        char *help[] = {argv[2], option, NULL};
        const struct command *asked = find_command(argv[2]);
        return asked ? asked->run(2, help) : unknown_command(argv[2]);
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0)
        return print_help(), 0;
    const struct command *command = find_command(name);
    return command ? written(command->run(argc - 1, argv + 1)) : unknown_command(name);
}
